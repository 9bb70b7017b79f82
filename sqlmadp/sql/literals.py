"""Literals: values from Python as SQL that can be nothing but that value.

    '...'                   text, which SQL also reads as a date or a number where it needs one
    CAST('...' AS type)     all else, of the type that DuckDB gives the same Python value

with every quote doubled: not SQL of another kind, and not the number of a column in ORDER BY.
"""

from __future__ import annotations

import datetime
import numbers
import uuid
from decimal import Decimal


def literal(value: object) -> str | None:
    """Return a value as a literal of its own type; None if DuckDB has none for it."""
    if value is None:
        return "NULL"
    if isinstance(value, list | tuple):
        items = [literal(item) for item in value]
        known = [item for item in items if item is not None]
        return f"[{', '.join(known)}]" if len(known) == len(items) else None
    if isinstance(value, str):
        quoted = value.replace("'", "''")
        return f"'{quoted}'" if is_sql_text(value) else None
    typed = _typed(value)
    return None if typed is None else f"CAST('{typed[0]}' AS {typed[1]})"


def is_sql_text(text: str) -> bool:
    """Tell whether text can be part of a statement: UTF-8 without zero characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def _typed(value: object) -> tuple[str, str] | None:
    """Return the text, which holds no quote, and the DuckDB type of a value."""
    match value:
        case bool():
            return str(value).lower(), "BOOLEAN"
        case numbers.Integral():
            return _integer(int(value))
        case Decimal():
            return _decimal(value)
        case numbers.Real():
            return repr(float(value)), "DOUBLE"
        case datetime.datetime():
            zone = " WITH TIME ZONE" if value.tzinfo else ""
            return value.isoformat(sep=" "), f"TIMESTAMP{zone}"
        case datetime.date():
            return value.isoformat(), "DATE"
        case datetime.time():
            zone = " WITH TIME ZONE" if value.tzinfo else ""
            return value.isoformat(), f"TIME{zone}"
        case datetime.timedelta():
            microseconds = value // datetime.timedelta(microseconds=1)
            return f"{microseconds} microseconds", "INTERVAL"
        case bytes() | bytearray() | memoryview():
            return "".join(f"\\x{byte:02X}" for byte in bytes(value)), "BLOB"
        case uuid.UUID():
            return str(value), "UUID"
    if type(value).__name__ in {"bool", "bool_"} and hasattr(value, "item"):
        return _typed(value.item())  # numpy's truth values are no numbers to Python.
    return None


def _integer(value: int) -> tuple[str, str] | None:
    for bits, kind in ((31, "INTEGER"), (63, "BIGINT"), (127, "HUGEINT")):
        if -(2**bits) <= value < 2**bits:
            return str(value), kind
    return None


def _decimal(value: Decimal) -> tuple[str, str] | None:
    if not value.is_finite():
        return repr(float(value)), "DOUBLE"
    text = format(value, "f")
    digits, scale = sum(mark.isdigit() for mark in text), len(text.partition(".")[2])
    return (text, f"DECIMAL({digits},{scale})") if digits <= 38 else None
