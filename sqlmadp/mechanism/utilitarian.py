"""Utilitarian: the strategy that is best for all queries taken together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sqlmadp.mechanism.base import JointStrategy, read_by_all
from sqlmadp.strategy.cache import StrategyCache
from sqlmadp.strategy.select import select
from sqlmadp.workload.workload import Workload, stacked


@dataclass(frozen=True, kw_only=True)
class Utilitarian:
    """Collect first, then select: least total error, whoever pays for it [PWFM21].

    Neither the sharing incentive nor non-interference holds: an analyst with few queries
    can be drowned out by one with many.
    """

    cache: StrategyCache | None = None

    def select(self, workloads: Sequence[Workload], shares: Sequence[Fraction]) -> JointStrategy:
        """Return the strategy selected for all workloads stacked; shares do not matter."""
        strategy = select(stacked(workloads), cache=self.cache)
        return read_by_all(strategy.blocks, strategy.total, len(workloads))
