"""Files of a source: which they are, how DuckDB reads them, and by what names a table is known.

A source is a file, a pattern of files or a folder of them.  A folder may be partitioned as Hive and
Spark do it: in ``year=2024/month=5/part-0.parquet`` the names of folders hold values of columns.
All files must agree on those columns.  A value there belongs to records, so none is a reason to
refuse: a folder whose value cannot be read as writers write it is left out, with its records.
Nothing is guessed from records: options say all there is to say, so that every record is read in
the same way, whatever the others hold.

The budget belongs to the data (see `ledger_binding`), so a table must be recognised: as itself, as
one of the files of a folder, as the folder that it is in.  A folder or a pattern of Parquet files
is named by the folder that all of them are in, and a note about that folder is about every Parquet
file below it, those that are added or written anew included.  A file of the source that is
elsewhere, behind a link, has a name of its own.

    lake/                 file:/lake                  related: each file below, each folder above
    lake/*.parquet        file:/lake                  and between
    lake/part-0.parquet   file:/lake/part-0.parquet   related: each folder above

Guarantee  Reads names of files and, of a CSV file, the bytes of the first line; no record.
           Messages quote no name that was found, and no value in the name of a folder raises.
           Two sources that share a file have a name in common, or one's name is related to the
           other, or both hold a name of that file.
Requires   Files are not added or removed while the source is read.  A hard link is a copy.
Numerics   None.
"""

from __future__ import annotations

import csv
import glob
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from urllib.parse import unquote_to_bytes

from sqlglot import exp

from sqlmadp.errors import SourceError
from sqlmadp.private.engines import Identity
from sqlmadp.table.csv_format import CsvFormat

LONGEST_HEADER = 2**20
"""Bytes that the first line of a CSV file may have; DuckDB skips lines of twice as many."""

_UNWRITTEN = re.compile(r"[*?\[=\\\x00-\x1f\x7f]")
"""Characters that Spark, Hive, Arrow and DuckDB write as %xx in the value of a folder's name."""
_PLACE = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+:)(?P<host>//[^/]*)?(?P<path>/.*)")
_PATTERN = re.compile(r"[*?\[{]")


@dataclass(frozen=True, kw_only=True)
class ParquetFiles:
    """The files of a table, and the columns that the names of their folders hold."""

    root: Path
    """The one file, or the folder that all of them are in."""
    files: tuple[Path, ...]
    partitions: tuple[str, ...]


def find_files(shown: str, path: Path) -> ParquetFiles | None:
    """Return the files at ``path``; None if it is neither a file, a folder nor a pattern."""
    if path.is_file():
        found, root = [path.resolve()], path.resolve()
    elif path.is_dir():
        found, root = _inside(path.resolve(), "**/*.parquet"), path.resolve()
    elif glob.has_magic(str(path)):
        plain = next(each for each in path.parents if not glob.has_magic(str(each)))
        root, found = plain.resolve(), _inside(plain.resolve(), str(path.relative_to(plain)))
    else:
        return None
    found = [file for file in found if _values_are_read(file.relative_to(root).parent)]
    if not found:
        raise SourceError(f"source {shown!r} has no .parquet file; correct 'source' in the plan")
    if any(glob.has_magic(str(file)) or not is_text(os.fsencode(file)) for file in found):
        raise SourceError(
            f"source {shown!r} has one of * ? [ in the path of a file, which would be taken for a "
            "pattern of many files, or bytes that are not UTF-8 text; rename the file"
        )
    below = any("=" in part for file in found for part in file.relative_to(root).parts[:-1])
    partitions = {_partitions(file) if below else () for file in found}
    if len(partitions) > 1 or any(len(set(names)) < len(names) for names in partitions):
        raise SourceError(
            f"source {shown!r} has files in folders that are partitioned differently; name "
            "folders of one kind, such as 'data/year=*/*.parquet'"
        )
    return ParquetFiles(root=root, files=tuple(found), partitions=next(iter(partitions)))


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


def identity_of_files(root: PurePath, files: Sequence[PurePath], scheme: str = "file:") -> Identity:
    """Return the identity of Parquet files, all named by way of ``root``, links followed."""
    covered = [file for file in files if _covers(root, file)]
    apart = [file for file in files if file != root and not _covers(root, file)]
    inside = [
        place for file in covered for place in (file, *file.parents) if place.is_relative_to(root)
    ]
    above = [parent for place in (root, *apart) for parent in place.parents]
    own = dict.fromkeys([root, *apart])
    return Identity(
        table=f"{scheme}{root}",
        apart=_named(scheme, [place for place in own if place != root]),
        related=_named(scheme, [place for place in (*inside, *above) if place not in own]),
    )


def split_location(location: str) -> tuple[str, PurePath] | None:
    """Return scheme and path of a place that Spark names; a pattern is its folder's place."""
    parts = _PLACE.fullmatch(location)
    if parts is None:
        return None
    path = PurePath(parts["path"])
    plain = next(each for each in (path, *path.parents) if not _PATTERN.search(str(each)))
    if parts["scheme"] == "file:":
        return "file:", Path(plain).resolve()
    return parts["scheme"] + (parts["host"] or "").lower(), plain


def is_text(name: bytes) -> bool:
    """Return whether bytes are UTF-8."""
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


def _inside(root: Path, pattern: str) -> list[Path]:
    """Return the matching files, without those that Spark and others put aside."""
    names = glob.glob(pattern, root_dir=root, recursive=True)
    return sorted(
        root / name
        for name in names
        if (root / name).is_file()
        and not any(part.startswith(("_", ".")) for part in Path(name).parts)
    )


def _values_are_read(folder: Path) -> bool:
    """Return whether every engine reads the values in the names of these folders, and alike."""
    values = [part.partition("=")[2] for part in folder.parts if "=" in part]
    decoded = [unquote_to_bytes(os.fsencode(value)) for value in values]
    return all(map(is_text, decoded)) and not any(not v or _UNWRITTEN.search(v) for v in values)


def _partitions(file: Path) -> tuple[str, ...]:
    return tuple(part.partition("=")[0] for part in file.parent.parts if "=" in part)


def _table_function(name: str, paths: Sequence[Path], **options: exp.Expression) -> exp.Table:
    arguments = [
        exp.EQ(this=exp.to_identifier(option), expression=value)
        for option, value in options.items()
    ]
    return exp.Table(this=exp.Anonymous(this=name, expressions=[path_list(paths), *arguments]))


def _covers(root: PurePath, file: PurePath) -> bool:
    """Return whether a note about a folder is about this file."""
    return file != root and file.is_relative_to(root) and file.suffix.lower() == ".parquet"


def _named(scheme: str, places: Iterable[PurePath]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"{scheme}{place}" for place in places))
