"""Non-negative counts: the least-squares estimate among those with no vertex below zero.

    minimise  (x - x_ls)^T X (x - x_ls)     subject to   C x >= 0

for the least-squares estimate x_ls, X = A^T A, and C the vertices of every measured table.  All
tables are functions of one x, so they agree where they overlap, and nothing is as large as the
product of all columns.  What no measurement tells apart is left as even as it can be, by a weight
on all cells that is small beside the measured ones.

Solved by its multipliers.  With the vertices scaled to variance 1, ``Q = C X^- C^T`` and w the
vertices of x_ls, look for l >= 0 with ``w + Q l >= 0`` and one of the two 0 at every vertex.  Guess
which vertices are at zero; the guess gives l; whatever has the wrong sign changes sides (block
principal pivoting [JP94]), all at once while that helps, else one at a time, which always ends.
Then ``x = x_ls + X^- C^T l``.  What rounding leaves of a negative is removed by mixing in the even
table of the same total, of which next to nothing is needed.

[JP94] Júdice, Pires, "A block principal pivoting algorithm for large-scale strictly monotone linear
complementarity problems", doi:10.1016/0305-0548(94)90106-6.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from sqlmadp.solve.solution import Estimate, Solution
from sqlmadp.table.partition import Floats, common
from sqlmadp.table.rows import Rows

EVEN = 3e-4
"""The weight of every cell beside the least weight of what was measured: it enters by its square,
and decides only what was not measured."""

EVENED = 3
"""Solve this often, so that the weight of every cell is overruled where something was measured."""

SOFT = 1e-12
"""Added to the diagonal of Q: vertices may depend on one another."""

CLOSE = 1e-9
"""Standard errors by which a sign may be wrong."""

TRIES, MAX_GUESSES = 5, 2000
"""Guesses in a row that change all wrong signs without fewer of them, and guesses in all."""


class NonNegative:
    """Estimates from noisy values of some blocks, factored once."""

    def __init__(self, blocks: Sequence[Rows], cells: Sequence[Rows]) -> None:
        """``cells``: plain rows of which all counts of what was measured are made up."""
        self._blocks = tuple(blocks)
        least = min(largest(block) for block in blocks)
        self._even = [rows.times(EVEN * least) for rows in cells]
        self._solution = Solution([*self._blocks, *self._even])

    def least_squares(self, values: Sequence[Floats]) -> Estimate:
        """Return the estimate, even where nothing was measured; vertices may be below zero."""
        goals = [np.zeros((rows.count, *values[0].shape[1:])) for rows in self._even]
        found = self._solution.estimate([*values, *goals])
        for _ in range(EVENED - 1):
            goals = [found.answers(rows) for rows in self._even]
            found = self._solution.estimate([*values, *goals])
        return found

    def nonnegative(self, values: Sequence[Floats]) -> Estimate:
        """Return the estimate with no vertex below zero."""
        start = self.least_squares(values)
        wanted = np.concatenate([start.answers(rows) for rows in self._vertices])
        if (wanted >= 0).all():
            return start
        columns = wanted.reshape(len(wanted), -1).T
        multipliers = np.column_stack([_multipliers(self._pull, column) for column in columns])
        pulls = np.split(multipliers.reshape(wanted.shape), self._ends)
        found = start.plus(self._solution.pulled(self._vertices, pulls))
        part = self._needed(found)
        return found.mixed_with_even(part) if np.any(part > 0) else found

    @cached_property
    def _vertices(self) -> list[Rows]:
        """Every vertex of every table, in units of the mean standard error of a vertex."""
        layouts = list({b.layout: b for b in (*self._even, *self._blocks)}.values())
        found = [
            Rows(one.scope, one.parts, 1.0)
            for one in layouts
            if not any(other is not one and _inside(one, other) for other in layouts)
        ]
        variances = (self._solution.variances(rows) for rows in found)
        lengths = (float(np.sqrt(each.mean())) for each in variances)
        return [rows.times(1 / length) for rows, length in zip(found, lengths, strict=True)]

    @property
    def _ends(self) -> Floats:
        return np.cumsum([rows.count for rows in self._vertices])[:-1]

    @cached_property
    def _pull(self) -> Floats:
        """Q: by how much each vertex moves if another is pulled at."""
        pull = self._solution.covariance(self._vertices)
        pull[np.diag_indices(len(pull))] += SOFT
        return pull

    def _needed(self, found: Estimate) -> Floats:
        """Return how much of the even table leaves no vertex below zero."""
        even = found.mixed_with_even(1.0)
        needed: Floats = np.zeros(())
        for rows in self._vertices:
            below, whole = np.maximum(-found.answers(rows), 0), np.maximum(even.answers(rows), 0)
            with np.errstate(invalid="ignore", divide="ignore"):
                part = np.where(below > 0, below / (below + whole), 0.0)
            needed = np.maximum(needed, part.max(axis=0))
        return np.where(needed > 0, np.minimum(1.0, needed * (1 + 1e-9) + 1e-15), 0.0)


def _multipliers(pull: Floats, wanted: Floats) -> Floats:
    """Return ``l >= 0`` with ``wanted + pull @ l >= 0``, one of the two 0 in every place."""
    at_zero = wanted < 0
    fewest, tries = len(wanted) + 1, TRIES
    multipliers = np.zeros_like(wanted)
    for _ in range(MAX_GUESSES):
        multipliers[:] = 0
        inside = cho_factor(pull[np.ix_(at_zero, at_zero)], check_finite=False)
        multipliers[at_zero] = cho_solve(inside, -wanted[at_zero], check_finite=False)
        above = np.where(at_zero, multipliers, wanted + pull @ multipliers)
        wrong = above < -CLOSE
        count = int(wrong.sum())
        if count == 0:
            break
        if count < fewest:
            fewest, tries = count, TRIES
        elif tries > 0:
            tries -= 1
        else:
            wrong[: np.flatnonzero(wrong)[-1]] = False
        at_zero ^= wrong
    return np.maximum(multipliers, 0)


def _inside(one: Rows, other: Rows) -> bool:
    """Return whether the vertices of one table are sums of those of another."""
    finer = dict(zip(other.scope, other.parts, strict=True))
    return all(
        name in finer and common([part, finer[name]]) == finer[name]
        for name, part in zip(one.scope, one.parts, strict=True)
    )


def largest(block: Rows) -> float:
    """Return the largest coefficient of a block."""
    return abs(float(block.weight)) if block.plain else float(abs(block.matrix).max())
