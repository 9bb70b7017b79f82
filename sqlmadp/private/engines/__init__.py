"""The engines that hold the private table: a SELECT in, counts out.

An engine names the columns of one table and their types from the catalogue alone, and
runs one SELECT that `data_vector` built from the schema.  No statement of an analyst
ever reaches it.

Guarantee  `open_engine` and `Engine.catalogue` read no record; their messages depend on
           the source's name and catalogue only.
Requires   The source is one table; a record is one row of it.
Numerics   None: counts come back as 64-bit integers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from numpy.typing import NDArray
from sqlglot import exp

from sqlmadp.errors import SourceError

Kind = Literal[
    "boolean", "integer", "wide integer", "real", "text", "date", "untyped text", "other"
]
"""What a stored type can be cast to; "wide integer" may not fit 64 signed bits, and "untyped
text" (CSV) may hold a value of any type."""


@dataclass(frozen=True, kw_only=True)
class SourceColumn:
    """One column of the source, as its catalogue describes it."""

    name: str
    kind: Kind
    native: str
    """The engine's own name of the type, for messages."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where the private table is, as the plan says it."""

    location: str
    """``file.parquet``, ``file.csv``, ``file.duckdb`` or ``file.duckdb#table``."""
    folder: Path
    """The plan's folder, which a relative location starts from."""


class Engine(Protocol):
    """One private table that can be counted."""

    location: str
    """The source as the plan spells it, for messages."""
    collation: str
    """The engine's collation under which only equal text is equal."""

    def catalogue(self) -> Sequence[SourceColumn]:
        """Return the columns of the table without reading a record."""

    def relation(self) -> exp.Expression:
        """Return what stands for the table in a FROM clause."""

    def counts(self, select: exp.Select) -> Mapping[str, NDArray[Any]]:
        """Run ``select`` and return its columns by name; NULLs are masked.  Private."""

    def close(self) -> None:
        """Let go of the table."""


def open_engine(source: Source, *, table: str) -> Engine:
    """Return the engine of ``source``; ``table`` is meant where the source names none."""
    location, _, fragment = source.location.partition("#")
    if "://" in location:
        raise SourceError(f"source {source.location!r} is a kind of database that is not supported")
    path = source.folder / location
    suffix = path.suffix.lower()
    if suffix not in {".parquet", ".csv", ".duckdb", ".db"}:
        raise SourceError(
            f"source {source.location!r} is of an unknown kind; "
            "use a .parquet, .csv or .duckdb file (a table of the last is named after '#')"
        )
    if fragment and suffix in {".parquet", ".csv"}:
        raise SourceError(
            f"source {source.location!r} names a table after '#', "
            f"but a {suffix} file is one table; leave the '#' and what follows away"
        )
    if not path.is_file():
        raise SourceError(
            f"source {source.location!r} does not exist: there is no file {str(path)!r}; "
            "correct 'source' in the plan (it starts from the plan's folder)"
        )
    if suffix in {".parquet", ".csv"} and set(str(path.resolve())) & set("*?["):
        raise SourceError(
            f"source {source.location!r} has one of * ? [ in its path, which DuckDB would take "
            "for a pattern of many files; rename it"
        )
    # DuckDB is loaded only when a table is opened: it is slow to load and not always needed.
    from sqlmadp.private.engines import duckdb  # noqa: PLC0415

    match suffix:
        case ".parquet":
            return duckdb.open_parquet(source.location, path.resolve())
        case ".csv":
            return duckdb.open_csv(source.location, path.resolve())
        case _:
            return duckdb.open_database(source.location, path.resolve(), fragment or table)
