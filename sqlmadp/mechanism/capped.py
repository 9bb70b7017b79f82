"""The least total error of a collective within caps, searched for from given starts.

    least  sum_j w_j e_j   subject to  e_j <= c_j   for every analyst j

A *draft* says which blocks there are, their weights, and the rows above every vertex alone.
Whatever a search makes of it is rounded to integers first, and its errors are recomputed from
those.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from sqlmadp.mechanism.collective import ROUNDING, Collective, Joint
from sqlmadp.strategy.integers import rounded, split_by_scope
from sqlmadp.strategy.p_identity import MAX_HEIGHT
from sqlmadp.strategy.search import CAP_SLACK, FEWEST_STEPS, Search, Top, UnmeasuredError
from sqlmadp.table.partition import Floats, Partition, common
from sqlmadp.table.products import Products
from sqlmadp.table.rows import Rows, Scope, lifting

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
        least = float(collective.importance @ fallback.errors)
    for candidate in candidates:
        if candidate is None:
            continue
        total = float(collective.importance @ candidate.errors)
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
        firsts, numbers = collective.distinct
        parts, limited = collective.questions
        workloads = [collective.workloads[n] for n in firsts] + [parts[q] for q in self.questions]
        importance = np.zeros(len(workloads))
        importance[: len(firsts)] = np.bincount(numbers, collective.importance)
        limits = np.full(len(firsts), np.inf)
        np.minimum.at(limits, numbers, self.caps)
        limits = np.append(limits, limited[list(self.questions)])
        # Whoever asks nothing has no error, and any cap will do.
        aims = np.where(limits > 0, limits * (1 - ROOM), 1.0) * unit**2
        known = [rows.times(1 / unit) for rows in collective.known]
        search = Search(draft.blocks, draft.rows, workloads, move=move, known=known)
        if search.affordable < FEWEST_STEPS:
            return None
        try:
            start = search.start(draft.weights)
            if feasible_first:
                start = search.least(importance=1 / aims, start=start, steps=steps)
            flat, tighter = start, aims
            for _ in range(TIGHTENED if feasible_first else 1):
                flat = search.least(
                    importance=importance, caps=tighter, start=flat, steps=steps, rounds=rounds
                )
                above = float((search.errors(flat)[0] / aims).max())
                if above <= 1 + CAP_SLACK:
                    break
                tighter = tighter / above
        except UnmeasuredError:
            return None
        return Draft(draft.blocks, *search.split(flat))


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
