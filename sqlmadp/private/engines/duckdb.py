"""DuckDB: Parquet files, CSV files, and tables of a DuckDB database file.

The connection is locked down before the first look at the table: it can open no other
file, write none (not even temporary ones), load no extension and change no setting.

Parquet files that make up one table must have the same columns, of the same types: a value
of one file is never cast to the type of another's, since that could fail.

A CSV file has no types, and none are guessed from its records: every field is text, and
`counting` casts it to the declared type.  Its header is the catalogue, but is never
quoted in a message, since the first line of a file without a header is a record.

Guarantee  The connection reads this one table and nothing else, and leaves no trace of it.
Requires   The file is not changed while it is read.
Numerics   None.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import duckdb
from numpy.typing import NDArray
from sqlglot import exp

from sqlmadp.errors import SourceError
from sqlmadp.private.engines import Constraints, Engine, Kind, Source, SourceColumn
from sqlmadp.private.engines.duckdb_files import (
    csv_header,
    csv_relation,
    parquet_relation,
    path_list,
)
from sqlmadp.private.engines.identity import Identity, identity_of_files
from sqlmadp.private.engines.parquet_files import ParquetFiles, find_files, is_text
from sqlmadp.table.csv_format import CsvFormat

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
    "UUID": "text",
    "DATE": "date",
    # In seconds or milliseconds a record can be too large to be cast, and then fails.
    "TIMESTAMP": "timestamp",
    "TIMESTAMP_NS": "timestamp",
    "TIMESTAMP WITH TIME ZONE": "timestamp",
}


class DuckDbTable(Engine):
    """One table behind a locked-down DuckDB connection."""

    numbers_values = True

    def __init__(
        self,
        location: str,
        identity: Identity,
        relation: exp.Expression,
        columns: Sequence[SourceColumn],
        connection: duckdb.DuckDBPyConnection,
        *,
        collated: bool = False,
        csv: CsvFormat | None = None,
    ) -> None:
        super().__init__(location, identity, relation, columns)
        self._connection = connection
        self._collated = collated
        self._csv = csv or CsvFormat()

    def typed(self, column: SourceColumn, sql_type: str) -> exp.Expression:
        """Return a column's value to compare as ``sql_type``, NULL if it is none."""
        raw: exp.Expression = exp.column(column.name, quoted=True)
        if sql_type == "BIGINT" and column.kind != "integer":
            sql_type = "INT128"  # So that a huge integer is out of domain, or clamped, as itself.
        if sql_type == "DOUBLE" and column.kind == "wide integer":
            raw = exp.cast(raw, "VARCHAR")  # Directly, such an integer is rounded twice.
        if sql_type == "DATE" and self._csv.date_format is not None:
            form = exp.Literal.string(self._csv.date_format)
            raw = exp.Anonymous(this="try_strptime", expressions=[raw, form])
        if sql_type in ("DOUBLE", "INT128") and self._csv.decimal != ".":
            # A point would be read as one too, so that 1.500 is no number.
            raw = exp.Anonymous(
                this="translate",
                expressions=[
                    raw,
                    exp.Literal.string(f"{self._csv.decimal}."),
                    exp.Literal.string(".x"),
                ],
            )
        value = raw
        if sql_type != column.native:
            value = exp.TryCast(this=raw, to=exp.DataType.build(sql_type))
        if sql_type == "VARCHAR" and self._collated:
            # A column's own collation may merge declared values.  (Files have none.)
            value = exp.Collate(this=value, expression=exp.to_identifier("binary", quoted=True))
        return value

    def counts(self, select: exp.Select) -> Mapping[str, NDArray[Any]]:
        """Run ``select`` and return its columns by name; NULLs are masked.  Private."""
        columns: dict[str, NDArray[Any]] = self._connection.execute(
            select.sql("duckdb")
        ).fetchnumpy()
        return columns

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def open_file(source: Source, location: str, fragment: str, table: str) -> DuckDbTable:
    """Open a file, a folder or a pattern of files; the suffix says of what kind they are."""
    path = source.folder / location
    suffix = ".parquet" if location and path.is_dir() else path.suffix.lower()
    if suffix not in {".parquet", ".csv", ".duckdb", ".db"}:
        raise SourceError(
            f"source {source.shown!r} is of an unknown kind; use a .parquet, .csv or .duckdb file "
            "(a table of the last is named after '#'), a folder of .parquet files, or the URL of "
            "a database: postgresql://... or spark://..."
        )
    if fragment and suffix in {".parquet", ".csv"}:
        raise SourceError(
            f"source {source.shown!r} names a table after '#', but {suffix} files are one table; "
            "leave the '#' and what follows it out"
        )
    if suffix == ".parquet" and (found := find_files(source.shown, path)) is not None:
        return open_parquet(source, found)
    if not path.is_file():
        raise SourceError(
            f"source {source.shown!r} does not exist: there is no file {str(path)!r}; "
            "correct 'source' in the plan (it starts from the plan's folder)"
        )
    if not is_text(os.fsencode(path.resolve())):
        raise SourceError(
            f"source {source.shown!r} is in a folder whose name is not UTF-8 text; rename it"
        )
    if suffix == ".csv":
        return open_csv(source, path.resolve())
    return open_database(source, path.resolve(), fragment or table)


def open_parquet(source: Source, found: ParquetFiles) -> DuckDbTable:
    """Open Parquet files; their own metadata is the catalogue."""
    location = source.shown
    connection = _locked(":memory:", source.memory, allowed=found.files)
    whole = parquet_relation(found.files, partitioned=bool(found.partitions))
    rows = _or_none(lambda: _describe(connection, whole))
    # The order of columns may differ between files: they are read by name.
    each = _or_none(
        lambda: {frozenset(_describe(connection, parquet_relation([file]))) for file in found.files}
    )
    unsafe = _or_none(lambda: _unsafe_timestamps(connection, found.files))
    if rows is None or each is None or unsafe is None:
        connection.close()
        raise SourceError(
            f"source {location!r} cannot be opened as a Parquet file; correct 'source'"
        )
    stored = {name.casefold() for name, _ in next(iter(each))}
    if len(each) > 1 or stored & {name.casefold() for name in found.partitions}:
        connection.close()
        raise SourceError(
            f"source {location!r} is made of files whose columns differ in name or type, or are "
            "also names of folders; write them again with the same columns"
        )
    columns = [
        SourceColumn(name=name, kind="untyped text", native="the name of a folder")
        if name in found.partitions
        else _column(name, "TIMESTAMP in milliseconds" if name in unsafe else kind)
        for name, kind in rows
    ]
    identity = identity_of_files(found.root, [file.resolve() for file in found.files])
    return DuckDbTable(location, identity, whole, columns, connection)


def open_csv(source: Source, path: Path) -> DuckDbTable:
    """Open a CSV file: commas, double quotes, a header; lines that do not parse are skipped."""
    location = source.shown
    if glob.has_magic(str(path)):
        raise SourceError(
            f"source {location!r} has one of * ? [ in its path, which would be taken for a pattern "
            "of many files; rename it"
        )
    header = _or_none(lambda: csv_header(path, source.csv))
    if not header or len({name.casefold() for name in header}) < len(header) or "" in header:
        raise SourceError(
            f"source {location!r} has no usable header: the first line of a CSV file must name "
            f"every column once, in UTF-8, separated by {source.csv.separator!r}. Name another "
            "separator in the plan, under [csv]; convert another encoding: iconv -t utf-8"
        )
    relation = csv_relation(path, header, source.csv)
    columns = [SourceColumn(name=name, kind="untyped text", native="text") for name in header]
    connection = _locked(":memory:", source.memory, allowed=[path])
    identity = Identity(table=f"file:{path}")
    return DuckDbTable(location, identity, relation, columns, connection, csv=source.csv)


def open_database(source: Source, path: Path, table: str) -> DuckDbTable:
    """Open a table of a DuckDB database file, which is never written to.

    A view is refused: it may fail on some records, or change by more than one row when
    one record is added, and the promise is about the rows of what is counted.
    """
    location = source.shown
    connection = _or_none(lambda: _locked(str(path), source.memory))
    if connection is None:
        raise SourceError(
            f"source {location!r} cannot be opened as a DuckDB database; "
            "correct 'source' in the plan, or close the program that is writing to it"
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
            f"source {location!r} has no table {table!r} (a view will not do: store it as a "
            "table); name the table after '#', as in 'file.duckdb#table'"
        )
    relation = exp.table_(found[0][1], db=found[0][0], quoted=True)
    columns = _stored(connection, *found[0])
    identity = Identity(table=f"file:{path}")
    return DuckDbTable(location, identity, relation, columns, connection, collated=True)


def _locked(
    database: str, memory: int | None, *, allowed: Sequence[Path] = ()
) -> duckdb.DuckDBPyConnection:
    limit = {} if memory is None else {"memory_limit": f"{memory}MiB"}
    connection = duckdb.connect(
        database,
        read_only=not allowed,
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_persistent_secrets": "false",
            "temp_directory": "",  # Nothing private is ever spilled to a disk.
            **limit,
        },
    )
    if allowed:
        connection.execute(f"SET allowed_paths = {path_list(allowed).sql('duckdb')}")
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SET TimeZone = 'UTC'")  # The day of a timestamp is that in UTC.
    # It would move a cast into the CSV reader, which then skips the lines that the cast fails on.
    connection.execute("SET disabled_optimizers = 'type_pushdown'")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def _describe(
    connection: duckdb.DuckDBPyConnection, relation: exp.Expression
) -> list[tuple[str, str]]:
    select = exp.select("*").from_(relation.copy())
    rows = connection.execute(f"DESCRIBE {select.sql('duckdb')}").fetchall()
    return [(str(row[0]), str(row[1])) for row in rows]


def _unsafe_timestamps(connection: duckdb.DuckDBPyConnection, files: Sequence[Path]) -> set[str]:
    """Return the columns of timestamps of which DuckDB cannot read every one that a file can hold.

    It converts milliseconds to microseconds, and fails on a record that is too large for that.
    """
    rows = connection.execute(
        f"SELECT name FROM parquet_schema({path_list(files).sql('duckdb')}) WHERE type = 'INT96' "
        "OR converted_type = 'TIMESTAMP_MILLIS' OR logical_type LIKE '%MILLIS=MilliSeconds%'"
    ).fetchall()
    return {str(name) for (name,) in rows}


def _stored(connection: duckdb.DuckDBPyConnection, schema: str, table: str) -> list[SourceColumn]:
    """Return the columns of a table of the database, with their constraints."""
    here = "WHERE database_name = current_database() AND schema_name = ? AND table_name = ?"
    # An expression in place of a stored value may fail on a record.
    rows = connection.execute(
        "SELECT column_name, CASE WHEN is_generated THEN 'GENERATED' ELSE data_type END, "
        f"is_nullable FROM duckdb_columns() {here} ORDER BY column_index",
        [schema, table],
    ).fetchall()
    constraints = connection.execute(
        "SELECT constraint_type, expression, constraint_column_names, referenced_table "
        f"FROM duckdb_constraints() {here}",
        [schema, table],
    ).fetchall()
    checks = tuple(check for kind, check, *_ in constraints if kind == "CHECK")
    keys = {
        names[0]: other
        for kind, _, names, other in constraints
        if kind == "FOREIGN KEY" and len(names) == 1
    }
    columns = []
    for name, stored_type, null in rows:
        known = Constraints(
            null=null,
            values=_enum_values(connection, stored_type),
            checks=checks,
            dialect="duckdb",
            references=keys.get(name) or "",
        )
        columns.append(replace(_column(name, stored_type), constraints=known))
    return columns


def _enum_values(connection: duckdb.DuckDBPyConnection, stored_type: str) -> tuple[str, ...] | None:
    if not stored_type.startswith("ENUM("):
        return None
    rows = connection.execute(
        f"SELECT unnest(enum_range(CAST(NULL AS {stored_type})))::VARCHAR"
    ).fetchall()
    return tuple(value for (value,) in rows)


def _column(name: str, stored_type: str) -> SourceColumn:
    native = stored_type if stored_type.endswith("]") else stored_type.partition("(")[0]
    kind: Kind = _KINDS.get(native, "other")
    if native == "DECIMAL" and stored_type.endswith(",0)"):
        kind = "wide integer"
    return SourceColumn(name=name, kind=kind, native=native)


def _or_none(attempt: Callable[[], Result]) -> Result | None:
    """Return what ``attempt`` does, or None where it fails: its error may quote the file."""
    try:
        return attempt()
    except Exception:
        return None
