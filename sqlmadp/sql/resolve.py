"""Resolving: a checked SELECT, taken apart into what is private and what runs around it.

Names become declared columns; aliases and ordinals become the expressions they stand for.
What is left is a predicate, group keys and counts over declared columns (the private
block), and an *outer* SELECT over a table ``__block`` with a column ``__k0``, ``__k1``,
... for each key and ``__a0``, ``__a1``, ... for each count.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlmadp.schema.domain import Domain
from sqlmadp.sql.allowed import is_aggregate
from sqlmadp.sql.sandbox import ResultColumns
from sqlmadp.sql.statements import Statement
from sqlmadp.sql.syntax import (
    NOT_NULL,
    Node,
    cast,
    column,
    fingerprint,
    integer,
    is_column,
    operator,
    rebuild,
    select,
    span,
    table,
    unaliased,
    walk,
)


@dataclass(frozen=True)
class Resolved:
    """The parts of a statement, over declared columns only."""

    where: tuple[Node, ...]
    """Predicates that a counted record satisfies all of."""
    grouped: bool
    """Whether there is a GROUP BY; without one there is exactly one row."""
    keys: tuple[Node, ...]
    counts: tuple[tuple[Node, ...], ...]
    """For every distinct aggregate, the further predicates that its records satisfy."""
    outer: Node
    """The SELECT over ``__block``."""
    measures: tuple[int | None, ...]
    """For every result column, the aggregate that it is a bare copy of."""

    def predicates(self) -> list[Node]:
        """Return every predicate over declared columns."""
        return [*self.where, *(node for count in self.counts for node in count)]


GROUP = "__group"
"""The last column of every outer SELECT: the number of the group that a row comes from."""


def resolve(tree: Node, statement: Statement, domain: Domain, columns: ResultColumns) -> Resolved:
    """Return the parts of a checked statement whose result columns are ``columns``."""
    return _Resolver(tree, statement, domain).resolve(columns)


class _Resolver:
    def __init__(self, tree: Node, statement: Statement, domain: Domain) -> None:
        self._tree, self._statement, self._domain = tree, statement, domain
        self._items: list[Node] = tree["select_list"]
        self._aliases: dict[str, list[int]] = {}
        for place, item in enumerate(self._items):
            if item["alias"]:
                self._aliases.setdefault(item["alias"].casefold(), []).append(place)
        self._keys: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self._predicates: list[tuple[Node, ...]] = []

    def resolve(self, columns: ResultColumns) -> Resolved:
        tree = self._tree
        keys = [self._private(self._group_key(node)) for node in self._group_nodes()]
        for key in keys:
            self._keys.setdefault(fingerprint(key), len(self._keys))
        items = [self._outer(item) for item in self._items]
        named = [{**item, "alias": name} for item, (name, _) in zip(items, columns, strict=True)]
        having = None if tree["having"] is None else self._outer(tree["having"])
        modifiers = self._modifiers()
        where = () if tree["where_clause"] is None else (self._private(tree["where_clause"]),)
        unique = {fingerprint(key): key for key in keys}
        return Resolved(
            where=where,
            grouped=bool(keys),
            keys=tuple(unique.values()),
            counts=tuple(self._predicates),
            outer=select(
                [*named, {**column("__block", "rowid"), "alias": GROUP}],
                source=table("__block"),
                where=having,
                modifiers=modifiers,
            ),
            measures=tuple(_measure(item) for item in items),
        )

    # GROUP BY.

    @property
    def _groups_by_all(self) -> bool:
        return bool(self._tree["aggregate_handling"] == "FORCE_AGGREGATES")

    def _group_nodes(self) -> list[Node]:
        if not self._groups_by_all:
            nodes: list[Node] = self._tree["group_expressions"]
            return nodes
        return [item for item in self._items if not any(is_aggregate(part) for part in walk(item))]

    def _group_key(self, node: Node) -> Node:
        if not self._groups_by_all and _is_ordinal(node):
            return self._items[int(node["literal"]["text"]) - 1]
        return node

    # Names over the declared table: a column comes before an alias.

    def _private(self, node: Node, within: frozenset[str] = frozenset()) -> Node:
        """Return an expression over declared columns, in one spelling."""
        if is_column(node):
            *_, name = node["column_names"]
            if name in self._domain:
                declared = self._domain.column(name).name
                return {**unaliased(node), "column_names": [declared]}
            return self._private(self._aliased(node, within), within | {name.casefold()})
        changed = rebuild(unaliased(node), lambda child: self._private(child, within))
        if node["class"] == "FUNCTION":
            name = node["function_name"].lower()
            changed |= {"function_name": name, "qualified_name": {"path": [name]}}
        return changed

    def _aliased(self, node: Node, within: frozenset[str]) -> Node:
        name = node["column_names"][-1].casefold()
        places = self._aliases[name]
        if name in within or len(places) > 1:
            raise self._statement.refuse(
                "ambiguous-name",
                f"{node['column_names'][-1]!r} can be read in two ways here",
                hint="Give every result column a name of its own.",
                span=span(node),
            )
        return self._items[places[0]]

    # Names over the block: keys and counts, then aliases.

    def _outer(self, node: Node, within: frozenset[str] = frozenset()) -> Node:
        """Return an expression over ``__block``."""
        if is_aggregate(node):
            return self._count(node)
        names: list[str] = node["column_names"] if is_column(node) else []
        is_alias = len(names) == 1 and names[0].casefold() in self._aliases
        if not is_alias or names[0] in self._domain:
            key = self._key_of(node)
            if key is not None and is_alias and self._alias_key(node, within) != key:
                raise self._statement.refuse(
                    "ambiguous-name",
                    f"{names[0]!r} is both a column and another result column",
                    hint="Give the result column a name that no column has.",
                    span=span(node),
                )
            if key is not None:
                return column(f"__k{key}")
        if is_alias:
            return self._outer(self._aliased(node, within), within | {names[0].casefold()})
        if names:
            raise self._statement.refuse(
                "not-grouped",
                f"column {names[-1]!r} is neither grouped by nor counted",
                hint="Add it to GROUP BY.",
                span=span(node),
            )
        return rebuild(unaliased(node), lambda child: self._outer(child, within))

    def _key_of(self, node: Node) -> int | None:
        if not self._keys or any(is_aggregate(part) for part in walk(node)):
            return None
        return self._keys.get(fingerprint(self._private(node)))

    def _alias_key(self, node: Node, within: frozenset[str]) -> int | None:
        places = self._aliases[node["column_names"][0].casefold()]
        if node["column_names"][0].casefold() in within:
            return self._key_of(node)  # ``age AS age``: the alias is the column itself.
        return self._key_of(self._items[places[0]]) if len(places) == 1 else None

    def _count(self, node: Node) -> Node:
        resolved = self._private(node)
        place = self._counts.setdefault(fingerprint(resolved), len(self._counts))
        if place == len(self._predicates):
            self._predicates.append(_count_predicates(resolved))
        # DuckDB's COUNT_IF is a HUGEINT; every other count is a BIGINT.
        answer = column(f"__a{place}")
        return cast(answer, "HUGEINT") if _is_count_if(resolved) else answer

    # ORDER BY and LIMIT.

    def _modifiers(self) -> list[Node]:
        """Return ORDER BY, with the order of groups to break ties, and LIMIT."""
        orders: list[Node] = []
        limits: list[Node] = []
        for modifier in self._tree["modifiers"]:
            if modifier["type"] == "ORDER_MODIFIER":
                for order in modifier["orders"]:
                    orders.extend({**order, "expression": e} for e in self._order(order))
            else:
                limits.append(modifier)
        orders.append(
            {
                "type": "ORDER_DEFAULT",
                "null_order": "ORDER_DEFAULT",
                "expression": column("__block", "rowid"),
            }
        )
        return [{"type": "ORDER_MODIFIER", "orders": orders}, *limits]

    def _order(self, order: Node) -> list[Node]:
        node = order["expression"]
        if node["class"] == "STAR":  # ORDER BY ALL
            return [integer(place + 1) for place in range(len(self._items))]
        if node["class"] == "CONSTANT":
            return [node]
        if is_column(node) and len(node["column_names"]) == 1:
            # Here, and only here, an alias comes before a column.
            places = self._aliases.get(node["column_names"][0].casefold(), [])
            if len(places) == 1:
                return [integer(places[0] + 1)]
        return [self._outer(node)]


def _is_ordinal(node: Node) -> bool:
    return bool(node["class"] == "CONSTANT" and node["literal"]["kind"] == "INTEGER")


def _is_count_if(node: Node) -> bool:
    return node["function_name"] in ("count_if", "countif")


def _count_predicates(node: Node) -> tuple[Node, ...]:
    """Return the predicates that the records of a count satisfy."""
    found = [node["filter"]] if node["filter"] is not None else []
    for argument in node["arguments"]:
        expression = unaliased(argument["expression"])
        found.append(expression if _is_count_if(node) else operator(NOT_NULL, expression))
    return tuple(found)


def _measure(item: Node) -> int | None:
    copied = item["class"] == "CAST" and item["type_expr"]["type_name"] == "HUGEINT"
    node = item["child"] if copied else item
    name = node["column_names"][-1] if is_column(node) else ""
    return int(name.removeprefix("__a")) if name.startswith("__a") else None
