"""Counts, sums and histograms of groups, as rows over vertices.

What an aggregate adds up is a sum of products of functions of one column each (see `products`), so
that only single columns are ever evaluated value by value.  Each column then has few vertices (see
`table.partition`): the groups that keys and conditions tell apart, and in each the two ends of what
is summed.  A value that has no such form is looked at on every cell of its columns.

A condition or a key of several columns (``promised < delivered``) tells few groups of combinations
apart, and most values of every single column: it is a joint column then (see `table.joint`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from scipy import sparse

from sqlmadp.sql.factor import Factor, TooManyCellsError
from sqlmadp.sql.groups import OUT, Groups, tied
from sqlmadp.sql.limits import Limits
from sqlmadp.sql.products import Term
from sqlmadp.table.joint import joint_name
from sqlmadp.table.partition import Floats, Integers, Partition
from sqlmadp.table.rows import Rows, row_major_strides

COUNT = (Term(1.0, {}),)
"""What COUNT(*) adds up."""

MERGED = 16
"""Take columns to be a joint one if that leaves at most one vertex in so many.  Single columns are
shared with statements that ask about them alone; ``a < b`` is joint from six values each on."""

JOINT_VALUES = 2**20
"""A joint column has at most this many values, all of which are listed."""


def sum_rows(
    groups: Groups, masks: Sequence[Factor], terms: Sequence[Term], sizes: Mapping[str, int]
) -> Rows:
    """Return one row per group: what a record adds to it, where all masks hold.

    ``sizes``: the number of cells of every column that a term uses.
    """
    summed = {name for term in terms for name in term.functions}
    tables = [_merged(table, summed) for table in tied(groups, masks)]
    empty = Rows((), (), 0, sparse.csr_array((groups.size, 1), dtype=np.float64))
    if groups.size == 0 or any((table.values == OUT).all() for table in tables):
        return empty
    labels = {
        name: partition.pieces
        for table in tables
        for name, partition in zip(table.columns, table.partitions, strict=True)
    }
    columns: dict[str, _Column] = {}
    for name in sorted({*labels, *summed}):
        functions = [term.functions[name] for term in terms if name in term.functions]
        cells = labels.get(name, np.zeros(sizes[name] if functions else 0, dtype=np.int64))
        columns[name] = _Column.of(cells, functions)
    scope = tuple(columns)
    shape = _shape(columns, groups.limits)
    numbers, vertices = _combinations(tables, columns)
    added = np.zeros(len(vertices))
    places = dict(zip(scope, np.unravel_index(vertices, shape), strict=True)) if scope else {}
    for term in terms:
        product = np.full(len(vertices), term.coefficient)
        for name, vector in term.functions.items():
            product *= columns[name].coefficients(vector)[places[name]]
        added += product
    matrix = sparse.csr_array(
        (added, (groups.rank[numbers], vertices)), shape=(groups.size, math.prod(shape))
    )
    return Rows.of(scope, [columns[name].part for name in scope], matrix).simplified()


@dataclass(frozen=True, eq=False)
class Values:
    """What an aggregate adds up, on every cell of its columns: the number of a value, or OUT."""

    factor: Factor
    weights: Floats
    """What one record of each value adds."""


def value_rows(groups: Groups, masks: Sequence[Factor], values: Values) -> Rows:
    """Return one row per group: the sum of the values of its records, where all masks hold."""
    rows = _cell_rows(groups, masks, values, histogram=False)
    if len(values.factor.columns) > 1 and rows.size >= MERGED:
        merged = _cell_rows(groups, masks, values, histogram=False, kept=())
        rows = merged if merged.size * MERGED <= rows.size else rows
    return rows


def histogram_rows(groups: Groups, masks: Sequence[Factor], values: Values) -> Rows:
    """Return one row per group and value, the values of a group together."""
    return _cell_rows(groups, masks, values, histogram=True)


def _cell_rows(
    groups: Groups,
    masks: Sequence[Factor],
    values: Values,
    *,
    histogram: bool,
    kept: Collection[str] | None = None,
) -> Rows:
    """Return the rows; ``kept``: columns that are in no joint one, the value's own if not given."""
    count = max(1, len(values.weights))
    kept = values.factor.columns if kept is None else kept
    tables = [_merged(table, kept) for table in tied(groups, masks, values.factor, count)]
    rows = groups.size * count if histogram else groups.size
    if groups.size == 0 or any((table.values == OUT).all() for table in tables):
        return Rows((), (), 0, sparse.csr_array((rows, 1), dtype=np.float64))
    columns = {
        name: _Column(part, np.arange(part.size))
        for table in tables
        for name, part in zip(table.columns, table.partitions, strict=True)
    }
    columns = {name: columns[name] for name in sorted(columns)}
    shape = _shape(columns, groups.limits)
    numbers, cells = _combinations(tables, columns)
    combination, value = np.divmod(numbers, count)
    row = groups.rank[combination]
    added = np.ones(len(row)) if histogram else values.weights[value]
    entries = (added, (row * count + value if histogram else row, cells))
    matrix = sparse.csr_array(entries, shape=(rows, math.prod(shape)))
    scope, parts = tuple(columns), [column.part for column in columns.values()]
    if histogram:  # Every value has a row of its own: there is nothing to merge.
        return Rows.of(scope, parts, matrix)
    if not kept:  # Whatever the value's column is, it has no longer pieces.
        return Rows.of(scope, parts, matrix).simplified()
    return Rows.reduced(scope, parts, matrix)


def _merged(table: Factor, kept: Collection[str]) -> Factor:
    """Return a table of several columns as one of a joint column if far fewer vertices are left."""
    sizes = [len(part.pieces) for part in table.partitions]
    if len(sizes) < 2 or math.prod(sizes) > JOINT_VALUES or not set(kept).isdisjoint(table.columns):
        return table
    values, numbers = np.unique(table.values, return_inverse=True)
    if len(values) * MERGED > table.values.size:
        return table
    cells = numbers.reshape(table.values.shape)[np.ix_(*(p.pieces for p in table.partitions))]
    part = Partition.flat(cells.reshape(-1))
    own = values[cells.reshape(-1)[part.first_values]]
    return Factor((joint_name(table.columns, sizes),), (part,), own)


def _shape(columns: Mapping[str, _Column], limits: Limits) -> list[int]:
    """Return the number of vertices of every column, unless they are too many together."""
    shape = [column.part.size for column in columns.values()]
    if math.prod(shape) > limits.block_cells:
        raise TooManyCellsError(tuple(columns), math.prod(shape), limits.block_cells, "block_cells")
    return shape


@dataclass(frozen=True, eq=False)
class _Column:
    """The vertices of one column, and the group of each that keys and conditions tell apart."""

    part: Partition
    group: Integers
    """By vertex."""

    @classmethod
    def of(cls, labels: Integers, functions: Sequence[Floats]) -> _Column:
        part = Partition.flat(labels)
        if functions:
            part = Partition.of_functions(np.array(functions), labels)
        pieces = np.repeat(np.arange(len(part.degrees)), part.degrees + 1)
        return cls(part, labels[part.first_values[pieces]])

    def coefficients(self, vector: Floats) -> Floats:
        """Return a function of the cells as coefficients of the vertices."""
        values, coefficients = self.part.evaluation
        return np.asarray(vector[values] @ coefficients)


def _combinations(
    tables: Sequence[Factor], columns: Mapping[str, _Column]
) -> tuple[Integers, Integers]:
    """Return the number of the group, and the vertex, of everything that is counted."""
    scope = tuple(columns)
    shape = [columns[name].part.size for name in scope]
    strides = dict(zip(scope, row_major_strides(shape), strict=True))
    numbers = vertices = np.zeros(1, dtype=np.int64)
    used = {name for table in tables for name in table.columns}
    for name in scope:
        if name not in used:
            steps = np.arange(columns[name].part.size) * strides[name]
            numbers = np.repeat(numbers, len(steps))
            vertices = np.add.outer(vertices, steps).reshape(-1)
    for table in tables:
        values = table.values
        for axis, name in enumerate(table.columns):
            values = values.take(columns[name].group, axis=axis)
        places = (np.arange(columns[name].part.size) * strides[name] for name in table.columns)
        offsets = reduce(np.add.outer, places, np.zeros((), dtype=np.int64))
        inside = values != OUT
        numbers = np.add.outer(numbers, values[inside]).reshape(-1)
        vertices = np.add.outer(vertices, offsets[inside]).reshape(-1)
    return numbers, vertices
