"""The least total error of a collective within caps, searched for from given starts.

    least  sum_j w_j e_j   subject to  e_j <= c_j   for every analyst j

A *draft* says which blocks there are, their weights, and the rows above every vertex alone.  It is
made from strategies that are known: their rows over a given layout (`draft_over`), which are then
moved, or their blocks as they are (`side_by_side`), which are only weighed.  Whatever a search
makes of it is rounded to integers first, and its errors are recomputed from those.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from sqlmadp.mechanism.collective import ROUNDING, Collective, Joint
from sqlmadp.mechanism.pour import pour
from sqlmadp.strategy.integers import Strategy, rounded, split_by_scope
from sqlmadp.strategy.p_identity import MAX_HEIGHT
from sqlmadp.strategy.search import CAP_SLACK, FEWEST_STEPS, Search, Top, UnmeasuredError
from sqlmadp.strategy.select import as_measured
from sqlmadp.table.partition import Floats, Partition, common
from sqlmadp.table.products import Products
from sqlmadp.table.rows import Rows, Scope, lifting
from sqlmadp.workload.questions import record_effect

MOVED_VERTICES = 256
"""Search for rows on blocks of at most this many vertices in all: pareto of an everyday plan of 4
analysts takes 24 s with all of them left out once if it is 600, and nobody's error is lower."""

ROOM = 2e-4
"""Aim this part below a cap, for the integers to stay below it."""

OWN = 0.02
"""Leave at least this part of a column to the vertex's own row in a start."""

TIGHTENED = 4
"""Search at most this often, each time below caps that are tighter by what was exceeded."""

LIGHTEST = 1e-3
"""Give every block of a start at least this part of the heaviest one's weight."""

MOST_ROWS = 40
"""Keep at most this many rows above every vertex alone of a start, the heaviest ones."""

QUESTION_ROUNDS = 3
"""Search at most this often, each time with caps for the questions that were above theirs."""


@dataclass(frozen=True, eq=False)
class Draft:
    """Blocks, their weights, and what each has."""

    blocks: list[Rows]
    weights: Floats
    rows: list[Top]

    @property
    def fixed(self) -> list[Rows]:
        """The rows that are only weighed."""
        return [own for own in self.rows if isinstance(own, Rows)]


def within(errors: Floats, caps: Floats) -> bool:
    """Return whether nobody is above their cap."""
    return bool((errors <= caps * (1 + ROUNDING)).all())


def acceptable(collective: Collective, joint: Joint, caps: Floats) -> bool:
    """Return whether nobody is above their cap, and no question above the naive answer to it."""
    return within(joint.errors, caps) and not collective.exceeded(joint)


def best_of(
    collective: Collective, candidates: Iterable[Joint | None], caps: Floats, fallback: Joint
) -> Joint:
    """Return the acceptable candidate of least weighted error, or else the fallback."""
    best, least = fallback, math.inf
    if within(fallback.errors, caps):
        least = collective.total(fallback)
    for candidate in candidates:
        if candidate is None:
            continue
        total = collective.total(candidate)
        if total < least and acceptable(collective, candidate, caps):
            best, least = candidate, total
    return best


def least_capped(
    collective: Collective,
    draft: Draft,
    caps: Floats,
    *,
    move: bool = True,
    steps: int = 150,
    rounds: int = 8,
    feasible_first: bool = False,
) -> Joint | None:
    """Return a strategy near a draft of least weighted error, as far as the caps allow.

    ``feasible_first``: go to where errors are least in units of their caps before that.  None if
    the draft leaves something unmeasured, is too large to be searched in, or consists of products,
    whose factors are selected column by column and not weighed by this search.
    """
    active: list[int] = []
    joint = None
    for _ in range(QUESTION_ROUNDS):
        search = _Capped(collective, caps, active)
        found = search.least(draft, move, steps, rounds, feasible_first=feasible_first)
        if found is None:
            return joint
        draft, joint = found, made(collective, found)
        if not np.isfinite(caps).any() or not within(joint.errors, caps):
            return joint
        new = [n for n in collective.exceeded(joint) if n not in active]
        if not new:
            return joint
        active += new
    return joint


@dataclass(frozen=True, eq=False)
class _Capped:
    """A search for everyone's error within caps, and within those of some questions."""

    collective: Collective
    caps: Floats
    questions: Sequence[int]

    def least(
        self, draft: Draft, move: bool, steps: int, rounds: int, *, feasible_first: bool
    ) -> Draft | None:
        collective, unit = self.collective, float(self.collective.whole)
        blocks = [*draft.blocks, *draft.fixed, *collective.known]
        if any(isinstance(block, Products) for block in blocks):
            return None
        firsts, _ = collective.distinct
        parts, limited = collective.questions
        workloads = [collective.workloads[n] for n in firsts] + [parts[q] for q in self.questions]
        limits, importance = aims(collective, self.caps)
        limits = np.append(limits, limited[list(self.questions)] * (1 - ROOM) * unit**2)
        importance = np.append(importance, np.zeros(len(self.questions)))
        known = [rows.times(1 / unit) for rows in collective.known]
        search = Search(draft.blocks, draft.rows, workloads, move=move, known=known)
        if search.affordable < FEWEST_STEPS:
            return None
        try:
            start = search.start(draft.weights)
            if feasible_first:
                start = search.least(importance=1 / limits, start=start, steps=steps)
            flat, tighter = start, limits
            for _ in range(TIGHTENED if feasible_first else 1):
                flat = search.least(
                    importance=importance, caps=tighter, start=flat, steps=steps, rounds=rounds
                )
                above = float((search.errors(flat)[0] / limits).max())
                if above <= 1 + CAP_SLACK:
                    break
                tighter = tighter / above
        except UnmeasuredError:
            return None
        return Draft(draft.blocks, *search.split(flat))


def aims(collective: Collective, caps: Floats) -> tuple[Floats, Floats]:
    """Return what a search aims at for every different workload, and what each counts for.

    In units of the whole budget, a little below the least cap of those who ask it.
    """
    firsts, numbers = collective.distinct
    limits = np.full(len(firsts), np.inf)
    np.minimum.at(limits, numbers, caps)
    # Whoever asks nothing has no error, and any cap will do.
    limits = np.where(limits > 0, limits * (1 - ROOM), 1.0) * float(collective.whole) ** 2
    return limits, np.bincount(numbers, collective.importance).astype(np.float64)


def made(collective: Collective, draft: Draft) -> Joint:
    """Return a draft as integers, read by all."""
    blocks, total = rounded(draft.blocks, draft.weights, draft.rows)
    split = [part for block in blocks for part in split_by_scope(block)]
    return collective.read_by_all(split, total)


def laid_over(workload: Sequence[Rows], scopes: Iterable[Scope]) -> list[Rows] | None:
    """Return a block per scope, its columns cut as finely as anything asked inside it.

    None if something that is asked lies in none of the scopes.
    """
    columns = {column for rows in workload for column in rows.scope}
    kept = sorted({tuple(c for c in scope if c in columns) for scope in scopes} - {()})
    if not all(any(set(rows.scope) <= set(scope) for scope in kept) for rows in workload):
        return None
    found = []
    for scope in kept:
        used: dict[str, set[Partition]] = {column: set() for column in scope}
        for inside in (True, False):
            for rows in workload:
                if inside and not set(rows.scope) <= set(scope):
                    continue
                for column, part in zip(rows.scope, rows.parts, strict=True):
                    if column in used and (inside or not used[column]):
                        used[column].add(part)
            if all(used.values()):
                break
        parts = [common(sorted(used[c], key=lambda part: part.key)) for c in scope]
        found.append(Rows(scope, tuple(parts), 1.0))
    return found


def draft_over(layout: Sequence[Rows], strategy: Sequence[Rows], *, bare: bool = False) -> Draft:
    """Return a draft over a layout that resembles a given strategy.

    Each block goes to the first scope that holds its columns.  Rows of a single vertex are part of
    that vertex's own row; the others become rows B, unless ``bare``, with what a column lacks left
    to its own row.
    """
    rows: list[list[Floats]] = [[np.zeros((0, block.size))] for block in layout]
    for given in strategy:
        holding = [n for n, block in enumerate(layout) if set(given.scope) <= set(block.scope)]
        if holding:
            home = next((n for n in holding if layout[n].scope == given.scope), holding[0])
            block = layout[home]
            lift = lifting(given.scope, given.parts, block.scope, block.parts)
            over = (sparse.csr_array(given.matrix, dtype=np.float64) @ lift).toarray()
            rows[home].append(np.maximum(over, 0))
    heights, tops = [], []
    for own in rows:
        height, top = _above(np.vstack(own))
        heights.append(height)
        tops.append(None if bare or not len(top) else top)
    weights = np.array(heights)
    least = LIGHTEST * weights.max() if weights.any() else 1.0
    return Draft(list(layout), np.maximum(weights, least), list(tops))


def draft_near(collective: Collective, joint: Joint) -> Draft:
    """Return a draft of a strategy: its rows over its scopes, or only weights if it is large."""
    asked = [rows for workload in collective.workloads for rows in workload]
    layout = laid_over(asked, {rows.scope for rows in (*joint.blocks, *collective.known)})
    if layout is not None and sum(block.size for block in layout) <= MOVED_VERTICES:
        return draft_over(layout, joint.blocks)
    return side_by_side(unpoured([Strategy(joint.blocks, joint.total)], [1]))


def _above(rows: Floats) -> tuple[float, Floats]:
    """Return the largest column sum, and the rows of several vertices as B."""
    height = float(rows.sum(axis=0).max(initial=0.0))
    across = rows[(rows > 0).sum(axis=1) > 1]
    across = across[np.argsort(-across.sum(axis=1), kind="stable")[:MOST_ROWS]]
    own = np.maximum(height - across.sum(axis=0), OWN * height)
    return height, np.minimum(across / own, MAX_HEIGHT)


def mixed(strategies: Sequence[tuple[Sequence[Rows], float]]) -> list[Rows]:
    """Return several strategies' blocks, each multiplied by a number."""
    return [block.times(factor) for blocks, factor in strategies for block in blocks]


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
    return [(as_measured(rows), record_effect(rows) / total) for rows in poured]


def side_by_side(parts: Sequence[tuple[Rows, float]]) -> Draft:
    """Return a draft of given blocks, which are only weighed; equal plain blocks become one."""
    found: dict[object, tuple[Rows, float]] = {}
    for rows, weight in parts:
        key = rows.fingerprint
        found[key] = rows, weight + (found[key][1] if key in found else 0.0)
    blocks = [rows for rows, _ in found.values()]
    return Draft(blocks, np.array([weight for _, weight in found.values()]), list(blocks))
