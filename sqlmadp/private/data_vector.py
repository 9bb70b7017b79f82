"""The data vector: how many records of the private table lie in each cell of a marginal.

One SELECT counts every scope of a release in one scan of the table.  Its text is made of
the schema, the scopes, and the cuts of real columns; nothing else an analyst wrote is in it.

    SELECT cells, GROUPING(cells), COUNT(*)              counted, once a scope
    FROM (SELECT each declared value, or a real's cell    moved inside if clamped
          FROM (SELECT each declared column               typed, NULL if it cannot be
                FROM the table)
          WHERE every declared column is in the domain)
    WHERE the record is among its unit's first           if the schema has a unit
    GROUP BY GROUPING SETS (the scopes)

A record is kept or dropped as a whole, by its declared columns alone, and a kept record is
in exactly one cell of every marginal.  Of a unit's kept records the first ones are counted, in
the order of a hash of its key, then of the declared values.  So records that tie are equal in
everything that is counted, and what is counted of a unit depends on its own records only.

Guarantee  Adding or removing one record that is counted changes one cell of every marginal by
           1, the same table cell in all of them.  Adding or removing one unit changes whether
           at most ``domain.records_per_unit`` records are counted, all of them its own.
Requires   Catalogue checked against the domain; marginals of the domain.
Numerics   Exact: 64-bit counts of records.  Reals are compared as the 64-bit floating-point
           numbers they are stored as (or cast to); a comparison does not round.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sqlmadp.private.catalogue import source_column, source_columns
from sqlmadp.private.engines import PLAIN, Engine
from sqlmadp.schema.domain import ORDERED, Column, Domain, Unit
from sqlmadp.schema.marginal import Marginal, row_major_strides

Counts = NDArray[np.int64]

FEW_CELLS = 2**20
"""So many cells of all columns in use are counted first, and added up by scope after that."""

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
        value = exp.column(f"v{number}")
        typed.append(engine.typed(stored[column.name], column.sql_type).as_(f"v{number}"))
        condition = _inside(value, column)
        if column.nullable:
            raw = exp.column(stored[column.name].name, quoted=True)
            typed.append(raw.is_(exp.null()).as_(f"n{number}"))
            condition = exp.or_(exp.column(f"n{number}"), condition)
        inside.append(condition)
        if column.name in used:
            kept.append(_cleaned(value, column).as_(f"c{used.index(column.name)}"))
    if domain.unit is not None:
        typed.append(_text_or_integer(engine, domain.unit.column).as_("unit"))
        typed.append(_hash(engine, domain, domain.unit).as_("hash"))
        kept.append(exp.column("unit"))
        kept.append(_place(len(domain.columns)).as_("place"))
        if domain.unit.nulls == "drop":
            inside.append(exp.column("unit").is_(exp.null()).not_())
    records = exp.select(*typed).from_(engine.relation()).subquery("typed")
    within = exp.select(*(kept or [exp.Literal.number(1).as_("one")])).from_(records)
    select = exp.select(_counted("records")).from_(within.where(*inside).subquery("kept"))
    if domain.unit is not None:
        first = exp.LTE(
            this=exp.column("place"), expression=exp.Literal.number(domain.unit.max_records)
        )
        # Without a unit, a record that was not dropped is a unit of its own.
        select = select.where(exp.or_(exp.column("unit").is_(exp.null()), first))
    if not used:
        return select
    names = [exp.column(f"c{number}") for number in range(len(used))]
    if len(scopes) > 1 and math.prod(domain.column(name).size for name in used) <= FEW_CELLS:
        select = _counted_once(select, names)
    return _grouped(select, names, [[used.index(name) for name in scope] for scope in scopes])


def _counted(name: str) -> exp.Expr:
    return exp.Count(this=exp.Star()).as_(name)


def _counted_once(select: exp.Select, names: Sequence[exp.Column]) -> exp.Select:
    """Return a SELECT over the counts of all columns together, of which there are few.

    Engines count those in parallel, and once a record instead of once a record and scope.
    """
    cells = select.select(*names, append=False).select(_counted("n")).group_by(*names)
    total = exp.cast(exp.Sum(this=exp.column("n")), "BIGINT")
    none = exp.Literal.number(0)  # The sum over no records at all.
    summed = exp.Coalesce(this=total, expressions=[none]).as_("records")
    return exp.select(summed).from_(cells.subquery("cells"))


def _grouped(
    select: exp.Select, names: Sequence[exp.Column], scopes: Sequence[Sequence[int]]
) -> exp.Select:
    for number, name in enumerate(names):
        grouping = exp.Anonymous(this="GROUPING", expressions=[name.copy()])
        select = select.select(name.copy(), grouping.as_(f"g{number}"))
    sets = [exp.Tuple(expressions=[names[number].copy() for number in scope]) for scope in scopes]
    select.set("group", exp.Group(grouping_sets=[exp.GroupingSets(expressions=sets)]))
    return select


def _text_or_integer(engine: Engine, name: str) -> exp.Expression:
    """Return a value that is equal just where the stored one is, in every engine."""
    column = source_column(engine, name)
    return engine.typed(column, "BIGINT" if column.kind == "integer" else "VARCHAR")


def _hash(engine: Engine, domain: Domain, unit: Unit) -> exp.Expression:
    """Return the hash by whose order a unit's records are counted: of its name and their key.

    Without a key of its own, a record's key is what the schema does not declare, so that it
    does not depend on the values counted; a table that has nothing else leaves only those.
    """
    declared = {column.name.casefold() for column in domain.columns}
    plain = [column.name for column in engine.catalogue() if column.kind in PLAIN]
    others = [name for name in plain if name.casefold() not in declared]
    own = [name for name in others if name.casefold() != unit.column.casefold()]
    text: exp.Expression = exp.Literal.string("")
    for name in (unit.column, *(unit.key or own or plain)):
        value = engine.typed(source_column(engine, name), "VARCHAR")
        known = exp.Coalesce(this=value, expressions=[exp.Literal.string("")])
        text = exp.DPipe(this=text, expression=known)
        text = exp.DPipe(this=text, expression=exp.Literal.string("|"))
    return exp.MD5(this=text)


def _place(columns: int) -> exp.Expression:
    """Return the place of a record among those of its unit."""
    order = [exp.Ordered(this=exp.column("hash"))]
    for number in range(columns):
        order.append(exp.Ordered(this=exp.column(f"v{number}"), nulls_first=True))
    return exp.Window(
        this=exp.RowNumber(),
        partition_by=[exp.column("unit")],
        order=exp.Order(expressions=order),
    )


def _used(domain: Domain, scopes: Sequence[tuple[str, ...]]) -> list[str]:
    named = {name for scope in scopes for name in scope}
    return [column.name for column in domain.columns if column.name in named]


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
            # In every engine NaN equals itself and nothing else.
            return exp.NEQ(this=value.copy(), expression=_literal(math.nan))
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
        # In the domain, or at its end, so that it fits, in engines without TRY_CAST too.
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
