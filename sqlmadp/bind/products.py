"""Products: an expression that is summed, as a sum of products of functions of single columns.

    price * quantity - 2 * discount             =  price(p) quantity(q) - 2 discount(d)
    CASE WHEN returned THEN price ELSE fee END  =  returned(r) price(p) + (1 - returned(r)) fee(f)

Such a sum needs no table of its columns' product: each function is a vector over one column's
cells, evaluated by DuckDB.  ``+``, ``-``, ``*``, division by a constant, casts to DOUBLE, days
between two dates, and CASE with conditions on single columns are taken apart; whatever else an
expression of several columns is made of has no such form.

Where an expression is not NULL is a sum of products too: of functions that are 1 where a part is
not NULL, and of the conditions of CASE.  It is a factor of what is summed: NULL adds nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sqlmadp.sql.tree import Node, binary, call_of, case, column_names, integer, terms, text

Vector = NDArray[np.float64]

MOST_TERMS = 64
"""Look at an expression as a whole if it has more terms than this."""


@dataclass(frozen=True, eq=False)
class Term:
    """A number times a function of each of some columns."""

    coefficient: float
    functions: dict[str, Vector]
    """One vector over the cells of each column; 0 where the expression is NULL."""


@dataclass(frozen=True, eq=False)
class Terms:
    """A sum of products of functions of single columns."""

    terms: tuple[Term, ...]
    presence: tuple[Term, ...]
    """What COUNT of the expression adds up: 1 where it is not NULL."""
    present: dict[str, Vector]
    """By column: 1 where no part of that column is NULL, 0 elsewhere."""

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and largest value, or bounds of them where a column occurs twice."""
        low = high = 0.0
        for term in self.terms:
            ends = (term.coefficient, term.coefficient)
            for name, vector in term.functions.items():
                here = vector[self.present[name] > 0]
                if not len(here):
                    return math.nan, math.nan
                products = [a * b for a in ends for b in (float(here.min()), float(here.max()))]
                ends = min(products), max(products)
            low, high = low + ends[0], high + ends[1]
        return low, high

    def at(self, cells: Mapping[str, NDArray[np.int64]]) -> Vector:
        """Return the values on the product of some cells of every column; NaN for NULL."""
        axes = {name: axis for axis, name in enumerate(self.present)}
        shape = [len(cells[name]) for name in axes]

        def added(terms: Sequence[Term]) -> Vector:
            total = np.zeros(shape)
            for term in terms:
                product = np.full(shape, term.coefficient)
                for name, function in term.functions.items():
                    along = [-1 if axis == axes[name] else 1 for axis in range(len(shape))]
                    product = product * function[cells[name]].reshape(along)
                total += product
            return total

        return np.where(added(self.presence) > 0, added(self.terms), np.nan)


class _Product(NamedTuple):
    """A number and expressions of one column each, to be multiplied."""

    number: float
    parts: tuple[Node, ...] = ()
    needs: tuple[Node, ...] = ()
    """Expressions that count as 1 where they are not NULL, and as 0 where they are."""

    def times(self, other: _Product) -> _Product:
        number = self.number * other.number
        return _Product(number, self.parts + other.parts, self.needs + other.needs)


_Products = list[_Product]


class _Sum(NamedTuple):
    """What an expression is the sum of, and where it is not NULL."""

    products: _Products
    presence: _Products

    def scaled(self, by: float) -> _Sum:
        return _Sum([p._replace(number=by * p.number) for p in self.products], self.presence)


def terms_of(node: Node, values: Callable[[Node], Vector]) -> Terms | None:
    """Return an expression as a sum of products of single columns; None if it is none.

    ``values`` are those of an expression of one column on its cells, NaN where it is NULL.
    """
    found = _taken_apart(node)
    if found is None:
        return None
    parts = {text(n): n for p in (*found.products, *found.presence) for n in (*p.parts, *p.needs)}
    vectors = {sql: values(part) for sql, part in parts.items()}
    present: dict[str, Vector] = {}
    for sql, part in parts.items():
        _multiply(present, part, np.isfinite(vectors[sql]).astype(np.float64))

    def term(product: _Product) -> Term:
        functions: dict[str, Vector] = {}
        for part in product.needs:
            _multiply(functions, part, np.isfinite(vectors[text(part)]).astype(np.float64))
        for part in product.parts:
            _multiply(functions, part, np.nan_to_num(vectors[text(part)], nan=0.0))
        return Term(product.number, functions)

    return Terms(tuple(map(term, found.products)), tuple(map(term, found.presence)), present)


def _multiply(functions: dict[str, Vector], part: Node, by: Vector) -> None:
    (name,) = column_names(part)
    functions[name] = functions[name] * by if name in functions else by


def null_parts(node: Node) -> list[Node]:
    """Return expressions of which one is NULL just where the whole is."""
    found = _taken_apart(node)
    if found is None or len(found.presence) != 1:
        return [node]
    ((_, marks, needs),) = found.presence
    parts = {text(part): part for part in needs}
    for mark in marks:  # 1 or 0: without its ELSE 0 it is 1 or NULL.
        part = mark.copy()
        part.set("default", None)
        parts[text(part)] = part
    return list(parts.values())


def _taken_apart(node: Node) -> _Sum | None:
    """Return an expression as a sum of products; None if it cannot be taken apart."""
    number = _number(node)
    if number is not None:
        return _Sum([_Product(number)], [_Product(1.0)])
    if len(column_names(node)) == 1:
        return _Sum([_Product(1.0, (node,))], [_Product(1.0, (), (node,))])
    if (branches := _branches(node)) is not None:
        return _choice(*branches)
    if isinstance(node, (exp.Neg, exp.Cast)):
        inner = _taken_apart(node.this) if isinstance(node, exp.Neg) or _is_double(node) else None
        return inner.scaled(-1.0) if inner is not None and isinstance(node, exp.Neg) else inner
    node = _days_between(node)
    if not isinstance(node, (exp.Add, exp.Sub, exp.Mul, exp.Div)):
        return None
    left, right = _taken_apart(node.this), _taken_apart(node.expression)
    if left is None or right is None:
        return None
    presence = _times(left.presence, right.presence)
    if isinstance(node, exp.Mul):
        return _few(_times(left.products, right.products), presence)
    if isinstance(node, exp.Div):
        divisor = _number(node.expression)
        return left.scaled(1 / divisor) if divisor else None
    added = right.scaled(-1.0 if isinstance(node, exp.Sub) else 1.0).products
    products = _times(left.products, right.presence) + _times(added, left.presence)
    return _few(products, presence)


def _times(left: _Products, right: _Products) -> _Products:
    return [a.times(b) for a in left for b in right]


def _few(products: _Products, presence: _Products) -> _Sum | None:
    few = 0 < len(presence) <= MOST_TERMS and len(products) <= MOST_TERMS
    return _Sum(products, presence) if few else None


def _is_double(node: exp.Cast) -> bool:
    plain = not isinstance(node, exp.TryCast)
    return plain and str(node.args["to"].args.get("spelled", "")).upper() == "DOUBLE"


def _days_between(node: Node) -> Node:
    """Return ``date_diff('day', a, b)`` as b - a, which it is for two dates."""
    call = call_of(node)
    if call is None or call.name not in ("date_diff", "datediff", "date_sub", "datesub"):
        return node
    unit, *dates = call.arguments
    days = isinstance(unit, exp.Literal) and unit.this.lower() in ("day", "days", "d")
    return binary(exp.Sub, dates[1], dates[0]) if days and len(dates) == 2 else node


_Branches = list[tuple[Node, Node]]
"""Conditions, and the values where they are the first to hold."""


def _branches(node: Node) -> tuple[_Branches, Node | None] | None:
    """Return the branches of CASE or IF, and what there is elsewhere; None for anything else."""
    call = call_of(node)
    if call is not None and call.name == "if" and len(call.arguments) == 3:
        condition, value, otherwise = call.arguments
        return [(condition, value)], otherwise
    if not isinstance(node, exp.Case):
        return None
    branches = [
        (
            each.this if node.this is None else binary(exp.EQ, node.this, each.this),
            each.args["true"],
        )
        for each in node.args["ifs"]
    ]
    default = node.args.get("default")
    return branches, None if isinstance(default, exp.Null) else default


def _choice(branches: _Branches, default: Node | None) -> _Sum | None:
    """Return a CASE as the sum of its values, each times 1 where its branch is taken, else 0."""
    if not branches:
        return _Sum([], []) if default is None else _taken_apart(default)
    conditions = [condition for condition, _ in branches]
    if len({name for each in conditions for name in column_names(each)}) == 1:
        values = [value for _, value in branches] + ([] if default is None else [default])
        marks = [_mark(conditions, place) for place in range(len(values))]
        return _chosen(
            [(1.0, [mark], _taken_apart(v)) for mark, v in zip(marks, values, strict=True)]
        )
    (condition, value), *rest = branches
    parts = terms(condition) if isinstance(condition, exp.And) else [condition]
    if any(len(column_names(each)) != 1 for each in parts):
        return None
    both = [_mark([each], 0) for each in parts]
    other = _choice(rest, default)
    return _chosen([(1.0, both, _taken_apart(value)), (1.0, [], other), (-1.0, both, other)])


def _mark(conditions: Sequence[Node], place: int) -> Node:
    """Return 1 where the branch at a place is taken, the last one being ELSE, and 0 elsewhere."""
    mark = case([(each, integer(int(n == place))) for n, each in enumerate(conditions)])
    mark.set("default", integer(int(place == len(conditions))))
    return mark


def _chosen(parts: Sequence[tuple[float, list[Node], _Sum | None]]) -> _Sum | None:
    products: _Products = []
    presence: _Products = []
    for sign, marks, found in parts:
        if found is None:
            return None
        by = [_Product(sign, tuple(marks))]
        products += [p for p in _times(by, found.products) if p.number]
        presence += _times(by, found.presence)
    return _few(products, presence)


def _number(node: Node) -> float | None:
    """Return a constant number, written as such."""
    if isinstance(node, exp.Neg):
        inner = _number(node.this)
        return None if inner is None else -inner
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    try:
        return float(node.this)
    except ValueError:
        return None
