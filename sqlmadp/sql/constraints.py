"""Constraints: what the CHECK expressions of a table let into its columns.

An expression counts as far as it lists values of a column or sets its ends, alone or joined by AND.
Whatever else it says is passed over, and so is what cannot be parsed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date

import sqlglot
from sqlglot import exp

Constant = str | int | float | date

_FLIPPED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
}


@dataclass(frozen=True, kw_only=True)
class Allowed:
    """What a column can hold, or a little more; None where nothing is said."""

    null: bool | None = None
    values: tuple[Constant, ...] | None = None
    low: Constant | None = None
    high: Constant | None = None

    def narrowed(self, other: Allowed) -> Allowed:
        """Return the values that both let in."""
        values = self.values if other.values is None else other.values
        if self.values is not None and other.values is not None:
            values = tuple(value for value in self.values if value in other.values)
        return Allowed(
            null=other.null if self.null is None else self.null and other.null is not False,
            values=values,
            low=_inner(self.low, other.low, most=True),
            high=_inner(self.high, other.high, most=False),
        )


def checked(expressions: Iterable[str], dialect: str) -> dict[str, Allowed]:
    """Return the values that CHECK expressions let into each column, by its name in lower case."""
    found: dict[str, Allowed] = {}
    for text in expressions:
        try:
            tree = sqlglot.parse_one(text, dialect=dialect)
        except sqlglot.errors.SqlglotError:
            continue
        for part in _conjuncts(tree):
            for name, allowed in _said(part).items():
                found[name] = found.get(name, Allowed()).narrowed(allowed)
    return found


def _conjuncts(tree: exp.Expr) -> Iterable[exp.Expr]:
    tree = _bare(tree)
    if isinstance(tree, exp.And):
        yield from _conjuncts(tree.left)
        yield from _conjuncts(tree.right)
    elif isinstance(tree, exp.Between):
        yield exp.GTE(this=tree.this, expression=tree.args["low"])
        yield exp.LTE(this=tree.this, expression=tree.args["high"])
    else:
        yield tree


def _said(part: exp.Expr) -> Mapping[str, Allowed]:
    """Return the values that one condition lets in, if it is about one column and constants."""
    if isinstance(part, exp.Not) and isinstance(test := _bare(part.this), exp.Is):
        name = _name(test.this)
        null = isinstance(test.expression, exp.Null)
        return {name: Allowed(null=False)} if name and null else {}
    listed = _listed(part)
    if listed is not None:
        return {listed[0]: Allowed(values=listed[1])}
    if not isinstance(part, exp.GT | exp.GTE | exp.LT | exp.LTE):
        return {}
    kind: type[exp.Expr] = type(part)
    name, value = _name(part.left), _constant(part.right)
    if name is None:
        kind, name, value = _FLIPPED[kind], _name(part.right), _constant(part.left)
    if name is None or value is None:
        return {}
    return {name: Allowed(low=value) if kind in (exp.GT, exp.GTE) else Allowed(high=value)}


def _listed(part: exp.Expr) -> tuple[str, tuple[Constant, ...]] | None:
    """Return the column and the values of ``c IN (...)``, ``c = ANY (...)`` or ``c = 1 OR ...``."""
    part = _bare(part)
    if isinstance(part, exp.Or):
        left, right = _listed(part.left), _listed(part.right)
        if left is None or right is None or left[0] != right[0]:
            return None
        return left[0], left[1] + right[1]
    if isinstance(part, exp.In):
        name, items = _name(part.this), part.expressions
    elif isinstance(part, exp.EQ) and isinstance(part.right, exp.Any):
        array = _bare(part.right.this)
        name, items = _name(part.left), array.expressions if isinstance(array, exp.Array) else []
    elif isinstance(part, exp.EQ):
        name, items = _name(part.left), [part.right]
    else:
        return None
    values = [_constant(item) for item in items]
    known = tuple(value for value in values if value is not None)
    return (name, known) if name and known and len(known) == len(values) else None


def _bare(tree: exp.Expr) -> exp.Expr:
    """Return an expression without parentheses and casts around it."""
    while isinstance(tree, exp.Paren | exp.Cast):
        tree = tree.this
    return tree


def _name(tree: exp.Expr) -> str | None:
    tree = _bare(tree)
    return tree.name.casefold() if isinstance(tree, exp.Column) else None


def _constant(tree: exp.Expr) -> Constant | None:
    """Return a literal; text that is cast to a date or a number is one, as in '-3'::integer."""
    kind = tree.args["to"] if isinstance(tree, exp.Cast) else exp.DataType.build("UNKNOWN")
    bare = _bare(tree)
    sign = 1
    if isinstance(bare, exp.Neg):
        sign, bare = -1, _bare(bare.this)
    if not isinstance(bare, exp.Literal):
        return None
    try:
        if not bare.is_string or kind.is_type(*exp.DataType.NUMERIC_TYPES):
            whole = bare.this.lstrip("-").isdigit()
            return sign * (int(bare.this) if whole else float(bare.this))
        if kind.is_type(exp.DataType.Type.DATE):
            return date.fromisoformat(bare.this)
    except ValueError:
        return None
    return str(bare.this)


def _inner(one: Constant | None, other: Constant | None, *, most: bool) -> Constant | None:
    if one is None or other is None:
        return other if one is None else one
    if type(one) is not type(other) and not {type(one), type(other)} <= {int, float}:
        return one
    larger = one > other  # type: ignore[operator]
    return one if larger == most else other
