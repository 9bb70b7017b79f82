"""Checking expressions: names against the domain, all else against the allow-list.

Every mistake is collected with the place where it stands, why it is one, and a way out.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Literal

from sqlmadp.errors import Problem
from sqlmadp.schema.domain import Domain
from sqlmadp.sql.aggregates import PRIVATE, QUANTILES, arguments, canonical, is_aggregate
from sqlmadp.sql.allowed import (
    AROUND,
    CLOCK_AND_SESSION,
    EXPRESSIONS,
    FUNCTIONS,
    OUTER_AGGREGATES,
    TYPES,
    WINDOWS,
    has_only_known_fields,
)
from sqlmadp.sql.records import Records
from sqlmadp.sql.statements import Span, Statement
from sqlmadp.sql.syntax import Node, children, span

_COUNT_HINT = "Ask for counts instead: SELECT {key}, COUNT(*) FROM {table} GROUP BY {key}."

_CLASSES = {
    "WINDOW": (
        "window",
        "a window function here would look at single records",
        "Windows run over answers: SUM(COUNT(*)) OVER (ORDER BY age), with GROUP BY age.",
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

_SINGLE = frozenset(
    {"min", "max", "arg_min", "arg_max", "argmin", "argmax", "min_by", "max_by", "first", "last"}
    | {"any_value", "arbitrary", "bool_and", "bool_or"}
)
"""Aggregates that one record can decide."""

Functions = dict[str, tuple[str, str]]
"""Type and stability of every function that DuckDB knows."""

Over = Literal["records", "block", "answers"]
"""What an expression runs over: single records, the groups of a private block, or answers."""


class ExpressionChecker:
    """Collects the mistakes in the expressions of one statement."""

    def __init__(self, statement: Statement, domain: Domain, functions: Functions) -> None:
        self.problems: list[Problem] = []
        self.statement, self.domain, self._functions = statement, domain, functions
        self.records: Records | None = None
        """The columns that names stand for, where they are known."""
        self.aliases: set[str] = set()
        """The names that the SELECT gives to its result columns."""

    def refuse(self, code: str, message: str, hint: str = "", at: Span | None = None) -> None:
        """Note a mistake."""
        self.problems.append(self.statement.problem(code, message, hint=hint, span=at))

    def refuse_rows(self, at: Span | None) -> None:
        """Note that records themselves are asked for."""
        hint = _COUNT_HINT.format(key=self.domain.columns[0].name, table=self.domain.table)
        self.refuse("rows", "this would return rows of individuals", hint, at)

    def check_expression(self, node: Node | None, over: Over) -> None:
        """Note every mistake in an expression."""
        if node is None:
            return
        kind = node["class"]
        known = (kind, node["type"]) in EXPRESSIONS or (
            over != "records" and (kind, node["type"]) in AROUND
        )
        if not known or not has_only_known_fields(node, kind):
            self._refuse_node(node)
            return
        match kind:
            case "COLUMN_REF":
                self._check_column(node)
            case "CAST":
                self._check_type(node["type_expr"])
            case "STAR":
                self._check_star(node, over)
                return
            case "WINDOW":
                self._check_window(node)
            case "FUNCTION":
                if not self._check_function(node, over):
                    return
                if over == "block" and is_aggregate(node):
                    over = "records"  # Neither FILTER nor an argument may hold another aggregate.
        for child in children(node):
            self.check_expression(child, over)

    def is_any_aggregate(self, name: str) -> bool:
        """Return whether DuckDB knows a function as an aggregate, answered here or not."""
        return name.lower() in PRIVATE or self._functions.get(name.lower(), ("",))[0] == "aggregate"

    def _check_star(self, node: Node, over: Over) -> None:
        if over == "block" or node["columns"]:
            self.refuse_rows(span(node))
        for replaced in node["replace_list"]:
            self.check_expression(replaced["value"], over)

    def _check_window(self, node: Node) -> None:
        name = node["function_name"].lower()
        if name not in WINDOWS or node["schema"] or node["catalog"]:
            self.refuse("function", f"the window function {name} is not supported", "", span(node))

    def _refuse_node(self, node: Node) -> None:
        if node["class"] == "STAR":
            self.refuse_rows(span(node))
            return
        if node["class"] == "SUBQUERY":
            self._refuse_subquery(node)
            return
        code, message, hint = _CLASSES.get(
            node["class"],
            ("construct", f"this construct is not supported ({node['type']})", ""),
        )
        self.refuse(code, message, hint, span(node))

    def _refuse_subquery(self, node: Node) -> None:
        """Refuse a condition on records that depends on answers, with the way to do it."""
        self.refuse(
            "private-subquery",
            "a condition on records cannot depend on the answer of another query: what is counted "
            "must be known before anything is measured",
            "Do it in two steps: ask the inner SELECT by itself first, then write its answer into "
            "this statement as a number. (Over answers, in HAVING or an outer SELECT, subqueries "
            "are fine; values of a public table are joined.)",
            span(node),
        )

    def _check_column(self, node: Node) -> None:
        if self.records is None:
            return  # DuckDB knows the names of answers, and says so if one is not there.
        *qualifier, name = node["column_names"]
        qualifiers = self.records.qualifiers
        if len(qualifier) == 1 and qualifier[0].casefold() not in map(str.casefold, qualifiers):
            hint = nearest(qualifier[0], qualifiers)
            self.refuse("unknown-table", f"there is no table {qualifier[0]!r}", hint, span(node))
        elif len(qualifier) > 1:
            self.refuse("unknown-column", f"there is no column {name!r} here", "", span(node))
        elif self._is_known(node, self.records):
            return
        elif name.casefold() in CLOCK_AND_SESSION:
            self._refuse_nondeterministic(name, span(node))
        else:
            self.refuse(
                "unknown-column",
                f"there is no column {name!r}",
                self._column_hint(name, span(node), self.records.names),
                span(node),
            )

    def _is_known(self, node: Node, records: Records) -> bool:
        names = node["column_names"]
        is_alias = len(names) == 1 and names[0].casefold() in self.aliases
        return is_alias or records.find(names) is not None

    def _column_hint(self, name: str, at: Span | None, known: list[str]) -> str:
        if near := nearest(name, known):
            return near
        text = self.statement.text.encode()
        if at and text[at[0] : at[0] + 1] == b'"':
            return f"Double quotes name a column; text is written '{name}'."
        return f"The columns here are {', '.join(known)}."

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

    def _check_function(self, node: Node, over: Over) -> bool:
        """Return whether the function may be used, after recording why not."""
        name, at = node["function_name"].lower(), span(node)
        before = len(self.problems)
        if node["schema"] or node["catalog"]:
            self.refuse("function", "functions are named without a schema", "", at)
        elif over == "answers" and name in OUTER_AGGREGATES:
            pass
        elif name in PRIVATE:
            self._check_aggregate(node, name, over)
        elif name not in FUNCTIONS:
            self._refuse_function(name, at)
        elif node["distinct"] or node["filter"] or node["order_bys"]["orders"]:
            self.refuse("function", f"{name} is not an aggregate", "", at)
        if any(argument["name"] for argument in node["arguments"]) or node["export_state"]:
            self.refuse("function", f"named arguments of {name} are not supported", "", at)
        return len(self.problems) == before

    def _check_aggregate(self, node: Node, name: str, over: Over) -> None:
        at = span(node)
        within = canonical(name) in QUANTILES | {"mode"}
        if over == "records":
            self.refuse(
                "misplaced-aggregate",
                f"{_shown(name)} cannot stand in WHERE, GROUP BY, FILTER or another aggregate",
                "Conditions on counts belong into HAVING.",
                at,
            )
        elif node["distinct"]:
            self.refuse(
                "count-distinct",
                f"{_shown(name)} of DISTINCT values is not supported: one record can change it "
                "or not, depending on all others",
                "Ask for COUNT(*) with GROUP BY: every value that the domain allows is returned.",
                at,
            )
        elif node["order_bys"]["orders"] and not within:
            self.refuse("function", f"the order of records does not change {name}", "", at)
        elif any(argument["expression"]["class"] == "STAR" for argument in node["arguments"]):
            self.refuse("count-star", "only COUNT(*) takes a star", "Write COUNT(*).", at)
        elif len(node["arguments"]) not in arguments(node):
            self.refuse("function", f"{_shown(name)} does not take such arguments", "", at)
        elif len(node["order_bys"]["orders"]) > 1:
            self.refuse("function", f"{name} is ordered by one value", "", at)

    def _refuse_function(self, name: str, at: Span | None) -> None:
        kind, stability = self._functions.get(name, ("", ""))
        if name in _SINGLE:
            self.refuse(
                "min-max",
                f"{self._source(name, at)} depends on a single record, so no noise can hide it",
                f"Ask for a {'low' if 'min' in name else 'high'} quantile instead: "
                f"QUANTILE_CONT(..., {'0.01' if 'min' in name else '0.99'}).",
                at,
            )
        elif kind == "aggregate":
            self.refuse(
                "aggregate",
                f"{self._source(name, at)} is not supported",
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
            hint = nearest(name, FUNCTIONS)
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


def nearest(name: str, known: Iterable[str]) -> str:
    """Return advice that names the known word nearest to ``name``; empty if none is near."""
    by_fold = {candidate.casefold(): candidate for candidate in known}
    close = difflib.get_close_matches(name.casefold(), by_fold, n=1)
    return f"Did you mean {by_fold[close[0]]!r}?" if close else ""
