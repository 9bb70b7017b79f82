"""How DuckDB reads files: what stands for them in a FROM clause.

Nothing about a file is guessed from its records: options say all there is to say, so that
every record is read in the same way, whatever the others hold.

Guarantee  Reads no record; of a CSV file, the first line.
Requires   Paths without characters of patterns.
Numerics   None.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from sqlglot import exp


def parquet_relation(files: Sequence[Path], *, partitioned: bool = False) -> exp.Table:
    """Return Parquet files as one table; names of folders are columns if ``partitioned``."""
    return _table_function(
        "read_parquet",
        files,
        hive_partitioning=exp.true() if partitioned else exp.false(),
        hive_types_autocast=exp.false(),
        # Bytes that are no text become question marks; else one such record stops the read.
        utf8_validation=exp.Literal.string("replace"),
    )


def csv_relation(path: Path, header: Sequence[str]) -> exp.Table:
    """Return a CSV file as a table of text: commas, double quotes, bad lines skipped."""
    text = exp.Literal.string("VARCHAR")
    return _table_function(
        "read_csv",
        [path],
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


def csv_header(path: Path) -> list[str]:
    """Return the fields of a CSV file's first line."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        return next(csv.reader(file), [])


def path_list(paths: Sequence[Path]) -> exp.Array:
    """Return paths as a list of texts."""
    return exp.Array(expressions=[exp.Literal.string(str(path)) for path in paths])


def _table_function(name: str, paths: Sequence[Path], **options: exp.Expression) -> exp.Table:
    arguments = [
        exp.EQ(this=exp.to_identifier(option), expression=value)
        for option, value in options.items()
    ]
    return exp.Table(this=exp.Anonymous(this=name, expressions=[path_list(paths), *arguments]))
