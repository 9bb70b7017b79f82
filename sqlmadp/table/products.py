"""Rows that are products of one function per column, kept as factors and never written out.

Counts of ranges and sums of one column within groups of others are of this form.  `Products` is a
grid: every combination of one function per column, times a height.  Strategies for scopes too large
for dense rows are grids, and so are queries such as all pairs of prefixes.  `Factored` lists
products one by one; any rows that are products can be read as such a list.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import MANY_NUMBERS, Exceptions, Rows, Scope
from sqlmadp.table.runs import Floats, Integers

Table = NDArray[Any]
"""Numbers per vertex or per combination of functions, whole or not."""

CLOSE = 1e-12
"""Relative distance at which a coefficient is the product of its row's functions."""


@dataclass(frozen=True, eq=False)
class Products(Rows):
    """A grid of products: heights times one function of every column."""

    factors: tuple[sparse.csr_array, ...] = ()
    """By column: one row per function, one column per vertex."""
    heights: Table = None  # type: ignore[assignment]
    """The multiple of every combination of functions; 0 where there is no such row."""

    @property
    def count(self) -> int:
        """The number of rows: of the combinations whose height is not 0."""
        return int(np.count_nonzero(self.heights))

    @property
    def plain(self) -> bool:
        """A grid counts as no plain rows, whatever its factors are."""
        return False

    @property
    def matrix(self) -> sparse.csr_array:
        """The rows, written out; ValueError if they are too many."""
        if self.count * self.size > MANY_NUMBERS:
            raise ValueError(f"{self.count:,} rows over {self.size:,} vertices are kept as factors")
        grid = reduce(lambda a, b: sparse.kron(a, b, format="csr"), self.factors)
        flat = self.heights.reshape(-1)
        kept = np.flatnonzero(flat)
        return sparse.csr_array(
            sparse.diags_array(flat[kept], dtype=flat.dtype) @ sparse.csr_array(grid)[kept]
        )

    @cached_property
    def _split(self) -> tuple[Floats, sparse.csr_array]:
        single = [_alone(factor) for factor in self.factors]
        counts = [np.diff(factor.indptr) == 1 for factor in self.factors]
        alone = self.heights.astype(np.float64) ** 2 * reduce(np.multiply.outer, counts)
        squares = along_each(alone[None], [sparse.csr_array(s.T) for s in single])
        return squares.reshape(-1), self.matrix

    @cached_property
    def fingerprint(self) -> bytes:
        """A digest that is equal just for equal rows in equal order."""
        digest = hashlib.sha256(repr(self.layout).encode() + b"products")
        for factor in self.factors:
            for part in (factor.indptr, factor.indices):
                digest.update(part.astype(np.int64).tobytes())
            digest.update(factor.data.astype(np.float64).tobytes())
        digest.update(self.heights.astype(np.float64).tobytes())
        return digest.digest()

    @cached_property
    def exceptions(self) -> tuple[Exceptions, ...]:
        """By column: every vertex; grids treat vertices differently."""
        return tuple(tuple(range(size)) for size in self.shape)

    @property
    def square_sum(self) -> float:
        """The sum of the squares of all coefficients."""
        squares = [np.asarray(f.astype(np.float64).power(2).sum(axis=1)) for f in self.factors]
        return float(
            (self.heights.astype(np.float64) ** 2 * reduce(np.multiply.outer, squares)).sum()
        )

    def times(self, factor: float | int) -> Products:
        """Return the same rows, all multiplied by one number."""
        heights = self.heights * factor
        return Products(self.scope, self.parts, 0, None, self.factors, heights)

    def over(self, scope: Scope, parts: Sequence[Partition]) -> Products:
        """Return the same functions over a larger scope and finer partitions."""
        own = dict(zip(self.scope, zip(self.parts, self.factors, strict=True), strict=True))
        factors, shape = [], []
        for column, finer in zip(scope, parts, strict=True):
            if column in own:
                part, factor = own[column]
                factors.append(sparse.csr_array(factor @ part.over(finer)))
            else:
                factors.append(sparse.csr_array(np.ones((1, finer.size))))
            shape.append(factors[-1].shape[0])
        heights = self.heights.reshape(shape)
        return Products(scope, tuple(parts), 0, None, tuple(factors), heights)

    def answers(self, table: Table) -> Table:
        """Return the answer of every row from one number per vertex, in the numbers' own type."""
        grid = along_each(table.reshape(1, *self.shape), self.factors)
        return np.asarray(grid[0] * self.heights).reshape(-1)[np.flatnonzero(self.heights)]

    def moments(self, values: Table) -> Floats:
        """Return the transpose of the rows times one value per row: one number per vertex."""
        grid = np.zeros(self.heights.size)
        kept = np.flatnonzero(self.heights)
        grid[kept] = values * self.heights.reshape(-1)[kept]
        table = grid.reshape(1, *self.heights.shape)
        back = [sparse.csr_array(factor.T) for factor in self.factors]
        return along_each(table, back).reshape(-1)


def along_each(tables: Table, factors: Sequence[sparse.csr_array | Floats]) -> Table:
    """Return tables, the first axis numbering them, every other axis multiplied by a factor."""
    for axis, factor in enumerate(factors, start=1):
        moved = np.moveaxis(tables, axis, 0)
        found = np.asarray(factor @ np.ascontiguousarray(moved).reshape(moved.shape[0], -1))
        tables = np.moveaxis(found.reshape(-1, *moved.shape[1:]), 0, axis)
    return np.ascontiguousarray(tables)


def _alone(factor: sparse.csr_array) -> sparse.csr_array:
    """Return the squares of a factor's rows of one vertex, and nothing in place of the others."""
    single = np.diff(factor.indptr) == 1
    squares = factor.astype(np.float64).power(2)
    return sparse.csr_array(sparse.diags_array(single.astype(np.float64)) @ squares)


@dataclass(frozen=True, eq=False)
class Factored:
    """Products one by one, over the vertices of one scope."""

    scope: Scope
    parts: tuple[Partition, ...]
    values: Floats
    """The multiple of every product."""
    sets: tuple[Integers, ...]
    """By column: the number of every product's function."""
    members: tuple[Floats, ...]
    """By column: one row per function, one column per vertex."""

    @classmethod
    def of(cls, rows: Rows) -> Factored | None:
        """Return rows as products; None if some row is none."""
        if isinstance(rows, Products):
            places = np.nonzero(rows.heights)
            members = tuple(f.toarray().astype(np.float64) for f in rows.factors)
            values = rows.heights[places].astype(np.float64)
            return cls(rows.scope, rows.parts, values, tuple(map(np.asarray, places)), members)
        if rows.plain:
            places = np.unravel_index(np.arange(rows.size), rows.shape) if rows.shape else ()
            values = np.full(rows.size, float(rows.weight))
            members = tuple(np.eye(size) for size in rows.shape)
            return cls(rows.scope, rows.parts, values, tuple(map(np.asarray, places)), members)
        return cls._of_matrix(rows)

    @classmethod
    def _of_matrix(cls, rows: Rows) -> Factored | None:
        matrix = sparse.csr_array(rows.matrix, dtype=np.float64)
        matrix.sort_indices()
        values: list[float] = []
        sets: list[list[int]] = []
        numbers: list[dict[bytes, int]] = [{} for _ in rows.shape]
        members: list[list[Floats]] = [[] for _ in rows.shape]
        for row in range(matrix.shape[0]):
            part = slice(matrix.indptr[row], matrix.indptr[row + 1])
            found = _factors(matrix.indices[part], matrix.data[part], rows.shape)
            if found is None:
                return None
            values.append(found[0])
            sets.append([])
            for axis, function in enumerate(found[1]):
                number = numbers[axis].setdefault(function.tobytes(), len(members[axis]))
                if number == len(members[axis]):
                    members[axis].append(function)
                sets[-1].append(number)
        columns = np.array(sets, dtype=np.int64).reshape(len(values), len(rows.shape)).T
        stacked = (np.array(m).reshape(-1, n) for m, n in zip(members, rows.shape, strict=True))
        return cls(rows.scope, rows.parts, np.array(values), tuple(columns), tuple(stacked))

    def over(self, scope: Scope, parts: Sequence[Partition]) -> Factored:
        """Return the same products over a larger scope and finer partitions."""
        place = {column: axis for axis, column in enumerate(self.scope)}
        sets, members = [], []
        for column, finer in zip(scope, parts, strict=True):
            if column in place:
                axis = place[column]
                sets.append(self.sets[axis])
                members.append(self.members[axis] @ self.parts[axis].over(finer))
            else:
                sets.append(np.zeros(len(self.values), dtype=np.int64))
                members.append(np.ones((1, finer.size)))
        return Factored(scope, tuple(parts), self.values, tuple(sets), tuple(members))

    def tables(self, some: slice) -> Floats:
        """Return some products written out, one table over the vertices each."""
        shape = tuple(part.size for part in self.parts)
        found = self.values[some].reshape(-1, *([1] * len(shape)))
        for axis, (sets, members) in enumerate(zip(self.sets, self.members, strict=True)):
            own = [1] * len(shape)
            own[axis] = shape[axis]
            found = found * members[sets[some]].reshape(-1, *own)
        return np.asarray(found)


def joined(parts: Sequence[Factored]) -> Factored:
    """Return products over the same vertices as one list."""
    first = parts[0]
    sets, members = [], []
    for axis in range(len(first.parts)):
        starts = np.cumsum([0, *(len(part.members[axis]) for part in parts[:-1])])
        shifted = [part.sets[axis] + start for part, start in zip(parts, starts, strict=True)]
        sets.append(np.concatenate(shifted))
        members.append(np.vstack([part.members[axis] for part in parts]))
    values = np.concatenate([part.values for part in parts])
    return Factored(first.scope, first.parts, values, tuple(sets), tuple(members))


def _factors(
    cells: Integers, data: Floats, shape: tuple[int, ...]
) -> tuple[float, list[Floats]] | None:
    """Return one row as a multiple of one function per column; None if it is no product."""
    if not len(cells):
        return 0.0, [np.zeros(size) for size in shape]
    places = np.unravel_index(cells, shape) if shape else ()
    axes = [np.unique(place) for place in places]
    if math.prod(len(axis) for axis in axes) != len(cells):
        return None
    table = data.reshape([len(axis) for axis in axes])
    top = float(data[0])
    functions, product = [], np.full((), top)
    for axis, (size, used) in enumerate(zip(shape, axes, strict=True)):
        line = table[tuple(slice(None) if a == axis else 0 for a in range(table.ndim))] / top
        product = np.multiply.outer(product, line)
        whole = np.zeros(size)
        whole[used] = line
        functions.append(whole)
    if np.abs(product - table).max() > CLOSE * np.abs(table).max():
        return None
    return top, functions
