"""The data vector: how many records of the private table lie in each cell of a marginal.

One SELECT counts every scope of a release in one scan of the table.  Its text is made of
the schema, the scopes, and the cuts of real columns; nothing else an analyst wrote is in it.

    SELECT cells, GROUPING(cells), COUNT(*)              counted, once a scope
    FROM (SELECT each declared value, or a real's cell    moved inside if clamped
          FROM (SELECT TRY_CAST(each declared column)     typed, NULL if it cannot be
                FROM the table)
          WHERE every declared column is in the domain)
    GROUP BY GROUPING SETS (the scopes)

A record is kept or dropped as a whole, by its declared columns alone, and a kept record is
in exactly one cell of every marginal.

Guarantee  Adding or removing one record changes one cell of every marginal by 1, the same
           table cell in all of them, or nothing at all (an out-of-domain record).
Requires   Catalogue checked against the domain; marginals of the domain.
Numerics   Exact: 64-bit counts of records.  Reals are compared as the 64-bit floating-point
           numbers they are stored as (or cast to); a comparison does not round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sqlmadp.private.catalogue import source_columns
from sqlmadp.private.engines import Engine, SourceColumn
from sqlmadp.schema.domain import ORDERED, Column, Domain
from sqlmadp.schema.marginal import Marginal, row_major_strides

Counts = NDArray[np.int64]

_EPOCH = date(1970, 1, 1).toordinal()


def read_counts(engine: Engine, domain: Domain, marginals: Sequence[Marginal]) -> list[Counts]:
    """Return the exact counts of every marginal, cell by cell.  Private."""
    scopes = sorted({marginal.scope for marginal in marginals})
    answer = engine.counts(counting_select(engine, domain, scopes))
    records = np.asarray(answer["records"], dtype=np.int64)
    place = {name: number for number, name in enumerate(_used(domain, scopes))}
    cells = {
        name: _cells(domain.column(name), answer[f"c{number}"]) for name, number in place.items()
    }
    counts = []
    for marginal in marginals:
        rows = np.ones(len(records), dtype=bool)
        for name, number in place.items():
            rows &= np.asarray(answer[f"g{number}"]) == (name not in marginal.scope)
        counts.append(_marginal_counts(marginal, cells, records, rows))
    return counts


def counting_select(
    engine: Engine, domain: Domain, scopes: Sequence[tuple[str, ...]]
) -> exp.Select:
    """Return the SELECT that counts every scope; columns are c0, c1, ... and g0, g1, ..."""
    stored = source_columns(engine, domain)
    typed: list[exp.Expr] = []
    kept: list[exp.Expr] = []
    inside: list[exp.Condition] = []
    used = _used(domain, scopes)
    for number, column in enumerate(domain.columns):
        raw = exp.column(stored[column.name].name, quoted=True)
        value = exp.column(f"v{number}")
        typed.append(_typed(raw, column, stored[column.name], engine.collation).as_(f"v{number}"))
        condition = _inside(value, column)
        if column.nullable:
            typed.append(raw.copy().is_(exp.null()).as_(f"n{number}"))
            condition = exp.or_(exp.column(f"n{number}"), condition)
        inside.append(condition)
        if column.name in used:
            kept.append(_cleaned(value, column).as_(f"c{used.index(column.name)}"))
    records = exp.select(*typed).from_(engine.relation()).subquery("typed")
    within = (
        exp.select(*(kept or [exp.Literal.number(1)]))
        .from_(records)
        .where(*inside)
        .subquery("kept")
    )
    select = exp.select(exp.Count(this=exp.Star()).as_("records")).from_(within)
    if not used:
        return select
    names = [exp.column(f"c{number}") for number in range(len(used))]
    for number, name in enumerate(names):
        grouping = exp.Anonymous(this="GROUPING", expressions=[name.copy()])
        select = select.select(name.copy(), grouping.as_(f"g{number}"))
    sets = [
        exp.Tuple(expressions=[names[used.index(name)].copy() for name in scope])
        for scope in scopes
    ]
    select.set("group", exp.Group(grouping_sets=[exp.GroupingSets(expressions=sets)]))
    return select


def _used(domain: Domain, scopes: Sequence[tuple[str, ...]]) -> list[str]:
    named = {name for scope in scopes for name in scope}
    return [column.name for column in domain.columns if column.name in named]


def _typed(
    raw: exp.Expression, column: Column, stored: SourceColumn, collation: str
) -> exp.Expression:
    """Return the value in a type that can be compared with the declaration, or NULL."""
    sql_type = column.sql_type
    if sql_type == "BIGINT" and stored.kind != "integer":
        sql_type = "INT128"  # So that a huge integer is out of domain, or clamped, as itself.
    typed: exp.Expression = exp.TryCast(this=raw.copy(), to=exp.DataType.build(sql_type))
    if sql_type == "VARCHAR":
        # A column's own collation may merge declared values; which of them a group then
        # shows would depend on other records.
        typed = exp.Collate(this=typed, expression=exp.to_identifier(collation, quoted=True))
    return typed


def _inside(value: exp.Column, column: Column) -> exp.Condition:
    """Return the condition that a value is in the domain; NULL or false when it is not."""
    match column.type:
        case "category":
            return exp.In(this=value.copy(), expressions=[_literal(each) for each in column.values])
        case "boolean":
            return value.copy().is_(exp.null()).not_()
        case _ if column.outside == "drop":
            # NaN is above every number, so it is outside too.
            return exp.Between(this=value.copy(), low=_low(column), high=_high(column))
        case "real":
            not_nan = exp.IsNan(this=value.copy()).not_()
            return exp.and_(value.copy().is_(exp.null()).not_(), not_nan)
        case _:
            return value.copy().is_(exp.null()).not_()


def _cleaned(value: exp.Expression, column: Column) -> exp.Expression:
    """Return the declared value (for a real, its cell) of a value that is in the domain."""
    if column.type == "real":
        cell = _real_cell(value, column, 0, len(column.edges))
        return exp.Case(ifs=[exp.If(this=value.copy().is_(exp.null()).not_(), true=cell)])
    cleaned = value.copy()
    if column.type in ORDERED and column.outside == "clamp":
        cleaned = (
            exp.Case()
            .when(exp.LT(this=value.copy(), expression=_low(column)), _low(column))
            .when(exp.GT(this=value.copy(), expression=_high(column)), _high(column))
            .else_(cleaned)
        )
    if column.sql_type == "BIGINT":
        return exp.TryCast(this=cleaned, to=exp.DataType.build("BIGINT"))
    return cleaned


def _real_cell(value: exp.Expression, column: Column, first: int, last: int) -> exp.Expression:
    """Return a binary search for the cell among edges ``first`` to ``last`` (exclusive)."""
    if first == last:
        # Between two edges; beyond either end the value is clamped to the end's own cell.
        return exp.Literal.number(min(max(2 * first - 1, 0), column.declared - 1))
    middle = (first + last) // 2
    edge = _literal(column.edges[middle])
    below = exp.LT(this=value.copy(), expression=edge)
    at = exp.EQ(this=value.copy(), expression=edge.copy())
    return exp.Case(
        ifs=[
            exp.If(this=below, true=_real_cell(value, column, first, middle)),
            exp.If(this=at, true=exp.Literal.number(2 * middle)),
        ],
        default=_real_cell(value, column, middle + 1, last),
    )


def _low(column: Column) -> exp.Expression:
    return _literal(column.edges[0] if column.type == "real" else column.minimum)


def _high(column: Column) -> exp.Expression:
    return _literal(column.edges[-1] if column.type == "real" else column.maximum)


def _literal(value: object) -> exp.Expression:
    match value:
        case str():
            return exp.Literal.string(value)
        case int():
            return exp.Literal.number(value)
        case float():
            # As text, since a numeric literal may be read as a decimal and then rounded.
            return exp.cast(exp.Literal.string(repr(value)), "DOUBLE")
        case date():
            return exp.cast(exp.Literal.string(value.isoformat()), "DATE")
        case _:
            raise TypeError("a declared value is text, a number or a date")


def _cells(column: Column, values: NDArray[Any]) -> NDArray[np.int64]:
    """Return the cell of every value of a result column; -1 for one that has none."""
    null = np.ma.getmaskarray(values)
    data = np.ma.getdata(values)
    match column.type:
        case "category":
            number = {value: cell for cell, value in enumerate(column.values)}
            cells = np.array([number.get(value, -1) for value in data.tolist()], dtype=np.int64)
        case "integer":
            cells = data.astype(np.int64) - column.ordinal_bounds[0]
        case "date":
            days = data.astype("datetime64[D]").astype(np.int64)
            cells = days + _EPOCH - column.ordinal_bounds[0]
        case _:
            cells = data.astype(np.int64)
    return np.where(null, -1 if column.null_cell is None else column.null_cell, cells)


def _marginal_counts(
    marginal: Marginal,
    cells: Mapping[str, NDArray[np.int64]],
    records: Counts,
    rows: NDArray[np.bool_],
) -> Counts:
    place = np.zeros(np.count_nonzero(rows), dtype=np.int64)
    inside = np.ones(len(place), dtype=bool)
    strides = row_major_strides(marginal.shape)
    for name, partition, stride in zip(marginal.scope, marginal.partitions, strides, strict=True):
        cell = cells[name][rows]
        inside &= (cell >= 0) & (cell < len(partition.labels))
        place += partition.labels[np.where(inside, cell, 0)] * stride
    counts = np.zeros(marginal.size, dtype=np.int64)
    np.add.at(counts, place[inside], records[rows][inside])
    return counts
