"""DuckDB: Parquet files, CSV files, and tables of a DuckDB database file.

The connection is locked down before the first look at the table: it can open no other
file, write none (not even temporary ones), load no extension and change no setting.

A CSV file has no types, and none are guessed from its records: every field is text, and
`data_vector` casts it to the declared type.  Its header is the catalogue, but is never
quoted in a message, since the first line of a file without a header is a record.

Guarantee  The connection reads this one table and nothing else, and leaves no trace of it.
Requires   The file is not changed while it is read.
Numerics   None.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import duckdb
from numpy.typing import NDArray
from sqlglot import exp

from sqlmadp.errors import SourceError
from sqlmadp.private.engines import Kind, SourceColumn

Result = TypeVar("Result")

_KINDS: dict[str, Kind] = {
    "BOOLEAN": "boolean",
    "TINYINT": "integer",
    "SMALLINT": "integer",
    "INTEGER": "integer",
    "BIGINT": "integer",
    "UTINYINT": "integer",
    "USMALLINT": "integer",
    "UINTEGER": "integer",
    "UBIGINT": "wide integer",
    "HUGEINT": "wide integer",
    "UHUGEINT": "wide integer",
    "FLOAT": "real",
    "DOUBLE": "real",
    "DECIMAL": "real",
    "VARCHAR": "text",
    "ENUM": "text",
    "DATE": "date",
}


class DuckDbTable:
    """One table behind a locked-down DuckDB connection."""

    collation = "binary"

    def __init__(
        self,
        location: str,
        connection: duckdb.DuckDBPyConnection,
        relation: exp.Expression,
        columns: Sequence[SourceColumn],
    ) -> None:
        self.location = location
        self._connection = connection
        self._relation = relation
        self._columns = tuple(columns)

    def catalogue(self) -> Sequence[SourceColumn]:
        """Return the columns of the table, known since it was opened."""
        return self._columns

    def relation(self) -> exp.Expression:
        """Return a fresh copy of what stands for the table in a FROM clause."""
        return self._relation.copy()

    def counts(self, select: exp.Select) -> Mapping[str, NDArray[Any]]:
        """Run ``select`` and return its columns by name; NULLs are masked.  Private."""
        columns: dict[str, NDArray[Any]] = self._connection.execute(
            select.sql("duckdb")
        ).fetchnumpy()
        return columns

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def open_parquet(location: str, path: Path) -> DuckDbTable:
    """Open a Parquet file; its own metadata is the catalogue."""
    relation = _table_function(
        "read_parquet",
        path,
        hive_partitioning=exp.false(),
        # Bytes that are no text become question marks; else one such record stops the read.
        utf8_validation=exp.Literal.string("replace"),
    )
    connection = _locked(":memory:", allowed=path)
    rows = _or_none(lambda: _describe(connection, relation))
    if rows is None:
        connection.close()
        raise SourceError(f"source {location!r} cannot be opened as a Parquet file; is it one?")
    return DuckDbTable(location, connection, relation, [_column(*row) for row in rows])


def open_csv(location: str, path: Path) -> DuckDbTable:
    """Open a CSV file: commas, double quotes, a header; lines that do not parse are skipped."""
    header = _or_none(lambda: _csv_header(path))
    if not header or len({name.casefold() for name in header}) < len(header) or "" in header:
        raise SourceError(
            f"source {location!r} has no usable header: the first line of a CSV file must name "
            "every column once, separated by commas"
        )
    text = exp.Literal.string("VARCHAR")
    relation = _table_function(
        "read_csv",
        path,
        auto_detect=exp.false(),
        header=exp.true(),
        delim=exp.Literal.string(","),
        quote=exp.Literal.string('"'),
        escape=exp.Literal.string('"'),
        strict_mode=exp.false(),
        ignore_errors=exp.true(),
        hive_partitioning=exp.false(),
        columns=exp.Struct(
            expressions=[
                exp.PropertyEQ(this=exp.to_identifier(name, quoted=True), expression=text.copy())
                for name in header
            ]
        ),
    )
    columns = [SourceColumn(name=name, kind="untyped text", native="text") for name in header]
    return DuckDbTable(location, _locked(":memory:", allowed=path), relation, columns)


def open_database(location: str, path: Path, table: str) -> DuckDbTable:
    """Open a table of a DuckDB database file, which is never written to.

    A view is refused: it may fail on some records, or change by more than one row when
    one record is added, and the promise is about the rows of what is counted.
    """
    connection = _or_none(lambda: _locked(str(path)))
    if connection is None:
        raise SourceError(
            f"source {location!r} cannot be opened as a DuckDB database; "
            "is it one, and is no other program writing to it?"
        )
    schema, _, name = table.rpartition(".")
    found = connection.execute(
        "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = "
        "current_database() AND lower(schema_name) = lower(?) AND lower(table_name) = lower(?)",
        [schema or "main", name],
    ).fetchall()
    if len(found) != 1:
        connection.close()
        raise SourceError(
            f"source {location!r} has no table {table!r} (a view will not do); "
            "name the table after '#', as in 'file.duckdb#table'"
        )
    relation = exp.table_(found[0][1], db=found[0][0], quoted=True)
    columns = [_column(*row) for row in _describe(connection, relation)]
    return DuckDbTable(location, connection, relation, columns)


def _locked(database: str, *, allowed: Path | None = None) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(
        database,
        read_only=allowed is None,
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_persistent_secrets": "false",
            "temp_directory": "",  # Nothing private is ever spilled to a disk.
        },
    )
    if allowed is not None:
        paths = exp.Array(expressions=[exp.Literal.string(str(allowed))])
        connection.execute(f"SET allowed_paths = {paths.sql('duckdb')}")
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def _table_function(name: str, path: Path, **options: exp.Expression) -> exp.Table:
    arguments = [
        exp.EQ(this=exp.to_identifier(option), expression=value)
        for option, value in options.items()
    ]
    call = exp.Anonymous(this=name, expressions=[exp.Literal.string(str(path)), *arguments])
    return exp.Table(this=call)


def _describe(
    connection: duckdb.DuckDBPyConnection, relation: exp.Expression
) -> list[tuple[str, str]]:
    select = exp.select("*").from_(relation.copy())
    rows = connection.execute(f"DESCRIBE {select.sql('duckdb')}").fetchall()
    return [(str(row[0]), str(row[1])) for row in rows]


def _column(name: str, stored_type: str) -> SourceColumn:
    native = stored_type if stored_type.endswith("]") else stored_type.partition("(")[0]
    return SourceColumn(name=name, kind=_KINDS.get(native, "other"), native=native)


def _csv_header(path: Path) -> list[str]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return next(csv.reader(file), [])


def _or_none(attempt: Callable[[], Result]) -> Result | None:
    """Return what ``attempt`` does, or None where it fails: its error may quote the file."""
    try:
        return attempt()
    except Exception:
        return None
