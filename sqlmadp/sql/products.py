"""Products: an expression that is summed, as a sum of products of functions of single columns.

    price * quantity - 2 * discount        =  1 price(p) quantity(q)  -  2 discount(d)

Such a sum needs no table of its columns' product: each function is a vector over one column's
cells, evaluated by DuckDB.  Only ``+``, ``-``, ``*``, division by a constant, casts to DOUBLE and
a CASE of one branch, without ELSE or with ELSE 0, are taken apart; whatever else an expression of
several columns is made of has no such form.

NULL: an expression of this form is NULL just where one of its columns' parts is, and adds nothing
there, so every term gets, for a column that only other terms have, the function that is 1 where
that part is not NULL.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sqlmadp.sql.tree import Node, case, column_names, integer, terms, text

Vector = NDArray[np.float64]

ELSE_0 = "not NULL where the product is"
"""Marks the part that stands for a condition with ELSE 0."""

MOST_TERMS = 64
"""Terms of one expression; beyond that it is looked at whole."""


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
    present: dict[str, Vector]
    """By column: 1 where the parts of that column are not NULL, 0 elsewhere."""
    elsewhere: bool = False
    """Whether ELSE 0 may make it 0 where such a part is NULL."""

    @property
    def presence(self) -> Term:
        """What COUNT of the expression adds up; one with ELSE 0 is taken to be never NULL."""
        return Term(1.0, {} if self.elsewhere else self.present)

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
        shape = [len(cells[name]) for name in self.present]

        def product(term: Term) -> Vector:
            found = np.full(shape, term.coefficient)
            for axis, name in enumerate(self.present):
                along = [-1 if a == axis else 1 for a in range(len(shape))]
                found = found * term.functions[name][cells[name]].reshape(along)
            return found

        values = sum((product(term) for term in self.terms), np.zeros(shape))
        return np.where(product(Term(1.0, self.present)) > 0, values, np.nan)


_Product = tuple[float, tuple[Node, ...]]
"""A number and expressions of one column each, to be multiplied."""


def terms_of(node: Node, values: Callable[[Node], Vector]) -> Terms | None:
    """Return an expression as a sum of products of single columns; None if it is none.

    ``values`` are those of an expression of one column on its cells, NaN where it is NULL.
    """
    found = _products(node)
    if found is None:
        return None
    known: dict[str, Vector] = {}

    def vector(part: Node) -> Vector:
        if text(part) not in known:
            known[text(part)] = values(part)
        return known[text(part)]

    present: dict[str, Vector] = {}
    for _, parts in found:
        for part in parts:
            (name,) = column_names(part)
            here = np.isfinite(vector(part)).astype(np.float64)
            present[name] = present[name] * here if name in present else here
    made = []
    for coefficient, parts in found:
        functions = dict(present)
        for part in parts:
            (name,) = column_names(part)
            functions[name] = functions[name] * np.nan_to_num(vector(part), nan=0.0)
        made.append(Term(coefficient, functions))
    marks = [part for _, parts in found for part in parts if part.meta.get(ELSE_0)]
    return Terms(tuple(made), present, elsewhere=bool(marks))


def _products(node: Node) -> list[_Product] | None:
    """Return what an expression is the sum of; None if it cannot be taken apart."""
    number = _number(node)
    if number is not None:
        return [(number, ())]
    if len(column_names(node)) == 1:
        return [(1.0, (node,))]
    if isinstance(node, exp.Neg):
        return _scaled(_products(node.this), -1.0)
    if isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast):
        double = str(node.args["to"].args.get("spelled", "")).upper() == "DOUBLE"
        return _products(node.this) if double else None
    if isinstance(node, exp.Case):
        return _conditional(node)
    if not isinstance(node, (exp.Add, exp.Sub, exp.Mul, exp.Div)):
        return None
    left, right = _products(node.this), _products(node.expression)
    if left is None or right is None:
        return None
    if isinstance(node, (exp.Add, exp.Sub)):
        return _few([*left, *(_scaled(right, -1.0 if isinstance(node, exp.Sub) else 1.0) or ())])
    if isinstance(node, exp.Mul):
        return _few((a * b, (*x, *y)) for a, x in left for b, y in right)
    divisor = _number(node.expression)
    return _scaled(left, 1 / divisor) if divisor else None


def _conditional(node: exp.Case) -> list[_Product] | None:
    """Return ``CASE WHEN a AND b THEN x [ELSE 0] END`` as x times 1 where a, and where b."""
    default = node.args.get("default")
    zero = default is not None and _number(default) == 0
    if node.this is not None or len(node.args["ifs"]) != 1:
        return None
    if not (zero or default is None or isinstance(default, exp.Null)):
        return None
    (branch,) = node.args["ifs"]
    conditions = terms(branch.this) if isinstance(branch.this, exp.And) else [branch.this]
    inner = _products(branch.args["true"])
    if inner is None or any(len(column_names(each)) != 1 for each in conditions):
        return None
    marks = []
    for each in conditions:
        mark = case([(each, integer(1))])
        if zero:
            mark.set("default", integer(0))
            mark.meta[ELSE_0] = True
        marks.append(mark)
    return [(number, (*marks, *parts)) for number, parts in inner]


def null_parts(node: Node) -> list[Node]:
    """Return expressions of which one is NULL just where the whole is."""
    found = _products(node)
    marks = [part for _, parts in found or () for part in parts if part.meta.get(ELSE_0)]
    if found is None or marks:
        return [node]
    parts = {text(part): part for _, product in found for part in product}
    return list(parts.values())


def _few(products: Iterable[_Product]) -> list[_Product] | None:
    found = list(products)
    return found if len(found) <= MOST_TERMS else None


def _scaled(products: list[_Product] | None, by: float) -> list[_Product] | None:
    return None if products is None else [(by * number, parts) for number, parts in products]


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
