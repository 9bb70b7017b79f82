"""SELECTs over records: what they may say, and the records that one without aggregates yields.

A SELECT without aggregates only filters and computes; it is resolved away into the SELECT around it
(see ``records``).  A SELECT with aggregates is a private block, and is checked whole here before
``resolve`` takes it apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlmadp.schema.domain import Domain
from sqlmadp.sql.expressions import ExpressionChecker
from sqlmadp.sql.growth import check_growth
from sqlmadp.sql.limits import Limits, advice
from sqlmadp.sql.records import Field, Records
from sqlmadp.sql.resolved import private
from sqlmadp.sql.sandbox import Sandbox, UnfaithfulError
from sqlmadp.sql.statements import Statement
from sqlmadp.sql.syntax import Node, is_column, span, walk


class SelectChecker(ExpressionChecker):
    """Collects the mistakes in SELECTs over records."""

    def __init__(
        self, statement: Statement, domain: Domain, sandbox: Sandbox, limits: Limits
    ) -> None:
        super().__init__(statement, domain, sandbox.functions)
        self._sandbox, self._limits = sandbox, limits

    def is_block(self, node: Node) -> bool:
        """Return whether a SELECT over records is a private block."""
        if node["group_expressions"] or node["aggregate_handling"] != "STANDARD_HANDLING":
            return True
        if node["having"] is not None:
            return True
        if any(modifier["type"] == "DISTINCT_MODIFIER" for modifier in node["modifiers"]):
            return True
        return any(
            part["class"] == "FUNCTION" and self.is_any_aggregate(part["function_name"])
            for item in expressions(node)
            for part in walk(item)
        )

    def yielded_records(self, node: Node, source: Records) -> Records | None:
        """Return the records that a SELECT without aggregates yields."""
        before = len(self.problems)
        self.records = source
        self.aliases = {item["alias"].casefold() for item in node["select_list"] if item["alias"]}
        if node["qualify"] is not None:
            self.refuse("window", "QUALIFY over records would look at single records")
        for modifier in node["modifiers"]:
            if modifier["type"] != "ORDER_MODIFIER":
                self.refuse(
                    "limit-records",
                    "LIMIT over records keeps some of them by their order, "
                    "which depends on other records",
                    "LIMIT the groups of an aggregate instead.",
                )
        for item in (*node["select_list"], node["where_clause"]):
            if item is not None and not _is_plain_star(item):
                self.check_expression(item, "records")
        self._check_parts(node, source)
        if len(self.problems) > before:
            return None
        fields = [field for item in node["select_list"] for field in self._fields(item, source)]
        where = [] if node["where_clause"] is None else [node["where_clause"]]
        aliases = {item["alias"].casefold(): item for item in node["select_list"] if item["alias"]}

        def alias(reference: Node) -> Node:
            return private(aliases[reference["column_names"][-1].casefold()], source)

        try:
            resolved = tuple(private(part, source, alias) for part in where)
        except KeyError:
            self.refuse("ambiguous-name", "an alias of this SELECT stands for another alias")
            return None
        return Records(tuple(fields), (*source.where, *resolved), source.lookups)

    def _fields(self, item: Node, source: Records) -> Iterable[Field]:
        if item["class"] != "STAR":
            try:
                expression = private(item, source)
            except KeyError:
                self.refuse(
                    "ambiguous-name",
                    "an alias cannot stand for another alias here",
                    "Write the expression itself.",
                    span(item),
                )
                return
            yield Field("", self.result_name(item), expression, size=_size(item, source))
            return
        excluded = {str(name).casefold() for name in item["exclude_list"]}
        replaced = {entry["key"].casefold(): entry["value"] for entry in item["replace_list"]}
        relation = item["relation_name"].casefold()
        for known in source.fields:
            if known.name.casefold() in excluded or (known.merged and not relation):
                continue
            if relation and known.qualifier.casefold() != relation:
                continue
            if known.name.casefold() in replaced:
                new = replaced[known.name.casefold()]
                yield Field("", known.name, private(new, source), size=_size(new, source))
            else:
                yield Field("", known.name, known.expression, size=known.size)

    def result_name(self, item: Node) -> str:
        """Return the name that DuckDB gives to a result column."""
        if item["alias"]:
            return str(item["alias"])
        if is_column(item):
            return str(item["column_names"][-1])
        try:
            return self._sandbox.print_expression(item)
        except UnfaithfulError:
            return "?"

    def check_block(self, node: Node, source: Records) -> None:
        """Note every mistake in a SELECT with aggregates."""
        self.records = source
        items = node["select_list"]
        self.aliases = {item["alias"].casefold() for item in items if item["alias"]}
        for item in items:
            self.check_expression(item, "block")
        for part in (node["where_clause"], *node["group_expressions"]):
            self.check_expression(part, "records")
        for part in (node["having"], node["qualify"]):
            self.check_expression(part, "block")
        for modifier in node["modifiers"]:
            match modifier["type"]:
                case "ORDER_MODIFIER":
                    for order in modifier["orders"]:
                        if not is_order_by_all(order["expression"]):
                            self.check_expression(order["expression"], "block")
                case "DISTINCT_MODIFIER":
                    for target in modifier["distinct_on_targets"]:
                        self.check_expression(target, "block")
                case _:
                    self.check_limit(modifier)
        if any(part["class"] == "STAR" for item in items for part in walk(item)):
            return
        self._check_parts(node, source)
        for part in expressions(node):
            check_growth(part, self)

    def check_limit(self, modifier: Node) -> None:
        """Note every mistake in LIMIT and OFFSET."""
        if modifier["type"] not in ("LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER"):
            self.refuse("syntax", f"{modifier['type']} is not supported")
            return
        for node in (modifier["limit"], modifier["offset"]):
            if node is None:
                continue
            if any(is_column(part) or part["class"] == "SUBQUERY" for part in walk(node)):
                self.refuse("limit", "LIMIT and OFFSET are constants", "", span(node))
            else:
                self.check_expression(node, "records")

    def _check_parts(self, node: Node, source: Records) -> None:
        """Refuse aliases of aliases that grow without end when they are replaced."""
        sizes: dict[str, int] = {}
        total = 0
        for part in expressions(node):
            grown = _size(part, source, sizes)
            total += grown
            if part["alias"]:
                sizes[part["alias"].casefold()] = grown
        if total > self._limits.parts:
            self.refuse(
                "too-large",
                f"the statement has {total:,} parts once aliases are replaced by what they "
                f"stand for; at most {self._limits.parts:,} are supported",
                advice("parts"),
            )


def expressions(select: Node) -> list[Node]:
    """Return every expression of a SELECT, the select list first."""
    orders = [order for modifier in select["modifiers"] for order in modifier.get("orders", ())]
    nodes: list[Any] = [
        *select["select_list"],
        select["where_clause"],
        *select["group_expressions"],
        select["having"],
        select["qualify"],
        *(order["expression"] for order in orders),
    ]
    return [node for node in nodes if node is not None]


def is_order_by_all(node: Node) -> bool:
    """Return whether this is the ALL of ORDER BY ALL."""
    return bool(node["class"] == "STAR" and node["columns"] and node["expr"] is None)


def _is_plain_star(node: Node) -> bool:
    return bool(
        node["class"] == "STAR"
        and not node["columns"]
        and node["expr"] is None
        and not node["rename_list"]
        and not node["qualified_exclude_list"]
    )


def _size(node: Node, source: Records, aliases: Mapping[str, int] | None = None) -> int:
    """Return how many parts an expression has once names are replaced."""
    total = 0
    for part in walk(node):
        if not is_column(part):
            total += 1
            continue
        known = source.field(part["column_names"])
        name = part["column_names"][-1].casefold()
        total += known.size if known is not None else (aliases or {}).get(name, 1)
    return total
