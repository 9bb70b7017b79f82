"""Bind parameters: values written into a statement in place of ``?``, ``$1`` and ``$name``.

A value becomes a literal of its own type before the statement is parsed again, so it is never
read as SQL, and binding, messages and the hash of a release see the statement with its values.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import duckdb

from sqlmadp.sql.literals import literal
from sqlmadp.sql.locked import SETTINGS
from sqlmadp.sql.statements import Statement

Parameters = Sequence[object] | Mapping[str, object]

_own = threading.local()  # A parser a thread, since opening one takes longer than its work.


def with_parameters(statement: Statement, values: Parameters) -> Statement:
    """Return a statement with its parameters replaced by literals of ``values``.

    A sequence gives the values of ``?`` and ``$1``, ``$2``, ...; a mapping those of ``$name``.
    Further values of a mapping are left out; a sequence must fit exactly.
    """
    places = _places(statement.text)
    given = (
        {str(key): value for key, value in values.items()}
        if isinstance(values, Mapping)
        else {str(place): value for place, value in enumerate(values, start=1)}
    )
    by_fold = {name.casefold(): value for name, value in given.items()}
    wanted = {name.casefold() for name, _, _ in places}
    if not isinstance(values, Mapping) and len(wanted) != len(values):
        raise statement.refuse(
            "parameter", f"{len(values)} values are given for {len(wanted)} parameters"
        )
    text = statement.text.encode()
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
        text = text[:start] + value.encode() + text[start + length :]
    return _replaced(statement, text.decode())


def _replaced(statement: Statement, text: str) -> Statement:
    """Return a statement with another text, at the same place of a file that holds it."""
    if not statement.source:
        return replace(statement, text=text)
    end = statement.start + len(statement.text)
    source = statement.source[: statement.start] + text + statement.source[end:]
    return replace(statement, text=text, source=source)


@lru_cache(maxsize=1000)  # A statement is often executed again with other values.
def _places(text: str) -> tuple[tuple[str, int, int], ...]:
    """Return name, start and length of every parameter; none if the text does not parse."""
    if "?" not in text and "$" not in text:
        return ()
    if not hasattr(_own, "parser"):
        _own.parser = duckdb.connect(":memory:", config=SETTINGS)
    ((tree,),) = _own.parser.execute("SELECT json_serialize_sql(?)", [text]).fetchall()
    found: list[tuple[str, int, int]] = []
    try:
        pending: list[Any] = [json.loads(tree)]
    except RecursionError:
        return ()
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            if part.get("class") == "PARAMETER":
                found.append(
                    (part["identifier"], part["query_location"], part["query_location_length"])
                )
            pending.extend(part.values())
        elif isinstance(part, list):
            pending.extend(part)
    return tuple(found)


def _shown(name: str) -> str:
    return f"number {name}" if name.isdigit() else f"${name}"
