"""What everyone measures together: one module per mechanism, each declaring itself."""

from sqlmadp.core.mechanism import independent as independent

from sqlmadp.core.mechanism import identity as identity  # isort: skip
from sqlmadp.core.mechanism import utilitarian as utilitarian  # isort: skip
from sqlmadp.core.mechanism import weighted_utilitarian as weighted_utilitarian  # isort: skip
from sqlmadp.core.mechanism import waterfilling as waterfilling  # isort: skip
from sqlmadp.core.mechanism import pareto as pareto  # isort: skip
from sqlmadp.core.mechanism import ratchet as ratchet  # isort: skip
from sqlmadp.core.mechanism.base import MECHANISMS, Mechanism, mechanism, registered

__all__ = ["MECHANISMS", "Mechanism", "mechanism", "registered"]
