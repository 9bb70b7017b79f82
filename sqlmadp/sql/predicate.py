"""Predicates: three-valued logic over declared values.

A predicate is split at AND, OR and NOT into its largest pieces of a single column; a piece
that mixes columns is left whole.  DuckDB evaluates every piece over its own columns, and
the pieces are put together by Kleene's logic:

    FALSE < NULL < TRUE        AND = min        OR = max        NOT reverses the order
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

import numpy as np

from sqlmadp.sql.evaluate import TRUE, Evaluator
from sqlmadp.sql.factor import Factor, align
from sqlmadp.sql.syntax import AND, NOT, OR, Node, column_names, operator

_FOLD = {AND: np.minimum, OR: np.maximum}


def conjuncts(node: Node, *, negated: bool = False) -> Iterator[Node]:
    """Yield predicates that are all true just when ``node`` (or its negation) is true."""
    kind = node["type"]
    if kind == NOT:
        yield from conjuncts(node["children"][0], negated=not negated)
    elif kind == (OR if negated else AND):
        for child in node["children"]:
            yield from conjuncts(child, negated=negated)
    else:
        yield operator(NOT, node) if negated else node


def pieces(node: Node) -> Iterator[Node]:
    """Yield the pieces of a predicate that DuckDB evaluates."""
    if _splits(node):
        for child in node["children"]:
            yield from pieces(child)
    else:
        yield node


def truth(node: Node, evaluator: Evaluator) -> Factor:
    """Return the truth of a predicate on every cell of its columns."""
    if not _splits(node):
        return evaluator.truth(node)
    parts = [truth(child, evaluator) for child in node["children"]]
    if node["type"] == NOT:
        (part,) = parts
        return part.map(TRUE - part.values)

    def combine(left: Factor, right: Factor) -> Factor:
        zero, (a, b) = align([left, right])
        return zero.map(_FOLD[node["type"]](a, b)).reduce()

    return reduce(combine, parts)


def mask(node: Node, evaluator: Evaluator) -> Factor:
    """Return 1 on the cells where a predicate is true, and 0 where it is false or NULL."""
    found = truth(node, evaluator)
    return found.map((found.values == TRUE).astype(np.int64)).reduce()


def _splits(node: Node) -> bool:
    return node["type"] in (AND, OR, NOT) and len(column_names(node)) > 1
