"""The engines that hold the private table: a SELECT in, counts out.

An engine names the columns of one table and their types from the catalogue alone, says how
each is brought into a declared type, and runs one SELECT that `counting` built from the
schema.  No statement of an analyst ever reaches it.

    people.parquet  data/*.parquet  data/  people.csv  people.duckdb#table     DuckDB
    postgresql://host:port/database#schema.table                               PostgreSQL
    spark://host:port#...  local[*]#...  spark://#...                         Spark
                      (after '#' a table, or Parquet files; the last: the active session)

Guarantee  `open_engine` reads no record; its messages depend on the source's name and catalogue
           only, and hold no user, password or option of a URL.
Requires   The source is one table; a record is one row of it.
Numerics   None: counts come back as 64-bit integers.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from numpy.typing import NDArray
from sqlglot import exp

from sqlmadp.errors import SourceError
from sqlmadp.table.csv_format import CsvFormat

Kind = Literal[
    "boolean",
    "integer",
    "wide integer",
    "real",
    "text",
    "date",
    "timestamp",
    "untyped text",
    "other",
]
"""What a stored type can be cast to; "wide integer" may not fit 64 signed bits, a "timestamp" is
read as its day, and "untyped text" (CSV, folders' names) may hold a value of any type."""

PLAIN: frozenset[Kind] = frozenset(
    {"boolean", "integer", "wide integer", "text", "date", "untyped text"}
)
"""Kinds whose text is the same in every engine: what a unit or its key may be."""

_TYPES: dict[Kind, str] = {
    "boolean": "boolean bool",
    "integer": "tinyint smallint integer int bigint utinyint usmallint uinteger int2 int4 int8 "
    "byte short long",
    "wide integer": "ubigint hugeint uhugeint",
    "real": "float double decimal float4 float8 numeric",
    "text": "varchar enum uuid text bpchar citext name string",
    "date": "date",
    # In seconds or milliseconds a record can be too large to be cast, and then fails.
    "timestamp": "timestamp timestamp_ns timestamptz",
}
_KINDS = {name: kind for kind, names in _TYPES.items() for name in names.split()}

Result = TypeVar("Result")

_URL = re.compile(
    r"(?P<scheme>[a-z]+)://([^@/?#;]*@)?(?P<host>[\w.:,\[\]%-]*)(?P<path>/[^?#@:;]*)?"
    r"([?;/][^#]*)?(?P<table>#[^@]*)?"
)


@dataclass(frozen=True, kw_only=True)
class Constraints:
    """What the catalogue says of the values of a column, and the database enforces."""

    null: bool | None = None
    """Whether it may be NULL; None where the catalogue does not tell."""
    values: tuple[str, ...] | None = None
    """The values of an ENUM."""
    checks: tuple[str, ...] = ()
    """The CHECK expressions of the whole table, as the engine writes them."""
    dialect: str = ""
    """sqlglot's name of the SQL that they are written in."""
    references: str = ""
    """The table that a foreign key refers to."""


@dataclass(frozen=True, kw_only=True)
class SourceColumn:
    """One column of the source, as its catalogue describes it."""

    name: str
    kind: Kind
    native: str
    """The engine's own name of the type, for messages."""
    constraints: Constraints = Constraints()


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where the private table is, as the plan says it."""

    location: str = field(repr=False)
    """As in the header above; a URL may hold a password, so it is shown as `shown` only."""
    folder: Path
    """The plan's folder, which a relative location starts from."""
    memory: int | None = None
    """Megabytes that counting may take in this process or its Spark; None: the engine's own."""
    csv: CsvFormat = CsvFormat()  # noqa: RUF009 - It never changes.
    """How it is written, if it is a CSV file."""

    @property
    def shown(self) -> str:
        """Return the location for messages: a URL without its user, password and options."""
        scheme, separator, _ = self.location.partition("://")
        if not separator:
            return self.location
        parts = _URL.fullmatch(self.location)
        if parts is None:
            return f"{scheme if scheme.isalpha() else ''}://..."
        host, path, table = (parts[name] or "" for name in ("host", "path", "table"))
        return f"{scheme}://{host}{path}{table}"


@dataclass(frozen=True, kw_only=True)
class Identity:
    """The names by which a table is known, however it is spelled (see `files` and `postgres`)."""

    table: str
    """The table itself, the same for every spelling of its location, as far as is known."""
    apart: tuple[str, ...] = ()
    """Files of the table that its own name does not cover."""
    related: tuple[str, ...] = ()
    """What the table is part of, and what is part of it."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return all that a charge of the table is noted for."""
        return (self.table, *self.apart)


@dataclass(frozen=True, eq=False, kw_only=True)
class Engine(ABC):
    """One private table that can be counted."""

    location: str
    """The source for messages."""
    identity: Identity
    relation: exp.Expression
    """The table as part of a FROM clause; copy it."""
    columns: tuple[SourceColumn, ...]
    """From the catalogue, when the table was opened; no record is read."""
    close: Callable[[], object]
    """Let go of the table."""

    @abstractmethod
    def typed(self, column: SourceColumn, sql_type: str) -> exp.Expression:
        """Return a column's value in a type to compare as ``sql_type``, NULL if it is none.

        It never raises on a record.  Text is compared by its bytes, and a real is the 64-bit
        floating-point number nearest to what is stored.
        """

    def days(self, day: exp.Expression, since: exp.Expression) -> exp.Expression:
        """Return how many days after ``since`` a date is."""
        return exp.Sub(this=day, expression=since)

    def microseconds(self, moment: exp.Expression) -> exp.Expression:
        """Return how many microseconds after 1970 a timestamp is."""
        return exp.Anonymous(this="EPOCH_US", expressions=[moment])

    def wide(self, whole: exp.Expression) -> exp.Expression:
        """Return a 64-bit integer as one of at least 126 bits."""
        return exp.cast(whole, "INT128")

    @abstractmethod
    def counts(self, select: exp.Select) -> Mapping[str, NDArray[Any]]:
        """Run ``select`` and return its columns by name; NULLs are masked.  Private."""


def kind_of(stored: str, native: str = "") -> Kind:
    """Return the kind of a stored type, whose name with its digits is ``native``."""
    base = re.split(r"[( ]", stored.lower(), maxsplit=1)[0]
    if base in ("decimal", "numeric") and (native or stored).endswith(",0)"):
        return "wide integer"
    return "other" if stored.endswith("]") else _KINDS.get(base, "other")


def quietly(attempt: Callable[[], Result], wrong: str) -> Result:
    """Return the result of an attempt; if it fails, SourceError says ``wrong`` and no more.

    What an engine says may quote a record or a password, so its error is not chained either.
    """
    try:
        return attempt()
    except SourceError:
        raise
    except Exception:
        pass
    raise SourceError(f"{wrong}. Nothing was read or spent; the same command can be run again")


def no_table(shown: str, table: str) -> str:
    """Return the refusal of a source that lacks a table."""
    return (
        f"source {shown!r} has no table {table!r}, or this role does not see it. Name a table "
        "after '#', as in 'file.duckdb#table' or 'postgresql://host/db#schema.table'; a view is "
        "refused: store it as a table"
    )


def open_engine(source: Source, *, table: str) -> Engine:
    """Return the engine of ``source``; ``table`` is meant where the source names none."""
    location, _, fragment = source.location.partition("#")
    # Each engine is loaded only when a table is opened: all are slow to load, two are extras.
    if location.startswith(("postgresql://", "postgres://")):
        from sqlmadp.private.engines import postgres  # noqa: PLC0415

        return postgres.open_table(source, location, fragment or table)
    if location.startswith("spark://") or re.fullmatch(r"local(\[.*\])?", location):
        from sqlmadp.private.engines import spark  # noqa: PLC0415

        return spark.open_table(source, location, fragment or table)
    if "://" in location:
        raise SourceError(
            f"source {source.shown!r} is a kind of database that is not supported; use a file, "
            "postgresql://... or spark://..."
        )
    from sqlmadp.private.engines import duckdb  # noqa: PLC0415

    return duckdb.open_file(source, location, fragment, table)
