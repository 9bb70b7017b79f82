"""One large table: estimates in its cells, where every cell was measured by itself.

Often one measured scope holds all others, and every one of its cells was measured alone beside
whatever else was.  Then cells are coordinates enough: with A all rows over the cells, D the squares
of what measures a cell alone and R the other rows, ``X = A^T A = D + R^T R`` is regular and sparse.

    no cell below zero    minimise |A x - y|^2 subject to x >= 0
    whole numbers         running sums are rounded, cell by cell: ``c_i = [s_i] - [s_(i-1)]``

The first is solved by guessing which cells are at zero, with conjugate gradients for the others,
until x and the gradient have the right signs (block principal pivoting, as in `nonnegative`); so
what is returned meets the conditions that the one best x meets.  Rounding keeps every running sum
within half a record, the total above all, and no cell falls below zero that was not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.errors import InternalError, NotCoveredError
from sqlmadp.schema.marginal import Block, Marginal, cell_map
from sqlmadp.workload.reduce import reduced
from sqlmadp.workload.solver import Answers, Solver, solver_for

Matrix = NDArray[np.float64]
Mask = NDArray[np.bool_]

CLOSE = 1e-7
"""By how much of a measured value a sign may be wrong; noise is far more."""

SOLVED = 1e-12
"""What may be left of a right side, relatively, when conjugate gradients end."""

MOST_STEPS = 10
"""Steps, a cell, that conjugate gradients take at most: one would do, but for rounding."""

TRIES, STEPS = 5, 500
"""Guesses in a row that change all wrong signs without fewer of them, and guesses in all."""


class TableSolver:
    """Answers from the cells of one table that holds all blocks."""

    def __init__(self, blocks: Sequence[Block], table: Marginal) -> None:
        """Write all blocks over the cells of the table."""
        self.blocks, self._table = tuple(blocks), table
        self._rows = [
            sparse.csr_array(b.matrix[:, cell_map(b.marginal, table)], dtype=np.float64)
            for b in blocks
        ]
        self._all = sparse.csr_array(sparse.vstack(self._rows))
        self._back = sparse.csr_array(self._all.T)
        self._diagonal = np.asarray(self._all.multiply(self._all).sum(axis=0)).reshape(-1)

    @classmethod
    def of(cls, blocks: Sequence[Block], tables: Sequence[Marginal]) -> TableSolver | None:
        """Return the solver, if there is one table and each of its cells is measured alone."""
        if len(tables) != 1 or not _each_alone(blocks, tables[0]):
            return None
        return cls(blocks, tables[0])

    @cached_property
    def _unprocessed(self) -> Solver:
        return solver_for(self.blocks)

    def variances(self, block: Block) -> Matrix:
        """Return each row's variance, before any post-processing."""
        return self._unprocessed.variances(block)

    def total(self, blocks: Sequence[Block]) -> float:
        """Return the sum of the variances of all rows of ``blocks``."""
        return self._unprocessed.total(blocks)

    def noise(self, block: Block) -> Matrix | sparse.csr_array:
        """Return each answer's noise over independent ones of unit variance."""
        return self._unprocessed.noise(block)

    def fit(self, values: Sequence[Matrix]) -> Answers:
        """Return what answers blocks, given the noisy ``values`` of every strategy block."""
        return self.answers(self.estimate(values))

    def estimate(self, values: Sequence[Matrix]) -> Matrix:
        """Return the least-squares estimate of every cell."""
        return self._each(values, lambda moments: self._solved(moments, _everywhere(moments)))

    def nonnegative(self, values: Sequence[Matrix]) -> Matrix:
        """Return the least-squares estimate among those with no cell below zero."""
        return self._each(values, self._nonnegative)

    def fitted(self, estimate: Matrix) -> tuple[Matrix, ...]:
        """Return the values of every strategy block that an estimate stands for."""
        return tuple(np.asarray(rows @ estimate) for rows in self._rows)

    def answers(self, estimate: Matrix) -> Answers:
        """Return what answers blocks from an estimate of every cell."""

        def answers(block: Block) -> Matrix:
            return np.asarray(self._over_cells(block) @ estimate)

        return answers

    def _over_cells(self, block: Block) -> sparse.csr_array:
        """Return the rows of a block over the cells of the table."""
        block = reduced(block)
        if not self._table.resolves(block.marginal):
            raise NotCoveredError("the release does not tell apart what the query tells apart")
        return sparse.csr_array(block.matrix[:, cell_map(block.marginal, self._table)])

    def _each(self, values: Sequence[Matrix], solve: Callable[[Matrix], Matrix]) -> Matrix:
        """Solve for every column of the values."""
        stacked = np.concatenate([np.asarray(value, dtype=np.float64) for value in values])
        moments = np.asarray(self._back @ stacked)
        if moments.ndim == 1:
            return solve(moments)
        return np.column_stack([solve(column) for column in moments.T])

    def _nonnegative(self, moments: Matrix) -> Matrix:
        """Return ``x >= 0`` with ``X x >= moments``, one of the two met exactly in every cell."""
        lengths = np.sqrt(self._diagonal)
        cells = self._solved(moments, _everywhere(moments))
        free = cells > 0
        fewest, tries = len(cells) + 1, TRIES
        for _ in range(STEPS):
            cells = self._solved(moments, free, cells * free)
            slope = self._times(cells) - moments
            wrong = np.where(free, cells * lengths, slope / lengths) < -CLOSE
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

    def _solved(self, moments: Matrix, free: Mask, start: Matrix | None = None) -> Matrix:
        """Return x with ``X x = moments`` in the free cells, and 0 in the others."""
        cells = np.zeros_like(moments) if start is None else start
        rest = np.where(free, moments - self._times(cells), 0.0)
        # In units of each cell's own rows, or heavy ones would hide what is left of light ones.
        enough = SOLVED**2 * float(moments @ (moments / self._diagonal))
        step = better = rest / self._diagonal
        height = float(rest @ better)
        for _ in range(MOST_STEPS * len(moments)):
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

    def _times(self, cells: Matrix) -> Matrix:
        return np.asarray(self._back @ (self._all @ cells))


def whole_cells(cells: Matrix) -> Matrix:
    """Return integers whose running sums are those of the cells, rounded; one column each."""
    running = np.rint(np.cumsum(cells, axis=0))
    return np.diff(running, axis=0, prepend=np.zeros_like(running[:1]))


def _everywhere(moments: Matrix) -> Mask:
    return np.ones(len(moments), dtype=np.bool_)


def _each_alone(blocks: Sequence[Block], table: Marginal) -> bool:
    """Tell whether every cell of the table is measured by some row alone."""
    alone = np.zeros(table.size, dtype=np.bool_)
    for block in blocks:
        if block.marginal == table:
            single = np.flatnonzero(np.diff(block.matrix.indptr) == 1)
            alone[block.matrix.indices[block.matrix.indptr[single]]] = True
    return bool(alone.all())
