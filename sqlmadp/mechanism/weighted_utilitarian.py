"""Weighted Utilitarian: each workload counts relative to what its analyst gets alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sqlmadp.mechanism.base import JointStrategy, read_by_all
from sqlmadp.strategy.cache import StrategyCache
from sqlmadp.strategy.integer import S
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
        weighted = []
        for workload, share in zip(workloads, shares, strict=True):
            alone = select(workload, cache=self.cache).error / (S * float(share)) ** 2
            weighted.append(workload.scaled(1 / math.sqrt(alone)) if alone > 0 else workload)
        strategy = select(stacked(weighted), cache=self.cache)
        return read_by_all(strategy.blocks, S, len(workloads))
