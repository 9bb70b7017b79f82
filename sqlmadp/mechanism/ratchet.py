"""Ratchet: analysts join one after the other, and nobody's error ever rises.

Let e_j(k) be analyst j's error once k analysts are in, with their shares of epsilon.  The first one
measures what that analyst would alone.  Joining, analyst k brings a share, and then

    least  sum_j e_j(k)    subject to  e_j(k) <= e_j(k - 1)    for everyone already in
                           and         e_k(k) <= the error of *pouring in*,

which measures all that was to be measured before, with the same weight, and beside it what
analyst k would measure alone with that share.  Pouring in only adds rows, so it satisfies
all of this, and it is the last candidate.  Every candidate is made of integers first, and its
errors are recomputed from those.

What holds always, by construction:
    ratchet             e_j(n) <= e_j(k) for everyone who was in at k, and every later n;
    sharing incentive   e_k(n) <= e_k(k) <= the error alone with the own share.
What does not hold always: that nobody would be better off had an earlier analyst never come, since
everything after that would have been chosen otherwise.  The certificate states it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sqlmadp.errors import NotSupportedError
from sqlmadp.mechanism import left_out
from sqlmadp.mechanism.agreement import FINEST, ROOM, searchable
from sqlmadp.mechanism.base import JointStrategy, read_by_all
from sqlmadp.mechanism.collective import Chosen, Collective, weighted
from sqlmadp.mechanism.fairness import noise_variance
from sqlmadp.mechanism.waterfilling import Part, pour_together, scaled_together
from sqlmadp.schema.marginal import Block
from sqlmadp.strategy.cache import StrategyCache
from sqlmadp.strategy.capped import Caps, capped, draft_of
from sqlmadp.strategy.integer import S, rounded
from sqlmadp.strategy.joint import Draft
from sqlmadp.strategy.layout import laid_over
from sqlmadp.strategy.scopes import split_by_scope
from sqlmadp.strategy.select import MOVE_ROWS, select
from sqlmadp.workload.workload import Workload

Matrix = NDArray[np.float64]

NEAR = 0.01
"""How far above Utilitarian's a total error may be for the search to be over."""

WORK = 4 * MOVE_ROWS
"""Groups of all scopes, times analysts, up to which rows are searched for at a join.

To leave everyone out once takes about half the square of the analysts in joins, each of which
takes time with the third power of the groups.
"""

Key = tuple[tuple[str, Fraction], ...]


@dataclass(frozen=True, kw_only=True)
class Ratchet:
    """Least total error at every join that leaves nobody already in worse off.

    The order of analysts matters: it is that of the plan.
    """

    cache: StrategyCache | None = None
    _known: dict[Key, JointStrategy | None] = field(default_factory=dict, repr=False, compare=False)

    def select(self, workloads: Sequence[Workload], shares: Sequence[Fraction]) -> JointStrategy:
        """Return what is measured once everyone is in."""
        return self._poured_after(self._searched(workloads, shares), workloads, shares)

    def joins(
        self, workloads: Sequence[Workload], shares: Sequence[Fraction]
    ) -> list[JointStrategy]:
        """Return what is measured after each analyst joined."""
        searched = self._searched(workloads, shares)
        return [
            self._poured_after(searched[:count], workloads[:count], shares[:count])
            for count in range(1, len(workloads) + 1)
        ]

    def interference(
        self, workloads: Sequence[Workload], shares: Sequence[Fraction]
    ) -> Matrix | None:
        """Return what leaving out those does who were poured in after the last search.

        Nobody who joined before them chose anything because of them.
        """
        searched = self._searched(workloads, shares)
        first = len(searched)
        if first == len(workloads):
            return None
        parts, _ = scaled_together(self._parts(searched[-1], workloads, shares))
        # The first analyst stands for all whom rows were searched for with.
        own = [parts[0], *([] for _ in searched[1:]), *parts[1:]]
        ratios = left_out.of_poured(own, workloads, first)
        next_in = [n for n in range(len(workloads)) if n != first]
        others = self._searched([workloads[n] for n in next_in], [shares[n] for n in next_in])
        if ratios is not None and len(others) > first:  # Whoever is next can be searched with.
            ratios[first] = np.nan
        return ratios

    def _searched(
        self, workloads: Sequence[Workload], shares: Sequence[Fraction]
    ) -> list[JointStrategy]:
        """Return what is measured after each join, up to the last that rows are searched for at.

        What is too large to be searched in stays so, whoever joins: the others are poured in.
        """
        found: list[JointStrategy] = []
        with threadpool_limits(limits=1):  # Threads that contend for small matrices are slower.
            for count in range(1, len(workloads) + 1):
                asking, bringing = workloads[:count], shares[:count]
                pairs = zip(asking, bringing, strict=True)
                key = tuple((w.fingerprint, share / shares[0]) for w, share in pairs)
                if key not in self._known:
                    self._known[key] = self._join(found[-1] if found else None, asking, bringing)
                strategy = self._known[key]
                if strategy is None:
                    break
                found.append(read_by_all(strategy.blocks, strategy.sensitivity, count))
        return found

    def _parts(
        self, before: JointStrategy, workloads: Sequence[Workload], shares: Sequence[Fraction]
    ) -> list[Part]:
        """Return what was to be measured, and what everybody after that would measure alone."""
        count = len(before.reads)
        late = [select(workload, cache=self.cache) for workload in workloads[count:]]
        pairs = zip(late, shares[count:], strict=True)
        own = [(strategy.blocks, strategy.total, share) for strategy, share in pairs]
        return [(before.blocks, before.sensitivity, sum(shares[:count], Fraction(0))), *own]

    def _poured_after(
        self,
        searched: Sequence[JointStrategy],
        workloads: Sequence[Workload],
        shares: Sequence[Fraction],
    ) -> JointStrategy:
        """Return what is measured once those after the last search are poured in, exactly."""
        if len(searched) == len(workloads):
            return searched[-1]
        return pour_together(self._parts(searched[-1], workloads, shares), len(workloads))

    def _join(
        self,
        before: JointStrategy | None,
        workloads: Sequence[Workload],
        shares: Sequence[Fraction],
    ) -> JointStrategy | None:
        """Return the best strategy once the last of the analysts has joined.

        None if there is too much to search in.
        """
        if before is None:
            own = select(workloads[0], cache=self.cache)
            return read_by_all(own.blocks, own.total, 1)
        collective = Collective.of(workloads, shares)
        pouring = pour_together(self._parts(before, workloads, shares), 1)
        together = collective.together()
        if not _searchable(together, pouring.blocks, len(workloads)):
            return None
        poured = collective.certified(pouring)
        if not poured.errors.any():  # Nobody asks anything.
            return poured.strategy
        known = Collective.of(workloads[:-1], shares[:-1])
        errors = known.certified(before).errors
        so_far = {m.workload.fingerprint: e for m, e in zip(known.members, errors, strict=True)}
        # The newcomer, and whoever asks the same, have the error of pouring in as their cap.
        so_far.pop(workloads[-1].fingerprint, None)
        caps = np.array(
            [
                so_far.get(member.workload.fingerprint, error)
                for member, error in zip(collective.members, poured.errors, strict=True)
            ]
        )
        best, total = poured, collective.counts @ poured.errors
        aims = np.where(caps > 0, caps * (1 - ROOM), 1.0) * float(collective.total) ** 2
        for start, goal in self._starts(collective, together, poured):
            if total <= (1 + NEAR) * goal:
                break
            grams = [2 * start.layout.gram_of(member.workload) for member in collective.members]
            found = capped(start, Caps(np.array(grams), collective.counts, aims))
            candidate = collective.certified(_integers(found))
            reached = collective.counts @ candidate.errors
            if (candidate.errors <= caps).all() and reached < total:
                best, total = candidate, reached
        return best.strategy

    def _starts(
        self, collective: Collective, together: Workload, poured: Chosen
    ) -> Iterator[tuple[Draft, float]]:
        """Yield drafts to start from, each with the total error that Utilitarian has.

        Half of what is best for all with half poured in, and both; none if there is too much to
        search in.
        """
        try:
            selected = select(together, cache=self.cache)
        except NotSupportedError:  # Too large to be selected for as a whole, not one by one.
            return
        best = selected.blocks
        goal = noise_variance(1, collective.total) * selected.error
        strategy = poured.strategy
        both = (*strategy.blocks, *best)
        if not _searchable(together, both, len(collective.shares)):
            return
        layout = laid_over(together, {block.marginal.scope for block in both})
        half = [
            *weighted(strategy.blocks, strategy.sensitivity, Fraction(1, 2)),
            *weighted(best, selected.total, Fraction(1, 2)),
        ]
        for blocks in (half, strategy.blocks, best):
            yield draft_of(blocks, layout), goal


def _searchable(together: Workload, blocks: Sequence[Block], analysts: int) -> bool:
    """Tell whether rows can be searched for on the scopes of some blocks."""
    if not searchable(together):
        return False
    layout = laid_over(together, {block.marginal.scope for block in blocks})
    groups = sum(scope.groups for scope in layout.scopes)
    return groups <= min(MOVE_ROWS, WORK // analysts)


def _integers(draft: Draft) -> JointStrategy:
    """Return a draft as integers whose columns sum to S, so that any share can be poured in."""
    blocks = rounded(draft, finest=FINEST)
    expanded = (block.expanded(alone=len(blocks) == 1) for block in blocks)
    return read_by_all([part for block in expanded for part in split_by_scope(block)], S, 1)
