"""What everyone measures together: one module per mechanism, each declaring itself."""

from sqlmadp.mechanism import independent as independent

from sqlmadp.mechanism import identity as identity  # isort: skip
from sqlmadp.mechanism import utilitarian as utilitarian  # isort: skip
from sqlmadp.mechanism import weighted_utilitarian as weighted_utilitarian  # isort: skip
from sqlmadp.mechanism import waterfilling as waterfilling  # isort: skip
from sqlmadp.mechanism import pareto as pareto  # isort: skip
from sqlmadp.mechanism import ratchet as ratchet  # isort: skip
from sqlmadp.mechanism.base import MECHANISMS, Mechanism, mechanism, registered

__all__ = ["MECHANISMS", "Mechanism", "mechanism", "registered"]
