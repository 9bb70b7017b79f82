"""FROM clauses: what each one reads, records or answers, and whether it may."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from sqlmadp.schema.domain import Domain
from sqlmadp.sql.allowed import has_only_known_fields
from sqlmadp.sql.functions import nearest
from sqlmadp.sql.joins import join_public
from sqlmadp.sql.limits import Limits
from sqlmadp.sql.records import Public, Records, declared
from sqlmadp.sql.sandbox import Sandbox
from sqlmadp.sql.selects import SelectChecker
from sqlmadp.sql.statements import Span, Statement
from sqlmadp.sql.syntax import Node

_TABLES = {
    "TABLE_FUNCTION": ("table-function", "table functions are not supported"),
    "SHOW_REF": ("not-a-select", "only SELECT statements are answered"),
    "PIVOT": ("pivot", "PIVOT is not supported"),
}


@dataclass(frozen=True)
class Answers:
    """A FROM clause over released answers, public tables or constants."""

    node: Node


Source = Records | Public | Answers


class SourceChecker(SelectChecker, ABC):
    """Collects the mistakes in FROM clauses."""

    def __init__(
        self, statement: Statement, domain: Domain, sandbox: Sandbox, limits: Limits
    ) -> None:
        super().__init__(statement, domain, sandbox, limits)
        self._joined = 0

    @abstractmethod
    def query(
        self, node: Node, ctes: Mapping[str, Source], *, top: bool = False
    ) -> Node | Records | None:
        """Return a query over answers, or the records it yields; None if it has mistakes."""

    @abstractmethod
    def over_answers(self, node: Node, ctes: Mapping[str, Source]) -> Node:
        """Return an expression over answers, checked, with the queries inside it rewritten."""

    def read_from(self, table: Node, ctes: Mapping[str, Source]) -> Source | None:
        """Return what a FROM clause reads; None if it has mistakes."""
        kind = table["type"]
        at = place_of(table)
        if table.get("sample"):
            self.refuse(
                "sample", "sampling is not supported: it is not the same every time", "", at
            )
            return None
        if not has_only_known_fields(table, "SUBQUERY_REF" if kind == "SUBQUERY" else kind):
            code, message = _TABLES.get(kind, ("table", "this FROM is not supported"))
            self.refuse(code, message, self._known_tables(), at)
            return None
        match kind:
            case "BASE_TABLE":
                return self._base_table(table, ctes, at)
            case "SUBQUERY":
                return self._sub_select(table, ctes)
            case "JOIN":
                return self._join(table, ctes)
            case "EXPRESSION_LIST":
                self.records = None
                for row in table["values"]:
                    for value in row:
                        self.check_expression(value, "answers")
                return Answers(table)
            case _:
                return Answers(table)

    def _known_tables(self) -> str:
        public = ", ".join(repr(table.name) for table in self.domain.public)
        listed = f" Public tables: {public}." if public else ""
        return f"The declared table is {self.domain.table!r}.{listed}"

    def _base_table(
        self, table: Node, ctes: Mapping[str, Source], at: Span | None
    ) -> Source | None:
        name, known = table["table_name"], self._known_tables()
        if table["schema_name"] or table["catalog_name"] or table["at_clause"]:
            self.refuse("unknown-table", "tables are named without a schema", known, at)
            return None
        found = ctes.get(name.casefold())
        if isinstance(found, Records):
            return found.renamed(table["alias"] or name, table["column_name_alias"])
        if found is not None:
            return Answers(table)
        if name.casefold() == self.domain.table.casefold():
            alias = table["alias"] or self.domain.table
            return declared(self.domain).renamed(alias, table["column_name_alias"])
        for number, public in enumerate(self.domain.public):
            if name.casefold() == public.name.casefold():
                renames = table["column_name_alias"]
                names = [column for column, _ in public.columns]
                names[: len(renames)] = renames
                return Public(public, number, table["alias"] or public.name, tuple(names))
        tables = [self.domain.table, *(p.name for p in self.domain.public), *ctes]
        hint = " ".join(filter(None, [nearest(name, tables), known]))
        self.refuse("unknown-table", f"there is no table {name!r}", hint, at)
        return None

    def _sub_select(self, table: Node, ctes: Mapping[str, Source]) -> Source | None:
        query = self.query(table["subquery"]["node"], ctes)
        if isinstance(query, Records):
            alias = table["alias"] or "unnamed_subquery"
            return query.renamed(alias, table["column_name_alias"])
        if query is None:
            return None
        return Answers({**table, "subquery": {**table["subquery"], "node": query}})

    def _join(self, table: Node, ctes: Mapping[str, Source]) -> Source | None:
        left, right = self.read_from(table["left"], ctes), self.read_from(table["right"], ctes)
        if left is None or right is None:
            return None
        if isinstance(left, Records) or isinstance(right, Records):
            self._joined += 1
            return join_public(self, table, left, right, self._joined)
        sides = [
            side.node if isinstance(side, Answers) else table[name]
            for name, side in (("left", left), ("right", right))
        ]
        condition = table["condition"]
        if condition is not None:
            condition = self.over_answers(condition, ctes)
        return Answers({**table, "left": sides[0], "right": sides[1], "condition": condition})


def place_of(table: Node) -> Span | None:
    """Return where a FROM clause stands in the text."""
    at = (table["query_location"], table["query_location_length"])
    return at if at[1] else None
