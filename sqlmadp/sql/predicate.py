"""Predicates: three-valued logic over declared values.

A predicate is split at AND, OR and NOT into its largest pieces of a single column; a piece
that mixes columns is left whole.  DuckDB evaluates every piece over its own columns, and
the pieces are put together by Kleene's logic:

    FALSE < NULL < TRUE        AND = min        OR = max        NOT reverses the order
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import TypeVar

import numpy as np
from sqlglot import exp

from sqlmadp.sql.evaluate import TRUE, EvaluationError, Evaluator
from sqlmadp.sql.factor import Factor, align
from sqlmadp.sql.tree import Node, case, column_names, conjunction, negation, terms

Found = TypeVar("Found")

_FOLD: dict[type[exp.Expr], np.ufunc] = {exp.And: np.minimum, exp.Or: np.maximum}


def conjuncts(node: Node, *, negated: bool = False) -> Iterator[Node]:
    """Yield predicates that are all true just when ``node`` (or its negation) is true."""
    if isinstance(node, exp.Not):
        yield from conjuncts(node.this, negated=not negated)
    elif isinstance(node, exp.Or if negated else exp.And):
        for child in terms(node):
            yield from conjuncts(child, negated=negated)
    else:
        yield negation(node) if negated else node


def pieces(node: Node) -> Iterator[Node]:
    """Yield the pieces of a predicate that DuckDB evaluates."""
    if _splits(node):
        for child in _operands(node):
            yield from pieces(child)
    else:
        yield node


def truth(node: Node, evaluator: Evaluator) -> Factor:
    """Return the truth of a predicate on every cell of its columns."""
    if not _splits(node):
        return evaluator.truth(node)
    parts = [truth(child, evaluator) for child in _operands(node)]
    if isinstance(node, exp.Not):
        (part,) = parts
        return part.map(TRUE - part.values)

    def combine(left: Factor, right: Factor) -> Factor:
        zero, (a, b) = align([left, right], evaluator.limits.predicate_cells)
        return zero.map(_FOLD[type(node)](a, b)).reduce()

    return reduce(combine, parts)


def mask(node: Node, evaluator: Evaluator) -> Factor:
    """Return 1 on the cells where a predicate is true, and 0 where it is false or NULL."""
    found = truth(node, evaluator)
    return found.map((found.values == TRUE).astype(np.int64)).reduce()


def masks(nodes: Sequence[Node], evaluator: Evaluator, guards: Sequence[Node] = ()) -> list[Factor]:
    """Return the masks of predicates that must all be true, beside those of ``guards``."""
    return [
        guarded(node, [*guards, *nodes[:place]], lambda part: mask(part, evaluator))
        for place, node in enumerate(nodes)
    ]


def guarded(node: Node, guards: Sequence[Node], evaluate: Callable[[Node], Found]) -> Found:
    """Evaluate an expression; if it fails somewhere, only where the ``guards`` hold.

    DuckDB does not come to ``10 // age`` in ``age <> 0 AND 10 // age > 2`` where age is 0.
    """
    try:
        return evaluate(node)
    except EvaluationError:
        known = [guard for guard in guards if column_names(guard) <= column_names(node)]
        if not known:
            raise
    return evaluate(case([(conjunction(known), node)]))


def _splits(node: Node) -> bool:
    return isinstance(node, (exp.And, exp.Or, exp.Not)) and len(column_names(node)) > 1


def _operands(node: Node) -> list[Node]:
    return [node.this] if isinstance(node, exp.Not) else terms(node)
