"""Marginals: the cells of a few columns, with cells that nobody tells apart merged.

A *partition* merges the cells of one column into groups.  A *marginal* is the product of
the partitions of a few columns (its scope); its cells are numbered in row-major order, the
last column running fastest.  A *block* is a matrix whose rows are functions on the cells
of one marginal; as functions on the whole table they are constant in every other column.
Workloads, strategies and measurements are lists of blocks, so none of them grows with the
product of all columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.table.partition import Partition as Vertices

Labels = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Partition:
    """The groups of one column's cells; groups are numbered by their first cell."""

    labels: Labels
    """The group of every cell."""

    @classmethod
    def of(cls, labels: NDArray[np.integer]) -> Partition:
        """Return the partition into cells of equal label, whatever the labels are."""
        _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
        rank = np.empty(len(first), dtype=np.int64)
        rank[np.argsort(first, kind="stable")] = np.arange(len(first))
        return cls(rank[inverse.reshape(-1)])

    @classmethod
    def finest(cls, size: int) -> Partition:
        """Return the partition of ``size`` cells that merges nothing."""
        return cls(np.arange(size, dtype=np.int64))

    @cached_property
    def size(self) -> int:
        """Return the number of groups."""
        return int(self.labels.max(initial=-1)) + 1

    @cached_property
    def key(self) -> bytes:
        """Return bytes that are equal just when the partitions are."""
        return self.labels.tobytes()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Partition) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def refine(self, other: Partition) -> Partition:
        """Return the coarsest partition that tells apart whatever either of the two does."""
        return Partition.of(self.labels * other.size + other.labels)

    def coarsen(self, finer: Partition) -> Labels:
        """Return, for every group of ``finer``, the group of this partition it lies in."""
        groups = np.empty(finer.size, dtype=np.int64)
        groups[finer.labels] = self.labels
        return groups


@dataclass(frozen=True)
class Marginal:
    """The cells of a few columns (its scope), one partition a column."""

    scope: tuple[str, ...]
    """Column names in alphabetical order, so that a set of columns has one spelling."""
    partitions: tuple[Partition, ...]

    def __post_init__(self) -> None:
        if list(self.scope) != sorted(set(self.scope)):
            raise ValueError(f"a scope lists its columns once, alphabetically: {self.scope}")

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the number of groups of every column."""
        return tuple(partition.size for partition in self.partitions)

    @property
    def size(self) -> int:
        """Return the number of cells (exact, of any size)."""
        return math.prod(self.shape)

    @property
    def parts(self) -> tuple[Vertices, ...]:
        """Return the partitions with every group as a vertex, numbered as they are here."""
        zeros = (np.zeros(partition.size, dtype=np.int64) for partition in self.partitions)
        return tuple(
            Vertices(each.labels, np.zeros(each.labels.shape, dtype=np.int64), degrees)
            for each, degrees in zip(self.partitions, zeros, strict=True)
        )

    def resolves(self, other: Marginal) -> bool:
        """Return whether this marginal tells apart all that ``other`` does."""
        place = dict(zip(self.scope, self.partitions, strict=True))
        return all(
            name in place and place[name].refine(partition).size == place[name].size
            for name, partition in zip(other.scope, other.partitions, strict=True)
        )


TOTAL = Marginal((), ())
"""The marginal of no column: one cell, the whole table."""


@dataclass(frozen=True, eq=False)
class Block:
    """Rows over the cells of one marginal."""

    marginal: Marginal
    matrix: sparse.csr_array
    """One row a function; ``marginal.size`` columns."""

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return int(self.matrix.shape[0])

    @property
    def entries(self) -> int:
        """Return how many numbers the matrix is made of."""
        return int(self.matrix.nnz)

    @property
    def square(self) -> float:
        """Return the sum of the squares of all entries of the matrix."""
        return float((self.matrix.data.astype(np.float64) ** 2).sum())

    def times(self, cells: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``matrix @ cells``; ``cells`` may have columns."""
        return np.asarray(self.matrix @ cells)

    def transposed_times(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``matrix.T @ values``; ``values`` may have columns."""
        return np.asarray(self.matrix.T @ values)


class CellBlock(Block):
    """Every cell of a marginal measured alone, all with one weight.

    The matrix is made when it is asked for: most of what is done with such a block needs nothing
    but the weight, and there can be very many of them.
    """

    weight: int | float

    def __init__(self, marginal: Marginal, weight: int | float) -> None:
        object.__setattr__(self, "marginal", marginal)
        object.__setattr__(self, "weight", weight)

    @property
    def matrix(self) -> sparse.csr_array:
        """Return the weight times the identity, made anew."""
        places = np.arange(self.rows + 1)
        data = np.full(self.rows, self.weight)
        return sparse.csr_array((data, places[:-1], places), shape=(self.rows, self.rows))

    @property
    def rows(self) -> int:
        """Return the number of rows: one a cell."""
        return self.marginal.size

    @property
    def entries(self) -> int:
        """Return how many numbers the matrix is made of: one a row."""
        return self.marginal.size


def cell_weight(block: Block) -> int | float | None:
    """Return the weight of every cell, if the rows are the cells in order; None otherwise."""
    if isinstance(block, CellBlock):
        return block.weight
    weight = weight_in_any_order(block)
    if weight is None or not np.array_equal(block.matrix.indices, np.arange(block.rows)):
        return None
    return weight


def weight_in_any_order(block: Block) -> int | float | None:
    """Return the weight of every cell, if each row is a cell of its own; None otherwise.

    ``GROUP BY b, a`` asks for the same cells as ``GROUP BY a, b``, in another order.
    """
    if isinstance(block, CellBlock):
        return block.weight
    rows = block.rows
    if rows != block.marginal.size or block.entries != rows:
        return None
    matrix = block.matrix
    alone = np.array_equal(matrix.indptr, np.arange(rows + 1))
    if not alone or not (matrix.data == matrix.data[0]).all():
        return None
    if not np.bincount(matrix.indices, minlength=rows).all():
        return None
    weight: int | float = matrix.data[0].item()
    return weight


def expand(matrix: sparse.csr_array, old: Marginal, new: Marginal) -> sparse.csr_array:
    """Return the same functions over ``new``: the columns of ``old``, as fine or finer."""
    return matrix if old == new else matrix[:, cell_map(old, new)]


def cell_map(old: Marginal, new: Marginal) -> Labels:
    """Return, for every cell of ``new``, the cell of the coarser ``old`` that it lies in."""
    place = {name: axis for axis, name in enumerate(old.scope)}
    strides = row_major_strides(old.shape)
    cells = np.zeros((), dtype=np.int64)
    for name, partition in zip(new.scope, new.partitions, strict=True):
        if name in place:
            axis = place[name]
            step = old.partitions[axis].coarsen(partition) * strides[axis]
        else:
            step = np.zeros(partition.size, dtype=np.int64)
        cells = np.add.outer(cells, step)
    return np.asarray(cells, dtype=np.int64).reshape(-1)


def row_major_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return by how much the cell number grows with each column's group."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
