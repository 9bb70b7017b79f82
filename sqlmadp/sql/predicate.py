"""Predicates: three-valued logic over declared values.

A predicate is split at AND, OR and NOT into its largest pieces of a single column; a piece
that mixes columns is left whole.  The terms of one AND or OR that look at the same column are one
piece, so that a chain of a thousand terms is evaluated a few times, not a thousand times.  DuckDB
evaluates every piece over its own columns, and
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
from sqlmadp.sql.groups import Factor, align
from sqlmadp.sql.tree import Node, case, column_names, conjunction, connected_by, negation, terms

Found = TypeVar("Found")

_FEW = 50
"""Look for the one predicate that fails among at most this many."""
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


def pieces(nodes: Sequence[Node]) -> Iterator[Node]:
    """Yield the pieces that DuckDB evaluates, of predicates that must all be true."""
    for places in _alike(nodes):
        yield from _pieces(_whole(exp.And, [nodes[place] for place in places]))


def _pieces(node: Node) -> Iterator[Node]:
    if _splits(node):
        for child in _operands(node):
            yield from _pieces(child)
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

    def masked(node: Node, before: int) -> Factor:
        return guarded(node, [*guards, *nodes[:before]], lambda part: mask(part, evaluator))

    found: list[Factor] = []
    for places in _alike(nodes):
        try:
            together = _whole(exp.And, [nodes[place] for place in places])
            found.append(masked(together, places[0]))
        except EvaluationError:
            if not 1 < len(places) <= _FEW:
                raise
            # One of them may hold the others back from where it fails.
            found.extend(masked(nodes[place], place) for place in places)
    return found


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
    if isinstance(node, exp.Not):
        return [node.this]
    own = terms(node)
    return [_whole(type(node), [own[place] for place in places]) for places in _alike(own)]


def _alike(nodes: Sequence[Node]) -> list[list[int]]:
    """Return the places of predicates, those that are evaluated over the same column together."""
    found: dict[object, list[int]] = {}
    for place, node in enumerate(nodes):
        names = column_names(node)
        # Terms that mix columns stay by themselves, since what splits must become smaller.
        found.setdefault(names if len(names) == 1 else place, []).append(place)
    return list(found.values())


def _whole(kind: type[exp.Expr], nodes: Sequence[Node]) -> Node:
    return nodes[0] if len(nodes) == 1 else connected_by(kind, nodes)
