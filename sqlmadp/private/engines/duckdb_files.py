"""How DuckDB reads files: what stands for them in a FROM clause.

Nothing about a file is guessed from its records: options say all there is to say, so that
every record is read in the same way, whatever the others hold.

Guarantee  Reads no record; of a CSV file, the bytes of the first line and no others.
Requires   Paths without characters of patterns.
Numerics   None.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path

from sqlglot import exp

from sqlmadp.table.csv_format import CsvFormat

LONGEST_HEADER = 2**20
"""Bytes that the first line of a CSV file may have; DuckDB skips lines of twice as many."""


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


def csv_relation(path: Path, header: Sequence[str], form: CsvFormat) -> exp.Table:
    """Return a CSV file as a table of text: double quotes, bad lines skipped."""
    text = exp.Literal.string("VARCHAR")
    return _table_function(
        "read_csv",
        [path],
        auto_detect=exp.false(),
        header=exp.true(),
        delim=exp.Literal.string(form.separator),
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


def csv_header(path: Path, form: CsvFormat) -> list[str]:
    """Return the fields of a CSV file's first line; raises if that is no UTF-8 text of CSV.

    Only these bytes are decoded: were records decoded with them, one of them could raise.
    """
    with path.open("rb") as file:
        read = file.readline(LONGEST_HEADER)  # Up to a line feed: records where lines end in CR.
    line = re.split(rb"[\r\n]", read, maxsplit=1)[0]
    if len(line) == LONGEST_HEADER:
        return []
    decoded = line.decode("utf-8-sig")
    return next(csv.reader([decoded], strict=True, delimiter=form.separator), [])


def path_list(paths: Sequence[Path]) -> exp.Array:
    """Return paths as a list of texts."""
    return exp.Array(expressions=[exp.Literal.string(str(path)) for path in paths])


def _table_function(name: str, paths: Sequence[Path], **options: exp.Expression) -> exp.Table:
    arguments = [
        exp.EQ(this=exp.to_identifier(option), expression=value)
        for option, value in options.items()
    ]
    return exp.Table(this=exp.Anonymous(this=name, expressions=[path_list(paths), *arguments]))
