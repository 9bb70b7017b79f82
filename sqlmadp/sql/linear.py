"""Which result columns are linear in the answers, told from the statement alone.

    FREE      the same whatever the answers are: keys, constants, RANK() over keys
    LINEAR    a sum of answers, each times a number that is FREE: COUNT(*) - 2 * SUM(age),
              SUM(COUNT(*)) OVER (ORDER BY age), SUM(n) of an outer SELECT, a.n - b.n of a join
    OTHER     anything else: ratios, quantiles, RANK() over counts, CASE WHEN COUNT(*) > 10

The error of a LINEAR column is exact, and known before anything is measured.  Which rows there
are must be FREE too, so HAVING, QUALIFY, ORDER BY and LIMIT are left out at the top, where they
only choose among rows; a subquery whose rows depend on answers makes OTHER of what reads it.

What is not recognised here is OTHER, never LINEAR.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlmadp.sql.kinds import Kind, KindColumn, Relation, Scope, is_aggregate
from sqlmadp.sql.syntax import Node, walk


@dataclass(frozen=True)
class Shape:
    """How the columns of a statement depend on the answers."""

    kinds: tuple[Kind, ...]
    local: tuple[bool, ...]
    """Whether a column reads nothing but its own row of a block: no window, no subquery."""
    fixed: bool
    """Whether the answers change nothing about which rows there are."""


Tables = Mapping[str, Sequence[tuple[str, Kind]]]
"""The columns of every table that a statement may read, by the table's name."""


def shape_of(tree: Node, width: int, tables: Tables) -> Shape:
    """Return the shape of an ``unchosen`` statement with ``width`` result columns."""
    relation = _Analysis(tables).query(tree, {})
    kinds = [column.kind for column in relation.columns]
    if len(kinds) != width:
        kinds = [Kind.OTHER] * width
    elif not relation.fixed:
        kinds = [Kind.FREE if kind == Kind.FREE else Kind.OTHER for kind in kinds]
    local = tuple(_is_local(item) for item in tree.get("select_list", ()))
    local = local if len(local) == width else (False,) * width
    return Shape(tuple(kinds), local, relation.fixed)


def unchosen(tree: Node) -> Node:
    """Return a statement without what only chooses among its rows and orders them.

    That is HAVING over a block, QUALIFY, ORDER BY and LIMIT.  A condition stays where a window or
    an aggregate counts on it.
    """
    kept = [m for m in tree["modifiers"] if m["type"] == "DISTINCT_MODIFIER"]
    if tree["type"] != "SELECT_NODE":
        return {**tree, "modifiers": kept}
    counted = tree["group_expressions"] or any(
        part["class"] == "WINDOW" or is_aggregate(part)
        for item in tree["select_list"]
        for part in walk(item)
    )
    where = tree["where_clause"] if counted or kept else None
    return {**tree, "modifiers": kept, "qualify": None, "where_clause": where}


def _is_local(item: Node) -> bool:
    return all(part["class"] not in ("WINDOW", "SUBQUERY", "STAR") for part in walk(item))


_UNKNOWN = Relation((), fixed=False)

Relations = Mapping[str, Relation]


class _Analysis:
    def __init__(self, tables: Tables) -> None:
        self._tables = {}
        for name, columns in tables.items():
            own = (KindColumn("", column.casefold(), kind) for column, kind in columns)
            self._tables[name.casefold()] = Relation(tuple(own), fixed=True)

    # Queries.

    def query(self, node: Node, ctes: Relations) -> Relation:
        known = dict(ctes)
        for entry in node["cte_map"]["map"]:
            found = self.query(entry["value"]["query_node"], known)
            known[entry["key"].casefold()] = found.renamed(entry["key"], entry["value"]["aliases"])
        if node["type"] == "SELECT_NODE":
            return self._select(node, known)
        return self._set_operation(node, known)

    def _set_operation(self, node: Node, ctes: Relations) -> Relation:
        parts = [self.query(child, ctes) for child in node["children"]]
        if len({len(part.columns) for part in parts}) != 1:
            return _UNKNOWN
        columns = tuple(
            KindColumn("", together[0].name, max(column.kind for column in together))
            for together in zip(*(part.columns for part in parts), strict=True)
        )
        whole = node["setop_type"] == "UNION" and node["setop_all"]
        free = all(column.kind == Kind.FREE for column in columns)
        fixed = all(part.fixed for part in parts) and (whole or free)
        scope = self._scope(Relation(columns, fixed), ctes)
        return Relation(columns, fixed and _keep_rows(node["modifiers"], columns, scope))

    def _select(self, node: Node, ctes: Relations) -> Relation:
        source = self._from(node["from_table"], ctes)
        choosing = [node["where_clause"], *node["group_expressions"], node["having"]]
        scope = self._scope(source, ctes)
        fixed = source.fixed and all(scope.is_free(part) for part in choosing if part is not None)
        scope = self._scope(replace(source, fixed=fixed), ctes)
        columns: list[KindColumn] = []
        for item in node["select_list"]:
            if item["class"] == "STAR":
                columns.extend(_starred(item, source))
                continue
            kind = scope.kind(item)
            name = item["alias"] or (item["column_names"][-1] if "column_names" in item else "")
            columns.append(KindColumn("", name.casefold(), kind))
            if item["alias"]:
                scope.aliases[item["alias"].casefold()] = kind
        fixed &= node["qualify"] is None or scope.is_free(node["qualify"])
        return Relation(tuple(columns), fixed and _keep_rows(node["modifiers"], columns, scope))

    def _scope(self, source: Relation, ctes: Relations) -> Scope:
        return Scope(source, lambda query: self.query(query, ctes))

    # FROM.

    def _from(self, table: Node, ctes: Relations) -> Relation:
        match table["type"]:
            case "EMPTY":
                return Relation((), fixed=True)
            case "BASE_TABLE":
                return self._table(table, ctes)
            case "SUBQUERY":
                found = self.query(table["subquery"]["node"], ctes)
                return found.renamed(table["alias"], table["column_name_alias"])
            case "JOIN":
                return self._join(table, ctes)
            case _:
                return _UNKNOWN

    def _table(self, table: Node, ctes: Relations) -> Relation:
        name = table["table_name"]
        known = ctes.get(name.casefold()) or self._tables.get(name.casefold(), _UNKNOWN)
        return known.renamed(table["alias"] or name, table["column_name_alias"])

    def _join(self, table: Node, ctes: Relations) -> Relation:
        left, right = self._from(table["left"], ctes), self._from(table["right"], ctes)
        if table["ref_type"] not in ("REGULAR", "CROSS"):
            return _UNKNOWN
        using = {str(name).casefold() for name in table["using_columns"]}
        matched = [c for c in (*left.columns, *right.columns) if c.name in using]
        columns = (*left.columns, *(replace(c, merged=c.name in using) for c in right.columns))
        both = Relation(columns, left.fixed and right.fixed)
        condition = table["condition"]
        free = all(column.kind == Kind.FREE for column in matched) and (
            condition is None or self._scope(both, ctes).is_free(condition)
        )
        return replace(both, fixed=both.fixed and free)


def _keep_rows(modifiers: list[Node], columns: Sequence[KindColumn], scope: Scope) -> bool:
    """Return whether DISTINCT, ORDER BY and LIMIT leave the same rows whatever the answers are.

    The order counts too: ROW_NUMBER() OVER () of a SELECT around this one would number them by it.
    """
    free = all(column.kind == Kind.FREE for column in columns)
    for modifier in modifiers:
        match modifier["type"]:
            case "ORDER_MODIFIER":
                if not all(
                    _orders_free(order["expression"], columns, scope, free)
                    for order in modifier["orders"]
                ):
                    return False
            case "DISTINCT_MODIFIER" if not modifier["distinct_on_targets"]:
                if not free:
                    return False
            case _:
                return False  # LIMIT: which rows are first depends on the order.
    return True


def _orders_free(node: Node, columns: Sequence[KindColumn], scope: Scope, free: bool) -> bool:
    if node["class"] == "STAR":
        return free
    if node["class"] == "CONSTANT" and str(node["literal"].get("text", "")).isdigit():
        number = int(node["literal"]["text"])
        return 0 < number <= len(columns) and columns[number - 1].kind == Kind.FREE
    return scope.is_free(node)


def _starred(star: Node, source: Relation) -> list[KindColumn]:
    """Return the columns that a star stands for."""
    if star["columns"] or star["replace_list"] or star["rename_list"] or star["expr"]:
        return []  # Then the number of columns does not fit, and nothing is LINEAR.
    relation = star["relation_name"].casefold()
    excluded = {str(name).casefold() for name in star["exclude_list"]}
    return [
        column
        for column in source.columns
        if (column.qualifier == relation if relation else not column.merged)
        and column.name not in excluded
    ]
