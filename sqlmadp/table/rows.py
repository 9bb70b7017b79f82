"""Rows: functions on the vertices of one scope; the one representation of queries and strategies.

A scope is a set of columns.  A row has one coefficient per vertex of the scope (one vertex of every
column, row-major, the last column running fastest) and stands for

    f(record) = sum over vertices v of  coefficient_v  prod over columns c of  t_{c, v_c}(value)

with t the functions of the columns' partitions; it is constant in every other column.  Queries,
workloads, strategies and measurements are lists of `Rows`, so that none of them grows with the
product of all columns.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.table.partition import Partition, common
from sqlmadp.table.runs import Floats, Integers

Scope = tuple[str, ...]

Exceptions = tuple[int, ...]
"""Vertices of one column, in order."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Functions on one scope: a matrix over its vertices, or every vertex alone."""

    scope: Scope
    """Column names in alphabetical order, so that a set of columns has one spelling."""
    parts: tuple[Partition, ...]
    """One partition per column."""
    weight: float | int = 0
    """If ``given`` is None: one row per vertex, this number times the vertex's function."""
    given: sparse.csr_array | None = None
    """One row per function, one column per vertex."""

    def __post_init__(self) -> None:
        if list(self.scope) != sorted(set(self.scope)) or len(self.parts) != len(self.scope):
            raise ValueError(f"a scope lists its columns once, alphabetically: {self.scope}")

    @classmethod
    def of(cls, scope: Scope, parts: Sequence[Partition], matrix: sparse.csr_array) -> Rows:
        """Return rows over given vertices, recognised if they are every vertex alone, in order."""
        matrix = sparse.csr_array(matrix)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        rows, columns = matrix.shape
        alone = rows == columns == matrix.nnz and np.array_equal(matrix.indices, np.arange(rows))
        if alone and (matrix.data == matrix.data[0]).all() and matrix.data[0] > 0:
            return cls(scope, tuple(parts), matrix.data[0].item())
        return cls(scope, tuple(parts), 0, matrix)

    @classmethod
    def of_weights(
        cls,
        scope: Scope,
        parts: Sequence[Partition],
        own: NDArray[np.integer] | Floats,
        across: sparse.csr_array,
    ) -> Rows:
        """Return a row for every vertex of weight above 0, alone, and the rows ``across`` below."""
        places = np.flatnonzero(own)
        alone = sparse.csr_array(
            (own[places], places, np.arange(len(places) + 1)), shape=(len(places), len(own))
        )
        return cls.of(scope, parts, sparse.csr_array(sparse.vstack([alone, across])))

    @classmethod
    def reduced(cls, scope: Scope, parts: Sequence[Partition], matrix: sparse.csr_array) -> Rows:
        """Return the same functions over the fewest vertices, on the columns they depend on.

        ``parts`` are flat: the matrix has one column per combination of their pieces.
        """
        matrix = sparse.csr_array(matrix)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        shape = tuple(part.size for part in parts)
        if all(size > 1 for size in shape) and (plain := _every_cell(matrix)) is not None:
            return cls(scope, tuple(parts), 0, plain)
        found = [_column_partition(matrix, shape, axis) for axis in range(len(shape))]
        kept = [axis for axis, part in enumerate(found) if part.size > 1]
        lift = _at_vertices(matrix, shape, found)
        return cls.of(
            tuple(scope[axis] for axis in kept),
            [found[axis].composed(parts[axis]) for axis in kept],
            lift,
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of vertices of every column."""
        return tuple(part.size for part in self.parts)

    @property
    def size(self) -> int:
        """The number of vertices (exact, of any size)."""
        return math.prod(self.shape)

    @property
    def count(self) -> int:
        """The number of rows."""
        return self.size if self.given is None else int(self.given.shape[0])

    @property
    def entries(self) -> int:
        """How many numbers the rows are made of."""
        return self.size if self.given is None else int(self.given.nnz)

    @property
    def plain(self) -> bool:
        """Whether this is every vertex alone, all with one weight, in order."""
        return self.given is None

    @property
    def matrix(self) -> sparse.csr_array:
        """The rows, written out."""
        if self.given is not None:
            return self.given
        places = np.arange(self.size + 1)
        data = np.full(self.size, self.weight)
        return sparse.csr_array((data, places[:-1], places), shape=(self.size, self.size))

    @property
    def units(self) -> int:
        """The whole number that makes the functions of all vertices whole."""
        return math.prod(part.denominator for part in self.parts)

    @cached_property
    def layout(self) -> tuple[Scope, tuple[bytes, ...]]:
        """What rows over the same vertices have in common."""
        return self.scope, tuple(part.key for part in self.parts)

    @cached_property
    def fingerprint(self) -> bytes:
        """A digest that is equal just for equal rows in equal order."""
        digest = hashlib.sha256(repr(self.layout).encode())
        if self.given is None:
            digest.update(repr(float(self.weight)).encode())
        else:
            for part in (self.given.indptr, self.given.indices):
                digest.update(part.astype(np.int64).tobytes())
            digest.update(self.given.data.astype(np.float64).tobytes())
        return digest.digest()

    @cached_property
    def _split(self) -> tuple[Floats, sparse.csr_array]:
        matrix = sparse.csr_array(self.matrix, dtype=np.float64)
        lengths = np.diff(matrix.indptr)
        single = matrix[lengths == 1]
        squares = np.bincount(single.indices, single.data**2, minlength=self.size)
        return squares.astype(np.float64), matrix[lengths > 1]

    @property
    def squares(self) -> float | Floats:
        """The squares of the weights of all rows of a single vertex; one number if plain."""
        return float(self.weight) ** 2 if self.plain else self._split[0]

    @property
    def across(self) -> sparse.csr_array:
        """The rows of several vertices."""
        if self.plain:
            return sparse.csr_array((0, self.size))
        return self._split[1]

    @cached_property
    def exceptions(self) -> tuple[Exceptions, ...]:
        """By column: the vertices that the rows do not treat like most others.

        The others have one weight each, alone, and equal coefficients in every row of several.
        """
        if self.plain:
            return ((),) * len(self.parts)
        if self.across.nnz and self.across.shape[0] * self.size > MANY_NUMBERS:
            return tuple(tuple(range(size)) for size in self.shape)
        both = np.vstack([self._split[0], self.across.toarray()]).reshape(-1, *self.shape)
        return tuple(_exceptions(both, axis) for axis in range(1, len(self.parts) + 1))

    @property
    def square_sum(self) -> float:
        """The sum of the squares of all coefficients."""
        if self.given is None:
            return float(self.weight) ** 2 * self.size
        return float((self.given.data.astype(np.float64) ** 2).sum())

    def times(self, factor: float | int) -> Rows:
        """Return the same rows, all multiplied by one number."""
        if self.given is None:
            return Rows(self.scope, self.parts, self.weight * factor)
        return Rows(self.scope, self.parts, 0, self.given * factor)

    def simplified(self) -> Rows:
        """Return the same functions over the fewest vertices, on the columns they depend on.

        Single vertices that no row tells apart are merged, and pieces along which no row changes
        become single vertices.
        """
        rows = self
        for axis in reversed(range(len(self.parts))):
            rows = rows._simplified_along(axis)
        return rows

    def _simplified_along(self, axis: int) -> Rows:
        part, matrix = self.parts[axis], sparse.csr_array(self.matrix)
        labels = column_labels(unfolded(matrix, self.shape, axis))
        firsts = part.first_vertices
        changes = np.zeros(len(firsts), dtype=bool)
        for piece in np.flatnonzero(part.degrees):
            own = labels[firsts[piece] : firsts[piece] + part.degrees[piece] + 1]
            changes[piece] = bool((own != own[0]).any())
        count = int(labels.max(initial=0)) + 1
        merged = np.where(changes, count + np.arange(len(firsts)), labels[firsts])
        new = part.merged(merged, ~changes)
        if np.array_equal(new.degrees, part.degrees) and part.size > 1:
            return self
        old = part.runs.at(new.first_values)[0]
        within = np.arange(new.size) - np.repeat(new.first_vertices, new.degrees + 1)
        kept = np.repeat(firsts[old], new.degrees + 1) + within
        stride = math.prod(self.shape[axis + 1 :])
        before = np.arange(math.prod(self.shape[:axis])) * stride * part.size
        columns = before[:, None, None] + (kept * stride)[None, :, None] + np.arange(stride)
        chosen = sparse.csr_array(matrix[:, columns.reshape(-1)])
        if new.size == 1:
            scope = (*self.scope[:axis], *self.scope[axis + 1 :])
            return Rows.of(scope, (*self.parts[:axis], *self.parts[axis + 1 :]), chosen)
        return Rows.of(self.scope, (*self.parts[:axis], new, *self.parts[axis + 1 :]), chosen)

    def over(self, scope: Scope, parts: Sequence[Partition]) -> Rows:
        """Return the same functions over a larger scope and finer partitions."""
        target = tuple(parts)
        if scope == self.scope and target == self.parts:
            return self
        lift = lifting(self.scope, self.parts, scope, target)
        return Rows.of(scope, target, sparse.csr_array(self.matrix @ lift))

    def matches(self, scope: Scope, parts: Sequence[Partition]) -> bool:
        """Return whether these rows are over the given vertices."""
        return scope == self.scope and tuple(parts) == self.parts


MANY_NUMBERS = 2**24
"""Take rows with more coefficients than this, written out, to treat all vertices differently."""


def row_major_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return by how much the cell number grows with each column's group."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def kronecker(factors: Iterable[Floats]) -> Floats:
    """Return the Kronecker product of several matrices; the number 1 for none."""
    found: Floats = np.ones((1, 1))
    for factor in factors:
        found = np.asarray(np.kron(found, factor), dtype=np.float64)
    return found


def _exceptions(table: Floats, axis: int) -> Exceptions:
    """Return the places along one axis whose slices differ from the most frequent one."""
    slices = np.ascontiguousarray(np.moveaxis(table, axis, 0)).reshape(table.shape[axis], -1)
    if (slices == slices[0]).all():
        return ()
    found: dict[bytes, list[int]] = {}
    for place, each in enumerate(slices):
        found.setdefault(each.tobytes(), []).append(place)
    most_alike: list[int] = max(found.values(), key=len)
    most = set(most_alike)
    return tuple(place for place in range(len(slices)) if place not in most)


def lifting(
    scope: Scope, parts: Sequence[Partition], wide: Scope, finer: Sequence[Partition]
) -> sparse.csr_array:
    """Return the functions of vertices as coefficients of the vertices of a larger scope."""
    own = dict(zip(scope, parts, strict=True))
    lift = sparse.csr_array(np.ones((1, 1)))
    for column, part in zip(wide, finer, strict=True):
        if column in own:
            factor = own[column].over(part)
        else:
            factor = sparse.csr_array(np.ones((1, part.size)))
        lift = sparse.csr_array(sparse.kron(lift, factor, format="csr"))
    return lift


def merged(scope: Scope, rows: Sequence[Rows]) -> Rows:
    """Return functions on parts of one scope as one `Rows` over their common vertices."""
    if len(rows) == 1 and rows[0].scope == scope:
        return rows[0]
    used: dict[str, list[Partition]] = {column: [] for column in scope}
    for each in rows:
        for column, part in zip(each.scope, each.parts, strict=True):
            used[column].append(part)
    parts = [common(used[column]) for column in scope]
    matrices = [each.over(scope, parts).matrix for each in rows]
    return Rows.of(scope, parts, sparse.csr_array(sparse.vstack(matrices)))


def by_scope(rows: Iterable[Rows]) -> dict[Scope, list[Rows]]:
    """Return rows by their scopes, in the order of scopes."""
    found: dict[Scope, list[Rows]] = {}
    for each in rows:
        found.setdefault(each.scope, []).append(each)
    return {scope: found[scope] for scope in sorted(found)}


def _every_cell(matrix: sparse.csr_array) -> sparse.csr_array | None:
    """Return the matrix if it has one row per cell, in any order, all with one weight."""
    rows, cells = matrix.shape
    if rows != cells or matrix.nnz != rows or not (matrix.data == matrix.data[0]).all():
        return None
    alone = np.array_equal(matrix.indptr, np.arange(rows + 1))
    return matrix if alone and np.bincount(matrix.indices, minlength=cells).all() else None


def _column_partition(matrix: sparse.csr_array, shape: tuple[int, ...], axis: int) -> Partition:
    """Return the coarsest partition of one column that expresses all rows."""
    functions = unfolded(matrix, shape, axis)
    lengths = np.diff(functions.indptr)
    starts = functions.indptr[:-1][lengths > 0]
    if not len(starts):
        return Partition.flat(np.zeros(shape[axis], dtype=np.int64))
    low = np.minimum.reduceat(functions.data, starts)
    high = np.maximum.reduceat(functions.data, starts)
    plain = low == high
    filled = functions[lengths > 0]
    labels = column_labels(filled[plain])
    others = _distinct_rows(filled[~plain]).toarray()
    if not len(others):
        return Partition.flat(labels)
    # The labels as functions: values with equal labels stay together unless others differ.
    return Partition.of_functions(others, labels)


def unfolded(matrix: sparse.csr_array, shape: Sequence[int], axis: int) -> sparse.csr_array:
    """Return the functions of one column that the rows hold, the other columns held fixed."""
    entries = matrix.tocoo()
    rows, cells = (part.astype(np.int64) for part in entries.coords)
    inner = math.prod(shape[axis + 1 :])
    value = cells // inner % shape[axis]
    rest = cells % inner + cells // (inner * shape[axis]) * inner
    _, number = np.unique(rows * (matrix.shape[1] // shape[axis]) + rest, return_inverse=True)
    count = int(number.max(initial=-1)) + 1
    found = sparse.csr_array(
        (entries.data.astype(np.float64), (number.reshape(-1), value)), shape=(count, shape[axis])
    )
    found.sort_indices()
    return found


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return numbers scrambled (splitmix64), so that sums of them tell sets apart."""
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _sums(matrix: sparse.csr_array) -> NDArray[np.uint64]:
    """Return two 64-bit sums per row that equal rows share, and others do not."""
    places = _mixed(matrix.indices.astype(np.uint64))
    numbers = _mixed(np.ascontiguousarray(matrix.data, dtype=np.float64).view(np.uint64))
    found = []
    for salt in (np.uint64(0x632BE59BD9B4E019), np.uint64(0xD1342543DE82EF95)):
        each = _mixed(places * salt ^ numbers)
        running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(each, dtype=np.uint64)])
        found.append(running[matrix.indptr[1:]] - running[matrix.indptr[:-1]])
    return np.column_stack(found)


def _distinct_rows(matrix: sparse.csr_array) -> sparse.csr_array:
    """Return every different row once."""
    if matrix.shape[0] < 2:
        return matrix
    _, first = np.unique(_sums(matrix), axis=0, return_index=True)
    return matrix[np.sort(first)]


def column_labels(matrix: sparse.csr_array) -> Integers:
    """Return a number per column, equal just for equal columns."""
    if not matrix.shape[0]:
        return np.zeros(matrix.shape[1], dtype=np.int64)
    columns = sparse.csr_array(matrix.T)
    columns.sort_indices()
    _, labels = np.unique(_sums(columns), axis=0, return_inverse=True)
    return np.asarray(labels.reshape(-1), dtype=np.int64)


def _at_vertices(
    matrix: sparse.csr_array, shape: tuple[int, ...], parts: Sequence[Partition]
) -> sparse.csr_array:
    """Return rows over cells as coefficients of vertices."""
    if all(part.is_flat for part in parts):
        firsts = [
            part.first_values * math.prod(shape[axis + 1 :]) for axis, part in enumerate(parts)
        ]
        at_firsts = reduce(np.add.outer, firsts, np.zeros((), dtype=np.int64))
        return sparse.csr_array(matrix[:, np.asarray(at_firsts).reshape(-1)])
    lift = sparse.csr_array(np.ones((1, 1)))
    cells: Integers = np.zeros(1, dtype=np.int64)
    for axis, part in enumerate(parts):
        values, coefficients = part.evaluation
        lift = sparse.csr_array(sparse.kron(lift, coefficients, format="csr"))
        cells = np.add.outer(cells * shape[axis], values).reshape(-1)
    found = sparse.csr_array(matrix[:, cells] @ lift)
    largest = np.abs(found.data).max(initial=0.0)
    found.data[np.abs(found.data) < 1e-13 * largest] = 0
    found.eliminate_zeros()
    return found
