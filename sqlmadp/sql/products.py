"""Products: an expression that is summed, as a sum of products of functions of single columns.

    price * quantity - 2 * discount        =  1 price(p) quantity(q)  -  2 discount(d)

Such a sum needs no table of its columns' product: each function is a vector over one column's
cells, evaluated by DuckDB.  Only ``+``, ``-``, ``*``, division by a constant, and casts to DOUBLE
are taken apart; whatever else an expression of several columns is made of has no such form.

NULL: an expression of this form is NULL just where one of its columns' parts is, and adds nothing
there, so every term gets, for a column that only other terms have, the function that is 1 where
that part is not NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sqlmadp.sql.tree import Node, column_names, text

Vector = NDArray[np.float64]

MOST_TERMS = 64
"""Terms of one expression; beyond that it is looked at whole."""


@dataclass(frozen=True, eq=False)
class Term:
    """A number times a function of each of some columns."""

    coefficient: float
    functions: dict[str, Vector]
    """One vector over the cells of each column; 0 where the expression is NULL."""


_Product = tuple[float, tuple[Node, ...]]
"""A number and expressions of one column each, to be multiplied."""


def terms_of(node: Node, values: Callable[[Node], Vector]) -> tuple[Term, ...] | None:
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
    terms = []
    for coefficient, parts in found:
        functions = dict(present)
        for part in parts:
            (name,) = column_names(part)
            functions[name] = functions[name] * np.nan_to_num(vector(part), nan=0.0)
        terms.append(Term(coefficient, functions))
    return tuple(terms)


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
