"""Real columns: a statement may only compare them with constants.

A real column has no list of values; its cells are what the statements' own constants cut
out (see ``schema.domain``).  A predicate is the same everywhere inside such a cell only if
the column occurs as a bare operand of a comparison with constants, so nothing else is let
through.  The constants are worked out by DuckDB, as DOUBLE, which is also how DuckDB
compares a DOUBLE with any number.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlmadp.schema.domain import Domain
from sqlmadp.sql.evaluate import EvaluationError, Evaluator
from sqlmadp.sql.statements import Statement
from sqlmadp.sql.syntax import Node, children, column_names, is_column, span

_NULL_TESTS = frozenset({"OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"})
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_NUMBERS = frozenset(
    {*_INTEGERS, *("U" + name for name in _INTEGERS), "FLOAT", "DOUBLE", "DECIMAL"}
)


def comparisons(node: Node, statement: Statement, domain: Domain) -> Iterator[tuple[str, Node]]:
    """Yield every (real column, constant) that an expression compares; refuse other uses."""
    if is_column(node):
        name = node["column_names"][0]
        if domain.column(name).type == "real":
            raise _refusal(node, statement, name)
        return
    operands = children(node)
    real = [
        part["column_names"][0]
        for part in operands
        if is_column(part) and domain.column(part["column_names"][0]).type == "real"
    ]
    if real and node["type"] in _NULL_TESTS:
        return
    if len(real) == 1 and _compares(node):
        others = [part for part in operands if not is_column(part)]
        if len(others) == len(operands) - 1 and not any(column_names(part) for part in others):
            for other in others:
                yield real[0], other
            return
    for part in operands:
        yield from comparisons(part, statement, domain)


def cut(evaluator: Evaluator, statement: Statement, column: str, constant: Node) -> float | None:
    """Return the number that a real column is compared with; None for NULL."""
    try:
        value, kind = evaluator.constant(constant)
    except EvaluationError as error:
        raise statement.refuse("evaluation", error.message, span=span(constant)) from None
    literal = constant["class"] == "CONSTANT"
    if not literal and kind.partition("(")[0] not in (*_NUMBERS, '"NULL"'):
        # DuckDB reads a text literal as a number here, but compares other types their own way.
        raise statement.refuse(
            "real-column",
            f"the real column {column!r} is compared with a {kind}",
            hint="Compare it with a number.",
            span=span(constant),
        )
    return value


def _compares(node: Node) -> bool:
    return node["class"] in ("COMPARISON", "BETWEEN") or node["type"] in (
        "COMPARE_IN",
        "COMPARE_NOT_IN",
    )


def _refusal(node: Node, statement: Statement, name: str) -> Exception:
    return statement.refuse(
        "real-column",
        f"the real column {name!r} can only be compared with constants or counted",
        hint=f"Use ranges: CASE WHEN {name} < 1000 THEN 'low' ELSE 'high' END, or "
        f"{name} BETWEEN 0 AND 1000.",
        span=span(node),
    )
