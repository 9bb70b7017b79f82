"""Spark SQL: a table of Spark's catalogue, or Parquet files, counted where they are.

The whole counting, GROUPING SETS included, runs on Spark; what is collected is one row a
cell that has records.  A session of our own settings is used, beside the user's if one is
active, so that the same statement means the same whatever the user has set.

A JVM that is started here is started without a console: what Spark logs may quote records.
Its files of a shuffle, on the machines that count, hold cells and not whole records.

Guarantee  Spark is asked for nothing but the catalogue, the file names and the one SELECT.
Requires   pyspark 4 and Java 17; a cluster that counts correctly.
Numerics   A decimal is compared as the nearest 64-bit floating-point number (Java's).
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sqlmadp.errors import SourceError
from sqlmadp.private.engines import Engine, Kind, Source, SourceColumn
from sqlmadp.private.engines.identity import Identity, identity_of_files, split_location
from sqlmadp.private.engines.parquet_files import find_files

try:
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import DataFrame, SparkSession
except ImportError:
    raise SourceError(
        "a Spark source needs pyspark 4, which is not installed: pip install 'sqlmadp[spark]'"
    ) from None

DIALECT = "databricks"
"""sqlglot's dialect of Spark that writes TRY_CAST."""

_KINDS: dict[str, Kind] = {
    "boolean": "boolean",
    "tinyint": "integer",
    "smallint": "integer",
    "int": "integer",
    "bigint": "integer",
    "float": "real",
    "double": "real",
    "decimal": "real",
    "string": "text",
    "date": "date",
}

_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    # Days as they are stored: another mode fails on some of them.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
}

_OWN = {
    "spark.app.name": "sqlmadp",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.eventLog.enabled": "false",
}

_VIEW = "sqlmadp_source"
_PADDED = "char("

Result = TypeVar("Result")


class SparkTable(Engine):
    """One table behind a Spark session."""

    def __init__(
        self,
        location: str,
        identity: Identity,
        relation: exp.Expression,
        columns: Sequence[SourceColumn],
        session: SparkSession,
        *,
        end: Callable[[], None],
    ) -> None:
        super().__init__(location, identity, relation, columns)
        self._session = session
        self._end = end

    def typed(self, column: SourceColumn, sql_type: str) -> exp.Expression:
        """Return a column's value to compare as ``sql_type``, NULL if it is none."""
        raw: exp.Expression = exp.column(column.name, quoted=True)
        if sql_type == "VARCHAR":
            text: exp.Expression = exp.cast(raw, "VARCHAR")
            if column.native.startswith(_PADDED):
                text = exp.Trim(this=text, position="TRAILING")
            return exp.Collate(this=text, expression=exp.to_identifier("UTF8_BINARY"))
        if column.kind == "untyped text":
            return exp.TryCast(this=raw, to=exp.DataType.build(sql_type))
        return exp.cast(raw, "DOUBLE") if sql_type == "DOUBLE" else raw

    def days(self, day: exp.Expression, since: exp.Expression) -> exp.Expression:
        """Return how many days after ``since`` a date is."""
        return exp.Anonymous(this="DATEDIFF", expressions=[day, since])

    def wide(self, whole: exp.Expression) -> exp.Expression:
        """Return a 64-bit integer as one of 38 digits."""
        return exp.cast(whole, "DECIMAL(38, 0)")

    def summed(self, whole: exp.Expression) -> exp.Expression:
        """Return the sum of 64-bit integers; Spark's own would overflow at 64 bits."""
        return exp.Sum(this=exp.cast(whole, "DECIMAL(38, 0)"))

    def counts(self, select: exp.Select) -> Mapping[str, NDArray[Any]]:
        """Run ``select`` and return its columns by name; NULLs are masked.  Private."""
        table = self._session.sql(select.sql(DIALECT)).toArrow()
        return {name: _masked(table.column(name)) for name in table.column_names}

    def close(self) -> None:
        """End the session if it was made here; one that is gone already is no failure."""
        try:
            self._end()
        except Exception:
            return


def open_table(source: Source, master: str, table: str) -> SparkTable:
    """Open a table, or Parquet files, behind a session of the Spark that ``master`` names."""
    session, end = _quiet(
        lambda: _session(master, source.memory),
        f"source {source.shown!r}: no Spark session could be started. Install Java 17, put it on "
        "PATH, and check that the master is running",
    )
    try:
        for name, value in _SETTINGS.items():
            session.conf.set(name, value)
        opened = _parquet if "/" in table or table.lower().endswith(".parquet") else _table
        place, relation, frame = opened(source, session, table)
        identity = _identity(place, frame)
        partitions = _partitions(frame) if opened is _parquet else frozenset()
        columns = [_column(each, partitions) for each in frame.schema.jsonValue()["fields"]]
    except BaseException:
        end()
        raise
    return SparkTable(source.shown, identity, relation, columns, session, end=end)


def _session(master: str, memory: int | None) -> tuple[SparkSession, Callable[[], None]]:
    """Return a session with settings of its own, and what ends it."""
    active = SparkSession.getActiveSession()
    if active is not None:
        if master not in ("spark://", active.conf.get("spark.master")):
            raise SourceError(
                "this process has a Spark session with another master; name that one, or write "
                "'spark://#table' for the session that is active"
            )
        return active.newSession(), lambda: None
    if master == "spark://":
        raise SourceError(
            "'spark://#table' means the Spark session that is active in this process, and none "
            "is; name a master, such as 'spark://host:7077#table' or 'local[*]#table'"
        )
    conf = SparkConf().setMaster(master).setAll(list(_OWN.items()))
    if memory is not None:
        conf.set("spark.driver.memory", f"{memory}m")
    nowhere = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    # A JVM outlives the context that it was started for, and serves the next one too.
    gateway = SparkContext._gateway or launch_gateway(conf, popen_kwargs=nowhere)
    context = SparkContext(conf=conf, gateway=gateway)
    return SparkSession(context), context.stop


def _table(
    source: Source, session: SparkSession, table: str
) -> tuple[str, exp.Expression, DataFrame]:
    """Return a table of the catalogue: its place, what stands for it, and its frame."""
    *outer, own = table.split(".")
    relation = exp.Table(this=_identifier(own))
    for place, part in zip(("db", "catalog"), reversed(outer), strict=False):
        relation.set(place, _identifier(part))
    name = relation.sql(DIALECT)
    wrong = (
        f"source {source.shown!r} has no table {table!r} (a view will not do: store it as a table)"
    )
    described = _quiet(lambda: session.sql(f"DESCRIBE TABLE EXTENDED {name}").collect(), wrong)
    rows = [(str(row[0]), str(row[1])) for row in described]
    about = ("# Detailed Table Information", "")
    details = dict(rows[rows.index(about) :]) if about in rows else {}  # A temporary view has none.
    if details.get("Type", "VIEW") == "VIEW":
        raise SourceError(wrong)
    named = ".".join([details.get("Catalog", ""), details.get("Database", ""), own])
    place = details.get("Location") or f"spark:{named}"
    frame = _quiet(lambda: session.table(name), wrong)
    return place, relation, frame


def _parquet(
    source: Source, session: SparkSession, where: str
) -> tuple[str, exp.Expression, DataFrame]:
    """Return Parquet files as a view of this session alone; a plain path is this machine's."""
    reader = session.read
    if re.match(r"[a-z][a-z0-9+.-]+:", where):
        place, paths = where, [where]
    else:
        found = find_files(source.shown, source.folder / where)
        if found is None:
            raise SourceError(
                f"source {source.shown!r} does not exist: there is no file "
                f"{str(source.folder / where)!r}; correct 'source' in the plan"
            )
        place, paths = f"file:{found.root}", [str(file) for file in found.files]
        base = found.root.parent if found.root in found.files else found.root
        reader = reader.option("basePath", str(base))
    frame = _quiet(
        lambda: reader.parquet(*paths), f"source {source.shown!r} cannot be opened as Parquet files"
    )
    frame.createOrReplaceTempView(_VIEW)
    return place, exp.to_table(_VIEW), frame


def _identity(place: str, frame: DataFrame) -> Identity:
    """Return what a table is by the place and the names of its files."""
    found = split_location(place)
    if found is None:
        return Identity(table=place)
    scheme, root = found
    listed = _quiet(frame.inputFiles, "the files of the source cannot be listed")
    files = [split_location(unquote(file)) for file in listed]
    return identity_of_files(root, [each[1] for each in files if each is not None], scheme)


def _partitions(frame: DataFrame) -> frozenset[str]:
    """Return the columns whose values are names of folders."""
    files = frame.inputFiles()
    parts = files[0].split("/")[:-1] if files else []
    return frozenset(part.partition("=")[0].casefold() for part in parts if "=" in part)


def _column(field: Mapping[str, Any], partitions: frozenset[str]) -> SourceColumn:
    name, stored = str(field["name"]), field["type"]
    native = field.get("metadata", {}).get("__CHAR_VARCHAR_TYPE_STRING") or str(stored)
    if name.casefold() in partitions:
        return SourceColumn(name=name, kind="untyped text", native="the name of a folder")
    if isinstance(stored, dict):  # A struct, an array or a map.
        return SourceColumn(name=name, kind="other", native=str(stored.get("type")))
    spelled = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}
    base = str(stored).split("(")[0].split(" ")[0]
    kind: Kind = _KINDS.get(spelled.get(base, base), "other")
    if base == "decimal" and native.endswith(",0)"):
        kind = "wide integer"
    return SourceColumn(name=name, kind=kind, native=native)


def _identifier(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)


def _quiet(attempt: Callable[[], Result], wrong: str) -> Result:
    """Return what ``attempt`` does before any record is read; its error is not chained."""
    try:
        return attempt()
    except SourceError:
        raise
    except Exception:
        pass
    raise SourceError(f"{wrong}. Nothing was read or spent; the same command can be run again")


def _masked(column: Any) -> NDArray[Any]:
    """Return a column of Arrow as an array with NULLs masked."""
    null = np.asarray(column.is_null())
    known = next((value for value in column if value.is_valid), None)
    if known is None:
        return np.ma.MaskedArray(np.zeros(len(column), dtype=np.int64), mask=null)
    return np.ma.MaskedArray(np.asarray(column.fill_null(known)), mask=null)
