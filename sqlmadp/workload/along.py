"""Multiplying tables along one axis, by matrices of which most rows hold one column alone.

The factors of Kronecker blocks have a row for almost every group by itself and few other ones.
Multiplying by the former takes one pass over the table; only the latter are worth a matrix product.
Tables come as many at once, one after the other: ``(before, axis, after)`` stands for the axes
before the one that is multiplied along, itself, and those after it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.schema.marginal import Labels

Matrix = NDArray[np.float64]


class Along:
    """A matrix to multiply by along an axis; its rows are kept in an order of their own."""

    def __init__(self, factor: sparse.csr_array) -> None:
        """Split the rows: one for each column that is held alone, and all others."""
        factor = sparse.csr_array(factor, dtype=np.float64)
        single = np.flatnonzero(np.diff(factor.indptr) == 1)
        columns, first = np.unique(factor.indices[factor.indptr[single]], return_index=True)
        single = single[first]
        others = np.setdiff1d(np.arange(factor.shape[0]), single)
        alone = np.zeros(factor.shape[1], dtype=np.int64)
        alone[columns] = single
        self.order: Labels = np.concatenate([others, alone])
        """The numbers of the rows in the order in which they are kept.

        Of a column that no row holds alone it is any row, which is then multiplied by 0.
        """
        self._rows = factor[others].toarray()
        self._values = np.zeros((factor.shape[1], 1))
        self._values[columns, 0] = factor.data[factor.indptr[single]]

    def times(self, table: Matrix) -> Matrix:
        """Return a table multiplied by the matrix."""
        count = len(self._rows)
        before, _, after = table.shape
        product = np.empty((before, len(self.order), after))
        product[:, :count] = multiplied(self._rows, table)
        np.multiply(table, self._values, out=product[:, count:])
        return product

    def transposed_times(self, table: Matrix) -> Matrix:
        """Return a table multiplied by the matrix, transposed."""
        count = len(self._rows)
        product = multiplied(self._rows.T, table[:, :count])
        product += table[:, count:] * self._values
        return product


def multiplied(matrix: Matrix, table: Matrix) -> Matrix:
    """Return a table multiplied by a matrix."""
    if table.shape[2] == 1:  # One large product instead of many small ones.
        return np.asarray((table[:, :, 0] @ matrix.T)[:, :, None])
    return np.asarray(np.matmul(matrix, table))


def along_each(
    tables: Matrix, shape: Sequence[int], steps: Sequence[Callable[[Matrix], Matrix]]
) -> Matrix:
    """Return tables, one a row, multiplied along every axis, whose lengths may change by it."""
    count, lengths = len(tables), list(shape)
    for axis, step in enumerate(steps):
        before = count * math.prod(lengths[:axis])
        tables = step(tables.reshape(before, lengths[axis], math.prod(lengths[axis + 1 :])))
        lengths[axis] = tables.shape[1]
    return tables.reshape(count, math.prod(lengths))
