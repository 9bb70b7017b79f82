"""The Parquet files of one source: a file, a pattern of files, or a folder of them.

A folder may be partitioned as Hive and Spark do it: in ``year=2024/month=5/part-0.parquet`` the
names of folders hold values of columns.  All files must agree on those columns.  A value there
belongs to records, so none is a reason to refuse: a folder whose value cannot be read as writers
write it is left out, with its records.

Guarantee  Reads names of files only; messages quote none that was found, and no value in the name
           of a folder raises.
Requires   Files are not added or removed while the source is read.
Numerics   None.
"""

from __future__ import annotations

import glob
import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote_to_bytes

from sqlmadp.errors import SourceError

_UNWRITTEN = re.compile(r"[*?\[=\\\x00-\x1f\x7f]")
"""Characters that Spark, Hive, Arrow and DuckDB write as %xx in the value of a folder's name."""


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


def is_text(name: bytes) -> bool:
    """Return whether bytes are UTF-8."""
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


def _partitions(file: Path) -> tuple[str, ...]:
    return tuple(part.partition("=")[0] for part in file.parent.parts if "=" in part)
