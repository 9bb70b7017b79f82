"""sqlglot's syntax tree of a statement: looking at it, and making new parts of it.

An expression's children are the expressions directly below it, however sqlglot wraps them up (the
WHEN of a CASE, the ORDER BY of a window); a query inside an expression is not looked into.  Trees
are never changed once they are read: ``rebuild`` makes new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sqlglot import exp

from sqlmadp.sql.grammar import Lookup, Node, written

__all__ = ["Lookup", "Node"]

Made = TypeVar("Made", bound=exp.Expr)
Span = tuple[int, int]
"""Start and length inside a statement's text, in characters."""

_WRAPPERS = (exp.If, exp.Order, exp.Ordered, exp.Distinct, exp.Where, exp.WindowSpec)
_LEAVES = (exp.Identifier, exp.DataType, exp.Var, exp.TableAlias, exp.Query, exp.Star)
_CALLS = (exp.Anonymous, exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)


# Looking.


def children(node: Node) -> list[Node]:
    """Return the expressions directly below an expression."""
    if isinstance(node, (exp.Column, exp.Query)):
        return []
    found: list[Node] = []
    call = call_of(node.this if isinstance(node, exp.Window) else node)
    if call is not None:
        parts = (*call.arguments, call.where, *(order.this for order in call.orders))
        found = [part for part in parts if part is not None and not isinstance(part, exp.Star)]
        if not isinstance(node, exp.Window):
            return found
    for child in node.iter_expressions():
        if call is not None and child is node.this:
            continue  # The function of a window is no call of its own.
        if isinstance(child, _WRAPPERS):
            found.extend(children(child))
        elif isinstance(child, exp.Query) or not isinstance(child, _LEAVES):
            found.append(child)
    return found


def walk(node: Node) -> Iterator[Node]:
    """Yield an expression and everything below it, from the top."""
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(reversed(children(current)))


def rebuild(node: Made, change: Callable[[Node], Node]) -> Made:
    """Return a copy of an expression whose direct children went through ``change``."""
    copy = node.__class__()
    if "start" in node.meta:
        copy.meta["start"], copy.meta["end"] = node.meta["start"], node.meta["end"]

    def changed(value: object) -> object:
        if isinstance(value, _WRAPPERS):
            return rebuild(value, change)
        if isinstance(value, exp.Expr):
            kept = isinstance(value, _LEAVES) and not isinstance(value, exp.Query)
            return value.copy() if kept else change(value)
        return value

    for name, value in node.args.items():
        copy.set(name, [changed(v) for v in value] if isinstance(value, list) else changed(value))
    return copy


def span(node: Node | None) -> Span | None:
    """Return the part of the statement that a node was read from."""
    if node is None:
        return None
    if "start" in node.meta:
        start, end = node.meta["start"], node.meta["end"]
        return start, end + 1 - start
    places = [part.meta for part in node.walk() if "start" in part.meta]
    if not places:
        return None
    start = min(place["start"] for place in places)
    return start, max(place["end"] for place in places) + 1 - start


def text(node: Node) -> str:
    """Return an expression as DuckDB's SQL, which is equal just when two expressions are."""
    found: str | None = node.meta.get("sql")
    if found is None:
        found = node.meta["sql"] = written(node)
    return found


def column_names(node: Node) -> frozenset[str]:
    """Return the declared columns of a resolved expression; a public column has a qualifier."""
    found: frozenset[str] | None = node.meta.get("columns")
    if found is None:
        if isinstance(node, exp.Column):
            found = frozenset() if node.args.get("table") else frozenset({node.name})
        else:
            # Every part remembers its own, so that asking all parts of a chain takes no longer.
            found = frozenset().union(*map(column_names, node.iter_expressions()))
        node.meta["columns"] = found
    return found


def parts_of(column: exp.Column) -> list[str]:
    """Return the words of a column's name, its qualifiers first."""
    return [part.name for part in column.parts]


def is_integer(node: Node) -> bool:
    """Return whether an expression is an integer, written as such."""
    return isinstance(node, exp.Literal) and not node.is_string and node.this.isdigit()


def is_constant(node: Node) -> bool:
    """Return whether an expression is one constant, written as such."""
    if isinstance(node, exp.Neg):
        node = node.this
    return isinstance(node, (exp.Literal, exp.Null))


def is_star(node: Node) -> bool:
    """Return whether an expression is a star, of one relation or of all."""
    return isinstance(node, exp.Star) or (
        isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
    )


def constant(node: Node) -> str:
    """Return a constant as it is written, without quotes; empty for anything else."""
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        return f"-{node.this.this}"
    return str(node.this) if isinstance(node, exp.Literal) else ""


def terms(node: Node) -> list[Node]:
    """Return the operands of AND or OR, those of the same operator inside it included."""
    if not isinstance(node, exp.Connector):
        return [node]
    return [t for side in (node.left, node.right) for t in _terms(side, type(node))]


def _terms(node: Node, kind: type[exp.Expr]) -> list[Node]:
    return terms(node) if type(node) is kind else [node]


# Calls of functions.


@dataclass(frozen=True)
class Call:
    """A function call, with all that may follow its parentheses."""

    node: Node
    name: str
    """In lower case."""
    arguments: tuple[Node, ...]
    distinct: bool = False
    where: Node | None = None
    """The condition of FILTER."""
    orders: tuple[exp.Ordered, ...] = ()
    within: bool = False
    """Whether the order is that of WITHIN GROUP."""
    nulls: bool = False
    """Whether it says IGNORE NULLS or RESPECT NULLS."""
    named: bool = False
    """Whether an argument has a name."""


def call_of(node: Node) -> Call | None:
    """Return an expression as a call; None if it is none."""
    if not isinstance(node, _CALLS):
        return None
    where, orders, within, nulls, inner = None, [], False, False, node
    while isinstance(inner, _CALLS) and not isinstance(inner, exp.Anonymous):
        if isinstance(inner, exp.Filter):
            where = inner.expression.this
        elif isinstance(inner, exp.WithinGroup):
            orders, within = list(inner.expression.expressions), True
        else:
            nulls = True
        inner = inner.this
    if not isinstance(inner, exp.Anonymous):
        return None
    arguments, distinct, named = [], False, False
    for given in inner.expressions:
        argument = given
        while isinstance(argument, (exp.IgnoreNulls, exp.RespectNulls, exp.Order)):
            if isinstance(argument, exp.Order):
                orders = [*orders, *argument.expressions]
            else:
                nulls = True
            argument = argument.this
        if isinstance(argument, exp.Distinct):
            distinct = True
            arguments.extend(argument.expressions)
        elif argument is not None:
            arguments.append(argument)
        named |= isinstance(argument, (exp.PropertyEQ, exp.Kwarg, exp.Alias, exp.Limit))
    name = str(inner.this if isinstance(inner.this, str) else inner.this.name).lower()
    found = tuple(arguments)
    return Call(node, name, found, distinct, where, tuple(orders), within, nulls, named)


# Making.


def quote(name: str) -> str:
    """Return a name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def column(*names: str) -> exp.Column:
    """Return a reference to a column."""
    *qualifiers, name = (exp.to_identifier(part, quoted=True) for part in names)
    return exp.Column(this=name, table=qualifiers[-1] if qualifiers else None)


def function(name: str, *arguments: Node) -> exp.Anonymous:
    """Return a call of a function."""
    return exp.Anonymous(this=name, expressions=[argument.copy() for argument in arguments])


def integer(number: int) -> exp.Literal:
    """Return an integer constant."""
    return exp.Literal(this=str(number), is_string=False)


def not_null(node: Node) -> exp.Is:
    """Return ``node IS NOT NULL``."""
    return placed(exp.Is(this=node.copy(), expression=exp.Null(), negate=True), node)


def negation(node: Node) -> exp.Not:
    """Return ``NOT node``."""
    return placed(exp.Not(this=node.copy()), node)


def cast(node: Node, kind: str) -> exp.Cast:
    """Return ``CAST(node AS kind)``."""
    return exp.Cast(this=node.copy(), to=exp.DataType(spelled=kind))


def binary(kind: type[exp.Binary], left: Node, right: Node) -> Node:
    """Return an operator such as ``exp.EQ`` between its operands."""
    return kind(this=left.copy(), expression=right.copy())


def conjunction(nodes: Sequence[Node]) -> Node:
    """Return the AND of expressions."""
    return connected_by(exp.And, nodes)


def connected_by(kind: type[exp.Expr], nodes: Sequence[Node]) -> Node:
    """Return the AND or OR of expressions, balanced, so that long chains do not nest deep."""

    def balanced(parts: list[Node]) -> Node:
        if len(parts) == 1:
            return parts[0]
        middle = len(parts) // 2
        return kind(this=balanced(parts[:middle]), expression=balanced(parts[middle:]))

    return balanced([node.copy() for node in nodes])


def case(branches: Sequence[tuple[Node, Node]]) -> exp.Case:
    """Return ``CASE WHEN ... THEN ... END``; NULL if no branch applies."""
    ifs = [exp.If(this=when.copy(), true=then.copy()) for when, then in branches]
    return exp.Case(ifs=ifs)


def named(node: Node, name: str) -> exp.Alias:
    """Return ``node AS name``."""
    return exp.Alias(this=node, alias=exp.to_identifier(name, quoted=True))


def table(name: str) -> exp.Table:
    """Return a table of a FROM clause."""
    return exp.Table(this=exp.to_identifier(name))


def placed(node: Made, at: Node) -> Made:
    """Return a node at the place of another one, for messages."""
    place = span(at)
    if place is not None:
        node.meta["start"], node.meta["end"] = place[0], sum(place) - 1
    return node
