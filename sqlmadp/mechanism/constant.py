"""A constant agreement: one strategy for everyone and for any fewer of them.

For collectives that are too large to search for rows in.  A is made of products of partitions, with
weights of the least total error within the caps ``e_j <= wf_j(N)`` for everyone who takes part, N;
wf_j is the error under Waterfilling.  Or A is what Utilitarian selects, if that is better and
within the caps.  For any collective C

    free(C)   A, if it leaves nobody in C worse off than Waterfilling does; else Waterfilling.

Without analyst i the same A is measured with what is left of the budget, so

    e_j(A, N) = (1 - s_i)^2 e_j(A, N but i) <= e_j(A, N but i)
    e_j(A, N) <= wf_j(N) <= wf_j(N but i)

and nobody would be better off with one analyst less, whichever of the two free(N but i) is.  What
is known without i is therefore known from N alone, and nothing is selected anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sqlmadp.mechanism import left_out
from sqlmadp.mechanism.agreement import FINE, ROOM
from sqlmadp.mechanism.base import JointStrategy, read_by_all
from sqlmadp.mechanism.collective import Chosen, Collective
from sqlmadp.mechanism.fairness import expected_errors, noise_variance, ratio
from sqlmadp.mechanism.waterfilling import Waterfilling
from sqlmadp.strategy.cache import StrategyCache
from sqlmadp.strategy.capped_products import capped_products
from sqlmadp.strategy.select import select
from sqlmadp.workload.workload import Workload

Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Constant:
    """Everyone measures one strategy, unless that harms one of those who are left."""

    strategy: JointStrategy
    cache: StrategyCache | None = None

    @classmethod
    def of(cls, everyone: Collective, plain: Chosen, cache: StrategyCache | None) -> Constant:
        """Return the agreement on the least total error; ``plain`` is Waterfilling for everyone.

        NotSupportedError if there are too many coordinates.
        """
        unit = noise_variance(1, everyone.total)
        # Whoever asks nothing has no error, and any cap will do.
        limits = np.where(plain.errors > 0, plain.errors * (1 - ROOM) / unit, 1.0)
        workloads = [member.workload for member in everyone.members]
        blocks = capped_products(workloads, everyone.counts, limits, FINE)
        return cls(read_by_all(blocks, FINE, 1), cache)

    @classmethod
    def utilitarian(
        cls, everyone: Collective, plain: Chosen, cache: StrategyCache | None
    ) -> Constant:
        """Return the agreement on what Utilitarian selects, whoever pays for it."""
        best = select(everyone.together(), cache=cache)
        return cls(read_by_all(best.blocks, best.total, 1), cache)

    def free(self, collective: Collective) -> Chosen:
        """Return the strategy, or Waterfilling if that is better for one of the collective."""
        pouring = Waterfilling(cache=self.cache)
        plain = collective.certified(pouring.select(collective.workloads, collective.shares))
        if len(collective.shares) == 1:
            return plain
        return self.unless_harmful(collective, plain)

    def unless_harmful(self, collective: Collective, plain: Chosen) -> Chosen:
        """Return the strategy, or ``plain`` if that is better for one of the collective."""
        chosen = collective.certified(self.strategy)
        return chosen if (chosen.errors <= plain.errors).all() else plain

    def interference(
        self, workloads: Sequence[Workload], shares: Sequence[Fraction]
    ) -> Matrix | None:
        """Return ``[i, j]``, by which ratio i's joining changes j's error; None if not at once."""
        pouring = Waterfilling(cache=self.cache)
        poured = left_out.interference(pouring, workloads, shares)
        if poured is None:
            return None
        total = sum(shares, Fraction(0))
        own = read_by_all(self.strategy.blocks, self.strategy.sensitivity, len(workloads))
        same = np.array(expected_errors(own, workloads, total))
        plain = np.array(expected_errors(pouring.select(workloads, shares), workloads, total))
        now = same if (same <= plain).all() else plain
        ratios = np.ones_like(poured)
        for i, share in enumerate(shares):
            others = np.flatnonzero(np.arange(len(workloads)) != i)
            left, without = same / float(1 - share / total) ** 2, plain / poured[i]
            if len(others) > 1 and (left <= without)[others].all():
                without = left
            ratios[i, others] = [ratio(now[j], without[j]) for j in others]
        return ratios
