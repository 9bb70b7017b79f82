"""What everyone measures together: mechanisms that declare themselves, and how fair they are."""

from sqlmadp.mechanism import baselines as baselines

from sqlmadp.mechanism import utilitarian as utilitarian  # isort: skip
from sqlmadp.mechanism import waterfilling as waterfilling  # isort: skip
from sqlmadp.mechanism import pareto as pareto  # isort: skip
from sqlmadp.mechanism import ratchet as ratchet  # isort: skip
from sqlmadp.mechanism.base import MECHANISMS, Mechanism, mechanism, registered

__all__ = ["MECHANISMS", "Mechanism", "mechanism", "registered"]
