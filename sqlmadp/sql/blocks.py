"""Private blocks over the domain: keys, linear pieces and aggregates of one resolved SELECT.

Predicates, keys and values are evaluated over declared values by DuckDB, and become rows over
vertices: see ``evaluate``, ``predicate``, ``groups`` and ``sums``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sqlmadp.sql.aggregates import Aggregate, Piece
from sqlmadp.sql.bound import BoundAggregate, BoundPiece, Keys, PrivateBlock
from sqlmadp.sql.evaluate import NO_NUMBERS, Argument, Evaluator, KeyValues, binned
from sqlmadp.sql.factor import Factor
from sqlmadp.sql.groups import Groups, TooManyGroupsError, form_groups
from sqlmadp.sql.locked import quote
from sqlmadp.sql.predicate import conjuncts, guarded, masks
from sqlmadp.sql.products import Term
from sqlmadp.sql.real import uses
from sqlmadp.sql.resolve import Resolved
from sqlmadp.sql.statements import Statement
from sqlmadp.sql.sums import COUNT, Values, histogram_rows, sum_rows, value_rows
from sqlmadp.sql.tree import Node, call_of, column_names, span, text
from sqlmadp.table.rows import Rows

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


def private_block(resolved: Resolved, statement: Statement, evaluator: Evaluator) -> PrivateBlock:
    """Return one private block with the rows of its pieces."""
    _require_single_matches(resolved, statement, evaluator)
    guards = [part for node in resolved.where for part in conjuncts(node)]
    where = masks(guards, evaluator)
    keys = [
        guarded(node, guards, lambda part: _key(part, statement, evaluator))
        for node in resolved.keys
    ]
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
        raise TooManyGroupsError(rows, evaluator.limits.groups)
    order = {piece.key: place for place, piece in enumerate(resolved.pieces)}
    return PrivateBlock(
        name=resolved.name,
        rows=rows,
        keys=_keys(resolved, keys, sets),
        pieces=tuple(
            _piece(piece, guards, sets, statement, evaluator) for piece in resolved.pieces
        ),
        aggregates=tuple(
            replace(
                _aggregate(aggregate, order, statement, evaluator),
                empty=_empty(aggregate, guards, sets, evaluator),
            )
            for aggregate in resolved.aggregates
        ),
    )


def _require_single_matches(resolved: Resolved, statement: Statement, evaluator: Evaluator) -> None:
    """Refuse a public table with several rows for one record: it would be counted twice."""
    for joined in resolved.joined:
        for use in uses(joined.matches, statement, evaluator.domain):
            raise statement.refuse(
                "real-column", f"a join cannot depend on the real column {use.column!r}"
            )
        matches = evaluator.argument(joined.matches).numbers
        if matches.max(initial=0) > 1:
            raise statement.refuse(
                "join",
                f"a record could meet {int(matches.max())} rows of the public table, and would be "
                "counted as often",
                hint="Join on columns that have at most one row for each combination of values.",
                span=joined.place,
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
    statement: Statement,
    evaluator: Evaluator,
) -> BoundPiece:
    own = [part for node in piece.where for part in conjuncts(node)]
    chosen = masks(own, evaluator, guards)
    if piece.value is None:
        return BoundPiece("count", _sums(sets, chosen, COUNT, evaluator))
    here = [*guards, *own]
    if piece.kind == "histogram":
        argument = guarded(piece.value, here, evaluator.argument)
        return _histogram(argument, piece.ordered, sets, chosen)
    if (found := guarded(piece.value, here, evaluator.terms)) is not None:
        return BoundPiece("sum", _sums(sets, chosen, found.terms, evaluator), bounds=found.bounds)
    argument = guarded(piece.value, here, evaluator.argument)
    if not np.isfinite(argument.numbers).all() or argument.type in NO_NUMBERS:
        raise statement.refuse(
            "sum-type",
            f"a {argument.type} cannot be summed or averaged: its values are no finite numbers",
            hint="MEDIAN and QUANTILE_DISC work for every ordered type.",
            span=span(piece.value),
        )
    values = Values(argument.factor, argument.numbers)
    numbers = argument.numbers
    bounds = (float(numbers.min()), float(numbers.max())) if len(numbers) else (math.nan, math.nan)
    return BoundPiece(
        "sum", tuple(value_rows(groups, chosen, values) for groups in sets), bounds=bounds
    )


def _histogram(
    argument: Argument, ordered: bool, sets: Sequence[Groups], chosen: Sequence[Factor]
) -> BoundPiece:
    def rows(argument: Argument) -> tuple[Rows, ...]:
        values = Values(argument.factor, argument.numbers)
        return tuple(histogram_rows(groups, chosen, values) for groups in sets)

    if not ordered:
        return BoundPiece("histogram", rows(argument), argument)
    values, groups = len(argument.texts), sum(each.size for each in sets)
    most = max(FEWEST_BINS, HISTOGRAM_ROWS // max(1, groups))
    most = min(most, values if values <= EXACT_VALUES else MANY_BINS)
    argument = binned(argument, most) if values > most else argument
    levels = []
    count = len(argument.texts)
    while count > BRANCHES * FEW_BRANCHES:
        count = -(-count // BRANCHES)
        levels.append(binned(argument, count))
    coarser = tuple(part for level in levels for part in rows(level))
    merged = -(-values // most) if values > most else 1
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


def _aggregate(
    aggregate: Aggregate, order: dict[str, int], statement: Statement, evaluator: Evaluator
) -> BoundAggregate:
    fractions, listed = _fractions(aggregate, statement, evaluator)
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
    aggregate: Aggregate, statement: Statement, evaluator: Evaluator
) -> tuple[tuple[Fraction | float | None, ...], bool]:
    """Return the constants that say which quantiles are asked for, and whether as a list."""
    if aggregate.fraction is None:
        return ((Fraction(1, 2),), False) if aggregate.function == "median" else ((), False)
    if column_names(aggregate.fraction):
        raise statement.refuse(
            "quantile",
            "the fraction of a quantile is a constant",
            span=span(aggregate.fraction),
        )
    values, listed = evaluator.constants(aggregate.fraction)
    if any(value is None or not -1 <= value <= 1 for value in values):
        raise statement.refuse(
            "quantile",
            "the fraction of a quantile lies between 0 and 1",
            span=span(aggregate.fraction),
        )
    return tuple(values), listed


def _key(node: Node, statement: Statement, evaluator: Evaluator) -> KeyValues:
    key = evaluator.key(node)
    if any(mark in key.type for mark in _NESTED):
        raise statement.refuse(
            "key-type", f"groups cannot be formed by a {key.type}", span=span(node)
        )
    return key
