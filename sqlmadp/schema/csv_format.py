"""How a CSV file is written, as a plan says it; nothing of it is guessed from the file.

    [csv]
    separator   = ";"
    date_format = "%d.%m.%Y"
    decimal     = ","

Files are UTF-8.  DuckDB can read other encodings, but then fails on a record with a byte that the
encoding does not have, and whether a release fails must not depend on a record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlmadp.toml_file import Table


@dataclass(frozen=True, kw_only=True)
class CsvFormat:
    """How a CSV file is written."""

    separator: str = ","
    date_format: str | None = None
    """As strptime takes it, such as %d.%m.%Y; ISO 8601 if it is None."""
    decimal: str = "."
    """What stands before the digits after the point."""


def read_csv_format(root: Table) -> CsvFormat:
    """Return what the table [csv] says; what is wrong is reported."""
    if "csv" not in root.values:
        return CsvFormat()
    table = root.table("csv", "a table with separator, date_format or decimal, [csv]")
    if table is None:
        return CsvFormat()
    if table.values.get("encoding", "utf-8") != "utf-8":
        hint = "Convert the file first: iconv -f latin1 -t utf-8 old.csv > new.csv."
        table.refuse("encoding", '"utf-8"', hint=hint)
    table.only(("separator", "encoding", "date_format", "decimal"), "[csv]")
    form = CsvFormat(
        separator=_text(table, "separator", ",", 'one character, such as ";"', _is_separator),
        date_format=_text(table, "date_format", "", 'a format, such as "%d.%m.%Y"', _is_format)
        or None,
        decimal=_text(table, "decimal", ".", '"." or ","', (".", ",").__contains__),
    )
    if form.separator == form.decimal:
        table.refuse("decimal", "another character than separator")
    return form


def _text(table: Table, name: str, default: str, allowed: str, right: Callable[[str], bool]) -> str:
    given = table.values.get(name, default)
    if name in table.values and not (isinstance(given, str) and right(given)):
        table.refuse(name, allowed)
        return default
    return str(given)


def _is_separator(text: str) -> bool:
    return len(text) == 1 and text not in '\r\n"' and (text.isprintable() or text == "\t")


def _is_format(text: str) -> bool:
    return all(f"%{part}" in text for part in "dm") and ("%Y" in text or "%y" in text)
