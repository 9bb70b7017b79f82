"""How a CSV file is written, as a plan says it; nothing of it is guessed from the file.

    [csv]
    separator   = ";"
    date_format = "%d.%m.%Y"
    decimal     = ","

Files are UTF-8.  DuckDB can read other encodings, but then fails on a record with a byte that the
encoding does not have, and whether a release fails must not depend on a record.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class CsvFormat:
    """How a CSV file is written."""

    separator: str = ","
    date_format: str | None = None
    """As strptime takes it, such as %d.%m.%Y; ISO 8601 if it is None."""
    decimal: str = "."
    """What stands before the digits after the point."""
