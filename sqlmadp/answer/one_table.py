"""One table: estimates in its cells, where every cell was measured by itself.

Often one measured scope holds all others, and every one of its cells was measured alone beside
whatever else was.  Then cells are coordinates enough, however many there are: with A all rows over
the cells, ``X = A^T A`` is regular and sparse, and no cell below zero means

    minimise |A x - y|^2     subject to   x >= 0,

solved by guessing which cells are at zero, with conjugate gradients for the others, until x and
the gradient have the right signs.  Whatever has the wrong sign changes sides (block principal
pivoting [JP94]), all at once while that helps, else one at a time, which always ends; so what is
returned meets the conditions that the one best x meets.

[JP94] Júdice, Pires, "A block principal pivoting algorithm for large-scale strictly monotone linear
complementarity problems", doi:10.1016/0305-0548(94)90106-6.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.errors import InternalError
from sqlmadp.table.partition import Floats
from sqlmadp.table.products import Products
from sqlmadp.table.rows import Rows

Mask = NDArray[np.bool_]

CLOSE = 1e-7
"""By how much of a measured value a sign may be wrong; noise is far more."""

SOLVED = 1e-12
"""What may be left of a right side, relatively, when conjugate gradients end."""

ROUNDING = 10
"""Take no sign to be wrong within this many times what conjugate gradients leave: with hardly any
noise many cells are at zero, to either side of it by rounding alone."""

MAX_STEPS = 10
"""Steps, a cell, that conjugate gradients take at most: one would do, but for rounding."""

TRIES, MAX_GUESSES = 5, 500
"""Guesses in a row that change all wrong signs without fewer of them, and guesses in all."""


@dataclass(frozen=True, eq=False)
class TableEstimate:
    """Counts in the cells of one table; one column per release, if there are several."""

    table: Rows
    cells: Floats

    def answers(self, rows: Rows) -> Floats:
        """Return the answer of every row, without a check that it was measured."""
        return np.asarray(rows.over(self.table.scope, self.table.parts).matrix @ self.cells)


class OneTable:
    """Estimates in the cells of one table that holds all blocks."""

    def __init__(self, blocks: Sequence[Rows], table: Rows) -> None:
        """Write all blocks over the cells of the table."""
        self.table = table
        over = [_matrix(block.over(table.scope, table.parts)) for block in blocks]
        self._all = sparse.csr_array(sparse.vstack(over), dtype=np.float64)
        self._back = sparse.csr_array(self._all.T)
        self._diagonal = np.asarray(self._all.multiply(self._all).sum(axis=0)).reshape(-1)

    @property
    def each_alone(self) -> bool:
        """Whether every cell is measured by some row alone."""
        lengths = np.diff(self._all.indptr)
        alone = self._all[lengths == 1].indices
        return len(np.unique(alone)) == self.table.size

    def least_squares(self, values: Sequence[Floats]) -> TableEstimate:
        """Return the least-squares estimate of every cell."""
        return self._each(values, lambda moments: self._solved(moments, _everywhere(moments)))

    def nonnegative(self, values: Sequence[Floats]) -> TableEstimate:
        """Return the least-squares estimate among those with no cell below zero."""
        return self._each(values, self._nonnegative)

    def _each(self, values: Sequence[Floats], solve: Callable[[Floats], Floats]) -> TableEstimate:
        """Solve for every column of the values."""
        moments = np.asarray(self._back @ np.concatenate(values).astype(np.float64))
        if moments.ndim == 1:
            return TableEstimate(self.table, solve(moments))
        return TableEstimate(self.table, np.column_stack([solve(column) for column in moments.T]))

    def _nonnegative(self, moments: Floats) -> Floats:
        """Return ``x >= 0`` with ``X x >= moments``, one of the two met exactly in every cell."""
        lengths = np.sqrt(self._diagonal)
        close = max(CLOSE, ROUNDING * SOLVED * float(np.linalg.norm(moments / lengths)))
        cells = self._solved(moments, _everywhere(moments))
        free = cells > 0
        fewest, tries = len(cells) + 1, TRIES
        for _ in range(MAX_GUESSES):
            cells = self._solved(moments, free, cells * free)
            slope = self._times(cells) - moments
            wrong = np.where(free, cells * lengths, slope / lengths) < -close
            count = int(wrong.sum())
            if count == 0:
                return np.maximum(cells, 0)
            if count < fewest:
                fewest, tries = count, TRIES
            elif tries > 0:
                tries -= 1
            else:
                wrong[: np.flatnonzero(wrong)[-1]] = False
            free ^= wrong
        raise InternalError("no table of non-negative counts was found")

    def _solved(self, moments: Floats, free: Mask, start: Floats | None = None) -> Floats:
        """Return x with ``X x = moments`` in the free cells, and 0 in the others."""
        cells = np.zeros_like(moments) if start is None else start
        rest = np.where(free, moments - self._times(cells), 0.0)
        # In units of each cell's own rows, or heavy ones would hide what is left of light ones.
        enough = SOLVED**2 * float(moments @ (moments / self._diagonal))
        step = better = rest / self._diagonal
        height = float(rest @ better)
        for _ in range(MAX_STEPS * len(moments)):
            if height <= enough:
                break
            pulled = np.where(free, self._times(step), 0.0)
            length = height / float(step @ pulled)
            cells = cells + length * step
            rest = rest - length * pulled
            better = rest / self._diagonal
            height, before = float(rest @ better), height
            step = better + (height / before) * step
        return cells

    def _times(self, cells: Floats) -> Floats:
        return np.asarray(self._back @ (self._all @ cells))


def _matrix(rows: Rows) -> sparse.csr_array:
    """Return rows written out; products however many, since few of their entries are not 0."""
    if not isinstance(rows, Products):
        return rows.matrix
    grid = reduce(lambda a, b: sparse.kron(a, b, format="csr"), rows.factors)
    return sparse.csr_array(sparse.diags_array(rows.heights.reshape(-1).astype(np.float64)) @ grid)[
        np.flatnonzero(rows.heights)
    ]


def _everywhere(moments: Floats) -> Mask:
    return np.ones(len(moments), dtype=np.bool_)
