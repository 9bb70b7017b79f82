"""Checking expressions: names against the domain, all else against the allow-list.

Every mistake is collected with the place where it stands, why it is one, and a way out.
"""

from __future__ import annotations

from sqlmadp.schema.domain import Domain
from sqlmadp.sql.aggregates import is_aggregate
from sqlmadp.sql.allowed import (
    AROUND,
    CLOCK_AND_SESSION,
    EXPRESSIONS,
    TYPES,
    WINDOWS,
    has_only_known_fields,
)
from sqlmadp.sql.functions import WINDOW, FunctionChecker, Functions, Over, nearest
from sqlmadp.sql.records import Records
from sqlmadp.sql.statements import Span, Statement
from sqlmadp.sql.syntax import Node, children, span

_COUNT_HINT = "Ask for counts instead: SELECT {key}, COUNT(*) FROM {table} GROUP BY {key}."

_CLASSES = {
    "WINDOW": WINDOW,
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


class ExpressionChecker(FunctionChecker):
    """Collects the mistakes in the expressions of one statement."""

    def __init__(self, statement: Statement, domain: Domain, functions: Functions) -> None:
        super().__init__(statement, domain, functions)
        self.records: Records | None = None
        """The columns that names stand for, where they are known."""
        self.aliases: set[str] = set()
        """The names that the SELECT gives to its result columns."""

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
                if not self.check_function(node, over):
                    return
                if over == "block" and is_aggregate(node):
                    over = "records"  # Neither FILTER nor an argument may hold another aggregate.
        for child in children(node):
            self.check_expression(child, over)

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
        source = node["subquery"]["node"].get("from_table") or {}
        name = str(source.get("table_name", ""))
        if any(name.casefold() == public.name.casefold() for public in self.domain.public):
            self.refuse(
                "private-subquery",
                f"a condition on records cannot hold a subquery, not even of the public {name!r}",
                f"Join it: FROM {self.domain.table} SEMI JOIN {name} USING (...), or ANTI JOIN for "
                "NOT IN and NOT EXISTS.",
                span(node),
            )
            return
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
            self.refuse_nondeterministic(name, span(node))
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
