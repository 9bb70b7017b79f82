"""Undeclared values: comparisons with a value that the schema does not declare.

    WHERE ward = 'cardiology'        the schema says 'Cardiology'

No record that is counted has such a value, so the comparison is most likely a slip.  It is
accepted all the same, since it means something to DuckDB, and noted.  A note rests on the schema
and the statement alone, never on what the table holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlmadp.schema.domain import Column, Domain
from sqlmadp.sql.functions import nearest
from sqlmadp.sql.resolved import Resolved
from sqlmadp.sql.statements import Span
from sqlmadp.sql.syntax import Node, is_column, span, walk

COMPARED = frozenset(
    {
        *("COMPARE_EQUAL", "COMPARE_NOTEQUAL", "COMPARE_IN", "COMPARE_NOT_IN"),
        *("COMPARE_DISTINCT_FROM", "COMPARE_NOT_DISTINCT_FROM"),
    }
)
"""Comparisons that ask for a value itself."""

LISTED = 5
"""Declared values that a note lists."""


@dataclass(frozen=True)
class Undeclared:
    """A value that a statement compares a column with, and the schema does not declare."""

    message: str
    hint: str
    span: Span | None


def undeclared_values(resolved: Resolved, domain: Domain) -> Iterator[Undeclared]:
    """Yield every constant that no declared value of the column beside it equals."""
    columns = {column.name: column for column in domain.columns}
    for node in (*resolved.predicates(), *resolved.keys, *resolved.values()):
        for part in walk(node):
            for name, constant in _compared(part):
                kind, text = constant["literal"]["kind"], constant["literal"]["text"]
                if not _is_declared(columns[name], kind, text):
                    shown = repr(text) if kind == "STRING" else text
                    yield Undeclared(
                        f"the schema declares no value {shown} of {name!r}, so none is counted",
                        _advice(columns[name], text),
                        span(constant),
                    )


def _compared(node: Node) -> Iterator[tuple[str, Node]]:
    """Yield the column and each of the constants that it is compared with."""
    if node["type"] not in COMPARED:
        return
    sides = node["children"] if node["class"] == "OPERATOR" else [node["left"], node["right"]]
    names = [side["column_names"] for side in sides if is_column(side)]
    if len(names) == 1 and len(names[0]) == 1:  # A public column has a qualifier.
        yield from ((names[0][0], side) for side in sides if side["class"] == "CONSTANT")


def _is_declared(column: Column, kind: str, text: str) -> bool:
    """Return whether a constant is a declared value, or of a kind that is not looked into."""
    match column.sql_type, kind:
        case "VARCHAR", "STRING":
            return text in column.values
        case "BIGINT", "INTEGER" if column.values:
            return int(text) in column.values
        case "BIGINT", "INTEGER":
            low, high = column.ordinal_bounds
            return low <= int(text) <= high
    return True


def _advice(column: Column, text: str) -> str:
    if not column.values:
        return f"It declares {column.minimum} to {column.maximum}."
    listed = ", ".join(repr(value) for value in column.values[:LISTED])
    more = ", ..." if len(column.values) > LISTED else ""
    return nearest(text, map(str, column.values)) or f"It declares {listed}{more}."
