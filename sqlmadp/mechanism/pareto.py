"""Pareto: the least total error that leaves nobody worse off than Waterfilling does.

For a collective C with shares s_i, let wf_j(C) be analyst j's error under Waterfilling.  Everyone
who takes part, N, agrees on one strategy A:

    least  sum_j w_j e_j(A, N)   subject to  e_j(A, N) <= wf_j(N)   for every analyst j of N

and no question above the naive answer to it.  Under this *agreement* fewer analysts measure A with
what they have of the budget, or Waterfilling if that is better for one of them.

Guaranteed, by construction:
    against Waterfilling   e_j(N) <= wf_j(N) <= wf_j(N but i): joining never costs anybody what
                           Waterfilling without who joins would have given them;
    sharing incentive      e_j(N) <= wf_j(N) <= wf_j({j}), what j's own selection gives j alone;
    within the agreement   nobody would be better off with one analyst less: without i they measure
                           A, where  e_j(A, N) = (1 - s_i)^2 e_j(A, N but i),  or Waterfilling.
Not guaranteed: that nobody would be better off if the smaller collective agreed on a strategy of
its own.  No rule with less error than Waterfilling's can promise that (docs/fairness.md, theorems
2 and 3): whoever pools with one analyst cannot pool with another as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from sqlmadp.mechanism.base import Mechanism, registered
from sqlmadp.mechanism.capped import (
    MOVED_VERTICES,
    Draft,
    acceptable,
    aims,
    best_of,
    draft_over,
    laid_over,
    least_capped,
    made,
    mixed,
    side_by_side,
    unpoured,
    within,
)
from sqlmadp.mechanism.collective import Collective, Joint
from sqlmadp.mechanism.pooling import Pool, pooled_scopes
from sqlmadp.mechanism.waterfilling import Waterfilling, ratio
from sqlmadp.strategy.cache import Entry
from sqlmadp.strategy.integers import Strategy
from sqlmadp.strategy.layout import (
    as_asked,
    per_scope,
    products,
    weighed,
)
from sqlmadp.table.rows import Rows
from sqlmadp.table.runs import Floats

PROMISE = (
    "guaranteed: sharing incentive, and nobody worse off than under waterfilling with or without "
    "any one of the others; certified for this plan: nobody better off without any one of the "
    "others, who then keep to what everyone agreed on"
)


@registered
@dataclass(frozen=True, kw_only=True)
class Pareto(Mechanism):
    """Nobody worse off than under Waterfilling, and of all such strategies the least error.

    For a single analyst it is that analyst's own selection.
    """

    name = "pareto"
    rule = (
        "of all choices that leave nobody worse off than waterfilling (equal measurements pooled) "
        "would, the one with the least error of everybody together is taken"
    )
    promise = PROMISE
    capped_at = "the error under waterfilling"

    def caps(self, collective: Collective) -> Floats:
        """Return everyone's error under Waterfilling."""
        return collective.poured.errors

    def settled(self, collective: Collective) -> Agreed:
        """Return the rule with the strategy that these analysts agree on."""
        arranged, memory = collective.arranged, collective.memory
        key = self.name, *arranged.kinds
        if key not in memory:
            memory[key] = _agree(arranged)
        found = memory[key]
        assert isinstance(found, Agreed)
        return found

    def _choose(self, collective: Collective) -> Joint:
        return self.settled(collective).select(collective)


@dataclass(frozen=True, kw_only=True, eq=False)
class Agreed(Mechanism):
    """One strategy for whoever takes part, or Waterfilling if that is better for one of them."""

    name = "pareto"
    promise = PROMISE

    _strategy: Strategy | None
    """None for Waterfilling in any case."""
    _known: dict[tuple[bytes, ...], Joint] = field(default_factory=dict)

    def _choose(self, collective: Collective) -> Joint:
        key = tuple(collective.kinds)
        if key not in self._known:
            self._known[key] = self._better(collective)
        return self._known[key]

    def _better(self, collective: Collective) -> Joint:
        poured, same = collective.poured, self._strategy
        if same is None or len(collective) == 1:
            return poured
        chosen = collective.read_by_all(same.blocks, same.total)
        return chosen if acceptable(collective, chosen, poured.errors) else poured

    def interference(self, collective: Collective) -> Floats | None:
        """Return the errors when each is left out once, without solving for the strategy again."""
        if self._strategy is None:
            return Waterfilling().interference(collective)
        blocks, total = self._strategy.blocks, self._strategy.total
        now = self.select(collective).errors
        same = collective.read_by_all(blocks, total).errors
        found = np.ones((len(collective), len(collective)))
        for i, share in enumerate(collective.shares if len(collective) > 1 else ()):
            others = [j for j in range(len(collective)) if j != i]
            without = collective.poured_without(i)
            left = same[others] / float(1 - share / collective.whole) ** 2
            if len(others) > 1 and within(left, without):
                smaller = collective.of(others)
                joint = smaller.read_by_all(blocks, total, left)
                without = without if smaller.exceeded(joint) else left
            found[i, others] = [ratio(*pair) for pair in zip(now[others], without, strict=True)]
        return found


def _agree(everyone: Collective) -> Agreed:
    """Return the rule that analysts agree on; whatever is stored is checked by `acceptable`."""
    entry = everyone.restored(Pareto.name)
    if entry is None or len(entry.strategies) > 1:
        poured = everyone.poured
        best = poured
        if len(everyone) > 1 and poured.errors.any():
            best = best_of(everyone, _candidates(everyone), poured.errors, poured)
        entry = Entry(() if best is poured else (Strategy(best.blocks, best.total),))
        everyone.store(Pareto.name, entry)
    return Agreed(_strategy=entry.strategies[0] if entry.strategies else None)


def _candidates(everyone: Collective) -> Iterator[Joint | None]:
    """Yield strategies of little total error: rows and weights searched for where few are."""
    layouts = list(_layouts(everyone))
    for layout, search in layouts:
        yield from _moved(everyone, layout) if search else _bare(everyone, layout)
    if not layouts or len(everyone.columns) > 1:
        yield from _weighed(everyone)


def _layouts(everyone: Collective) -> Iterator[tuple[list[Rows], bool]]:
    """Yield blocks on scopes that can be searched: pooled by parts, or those of Utilitarian.

    Pooled ones come twice, with rows and without.
    """
    own = {block.scope for strategy in everyone.strategies for block in strategy.blocks} - {()}
    pooled = pooled_scopes(Pool.of(everyone))
    choices = [(pooled, True)]
    if len(own) > 1:
        best = everyone.for_all
        both = own | ({block.scope for block in best.blocks} - {()} if best else set())
        choices += [(pooled, False), (sorted(both), True)]
    asked = [rows for workload in everyone.workloads for rows in workload]
    for scopes, search in choices:
        layout = laid_over(asked, scopes)
        if layout is not None and sum(block.size for block in layout) <= MOVED_VERTICES:
            yield layout, search


def _bare(everyone: Collective, layout: list[Rows]) -> Iterator[Joint]:
    """Yield every vertex alone, blocks weighed as the analysts' shares do."""
    yield made(everyone, draft_over(layout, everyone.poured.blocks, bare=True))


def _moved(everyone: Collective, layout: list[Rows]) -> Iterator[Joint | None]:
    """Yield what searches for weights and rows find.

    On one scope they start with Utilitarian, and half of it with half of Waterfilling; on several
    with Waterfilling, without and with its rows.
    """
    poured, best = everyone.poured, everyone.for_all
    if len(layout) == 1 and best is not None:
        half = mixed([(poured.blocks, 1 / poured.total), (best.blocks, 1 / best.total)])
        drafts = [draft_over(layout, best.blocks), draft_over(layout, half)]
    else:
        drafts = [draft_over(layout, poured.blocks, bare=bare) for bare in (True, False)]
    for draft in drafts:
        yield least_capped(everyone, draft, poured.errors)


def _weighed(everyone: Collective) -> Iterator[Joint | None]:
    """Yield strategies whose blocks are given, and only their weights searched for.

    Utilitarian's, for errors as they are and, if that is not too large, in units of their caps;
    everyone's own blocks, alone and beside these; and products of partitions.
    """
    caps, best = everyone.poured.errors, everyone.for_all
    asked = as_asked(everyone.together)
    own = unpoured(everyone.strategies, everyone.factors)
    besides: list[list[Strategy]] = [[], [best]] if best else [[]]
    if best is not None:
        yield everyone.read_by_all(best.blocks, best.total)
    if best is not None and sum(rows.size for rows in asked) <= MOVED_VERTICES:
        even = everyone.select(everyone.weighted(1 / np.where(caps > 0, caps, caps.max())))
        yield everyone.read_by_all(even.blocks, even.total)
        besides = [[], [even], [even, best]]
    for beside in besides:
        draft = side_by_side([*own, *unpoured(beside, [1] * len(beside))])
        yield least_capped(everyone, draft, caps, move=False, feasible_first=True)
    weighable = products(asked) if len(per_scope(asked)) > 1 else []
    if len(weighable) > 1:
        limits, importance = aims(everyone, caps)
        workloads = [everyone.workloads[n] for n in everyone.distinct[0]]
        chosen, weights = weighed(weighable, workloads, limits, importance=importance)
        yield made(everyone, Draft(chosen, weights, [None] * len(chosen)))
