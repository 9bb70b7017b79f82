"""Undeclared values: comparisons with a value that the schema does not declare.

    WHERE ward = 'cardiology'        the schema says 'Cardiology'

No record that is counted has such a value, so the comparison is most likely a slip.  It is
accepted all the same, since it means something to DuckDB, and noted.  A note rests on the schema
and the statement alone, never on what the table holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from sqlmadp.sql.check import nearest
from sqlmadp.sql.resolve import Resolved
from sqlmadp.sql.statements import Span
from sqlmadp.sql.tree import Node, constant, span, walk
from sqlmadp.table.domain import Column, Domain

COMPARED = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, exp.In)
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
            for name, value in _compared(part):
                text = constant(value)
                if not _is_declared(columns[name], value):
                    shown = repr(text) if value.is_string else text
                    yield Undeclared(
                        f"the schema declares no value {shown} of {name!r}, so none is counted",
                        _advice(columns[name], text),
                        span(value),
                    )


def _compared(node: Node) -> Iterator[tuple[str, Node]]:
    """Yield the column and each of the constants that it is compared with."""
    if isinstance(node, exp.Case) and node.this is not None:
        sides = [node.this, *(branch.this for branch in node.args["ifs"])]
    elif isinstance(node, COMPARED):
        sides = [node.this, *(node.expressions if isinstance(node, exp.In) else [node.expression])]
    else:
        return
    columns = [side for side in sides if isinstance(side, exp.Column)]
    if len(columns) == 1 and not columns[0].table:  # A public column has a qualifier.
        yield from ((columns[0].name, side) for side in sides if constant(side))


def _is_declared(column: Column, value: Node) -> bool:
    """Return whether a constant is a declared value, or of a kind that is not looked into."""
    text = constant(value)
    if column.sql_type == "VARCHAR" and value.is_string:
        return text in column.values
    if column.sql_type == "BIGINT" and text.removeprefix("-").isdigit() and not value.is_string:
        low, high = column.ordinal_bounds if not column.values else (0, 0)
        return int(text) in column.values if column.values else low <= int(text) <= high
    return True


def _literal(value: str) -> str:
    escaped = value.replace("'", "''")
    return f"'{escaped}'"


def _advice(column: Column, text: str) -> str:
    if not column.values:
        return f"It declares {column.minimum} to {column.maximum}."
    listed = ", ".join(repr(value) for value in column.values[:LISTED])
    more = ", ..." if len(column.values) > LISTED else ""
    return nearest(text, map(str, column.values), _literal) or f"It declares {listed}{more}."
