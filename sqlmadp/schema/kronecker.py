"""Kronecker blocks: rows that are products of one row a column, kept as their factors.

    matrix = diag(heights) (F_1 x ... x F_d),   leaving out the rows of height 0

with F_c over the groups of column c.  The factors take as much room as the columns together, and
the heights one number a row; the matrix itself, rows times cells, is never needed: it is
multiplied column by column.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.schema.marginal import Block, CellBlock, Labels, Marginal, cell_weight

Heights = NDArray[np.int64] | NDArray[np.float64]


class KroneckerBlock(Block):
    """Products of factor rows, numbered in row-major order, each times its height."""

    factors: tuple[sparse.csr_array, ...]
    """One a column of the scope: one row a factor row, one column a group."""
    heights: Heights
    """One axis a column, as long as its factor has rows; 0 where nothing is measured."""

    def __init__(
        self,
        marginal: Marginal,
        factors: Sequence[sparse.csr_array],
        heights: Heights,
    ) -> None:
        object.__setattr__(self, "marginal", marginal)
        object.__setattr__(self, "factors", tuple(factors))
        object.__setattr__(self, "heights", heights)

    @property
    def matrix(self) -> sparse.csr_array:
        """Return the matrix, made anew: rows times cells, so only where both are few."""
        product = sparse.csr_array(np.ones((1, 1), dtype=self.heights.dtype))
        for factor in self.factors:
            product = sparse.csr_array(sparse.kron(product, factor, format="csr"))
        heights = self.heights.reshape(-1)[self.places]
        rows = sparse.diags_array(heights, dtype=heights.dtype) @ product[self.places]
        return sparse.csr_array(rows)

    @property
    def places(self) -> Labels:
        """Return the numbers of the products that are rows."""
        return np.flatnonzero(self.heights)

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return int(np.count_nonzero(self.heights))

    @property
    def entries(self) -> int:
        """Return how many numbers the factors and heights are made of."""
        return sum(int(factor.nnz) for factor in self.factors) + self.rows

    @property
    def square(self) -> float:
        """Return the sum of the squares of all entries of the matrix."""
        squares = self.heights.astype(np.float64) ** 2
        for factor in reversed(self.factors):  # The last axis is summed away each time.
            squares = squares @ np.asarray(factor.astype(np.float64).power(2).sum(axis=1))
        return float(squares)

    def times(self, cells: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``matrix @ cells``; ``cells`` may have columns."""
        table = cells.reshape((*self.marginal.shape, *cells.shape[1:]))
        for axis, factor in enumerate(self.factors):
            table = along(factor, table, axis)
        flat = table.reshape(self.heights.size, *cells.shape[1:])[self.places]
        return np.asarray(flat * self._heights(flat.ndim))

    def transposed_times(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``matrix.T @ values``; ``values`` may have columns."""
        flat = np.zeros((self.heights.size, *values.shape[1:]))
        flat[self.places] = values * self._heights(values.ndim)
        table = flat.reshape((*self.heights.shape, *values.shape[1:]))
        for axis, factor in enumerate(self.factors):
            table = along(sparse.csr_array(factor.T), table, axis)
        return table.reshape(self.marginal.size, *values.shape[1:])

    def _heights(self, axes: int) -> NDArray[np.float64]:
        heights = self.heights.reshape(-1)[self.places].astype(np.float64)
        return heights.reshape(-1, *(1,) * (axes - 1))


def along(factor: sparse.csr_array, table: NDArray[Any], axis: int) -> NDArray[Any]:
    """Return a table multiplied by a factor along one axis."""
    moved = np.moveaxis(table, axis, 0)
    product = np.asarray(factor @ moved.reshape(len(moved), -1))
    return np.moveaxis(product.reshape(-1, *moved.shape[1:]), 0, axis)


def as_products(block: CellBlock) -> KroneckerBlock:
    """Return every cell of a marginal as a product of one group a column."""
    factors = [sparse.eye_array(n, format="csr", dtype=np.int64) for n in block.marginal.shape]
    heights: Heights = np.full(block.marginal.shape, block.weight)
    return KroneckerBlock(block.marginal, factors, heights)


def read_as_products(block: Block) -> KroneckerBlock | None:
    """Return a Kronecker block as it is, cells that are measured alone as one; None otherwise."""
    if isinstance(block, KroneckerBlock):
        return block
    weight = cell_weight(block)
    return None if weight is None else as_products(CellBlock(block.marginal, weight))


def products_of_one_scope(blocks: Sequence[Block]) -> bool:
    """Tell whether blocks of one scope are Kronecker blocks, at least one, and measured cells."""
    if len({block.marginal.scope for block in blocks}) > 1:
        return False
    some = any(isinstance(block, KroneckerBlock) for block in blocks)
    return some and all(read_as_products(block) is not None for block in blocks)


def lifted(block: KroneckerBlock, marginal: Marginal) -> KroneckerBlock:
    """Return the same rows over more columns, and over partitions as fine or finer."""
    if block.marginal == marginal:
        return block
    old = block.marginal
    place = {name: axis for axis, name in enumerate(old.scope)}
    factors, shape = [], []
    for name, partition in zip(marginal.scope, marginal.partitions, strict=True):
        if name in place:
            axis = place[name]
            finer = block.factors[axis][:, old.partitions[axis].coarsen(partition)]
        else:
            finer = np.ones((1, partition.size), dtype=np.int64)
        factors.append(sparse.csr_array(finer))
        shape.append(factors[-1].shape[0])
    return KroneckerBlock(marginal, factors, block.heights.reshape(shape))


def scaled(block: Block, factor: int | float) -> Block:
    """Return a block with every row multiplied by a number; integers stay integers."""
    if isinstance(block, CellBlock):
        return CellBlock(block.marginal, block.weight * factor)
    if isinstance(block, KroneckerBlock):
        heights: Heights = np.multiply(block.heights, factor)
        return KroneckerBlock(block.marginal, block.factors, heights)
    return Block(block.marginal, sparse.csr_array(block.matrix * factor))


def relabelled(block: Block, marginal: Marginal) -> Block:
    """Return the same rows over the cells of another marginal, which has as many of them."""
    if isinstance(block, KroneckerBlock):
        return KroneckerBlock(marginal, block.factors, block.heights)
    return Block(marginal, block.matrix)


def contents(blocks: Sequence[Block]) -> bytes:
    """Return a hash that only blocks of the same rows share, be they in memory or stored."""
    digest = hashlib.sha256()
    for block in blocks:
        weight = cell_weight(block)  # Cells are stored written out.
        kind = CellBlock if weight is not None else type(block)
        value = None if weight is None else float(weight)
        digest.update(repr((kind.__name__, block.marginal.scope, block.rows, value)).encode())
        for partition in block.marginal.partitions:
            digest.update(partition.key)
        if weight is not None:
            continue
        parts = block.factors if isinstance(block, KroneckerBlock) else (block.matrix,)
        arrays = [a for part in parts for a in (part.indptr, part.indices, part.data)]
        if isinstance(block, KroneckerBlock):
            arrays.append(block.heights)
        for array in arrays:
            digest.update(repr(array.shape).encode())
            digest.update(array.astype(np.float64).tobytes())  # Of whatever type it was.
    return digest.digest()
