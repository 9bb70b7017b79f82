"""Checking expressions: names against the domain, all else against the allow-list.

Every mistake is collected with the place where it stands, why it is one, and a way out.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from sqlmadp.errors import Problem
from sqlmadp.schema.domain import Domain
from sqlmadp.sql.allowed import (
    CLOCK_AND_SESSION,
    COUNTS,
    EXPRESSIONS,
    FUNCTIONS,
    TYPES,
    has_only_known_fields,
    is_aggregate,
)
from sqlmadp.sql.statements import Span, Statement
from sqlmadp.sql.syntax import Node, children, span

_COUNT_HINT = "Ask for counts instead: SELECT {key}, COUNT(*) FROM {table} GROUP BY {key}."

_CLASSES = {
    "SUBQUERY": ("subquery", "subqueries are not supported yet", ""),
    "WINDOW": ("window", "window functions are not supported yet", ""),
    "PARAMETER": (
        "parameter",
        "bind parameters are not supported",
        "Write the value into the statement.",
    ),
    "LAMBDA": ("lambda", "lambda functions are not supported", ""),
    "POSITIONAL_REFERENCE": (
        "positional-reference",
        "columns are not known by number",
        "Name the column.",
    ),
    "COLLATE": (
        "collation",
        "collations are not supported",
        "Compare lower(...) with lower(...) instead.",
    ),
}

Functions = dict[str, tuple[str, str]]
"""Type and stability of every function that DuckDB knows."""


class ExpressionChecker:
    """Collects the mistakes in the expressions of one statement."""

    def __init__(self, statement: Statement, domain: Domain, functions: Functions) -> None:
        self.problems: list[Problem] = []
        self.statement, self.domain, self._functions = statement, domain, functions
        self.tables = {domain.table.casefold()}
        """The names that may stand before a column."""
        self.aliases: set[str] = set()
        """The names that the statement gives to its result columns."""

    def refuse(self, code: str, message: str, hint: str = "", at: Span | None = None) -> None:
        """Note a mistake."""
        self.problems.append(self.statement.problem(code, message, hint=hint, span=at))

    def refuse_rows(self, at: Span | None) -> None:
        """Note that records themselves are asked for."""
        hint = _COUNT_HINT.format(key=self.domain.columns[0].name, table=self.domain.table)
        self.refuse("rows", "this would return rows of individuals", hint, at)

    def check_expression(self, node: Node | None, *, aggregates: bool) -> None:
        """Note every mistake in an expression, which may hold aggregates or not."""
        if node is None:
            return
        kind = node["class"]
        if (kind, node["type"]) not in EXPRESSIONS or not has_only_known_fields(node, kind):
            self._refuse_node(node)
            return
        match kind:
            case "COLUMN_REF":
                self._check_column(node)
            case "CAST":
                self._check_type(node["type_expr"])
            case "FUNCTION":
                if not self._check_function(node, aggregates=aggregates):
                    return
                # Neither FILTER nor an argument may hold another aggregate.
                aggregates = aggregates and not is_aggregate(node)
        for child in children(node):
            self.check_expression(child, aggregates=aggregates)

    def _refuse_node(self, node: Node) -> None:
        if node["class"] == "STAR":
            self.refuse_rows(span(node))
            return
        code, message, hint = _CLASSES.get(
            node["class"],
            ("construct", f"this construct is not supported ({node['type']})", ""),
        )
        self.refuse(code, message, hint, span(node))

    def _check_column(self, node: Node) -> None:
        *qualifier, name = node["column_names"]
        if len(qualifier) == 1 and qualifier[0].casefold() not in self.tables:
            hint = _nearest(qualifier[0], self.tables)
            self.refuse("unknown-table", f"there is no table {qualifier[0]!r}", hint, span(node))
        elif len(qualifier) > 1:
            self.refuse("unknown-column", f"there is no column {name!r} here", "", span(node))
        elif name in self.domain or (not qualifier and name.casefold() in self.aliases):
            return
        elif name.casefold() in CLOCK_AND_SESSION:
            self._refuse_nondeterministic(name, span(node))
        else:
            self.refuse(
                "unknown-column",
                f"there is no column {name!r}",
                self._column_hint(name, span(node)),
                span(node),
            )

    def _column_hint(self, name: str, at: Span | None) -> str:
        if nearest := _nearest(name, [column.name for column in self.domain.columns]):
            return nearest
        text = self.statement.text.encode()
        if at and text[at[0] : at[0] + 1] == b'"':
            return f"Double quotes name a column; text is written '{name}'."
        columns = ", ".join(column.name for column in self.domain.columns)
        return f"The declared columns are {columns}."

    def _check_type(self, node: Node) -> None:
        name = node.get("type_name", "")
        constants = all(child["class"] == "CONSTANT" for child in node.get("children", ()))
        plain = node["class"] == "TYPE" and has_only_known_fields(node, "TYPE") and constants
        if not plain or node["schema"] or node["catalog"] or name.casefold() not in TYPES:
            self.refuse(
                "type",
                f"casting to {name or 'this type'} is not supported",
                "Cast to a number, VARCHAR, BOOLEAN, DATE, TIMESTAMP, TIME or INTERVAL.",
                span(node),
            )

    # Functions.

    def _check_function(self, node: Node, *, aggregates: bool) -> bool:
        """Return whether the function may be used, after recording why not."""
        name, at = node["function_name"].lower(), span(node)
        before = len(self.problems)
        if node["schema"] or node["catalog"]:
            self.refuse("function", "functions are named without a schema", "", at)
        elif name in COUNTS:
            self._check_count(node, name, aggregates=aggregates)
        elif name not in FUNCTIONS:
            self._refuse_function(name, at)
        elif node["distinct"] or node["filter"] or node["order_bys"]["orders"]:
            self.refuse("function", f"{name} is not an aggregate", "", at)
        if any(argument["name"] for argument in node["arguments"]) or node["export_state"]:
            self.refuse("function", f"named arguments of {name} are not supported", "", at)
        return len(self.problems) == before

    def _check_count(self, node: Node, name: str, *, aggregates: bool) -> None:
        at = span(node)
        if not aggregates:
            self.refuse(
                "misplaced-aggregate",
                f"{_shown(name)} cannot stand in WHERE, GROUP BY, FILTER or another aggregate",
                "Conditions on counts belong into HAVING.",
                at,
            )
        elif node["distinct"]:
            self.refuse(
                "count-distinct",
                "COUNT(DISTINCT ...) is not supported: one record can change it or not, "
                "depending on all others",
                "Ask for COUNT(*) with GROUP BY: every value that the domain allows is returned.",
                at,
            )
        elif node["order_bys"]["orders"]:
            self.refuse("function", "the order of records does not change a count", "", at)
        elif any(argument["expression"]["class"] == "STAR" for argument in node["arguments"]):
            self.refuse("count-star", "only COUNT(*) takes a star", "Write COUNT(*).", at)
        elif len(node["arguments"]) > 1:
            self.refuse("function", f"{_shown(name)} takes one argument", "", at)

    def _refuse_function(self, name: str, at: Span | None) -> None:
        kind, stability = self._functions.get(name, ("", ""))
        if name in ("min", "max", "arg_min", "arg_max", "min_by", "max_by", "first", "last"):
            self.refuse(
                "min-max",
                f"{self._source(name, at)} depends on a single record, so no noise can hide it",
                "Ask for counts by range instead, with CASE or integer division in GROUP BY.",
                at,
            )
        elif kind == "aggregate":
            self.refuse(
                "aggregate",
                f"{self._source(name, at)} is not supported yet",
                "GROUP BY the column and ask for COUNT(*): its values and counts hold the answer.",
                at,
            )
        elif kind in ("scalar", "macro") and stability not in ("", "CONSISTENT"):
            self._refuse_nondeterministic(name, at)
        elif kind == "window":
            self.refuse(*_CLASSES["WINDOW"], at)
        elif kind in ("table", "table_macro"):
            self.refuse("table-function", f"{name} is a table function", "", at)
        elif kind:
            self.refuse("function", f"the function {name} is not supported", "", at)
        else:
            hint = _nearest(name, FUNCTIONS)
            self.refuse("unknown-function", f"there is no function {name!r}", hint, at)

    def _source(self, name: str, at: Span | None) -> str:
        """Return a function call as the analyst wrote it, or its name if that is long."""
        start, length = at or (0, 0)
        text = self.statement.text.encode()[start : start + length].decode()
        return text if 0 < len(text) <= 40 and "\n" not in text else name.upper()

    def _refuse_nondeterministic(self, name: str, at: Span | None) -> None:
        self.refuse(
            "nondeterministic",
            f"{name} does not give the same value every time",
            "Write the value itself, for example DATE '2024-01-31'.",
            at,
        )


def _shown(name: str) -> str:
    return "COUNT(*)" if name == "count_star" else name.upper()


def _nearest(name: str, known: Iterable[str]) -> str:
    by_fold = {candidate.casefold(): candidate for candidate in known}
    close = difflib.get_close_matches(name.casefold(), by_fold, n=1)
    return f"Did you mean {by_fold[close[0]]!r}?" if close else ""
