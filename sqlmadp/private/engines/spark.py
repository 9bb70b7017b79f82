"""Spark SQL: a table of Spark's catalogue, or Parquet files, counted where they are.

The whole counting, GROUPING SETS included, runs on Spark; what is collected is one row per
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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sqlmadp.errors import SourceError
from sqlmadp.private.engines import (
    Engine,
    Identity,
    Source,
    SourceColumn,
    kind_of,
    no_table,
    quietly,
)
from sqlmadp.private.engines.files import find_files, identity_of_files, split_location

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


@dataclass(frozen=True, eq=False, kw_only=True)
class SparkTable(Engine):
    """One table behind a Spark session; `close` ends the session if it was made here."""

    session: SparkSession

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

    def counts(self, select: exp.Select) -> Mapping[str, NDArray[Any]]:
        """Run ``select`` and return its columns by name; NULLs are masked.  Private."""
        table = self.session.sql(select.sql(DIALECT)).toArrow()
        return {name: _masked(table.column(name)) for name in table.column_names}


def open_table(source: Source, master: str, table: str) -> SparkTable:
    """Open a table, or Parquet files, behind a session of the Spark that ``master`` names."""
    session, end = quietly(
        lambda: _session(master, source.memory),
        f"source {source.shown!r}: no Spark session could be started. Install Java 17, put it on "
        "PATH, and check that the master is running",
    )
    try:
        for name, value in _SETTINGS.items():
            session.conf.set(name, value)
        opened = _parquet if "/" in table or table.lower().endswith(".parquet") else _table
        place, relation, frame = opened(source, session, table)
        partitions = _partitions(frame) if opened is _parquet else frozenset()
        return SparkTable(
            location=source.shown,
            identity=_identity(place, frame),
            relation=relation,
            columns=tuple(_column(f, partitions) for f in frame.schema.jsonValue()["fields"]),
            close=lambda: _ended(end),
            session=session,
        )
    except BaseException:
        end()
        raise


def _ended(end: Callable[[], None]) -> None:
    """End a session; one that is gone already is no failure."""
    try:
        end()
    except Exception:
        return


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
    """Return a table of the catalogue: its place, its name in a FROM clause, and its frame."""
    *outer, own = table.split(".")
    relation = exp.Table(this=_identifier(own))
    for place, part in zip(("db", "catalog"), reversed(outer), strict=False):
        relation.set(place, _identifier(part))
    name = relation.sql(DIALECT)
    wrong = no_table(source.shown, table)
    described = quietly(lambda: session.sql(f"DESCRIBE TABLE EXTENDED {name}").collect(), wrong)
    rows = [(str(row[0]), str(row[1])) for row in described]
    about = ("# Detailed Table Information", "")
    details = dict(rows[rows.index(about) :]) if about in rows else {}  # A temporary view has none.
    if details.get("Type", "VIEW") == "VIEW":
        raise SourceError(wrong)
    named = ".".join([details.get("Catalog", ""), details.get("Database", ""), own])
    place = details.get("Location") or f"spark:{named}"
    frame = quietly(lambda: session.table(name), wrong)
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
    frame = quietly(
        lambda: reader.parquet(*paths), f"source {source.shown!r} cannot be opened as Parquet files"
    )
    frame.createOrReplaceTempView(_VIEW)
    return place, exp.to_table(_VIEW), frame


def _identity(place: str, frame: DataFrame) -> Identity:
    """Return the identity of a table, by the place and the names of its files."""
    found = split_location(place)
    if found is None:
        return Identity(table=place)
    scheme, root = found
    listed = quietly(frame.inputFiles, "the files of the source cannot be listed")
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
    kind = kind_of(str(stored), native)
    # What a timestamp's day is depends on how it was written.
    return SourceColumn(name=name, kind="other" if kind == "timestamp" else kind, native=native)


def _identifier(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)


def _masked(column: Any) -> NDArray[Any]:
    """Return a column of Arrow as an array with NULLs masked."""
    null = np.asarray(column.is_null())
    known = next((value for value in column if value.is_valid), None)
    if known is None:
        return np.ma.MaskedArray(np.zeros(len(column), dtype=np.int64), mask=null)
    return np.ma.MaskedArray(np.asarray(column.fill_null(known)), mask=null)
