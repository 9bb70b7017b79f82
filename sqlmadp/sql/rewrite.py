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

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlmadp.errors import Problem, SqlError
from sqlmadp.schema.domain import Domain
from sqlmadp.sql.allowed import has_only_known_fields
from sqlmadp.sql.expressions import ExpressionChecker, nearest
from sqlmadp.sql.growth import check_growth
from sqlmadp.sql.joins import join_public
from sqlmadp.sql.limits import Limits, advice
from sqlmadp.sql.records import Field, Public, Records, declared
from sqlmadp.sql.resolve import Resolved, Resolver, private
from sqlmadp.sql.sandbox import Sandbox, UnfaithfulError
from sqlmadp.sql.statements import Span, Statement
from sqlmadp.sql.syntax import Node, is_column, rebuild, span, walk

_TABLES = {
    "TABLE_FUNCTION": ("table-function", "table functions are not supported"),
    "SHOW_REF": ("not-a-select", "only SELECT statements are answered"),
    "PIVOT": ("pivot", "PIVOT is not supported"),
}
_NODES = {
    "RECURSIVE_CTE_NODE": ("recursive-cte", "recursive CTEs are not supported"),
}


@dataclass(frozen=True)
class Answers:
    """A FROM clause over released answers, public tables or constants."""

    node: Node


Source = Records | Public | Answers


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
    def untouched(self) -> Node | None:
        """Return a tracked statement without HAVING, QUALIFY, ORDER BY and LIMIT."""
        if self.top is None or not self.top.tracked:
            return None
        return {**self.top.outer, "where_clause": None, "modifiers": [], "qualify": None}


def rewrite(
    tree: Node, statement: Statement, domain: Domain, sandbox: Sandbox, limits: Limits
) -> Rewritten:
    """Return a statement over its private blocks, or an SqlError with every mistake."""
    return _Rewriter(statement, domain, sandbox, limits).rewrite(tree)


class _Rewriter(ExpressionChecker):
    def __init__(
        self, statement: Statement, domain: Domain, sandbox: Sandbox, limits: Limits
    ) -> None:
        super().__init__(statement, domain, sandbox.functions)
        self._sandbox, self._limits = sandbox, limits
        self._blocks: list[Resolved] = []
        self._late: list[Problem] = []
        self._joined = 0
        self._scopes: list[Mapping[str, Source]] = []

    def rewrite(self, tree: Node) -> Rewritten:
        result = self._query(tree, {}, top=True)
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
        elif not any(block.aggregates for block in self._blocks):
            self.refuse(
                "no-aggregate",
                "the statement groups but counts nothing",
                "Add COUNT(*): every group that the domain allows is returned anyway.",
            )

    # Queries.

    def _query(
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
        result = self._query(node, ctes)
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
            query = self._query(value["query_node"], known)
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
        source = self._from(node["from_table"], ctes)
        if source is None or len(self.problems) > before:
            return None
        if isinstance(source, Records):
            if self._aggregates(node):
                outer = self._block(node, source, ctes, top=top)
                if outer is not None and kept["map"]:
                    outer["cte_map"] = kept  # In place: the block's outer SELECT is this one.
                return outer
            return self._records(node, source)
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
                copy[name] = self._over_answers(node[name], ctes)
        for name in ("select_list", "group_expressions"):
            copy[name] = [self._over_answers(part, ctes) for part in node[name]]
        copy["modifiers"] = [self._around_modifier(m, ctes) for m in node["modifiers"]]
        return copy if len(self.problems) == before else None

    def _over_answers(self, node: Node, ctes: Mapping[str, Source]) -> Node:
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
                    {**order, "expression": self._over_answers(order["expression"], ctes)}
                    if not is_order_by_all(order["expression"])
                    else order
                    for order in modifier["orders"]
                ]
                return {**modifier, "orders": orders}
            case "DISTINCT_MODIFIER":
                targets = [self._over_answers(t, ctes) for t in modifier["distinct_on_targets"]]
                return {**modifier, "distinct_on_targets": targets}
            case _:
                self._check_limit(modifier)
                return modifier

    # A SELECT over records.

    def _aggregates(self, node: Node) -> bool:
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

    def _records(self, node: Node, source: Records) -> Records | None:
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
            yield Field("", self._name(item), expression, size=_size(item, source))
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

    def _name(self, item: Node) -> str:
        """Return the name that DuckDB gives to a result column."""
        if item["alias"]:
            return str(item["alias"])
        if is_column(item):
            return str(item["column_names"][-1])
        try:
            return self._sandbox.print_expression(item)
        except UnfaithfulError:
            return "?"

    def _block(
        self, node: Node, source: Records, ctes: Mapping[str, Source], *, top: bool
    ) -> Node | None:
        """Return the outer SELECT of a private block."""
        before = len(self.problems)
        self._check_block(node, source)
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
        names = [self._name(item) if not top else item["alias"] for item in node["select_list"]]
        self._blocks.append(PENDING)
        try:
            resolved = resolver.resolve(names, top=top)
        except SqlError as error:
            self._late.extend(error.problems)
            return {}
        self._blocks[number] = resolved
        return resolved.outer

    def _check_block(self, node: Node, source: Records) -> None:
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
                    self._check_limit(modifier)
        if any(part["class"] == "STAR" for item in items for part in walk(item)):
            return
        self._check_parts(node, source)
        for part in expressions(node):
            check_growth(part, self)

    def _check_limit(self, modifier: Node) -> None:
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

    # FROM.

    def _from(self, table: Node, ctes: Mapping[str, Source]) -> Source | None:
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
        public = "".join(f" Public: {p.name!r}." for p in self.domain.public)
        return f"The declared table is {self.domain.table!r}.{public}"

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
        query = self._query(table["subquery"]["node"], ctes)
        if isinstance(query, Records):
            alias = table["alias"] or "unnamed_subquery"
            return query.renamed(alias, table["column_name_alias"])
        if query is None:
            return None
        return Answers({**table, "subquery": {**table["subquery"], "node": query}})

    def _join(self, table: Node, ctes: Mapping[str, Source]) -> Source | None:
        left, right = self._from(table["left"], ctes), self._from(table["right"], ctes)
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
            condition = self._over_answers(condition, ctes)
        return Answers({**table, "left": sides[0], "right": sides[1], "condition": condition})


def place_of(table: Node) -> Span | None:
    """Return where a FROM clause stands in the text."""
    at = (table["query_location"], table["query_location_length"])
    return at if at[1] else None


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


PENDING = Resolved("", (), (), (), (), (), (), {}, (), (), False)
"""Stands for a block while the queries inside it are rewritten."""
