"""Private blocks over the domain: keys, linear pieces and aggregates of one resolved SELECT.

Predicates, keys and values are evaluated over declared values by DuckDB (see ``evaluate`` and
``predicate``), and become counts, sums and histograms of groups, as rows over vertices.

What an aggregate adds up is a sum of products of functions of one column each (see ``products``),
so that only single columns are ever evaluated value by value.  Each column then has few vertices
(see ``table.partition``): the groups that keys and conditions tell apart, and in each the two ends
of what is summed.  A value that has no such form is looked at on every cell of its columns.

A condition or a key of several columns (``promised < delivered``) tells few groups of combinations
apart, and most values of every single column: it is a joint column then (see ``table.joint``).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.bind.bound import BoundAggregate, BoundPiece, Keys, PrivateBlock
from sqlmadp.bind.evaluate import NO_NUMBERS, Argument, Evaluator, KeyValues
from sqlmadp.bind.groups import (
    OUT,
    Factor,
    Groups,
    form_groups,
    tied,
    too_many_cells,
    too_many_groups,
)
from sqlmadp.bind.predicate import conjuncts, guarded, masks, uses
from sqlmadp.bind.products import Term
from sqlmadp.bind.resolve import Resolved
from sqlmadp.sql.aggregates import Aggregate, Piece
from sqlmadp.sql.limits import Limits
from sqlmadp.sql.statements import RefusedError
from sqlmadp.sql.tree import Node, call_of, column_names, quote, text
from sqlmadp.table.joint import joint_name
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows, row_major_strides
from sqlmadp.table.runs import Floats, Integers

COUNT = (Term(1.0, {}),)
"""What COUNT(*) adds up."""

MERGED = 16
"""Join columns into one if that leaves at most one vertex in 16.  Single columns are
shared with statements that ask about them alone; ``a < b`` is joint from six values each on."""


@dataclass(frozen=True, eq=False)
class Values:
    """What an aggregate adds up, on every cell of its columns: the number of a value, or OUT."""

    factor: Factor
    weights: Floats
    """What one record of each value adds."""


def sum_rows(
    groups: Groups, masks: Sequence[Factor], terms: Sequence[Term], sizes: Mapping[str, int]
) -> Rows:
    """Return one row per group: what a record adds to it, where all masks hold.

    ``sizes``: the number of cells of every column that a term uses.
    """
    summed = {name for term in terms for name in term.functions}
    return _rows(groups, tied(groups, masks), summed, terms, sizes).simplified()


def value_rows(groups: Groups, masks: Sequence[Factor], values: Values) -> Rows:
    """Return one row per group: the sum of the values of its records, where all masks hold."""
    tables = tied(groups, masks, values.factor, max(1, len(values.weights)))
    rows = _rows(groups, tables, values.factor.columns, weights=values.weights)
    rows = Rows.reduced(rows.scope, rows.parts, rows.matrix)
    if len(values.factor.columns) > 1 and rows.size >= MERGED:
        # Whatever the value's column is, a joint one has no longer pieces.
        merged = _rows(groups, tables, (), weights=values.weights).simplified()
        rows = merged if merged.size * MERGED <= rows.size else rows
    return rows


def histogram_rows(groups: Groups, masks: Sequence[Factor], values: Values) -> Rows:
    """Return one row per group and value, the values of a group together."""
    count = max(1, len(values.weights))
    tables = tied(groups, masks, values.factor, count)
    return _rows(groups, tables, values.factor.columns, count=count)


def _rows(
    groups: Groups,
    tables: Sequence[Factor],
    kept: Collection[str],
    terms: Sequence[Term] = COUNT,
    sizes: Mapping[str, int] | None = None,
    *,
    weights: Floats | None = None,
    count: int = 1,
) -> Rows:
    """Return rows of what a record adds to its number, which the ``tables`` add up to.

    The number is that of a combination of groups; with ``count``, of one of so many values of it,
    each with a row of its own; with ``weights``, of one of so many values, each added so often.
    ``kept``: columns that are made part of no joint one.
    """
    tables = [_merged(table, kept, groups.limits) for table in tables]
    if groups.size == 0 or any((table.values == OUT).all() for table in tables):
        return Rows((), (), 0, sparse.csr_array((groups.size * count, 1), dtype=np.float64))
    labels = {
        name: partition.pieces
        for table in tables
        for name, partition in zip(table.columns, table.partitions, strict=True)
    }
    columns: dict[str, _Column] = {}
    for name in sorted({*labels, *(name for term in terms for name in term.functions)}):
        functions = [term.functions[name] for term in terms if name in term.functions]
        cells = labels[name] if name in labels else np.zeros((sizes or {})[name], dtype=np.int64)
        columns[name] = _Column.of(cells, functions)
    shape = [column.part.size for column in columns.values()]
    told_apart = math.prod(shape)
    too_fine = math.prod(column.part.denominator for column in columns.values()) >= 2**62
    if too_fine:  # Two functions such as LN(a) * SQRT(b): their steps cannot be multiplied.
        told_apart = math.prod(column.part.values for column in columns.values())
    if too_fine or told_apart > groups.limits.block_cells:
        raise too_many_cells(columns, told_apart, groups.limits, "block_cells")
    numbers, vertices = _combinations(tables, columns)
    added = np.zeros(len(vertices))
    places = dict(zip(columns, np.unravel_index(vertices, shape), strict=True)) if shape else {}
    for term in terms:
        product = np.full(len(vertices), term.coefficient)
        for name, vector in term.functions.items():
            product *= columns[name].coefficients(vector)[places[name]]
        added += product
    combination, value = np.divmod(numbers, count if weights is None else max(1, len(weights)))
    row = groups.rank[combination]
    if weights is None:
        row = row * count + value
    else:
        added *= weights[value]
    entries = sparse.csr_array(
        (added, (row, vertices)), shape=(groups.size * count, math.prod(shape))
    )
    return Rows.of(tuple(columns), [column.part for column in columns.values()], entries)


def _merged(table: Factor, kept: Collection[str], limits: Limits) -> Factor:
    """Return a table of several columns as one of a joint column if far fewer vertices are left."""
    sizes = [part.values for part in table.partitions]
    if len(sizes) < 2 or not set(kept).isdisjoint(table.columns):
        return table
    if math.prod(sizes) > limits.predicate_cells:  # All values of a joint column are listed.
        return table
    values, numbers = np.unique(table.values, return_inverse=True)
    if len(values) * MERGED > table.values.size:
        return table
    cells = numbers.reshape(table.values.shape)[np.ix_(*(p.pieces for p in table.partitions))]
    part = Partition.flat(cells.reshape(-1))
    own = values[cells.reshape(-1)[part.first_values]]
    return Factor((joint_name(table.columns, sizes),), (part,), own)


@dataclass(frozen=True, eq=False)
class _Column:
    """The vertices of one column, and the group of each that keys and conditions tell apart."""

    part: Partition
    group: Integers
    """By vertex."""

    @classmethod
    def of(cls, labels: Integers, functions: Sequence[Floats]) -> _Column:
        if functions:
            rows = functions[0][None] if len(functions) == 1 else np.array(functions)
            part = Partition.of_functions(rows, labels)
        else:
            part = Partition.flat(labels)
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


HISTOGRAM_ROWS = 1 << 17
"""Tell at most this many values of all groups apart for a quantile: drawing the noise of as many
rows takes about 5 s."""

EXACT_VALUES, MANY_BINS = 4096, 512
"""Tell up to 4,096 values apart, and 512 ranges of more: beside a sum of the same column each range
has two vertices, which are solved for together (0.1 s for 1,024)."""

FEWEST_BINS = 256
"""Tell at least this many values of every group apart."""

BRANCHES, FEW_BRANCHES = 16, 4
"""Ask for ranges of 16, 256, ... values too, while there are more than four of them."""

_NESTED = ("[", "STRUCT", "MAP", "UNION", "LIST")


def private_block(resolved: Resolved, evaluator: Evaluator) -> PrivateBlock:
    """Return one private block with the rows of its pieces."""
    _require_single_matches(resolved, evaluator)
    guards = [part for node in resolved.where for part in conjuncts(node)]
    where = masks(guards, evaluator)
    keys = [guarded(node, guards, lambda part: _key(part, evaluator)) for node in resolved.keys]
    sets = [
        form_groups(
            where,
            [keys[place].factor for place in places],
            grouped=bool(places),
            limits=evaluator.limits,
        )
        for places in resolved.sets
    ]
    rows = sum(groups.size for groups in sets)
    if rows > evaluator.limits.groups:
        raise too_many_groups(rows, evaluator.limits)
    order = {piece.key: place for place, piece in enumerate(resolved.pieces)}
    return PrivateBlock(
        name=resolved.name,
        rows=rows,
        keys=_keys(resolved, keys, sets),
        pieces=tuple(_piece(piece, guards, sets, evaluator) for piece in resolved.pieces),
        aggregates=tuple(
            replace(
                _aggregate(aggregate, order, evaluator),
                empty=_empty(aggregate, guards, sets, evaluator),
            )
            for aggregate in resolved.aggregates
        ),
    )


def _require_single_matches(resolved: Resolved, evaluator: Evaluator) -> None:
    """Refuse a public table with several rows for one record: it would be counted twice."""
    for joined in resolved.joined:
        for use in uses(joined, evaluator.domain):
            raise RefusedError(
                "real-column", f"a join cannot depend on the real column {use.column!r}"
            )
        matches = evaluator.argument(joined).numbers
        if matches.max(initial=0) > 1:
            raise RefusedError(
                "join",
                f"a record could meet {int(matches.max())} rows of the public table, and would be "
                "counted as often",
                hint="Join on columns that have at most one row for each combination of values.",
                node=joined,
            )


def _keys(resolved: Resolved, keys: list[KeyValues], sets: list[Groups]) -> Keys:
    """Return keys and GROUPING() of all groups; a key outside a grouping set is NULL there."""
    columns: list[list[np.ndarray]] = [[] for _ in keys]
    marks: list[list[np.ndarray]] = [[] for _ in resolved.groupings]
    for places, groups in zip(resolved.sets, sets, strict=True):
        here = {place: number for number, place in enumerate(places)}
        for place, key in enumerate(keys):
            missing = np.full(groups.size, None, dtype=object)
            found = key.texts[groups.codes[:, here[place]]] if place in here else missing
            columns[place].append(found)
        for parts, grouping in zip(marks, resolved.groupings, strict=True):
            bits = "".join("0" if place in here else "1" for place in grouping)
            parts.append(np.full(groups.size, str(int(bits, 2)), dtype=object))
    return Keys(
        (
            *(f"__k{place}" for place in range(len(keys))),
            *(f"__g{place}" for place in range(len(marks))),
        ),
        (*(key.type for key in keys), *("BIGINT" for _ in marks)),
        tuple(np.concatenate(parts) for parts in (*columns, *marks)),
    )


def _piece(
    piece: Piece,
    guards: list[Node],
    sets: list[Groups],
    evaluator: Evaluator,
) -> BoundPiece:
    own = [part for node in piece.where for part in conjuncts(node)]
    chosen = masks(own, evaluator, guards)
    if piece.value is None:
        return BoundPiece("count", _sums(sets, chosen, COUNT, evaluator))
    here = [*guards, *own]
    if piece.kind == "histogram":
        argument = guarded(piece.value, here, evaluator.argument)
        histogram = _histogram(argument, piece.ordered, sets, chosen, evaluator.limits)
        texts = evaluator.with_texts(histogram.argument or argument, piece.value)
        return replace(histogram, argument=texts)
    found = guarded(piece.value, here, evaluator.terms)
    if found is not None and not _is_tied(piece.value, sets, chosen, evaluator):
        return BoundPiece("sum", _sums(sets, chosen, found.terms, evaluator), bounds=found.bounds)
    argument = guarded(piece.value, here, evaluator.argument)
    if not np.isfinite(argument.numbers).all() or argument.type in NO_NUMBERS:
        raise RefusedError(
            "sum-type",
            f"a {argument.type} cannot be summed or averaged: its values are no finite numbers",
            hint="MEDIAN and QUANTILE_DISC work for every ordered type.",
            node=piece.value,
        )
    values = Values(argument.factor, argument.numbers)
    numbers = argument.numbers
    bounds = (float(numbers.min()), float(numbers.max())) if len(numbers) else (math.nan, math.nan)
    return BoundPiece(
        "sum", tuple(value_rows(groups, chosen, values) for groups in sets), bounds=bounds
    )


def _is_tied(
    value: Node, sets: Sequence[Groups], chosen: Sequence[Factor], evaluator: Evaluator
) -> bool:
    """Tell whether a condition or key mixes columns that are summed, as ``a - b WHERE a > b`` does.

    Then a joint column has far fewer vertices than their single columns.
    """
    names = column_names(value)
    factors = [*chosen, *(each.factor for groups in sets for each in groups.components)]
    sizes = [evaluator.domain.column(name).size for name in names]
    mixed = any(len(names & set(factor.columns)) > 1 for factor in factors)
    return mixed and math.prod(sizes) <= evaluator.limits.predicate_cells


def _histogram(
    argument: Argument,
    ordered: bool,
    sets: Sequence[Groups],
    chosen: Sequence[Factor],
    limits: Limits,
) -> BoundPiece:
    def rows(argument: Argument) -> tuple[Rows, ...]:
        values = Values(argument.factor, argument.numbers)
        return tuple(histogram_rows(groups, chosen, values) for groups in sets)

    values, groups = len(argument.numbers), sum(each.size for each in sets)
    merged, levels = 1, []
    if ordered:
        most = max(FEWEST_BINS, HISTOGRAM_ROWS // max(1, groups))
        most = min(most, values if values <= EXACT_VALUES else MANY_BINS)
        if values > most:
            argument, merged = argument.binned(most), -(-values // most)
        count = len(argument.numbers)
        while count > BRANCHES * FEW_BRANCHES:
            count = -(-count // BRANCHES)
            levels.append(argument.binned(count))
    elif values > limits.block_cells:
        raise too_many_cells(argument.columns, values, limits, "block_cells")
    coarser = tuple(part for level in levels for part in rows(level))
    return BoundPiece("histogram", rows(argument), argument, coarser=coarser, merged=merged)


def _sums(
    sets: Sequence[Groups], chosen: Sequence[Factor], terms: Sequence[Term], evaluator: Evaluator
) -> tuple[Rows, ...]:
    sizes = {column.name: column.size for column in evaluator.domain.columns}
    return tuple(sum_rows(groups, chosen, terms, sizes) for groups in sets)


def _empty(
    aggregate: Aggregate, guards: list[Node], sets: list[Groups], evaluator: Evaluator
) -> NDArray[np.bool_] | None:
    """Return the groups for which SUM or COUNT_IF, which are NULL over no record, have no cell."""
    if aggregate.function not in ("sum", "count_if"):
        return None
    call = call_of(aggregate.call)
    own = [] if call is None or call.where is None else list(conjuncts(call.where))
    chosen = masks(own, evaluator, guards)
    value = aggregate.pieces[0].value if aggregate.function == "sum" else None
    if value is None:
        counted = _sums(sets, chosen, COUNT, evaluator)
    elif (found := guarded(value, [*guards, *own], evaluator.terms)) is not None:
        counted = _sums(sets, chosen, found.presence, evaluator)
    else:
        argument = guarded(value, [*guards, *own], evaluator.argument)
        values = Values(argument.factor, np.ones(len(argument.numbers)))
        counted = tuple(value_rows(groups, chosen, values) for groups in sets)
    empty = ~np.concatenate([np.diff(rows.matrix.indptr) > 0 for rows in counted])
    return empty if empty.any() else None


def _aggregate(aggregate: Aggregate, order: dict[str, int], evaluator: Evaluator) -> BoundAggregate:
    fractions, listed = _fractions(aggregate, evaluator)
    return BoundAggregate(
        function=aggregate.function,
        type=_type_of(aggregate, evaluator),
        pieces=tuple(order[piece.key] for piece in aggregate.pieces),
        fractions=fractions,
        listed=listed,
        descending=aggregate.descending,
    )


def _type_of(aggregate: Aggregate, evaluator: Evaluator) -> str:
    """Return the type that DuckDB gives to an aggregate."""
    if aggregate.function in ("count", "count_if"):
        return "BIGINT" if aggregate.function == "count" else "HUGEINT"
    call = text(aggregate.call)
    table = quote(evaluator.domain.table)
    return evaluator.sandbox.type_of(f"SELECT {call} FROM {table}")


def _fractions(
    aggregate: Aggregate, evaluator: Evaluator
) -> tuple[tuple[Fraction | float | None, ...], bool]:
    """Return the constants that say which quantiles are asked for, and whether as a list."""
    node = aggregate.fraction
    if node is None:
        return ((Fraction(1, 2),), False) if aggregate.function == "median" else ((), False)
    if column_names(node):
        raise RefusedError("quantile", "the fraction of a quantile is a constant", node=node)
    values, listed = evaluator.fractions(node)
    if any(value is None or not -1 <= value <= 1 for value in values):
        raise RefusedError("quantile", "the fraction of a quantile lies between 0 and 1", node=node)
    return tuple(values), listed


def _key(node: Node, evaluator: Evaluator) -> KeyValues:
    key = evaluator.key(node)
    if any(mark in key.type for mark in _NESTED):
        raise RefusedError(
            "key-type",
            f"groups cannot be formed by a {key.type}",
            hint="Square brackets make a list; a name is written without them, in double quotes "
            "if it is no plain word."
            if key.type.endswith("]")
            else "Group by its parts instead.",
            node=node,
        )
    return key
