"""Pareto: the least total error that leaves nobody worse off than Waterfilling does.

For a collective C with shares s_i, let wf_j(C) be analyst j's error under Waterfilling.  An
*agreement* says on which scopes blocks are measured; `Agreement.free` is the least total error
within the caps ``e_j <= wf_j``.  Pareto settles on an agreement for everyone who takes part, N, and

    select(N)   least  sum_j e_j   subject to  e_j <= wf_j(N)
                                   and         e_j <= e_j(free(N but i))   for every other i.

If no strategy that is found meets all caps, the next agreement is tried; the last one is
Waterfilling itself, for N and for every smaller collective.  A collective that is too large to
search for rows in settles on one strategy for everyone and for any fewer of them (`constant`),
for which the caps from smaller collectives hold by themselves.

What holds always, by construction:
    against Waterfilling   e_j(N) <= wf_j(N) <= wf_j(N but i): joining never costs anybody what
                           Waterfilling without the newcomer would have given them;
    sharing incentive      e_j(N) <= wf_j(N) <= wf_j({j}), what j's own selection gives j alone;
    non-interference       e_j(N) <= e_j(free(N but i)): nobody would be better off with one
                           analyst less under the agreement that was settled on.
What does not hold always: that nobody would be better off if the smaller collective settled on an
agreement of its own.  Pooling is in the way.  Let three ask for one column of two values each,
a and b with one share, c with two.  Without b, a and c gain by pooling what they measure; so do
b and c without a; but c can pool with only one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sqlmadp.errors import NotSupportedError
from sqlmadp.mechanism.agreement import Agreement, searchable
from sqlmadp.mechanism.base import JointStrategy, read_by_all
from sqlmadp.mechanism.collective import Chosen, Collective, Key
from sqlmadp.mechanism.constant import Constant
from sqlmadp.schema.marginal import Block
from sqlmadp.strategy.cache import StrategyCache
from sqlmadp.strategy.pooling import Pool, pooled_scopes
from sqlmadp.strategy.select import select
from sqlmadp.workload.workload import Workload

Matrix = NDArray[np.float64]

MARGIN = 0.002
"""How far below its error in a smaller collective an error is aimed at first."""

TINY = 1e-300
"""Stands for an error of 0 where it divides."""

ROUNDING = 1e-11
"""By how much more than another an error may seem to be."""


_settled: dict[tuple[StrategyCache | None, Key], Settled] = {}
"""What was settled before in this process: a plan and its certificate ask for the same."""


@dataclass(frozen=True, kw_only=True)
class Pareto:
    """Nobody worse off than under Waterfilling, and of all such strategies the least error.

    For a single analyst it is that analyst's own selection.  The same collective gets the same
    strategy, in whatever order its analysts are listed.
    """

    cache: StrategyCache | None = None

    def select(self, workloads: Sequence[Workload], shares: Sequence[Fraction]) -> JointStrategy:
        """Return the strategy of least error within the caps."""
        return self.settle(workloads, shares).select(workloads, shares)

    def settle(self, workloads: Sequence[Workload], shares: Sequence[Fraction]) -> Settled:
        """Return the mechanism with the agreement that suits these analysts."""
        everyone = Collective.of(workloads, shares)
        key = (self.cache, everyone.key)
        if key not in _settled:
            with threadpool_limits(limits=1):
                _settled[key] = self._settle(everyone)
        return _settled[key]

    def _settle(self, everyone: Collective) -> Settled:
        plain = Agreement(scopes=(), cache=self.cache)
        together = everyone.together()
        small = searchable(together)
        agreements = list(self._agreements(everyone)) if small else []
        large = [each for each in agreements if each.scopes and not each.fits(together)]
        if len(everyone.shares) > 1 and (not small or (large and large == agreements)):
            return self._constant(everyone, plain.free(everyone)) or Settled(plain, {})
        offers = [(each, each.free(everyone)) for each in agreements]
        offers.sort(key=lambda offer: float(everyone.counts @ offer[1].errors))
        for agreement, chosen in offers:
            settled = _capped(agreement, everyone, chosen)
            if settled is not None:
                return settled
        return Settled(plain, {everyone.key: plain.free(everyone)})

    def _constant(self, everyone: Collective, poured: Chosen) -> Settled | None:
        """Return the best of one strategy for whoever takes part; None if there is none."""
        if not poured.errors.any():  # Nobody asks anything.
            return None
        offers = []
        for agreed in (Constant.of, Constant.utilitarian):
            with suppress(NotSupportedError):  # Too large as a whole, not one by one.
                constant = agreed(everyone, poured, self.cache)
                offers.append((constant, constant.unless_harmful(everyone, poured)))
        if not offers:
            return None
        constant, chosen = min(offers, key=lambda offer: float(everyone.counts @ offer[1].errors))
        return Settled(constant, {everyone.key: chosen})

    def _agreements(self, everyone: Collective) -> Iterator[Agreement]:
        """Yield what could be agreed on: scopes pooled by parts, or those of Utilitarian."""
        if len(everyone.shares) == 1:
            return
        own = [select(member.workload, cache=self.cache).blocks for member in everyone.members]
        total = everyone.total
        parts = [float(sum(m.shares) / len(m.shares) / total) for m in everyone.members]
        counts = [len(member.shares) for member in everyone.members]
        workloads = [member.workload for member in everyone.members]
        pooled = tuple(pooled_scopes(Pool.of(workloads, counts, own, parts)))
        yield Agreement(scopes=pooled, cache=self.cache)
        if len({block.marginal.scope for blocks in own for block in blocks} - {()}) > 1:
            yield Agreement(scopes=pooled, search=False, cache=self.cache)
            try:
                best = select(everyone.together(), cache=self.cache).blocks
            except NotSupportedError:  # Too large to be selected for as a whole, not one by one.
                return
            scopes = {block.marginal.scope for blocks in (best, *own) for block in blocks}
            yield Agreement(scopes=tuple(sorted(scopes - {()})), cache=self.cache)


@dataclass(frozen=True, eq=False)
class Settled:
    """Pareto under an agreement: what everyone chose, and what fewer of them would choose."""

    agreement: Agreement | Constant
    known: dict[Key, Chosen]

    def select(self, workloads: Sequence[Workload], shares: Sequence[Fraction]) -> JointStrategy:
        """Return what was chosen for everyone; for others, the free choice."""
        collective = Collective.of(workloads, shares)
        if collective.key not in self.known:
            with threadpool_limits(limits=1):
                self.known[collective.key] = self.agreement.free(collective)
        strategy = self.known[collective.key].strategy
        return read_by_all(strategy.blocks, strategy.sensitivity, len(workloads))

    def interference(
        self, workloads: Sequence[Workload], shares: Sequence[Fraction]
    ) -> Matrix | None:
        """Return what leaving everyone out once does, where that takes no new selection."""
        if not isinstance(self.agreement, Constant):
            return None
        return self.agreement.interference(workloads, shares)


def _capped(agreement: Agreement, everyone: Collective, chosen: Chosen) -> Settled | None:
    """Return the least error with caps from every smaller collective; None if none is found."""
    known = {}
    limits = np.full(len(everyone.members), np.inf)
    worst = 1.0
    starts: list[Sequence[Block]] = [chosen.strategy.blocks]
    for smaller, places, newcomer in everyone.smaller():
        without = known[smaller.key] = agreement.free(smaller)
        limits[places] = np.minimum(limits[places], without.errors * (1 + ROUNDING))
        largest = float(((chosen.errors[places] + TINY) / (without.errors + TINY)).max())
        if largest > worst:
            joined = agreement.joined(smaller, without, newcomer)
            worst, starts = largest, [chosen.strategy.blocks, joined]
    tries = iter((1 - MARGIN, 1.0))
    while (chosen.errors > limits).any():
        slack = next(tries, None)
        if slack is None:
            return None
        chosen = agreement.best(everyone, limits * slack, starts)
    return Settled(agreement, known | {everyone.key: chosen})
