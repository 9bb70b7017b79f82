"""Bind parameters: values written into a statement in place of ``?``, ``$1`` and ``$name``.

A value becomes a literal of its own type before the statement is parsed again, so it is never
read as SQL, and binding, messages and the hash of a release see the statement with its values.
"""

from __future__ import annotations

import datetime
import numbers
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache

from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from sqlmadp.sql.dialects import grammar_of
from sqlmadp.sql.statements import Statement

Parameters = Sequence[object] | Mapping[str, object]


def with_parameters(statement: Statement, values: Parameters) -> Statement:
    """Return a statement with its parameters replaced by literals of ``values``.

    A sequence gives the values of ``?`` and ``$1``, ``$2``, ...; a mapping those of ``$name``.
    Further values of a mapping are left out; a sequence must fit exactly.
    """
    places = _places(statement.text, statement.dialect)
    given = (
        {str(key): value for key, value in values.items()}
        if isinstance(values, Mapping)
        else {str(place): value for place, value in enumerate(values, start=1)}
    )
    by_fold = {name.casefold(): value for name, value in given.items()}
    wanted = {name.casefold() for name, _, _ in places}
    if not isinstance(values, Mapping) and len(wanted) != len(values):
        given_words = "1 parameter value was" if len(values) == 1 else f"{len(values)} values were"
        has = f"{len(wanted)} placeholders" if wanted else "no placeholders"
        has = "1 placeholder" if len(wanted) == 1 else has
        raise statement.refuse(
            "parameter",
            f"{given_words} passed, but the statement has {has}",
            hint="Placeholders are ?, $1 or $name (not %s or :name).",
        )
    text = statement.text
    for name, start, length in sorted(places, key=lambda place: -place[1]):
        if name.casefold() not in by_fold:
            raise statement.refuse(
                "parameter",
                f"no value is given for the parameter {_shown(name)}",
                hint="Give values in the plan, under [analysts.NAME.parameters], or in Python.",
                span=(start, length),
            )
        value = literal(by_fold[name.casefold()])
        if value is None:
            raise statement.refuse(
                "parameter",
                f"the value of {_shown(name)} cannot become a SQL value",
                hint="Use text, a number, a boolean, a date, a time, bytes, a UUID, None or a "
                "list of them.",
                span=(start, length),
            )
        text = text[:start] + value + text[start + length :]
    return _replaced(statement, text)


def _replaced(statement: Statement, text: str) -> Statement:
    """Return a statement with another text, at the same place of a file that holds it."""
    if not statement.source:
        return replace(statement, text=text)
    end = statement.start + len(statement.text)
    source = statement.source[: statement.start] + text + statement.source[end:]
    return replace(statement, text=text, source=source)


@lru_cache(maxsize=1000)  # A statement is often executed again with other values.
def _places(text: str, dialect: str) -> tuple[tuple[str, int, int], ...]:
    """Return name, start and length of every parameter; none if the text has no tokens."""
    if "?" not in text and "$" not in text:
        return ()
    try:
        tokens = grammar_of(dialect).tokenize(text)
    except SqlglotError:
        return ()
    found: list[tuple[str, int, int]] = []
    asked = 0
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        if token.token_type == TokenType.PLACEHOLDER:
            asked += 1
            found.append((str(asked), token.start, token.end + 1 - token.start))
        elif (
            token.token_type == TokenType.PARAMETER
            and after is not None
            and after.start == token.end + 1  # A name or number stands right behind the sign.
        ):
            found.append((after.text, token.start, after.end + 1 - token.start))
    return tuple(found)


def _shown(name: str) -> str:
    return f"number {name}" if name.isdigit() else f"${name}"


# Values from Python as SQL that can be nothing but that value:
#
#     '...'                   text, which SQL also reads as a date or a number where it needs one
#     CAST('...' AS type)     all else, of the type that DuckDB gives the same Python value
#
# with every quote doubled: not SQL of another kind, and not the number of a column in ORDER BY.


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
