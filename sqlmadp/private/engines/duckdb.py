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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from numpy.typing import NDArray
from sqlglot import exp

from sqlmadp.errors import SourceError
from sqlmadp.private.engines import (
    Constraints,
    Engine,
    Identity,
    Source,
    SourceColumn,
    kind_of,
    no_table,
    quietly,
)
from sqlmadp.private.engines.files import (
    ParquetFiles,
    csv_header,
    csv_relation,
    find_files,
    identity_of_files,
    is_text,
    parquet_relation,
    path_list,
)
from sqlmadp.table.csv_format import CsvFormat


@dataclass(frozen=True, eq=False, kw_only=True)
class DuckDbTable(Engine):
    """One table behind a locked-down DuckDB connection."""

    connection: duckdb.DuckDBPyConnection
    collated: bool = False
    """Whether columns may have collations; files have none."""
    csv: CsvFormat = CsvFormat()  # noqa: RUF009 - It never changes.

    def typed(self, column: SourceColumn, sql_type: str) -> exp.Expression:
        """Return a column's value to compare as ``sql_type``, NULL if it is none."""
        raw: exp.Expression = exp.column(column.name, quoted=True)
        if sql_type == "BIGINT" and column.kind != "integer":
            sql_type = "INT128"  # So that a huge integer is out of domain, or clamped, as itself.
        if sql_type == "DOUBLE" and column.kind == "wide integer":
            raw = exp.cast(raw, "VARCHAR")  # Directly, such an integer is rounded twice.
        if sql_type in ("DATE", "TIMESTAMP") and self.csv.date_format is not None:
            raw = _function("try_strptime", raw, self.csv.date_format)
        if sql_type in ("DOUBLE", "INT128") and self.csv.decimal != ".":
            # A point would be read as one too, so that 1.500 is no number.
            raw = _function("translate", raw, f"{self.csv.decimal}.", ".x")
        value = raw
        if sql_type != column.native:
            value = exp.TryCast(this=raw, to=exp.DataType.build(sql_type))
        if sql_type == "VARCHAR" and self.collated:
            # A column's own collation may merge declared values.
            value = exp.Collate(this=value, expression=exp.to_identifier("binary", quoted=True))
        return value

    def counts(self, select: exp.Select) -> Mapping[str, NDArray[Any]]:
        """Run ``select`` and return its columns by name; NULLs are masked.  Private."""
        columns: dict[str, NDArray[Any]] = self.connection.execute(
            select.sql("duckdb")
        ).fetchnumpy()
        return columns


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
    connection = _locked(":memory:", source.memory, allowed=found.files)
    whole = parquet_relation(found.files, partitioned=bool(found.partitions))
    try:
        # The order of columns may differ between files: they are read by name.
        rows, each, unsafe = quietly(
            lambda: (
                _describe(connection, whole),
                {frozenset(_describe(connection, parquet_relation([f]))) for f in found.files},
                _unsafe_timestamps(connection, found.files),
            ),
            f"source {source.shown!r} cannot be opened as a Parquet file; correct 'source'",
        )
        stored = {name.casefold() for name, _ in next(iter(each))}
        if len(each) > 1 or stored & {name.casefold() for name in found.partitions}:
            raise SourceError(
                f"source {source.shown!r} is made of files whose columns differ in name or type, "
                "or are also names of folders; write them again with the same columns"
            )
    except BaseException:
        connection.close()
        raise
    return DuckDbTable(
        location=source.shown,
        identity=identity_of_files(found.root, [file.resolve() for file in found.files]),
        relation=whole,
        columns=tuple(
            SourceColumn(name=name, kind="untyped text", native="the name of a folder")
            if name in found.partitions
            else SourceColumn(name=name, kind="other", native="TIMESTAMP in milliseconds")
            if name in unsafe
            else SourceColumn(name=name, kind=kind_of(kind), native=_native(kind))
            for name, kind in rows
        ),
        close=connection.close,
        connection=connection,
    )


def open_csv(source: Source, path: Path) -> DuckDbTable:
    """Open a CSV file: commas, double quotes, a header; lines that do not parse are skipped."""
    if glob.has_magic(str(path)):
        raise SourceError(
            f"source {source.shown!r} has one of * ? [ in its path, which would be taken for a "
            "pattern of many files; rename it"
        )
    wrong = (
        f"source {source.shown!r} has no usable header: the first line of a CSV file must name "
        f"every column once, in UTF-8, separated by {source.csv.separator!r}. Name another "
        "separator in the plan, under [csv]; convert another encoding: iconv -t utf-8"
    )
    header = quietly(lambda: csv_header(path, source.csv), wrong)
    if not header or len({name.casefold() for name in header}) < len(header) or "" in header:
        raise SourceError(wrong)
    connection = _locked(":memory:", source.memory, allowed=[path])
    return DuckDbTable(
        location=source.shown,
        identity=Identity(table=f"file:{path}"),
        relation=csv_relation(path, header, source.csv),
        columns=tuple(
            SourceColumn(name=name, kind="untyped text", native="text") for name in header
        ),
        close=connection.close,
        connection=connection,
        csv=source.csv,
    )


def open_database(source: Source, path: Path, table: str) -> DuckDbTable:
    """Open a table of a DuckDB database file, which is never written to.

    A view is refused: it may fail on some records, or change by more than one row when
    one record is added, and the promise is about the rows of what is counted.
    """
    connection = quietly(
        lambda: _locked(str(path), source.memory),
        f"source {source.shown!r} cannot be opened as a DuckDB database; correct 'source' in the "
        "plan, or close the program that is writing to it",
    )
    schema, _, name = table.rpartition(".")
    found = connection.execute(
        "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = "
        "current_database() AND lower(schema_name) = lower(?) AND lower(table_name) = lower(?)",
        [schema or "main", name],
    ).fetchall()
    if len(found) != 1:
        connection.close()
        raise SourceError(no_table(source.shown, table))
    return DuckDbTable(
        location=source.shown,
        identity=Identity(table=f"file:{path}"),
        relation=exp.table_(found[0][1], db=found[0][0], quoted=True),
        columns=_stored(connection, *found[0]),
        close=connection.close,
        connection=connection,
        collated=True,
    )


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


def _stored(
    connection: duckdb.DuckDBPyConnection, schema: str, table: str
) -> tuple[SourceColumn, ...]:
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
    return tuple(
        SourceColumn(
            name=name,
            kind=kind_of(stored_type),
            native=_native(stored_type),
            constraints=Constraints(
                null=null,
                values=_enum_values(connection, stored_type),
                checks=checks,
                dialect="duckdb",
                references=keys.get(name) or "",
            ),
        )
        for name, stored_type, null in rows
    )


def _enum_values(connection: duckdb.DuckDBPyConnection, stored_type: str) -> tuple[str, ...] | None:
    if not stored_type.startswith("ENUM(") or stored_type.endswith("]"):
        return None
    rows = connection.execute(
        f"SELECT unnest(enum_range(CAST(NULL AS {stored_type})))::VARCHAR"
    ).fetchall()
    return tuple(value for (value,) in rows)


def _native(stored_type: str) -> str:
    """Return a type's name without its values; a DECIMAL keeps its digits."""
    name = stored_type.partition("(")[0]
    return stored_type if stored_type.endswith("]") or name == "DECIMAL" else name


def _function(name: str, value: exp.Expression, *texts: str) -> exp.Expression:
    return exp.Anonymous(this=name, expressions=[value, *map(exp.Literal.string, texts)])
