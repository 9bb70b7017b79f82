"""What a curator lets be read without noise: tables declared public, and values for a draft.

A schema may mark another table of the private table's database as public, a lookup of states and
regions, say.  And ``schema draft --trusted-values`` shows a curator what a column holds, to write
a schema from; a curator who does that has looked at the table, and PROOF.md does not cover it.

Guarantee  `read_public` reads only the table that it is given, never the private one, which
           it refuses by name.  Nothing but the two commands above calls `read_values`.
Requires   What is called public is public.
Numerics   None.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sqlmadp.errors import SourceError
from sqlmadp.private.engines import Engine, Kind, Source, SourceColumn, open_engine
from sqlmadp.table.domain import PublicTable, Value

MOST_ROWS = 1_000_000
MOST_VALUES = 200
"""The most values of a column that a draft lists."""

SQL_TYPES: dict[Kind, str] = {
    "boolean": "BOOLEAN",
    "integer": "BIGINT",
    "wide integer": "DOUBLE",
    "real": "DOUBLE",
    "text": "VARCHAR",
    "untyped text": "VARCHAR",
    "date": "DATE",
    "timestamp": "DATE",
}
"""The type that statements see for a stored one."""
_ENDS = {"DOUBLE": ("-1.7e308", "1.7e308"), "DATE": ("0001-01-01", "9999-12-31")}
"""Values that a schema can declare; infinities are none."""


@dataclass(frozen=True)
class Values:
    """What a column holds, without noise."""

    distinct: tuple[Value, ...]
    """All values in order; none if there are more than `MOST_VALUES`."""
    low: Value
    high: Value
    nulls: bool
    """Whether some record lacks it, or holds what is of another type."""


def read_public(table: PublicTable, source: Source, private: str) -> PublicTable:
    """Return a public table with its rows, read from the private table's own database."""
    place, _, fragment = source.location.partition("#")
    name = table.table or ""
    taken = {(fragment or private).rpartition(".")[2].casefold(), private.casefold()}
    if name.rpartition(".")[2].casefold() in taken:
        raise SourceError(f"public table {table.name!r} is the private table itself; name another")
    if place.lower().endswith((".parquet", ".csv")) or re.search(r"/|\.parquet$", name, re.I):
        raise SourceError(
            f"public table {table.name!r} cannot be read from the source, which holds no other "
            "table; write its rows into the schema, or name a file there"
        )
    engine = open_engine(replace(source, location=f"{place}#{name}"), table=name)
    try:
        columns = [column for column in engine.columns if column.kind in SQL_TYPES]
        rows = _or_none(engine, columns)
    finally:
        engine.close()
    if rows is None or len(rows) > MOST_ROWS:
        raise SourceError(
            f"public table {table.name!r} could not be read from the source, or has more than "
            f"{MOST_ROWS:,} rows"
        )
    types = tuple((column.name, SQL_TYPES[column.kind]) for column in columns)
    return replace(table, columns=types, rows=tuple(sorted(rows, key=repr)))


def read_values(engine: Engine, column: SourceColumn) -> Values:
    """Return the values of a column, for a curator who asked to see them."""
    value = engine.typed(column, SQL_TYPES[column.kind])
    inner = exp.select(value.as_("v")).from_(engine.relation.copy()).subquery("typed")
    known: exp.Condition = exp.column("v").is_(exp.null()).not_()
    if (sql_type := SQL_TYPES[column.kind]) in _ENDS:
        low, high = (exp.cast(exp.Literal.string(end), sql_type) for end in _ENDS[sql_type])
        known = exp.Between(this=exp.column("v"), low=low, high=high)
    present = exp.select("v").from_(inner).where(known)
    few = present.copy().distinct().limit(MOST_VALUES + 1)
    values = [value for value in _column(engine.counts(few)["v"]) if value is not None]
    distinct = tuple(sorted(values)) if len(values) <= MOST_VALUES else ()
    lacking = exp.select("v").from_(inner.copy()).where(exp.column("v").is_(exp.null())).limit(1)
    nulls = len(engine.counts(lacking)["v"]) > 0
    if column.kind in {"boolean", "text", "untyped text"}:
        return Values(distinct, None, None, nulls)
    ends_of = exp.select(exp.Min(this=exp.column("v")).as_("low")).select(
        exp.Max(this=exp.column("v")).as_("high")
    )
    found = engine.counts(ends_of.from_(present.subquery("present")))
    return Values(distinct, _column(found["low"])[0], _column(found["high"])[0], nulls)


def kind_of_text(engine: Engine, column: SourceColumn) -> Kind:
    """Return the kind that all values of a column fit, where the source stores no types."""
    if column.kind != "untyped text":
        return column.kind
    kinds: tuple[Kind, ...] = ("integer", "real", "date", "boolean", "text")
    inner = exp.select(*(engine.typed(column, SQL_TYPES[kind]).as_(kind) for kind in kinds))
    # Casting 1.5 to an integer rounds it.
    whole = exp.EQ(this=exp.cast(exp.column("integer"), "DOUBLE"), expression=exp.column("real"))
    fits = {kind: exp.Count(this=exp.column(kind)) for kind in kinds}
    fits["integer"] = exp.Count(this=exp.Case().when(whole, exp.Literal.number(1)))
    found = engine.counts(
        exp.select(*(count.as_(kind) for kind, count in fits.items())).from_(
            inner.from_(engine.relation.copy()).subquery("typed")
        )
    )
    return next(kind for kind in kinds if found[kind][0] == found["text"][0])


def _or_none(engine: Engine, columns: list[SourceColumn]) -> list[tuple[Value, ...]] | None:
    select = exp.select(
        *(
            engine.typed(column, SQL_TYPES[column.kind]).as_(f"c{number}")
            for number, column in enumerate(columns)
        )
    )
    try:
        found = engine.counts(select.from_(engine.relation.copy()).limit(MOST_ROWS + 1))
        values = [_column(found[f"c{number}"]) for number in range(len(columns))]
    except Exception:
        return None
    return list(zip(*values, strict=True))


def _column(values: NDArray[Any]) -> list[Any]:
    """Return a result column as plain values, None for NULL."""
    null, data = np.ma.getmaskarray(values), np.ma.getdata(values)
    if data.dtype.kind == "M":
        data = data.astype("datetime64[D]")
    return [None if gone else each for gone, each in zip(null, data.tolist(), strict=True)]
