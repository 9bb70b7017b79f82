"""An agreement: on which scopes a collective measures, and the least error it has on them.

    free(C)   least  sum_j e_j   subject to  e_j <= wf_j(C)   for every analyst j of C

with wf_j(C) the error under Waterfilling; the blocks lie on the agreed scopes, less the columns
that nobody in C asks about.  Weights and rows are searched for from several starts.  Every
candidate is made of integers first, its errors are recomputed from those integers, and
Waterfilling itself is the last candidate: the caps hold whatever the searches do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sqlmadp.mechanism.base import JointStrategy, read_by_all
from sqlmadp.mechanism.collective import Chosen, Collective, Member, weighted
from sqlmadp.mechanism.waterfilling import Waterfilling
from sqlmadp.schema.marginal import Block
from sqlmadp.strategy.cache import StrategyCache
from sqlmadp.strategy.capped import Caps, capped, draft_of
from sqlmadp.strategy.integer import rounded
from sqlmadp.strategy.joint import Draft
from sqlmadp.strategy.layout import Layout, laid_over
from sqlmadp.strategy.scopes import split_by_scope
from sqlmadp.strategy.select import MOVE_ROWS, select
from sqlmadp.workload.workload import Workload

Matrix = NDArray[np.float64]
Scope = tuple[str, ...]

ROOM = 2e-4
"""How far below its cap an error is aimed, for the integers to stay below it."""

FINE = 1 << 20
"""The sum of every column: finer than S, since caps are met closely."""

FINEST = 14
"""Entries below ``2^-FINEST`` of their block's weight are dropped."""


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Scopes to have blocks on; none at all means Waterfilling, for whoever takes part."""

    scopes: tuple[Scope, ...]
    search: bool = True
    """Whether weights and rows are searched for; otherwise each block is measured cell by cell,
    with the weight that its analysts' shares give it."""
    cache: StrategyCache | None = None

    def free(self, collective: Collective) -> Chosen:
        """Return the least total error that leaves nobody worse off than Waterfilling."""
        return self.best(collective, np.full(len(collective.members), np.inf), [])

    def best(
        self, collective: Collective, limits: Matrix, starts: Sequence[Sequence[Block]]
    ) -> Chosen:
        """Return the least total error below further limits, started from ``starts`` too.

        If no candidate is below the limits, the result is Waterfilling.
        """
        poured = Waterfilling(cache=self.cache).select(collective.workloads, collective.shares)
        best = plain = collective.certified(poured)
        if len(collective.shares) == 1 or not self.scopes or not plain.errors.any():
            return plain
        caps = np.minimum(plain.errors, limits)
        total = float("inf") if (plain.errors > caps).any() else collective.counts @ plain.errors
        aims = np.where(caps > 0, caps * (1 - ROOM), 1.0)  # Whoever asks nothing has no error.
        for start in self._starts(collective, poured, starts):
            draft = start
            if self.search:
                grams = [2 * start.layout.gram_of(m.workload) for m in collective.members]
                draft = capped(start, Caps(np.array(grams), collective.counts, aims))
            candidate = collective.certified(_integers(draft))
            if (candidate.errors <= caps).all() and collective.counts @ candidate.errors < total:
                best, total = candidate, collective.counts @ candidate.errors
        return best

    def joined(self, smaller: Collective, without: Chosen, newcomer: Member) -> list[Block]:
        """Return a smaller collective's strategy with the newcomer's own rows beside it."""
        own = select(newcomer.workload, cache=self.cache)
        strategy = without.strategy
        return [
            *weighted(strategy.blocks, strategy.sensitivity, smaller.total),
            *weighted(own.blocks, own.total, newcomer.shares[0]),
        ]

    def _starts(
        self, collective: Collective, poured: JointStrategy, others: Sequence[Sequence[Block]]
    ) -> Iterator[Draft]:
        """Yield drafts to start from.

        On one scope: Utilitarian, and half of it with half of Waterfilling.  On several:
        Waterfilling, and every block measured cell by cell with the weight it has there.
        """
        together = collective.together()
        layout = self._layout(together)
        if layout is None:
            return
        mixed = draft_of(poured.blocks, layout)
        if len(layout.scopes) > 1 or not self.search:
            bare = tuple(np.zeros((0, scope.groups)) for scope in layout.scopes)
            yield Draft(layout, mixed.weights, bare)
        if not self.search:
            return
        if len(layout.scopes) > 1:
            yield mixed
        else:
            best = select(together, cache=self.cache)
            half = weighted(poured.blocks, poured.sensitivity, Fraction(1, 2))
            yield draft_of(best.blocks, layout)
            yield draft_of([*half, *weighted(best.blocks, best.total, Fraction(1, 2))], layout)
        for other in others:
            yield draft_of(other, layout)

    def fits(self, together: Workload) -> bool:
        """Tell whether the agreed scopes hold every query and are small enough to search in."""
        return self._layout(together) is not None

    def _layout(self, together: Workload) -> Layout | None:
        """Return the agreed scopes over the columns in use; None if they are too large to search.

        Nor if some query lies in none of them.
        """
        asked = [block.marginal.scope for block in together.by_scope]
        columns = {name for scope in asked for name in scope}
        scopes = {tuple(name for name in scope if name in columns) for scope in self.scopes}
        if not all(any(set(scope) <= set(agreed) for agreed in scopes) for scope in asked):
            return None
        if len(scopes) > MOVE_ROWS or not searchable(together):
            return None
        layout = laid_over(together, scopes)
        return layout if sum(scope.groups for scope in layout.scopes) <= MOVE_ROWS else None


def searchable(together: Workload) -> bool:
    """Tell whether every scope of a workload is small enough to search for rows in."""
    return max(scope.groups for scope in together.scopes) <= MOVE_ROWS


def _integers(draft: Draft) -> JointStrategy:
    blocks = rounded(draft, total=FINE, finest=FINEST)
    expanded = (block.expanded(alone=len(blocks) == 1) for block in blocks)
    return read_by_all([part for block in expanded for part in split_by_scope(block)], FINE, 1)
