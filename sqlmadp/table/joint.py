"""Joint columns: several declared columns as one, where a condition ties them together.

``promised < delivered`` tells two groups of combinations apart, and yet every value of either
column: over the product of the columns' vertices it would be thousands of numbers.  As a column of
its own, whose values are the combinations of the declared columns' values, it has two vertices.

Whoever solves for rows need not know of it.  What holds for all tables over more columns holds for
those in which some columns are made of others, and the sensitivity over more columns is an upper
bound.  What is measured is `realised`: the same functions, over declared columns alone.

A scope has no column twice, by itself and in a joint column or in two of these.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from scipy import sparse

from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows, Scope, column_labels, row_major_strides, unfolded
from sqlmadp.table.runs import Integers

BETWEEN, SIZED = "\x1f", "\x1e"
"""Between the declared columns of a joint one, and before the number of values of each.  No name of
a declared column has control characters."""


def joint_name(columns: Sequence[str], sizes: Sequence[int]) -> str:
    """Return the name of the joint column of some declared columns, in alphabetical order."""
    return BETWEEN.join(f"{name}{SIZED}{n}" for name, n in zip(columns, sizes, strict=True))


def is_joint(column: str) -> bool:
    """Return whether a column is made of several declared ones."""
    return BETWEEN in column


def components(column: str) -> tuple[str, ...]:
    """Return the declared columns of a joint column, or the column itself."""
    return tuple(part.split(SIZED)[0] for part in column.split(BETWEEN))


def declared(scope: Iterable[str]) -> Scope:
    """Return the declared columns that a scope depends on."""
    return tuple(sorted({name for column in scope for name in components(column)}))


def has_joint(scope: Iterable[str]) -> bool:
    """Return whether a scope has a joint column."""
    return any(is_joint(column) for column in scope)


def disjoint(scope: Iterable[str]) -> bool:
    """Return whether no declared column is in a scope twice."""
    names = [name for column in scope for name in components(column)]
    return len(names) == len(set(names))


def realised(rows: Rows) -> Rows:
    """Return the same functions over declared columns alone."""
    if not has_joint(rows.scope):
        return rows
    names: list[str] = []
    parts: list[Partition] = []
    lift = sparse.csr_array(np.ones((1, 1), dtype=np.int64))
    for column, part in zip(rows.scope, rows.parts, strict=True):
        if is_joint(column):
            own = _along(part, _sizes(column))
            firsts = _combined([each.first_values for each in own], _sizes(column))
            vertices = part.pieces[firsts]  # A joint column has no longer pieces.
            places = (np.ones(len(firsts), np.int64), (vertices, np.arange(len(firsts))))
            factor = sparse.csr_array(places, shape=(part.size, len(firsts)))
            names += components(column)
            parts += own
        else:
            factor = sparse.eye_array(part.size, dtype=np.int64, format="csr")
            names.append(column)
            parts.append(part)
        lift = sparse.csr_array(sparse.kron(lift, factor, format="csr"))
    matrix = sparse.csr_array(rows.matrix @ lift)
    order = sorted(range(len(names)), key=names.__getitem__)
    return Rows.of(
        tuple(names[axis] for axis in order),
        [parts[axis] for axis in order],
        _transposed(matrix, [part.size for part in parts], order),
    )


def joined(rows: Rows, scope: Sequence[Sequence[str]]) -> Rows:
    """Return the same functions over joint columns, given the declared columns of each column.

    The inverse of `realised`, but for vertices that no row tells apart.
    """
    axis_of = {name: axis for axis, name in enumerate(rows.scope)}
    order = [axis_of[name] for columns in scope for name in columns]
    matrix = _transposed(rows.matrix, rows.shape, order)
    shape = [math.prod(rows.parts[axis_of[name]].size for name in own) for own in scope]
    made: dict[str, Partition] = {}
    for axis, columns in enumerate(scope):
        own = [rows.parts[axis_of[name]] for name in columns]
        if len(columns) == 1:
            made[columns[0]] = own[0]
            continue
        labels = Partition.flat(column_labels(unfolded(matrix, shape, axis)))
        kept = [np.arange(size) for size in shape]
        kept[axis] = labels.first_values
        matrix = sparse.csr_array(matrix[:, _combined(kept, shape)])
        shape[axis] = labels.size
        cells = _combined([part.pieces for part in own], [part.size for part in own])
        sizes = [len(part.pieces) for part in own]
        made[joint_name(columns, sizes)] = Partition.flat(labels.pieces[cells])
    names = list(made)
    order = sorted(range(len(names)), key=names.__getitem__)
    matrix = _transposed(matrix, shape, order)
    return Rows.of(tuple(sorted(names)), [made[names[axis]] for axis in order], matrix)


def _sizes(column: str) -> list[int]:
    return [int(part.split(SIZED)[1]) for part in column.split(BETWEEN)]


def _along(part: Partition, sizes: Sequence[int]) -> list[Partition]:
    """Return, by declared column, the coarsest partition that the joint vertices depend on."""
    table = part.pieces.reshape(tuple(sizes))
    found = []
    for axis, size in enumerate(sizes):
        slices = np.ascontiguousarray(np.moveaxis(table, axis, 0)).reshape(size, -1)
        numbers: dict[bytes, int] = {}
        labels = [numbers.setdefault(each.tobytes(), len(numbers)) for each in slices]
        found.append(Partition.flat(np.array(labels, dtype=np.int64)))
    return found


def _combined(places: Sequence[Integers], shape: Sequence[int]) -> Integers:
    """Return the number of every combination of places, row-major, in a table of a shape."""
    found = np.zeros(1, dtype=np.int64)
    for own, stride in zip(places, row_major_strides(shape), strict=True):
        found = np.add.outer(found, own * stride).reshape(-1)
    return found


def _transposed(
    matrix: sparse.csr_array, shape: Sequence[int], order: Sequence[int]
) -> sparse.csr_array:
    """Return a matrix whose columns are the cells of a table, with its axes in another order."""
    if list(order) == list(range(len(shape))):
        return matrix
    cells = np.arange(math.prod(shape)).reshape(tuple(shape)).transpose(order).reshape(-1)
    return sparse.csr_array(matrix[:, cells])
