"""Reads and checks a schema file: the declaration of a domain.

    table = "people"                   # the private table that statements may name
    neighbours = "add_remove"          # (default) or "replace": what the promise compares

    [columns.age]                      # one table per column, in the order of the cells
    type    = "integer"                # one cell per integer from min to max
    min     = 0
    max     = 99
    outside = "clamp"                  # a value outside: "null" (default), or to the nearest end

    [columns.sex]
    type     = "category"              # one cell per value
    values   = ["female", "male"]      # all text or all integers, without duplicates
    nullable = true                    # NULL is a value too: GROUP BY shows it; false by default

    [columns.insured]
    type     = "boolean"
    complete = true                    # a promise: no NULL, nothing undeclared; false by default

    [columns.born]
    type = "date"                      # one cell per day
    min  = 1900-01-01                  # or text: "1900-01-01"
    max  = 2024-12-31

    [columns.arrived]
    type  = "timestamp"
    every = "hour"                     # one cell per hour; or "minute" or "second"
    min   = 2024-01-01                 # or a moment: 2024-01-01T08:00:00
    max   = 2024-12-31                 # of a date, all of the day

    [columns.income]
    type = "real"                      # cells are cut out by the queries' own constants
    min  = 0
    max  = 1e6

    [columns.price]
    type     = "real"
    decimals = 2                       # read to two decimals: one cell per cent
    min      = 0
    max      = 999.99

    [unit]                             # who is protected; every record by itself if left out
    column      = "person_id"          # whose a record is; need not be declared
    max_records = 3                    # count at most this many records per unit
    key         = "visit_id"           # what distinguishes them, a column or a list of columns
    nulls       = "drop"               # records without a unit: "drop" (default), or "own" units

    [public.regions]                   # a public table, which statements may join
    columns = ["state", "region"]      # (see ``files.public_tables``)
    rows    = [["CA", "West"], ["NY", "East"]]

An undeclared value is read as NULL: conditions on it are unknown, aggregates of the column pass
over it, COUNT(*) counts the record, and a statement that does not use the column does not see it.
A column that is complete has no cell for NULL, which makes answers a little more accurate; a
record that breaks the promise is counted nowhere.

``outside = "clamp"`` needs an order: integer, date or real.  Every mistake of a file is
reported at once, each with its key, its line and what is allowed there.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any, TypeVar

from sqlmadp.errors import SchemaError
from sqlmadp.files import LARGEST_COLUMN, LARGEST_STEP, MOST_DECIMALS, MOST_RECORDS
from sqlmadp.files.public_tables import read_public
from sqlmadp.files.toml import Table, TomlFile, dotted, is_name, show, suggest
from sqlmadp.table.domain import ORDERED, Column, ColumnType, Domain, Neighbours, Outside, Unit

SECONDS = {"hour": 3600, "minute": 60, "second": 1}
"""How finely a timestamp column may be read."""

_TYPES: tuple[ColumnType, ...] = ("category", "boolean", "integer", "date", "timestamp", "real")
_KEYS = ("type", "nullable", "complete", "outside")

Bound = TypeVar("Bound", int, date, datetime, float)


def read_schema(path: str | Path) -> Domain:
    """Return the domain that the file at ``path`` declares; SchemaError lists its mistakes."""
    file = TomlFile(Path(path), SchemaError)
    hint = "Name the schema: the file that the plan's schema names."
    file.refuse_other("a plan, not a schema", ("schema", "analysts"), hint)
    file.root.only(("table", "neighbours", "unit", "columns", "public"), "a schema")
    table = file.root.text("table", 'the name of the private table, such as "people"')
    columns = _columns(file.root)
    unit, neighbours = read_unit(file.root), read_neighbours(file.root)
    public = read_public(file.root, Path(path).parent, table)
    file.finish()
    return Domain(
        table=table or "",
        columns=tuple(columns),
        unit=unit,
        neighbours=neighbours,
        public=public,
    )


def _columns(root: Table) -> list[Column]:
    declared = root.table("columns", "a table per column, such as [columns.age]")
    if declared is None:
        return []
    if not declared.values:
        root.report(
            "columns",
            "is empty; write a table per column, such as [columns.age]",
            code="no-columns",
        )
    names: dict[str, str] = {}
    columns = []
    for name in declared.values:
        if not is_name(name):
            message = "cannot be used; write a name that is not blank, without control characters"
            declared.report(name, message, code="bad-name")
        first = names.setdefault(name.casefold(), name)
        if first != name:
            declared.report(
                name,
                f"has the name of {dotted(('columns', first))} but for case; "
                "write names that differ otherwise, since SQL takes these for the same",
                code="duplicate-column",
            )
        table = declared.table(name, 'a table with a type, such as { type = "boolean" }')
        if table is not None and (column := _column(name, table)) is not None:
            columns.append(column)
    return columns


def _column(name: str, table: Table) -> Column | None:
    """Return one column; None when its type is unknown.  What it reports is raised later."""
    kind = _type(table)
    nullable, complete = _flag("nullable", table), _flag("complete", table)
    if nullable and complete:
        table.report(
            "complete",
            "is true, and so is nullable; remove one of the two, since a complete column has no "
            "NULL",
            code="nullable-and-complete",
        )
    outside = _outside(kind, table)
    if kind is None:
        table.only((*_KEYS, "values", "min", "max", "decimals", "every"), "a column")
        return None
    own: tuple[str, ...] = ("min", "max") if kind in ORDERED else ()
    more = {"real": ("decimals",), "timestamp": ("every",)}
    own = ("values",) if kind == "category" else (*own, *more.get(kind, ()))
    table.only((*_KEYS, *own), f"a column of type {kind}")
    column = Column(name=name, type=kind, nullable=nullable, complete=complete, outside=outside)
    low: int | date | float | None
    high: int | date | float | None
    match kind:
        case "category":
            return replace(column, values=_values(table))
        case "boolean":
            return column
        case "integer":
            low, high = _integer_bounds(table)
        case "date":
            low, high = _bounds(table, _date, "a date without a time, such as 2020-01-31")
        case "timestamp":
            every = _every(table)
            column = replace(column, every=every)
            low, high = _time_bounds(table, every)
        case "real":
            low, high = _bounds(table, _real, "a finite number")
            if "decimals" in table.values:
                column = replace(column, type="decimal", decimals=_decimals(table, low, high))
    return replace(column, minimum=low, maximum=high)


def _every(table: Table) -> int:
    """Return the seconds of one step of a timestamp column."""
    given = table.values.get("every")
    if not isinstance(given, str) or given not in SECONDS:
        table.refuse("every", '"hour", "minute" or "second"')
        return SECONDS["hour"]
    return SECONDS[given]


def _time_bounds(table: Table, every: int) -> tuple[datetime | None, datetime | None]:
    """Return the first and the last step of a timestamp column; of a date, all steps of the day."""
    low, high = _bounds(table, _moment, "a date or a moment, such as 2020-01-31T08:00:00")
    if high is not None and _date(table.values.get("max")) is not None:
        high += timedelta(days=1) - timedelta(seconds=every)
    for key, end in (("min", low), ("max", high)):
        if end is not None and (end - datetime(1970, 1, 1)) % timedelta(seconds=every):
            table.refuse(key, f"a moment at which {table.values['every']}s begin")
    if low is not None and high is not None:
        values = (high - low) // timedelta(seconds=every) + 1
        if values > LARGEST_COLUMN:
            table.report(
                "every",
                f"is {show(table.values.get('every'))}, which makes {values} values from min to "
                f"max; allowed: at most {LARGEST_COLUMN} values in a column of timestamps",
                code="too-many-values",
                hint="Declare longer steps or nearer ends.",
            )
    return low, high


def _decimals(table: Table, low: float | None, high: float | None) -> int:
    """Return the digits after the point that a real column is read to."""
    given = _integer(table.values["decimals"])
    if given is None or not 0 <= given <= MOST_DECIMALS:
        table.refuse("decimals", f"an integer from 0 to {MOST_DECIMALS}")
        return 0
    for key, end in (("min", low), ("max", high)):
        if end is not None and abs(end) >= LARGEST_STEP / 10**given:
            table.refuse(key, f"a number that is exact to {given} decimals, nearer to 0")
        elif end is not None and end != round(end, given):
            table.refuse(key, f"a number of at most {given} decimals, as the column declares")
    if low is not None and high is not None and (high - low) * 10**given >= LARGEST_COLUMN:
        table.report(
            "decimals",
            f"is {given}, which makes {(high - low) * 10**given + 1:.0f} values from min to max; "
            f"at most {LARGEST_COLUMN} are possible in a column with decimals",
            code="too-many-values",
            hint="Declare fewer decimals or nearer ends; without decimals only the constants that "
            "queries name are distinguished.",
        )
    return given


def _type(table: Table) -> ColumnType | None:
    given = table.values.get("type")
    if given in _TYPES:
        return given
    hint = suggest(given, _TYPES) if isinstance(given, str) else ""
    table.refuse("type", ", ".join(show(kind) for kind in _TYPES), hint=hint)
    return None


def _flag(key: str, table: Table) -> bool:
    given = table.values.get(key, False)
    if isinstance(given, bool):
        return given
    table.refuse(key, "true or false")
    return False


def _outside(kind: ColumnType | None, table: Table) -> Outside:
    outside = table.values.get("outside", "null")
    if outside not in ("null", "clamp"):
        hint = "Records are no longer left out: a value outside is read as NULL."
        table.refuse("outside", '"null" or "clamp"', hint=hint if outside == "drop" else "")
    elif outside == "clamp" and kind is not None and kind not in ORDERED:
        table.refuse("outside", f'"null", because a column of type {kind} has no order')
    return "clamp" if outside == "clamp" else "null"


def _values(table: Table) -> tuple[str, ...] | tuple[int, ...]:
    given = table.values.get("values")
    if not isinstance(given, list) or not given:
        table.refuse("values", "a list of at least one value, all text or all integers")
        return ()
    sound = True
    for place, value in enumerate(given, start=1):
        if not isinstance(value, str) and _integer(value) is None:
            sound = False
            message = f"has {show(value)} as value {place}; write text or an integer of 64 bits"
            table.report("values", message, code="bad-value")
    if not sound:
        return ()
    if len({type(value) for value in given}) > 1:
        message = "mixes text and integers; write all text or all integers"
        table.report("values", message, code="mixed-values")
    for value, times in Counter(given).items():
        if times > 1:
            message = f"has {show(value)} {times} times; write each value once"
            table.report("values", message, code="duplicate-value")
    return tuple(given)


def _bounds(
    table: Table, read: Callable[[object], Bound | None], allowed: str
) -> tuple[Bound | None, Bound | None]:
    """Return the bounds of an ordered column; None where a mistake was reported."""
    low, high = read(table.values.get("min")), read(table.values.get("max"))
    if low is None:
        table.refuse("min", allowed)
    if high is None:
        table.refuse("max", allowed)
    if low is not None and high is not None and low > high:
        message = f"is {show(low)}, above max, which is {show(high)}; write at most max"
        table.report("min", message, code="empty-range")
    return low, high


def _integer_bounds(table: Table) -> tuple[int | None, int | None]:
    """Return the bounds of an integer column, whose size (unlike a date's) needs a limit."""
    low, high = _bounds(table, _integer, "an integer of 64 bits")
    if low is not None and high is not None and high - low >= LARGEST_COLUMN:
        table.report(
            "max",
            f"is {high}, which makes {high - low + 1} values from min on; "
            f"at most {LARGEST_COLUMN} are possible in an integer column",
            code="too-many-values",
            hint='Declare it as type = "real", which keeps only the constants that queries name.',
        )
    return low, high


def _integer(value: object) -> int | None:
    """Return ``value`` if it is an integer that fits DuckDB's BIGINT."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if -(2**63) <= value < 2**63 else None


def _date(value: object) -> date | None:
    """Return ``value`` if it is a day, as TOML or ISO 8601 text writes one."""
    if isinstance(value, str):
        try:
            return date.fromisoformat(value)
        except ValueError:
            return None
    return value if isinstance(value, date) and not isinstance(value, datetime) else None


def _moment(value: object) -> datetime | None:
    """Return ``value`` if it is a local time or a day, whose first moment it then is."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, datetime):
        return value if value.tzinfo is None else None
    return datetime.combine(value, time()) if isinstance(value, date) else None


def _real(value: object) -> float | None:
    """Return ``value`` as a finite number that fits DuckDB's DOUBLE."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # An integer beyond the largest DOUBLE.
        return None


def read_neighbours(root: Table) -> Neighbours:
    """Return which tables are neighbours; what is wrong is reported."""
    given = root.values.get("neighbours", "add_remove")
    if given not in ("add_remove", "replace"):
        root.refuse("neighbours", '"add_remove" or "replace"')
    return "replace" if given == "replace" else "add_remove"


def read_unit(root: Table) -> Unit | None:
    """Return the privacy unit, or None if the file declares none; what is wrong is reported."""
    if "unit" not in root.values:
        return None
    table = root.table("unit", "a table with column and max_records, [unit]")
    if table is None:
        return None
    table.only(("column", "max_records", "key", "nulls"), "a unit")
    column = table.text("column", 'the column that says whose a record is, such as "person_id"')
    most = table.values.get("max_records")
    if isinstance(most, bool) or not isinstance(most, int) or not 0 < most <= MOST_RECORDS:
        table.refuse("max_records", f"a whole number from 1 to {MOST_RECORDS:,}")
        most = 1
    nulls = table.values.get("nulls", "drop")
    if nulls not in ("drop", "own"):
        table.refuse("nulls", '"drop" or "own"')
    return Unit(
        column=column or "",
        max_records=most,
        nulls="own" if nulls == "own" else "drop",
        key=_key(table),
    )


def _key(table: Table) -> tuple[str, ...]:
    given: Any = table.values.get("key", [])
    names = given if isinstance(given, list) else [given]
    if not all(isinstance(name, str) and is_name(name) for name in names):
        table.refuse("key", 'a column or a list of columns, such as "visit_id"')
        return ()
    return tuple(names)
