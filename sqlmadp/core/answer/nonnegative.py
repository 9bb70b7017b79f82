"""Non-negative counts: the least-squares estimate among those with no vertex below zero.

    minimise  |A x - y|^2     subject to   C x >= 0

with C the vertices of every measured table; all tables are functions of one x, so they agree where
they overlap, and nothing is as large as the product of all columns.  Solved by the alternating
direction method of multipliers: with z = C x,

    x <- least squares of [A; C] from [y; z - u],    z <- max(0, C x + u),    u <- u + C x - z,

where the rows of C are divided by the standard errors of what they count.  The least squares has
one factorisation and the same structure as any other (see `solve.residual`).  What is left of a
negative is removed by mixing in the even table of the same total, of which next to nothing is
needed.

[BPCPE11] Boyd, Parikh, Chu, Peleato, Eckstein, "Distributed optimization and statistical learning
via the alternating direction method of multipliers", doi:10.1561/2200000016.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sqlmadp.solve.solution import Estimate, Solution
from sqlmadp.table.partition import Floats
from sqlmadp.table.rows import Rows

MAX_STEPS = 600
"""Stop after this many steps; a few hundred are usual."""

CLOSE = 1e-4
"""Stop when nothing moves by more than this part of a standard error."""

OVERSHOOT = 1.6
"""Over-relaxation, as the literature advises."""


def nonnegative(solution: Solution, values: Sequence[Floats], tables: Sequence[Rows]) -> Estimate:
    """Return the estimate from noisy ``values`` with no vertex of the ``tables`` below zero."""
    start = solution.estimate(values)
    cells = [_standardised(solution, table) for table in tables]
    wanted = [start.answers(rows) for rows in cells]
    if all((each >= 0).all() for each in wanted):
        return start
    augmented = Solution([*solution.blocks, *cells])
    z = [np.maximum(each, 0) for each in wanted]
    u = [np.zeros_like(each) for each in wanted]
    found = start
    for _ in range(MAX_STEPS):
        goals = [a - b for a, b in zip(z, u, strict=True)]
        found = augmented.estimate([*values, *goals], refinements=0)
        moved = 0.0
        for place, rows in enumerate(cells):
            now = found.answers(rows)
            relaxed = OVERSHOOT * now + (1 - OVERSHOOT) * z[place]
            after = np.maximum(relaxed + u[place], 0)
            u[place] = u[place] + relaxed - after
            moved = max(moved, np.abs(after - z[place]).max(), np.abs(now - after).max())
            z[place] = after
        if moved < CLOSE:
            break
    below = np.min([found.answers(rows).min(axis=0) for rows in cells], axis=0)
    return found.mixed_with_even(_needed(found, cells)) if np.any(below < 0) else found


def _standardised(solution: Solution, table: Rows) -> Rows:
    """Return every vertex of a table, in units of the mean standard error of a vertex."""
    one = Rows(table.scope, table.parts, 1.0)
    return one.times(1 / float(np.sqrt(solution.variances(one).mean())))


def _needed(found: Estimate, cells: Sequence[Rows]) -> Floats | float:
    """Return how much of the even table leaves no vertex below zero."""
    even = found.mixed_with_even(1.0)
    needed: Floats | float = 0.0
    for rows in cells:
        below, whole = np.maximum(-found.answers(rows), 0), np.maximum(even.answers(rows), 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            part = np.where(below > 0, below / (below + whole), 0.0)
        needed = np.maximum(needed, part.max(axis=0))
    return np.minimum(1.0, needed * (1 + 1e-9) + 1e-15)
