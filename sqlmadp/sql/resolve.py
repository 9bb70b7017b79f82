"""Resolving: a checked SELECT over records, taken apart into what is private and what is not.

Names become expressions over declared columns; aliases and ordinals become the expressions
they stand for.  What is left is a predicate, group keys and aggregates over declared columns
(the *private block*), and an *outer* SELECT over a table ``__block0`` (``__block1``, ... for
further blocks of the statement) with a column ``__k0``, ``__k1``, ... for each key, ``__g0``,
... for each GROUPING(), and ``__a0``, ``__a1``, ... for each aggregate.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlmadp.sql.aggregates import Aggregate, describe, is_aggregate
from sqlmadp.sql.records import Records
from sqlmadp.sql.resolved import Resolved, private
from sqlmadp.sql.statements import Statement
from sqlmadp.sql.syntax import (
    Node,
    column,
    fingerprint,
    integer,
    is_column,
    rebuild,
    select,
    span,
    table,
    unaliased,
    walk,
)

GROUP = "__group"
"""The last column of a tracked outer SELECT: the number of the group that a row comes from."""


class Resolver:
    """Resolves one SELECT with aggregates over records."""

    def __init__(
        self,
        tree: Node,
        records: Records,
        statement: Statement,
        name: str,
        subquery: Callable[[Node], Node],
    ) -> None:
        """Prepare; ``subquery`` rewrites a subquery over answers."""
        self._tree, self._records, self._statement = tree, records, statement
        self._name, self._subquery = name, subquery
        self._items: list[Node] = tree["select_list"]
        self._aliases: dict[str, list[int]] = {}
        for place, item in enumerate(self._items):
            if item["alias"]:
                self._aliases.setdefault(item["alias"].casefold(), []).append(place)
        self._keys: dict[str, int] = {}
        self._calls: dict[str, int] = {}
        self._aggregates: list[Aggregate] = []
        self._groupings: dict[tuple[int, ...], int] = {}

    def resolve(self, names: list[str], *, top: bool) -> Resolved:
        """Return the parts; ``names`` are those of the result columns."""
        tree = self._tree
        keys = [self._private(self._group_key(node)) for node in self._group_nodes()]
        for key in keys:
            self._keys.setdefault(fingerprint(key), len(self._keys))
        places = [self._keys[fingerprint(key)] for key in keys]
        unique = {fingerprint(key): key for key in keys}
        items = [self._outer(item) for item in self._items]
        named = [{**item, "alias": name} for item, name in zip(items, names, strict=True)]
        having, qualify = (
            None if tree[part] is None else self._outer(tree[part])
            for part in ("having", "qualify")
        )
        distinct = any(m["type"] == "DISTINCT_MODIFIER" for m in tree["modifiers"])
        tracked = top and not distinct
        group = {**column(self._name, "rowid"), "alias": GROUP}
        where = () if tree["where_clause"] is None else (self._private(tree["where_clause"]),)
        outer = select(
            [*named, group] if tracked else named,
            source=table(self._name),
            where=having,
            modifiers=self._modifiers(ties=not distinct),
        )
        return Resolved(
            name=self._name,
            where=(*self._records.where, *where),
            lookups=self._records.lookups,
            keys=tuple(unique.values()),
            sets=self._sets(places),
            groupings=tuple(self._groupings),
            aggregates=tuple(self._aggregates),
            outer={**outer, "qualify": qualify},
            measures=tuple(_measure(item) for item in items),
            tracked=tracked,
        )

    def _sets(self, places: list[int]) -> tuple[tuple[int, ...], ...]:
        """Return the keys of every grouping set."""
        if self._groups_by_all or not self._tree["group_sets"]:
            return (tuple(dict.fromkeys(places)),)
        if len(self._tree["group_sets"]) > 1 and len(set(places)) < len(places):
            # DuckDB then takes them for two keys in some sets and for one in others.
            raise self._statement.refuse(
                "grouping",
                "grouping sets name one key in two spellings",
                hint="Spell it the same way everywhere, as in CUBE (p.age, p.age).",
            )
        return tuple(
            tuple(dict.fromkeys(places[number] for number in numbers))
            for numbers in self._tree["group_sets"]
        )

    # GROUP BY.

    @property
    def _groups_by_all(self) -> bool:
        tree = self._tree
        bare_distinct = not tree["group_expressions"] and not any(
            is_aggregate(part) for item in self._items for part in walk(item)
        )
        distinct = any(m["type"] == "DISTINCT_MODIFIER" for m in tree["modifiers"])
        return bool(
            tree["aggregate_handling"] == "FORCE_AGGREGATES" or (distinct and bare_distinct)
        )

    def _group_nodes(self) -> list[Node]:
        if not self._groups_by_all:
            nodes: list[Node] = self._tree["group_expressions"]
            return nodes
        return [item for item in self._items if not _has_aggregate(item)]

    def _group_key(self, node: Node) -> Node:
        if self._groups_by_all or not _is_ordinal(node):
            return node
        number = int(node["literal"]["text"])
        if not 1 <= number <= len(self._items):
            raise self._statement.refuse(
                "unknown-column",
                f"GROUP BY {number}: there are {len(self._items)} result columns",
                span=span(node),
            )
        return self._items[number - 1]

    # Names over records: a column comes before an alias.

    def _private(self, node: Node, within: frozenset[str] = frozenset()) -> Node:
        def alias(reference: Node) -> Node:
            item = self._aliased(reference, within)
            return self._private(item, within | {reference["column_names"][-1].casefold()})

        return private(node, self._records, alias)

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
            return self._aggregate(node)
        if node["type"] == "GROUPING_FUNCTION":
            return self._grouping(node)
        if node["class"] == "SUBQUERY":
            node = self._subquery(node)
            return rebuild(unaliased(node), lambda child: self._outer(child, within))
        names: list[str] = node["column_names"] if is_column(node) else []
        is_alias = len(names) == 1 and names[0].casefold() in self._aliases
        if not is_alias or self._records.find(names) is not None:
            key = self._key_of(node)
            if key is not None and is_alias and self._alias_key(node, within) != key:
                raise self._statement.refuse(
                    "ambiguous-name",
                    f"{names[0]!r} is both a column and another result column",
                    hint="Give the result column a name that no column has.",
                    span=span(node),
                )
            if key is not None:
                return column(self._name, f"__k{key}")
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
        if not self._keys or _is_around(node):
            return None
        return self._keys.get(fingerprint(self._private(node)))

    def _alias_key(self, node: Node, within: frozenset[str]) -> int | None:
        places = self._aliases[node["column_names"][0].casefold()]
        if node["column_names"][0].casefold() in within:
            return self._key_of(node)  # ``age AS age``: the alias is the column itself.
        return self._key_of(self._items[places[0]]) if len(places) == 1 else None

    def _aggregate(self, node: Node) -> Node:
        resolved = self._private(node)
        place = self._calls.setdefault(fingerprint(resolved), len(self._calls))
        if place == len(self._aggregates):
            self._aggregates.append(describe(resolved))
        return column(self._name, f"__a{place}")

    def _grouping(self, node: Node) -> Node:
        keys = []
        for child in node["children"]:
            key = self._key_of(child)
            if key is None:
                raise self._statement.refuse(
                    "grouping", "GROUPING() takes what the statement groups by", span=span(node)
                )
            keys.append(key)
        place = self._groupings.setdefault(tuple(keys), len(self._groupings))
        return column(self._name, f"__g{place}")

    # ORDER BY and LIMIT.

    def _modifiers(self, *, ties: bool) -> list[Node]:
        """Return DISTINCT, ORDER BY (the order of groups breaks ties) and LIMIT."""
        first: list[Node] = []
        orders: list[Node] = []
        limits: list[Node] = []
        for modifier in self._tree["modifiers"]:
            match modifier["type"]:
                case "ORDER_MODIFIER":
                    for order in modifier["orders"]:
                        orders.extend({**order, "expression": e} for e in self._order(order))
                case "DISTINCT_MODIFIER":
                    targets = [self._order_target(t) for t in modifier["distinct_on_targets"]]
                    first.append({**modifier, "distinct_on_targets": targets})
                case _:
                    limits.append(modifier)
        if ties:
            tie = {"type": "ORDER_DEFAULT", "null_order": "ORDER_DEFAULT"}
            orders.append({**tie, "expression": column(self._name, "rowid")})
        ordered = [{"type": "ORDER_MODIFIER", "orders": orders}] if orders else []
        return [*first, *ordered, *limits]

    def _order(self, order: Node) -> list[Node]:
        node = order["expression"]
        if node["class"] == "STAR":  # ORDER BY ALL
            return [integer(place + 1) for place in range(len(self._items))]
        return [self._order_target(node)]

    def _order_target(self, node: Node) -> Node:
        if node["class"] == "CONSTANT":
            return node
        if is_column(node) and len(node["column_names"]) == 1:
            # Here, and only here, an alias comes before a column.
            places = self._aliases.get(node["column_names"][0].casefold(), [])
            if len(places) == 1:
                return integer(places[0] + 1)
        return self._outer(node)


def _is_ordinal(node: Node) -> bool:
    return bool(node["class"] == "CONSTANT" and node["literal"]["kind"] == "INTEGER")


def _has_aggregate(node: Node) -> bool:
    return any(is_aggregate(part) for part in walk(node))


def _is_around(node: Node) -> bool:
    """Return whether an expression holds what can be no part of a group key."""
    return any(
        is_aggregate(part)
        or part["class"] in ("WINDOW", "SUBQUERY", "STAR")
        or part["type"] == "GROUPING_FUNCTION"
        for part in walk(node)
    )


def _measure(item: Node) -> int | None:
    name = item["column_names"][-1] if is_column(item) else ""
    return int(name.removeprefix("__a")) if name.startswith("__a") else None
