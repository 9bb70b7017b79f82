"""How expressions depend on the answers, over relations whose columns' kinds are known.

What is not recognised here is OTHER, never LINEAR: see ``linear`` for what the kinds mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum

from sqlglot import exp

from sqlmadp.sql.allowed import OUTER_AGGREGATES
from sqlmadp.sql.tree import Call, Node, call_of, children, parts_of


class Kind(IntEnum):
    """How a column depends on the answers; the larger one wins where two meet."""

    FREE = 0
    LINEAR = 1
    OTHER = 2


@dataclass(frozen=True)
class KindColumn:
    """A column of a relation, and how it depends on the answers."""

    qualifier: str
    name: str
    kind: Kind
    merged: bool = False
    """Whether USING made it one with a column of the left side."""


@dataclass(frozen=True)
class Relation:
    """The columns that a FROM clause offers."""

    columns: tuple[KindColumn, ...]
    fixed: bool
    """Whether the answers change nothing about which rows there are."""

    def renamed(self, alias: str, names: Iterable[str]) -> Relation:
        """Return the same columns under a table alias, the first ones renamed."""
        new = dict(enumerate(names))
        columns = (
            KindColumn(alias.casefold(), new.get(place, column.name).casefold(), column.kind)
            for place, column in enumerate(self.columns)
        )
        return Relation(tuple(columns), self.fixed)


_CASTS = frozenset(
    {"double", "double precision", "float", "float4", "float8", "real", "decimal", "numeric", "dec"}
)
_SUMS = frozenset({"sum", "avg", "mean", "fsum", "kahan_sum", "sumkahan", "favg"})
_COUNTS = frozenset({"count"})
_TAKEN = frozenset({"lag", "lead", "first_value", "last_value", "nth_value"})
_WHOLE = frozenset({"bigint", "hugeint", "integer", "int", "int8", "int4", "long"})


def is_aggregate(node: Node) -> bool:
    """Return whether an expression is an aggregate over answers."""
    call = call_of(node)
    return call is not None and call.name in OUTER_AGGREGATES


class Scope:
    """The expressions of one SELECT."""

    def __init__(self, source: Relation, subquery: Callable[[Node], Relation]) -> None:
        """Look at expressions over ``source``; ``subquery`` tells of the queries inside them."""
        self._source, self._query = source, subquery
        self.aliases: dict[str, Kind] = {}

    def is_free(self, node: Node) -> bool:
        """Return whether an expression is the same whatever the answers are."""
        return self.kind(node) == Kind.FREE

    def kind(self, node: Node) -> Kind:
        """Return how an expression depends on the answers."""
        if isinstance(node, exp.Alias):
            node = node.this
        if isinstance(node, exp.Column):
            return self._column(parts_of(node))
        if isinstance(node, exp.Query):
            return self._subquery(node)
        if isinstance(node, exp.Window):
            return self._window(node)
        if is_aggregate(node):
            return self._aggregate(node)
        kinds = [self.kind(child) for child in children(node)]
        largest = max(kinds, default=Kind.FREE)
        if largest != Kind.LINEAR:
            return largest
        return Kind.LINEAR if self._keeps_linear(node, kinds) else Kind.OTHER

    def _keeps_linear(self, node: Node, kinds: list[Kind]) -> bool:
        """Return whether an operation on LINEAR and FREE operands is LINEAR."""
        if isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast):
            name = str(node.args["to"].args.get("spelled", "")).partition("(")[0].strip().lower()
            return name in _CASTS or (name in _WHOLE and isinstance(node.this, exp.Column))
        if isinstance(node, exp.Case):
            # The values may be LINEAR; what chooses among them may not.
            choosing = [node.this] if node.this is not None else []
            choosing += [branch.this for branch in node.args["ifs"]]
            return all(self.is_free(part) for part in choosing)
        if isinstance(node, exp.Anonymous):
            # A LINEAR value is NULL in the same rows whatever the answers are.
            return node.name.lower() == "coalesce"
        if isinstance(node, (exp.Add, exp.Sub, exp.Neg)):
            return True
        if isinstance(node, exp.Mul):
            return Kind.FREE in kinds
        return isinstance(node, exp.Div) and kinds[-1] == Kind.FREE

    def _column(self, names: list[str]) -> Kind:
        *qualifier, name = (part.casefold() for part in names)
        found = [
            column.kind
            for column in self._source.columns
            if column.name == name and (not qualifier or qualifier == [column.qualifier])
        ]
        if not found and not qualifier and name in self.aliases:
            return self.aliases[name]
        return max(found, default=Kind.OTHER)

    def _subquery(self, node: Node) -> Kind:
        """Return the kind of a query inside an expression; only a scalar one may be LINEAR."""
        found = self._query(node)
        kinds = [column.kind for column in found.columns]
        if not found.fixed or not kinds:
            return Kind.OTHER
        scalar = not isinstance(node.parent, (exp.In, exp.Exists, exp.Any, exp.All))
        return max(kinds) if scalar or max(kinds) == Kind.FREE else Kind.OTHER

    def _aggregate(self, node: Node) -> Kind:
        """Return the kind of an aggregate over answers."""
        call = call_of(node)
        if call is None or not self._source.fixed or not self._around_is_free(call):
            return Kind.OTHER
        kinds = [self.kind(a) for a in call.arguments if not isinstance(a, exp.Star)]
        return _of_sums(call.name, kinds, distinct=call.distinct)

    def _around_is_free(self, call: Call) -> bool:
        others = [call.where, *(order.this for order in call.orders)]
        return all(self.is_free(part) for part in others if part is not None)

    def _window(self, node: exp.Window) -> Kind:
        call = call_of(node.this)
        if call is None or not self._source.fixed or not self._around_is_free(call):
            return Kind.OTHER
        values = {id(argument) for argument in call.arguments}
        around = [child for child in children(node) if id(child) not in values]
        if not all(self.is_free(part) for part in around):
            return Kind.OTHER
        kinds = [self.kind(a) for a in call.arguments if not isinstance(a, exp.Star)]
        if call.name in _TAKEN and all(kind == Kind.FREE for kind in kinds[1:]):
            return kinds[0]
        return _of_sums(call.name, kinds, distinct=call.distinct)


def _of_sums(name: str, kinds: list[Kind], *, distinct: bool) -> Kind:
    """Return the kind of an aggregate of values of the given kinds, over FREE rows."""
    largest = max(kinds, default=Kind.FREE)
    if largest != Kind.LINEAR or distinct:
        return largest if largest == Kind.FREE else Kind.OTHER
    if name in _COUNTS:
        return Kind.FREE
    return Kind.LINEAR if name in _SUMS else Kind.OTHER
