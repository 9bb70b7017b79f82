"""The product of one matrix a column that is nearest to what Kronecker blocks measure, inverted.

Blocks ``A_b = diag(t_b) (F_b1 x ... x F_bd)`` measure ``X = sum_b A_b^T A_b``.  With every factor's
rows of length 1, replace the squares of all heights by the product of their sums along all other
columns.  What is left is ``X_1 x ... x X_d``, which is X itself if every block's heights are a
product and blocks differ in one column at most, as those of statements that group by all values of
one column do.  Few rows of a factor are no single groups, so ``X_c = diag(o) + R^T R`` with a
flat R, and

    X_c^-1 = diag(1/o) - V^T V,    V = L^-1 R diag(1/o),   L L^T = I + R diag(1/o) R^T.

A group that no row holds alone has ``o = 0``, and X_c may be singular.  If the product is X itself,
then such an X_c has the inverse that it has on its range, where all queries must lie; otherwise the
group has a small o instead.  With P that product and T a few rows of any form beside the blocks,

    (P + T^T T)^-1 = P^-1 - P^-1 T^T C^-1 T P^-1,    C = I + T P^-1 T^T,

so nothing is factored but C, which has as many rows as T.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular

from sqlmadp.schema.kronecker import KroneckerBlock
from sqlmadp.workload.along import along_each, multiplied
from sqlmadp.workload.factor import COVERED

Matrix = NDArray[np.float64]

SMALL = 1e-3
"""What stands for ``o = 0``, in units of the mean square of a group."""

MOST_GROUPS = 1024
"""Groups of a column up to which a singular X_c is inverted on its range."""

ALIKE = 1e-12
"""Relative distance at which two blocks measure multiples of the same along a column."""

DEPENDENT = 1e-12
"""Relative eigenvalue at which a direction is not measured but for rounding."""

CHUNK = 1 << 21
"""Numbers that the rows of T worked on at once may hold."""


@dataclass(frozen=True, eq=False)
class Inverse:
    """``X_c^-1`` of one column."""

    exact: bool
    """Whether every group is held alone by some row."""
    own: Matrix
    """``1/o``, one a group."""
    flat: Matrix
    """V."""

    @classmethod
    def of(cls, factor: sparse.csr_array, squares: Matrix) -> Inverse:
        """Return the inverse of ``F^T diag(squares) F``."""
        singles = np.flatnonzero(np.diff(factor.indptr) == 1)
        alone = np.asarray(factor[singles].power(2).T @ squares[singles])
        mean = float(factor.power(2).sum(axis=1) @ squares) / len(alone)
        own = 1 / np.where(alone > 0, alone, SMALL * mean)
        others = np.setdiff1d(np.arange(factor.shape[0]), singles)
        flat = np.sqrt(squares[others])[:, None] * factor[others].toarray() * np.sqrt(own)
        root = cholesky(np.eye(len(flat)) + flat @ flat.T, lower=True, check_finite=False)
        half = solve_triangular(root, flat, lower=True, check_finite=False)
        return cls(bool(alone.all()), own, half * np.sqrt(own))

    def times(self, table: Matrix) -> Matrix:
        """Return a table multiplied by the inverse along its middle axis."""
        inside = multiplied(self.flat.T, multiplied(self.flat, table))
        return np.subtract(table * self.own[:, None], inside, out=inside)

    def variances(self, rows: Matrix) -> Matrix:
        """Return ``w X_c^-1 w^T`` for every row w."""
        return np.asarray((rows**2) @ self.own - ((rows @ self.flat.T) ** 2).sum(axis=1))


@dataclass(frozen=True, eq=False)
class RangeInverse:
    """``X_c^-1`` of one column on the range of X_c."""

    half: Matrix
    """H with ``H^T H`` the inverse."""
    range: Matrix
    """An orthonormal basis of the range, one row each."""

    @classmethod
    def of(cls, factor: sparse.csr_array, squares: Matrix) -> RangeInverse:
        """Return the inverse of ``F^T diag(squares) F``."""
        values, vectors = np.linalg.eigh(
            (factor.T @ sparse.diags_array(squares) @ factor).toarray()
        )
        kept = values > DEPENDENT * values[-1]
        basis = vectors[:, kept].T
        return cls(basis / np.sqrt(values[kept])[:, None], basis)

    def times(self, table: Matrix) -> Matrix:
        """Return a table multiplied by the inverse along its middle axis."""
        return multiplied(self.half.T, multiplied(self.half, table))

    def inside(self, table: Matrix) -> Matrix:
        """Return the part of a table that lies in the range along its middle axis."""
        return multiplied(self.range.T, multiplied(self.range, table))

    def variances(self, rows: Matrix) -> Matrix:
        """Return ``w X_c^-1 w^T`` for every row w, infinite if it is not in the range."""
        away = np.abs(rows - self.inside(rows[:, :, None])[:, :, 0]).max(axis=1, initial=0.0)
        outside = away > COVERED * np.abs(rows).max(axis=1, initial=0.0)
        return np.where(outside, np.inf, ((rows @ self.half.T) ** 2).sum(axis=1))


@dataclass(frozen=True, eq=False)
class NearProduct:
    """``(X_1 x ... x X_d)^-1``."""

    shape: tuple[int, ...]
    inverses: tuple[Inverse | RangeInverse, ...]
    exact: bool
    """Whether this is the inverse of X itself."""

    @classmethod
    def of(cls, blocks: Sequence[KroneckerBlock], *, alone: bool) -> NearProduct:
        """Return the inverse of what is nearest to blocks over the same cells.

        If they are not ``alone``, then what they do not see is seen by others.
        """
        parts = [_of_length_1(block) for block in blocks]
        total = float(sum(squares.sum() for _, squares in parts))
        columns = []
        for axis in range(len(blocks[0].factors)):
            factor = sparse.csr_array(sparse.vstack([factors[axis] for factors, _ in parts]))
            along = np.concatenate([_sums(squares, axis) for _, squares in parts])
            columns.append((factor, along / total if axis else along))
        inverses = tuple(Inverse.of(*column) for column in columns)
        most = MOST_GROUPS if alone else 0
        few = all(inverse.exact or len(inverse.own) <= most for inverse in inverses)
        shape = blocks[0].marginal.shape
        if not (few and _is_product(parts)):
            return cls(shape, inverses, exact=False)
        pairs = zip(inverses, columns, strict=True)
        true = tuple(own if own.exact else RangeInverse.of(*column) for own, column in pairs)
        return cls(shape, true, exact=True)

    def covers(self, tables: Matrix) -> bool:
        """Tell whether tables, one a row, are combinations of rows of X; if this is exact."""
        steps = [i.inside if isinstance(i, RangeInverse) else _same for i in self.inverses]
        away = np.abs(along_each(tables, self.shape, steps) - tables).max(axis=1, initial=0.0)
        return bool((away <= COVERED * np.abs(tables).max(axis=1, initial=0.0)).all())

    def times(self, tables: Matrix) -> Matrix:
        """Return tables of all cells, one a row, multiplied by the inverse."""
        return along_each(tables, self.shape, [inverse.times for inverse in self.inverses])


class Beside:
    """``(P + T^T T)^-1``."""

    def __init__(self, product: NearProduct, rows: sparse.csr_array) -> None:
        """Factor C, for rows T over all cells."""
        self._product, self._rows = product, rows
        self._back = sparse.csr_array(rows.T)
        inner = np.empty((rows.shape[0],) * 2, order="F")
        step = max(1, CHUNK // rows.shape[1])
        for start in range(0, rows.shape[0], step):
            some = rows[start : start + step].toarray()
            inner[:, start : start + step] = rows @ product.times(some).T
        inner[np.diag_indices(len(inner))] += 1
        self._factor = cho_factor(inner, lower=True, overwrite_a=True, check_finite=False)

    def times(self, tables: Matrix) -> Matrix:
        """Return tables of all cells, one a row, multiplied by the inverse."""
        near = self._product.times(tables)
        inside = cho_solve(self._factor, self._rows @ near.T, check_finite=False)
        return near - self._product.times(np.ascontiguousarray((self._back @ inside).T))


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


def _is_product(parts: Sequence[tuple[list[sparse.csr_array], Matrix]]) -> bool:
    """Tell whether the sum of what blocks measure is a product of one matrix a column."""
    for _, squares in parts:
        axes = range(squares.ndim)
        nearest = reduce(np.multiply.outer, [_sums(squares, axis) for axis in axes])
        nearest = nearest / float(squares.sum()) ** (squares.ndim - 1)
        if not np.allclose(nearest, squares, rtol=1e-12, atol=0):
            return False
    if len(parts) == 1:
        return True
    apart = [not _all_alike(parts, axis) for axis in range(parts[0][1].ndim)]
    return sum(apart) <= 1


def _all_alike(parts: Sequence[tuple[list[sparse.csr_array], Matrix]], axis: int) -> bool:
    """Tell whether all blocks measure multiples of the same along one column."""
    first: sparse.csr_array | None = None
    for factors, squares in parts:
        factor, own = factors[axis], _sums(squares, axis)
        gram = sparse.csr_array(factor.T @ sparse.diags_array(own / own.sum()) @ factor)
        first = gram if first is None else first
        if abs(gram - first).max() > ALIKE * abs(first).max():
            return False
    return True


def _same(table: Matrix) -> Matrix:
    return table


def _sums(squares: Matrix, axis: int) -> Matrix:
    """Return the sums of a table along all other axes."""
    return np.asarray(squares.sum(axis=tuple(n for n in range(squares.ndim) if n != axis)))
