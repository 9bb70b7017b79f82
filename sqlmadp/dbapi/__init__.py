"""PEP 249: a connection that behaves like a database's, for one analyst of one plan.

Here are the types and constructors that the standard asks for.

The type code of a result column is the name of its DuckDB type, so nothing is lost; it is
equal to the one type object that PEP 249 asks for:

    cursor.description[1][1] == "BIGINT"
    cursor.description[1][1] == sqlmadp.NUMBER
"""

from __future__ import annotations

import datetime
import time

apilevel = "2.0"
threadsafety = 2
"""Threads may share the module and connections; a cursor belongs to one thread at a time."""
paramstyle = "qmark"
"""``?`` with a sequence; ``$name`` with a mapping is understood too."""

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> datetime.date:  # noqa: N802 - The names are PEP 249's.
    """Return the local date of a number of seconds since 1970."""
    return datetime.date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> datetime.time:  # noqa: N802
    """Return the local time of day of a number of seconds since 1970."""
    return datetime.time(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime.datetime:  # noqa: N802
    """Return the local date and time of a number of seconds since 1970."""
    return datetime.datetime(*time.localtime(ticks)[:6])


class TypeObject:
    """Equal to the name of every DuckDB type of one kind."""

    def __init__(self, name: str, *types: str) -> None:
        self._name, self._types = name, frozenset(types)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return other.partition("(")[0] in self._types
        return self is other if isinstance(other, TypeObject) else NotImplemented

    # Equal to several names that differ, so no hash could agree with all of them.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"sqlmadp.{self._name}"


STRING = TypeObject("STRING", "VARCHAR", "UUID", "ENUM", "JSON", "BIT")
BINARY = TypeObject("BINARY", "BLOB")
NUMBER = TypeObject(
    "NUMBER",
    "BOOLEAN",
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "BIGNUM"),
    *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"),
    *("FLOAT", "DOUBLE", "DECIMAL"),
)
DATETIME = TypeObject(
    "DATETIME",
    *("DATE", "TIME", "TIME_NS", "TIME WITH TIME ZONE", "INTERVAL"),
    *("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE"),
)
ROWID = TypeObject("ROWID")
"""No column has this type: there are no records to number."""
