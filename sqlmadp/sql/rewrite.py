"""Rewriting: a statement's tree, checked and split into private blocks and what runs around.

Every SELECT reads either *records* (the private table, through aliases, sub-selects, CTEs and
joins with public tables) or *answers* (private blocks, public tables, constants), never both:

    SELECT over records, with aggregates       a private block; it becomes a SELECT over
                                               the block's answers
    SELECT over records, without               resolved away into the SELECT around it
    SELECT over answers                        stays as it is, but for what it reads

All mistakes are collected, so that an analyst mends a statement once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlmadp.errors import Problem, SqlError
from sqlmadp.schema.domain import Domain
from sqlmadp.sql.allowed import has_only_known_fields
from sqlmadp.sql.growth import check_growth
from sqlmadp.sql.limits import Limits
from sqlmadp.sql.linear import unchosen
from sqlmadp.sql.records import Public, Records
from sqlmadp.sql.resolve import Resolver
from sqlmadp.sql.resolved import Resolved
from sqlmadp.sql.sandbox import Sandbox
from sqlmadp.sql.selects import is_order_by_all
from sqlmadp.sql.sources import Answers, Source, SourceChecker
from sqlmadp.sql.statements import Statement
from sqlmadp.sql.syntax import Node, rebuild, span

_NODES = {
    "RECURSIVE_CTE_NODE": ("recursive-cte", "recursive CTEs are not supported"),
}


@dataclass(frozen=True)
class Rewritten:
    """A statement over its private blocks."""

    tree: Node
    """The whole statement, reading ``__block0``, ``__block1``, ... and public tables."""
    blocks: tuple[Resolved, ...]
    top: Resolved | None
    """The block whose outer SELECT is the whole statement, if there is one."""
    problems: tuple[Problem, ...]
    """Mistakes that matter only if DuckDB itself accepts the statement."""

    @property
    def untouched(self) -> Node:
        """Return the statement without what only chooses among its rows and orders them."""
        return unchosen(self.tree)


def rewrite(
    tree: Node, statement: Statement, domain: Domain, sandbox: Sandbox, limits: Limits
) -> Rewritten:
    """Return a statement over its private blocks, or an SqlError with every mistake."""
    return _Rewriter(statement, domain, sandbox, limits).rewrite(tree)


class _Rewriter(SourceChecker):
    def __init__(
        self, statement: Statement, domain: Domain, sandbox: Sandbox, limits: Limits
    ) -> None:
        super().__init__(statement, domain, sandbox, limits)
        self._blocks: list[Resolved] = []
        self._late: list[Problem] = []
        self._scopes: list[Mapping[str, Source]] = []

    def rewrite(self, tree: Node) -> Rewritten:
        result = self.query(tree, {}, top=True)
        if isinstance(result, Records):
            items = tree.get("select_list") or [None]
            self.refuse_rows(span(items[0]) if items[0] else None)
        if not self.problems and not self._late:
            self._check_something_is_private()
        if self.problems:
            raise SqlError(self.problems)
        top = next((block for block in self._blocks if block.outer is result), None)
        return Rewritten(
            result if isinstance(result, dict) else {}, tuple(self._blocks), top, tuple(self._late)
        )

    def _check_something_is_private(self) -> None:
        if not self._blocks:
            known = f"The private table is {self.domain.table!r}."
            self.refuse("no-table", "the statement does not read the private table", known)

    # Queries.

    def query(
        self, node: Node, ctes: Mapping[str, Source], *, top: bool = False
    ) -> Node | Records | None:
        """Return a query over answers, or the records it yields; None if it has mistakes."""
        kind = node["type"]
        if kind not in ("SELECT_NODE", "SET_OPERATION_NODE"):
            code, message = _NODES.get(kind, ("syntax", "this form of query is not supported"))
            self.refuse(code, message)
            return None
        if not has_only_known_fields(node, kind):
            self.refuse("syntax", "this form of query is not supported")
            return None
        known, kept = self._ctes(node["cte_map"], ctes)
        if kind == "SELECT_NODE":
            return self._select(node, known, kept, top=top)
        children = [self._answers(child, known) for child in node["children"]]
        if any(child is None for child in children):
            return None
        scope = known
        return {
            **node,
            "children": children,
            "cte_map": kept,
            "modifiers": [self._around_modifier(m, scope) for m in node["modifiers"]],
        }

    def _answers(self, node: Node, ctes: Mapping[str, Source]) -> Node | None:
        """Return a query that must be over answers."""
        result = self.query(node, ctes)
        if isinstance(result, Records):
            items = node.get("select_list") or []
            self.refuse_rows(span(items[0]) if items else None)
            return None
        return result

    def _ctes(self, cte_map: Node, ctes: Mapping[str, Source]) -> tuple[dict[str, Source], Node]:
        """Return what the names of WITH stand for, and those that stay in the statement."""
        known, kept = dict(ctes), []
        for entry in cte_map["map"]:
            name, value = entry["key"], entry["value"]
            query = self.query(value["query_node"], known)
            if isinstance(query, Records):
                known[name.casefold()] = query.renamed(name, value["aliases"])
            elif query is not None:
                known[name.casefold()] = Answers({})
                kept.append({"key": name, "value": {**value, "query_node": query}})
            else:
                known[name.casefold()] = Answers({})
        return known, {"map": kept}

    def _select(
        self, node: Node, ctes: Mapping[str, Source], kept: Node, *, top: bool
    ) -> Node | Records | None:
        if node["sample"]:
            self.refuse("sample", "sampling is not supported: it is not the same every time")
        before = len(self.problems)
        source = self.read_from(node["from_table"], ctes)
        if source is None or len(self.problems) > before:
            return None
        if isinstance(source, Records):
            if self.is_block(node):
                outer = self._block(node, source, ctes, top=top)
                if outer is not None and kept["map"]:
                    outer["cte_map"] = kept  # In place: the block's outer SELECT is this one.
                return outer
            return self.yielded_records(node, source)
        table = node["from_table"] if isinstance(source, Public) else source.node
        return self._around(node, table, ctes, kept)

    # A SELECT over answers.

    def _around(
        self, node: Node, table: Node, ctes: Mapping[str, Source], kept: Node
    ) -> Node | None:
        before = len(self.problems)
        self.records = None
        copy = {**node, "from_table": table, "cte_map": kept}
        for name in ("where_clause", "having", "qualify"):
            if node[name] is not None:
                copy[name] = self.over_answers(node[name], ctes)
        for name in ("select_list", "group_expressions"):
            copy[name] = [self.over_answers(part, ctes) for part in node[name]]
        copy["modifiers"] = [self._around_modifier(m, ctes) for m in node["modifiers"]]
        return copy if len(self.problems) == before else None

    def over_answers(self, node: Node, ctes: Mapping[str, Source]) -> Node:
        self.records = None
        self.check_expression(node, "answers")
        check_growth(node, self)
        return self._with_subqueries(node, ctes)

    def _with_subqueries(self, node: Node, ctes: Mapping[str, Source]) -> Node:
        """Return an expression over answers with the queries inside it rewritten."""
        if node["class"] == "SUBQUERY":
            node = self._subquery(node, ctes)
        return rebuild(node, lambda child: self._with_subqueries(child, ctes))

    def _subquery(self, node: Node, ctes: Mapping[str, Source]) -> Node:
        inner = self._answers(node["subquery"]["node"], ctes)
        return node if inner is None else {**node, "subquery": {**node["subquery"], "node": inner}}

    def _around_modifier(self, modifier: Node, ctes: Mapping[str, Source]) -> Node:
        match modifier["type"]:
            case "ORDER_MODIFIER":
                orders = [
                    {**order, "expression": self.over_answers(order["expression"], ctes)}
                    if not is_order_by_all(order["expression"])
                    else order
                    for order in modifier["orders"]
                ]
                return {**modifier, "orders": orders}
            case "DISTINCT_MODIFIER":
                targets = [self.over_answers(t, ctes) for t in modifier["distinct_on_targets"]]
                return {**modifier, "distinct_on_targets": targets}
            case _:
                self.check_limit(modifier)
                return modifier

    # A private block.

    def _block(
        self, node: Node, source: Records, ctes: Mapping[str, Source], *, top: bool
    ) -> Node | None:
        """Return the outer SELECT of a private block."""
        before = len(self.problems)
        self.check_block(node, source)
        if len(self.problems) > before:
            return None
        number = len(self._blocks)
        resolver = Resolver(
            node,
            source,
            self.statement,
            f"__block{number}",
            lambda subquery: self._subquery(subquery, ctes),
        )
        names = [
            self.result_name(item) if not top else item["alias"] for item in node["select_list"]
        ]
        self._blocks.append(PENDING)
        try:
            resolved = resolver.resolve(names, top=top)
        except SqlError as error:
            self._late.extend(error.problems)
            return {}
        for part in (*resolved.predicates(), *resolved.keys, *resolved.values()):
            check_growth(part, self)  # With names replaced by what they stand for.
        self._blocks[number] = resolved
        return resolved.outer


PENDING = Resolved("", (), (), (), (), (), (), {}, (), False)
"""Stands for a block while the queries inside it are rewritten."""
