"""Least squares for Kronecker blocks of one scope, column by column.

    A = diag(t) (F_1 x ... x F_d),     X = A^T A = sum over rows r of t_r^2 (f_r1^T f_r1 x ...)

If the heights t are a product too, then so is ``X = X_1 x ... x X_d`` and its inverse, and a query
that is a product ``w_1 x ... x w_d`` has the variance ``prod_c w_c X_c^-1 w_c^T``.  Where several
analysts poured their products together, t is a sum of a few products.  Then X is only ever applied,
and solved with by conjugate gradients, with the product nearest to it as preconditioner: the
squares of heights are replaced by the product of their sums along all other columns.  Few rows of a
factor are no single groups, so ``X_c = diag(o) + R^T R`` with a flat R, and

    X_c^-1 = diag(1/o) - V^T V,    V = L^-1 R diag(1/o),   L L^T = I + R diag(1/o) R^T.

Several blocks, such as those of two releases, are one with the rows of all their factors, whose
heights are zero wherever factor rows of two blocks meet.

A group that no row holds alone has ``o = 0``, and X may be singular; in the preconditioner it has a
small o instead.  A right side that cannot be reached is no combination of what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cholesky, solve_triangular

from sqlmadp.errors import NotCoveredError
from sqlmadp.schema.kronecker import KroneckerBlock, along, stacked_products
from sqlmadp.schema.marginal import Block, expand
from sqlmadp.workload.cells import CellsSolver
from sqlmadp.workload.product_rows import ProductRows

Matrix = NDArray[np.float64]

CHUNK = 1 << 18
"""Numbers that the right sides solved at once may hold: as many as stay close to the processor."""

CLOSE, CLOSEST = 1e-6, 1e-13
"""Relative residual at which a right side counts as solved: for variances, and for answers.

An error of a solution enters a variance by its square.
"""

FLAT = 1e-14
"""Curvature of X along a direction that it does not see but for rounding, against its mean."""

SMALL = 1e-3
"""What stands for ``o = 0`` in the preconditioner, in units of the mean square of a group."""

MOST_STEPS = 1000
"""Steps after which a right side that has not been reached counts as out of reach."""


def _of_length_1(block: KroneckerBlock) -> tuple[list[sparse.csr_array], Matrix]:
    """Return factors of rows of length 1, and the squares of the heights that these have.

    Blocks put what they measure into heights or factors as they like: only so are heights alike.
    """
    factors, squares = [], block.heights.astype(np.float64) ** 2
    for axis, factor in enumerate(block.factors):
        rows = factor.astype(np.float64)
        lengths = np.sqrt(np.asarray(rows.power(2).sum(axis=1)))
        lengths = np.where(lengths > 0, lengths, 1.0)
        factors.append(sparse.csr_array(sparse.diags_array(1 / lengths) @ rows))
        squares = squares * np.expand_dims(
            lengths**2, [a for a in range(squares.ndim) if a != axis]
        )
    return factors, squares


def _singles(factor: sparse.csr_array) -> NDArray[np.int64]:
    """Return the rows of a factor that hold one group each."""
    return np.flatnonzero(np.diff(factor.indptr) == 1)


@dataclass(frozen=True, eq=False)
class _Inverse:
    """``X_c^-1`` of one column."""

    exact: bool
    """Whether every group is held alone by some row."""
    own: Matrix
    """``1/o``, one a group."""
    flat: Matrix
    """V."""

    @classmethod
    def of(cls, factor: sparse.csr_array, squares: Matrix) -> _Inverse:
        """Return the inverse of ``F^T diag(squares) F``."""
        singles = _singles(factor)
        rows = factor.astype(np.float64)
        alone = np.asarray(rows[singles].power(2).T @ squares[singles])
        mean = float(rows.power(2).sum(axis=1) @ squares) / len(alone)
        own = 1 / np.where(alone > 0, alone, SMALL * mean)
        others = np.setdiff1d(np.arange(factor.shape[0]), singles)
        flat = np.sqrt(squares[others])[:, None] * rows[others].toarray() * np.sqrt(own)
        root = cholesky(np.eye(len(flat)) + flat @ flat.T, lower=True, check_finite=False)
        half = solve_triangular(root, flat, lower=True, check_finite=False)
        return cls(bool(alone.all()), own, half * np.sqrt(own))

    def times(self, table: Matrix, axis: int) -> Matrix:
        """Return a table multiplied by the inverse along one axis."""
        moved = np.moveaxis(table, axis, 0)
        columns = moved.reshape(len(moved), -1)
        product = self.own[:, None] * columns - self.flat.T @ (self.flat @ columns)
        return np.moveaxis(product.reshape(moved.shape), 0, axis)

    def variances(self, rows: Matrix) -> Matrix:
        """Return ``w X_c^-1 w^T`` for every row w."""
        return np.asarray((rows**2) @ self.own - ((rows @ self.flat.T) ** 2).sum(axis=1))


@dataclass(frozen=True, eq=False)
class _Information:
    """``X`` of one block, to be multiplied by: its factors, and the squares of its heights."""

    factors: tuple[sparse.csr_array, ...]
    transposed: tuple[sparse.csr_array, ...]
    squares: Matrix

    @classmethod
    def of_each(cls, blocks: Sequence[KroneckerBlock], stack: KroneckerBlock) -> list[_Information]:
        """Return one a block, over the cells of all: no product of rows of two is worked out."""
        found, start = [], np.zeros(stack.heights.ndim, dtype=np.int64)
        for block in blocks:
            end = start + block.heights.shape
            rows = [slice(a, b) for a, b in zip(start, end, strict=True)]
            pairs = zip(stack.factors, rows, strict=True)
            factors = tuple(sparse.csr_array(f[r], dtype=np.float64) for f, r in pairs)
            transposed = tuple(sparse.csr_array(factor.T) for factor in factors)
            found.append(cls(factors, transposed, block.heights.astype(np.float64) ** 2))
            start = end
        return found

    def times(self, table: Matrix) -> Matrix:
        """Return a table of all cells, and columns, multiplied by X."""
        for axis, factor in enumerate(self.factors):
            table = along(factor, table, axis)
        table = table * self.squares[..., None]
        for axis, factor in enumerate(self.transposed):
            table = along(factor, table, axis)
        return table


class KroneckerSolver(CellsSolver):
    """Solve for Kronecker blocks of one scope."""

    def __init__(self, blocks: Sequence[KroneckerBlock]) -> None:
        """Take the product nearest to X, and see whether it is X."""
        block = stacked_products(blocks)
        super().__init__(block.marginal)
        self._block = block
        self._information = _Information.of_each(blocks, block)
        self._ends = np.cumsum([each.rows for each in blocks])[:-1]
        factors, squares = _of_length_1(block)
        axes = range(squares.ndim)
        sums = [squares.sum(axis=tuple(other for other in axes if other != axis)) for axis in axes]
        sums[0] = sums[0] / squares.sum() ** (squares.ndim - 1)
        nearest = np.ones(())
        for each in sums:
            nearest = np.multiply.outer(nearest, each)
        self._inverses = [_Inverse.of(f, s) for f, s in zip(factors, sums, strict=True)]
        exact = all(inverse.exact for inverse in self._inverses)
        self.separable = exact and bool(np.allclose(nearest, squares, rtol=1e-12, atol=0))
        self._mean = block.square / block.marginal.size

    def variances(self, block: Block) -> Matrix:
        """Return each row's variance in units of the noise variance."""
        fine = self._over_cells(block)
        variances = np.zeros(fine.rows)
        others = np.arange(fine.rows)
        if self.separable:
            found = ProductRows.of(fine)
            products, others = found.values**2, found.others
            parts = zip(self._inverses, found.sets, found.members, strict=True)
            for inverse, sets, members in parts:
                products = products * inverse.variances(members)[sets]
            variances[found.rows] = products
        if len(others):
            rest = Block(fine.marginal, fine.matrix[others])
            each = [self._solved_variances(rows) for rows in self._rows(rest)]
            variances[others] = np.concatenate(each)
        return variances

    def _solved_variances(self, rows: Matrix) -> Matrix:
        """Return ``2 w z - z X z`` for every row w; an error of z enters it by its square."""
        solution = self._solved(rows, CLOSE)
        image = self._times(solution)
        return np.asarray((solution * (2 * rows - image)).sum(axis=0))

    def total(self, blocks: Sequence[Block]) -> float:
        """Return the sum of the variances of all rows of ``blocks``."""
        return math.fsum(float(self.variances(block).sum()) for block in blocks)

    def noise(self, block: Block) -> Matrix:
        """Return each answer's noise over that of every strategy row."""
        parts = [
            self._block.times(self._solved(rows, CLOSEST)).T
            for rows in self._rows(self._over_cells(block))
        ]
        return np.concatenate([np.zeros((0, self._block.rows)), *parts])

    def estimate(self, values: Sequence[Matrix]) -> Matrix:
        """Return the estimate of every cell of the marginal."""
        moments = self._block.transposed_times(np.concatenate(values))
        flat = self._solved(moments.reshape(self.marginal.size, -1), CLOSEST)
        return flat.reshape(moments.shape)

    def fitted(self, estimate: Matrix) -> tuple[Matrix, ...]:
        """Return the values of every block that an estimate of every cell stands for."""
        return tuple(np.split(self._block.times(estimate), self._ends))

    def _over_cells(self, block: Block) -> Block:
        """Return a block over the measured cells."""
        block = self.checked(block)
        if block.marginal == self.marginal:
            return block
        return Block(self.marginal, expand(block.matrix, block.marginal, self.marginal))

    def _rows(self, block: Block) -> Iterator[Matrix]:
        """Yield rows, one a column, a few at a time."""
        matrix, step = block.matrix, max(1, CHUNK // block.marginal.size)
        for start in range(0, block.rows, step):
            yield np.ascontiguousarray(matrix[start : start + step].toarray().T, dtype=np.float64)

    def _solved(self, right: Matrix, close: float) -> Matrix:
        """Return the solutions of ``X z = right``, one a column."""
        residual, solution = right.copy(), np.zeros_like(right)
        scaled = self._preconditioned(residual)
        direction, squares = scaled.copy(), (residual * scaled).sum(axis=0)
        goals = close * np.sqrt(squares)
        for _ in range(MOST_STEPS):
            if (np.sqrt(squares) <= goals).all():
                return solution
            image = self._times(direction)
            curvature = (direction * image).sum(axis=0)
            unseen = curvature <= FLAT * self._mean * (direction**2).sum(axis=0)
            if (unseen & (np.sqrt(squares) > goals)).any():
                break
            step = np.divide(squares, curvature, out=np.zeros_like(squares), where=curvature > 0)
            solution += step * direction
            residual -= step * image
            scaled = self._preconditioned(residual)
            before, squares = squares, (residual * scaled).sum(axis=0)
            turn = np.divide(squares, before, out=np.zeros_like(squares), where=before > 0)
            direction = scaled + turn * direction
        raise NotCoveredError("the query is not a combination of what the release measured")

    def _times(self, columns: Matrix) -> Matrix:
        """Return ``X columns``."""
        table = columns.reshape((*self.marginal.shape, columns.shape[1]))
        images = [part.times(table).reshape(columns.shape) for part in self._information]
        return np.asarray(sum(images[1:], start=images[0]))

    def _preconditioned(self, right: Matrix) -> Matrix:
        table = right.reshape((*self.marginal.shape, right.shape[1]))
        for axis, inverse in enumerate(self._inverses):
            table = inverse.times(table, axis)
        return table.reshape(right.shape)
