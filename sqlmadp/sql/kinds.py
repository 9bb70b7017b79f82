"""How expressions depend on the answers, over relations whose columns' kinds are known.

What is not recognised here is OTHER, never LINEAR: see ``linear`` for what the kinds mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum

from sqlmadp.sql.allowed import OUTER_AGGREGATES
from sqlmadp.sql.syntax import Node, children


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


_CASTS = frozenset({"double", "float", "float4", "float8", "real", "decimal", "numeric", "dec"})
_SUMS = frozenset({"sum", "avg", "mean", "fsum", "kahan_sum", "sumkahan", "favg"})
_COUNTS = frozenset({"count", "count_star"})
_TAKEN = frozenset({"lag", "lead", "first_value", "last_value", "nth_value"})
_WHOLE = frozenset({"bigint", "hugeint", "integer", "int", "int8", "int4", "long"})


def is_aggregate(node: Node) -> bool:
    """Return whether an expression is an aggregate over answers."""
    return node["class"] == "FUNCTION" and node["function_name"].lower() in OUTER_AGGREGATES


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
        match node["class"]:
            case "CONSTANT":
                return Kind.FREE
            case "COLUMN_REF":
                return self._column(node["column_names"])
            case "SUBQUERY":
                return self._subquery(node)
            case "WINDOW":
                return self._window(node)
            case "FUNCTION" if is_aggregate(node):
                return self._aggregate(node)
        kinds = [self.kind(child) for child in children(node)]
        largest = max(kinds, default=Kind.FREE)
        if largest != Kind.LINEAR:
            return largest
        return Kind.LINEAR if self._keeps_linear(node, kinds) else Kind.OTHER

    def _keeps_linear(self, node: Node, kinds: list[Kind]) -> bool:
        """Return whether an operation on LINEAR and FREE operands is LINEAR."""
        match node["class"]:
            case "CAST":
                name = node["type_expr"].get("type_name", "").lower()
                return name in _CASTS or (name in _WHOLE and node["child"]["class"] == "COLUMN_REF")
            case "CASE":
                return all(self.is_free(check["when_expr"]) for check in node["case_checks"])
            case "OPERATOR":
                # A LINEAR value is NULL in the same rows whatever the answers are.
                return bool(node["type"] == "OPERATOR_COALESCE")
            case "FUNCTION":
                name = node["function_name"]
                return (
                    name in ("+", "-")
                    or (name == "*" and Kind.FREE in kinds)
                    or (name == "/" and kinds[-1] == Kind.FREE)
                )
        return False

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
        found = self._query(node["subquery"]["node"])
        kinds = [column.kind for column in found.columns]
        kinds += [] if node["child"] is None else [self.kind(node["child"])]
        if not found.fixed or not kinds:
            return Kind.OTHER
        scalar = node["subquery_type"] == "SCALAR"
        return max(kinds) if scalar or max(kinds) == Kind.FREE else Kind.OTHER

    def _aggregate(self, node: Node) -> Kind:
        """Return the kind of an aggregate over answers."""
        name = node["function_name"].lower()
        kinds = [self.kind(argument["expression"]) for argument in node["arguments"]]
        others = [node["filter"], *(o["expression"] for o in node["order_bys"]["orders"])]
        free = all(self.is_free(part) for part in others if part is not None)
        if not self._source.fixed or not free:
            return Kind.OTHER
        return _of_sums(name, kinds, distinct=node["distinct"])

    def _window(self, node: Node) -> Kind:
        name = node["function_name"].lower()
        kinds = [self.kind(argument["expression"]) for argument in node["arguments"]]
        values = {id(argument["expression"]) for argument in node["arguments"]}
        around = [child for child in children(node) if id(child) not in values]
        if not self._source.fixed or not all(self.is_free(part) for part in around):
            return Kind.OTHER
        if name in _TAKEN and all(kind == Kind.FREE for kind in kinds[1:]):
            return kinds[0]
        return _of_sums(name, kinds, distinct=node["distinct"])


def _of_sums(name: str, kinds: list[Kind], *, distinct: bool) -> Kind:
    """Return the kind of an aggregate of values of the given kinds, over FREE rows."""
    largest = max(kinds, default=Kind.FREE)
    if largest != Kind.LINEAR or distinct:
        return largest if largest == Kind.FREE else Kind.OTHER
    if name in _COUNTS:
        return Kind.FREE
    return Kind.LINEAR if name in _SUMS else Kind.OTHER
