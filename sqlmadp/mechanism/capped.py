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

from sqlmadp.mechanism.collective import QUESTION_ROOM, ROUNDING, Collective, Joint
from sqlmadp.mechanism.pour import pour
from sqlmadp.strategy.integers import Strategy, rounded, split_by_scope
from sqlmadp.strategy.p_identity import MAX_HEIGHT
from sqlmadp.strategy.search import FEWEST_STEPS, JOINT_WORK, Search, Top, UnmeasuredError
from sqlmadp.strategy.select import as_measured
from sqlmadp.table.partition import Partition, common
from sqlmadp.table.products import Products
from sqlmadp.table.rows import Rows, Scope, lifting
from sqlmadp.table.runs import Floats
from sqlmadp.workload.questions import record_effect

MOVED_VERTICES = 256
"""Search for rows on blocks of at most this many vertices in all: pareto of an everyday plan of 4
analysts takes 24 s with all of them left out once if it is 600, and nobody's error is lower."""

ROOM = 2e-4
"""Aim this part below a cap, for the integers to stay below it."""

OWN = 0.02
"""Leave at least this part of a column to the vertex's own row in a start."""

LIGHTEST = 1e-3
"""Give every block of a start at least this part of the heaviest one's weight."""

MOST_ROWS = 40
"""Keep at most this many rows above every vertex alone of a start, the heaviest ones."""

NEAR_CAP = 0.01
"""Go on below tighter caps only if nobody is above theirs by more than this part: on flights, where
caps bind, going on from 3% above them found nothing within them."""

TURNS = 4
"""Search at most this often, each time with caps for the questions that were above theirs, and
tighter ones where somebody was above."""


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

    Questions get caps once they were above the naive answer, and searches for weights alone go on
    below tighter caps where somebody is above theirs.  ``feasible_first``: begin by going to where
    errors are least in units of their caps.  None if the draft leaves something unmeasured, is too
    large to be searched in, or consists of products, whose factors are selected column by column
    and not weighed by this search.
    """
    known = [rows.times(1 / float(collective.whole)) for rows in collective.known]
    if any(isinstance(block, Products) for block in (*draft.blocks, *draft.fixed, *known)):
        return None
    firsts, numbers = collective.distinct
    parts, limited = collective.questions
    limits, importance = aims(collective, caps)
    questions = np.zeros(len(parts), dtype=np.bool_)
    # In units of the limits: what is aimed at, by different workload and by question.
    tight, tight_questions = np.ones(len(firsts)), np.ones(len(parts))
    joint = None
    for turn in range(TURNS):
        active = np.flatnonzero(questions)
        asked = [collective.workloads[n] for n in firsts] + [parts[n] for n in active]
        aimed = (limited * tight_questions)[active] * (1 - ROOM) * float(collective.whole) ** 2
        aimed = np.append(limits * tight, aimed)
        counted = np.append(importance, np.zeros(len(active)))
        search = Search(draft.blocks, draft.rows, asked, move=move, known=known, work=JOINT_WORK)
        if search.affordable < FEWEST_STEPS:
            return joint
        try:
            flat = search.start(draft.weights)
            if feasible_first and turn == 0:
                flat = search.least(importance=1 / aimed, start=flat, steps=steps)
            flat = search.least(
                importance=counted, caps=aimed, start=flat, steps=steps, rounds=rounds
            )
        except UnmeasuredError:
            return joint
        draft = Draft(draft.blocks, *search.split(flat))
        joint = made(collective, draft)
        inside = within(joint.errors, caps)
        far = not within(joint.errors, caps * (1 if move else 1 + NEAR_CAP))
        if not np.isfinite(caps).any() or far:
            return joint
        reached = collective.questions_reached(joint)
        above = reached > 1 + QUESTION_ROOM
        if inside and not above.any():
            return joint
        over = joint.errors > caps
        excess = np.ones(len(tight))
        np.maximum.at(excess, np.array(numbers)[over], joint.errors[over] / caps[over])
        tight /= excess
        tight_questions = np.where(above & questions, tight_questions / reached, tight_questions)
        questions |= above
    return joint


def aims(collective: Collective, caps: Floats) -> tuple[Floats, Floats]:
    """Return the cap of every different workload in a search, and its importance.

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
