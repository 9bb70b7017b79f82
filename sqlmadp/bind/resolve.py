"""Resolving: a checked SELECT over records, taken apart into what is private and what is not.

Names become expressions over declared columns; aliases and ordinals become the expressions
they stand for.  What is left is a predicate, group keys and aggregates over declared columns
(the *private block*), and an *outer* SELECT over a table ``__block0`` (``__block1``, ... for
further blocks of the statement) with a column ``__k0``, ``__k1``, ... for each key, ``__g0``,
... for each GROUPING(), and ``__a0``, ``__a1``, ... for each aggregate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product

from sqlglot import exp

from sqlmadp.sql.aggregates import Aggregate, Piece, describe, is_aggregate
from sqlmadp.sql.check import GROUPINGS
from sqlmadp.sql.limits import Limits, advice
from sqlmadp.sql.names import Records, resolved
from sqlmadp.sql.statements import RefusedError
from sqlmadp.sql.tree import (
    Lookup,
    Node,
    call_of,
    column,
    integer,
    is_constant,
    is_integer,
    named,
    parts_of,
    rebuild,
    table,
    text,
    walk,
)

GROUP = "__group"
"""The last column of a tracked outer SELECT: the number of the group that a row comes from."""

Sets = list[tuple[Node, ...]]
"""The keys of every grouping set."""


@dataclass(frozen=True)
class Resolved:
    """The parts of one private block, over declared columns only."""

    name: str
    """``__block0``, ``__block1``, ..."""
    where: tuple[Node, ...]
    """Predicates that a record of any group satisfies all of."""
    joined: tuple[Lookup, ...]
    """For every public table that is joined, how many of its rows each record meets."""
    keys: tuple[Node, ...]
    sets: tuple[tuple[int, ...], ...]
    """The keys of every grouping set; one set for a plain GROUP BY, of no key for none."""
    groupings: tuple[tuple[int, ...], ...]
    """The keys of every distinct GROUPING()."""
    aggregates: tuple[Aggregate, ...]
    outer: exp.Select
    """The SELECT over the block."""
    measures: tuple[int | None, ...]
    """For every result column, the aggregate that it is a bare copy of."""
    tracked: bool
    """Whether the outer SELECT can say which group a row comes from."""

    @property
    def pieces(self) -> list[Piece]:
        """The pieces that the aggregates are worked out from, each once."""
        unique = {piece.key: piece for a in self.aggregates for piece in a.pieces}
        return list(unique.values())

    def predicates(self) -> list[Node]:
        """Return every predicate over declared columns."""
        return [*self.where, *(node for piece in self.pieces for node in piece.where)]

    def expressions(self) -> list[Node]:
        """Return every expression that is evaluated over declared values."""
        return [*self.predicates(), *self.keys, *self.values()]

    def values(self) -> list[Node]:
        """Return every expression that is summed or told apart."""
        return [piece.value for piece in self.pieces if piece.value is not None]


PENDING = Resolved("", (), (), (), (), (), (), exp.Select(), (), False)
"""Stands for a block while the queries inside it are looked at."""


class Resolver:
    """Resolves one SELECT with aggregates over records."""

    def __init__(
        self,
        tree: exp.Select,
        records: Records,
        name: str,
        subquery: Callable[[Node], Node],
        *,
        limits: Limits,
    ) -> None:
        """Prepare; ``subquery`` rewrites a subquery over answers."""
        self._limits = limits
        self._tree, self._records = tree, records
        self._name, self._subquery = name, subquery
        self._items: list[Node] = tree.expressions
        self._aliases: dict[str, list[int]] = {}
        for place, item in enumerate(self._items):
            if item.alias:
                self._aliases.setdefault(item.alias.casefold(), []).append(place)
        self._known: dict[int, Node] = {}
        self._keys: dict[str, int] = {}
        self._calls: dict[str, int] = {}
        self._aggregates: list[Aggregate] = []
        self._groupings: dict[tuple[int, ...], int] = {}

    def resolve(self, names: list[str], *, top: bool) -> Resolved:
        """Return the parts; ``names`` are those of the result columns."""
        tree = self._tree
        sets = self._grouping_sets()
        keys = {text(key): key for grouping in sets for key in grouping}
        self._require_few(len(keys), "keys", "keys")
        self._keys = {key: place for place, key in enumerate(keys)}
        items = [self._outer(item) for item in self._items]
        shown = [
            named(item, name) if name else item for item, name in zip(items, names, strict=True)
        ]
        distinct = tree.args.get("distinct")
        tracked = top and distinct is None
        if tracked:
            shown.append(named(column(self._name, "rowid"), GROUP))
        outer = exp.Select(expressions=shown, from_=exp.From(this=table(self._name)))
        if tree.args.get("having") is not None:
            outer.set("where", exp.Where(this=self._outer(tree.args["having"].this)))
        if tree.args.get("qualify") is not None:
            outer.set("qualify", exp.Qualify(this=self._outer(tree.args["qualify"].this)))
        if distinct is not None:
            outer.set("distinct", self._distinct(distinct))
        outer.set("order", self._order(ties=distinct is None))
        for name in ("limit", "offset"):
            if tree.args.get(name) is not None:
                outer.set(name, tree.args[name].copy())
        where = tree.args.get("where")
        conditions = () if where is None else (self._private(where.this),)
        return Resolved(
            name=self._name,
            where=(*self._records.where, *conditions),
            joined=self._records.joined,
            keys=tuple(keys.values()),
            sets=tuple(
                tuple(dict.fromkeys(self._keys[text(key)] for key in grouping)) for grouping in sets
            ),
            groupings=tuple(self._groupings),
            aggregates=tuple(self._aggregates),
            outer=outer,
            measures=tuple(_measure(item) for item in items),
            tracked=tracked,
        )

    # GROUP BY.

    def _grouping_sets(self) -> Sets:
        """Return the keys of every grouping set, resolved, in DuckDB's order of them."""
        group = self._tree.args.get("group")
        elements = group.expressions if group is not None else []
        if self._groups_by_all:
            free = [item for item in self._items if not _has_aggregate(item)]
            if len(free) < len(self._items):
                # DuckDB passes over constants, so that without another key there is one row.
                free = [item for item in free if item.find(exp.Column) is not None]
            return [tuple(self._private(item) for item in free)]
        self._require_few(math.prod(map(_set_count, elements)), "grouping_sets", "grouping sets")
        written = [part for element in elements for part in _parts(element)]
        spelled = {text(part) for part in written}
        found = [
            tuple(key for part in parts for key in part)
            for parts in product(*(self._element(element) for element in elements))
        ]
        unique = {text(key) for grouping in found for key in grouping}
        if len(found) > 1 and len(unique) < len(spelled):
            # DuckDB then takes them for two keys in some sets and for one in others.
            raise RefusedError(
                "grouping",
                "grouping sets name one key in two spellings",
                hint="Spell it the same way everywhere, with or without the name of its table.",
            )
        return found

    def _require_few(self, count: int, limit: str, what: str) -> None:
        most: int = getattr(self._limits, limit)
        if count > most:
            raise RefusedError(
                "too-many-groups",
                f"the SELECT has {count:,} {what}; at most {most:,} are supported",
                hint=f"Group by less at once. {advice(limit)}",
            )

    @property
    def _groups_by_all(self) -> bool:
        group = self._tree.args.get("group")
        if group is not None:
            return bool(group.args.get("all"))
        bare = not any(is_aggregate(part) for item in self._items for part in walk(item))
        return self._tree.args.get("distinct") is not None and bare

    def _element(self, node: Node) -> Sets:
        """Return the grouping sets of one element of GROUP BY."""
        if isinstance(node, exp.GroupingSets):
            return [keys for part in node.expressions for keys in self._element(part)]
        if isinstance(node, (exp.Rollup, exp.Cube)):
            parts = [self._element(part)[0] for part in node.expressions]
            chosen = _prefixes(len(parts)) if isinstance(node, exp.Rollup) else _subsets(len(parts))
            return [tuple(key for place in places for key in parts[place]) for places in chosen]
        if isinstance(node, exp.Tuple):
            return [tuple(self._key(part) for part in node.expressions)]
        return [(self._key(node),)]

    def _key(self, node: Node) -> Node:
        if not is_integer(node):
            return self._private(node)
        number = int(node.this)
        if not 1 <= number <= len(self._items):
            raise RefusedError(
                "unknown-column",
                f"GROUP BY {number}: there are {len(self._items)} result columns",
                node=node,
            )
        return self._private(self._items[number - 1])

    # Names over records: a column comes before an alias.

    def _private(self, node: Node, within: frozenset[str] = frozenset()) -> Node:
        def alias(reference: Node) -> Node:
            item = self._aliased(reference, within)
            return self._private(item, within | {reference.name.casefold()})

        if within:
            return resolved(node, self._records, alias)
        if id(node) not in self._known:  # The tree is kept, so an id is never used again.
            self._known[id(node)] = resolved(node, self._records, alias)
        return self._known[id(node)]

    def _aliased(self, node: Node, within: frozenset[str]) -> Node:
        name = node.name.casefold()
        places = self._aliases[name]
        if name in within or len(places) > 1:
            raise RefusedError(
                "ambiguous-name",
                f"{node.name!r} can be read in two ways here",
                hint="Give every result column a name of its own.",
                node=node,
            )
        return self._items[places[0]]

    # Names over the block: keys and counts, then aliases.

    def _outer(self, node: Node, within: frozenset[str] = frozenset()) -> Node:
        """Return an expression over ``__block``."""
        if isinstance(node, exp.Alias):
            node = node.this
        call = call_of(node)
        if is_aggregate(node):
            return self._aggregate(node)
        if call is not None and call.name in GROUPINGS:
            return self._grouping(node, call.arguments)
        if isinstance(node, exp.Query):
            return self._subquery(node)
        names = parts_of(node) if isinstance(node, exp.Column) else []
        is_alias = len(names) == 1 and names[0].casefold() in self._aliases
        if not is_alias or self._records.find(names) is not None:
            key = self._key_of(node)
            if key is not None and is_alias and self._alias_key(node, within) != key:
                raise RefusedError(
                    "ambiguous-name",
                    f"{names[0]!r} is both a column and another result column",
                    hint="Give the result column a name that no column has.",
                    node=node,
                )
            if key is not None:
                return column(self._name, f"__k{key}")
        if is_alias:
            return self._outer(self._aliased(node, within), within | {names[0].casefold()})
        if names:
            raise RefusedError(
                "not-grouped",
                f"column {names[-1]!r} is neither grouped by nor counted",
                hint="Add it to GROUP BY.",
                node=node,
            )
        if isinstance(node, exp.Window):
            return self._window(node, within)
        return rebuild(node, lambda child: self._outer(child, within))

    def _window(self, node: exp.Window, within: frozenset[str]) -> Node:
        """Return a window over ``__block``; its function is one over answers, even if it is SUM."""
        own, chain = node.this, {id(node.this)}
        while isinstance(own, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)):
            own = own.this
            chain.add(id(own))

        def change(child: Node) -> Node:
            if id(child) in chain or isinstance(child, (exp.IgnoreNulls, exp.RespectNulls)):
                return rebuild(child, change)
            return self._outer(child, within)

        return rebuild(node, change)

    def _key_of(self, node: Node) -> int | None:
        if not self._keys or _is_around(node):
            return None
        return self._keys.get(text(self._private(node)))

    def _alias_key(self, node: Node, within: frozenset[str]) -> int | None:
        places = self._aliases[node.name.casefold()]
        if node.name.casefold() in within:
            return self._key_of(node)  # ``age AS age``: the alias is the column itself.
        return self._key_of(self._items[places[0]]) if len(places) == 1 else None

    def _aggregate(self, node: Node) -> Node:
        private = self._private(node)
        place = self._calls.setdefault(text(private), len(self._calls))
        if place == len(self._aggregates):
            self._aggregates.append(describe(private))
        return column(self._name, f"__a{place}")

    def _grouping(self, node: Node, parts: Iterable[Node]) -> Node:
        keys = []
        for part in parts:
            key = self._key_of(part)
            if key is None:
                raise RefusedError(
                    "grouping", "GROUPING() takes what the statement groups by", node=node
                )
            keys.append(key)
        place = self._groupings.setdefault(tuple(keys), len(self._groupings))
        return column(self._name, f"__g{place}")

    # DISTINCT and ORDER BY.

    def _distinct(self, distinct: exp.Distinct) -> exp.Distinct:
        on = distinct.args.get("on")
        if on is None:
            return exp.Distinct()
        targets = on.expressions if isinstance(on, exp.Tuple) else [on]
        return exp.Distinct(on=exp.Tuple(expressions=[self._order_target(t) for t in targets]))

    def _order(self, *, ties: bool) -> exp.Order | None:
        """Return ORDER BY; the order of groups breaks ties."""
        orders: list[Node] = []
        given = self._tree.args.get("order")
        for order in given.expressions if given is not None else ():
            if isinstance(order.this, exp.Var):  # ORDER BY ALL
                targets: list[Node] = [integer(n + 1) for n in range(len(self._items))]
            else:
                targets = [self._order_target(order.this)]
            ways = {name: order.args.get(name) for name in ("desc", "nulls_first")}
            orders.extend(exp.Ordered(this=target, **ways) for target in targets)
        if ties:
            orders.append(exp.Ordered(this=column(self._name, "rowid")))
        return exp.Order(expressions=orders) if orders else None

    def _order_target(self, node: Node) -> Node:
        if is_constant(node):
            return node.copy()
        if isinstance(node, exp.Column) and not node.table:
            # Here, and only here, an alias comes before a column.
            places = self._aliases.get(node.name.casefold(), [])
            if len(places) == 1:
                return integer(places[0] + 1)
        return self._outer(node)


def _set_count(node: Node) -> int:
    """Return how many grouping sets one element of GROUP BY has."""
    if isinstance(node, exp.GroupingSets):
        return sum(map(_set_count, node.expressions))
    if isinstance(node, exp.Rollup):
        return len(node.expressions) + 1
    return 2 ** len(node.expressions) if isinstance(node, exp.Cube) else 1


def _parts(node: Node) -> Iterable[Node]:
    if isinstance(node, (exp.Cube, exp.Rollup, exp.GroupingSets, exp.Tuple)):
        for part in node.expressions:
            yield from _parts(part)
    else:
        yield node


def _prefixes(count: int) -> list[tuple[int, ...]]:
    return [tuple(range(length)) for length in range(count + 1)]


def _subsets(count: int, first: int = 0) -> list[tuple[int, ...]]:
    """Return all sets of places from ``first`` on, a set before those that it begins."""
    rest = [(place, *more) for place in range(first, count) for more in _subsets(count, place + 1)]
    return [(), *rest]


def _has_aggregate(node: Node) -> bool:
    return any(is_aggregate(part) for part in walk(node))


def _is_around(node: Node) -> bool:
    """Return whether an expression holds what can be no part of a group key."""
    for part in walk(node):
        if isinstance(part, (exp.Window, exp.Query, exp.Exists, exp.Star)) or is_aggregate(part):
            return True
        call = call_of(part)
        if call is not None and call.name in GROUPINGS:
            return True
    return False


def _measure(item: Node) -> int | None:
    name = item.name if isinstance(item, exp.Column) else ""
    return int(name.removeprefix("__a")) if name.startswith("__a") else None
