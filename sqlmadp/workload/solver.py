"""Least squares in coordinates: from strategy rows to expected errors and answers.

With independent noise of equal variance on every strategy row, the best unbiased answer to
a query w in the row space of A is ``w X^- A^T y`` with ``X = A^T A``; its variance, in units of
the noise variance, is ``w X^- w^T``.  X may be singular: any generalised inverse gives the same
numbers for a w in its range.

Two ways, one interface:
    DenseSolver      a triangular factor of X in coordinates
    IdentitySolver   one block that measures each cell of its marginal: X is a multiple of I
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.errors import NotCoveredError, NotSupportedError
from sqlmadp.schema.marginal import Block, Marginal, cell_map
from sqlmadp.workload.coordinates import Coordinates
from sqlmadp.workload.factor import COVERED, Factor
from sqlmadp.workload.reduce import reduced

Matrix = NDArray[np.float64]

MOST_COORDINATES = 10_000
"""Coordinates up to which a triangular factor fits into memory and a minute or two."""

CHUNK = 1 << 24
"""Numbers that one dense slice of a query block may hold."""


class Solver(Protocol):
    """Answers queries from noisy strategy rows, and tells how noisy the answers are."""

    def variances(self, block: Block) -> Matrix:
        """Return each row's variance in units of the noise variance."""

    def fit(self, values: Sequence[Matrix]) -> Answers:
        """Return what answers blocks, given the noisy ``values`` of every strategy block."""


Answers = Callable[[Block], Matrix]
"""Gives each row of a block its best answer; one a column, if the values have columns."""


def solver_for(blocks: Sequence[Block]) -> Solver:
    """Return the solver that fits a strategy."""
    if len(blocks) == 1 and _is_scaled_identity(blocks[0].matrix):
        return IdentitySolver(blocks[0])
    return DenseSolver(blocks)


class DenseSolver:
    """Solve with a triangular factor of ``A^T A`` in coordinates."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        """Factor the strategy."""
        self._blocks = tuple(blocks)
        self.coordinates = Coordinates(block.marginal for block in blocks)
        if self.coordinates.size > MOST_COORDINATES:
            raise NotSupportedError(
                f"these queries together take {self.coordinates.size:,} coordinates; at most "
                f"{MOST_COORDINATES:,} are supported. Ask for fewer columns at a time, or for "
                f"coarser groups of their values"
            )
        parts = []
        for block in blocks:
            coefficients, box = self.coordinates.cells(block.marginal)
            parts.append((np.asarray(block.matrix @ coefficients), box))
        self._factor = Factor(parts, self.coordinates.size)

    def variances(self, block: Block) -> Matrix:
        """Return each row's variance in units of the noise variance."""
        parts = [(half * half).sum(axis=0) for _, half in self._covered(block)]
        return np.concatenate(parts) if parts else np.zeros(0)

    def fit(self, values: Sequence[Matrix]) -> Answers:
        """Return what answers blocks, given the noisy ``values`` of every strategy block."""
        estimate = self._factor.solve(self._moments(values))
        # Once more for what rounding left over: counts may be in the millions.
        rest = [v - e for v, e in zip(values, self._values(estimate), strict=True)]
        estimate += self._factor.solve(self._moments(rest))

        def answers(block: Block) -> Matrix:
            parts = [rows @ estimate for rows, _ in self._covered(block)]
            return np.concatenate(parts) if parts else np.zeros(0)

        return answers

    def _moments(self, values: Sequence[Matrix]) -> Matrix:
        """Return ``A^T y``."""
        moments = np.zeros((self.coordinates.size, *values[0].shape[1:]))
        for block, value in zip(self._blocks, values, strict=True):
            coefficients, box = self.coordinates.cells(block.marginal)
            moments[box] += coefficients.T @ np.asarray(block.matrix.T @ value)
        return moments

    def _values(self, estimate: Matrix) -> Iterator[Matrix]:
        """Yield ``A x`` block by block."""
        for block in self._blocks:
            coefficients, box = self.coordinates.cells(block.marginal)
            yield np.asarray(block.matrix @ (coefficients @ estimate[box]))

    def _covered(self, block: Block) -> Iterator[tuple[Matrix, Matrix]]:
        """Yield rows in coordinates and their halves, or raise if one is not in the row space."""
        if not self.coordinates.resolves(block.marginal):
            block = reduced(block)  # What no row depends on need not have been measured.
        if not self.coordinates.resolves(block.marginal):
            raise NotCoveredError("the release does not tell apart what the query tells apart")
        for part in self._slices(block):
            rows, displaced = self.coordinates.rows(part)
            half = self._factor.half(rows)
            outside = np.maximum(displaced, self._factor.outside(rows, half))
            largest = np.maximum(displaced, np.abs(rows).max(axis=1, initial=0.0))
            if (outside > COVERED * largest).any():
                raise NotCoveredError("the query is not a combination of what the release measured")
            yield rows, half

    def _slices(self, block: Block) -> Iterator[Block]:
        """Cut a block so that no slice of it is too large when dense."""
        step = max(1, CHUNK // self.coordinates.size)
        for start in range(0, block.rows, step):
            yield Block(block.marginal, block.matrix[start : start + step])


class IdentitySolver:
    """Solve for a strategy that measures every cell of one marginal, each with one weight."""

    def __init__(self, block: Block) -> None:
        """Keep the marginal and the weight."""
        self._marginal = block.marginal
        self._weight = float(block.matrix.data[0])

    def variances(self, block: Block) -> Matrix:
        """Return each row's variance in units of the noise variance."""
        block = self._checked(block)
        copies = np.asarray([1.0])
        place = dict(zip(block.marginal.scope, block.marginal.partitions, strict=True))
        for name, measured in zip(self._marginal.scope, self._marginal.partitions, strict=True):
            inside = (
                place[name].coarsen(measured) if name in place else np.zeros(measured.size, int)
            )
            copies = np.multiply.outer(copies, np.bincount(inside)).reshape(-1)
        squares = np.asarray(block.matrix.multiply(block.matrix) @ copies)
        return np.asarray(squares / self._weight**2)

    def fit(self, values: Sequence[Matrix]) -> Answers:
        """Return what answers blocks, given the noisy ``values`` of the strategy block."""

        def answers(block: Block) -> Matrix:
            block = self._checked(block)
            cells = cell_map(block.marginal, self._marginal)
            sums = np.zeros((block.marginal.size, *values[0].shape[1:]))
            np.add.at(sums, cells, values[0])
            return np.asarray(block.matrix @ sums / self._weight)

        return answers

    def _checked(self, block: Block) -> Block:
        """Return the block, reduced if need be, or raise if it is finer than what was measured."""
        if not self._resolves(block.marginal):
            block = reduced(block)  # What no row depends on need not have been measured.
        if not self._resolves(block.marginal):
            raise NotCoveredError("the release does not tell apart what the query tells apart")
        return block

    def _resolves(self, marginal: Marginal) -> bool:
        place = dict(zip(self._marginal.scope, self._marginal.partitions, strict=True))
        return all(
            name in place and place[name].refine(partition).size == place[name].size
            for name, partition in zip(marginal.scope, marginal.partitions, strict=True)
        )


def _is_scaled_identity(matrix: sparse.csr_array) -> bool:
    rows, columns = matrix.shape
    return bool(
        rows == columns == matrix.nnz
        and np.array_equal(matrix.indices, np.arange(columns))
        and np.array_equal(matrix.indptr, np.arange(rows + 1))
        and (matrix.data == matrix.data[0]).all()
    )
