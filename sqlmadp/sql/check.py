"""Checking: every reason why a statement cannot be answered, each with a way out.

The shape of the statement is checked first (one SELECT over the declared table), then
every expression against the allow-list, and every name against the domain.  All mistakes
are collected, so that an analyst mends a statement once.
"""

from __future__ import annotations

from sqlmadp.errors import SqlError
from sqlmadp.schema.domain import Domain
from sqlmadp.sql.allowed import has_only_known_fields, is_aggregate
from sqlmadp.sql.expressions import ExpressionChecker, Functions
from sqlmadp.sql.statements import Statement
from sqlmadp.sql.syntax import Node, is_column, span, walk

MAX_NODES = 100_000
"""How large a statement may grow when aliases are replaced by what they stand for."""

_TABLES = {
    "JOIN": ("join", "joins are not supported yet"),
    "SUBQUERY": ("subquery", "subqueries are not supported yet"),
    "TABLE_FUNCTION": ("table-function", "table functions are not supported"),
    "EXPRESSION_LIST": ("values", "VALUES lists are not supported"),
    "SHOW_REF": ("not-a-select", "only SELECT statements are answered"),
    "PIVOT": ("pivot", "PIVOT is not supported"),
    "EMPTY": ("no-table", "the statement reads no table"),
}


def check(select: Node, statement: Statement, domain: Domain, functions: Functions) -> None:
    """Raise an SqlError with every mistake that is found in a statement, if any is."""
    checker = _Checker(statement, domain, functions)
    checker.check(select)
    if checker.problems:
        raise SqlError(checker.problems)


class _Checker(ExpressionChecker):
    def check(self, select: Node) -> None:
        if select["type"] != "SELECT_NODE":
            self.refuse(
                "set-operation",
                "UNION, INTERSECT and EXCEPT are not supported yet",
                "Write one statement for each SELECT.",
            )
            return
        self._check_clauses(select)
        self._check_table(select["from_table"])
        if self.problems:
            return
        items = select["select_list"]
        self.aliases = {item["alias"].casefold() for item in items if item["alias"]}
        for item in items:
            self.check_expression(item, aggregates=True)
        for node in (select["where_clause"], *select["group_expressions"]):
            self.check_expression(node, aggregates=False)
        self.check_expression(select["having"], aggregates=True)
        for modifier in select["modifiers"]:
            self._check_modifier(modifier)
        if not self.problems:
            self._check_rows(select)
            self._check_growth(select)

    def _check_growth(self, select: Node) -> None:
        """Refuse aliases of aliases that grow without end when they are replaced."""
        sizes: dict[str, int] = {}

        def size(node: Node) -> int:
            parts = [part["column_names"][-1] if is_column(part) else "" for part in walk(node)]
            return sum(
                1 if not name or name in self.domain else sizes.get(name.casefold(), 1)
                for name in parts
            )

        total = 0
        for node in _expressions(select):
            grown = size(node)
            total += grown
            if node["alias"]:
                sizes[node["alias"].casefold()] = grown
        if total > MAX_NODES:
            self.refuse(
                "too-large",
                f"the statement has {total:,} parts once aliases are replaced by what they "
                f"stand for; at most {MAX_NODES:,} are supported",
            )

    def _check_clauses(self, select: Node) -> None:
        sets = select["group_sets"]
        plain = len(sets) <= 1 and (not sets or len(sets[0]) == len(select["group_expressions"]))
        refusals = [
            (not has_only_known_fields(select, "SELECT_NODE"), "syntax", "this form of SELECT"),
            (select["cte_map"] != {"map": []}, "cte", "WITH"),
            (select["sample"], "sample", "sampling"),
            (select["qualify"], "qualify", "QUALIFY"),
            (not plain, "grouping-sets", "GROUP BY with ROLLUP, CUBE or GROUPING SETS"),
        ]
        for present, code, what in refusals:
            if present:
                self.refuse(code, f"{what} is not supported yet")

    def _check_table(self, table: Node) -> None:
        at = (table["query_location"], table["query_location_length"])
        at_table = at if at[1] else None
        known = f"The declared table is {self.domain.table!r}."
        if table["type"] != "BASE_TABLE":
            code, message = _TABLES.get(table["type"], ("table", "this FROM is not supported"))
            self.refuse(code, message, known, at_table)
            return
        if table["schema_name"] or table["catalog_name"] or table["at_clause"]:
            self.refuse("unknown-table", "tables are named without a schema", known, at_table)
        elif table["table_name"].casefold() not in self.tables:
            self.refuse(
                "unknown-table", f"there is no table {table['table_name']!r}", known, at_table
            )
        if table["sample"]:
            self.refuse("sample", "sampling is not supported yet", "", at_table)
        if table["column_name_alias"]:
            self.refuse("column-alias", "columns cannot be renamed in FROM", "", at_table)
        if not has_only_known_fields(table, "BASE_TABLE"):
            self.refuse("table", "this FROM is not supported", known, at_table)
        if table["alias"]:
            self.tables = {table["alias"].casefold()}

    def _check_modifier(self, modifier: Node) -> None:
        match modifier["type"]:
            case "ORDER_MODIFIER":
                for order in modifier["orders"]:
                    node = order["expression"]
                    if not _is_order_by_all(node):
                        self.check_expression(node, aggregates=True)
            case "LIMIT_MODIFIER":
                for node in (modifier["limit"], modifier["offset"]):
                    self.check_expression(node, aggregates=False)
                    if node and any(is_column(part) for part in walk(node)):
                        self.refuse("limit", "LIMIT and OFFSET are constants", "", span(node))
            case "DISTINCT_MODIFIER":
                self.refuse(
                    "distinct",
                    "DISTINCT is not supported",
                    "GROUP BY returns every group that the domain allows, once.",
                )
            case other:
                self.refuse("syntax", f"{other} is not supported")

    def _check_rows(self, select: Node) -> None:
        """Refuse a statement whose result would be records rather than counts."""
        if any(is_aggregate(part) for node in _expressions(select) for part in walk(node)):
            return
        grouped = select["group_expressions"] or select["aggregate_handling"] != "STANDARD_HANDLING"
        if grouped:
            self.refuse(
                "no-aggregate",
                "the statement groups but counts nothing",
                "Add COUNT(*): every group that the domain allows is returned anyway.",
            )
        else:
            self.refuse_rows(span(select["select_list"][0]))


def _expressions(select: Node) -> list[Node]:
    """Return every expression of a SELECT, the select list first."""
    orders = [order for modifier in select["modifiers"] for order in modifier.get("orders", ())]
    nodes = [
        *select["select_list"],
        select["where_clause"],
        *select["group_expressions"],
        select["having"],
        *(order["expression"] for order in orders),
    ]
    return [node for node in nodes if node is not None]


def _is_order_by_all(node: Node) -> bool:
    return bool(node["class"] == "STAR" and node["columns"] and node["expr"] is None)
