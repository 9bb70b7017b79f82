"""Weighted Utilitarian: each workload counts relative to what its analyst gets alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sqlmadp.mechanism.base import JointStrategy, read_by_all
from sqlmadp.strategy.cache import StrategyCache
from sqlmadp.strategy.select import select
from sqlmadp.workload.workload import Workload, stacked


@dataclass(frozen=True, kw_only=True)
class WeightedUtilitarian:
    """Minimise the sum of everyone's error divided by their error alone [PWFM21].

    The weight ``omega_i = 1 / Err_i(alone)`` multiplies the *error* of analyst i, so the rows of
    W_i are scaled by its square root.  Meant to favour the sharing incentive; nothing is proved.
    """

    cache: StrategyCache | None = None

    def select(self, workloads: Sequence[Workload], shares: Sequence[Fraction]) -> JointStrategy:
        """Return the strategy selected for the weighted workloads stacked."""
        strategy = select(self.together(workloads, shares), cache=self.cache)
        return read_by_all(strategy.blocks, strategy.total, len(workloads))

    def together(self, workloads: Sequence[Workload], shares: Sequence[Fraction]) -> Workload:
        """Return the weighted workloads stacked."""
        alone = [
            select(workload, cache=self.cache).error / float(share) ** 2
            for workload, share in zip(workloads, shares, strict=True)
        ]
        # Only proportions matter; against the least one, equal analysts keep their rows as is.
        least = min((error for error in alone if error > 0), default=1.0)
        return stacked(
            workload.scaled(math.sqrt(least / error)) if error > 0 else workload
            for workload, error in zip(workloads, alone, strict=True)
        )
