"""Least squares in coordinates: from strategy rows to expected errors and answers.

With independent noise of equal variance on every strategy row, the best unbiased answer to
a query w in the row space of A is ``w X^- A^T y`` with ``X = A^T A``; its variance, in units of
the noise variance, is ``w X^- w^T``.  X may be singular: any generalised inverse gives the same
numbers for a w in its range, so the solver works on a maximal independent set of coordinates.

Two ways, one interface:
    DenseSolver      a Cholesky factor of X in coordinates
    IdentitySolver   one block that measures each cell of its marginal: X is a multiple of I
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_solve, cholesky, lapack, solve_triangular

from sqlmadp.errors import NotCoveredError
from sqlmadp.schema.marginal import Block, Labels, cell_map
from sqlmadp.workload.coordinates import Coordinates

Matrix = NDArray[np.float64]

SINGULAR = 1e-11
"""Relative pivot, after scaling the diagonal to 1, below which a coordinate is dependent."""

COVERED = 1e-6
"""Relative distance from the row space up to which a query counts as inside it."""

CHUNK = 1 << 24
"""Numbers that one dense slice of a query block may hold."""


class Solver(Protocol):
    """Answers queries from noisy strategy rows, and tells how noisy the answers are."""

    def variances(self, block: Block) -> Matrix:
        """Return each row's variance in units of the noise variance."""

    def fit(self, values: Sequence[Matrix]) -> Answers:
        """Return what answers blocks, given the noisy ``values`` of every strategy block."""


Answers = Callable[[Block], Matrix]
"""Gives each row of a block its best answer."""


def solver_for(blocks: Sequence[Block]) -> Solver:
    """Return the solver that fits a strategy."""
    if len(blocks) == 1 and _is_scaled_identity(blocks[0].matrix):
        return IdentitySolver(blocks[0])
    return DenseSolver(blocks)


class DenseSolver:
    """Solve with a Cholesky factor of ``A^T A`` in coordinates."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        """Factor ``A^T A``."""
        self._blocks = tuple(blocks)
        self.coordinates = Coordinates(block.marginal for block in blocks)
        self._gram = np.zeros((self.coordinates.size, self.coordinates.size))
        for block in blocks:
            coefficients, box = self.coordinates.cells(block.marginal)
            rows = np.asarray(block.matrix @ coefficients)
            self._gram[np.ix_(box, box)] += rows.T @ rows
        self._chosen, self._scale, self._factor = _factorise(self._gram)

    def variances(self, block: Block) -> Matrix:
        """Return each row's variance in units of the noise variance."""
        parts = [self._variances(part) for part in self._slices(block)]
        return np.concatenate(parts) if parts else np.zeros(0)

    def _variances(self, block: Block) -> Matrix:
        rows = self._covered_rows(block)
        scaled = rows[:, self._chosen] * self._scale
        half = solve_triangular(self._factor, scaled.T, lower=True, check_finite=False)
        return np.asarray((half * half).sum(axis=0))

    def fit(self, values: Sequence[Matrix]) -> Answers:
        """Return what answers blocks, given the noisy ``values`` of every strategy block."""
        moments = np.zeros(self.coordinates.size)
        for strategy, value in zip(self._blocks, values, strict=True):
            coefficients, box = self.coordinates.cells(strategy.marginal)
            moments[box] += np.asarray(strategy.matrix.T @ value) @ coefficients
        scaled = moments[self._chosen] * self._scale
        estimate = np.zeros(self.coordinates.size)
        estimate[self._chosen] = self._scale * self._refined(scaled)

        def answers(block: Block) -> Matrix:
            parts = [self._covered_rows(part) @ estimate for part in self._slices(block)]
            return np.concatenate(parts) if parts else np.zeros(0)

        return answers

    def _refined(self, moments: Matrix) -> Matrix:
        """Solve, then once more for what rounding left over: counts may be in the millions."""
        gram = self._gram[np.ix_(self._chosen, self._chosen)] * np.outer(self._scale, self._scale)
        solution = cho_solve((self._factor, True), moments, check_finite=False)
        rest = moments - gram @ solution
        return np.asarray(solution + cho_solve((self._factor, True), rest, check_finite=False))

    def _covered_rows(self, block: Block) -> Matrix:
        """Return the rows in coordinates, or raise if one is not in the row space."""
        if not self.coordinates.resolves(block.marginal):
            raise NotCoveredError("the release does not tell apart what the query tells apart")
        rows, outside = self.coordinates.rows(block)
        limit = COVERED * max(1.0, float(np.abs(rows).max(initial=0.0)))
        if len(self._chosen) < self.coordinates.size and rows.size:
            scaled = (rows[:, self._chosen] * self._scale).T
            weights = cho_solve((self._factor, True), scaled, check_finite=False)
            rebuilt = (weights.T * self._scale) @ self._gram[self._chosen]
            outside = max(outside, float(np.abs(rebuilt - rows).max()))
        if outside > limit:
            raise NotCoveredError("the query is not a combination of what the release measured")
        return rows

    def _slices(self, block: Block) -> list[Block]:
        """Cut a block so that no slice of it is too large when dense."""
        step = max(1, CHUNK // max(self.coordinates.size, 1))
        return [
            Block(block.marginal, block.matrix[start : start + step])
            for start in range(0, block.rows, step)
        ]


class IdentitySolver:
    """Solve for a strategy that measures every cell of one marginal, each with one weight."""

    def __init__(self, block: Block) -> None:
        """Keep the marginal and the weight."""
        self._marginal = block.marginal
        self._weight = float(block.matrix.data[0])

    def variances(self, block: Block) -> Matrix:
        """Return each row's variance in units of the noise variance."""
        self._check(block)
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
            self._check(block)
            cells = cell_map(block.marginal, self._marginal)
            sums = np.bincount(cells, weights=values[0], minlength=block.marginal.size)
            return np.asarray(block.matrix @ sums / self._weight)

        return answers

    def _check(self, block: Block) -> None:
        place = dict(zip(self._marginal.scope, self._marginal.partitions, strict=True))
        for name, partition in zip(block.marginal.scope, block.marginal.partitions, strict=True):
            if name not in place or place[name].refine(partition).size > place[name].size:
                raise NotCoveredError("the release does not tell apart what the query tells apart")


def _is_scaled_identity(matrix: sparse.csr_array) -> bool:
    rows, columns = matrix.shape
    return bool(
        rows == columns == matrix.nnz
        and np.array_equal(matrix.indices, np.arange(columns))
        and np.array_equal(matrix.indptr, np.arange(rows + 1))
        and (matrix.data == matrix.data[0]).all()
    )


def _factorise(gram: Matrix) -> tuple[Labels, Matrix, Matrix]:
    """Return independent coordinates, their scaling, and the Cholesky factor of both applied."""
    diagonal = np.diag(gram)
    # What rounding leaves in an unused coordinate must not be scaled up to 1.
    used = np.flatnonzero(diagonal > SINGULAR * diagonal.max(initial=0.0))
    scale = 1 / np.sqrt(diagonal[used])
    scaled = gram[np.ix_(used, used)] * np.outer(scale, scale)
    try:
        factor = cholesky(scaled, lower=True, check_finite=False)
        if np.diag(factor).min(initial=1.0) ** 2 > SINGULAR:
            return used, scale, factor
    except np.linalg.LinAlgError:
        pass  # Singular: choose independent coordinates below.
    _, pivots, rank, _ = lapack.dpstrf(scaled, tol=SINGULAR, lower=1)
    chosen = np.sort(pivots[:rank] - 1)
    part = scaled[np.ix_(chosen, chosen)]
    return used[chosen], scale[chosen], cholesky(part, lower=True, check_finite=False)
