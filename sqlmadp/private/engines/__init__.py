"""The engines that hold the private table: a SELECT in, counts out.

An engine names the columns of one table and their types from the catalogue alone, says how
each is brought into a declared type, and runs one SELECT that `counting` built from the
schema.  No statement of an analyst ever reaches it.

    people.parquet  data/*.parquet  data/  people.csv  people.duckdb#table     DuckDB
    postgresql://host:port/database#schema.table                               PostgreSQL
    spark://host:port#...  local[*]#...  spark://#...                         Spark
                      (after '#' a table, or Parquet files; the last: the active session)

Guarantee  `open_engine` and `Engine.catalogue` read no record; their messages depend on the
           source's name and catalogue only, and hold no user, password or option of a URL.
Requires   The source is one table; a record is one row of it.
Numerics   None: counts come back as 64-bit integers.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from numpy.typing import NDArray
from sqlglot import exp

from sqlmadp.errors import SourceError
from sqlmadp.private.engines.identity import Identity
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


class Engine(ABC):
    """One private table that can be counted."""

    numbers_values: ClassVar[bool] = False
    """Whether a category's values are numbered, by a join, before they are counted.  It was
    measured to be faster with DuckDB and slower with PostgreSQL."""

    def __init__(
        self,
        location: str,
        identity: Identity,
        relation: exp.Expression,
        columns: Sequence[SourceColumn],
    ) -> None:
        self.location = location
        """The source for messages."""
        self.identity = identity
        """What the table is, and what it shares records with, however it is spelled."""
        self._relation = relation
        self._columns = tuple(columns)

    def catalogue(self) -> Sequence[SourceColumn]:
        """Return the columns of the table, known since it was opened; no record is read."""
        return self._columns

    def relation(self) -> exp.Expression:
        """Return a fresh copy of what stands for the table in a FROM clause."""
        return self._relation.copy()

    @abstractmethod
    def typed(self, column: SourceColumn, sql_type: str) -> exp.Expression:
        """Return a column's value in a type to compare as ``sql_type``, NULL if it is none.

        It never raises on a record.  Text is compared by its bytes, and a real is the 64-bit
        floating-point number nearest to what is stored.
        """

    def days(self, day: exp.Expression, since: exp.Expression) -> exp.Expression:
        """Return how many days after ``since`` a date is."""
        return exp.Sub(this=day, expression=since)

    def wide(self, whole: exp.Expression) -> exp.Expression:
        """Return a 64-bit integer as one of at least 126 bits."""
        return exp.cast(whole, "INT128")

    def summed(self, whole: exp.Expression) -> exp.Expression:
        """Return the sum of 64-bit integers, in integers of at least 126 bits."""
        return exp.Sum(this=whole)

    @abstractmethod
    def counts(self, select: exp.Select) -> Mapping[str, NDArray[Any]]:
        """Run ``select`` and return its columns by name; NULLs are masked.  Private."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the table."""


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
