"""Identity: what a source is, however it is spelled, and what it shares records with.

The budget belongs to the data (see `ledger_binding`), so a table must be recognised: as itself, as
one of the files of a folder, as the folder that it is in.  A folder or a pattern of Parquet files
is named by the folder that all of them are in, and a note about that folder is about every Parquet
file below it, those that are added or written anew included.  A file of the source that lies
elsewhere, behind a link, has a name of its own.

    lake/                 file:/lake                  related: each file below, each folder above
    lake/*.parquet        file:/lake                  and between
    lake/part-0.parquet   file:/lake/part-0.parquet   related: each folder above

Guarantee  Two sources that share a file have a name in common, or one's name is related to the
           other, or both hold a name of that file.
Requires   Links are followed before paths come here.  A hard link is a copy.
Numerics   None.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

_PLACE = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+:)(?P<host>//[^/]*)?(?P<path>/.*)")
_PATTERN = re.compile(r"[*?\[{]")


@dataclass(frozen=True, kw_only=True)
class Identity:
    """The names by which a table is known."""

    table: str
    """The table itself, the same for every spelling of its location, as far as is known."""
    apart: tuple[str, ...] = ()
    """Files of the table that its own name does not stand for."""
    related: tuple[str, ...] = ()
    """What the table is part of, and what is part of it."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return all that a charge of the table is noted for."""
        return (self.table, *self.apart)


def identity_of_files(root: PurePath, files: Sequence[PurePath], scheme: str = "file:") -> Identity:
    """Return the identity of Parquet files that are all named by way of ``root``."""
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
    return parts["scheme"] + (parts["host"] or ""), plain


def _covers(root: PurePath, file: PurePath) -> bool:
    """Return whether a note about a folder is about this file."""
    return file != root and file.is_relative_to(root) and file.suffix.lower() == ".parquet"


def _named(scheme: str, places: Iterable[PurePath]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"{scheme}{place}" for place in places))
