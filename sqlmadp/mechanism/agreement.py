"""Agreements: what a collective, and any fewer of its analysts, have settled on.

    free(C)   least  sum_j w_j e_j   subject to  e_j <= wf_j(C)   for every analyst j of C

with wf_j(C) the error under Waterfilling.  An agreement on *scopes* searches for weights and rows
of blocks on these scopes, less the columns that nobody in C asks about.  An agreement on one
strategy is *constant*: C measures it with what C has of the budget, unless Waterfilling is better
for one of them.  Without analyst i, of share s_i,

    e_j(A, N) = (1 - s_i)^2 e_j(A, N but i)    and    e_j(A, N) <= wf_j(N) <= wf_j(N but i),

so under a constant agreement nobody is ever better off with one analyst less.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sqlmadp.mechanism.capped import (
    Draft,
    acceptable,
    best_of,
    draft_over,
    laid_over,
    least_capped,
    made,
    mixed,
)
from sqlmadp.mechanism.collective import Collective, Joint
from sqlmadp.mechanism.pooling import height
from sqlmadp.mechanism.pour import pour
from sqlmadp.strategy.integers import Strategy
from sqlmadp.strategy.layout import (
    MERGED_SCOPES,
    as_asked,
    assigned,
    merges,
    per_scope,
    products,
    weighed,
)
from sqlmadp.strategy.search import Top
from sqlmadp.strategy.select import as_measured
from sqlmadp.table.partition import Floats
from sqlmadp.table.rows import Rows, Scope

MOVED_VERTICES = 256
"""Search for rows on blocks of at most this many vertices in all: pareto of an everyday plan of 4
analysts takes 24 s with all of them left out once if it is 600, and nobody's error is lower."""

SHORT_STEPS, SHORT_ROUNDS = 60, 4
"""Search so long for what fewer analysts would choose, from what everyone chose."""


class Agreement(Protocol):
    """A rule for everyone and for any fewer of them."""

    def free(self, collective: Collective) -> Joint:
        """Return what a collective chooses; nobody is worse off than under Waterfilling."""


@dataclass(frozen=True, eq=False)
class Plain:
    """Waterfilling, for whoever takes part."""

    def free(self, collective: Collective) -> Joint:
        """Return everyone's strategies poured into buckets."""
        return collective.poured


@dataclass(frozen=True, eq=False)
class Constant:
    """One strategy for whoever takes part, unless that harms one of them."""

    blocks: tuple[Rows, ...]
    total: int

    def free(self, collective: Collective) -> Joint:
        """Return the strategy, or Waterfilling if that is better for one of the collective."""
        if len(collective) == 1:
            return collective.poured
        chosen = collective.read_by_all(self.blocks, self.total)
        poured = collective.poured
        return chosen if acceptable(collective, chosen, poured.errors) else poured


@dataclass(frozen=True, eq=False)
class OnScopes:
    """Blocks on given scopes."""

    scopes: tuple[Scope, ...]
    search: bool = True
    """Whether weights and rows are searched for; otherwise each block is measured vertex by vertex,
    with the weight that its analysts' shares give it."""
    hint: tuple[Rows, ...] = ()
    """A strategy to start from besides, if there is one; searches are then shorter."""

    def free(self, collective: Collective) -> Joint:
        """Return the least total error that leaves nobody worse off than Waterfilling."""
        return self.least(collective, collective.poured.errors)

    def least(
        self, collective: Collective, caps: Floats, starts: Sequence[Sequence[Rows]] = ()
    ) -> Joint:
        """Return the least total error within caps; Waterfilling if no candidate is."""
        poured = collective.poured
        layout = self.layout(collective)
        if len(collective) == 1 or layout is None or not poured.errors.any():
            return poured
        steps, rounds = (SHORT_STEPS, SHORT_ROUNDS) if self.hint else (150, 8)
        drafts = [draft_over(layout, start) for start in starts]
        if not self.search:
            bare = made(collective, draft_over(layout, poured.blocks, bare=True))
            return best_of(collective, [bare], caps, poured)
        drafts += self._starts(collective, layout)
        found = (least_capped(collective, d, caps, steps=steps, rounds=rounds) for d in drafts)
        return best_of(collective, found, caps, poured)

    def _starts(self, collective: Collective, layout: list[Rows]) -> Iterator[Draft]:
        """Yield drafts to start from.

        The hint; or on one scope Utilitarian, and half of it with half of Waterfilling; or on
        several Waterfilling with and without its rows.
        """
        poured = collective.poured
        if self.hint:
            yield draft_over(layout, self.hint)
            if len(layout) > 1:
                yield draft_over(layout, poured.blocks, bare=True)
            return
        if len(layout) > 1:
            yield draft_over(layout, poured.blocks, bare=True)
            yield draft_over(layout, poured.blocks)
            return
        best = collective.select(collective.together)
        yield draft_over(layout, best.blocks)
        half = mixed([(poured.blocks, 1 / poured.total), (best.blocks, 1 / best.total)])
        yield draft_over(layout, half)

    def layout(self, collective: Collective) -> list[Rows] | None:
        """Return a block per scope; None if they do not hold all queries or are too large."""
        asked = [rows for workload in collective.workloads for rows in workload]
        layout = laid_over(asked, self.scopes)
        if layout is None or sum(block.size for block in layout) > MOVED_VERTICES:
            return None
        return layout


def constant_of(collective: Collective) -> Constant | None:
    """Return the best strategy for everyone that only weighs blocks; None if none is better."""
    poured = collective.poured
    best = best_of(collective, _weighed(collective), poured.errors, poured)
    return None if best is poured else Constant(best.blocks, best.total)


def _weighed(collective: Collective) -> Iterator[Joint | None]:
    """Yield strategies whose blocks are given, and only their weights searched for.

    Utilitarian, for errors as they are and, if that is not too large, in units of their caps;
    everyone's own blocks, alone and beside these; scopes merged; and products of partitions.
    """
    caps = collective.poured.errors
    best = collective.select(collective.together)
    yield collective.read_by_all(best.blocks, best.total)
    everyone = unpoured(collective.strategies, collective.factors)
    besides = [[], unpoured([best], [1])]
    if sum(rows.size for rows in as_asked(collective.together)) <= MOVED_VERTICES:
        even = collective.select(collective.weighted(1 / np.where(caps > 0, caps, caps.max())))
        yield collective.read_by_all(even.blocks, even.total)
        besides = [[], unpoured([even], [1]), unpoured([even, best], [1, 1])]
    for beside in besides:
        draft = side_by_side([*everyone, *beside])
        yield least_capped(collective, draft, caps, move=False, feasible_first=True)
    asked = as_asked(collective.together)
    workload = per_scope(asked)
    if len(workload) > 1 and len(workload) <= MERGED_SCOPES:
        for scopes in merges(workload)[-2:]:
            blocks = assigned(workload, scopes)
            plain: list[Top] = [None] * len(blocks)
            draft = Draft(blocks, np.cbrt([block.square_sum for block in blocks]), plain)
            yield least_capped(collective, draft, caps, move=False, feasible_first=True)
    weighable = products(asked) if len(workload) > 1 else []
    if len(weighable) > 1:
        limits = np.where(caps > 0, caps * (1 - 2e-4), 1.0) * float(collective.whole) ** 2
        firsts, numbers = collective.distinct
        least = np.full(len(firsts), np.inf)
        np.minimum.at(least, numbers, limits)
        chosen, weights = weighed(
            weighable,
            [collective.workloads[n] for n in firsts],
            least,
            importance=np.bincount(numbers, collective.importance).astype(np.float64),
        )
        yield made(collective, Draft(chosen, weights, [None] * len(chosen)))


def unpoured(strategies: Sequence[Strategy], factors: Sequence[int]) -> list[tuple[Rows, float]]:
    """Return strategies' blocks, those over the same vertices poured together, and their weights.

    The absolute values of every column sum to 1: what a column lacks goes to the vertex's own row.
    """
    groups: dict[object, tuple[list[Strategy], list[int]]] = {}
    total = sum(own.total * factor for own, factor in zip(strategies, factors, strict=True))
    for strategy, factor in zip(strategies, factors, strict=True):
        for block in strategy.blocks:
            blocks, times = groups.setdefault(block.layout, ([], []))
            blocks.append(Strategy((block,), strategy.total))
            times.append(factor)
    poured = [rows for blocks, times in groups.values() for rows in pour(blocks, times)]
    return [(as_measured(rows), height(rows) / total) for rows in poured]


def side_by_side(parts: Sequence[tuple[Rows, float]]) -> Draft:
    """Return a draft of given blocks, which are only weighed; equal plain blocks become one."""
    found: dict[object, tuple[Rows, float]] = {}
    for rows, weight in parts:
        key = rows.fingerprint
        found[key] = rows, weight + (found[key][1] if key in found else 0.0)
    blocks = [rows for rows, _ in found.values()]
    return Draft(blocks, np.array([weight for _, weight in found.values()]), list(blocks))
