"""The Parquet files of one source: a file, a pattern of files, or a folder of them.

A folder may be partitioned as Hive and Spark do it: in ``year=2024/month=5/part-0.parquet`` the
names of folders hold values of columns.  All files must agree on those columns.

Guarantee  Reads names of files only; messages quote none that was found.
Requires   Files are not added or removed while the source is read.
Numerics   None.
"""

from __future__ import annotations

import glob
from dataclasses import dataclass
from pathlib import Path

from sqlmadp.errors import SourceError


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
    if not found:
        raise SourceError(f"source {shown!r} has no .parquet file; correct 'source' in the plan")
    if any(glob.has_magic(str(file)) for file in found):
        raise SourceError(
            f"source {shown!r} has one of * ? [ in the path of a file, which would be taken for a "
            "pattern of many files; rename it"
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


def _partitions(file: Path) -> tuple[str, ...]:
    return tuple(part.partition("=")[0] for part in file.parent.parts if "=" in part)
