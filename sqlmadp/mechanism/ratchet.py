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
from threadpoolctl import threadpool_limits

from sqlmadp.errors import NotSupportedError
from sqlmadp.mechanism.agreement import FINEST, ROOM
from sqlmadp.mechanism.base import JointStrategy, read_by_all
from sqlmadp.mechanism.collective import Chosen, Collective, weighted
from sqlmadp.mechanism.fairness import noise_variance
from sqlmadp.mechanism.waterfilling import pour_together
from sqlmadp.strategy.cache import StrategyCache
from sqlmadp.strategy.capped import Caps, capped, draft_of
from sqlmadp.strategy.integer import S, rounded
from sqlmadp.strategy.joint import Draft
from sqlmadp.strategy.layout import laid_over
from sqlmadp.strategy.scopes import split_by_scope
from sqlmadp.strategy.select import MOVE_ROWS, select
from sqlmadp.workload.workload import Workload

NEAR = 0.01
"""How far above Utilitarian's a total error may be for the search to be over."""

Key = tuple[tuple[str, Fraction], ...]


@dataclass(frozen=True, kw_only=True)
class Ratchet:
    """Least total error at every join that leaves nobody already in worse off.

    The order of analysts matters: it is that of the plan.
    """

    cache: StrategyCache | None = None
    _known: dict[Key, JointStrategy] = field(default_factory=dict, repr=False, compare=False)

    def select(self, workloads: Sequence[Workload], shares: Sequence[Fraction]) -> JointStrategy:
        """Return what is measured once everyone is in."""
        return self.joins(workloads, shares)[-1]

    def joins(
        self, workloads: Sequence[Workload], shares: Sequence[Fraction]
    ) -> list[JointStrategy]:
        """Return what is measured after each analyst joined."""
        found: list[JointStrategy] = []
        with threadpool_limits(limits=1):  # Threads that contend for small matrices are slower.
            for count in range(1, len(workloads) + 1):
                asking, bringing = workloads[:count], shares[:count]
                pairs = zip(asking, bringing, strict=True)
                key = tuple((w.fingerprint, share / shares[0]) for w, share in pairs)
                if key not in self._known:
                    self._known[key] = self._join(found[-1] if found else None, asking, bringing)
                strategy = self._known[key]
                found.append(read_by_all(strategy.blocks, strategy.sensitivity, count))
        return found

    def _join(
        self,
        before: JointStrategy | None,
        workloads: Sequence[Workload],
        shares: Sequence[Fraction],
    ) -> JointStrategy:
        """Return the best strategy once the last of the analysts has joined."""
        own = select(workloads[-1], cache=self.cache)
        if before is None:
            return read_by_all(own.blocks, own.total, 1)
        collective = Collective.of(workloads, shares)
        poured = collective.certified(self._poured(before, workloads[-1], shares))
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
        for start, goal in self._starts(collective, poured):
            if total <= (1 + NEAR) * goal:
                break
            grams = [2 * start.layout.gram_of(member.workload) for member in collective.members]
            found = capped(start, Caps(np.array(grams), collective.counts, aims))
            candidate = collective.certified(_integers(found))
            reached = collective.counts @ candidate.errors
            if (candidate.errors <= caps).all() and reached < total:
                best, total = candidate, reached
        return best.strategy

    def _poured(
        self, before: JointStrategy, newcomer: Workload, shares: Sequence[Fraction]
    ) -> JointStrategy:
        """Return what was to be measured with the newcomer's own rows poured in, exactly."""
        own = select(newcomer, cache=self.cache)
        kept = sum(shares[:-1], Fraction(0))
        parts = [(before.blocks, before.sensitivity, kept), (own.blocks, own.total, shares[-1])]
        return pour_together(parts, 1)

    def _starts(self, collective: Collective, poured: Chosen) -> Iterator[tuple[Draft, float]]:
        """Yield drafts to start from, each with the total error that Utilitarian has.

        Half of what is best for all with half poured in, and both; none if there is too much to
        search in.
        """
        together = collective.together()
        try:
            selected = select(together, cache=self.cache)
        except NotSupportedError:  # Too large to be selected for as a whole, not one by one.
            return
        best = selected.blocks
        goal = noise_variance(1, collective.total) * selected.error
        strategy = poured.strategy
        layout = laid_over(together, {b.marginal.scope for b in (*strategy.blocks, *best)})
        if sum(scope.groups for scope in layout.scopes) > MOVE_ROWS:
            return
        half = [
            *weighted(strategy.blocks, strategy.sensitivity, Fraction(1, 2)),
            *weighted(best, selected.total, Fraction(1, 2)),
        ]
        for blocks in (half, strategy.blocks, best):
            yield draft_of(blocks, layout), goal


def _integers(draft: Draft) -> JointStrategy:
    """Return a draft as integers whose columns sum to S, so that any share can be poured in."""
    blocks = rounded(draft, finest=FINEST)
    expanded = (block.expanded(alone=len(blocks) == 1) for block in blocks)
    return read_by_all([part for block in expanded for part in split_by_scope(block)], S, 1)
