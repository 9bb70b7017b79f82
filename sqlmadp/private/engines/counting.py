"""The counting statement: the one SELECT that an engine runs on the private table.

Its text is made of the schema, the scopes, the cuts of real columns, and the pieces and steps of
wide columns (see `scope_batches`).  Nothing else an analyst wrote is in it, and no record changes
it.  What comes back is read here too: the cell or piece of every group, and its sums.

    SELECT keys, COUNT(*), SUM(products of steps)           counted, once per scope
    FROM (SELECT each value or piece, and its steps          from runs of a wide column's cells
          FROM (SELECT each declared value, or its cell      NULL if it is undeclared
                FROM (SELECT each column                     typed, NULL if it cannot be
                      FROM the table)
                LEFT JOIN (each category's values, numbered)
                WHERE every complete column is declared)
          WHERE the record is among its unit's first)       if the schema has a unit
    GROUP BY GROUPING SETS (the scopes)                     or the one scope

An undeclared value is read as NULL: `_inside` says which values are declared, and `_cleaned` what
each becomes.  A record is kept or dropped as a whole, by the columns that are complete, and a
kept record is in exactly one cell of every scope.  Values of a category are numbered by a join; no
two declared ones are equal, so that no record is joined twice.

Of a unit's kept records the first ones are counted, in the order of a hash of its key, then of
the declared values.  So records that tie are equal in everything that is counted, and what is
counted of a unit depends on its own records only.

Guarantee  Adding or removing one record that is counted changes one group of every scope, all of
           them by the same cell of the table: its count by 1, and its sums by products of the
           cell's steps.  Adding or removing one unit changes whether at most
           ``domain.records_per_unit`` records are counted, all of them its own.
Requires   Catalogue checked against the domain; keys of the domain.
Numerics   Exact: products of steps are below 2^84, and are added up in 126 bits or more.  Reals are
           compared as the 64-bit floating-point numbers they are stored as (or cast to); a
           comparison does not round.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sqlmadp.errors import SourceError
from sqlmadp.private.engines import PLAIN, Engine
from sqlmadp.private.engines.catalogue import source_column, source_columns
from sqlmadp.private.engines.scope_batches import Key, Keys, Moment, used_keys
from sqlmadp.table.domain import ORDERED, Column, Domain, Unit
from sqlmadp.table.runs import affine_runs

Integers = NDArray[np.int64]
Whole = NDArray[np.object_]
"""Python's integers."""

_EPOCH = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, eq=False, kw_only=True)
class Groups:
    """Records by group: what an engine counted for one scope.  Private."""

    codes: Mapping[Key, Integers]
    """The cell or piece of every group, by key; -1 for what is no declared value."""
    moments: Mapping[Moment, Integers | Whole]
    """Sums over the records of every group; of no steps at all, their number."""


def count_groups(
    engine: Engine, domain: Domain, scopes: Sequence[Keys], moments: Sequence[Moment]
) -> dict[Keys, Groups]:
    """Run the one statement, and return the groups of every scope that have records.  Private."""
    answer = engine.counts(counting_select(engine, domain, scopes, moments))
    used = used_keys(scopes)
    codes = {}
    for number, key in enumerate(used):
        codes[key] = _codes(domain.column(key.column), key, answer[f"k{number}"])
    found: dict[Moment, Integers | Whole] = {(): np.asarray(answer["records"], dtype=np.int64)}
    for number, moment in enumerate(moments):
        found[moment] = _whole(answer[f"m{number}"])
    groups = {}
    for scope in scopes:
        rows = slice(None) if len(scopes) == 1 else _rows(answer, used, scope)
        groups[scope] = Groups(
            codes={key: codes[key][rows] for key in scope},
            moments={moment: sums[rows] for moment, sums in found.items()},
        )
    return groups


def counting_select(
    engine: Engine, domain: Domain, scopes: Sequence[Keys], moments: Sequence[Moment] = ()
) -> exp.Select:
    """Return the SELECT that counts every scope.

    Its columns are ``records``; k0, k1, ... for the keys of `used_keys`; if there are several
    scopes, g0, g1, ... which are 0 where the key is part of the row's scope; and m0, m1, ... for
    the moments, as text, since no engine's integers come back from it whole otherwise.
    """
    used = used_keys(scopes)
    columns = [c.name for c in domain.columns if c.name in {key.column for key in used}]
    select = exp.select(exp.Count(this=exp.Star()).as_("records"))
    for number, moment in enumerate(moments):
        factors = [exp.column(f"s{used.index(key)}") for key, power in moment for _ in range(power)]
        # Wide before it is multiplied: an overflow would depend on a record.
        product = reduce(operator.mul, factors[1:], engine.wide(factors[0]))
        text = exp.cast(exp.Sum(this=product), "VARCHAR")
        select.select(text.as_(f"m{number}"), copy=False)
    names = [exp.column(f"k{number}") for number in range(len(used))]
    # Nothing is copied: a wide column's pieces are numbered by expressions of thousands of nodes.
    coded = _coded(engine, domain, columns, used).subquery("coded", copy=False)
    select.from_(coded, copy=False)
    if len(scopes) == 1:
        grouped = [name.copy() for name in names]
        select.select(*names, copy=False)
        return select.group_by(*grouped, copy=False) if names else select
    for number, name in enumerate(names):
        grouping = exp.Anonymous(this="GROUPING", expressions=[name.copy()])
        select.select(name.copy(), grouping.as_(f"g{number}"), copy=False)
    sets = [
        exp.Tuple(expressions=[names[used.index(key)].copy() for key in scope]) for scope in scopes
    ]
    select.set("group", exp.Group(grouping_sets=[exp.GroupingSets(expressions=sets)]))
    return select


def _rows(
    answer: Mapping[str, NDArray[Any]], used: Sequence[Key], scope: Keys
) -> NDArray[np.bool_]:
    """Return which rows of the answer count one scope of several."""
    rows = np.ones(len(answer["records"]), dtype=bool)
    for number, key in enumerate(used):
        rows &= np.asarray(answer[f"g{number}"]) == (key not in scope)
    return rows


def _codes(column: Column, key: Key, values: NDArray[Any]) -> Integers:
    """Return the cell (or piece) of every value of a result column; -1 for one that has none."""
    data = np.ma.getdata(values)
    match column.type:
        case "integer" if key.part is None:
            codes = data.astype(np.int64) - column.ordinal_bounds[0]
        case "date" if key.part is None:
            days = data.astype("datetime64[D]").astype(np.int64)
            codes = days + _EPOCH - column.ordinal_bounds[0]
        case _:
            codes = data.astype(np.int64)
    if not np.ma.is_masked(values):
        return codes
    null = -1 if column.null_cell is None or key.part is not None else column.null_cell
    return np.where(np.ma.getmaskarray(values), null, codes)


def _whole(texts: NDArray[Any]) -> Whole:
    """Return integers that an engine wrote as text; NULL, of no record at all, is 0."""
    data, null = np.ma.getdata(texts), np.ma.getmaskarray(texts)
    whole = [0 if none else int(text) for text, none in zip(data.tolist(), null, strict=True)]
    return np.array(whole, dtype=object)


def _coded(
    engine: Engine, domain: Domain, columns: Sequence[str], used: Sequence[Key]
) -> exp.Select:
    """Return the SELECT of the counted records: keys as k0, k1, ..., and their steps as s0, ..."""
    select = exp.select()
    for number, key in enumerate(used):
        value = exp.column(f"c{columns.index(key.column)}")
        if key.part is None:
            select.select(value.as_(f"k{number}"), copy=False)
            continue
        cell = _cell(engine, value, domain.column(key.column))
        numbers = {f"k{number}": key.part.pieces}
        if key.part.degree:
            numbers[f"s{number}"] = key.part.steps
        for name, own in numbers.items():
            select.select(exp.alias_(_by_runs(cell, own), name, copy=False), copy=False)
    if not used:
        select.select(exp.Literal.number(1).as_("one"), copy=False)
    select.from_(_kept(engine, domain, columns).subquery("kept"), copy=False)
    if domain.unit is None:
        return select
    first = exp.LTE(
        this=exp.column("place"), expression=exp.Literal.number(domain.unit.max_records)
    )
    # Without a unit, a record that was not dropped is a unit of its own.
    return select.where(exp.or_(exp.column("unit").is_(exp.null()), first), copy=False)


def _cell(engine: Engine, value: exp.Column, column: Column) -> exp.Expression:
    """Return the cell of a declared value, or of NULL, as a 64-bit integer."""
    cell: exp.Expression = value
    match column.type:
        case "boolean":
            one, zero = exp.Literal.number(1), exp.Literal.number(0)
            cell = exp.Case().when(value.copy(), one).when(exp.not_(value.copy()), zero)
        case "integer":
            cell = exp.Sub(this=value, expression=exp.Paren(this=_low(column)))
        case "date":
            cell = engine.days(value, _low(column))
    cell = exp.cast(cell, "BIGINT")  # Before anything is multiplied.
    if column.null_cell is None:
        return cell
    return exp.Coalesce(this=cell, expressions=[exp.Literal.number(column.null_cell)])


def _by_runs(cell: exp.Expression, numbers: NDArray[np.int64]) -> exp.Expression:
    """Return the number of a cell: a binary search among runs, and a line along the one found."""
    runs = affine_runs(numbers)
    starts = [0, *itertools.accumulate(length for length, _, _ in runs)]

    def search(first: int, last: int) -> exp.Expression:
        if last - first > 1:
            middle = (first + last) // 2
            below = exp.LT(this=cell.copy(), expression=exp.Literal.number(starts[middle]))
            case = exp.Case().when(below, search(first, middle), copy=False)
            return case.else_(search(middle, last), copy=False)
        _, start, slope = runs[first]
        if slope == 0:
            return exp.cast(exp.Literal.number(start), "BIGINT")
        # slope * (cell - starts[first]) + start; nothing on the way exceeds 64 bits.
        line: exp.Expression = cell.copy()
        line = line - starts[first] if starts[first] else line
        line = exp.paren(line) * slope if slope != 1 else line
        return line + start if start else line

    return search(0, len(runs))


def _kept(engine: Engine, domain: Domain, used: Sequence[str]) -> exp.Select:
    """Return the SELECT of the records that count, with the columns in use as c0, c1, ..."""
    stored = source_columns(engine, domain)
    typed: list[exp.Expr] = []
    kept: list[exp.Expr] = []
    inside: list[exp.Condition] = []
    numbered: list[tuple[exp.Expr, exp.Condition]] = []
    for number, column in enumerate(domain.columns):
        value = exp.column(f"v{number}")
        typed.append(engine.typed(stored[column.name], column.sql_type).as_(f"v{number}"))
        if column.name not in used and not column.complete:
            continue
        if column.type == "category":
            declared: exp.Expression = exp.column(f"cell{number}")  # NULL if the join finds none.
            condition: exp.Condition = declared.copy().is_(exp.null()).not_()
            numbered.append(_numbered(value, column, number))
        else:
            condition = _inside(value, column)
            declared = exp.Case(
                ifs=[exp.If(this=condition.copy(), true=_cleaned(engine, value, column))]
            )
        if column.complete:
            inside.append(condition)
        if column.name in used:
            kept.append(declared.copy().as_(f"c{used.index(column.name)}"))
    if domain.unit is not None:
        typed.append(_text_or_integer(engine, domain.unit.column).as_("unit"))
        typed.append(_hash(engine, domain, domain.unit).as_("hash"))
        kept.append(exp.column("unit"))
        kept.append(_place(len(domain.columns)).as_("place"))
        if domain.unit.nulls == "drop":
            inside.append(exp.column("unit").is_(exp.null()).not_())
    records = exp.select(*typed).from_(engine.relation.copy()).subquery("typed")
    select = exp.select(*(kept or [exp.Literal.number(1).as_("one")])).from_(records)
    for values, equal in numbered:
        select = select.join(values, on=equal, join_type="left")
    return select.where(*inside) if inside else select


def _numbered(value: exp.Column, column: Column, number: int) -> tuple[exp.Expr, exp.Condition]:
    """Return the declared values with their cells, and when one is a record's."""
    cells = {each: cell for cell, each in enumerate(column.values)}  # None of them twice.
    rows = [
        exp.Tuple(expressions=[_literal(each), exp.Literal.number(cell)])
        for each, cell in cells.items()
    ]
    names = [exp.to_identifier(f"value{number}"), exp.to_identifier(f"cell{number}")]
    alias = exp.TableAlias(this=exp.to_identifier(f"w{number}"), columns=names)
    equal = exp.EQ(this=value.copy(), expression=exp.column(f"value{number}"))
    return exp.Values(expressions=rows, alias=alias), equal


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
    plain = [column.name for column in engine.columns if column.kind in PLAIN]
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


def _inside(value: exp.Column, column: Column) -> exp.Condition:
    """Return the condition that a value is declared; NULL or false when it is not."""
    match column.type:
        case "boolean":
            return value.copy().is_(exp.null()).not_()
        case _ if column.outside == "null":
            # NaN is above every number, so it is outside too.
            return exp.Between(this=value.copy(), low=_low(column), high=_high(column))
        case "real" | "decimal":
            # In every engine NaN equals itself and nothing else.
            return exp.NEQ(this=value.copy(), expression=_literal(math.nan))
        case _:
            return value.copy().is_(exp.null()).not_()


def _cleaned(engine: Engine, value: exp.Expression, column: Column) -> exp.Expression:
    """Return the declared value of a value that is declared; of numbers and times, its cell."""
    if column.type == "real":
        return _real_cell(value, column, 0, len(column.edges))
    cleaned = value.copy()
    if column.type in ORDERED and column.outside == "clamp":
        cleaned = (
            exp.Case()
            .when(exp.LT(this=value.copy(), expression=_low(column)), _low(column))
            .when(exp.GT(this=value.copy(), expression=_high(column)), _high(column))
            .else_(cleaned)
        )
    if column.type == "decimal":
        return _decimal_cell(cleaned, column)
    if column.type == "timestamp":
        return _timestamp_cell(engine, cleaned, column)
    if column.sql_type == "BIGINT":
        # In the domain, or at its end, so that it fits, in engines without TRY_CAST too.
        return exp.TryCast(this=cleaned, to=exp.DataType.build("BIGINT"))
    return cleaned


def _decimal_cell(value: exp.Expression, column: Column) -> exp.Expression:
    """Return the cell of the nearest number of the declared decimals, halves upwards.

    Floating-point numbers may round beyond an end, where a ramp would go on: the cell is held.
    """
    lowest, highest = column.ordinal_bounds
    if max(-lowest, highest) >= 2**62:  # Else the cast would fail on a record.
        raise SourceError(f"column {column.name!r} has ends beyond 64-bit integers")
    steps = exp.Mul(this=exp.paren(value), expression=_literal(float(10**column.decimals)))
    nearest = exp.Floor(this=exp.Add(this=steps, expression=_literal(0.5)))
    low = exp.paren(exp.Literal.number(lowest))
    cell = exp.Sub(this=exp.cast(nearest, "BIGINT"), expression=low)
    held = exp.Least(this=cell, expressions=[exp.Literal.number(highest - lowest)])
    return exp.Greatest(this=held, expressions=[exp.Literal.number(0)])


def _timestamp_cell(engine: Engine, value: exp.Expression, column: Column) -> exp.Expression:
    """Return the cell of a timestamp that is not before the first; so no division rounds up."""
    first = column.ordinal_bounds[0] * column.every * 10**6
    since = exp.Sub(this=engine.microseconds(value), expression=exp.paren(_literal(first)))
    step = exp.Literal.number(column.every * 10**6)
    return exp.cast(exp.IntDiv(this=exp.paren(since), expression=step), "BIGINT")


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
    if column.type == "timestamp":  # The last moment of the last step.
        step = timedelta(seconds=column.every)
        return _literal(column.time_bounds[1] + step - timedelta(microseconds=1))
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
        case datetime():
            return exp.cast(exp.Literal.string(value.isoformat(sep=" ")), "TIMESTAMP")
        case date():
            return exp.cast(exp.Literal.string(value.isoformat()), "DATE")
        case _:
            raise TypeError("a declared value is text, a number or a date")
