"""Syntax: DuckDB's own syntax tree of a statement, and the small grammar of its nodes.

A statement is parsed by the very parser that gives it its meaning, so nothing can be lost
in translation: DuckDB hands its tree over as JSON (``json_serialize_sql``) and turns a
tree back into text (``json_deserialize_sql``).  A node is a dictionary with a ``class``, a
``type``, the place in the text it came from, and its children.  This module knows where
the children are; which nodes an analyst may use is decided in ``allowed``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from sqlmadp.sql.statements import Span

Node = dict[str, Any]

_NOWHERE = 2**64 - 1
_PLACE = frozenset({"query_location", "query_location_length"})
# Places, and a spelling: LIKE ... ESCAPE is printed as the function that it stands for.  A quote
# inside a text of the statement has a backslash before it in JSON, so no text looks like this.
_IMMATERIAL = re.compile(r'"(?:query_location(?:_length)?":\d+|is_operator":(?:true|false)),?')

AND, OR, NOT = "CONJUNCTION_AND", "CONJUNCTION_OR", "OPERATOR_NOT"
NOT_NULL = "OPERATOR_IS_NOT_NULL"
LOOKUP = "__public"
"""How the aliases of public tables begin in subqueries of our own making."""


def children(node: Node) -> list[Node]:
    """Return the expressions directly below an expression."""
    found: list[Node] = []

    def note(child: Node) -> Node:
        found.append(child)
        return child

    rebuild(node, note)
    return found


def rebuild(node: Node, change: Callable[[Node], Node]) -> Node:
    """Return a copy of an expression whose direct children went through ``change``."""
    copy = dict(node)
    for name in _ONE.get(node["class"], ()):
        if node[name] is not None:
            copy[name] = change(node[name])
    for name in _SEVERAL.get(node["class"], ()):
        copy[name] = [change(child) for child in node[name]]
    for name in _ORDERS.get(node["class"], ()):
        copy[name] = [{**o, "expression": change(o["expression"])} for o in node[name]]
    match node["class"]:
        case "CASE":
            copy["case_checks"] = [
                {part: change(check[part]) for part in ("when_expr", "then_expr")}
                for check in node["case_checks"]
            ]
        case "FUNCTION" | "WINDOW":
            copy["arguments"] = [
                {**argument, "expression": change(argument["expression"])}
                for argument in node["arguments"]
            ]
            if node["class"] == "FUNCTION" and node["order_bys"]["orders"]:
                orders = [
                    {**o, "expression": change(o["expression"])}
                    for o in node["order_bys"]["orders"]
                ]
                copy["order_bys"] = {**node["order_bys"], "orders": orders}
        case "SUBQUERY" if is_lookup(node):
            copy["subquery"] = _rebuild_lookup(node["subquery"], change)
    return copy


_ONE = {
    "COMPARISON": ("left", "right"),
    "BETWEEN": ("input", "lower", "upper"),
    "CAST": ("child",),
    "COLLATE": ("child",),
    "CASE": ("else_expr",),
    "FUNCTION": ("filter",),
    "WINDOW": ("filter_expr", "start_expr", "end_expr", "offset_expr", "default_expr"),
    "SUBQUERY": ("child",),
}
_SEVERAL = {"CONJUNCTION": ("children",), "OPERATOR": ("children",), "WINDOW": ("partitions",)}
_ORDERS = {"WINDOW": ("orders", "arg_orders")}


def is_lookup(node: Node) -> bool:
    """Return whether an expression looks a value up in a public table, as ``lookup`` made it."""
    if node["class"] != "SUBQUERY":
        return False
    source = node["subquery"]["node"].get("from_table") or {}
    return str(source.get("alias", "")).startswith(LOOKUP)


def _rebuild_lookup(subquery: Node, change: Callable[[Node], Node]) -> Node:
    inner = dict(subquery["node"])
    inner["select_list"] = [change(item) for item in inner["select_list"]]
    inner["where_clause"] = change(inner["where_clause"])
    return {**subquery, "node": inner}


def walk(node: Node) -> Iterator[Node]:
    """Yield an expression and everything below it, from the top."""
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(reversed(children(current)))


def column_names(node: Node) -> frozenset[str]:
    """Return the declared columns of a resolved expression; a public column has a qualifier."""
    names = (part["column_names"] for part in walk(node) if is_column(part))
    return frozenset(name[0] for name in names if len(name) == 1)


def is_column(node: Node) -> bool:
    """Return whether an expression is a bare column."""
    return bool(node["class"] == "COLUMN_REF")


def span(node: Node) -> Span | None:
    """Return the part of the statement that a node was read from, its operands included."""
    places = [
        (part["query_location"], part["query_location"] + part["query_location_length"])
        for part in walk(node)
        if part["query_location"] != _NOWHERE
    ]
    if not places:
        return None
    start = min(start for start, _ in places)
    return start, max(end for _, end in places) - start


def fingerprint(tree: Any) -> str:
    """Return text that is equal just when two trees are, wherever they stand in the text."""
    return _IMMATERIAL.sub("", msgspec.json.encode(tree, order="deterministic").decode())


def unaliased(node: Node) -> Node:
    """Return an expression without the name it was given."""
    return {**node, "alias": ""}


def column(*names: str) -> Node:
    """Return a reference to a column."""
    return _node("COLUMN_REF", "COLUMN_REF", column_names=list(names))


def operator(kind: str, *operands: Node) -> Node:
    """Return an operator such as ``OPERATOR_IS_NOT_NULL`` applied to its operands."""
    place = operands[0]
    return {
        **_node("OPERATOR", kind, children=list(operands)),
        **{name: place[name] for name in _PLACE},
    }


def integer(number: int) -> Node:
    """Return an integer constant."""
    return _node("CONSTANT", "VALUE_CONSTANT", literal={"kind": "INTEGER", "text": str(number)})


def cast(node: Node, type_name: str) -> Node:
    """Return ``CAST(node AS type_name)``."""
    type_node = _node(
        "TYPE",
        "TYPE",
        catalog="",
        schema="",
        type_name=type_name,
        children=[],
        qualified_name={"path": [type_name]},
    )
    return _node("CAST", "OPERATOR_CAST", child=node, try_cast=False, type_expr=type_node)


def function(name: str, *arguments: Node) -> Node:
    """Return a call of a function."""
    return _node(
        "FUNCTION",
        "FUNCTION",
        function_name=name,
        schema="",
        catalog="",
        filter=None,
        order_bys={"type": "ORDER_MODIFIER", "orders": []},
        distinct=False,
        is_operator=False,
        export_state=False,
        arguments=[{"name": "", "expression": unaliased(argument)} for argument in arguments],
        qualified_name={"path": [name]},
    )


def compare(kind: str, left: Node, right: Node) -> Node:
    """Return a comparison such as ``COMPARE_EQUAL``."""
    return _node("COMPARISON", kind, left=left, right=right)


def case(branches: list[tuple[Node, Node]]) -> Node:
    """Return ``CASE WHEN ... THEN ... END``; NULL if no branch applies."""
    checks = [{"when_expr": when, "then_expr": then} for when, then in branches]
    null = _node("CONSTANT", "VALUE_CONSTANT", literal={"kind": "NULL_LITERAL", "text": ""})
    return _node("CASE", "CASE_EXPR", case_checks=checks, else_expr=null)


def conjunction(kind: str, *operands: Node) -> Node:
    """Return ``CONJUNCTION_AND`` or ``CONJUNCTION_OR`` of its operands."""
    return _node("CONJUNCTION", kind, children=list(operands))


def lookup(item: Node, source: Node, where: Node, kind: str = "SCALAR") -> Node:
    """Return ``(SELECT item FROM source WHERE where)`` or, for EXISTS, whether there is a row."""
    inner = {"node": select([item], source=source, where=where), "named_param_map": []}
    return {
        **_node("SUBQUERY", "SUBQUERY", subquery_type=kind, subquery=inner, child=None),
        "comparison_type": "INVALID",
    }


def _node(kind: str, subtype: str, **fields: Any) -> Node:
    return {
        "class": kind,
        "type": subtype,
        "alias": "",
        "query_location": _NOWHERE,
        "query_location_length": 0,
        **fields,
    }


def table(name: str, alias: str = "") -> Node:
    """Return a FROM clause that reads one table."""
    return {
        "type": "BASE_TABLE",
        "alias": alias,
        "sample": None,
        "query_location": _NOWHERE,
        "query_location_length": 0,
        "schema_name": "",
        "table_name": name,
        "column_name_alias": [],
        "catalog_name": "",
        "at_clause": None,
        "qualified_name": {"path": [name]},
    }


def select(
    items: list[Node],
    *,
    source: Node | None = None,
    where: Node | None = None,
    modifiers: list[Node] | None = None,
) -> Node:
    """Return a plain SELECT."""
    nothing = {
        "type": "EMPTY",
        "alias": "",
        "sample": None,
        "query_location": _NOWHERE,
        "query_location_length": 0,
    }
    return {
        "type": "SELECT_NODE",
        "modifiers": modifiers or [],
        "cte_map": {"map": []},
        "select_list": items,
        "from_table": source or nothing,
        "where_clause": where,
        "group_expressions": [],
        "group_sets": [],
        "aggregate_handling": "STANDARD_HANDLING",
        "having": None,
        "sample": None,
        "qualify": None,
    }
