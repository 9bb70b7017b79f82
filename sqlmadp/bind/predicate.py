"""Predicates: three-valued logic over declared values, and where conditions cut real columns.

A predicate is split at AND, OR and NOT into its largest pieces of a single column; a piece
that mixes columns is left whole.  The terms of one AND or OR that look at the same column are one
piece, so that a chain of a thousand terms is evaluated a few times, not a thousand times.  DuckDB
evaluates every piece over its own columns, and the pieces are put together by Kleene's logic:

    FALSE < NULL < TRUE        AND = min        OR = max        NOT reverses the order

A real column has no list of values; its cells are what the statements' own constants cut out
(see ``table.domain``).  An expression is the same everywhere inside such a cell if the column
occurs only in

    a comparison with constants        income < 1000,  income BETWEEN 10 AND 20,  2 * income > 7
    a step function                    FLOOR(income / 1000),  ROUND(income, -3),  WIDTH_BUCKET(...)
    IS [NOT] NULL

In the last two of the comparisons, and in a step function, the column goes through a chain of
monotone operations with constants.  DuckDB's own values of the chain say where it steps: dividing
the interval between two numbers until they are neighbours in DOUBLE finds each step exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sqlmadp.bind.evaluate import TRUE, EvaluationError, Evaluator
from sqlmadp.bind.groups import Factor, align
from sqlmadp.bind.products import null_parts
from sqlmadp.sql import hints
from sqlmadp.sql.grammar import Prefix
from sqlmadp.sql.limits import advice
from sqlmadp.sql.statements import RefusedError
from sqlmadp.sql.tree import (
    Node,
    binary,
    call_of,
    case,
    children,
    column_names,
    conjunction,
    connected_by,
    integer,
    is_constant,
    negation,
    not_null,
    terms,
    text,
)
from sqlmadp.table.domain import Domain

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
    elif (
        isinstance(node, exp.Is)
        and isinstance(node.expression, exp.Null)
        and negated is not bool(node.args.get("negate"))
    ):
        yield from map(not_null, null_parts(node.this))
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
        zero, (a, b) = align([left, right], evaluator.limits)
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


_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_NUMBERS = frozenset(
    {*_INTEGERS, *("U" + name for name in _INTEGERS), "FLOAT", "DOUBLE", "DECIMAL"}
)
_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Neg: "-",
    Prefix: "+",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "//",
}
_ARITHMETIC = frozenset({"+", "-", "*", "/", "//", "greatest", "least"})
_STEPS = frozenset({"floor", "ceil", "ceiling", "trunc", "round", "//", "width_bucket"})
_FIRST = frozenset({"/", "//", "round", "width_bucket"})
"""Functions that are monotone in their first operand only."""
_MONOTONE = frozenset({*_ARITHMETIC, *_STEPS, "sqrt"})
_STEP_TYPES = frozenset({"tinyint", "smallint", "int", "integer", "bigint", "hugeint", "int8"})


_FAN, _AT_ONCE = 64, 4096
"""Cut an interval into at most this many, and ask for about this many values at once."""


@dataclass(frozen=True)
class Use:
    """One place where an expression depends on a real column."""

    column: str
    expression: Node
    """A constant that the bare column is compared with, or a step function of the column."""
    steps: bool


def uses(node: Node, domain: Domain) -> Iterator[Use]:
    """Yield where an expression depends on real columns; refuse uses that cannot be cut."""
    if not any(domain.column(name).type == "real" for name in column_names(node)):
        return
    name = _chain(node, domain)
    if name is not None:
        if not _is_stepped(node):
            raise _refusal(node, name, domain)
        yield Use(name, node, steps=True)
        return
    operands = children(node)
    chains = {place: found for place, o in enumerate(operands) if (found := _chain(o, domain))}
    if len(chains) == 1 and _tests_null(node) and isinstance(operands[0], exp.Column):
        return
    if len(chains) == 1 and _compares(node):
        ((place, name),) = chains.items()
        others = [other for number, other in enumerate(operands) if number != place]
        if not any(column_names(other) for other in others):
            bare = isinstance(operands[place], exp.Column)
            for other in others:
                yield Use(name, other if bare else _side(operands[place], other), steps=not bare)
            return
    for part in operands:
        yield from uses(part, domain)


def cut_places(nodes: Iterable[Node], evaluator: Evaluator) -> list[tuple[str, float]]:
    """Return where expressions cut real columns; refuse one that differs everywhere."""
    domain = evaluator.domain
    found = [use for node in nodes for use in uses(node, domain)]
    compared = [use for use in found if not use.steps]
    places = [
        (use.column, _compared(use, value, kind))
        for use, (value, kind) in zip(
            compared, evaluator.doubles([use.expression for use in compared]), strict=True
        )
        if value is not None
    ]
    for use in found:
        if use.steps:
            key = text(use.expression)
            if key not in evaluator.steps:
                evaluator.steps[key] = _steps(use, evaluator)
            places += [(use.column, at) for at in evaluator.steps[key]]
    return places


def _compared(use: Use, value: float, kind: str) -> float:
    """Return the number that a real column is compared with."""
    if not is_constant(use.expression) and kind.partition("(")[0] not in _NUMBERS:
        # DuckDB reads a text literal as a number here, but compares other types their own way.
        raise RefusedError(
            "real-column",
            f"the real column {use.column!r} is compared with a {kind}",
            hint="Compare it with a number.",
            node=use.expression,
        )
    return value


# Chains of monotone operations.


def _chain(node: Node, domain: Domain) -> str | None:
    """Return the real column that an expression is a monotone function of, if it is one."""
    if isinstance(node, exp.Column):
        real = not node.table and domain.column(node.name).type == "real"
        return node.name if real else None
    if isinstance(node, exp.Cast):
        plain = _type(node) in (*_STEP_TYPES, "double") and not isinstance(node, exp.TryCast)
        return _chain(node.this, domain) if plain else None
    if _name(node) not in _MONOTONE:
        return None
    operands = children(node)
    inner = [place for place, operand in enumerate(operands) if column_names(operand)]
    if len(inner) != 1 or (inner[0] > 0 and _name(node) in _FIRST):
        return None
    return _chain(operands[inner[0]], domain)


def _name(node: Node) -> str:
    """Return the name of a function or operator; empty for anything else."""
    call = call_of(node)
    return _OPERATORS.get(type(node), "") if call is None else call.name


def _type(node: exp.Cast) -> str:
    return str(node.args["to"].args.get("spelled", "")).lower()


def _is_stepped(node: Node) -> bool:
    """Return whether a chain takes few values, so that its steps can be found."""
    if isinstance(node, exp.Cast) and _type(node) in _STEP_TYPES:
        return True
    return _name(node) in _STEPS or any(_is_stepped(child) for child in children(node))


def _side(chain: Node, constant: Node) -> Node:
    """Return on which side of a constant a chain is."""
    return case(
        [
            (binary(exp.LT, chain, constant), integer(0)),
            (binary(exp.EQ, chain, constant), integer(1)),
            (binary(exp.GT, chain, constant), integer(2)),
        ]
    )


def _steps(use: Use, evaluator: Evaluator) -> list[float]:
    """Return every number at which a step function takes another value than just below."""
    edges = evaluator.domain.column(use.column).edges
    limit = evaluator.limits.cuts
    ends = _ordered(np.array([edges[0], edges[-1]]))
    low, high = ends[:1], ends[1:]
    at_low, at_high = (evaluator.along(use.column, use.expression, _number(e)) for e in (low, high))
    while True:
        differ = ~_same(at_low, at_high)
        low, high, at_low, at_high = low[differ], high[differ], at_low[differ], at_high[differ]
        if len(low) > limit:
            raise RefusedError(
                "too-many-cuts",
                f"the column {use.column!r} would be cut at more than {limit:,} places",
                hint=f"Use wider bins. {advice('cuts')}",
                node=use.expression,
            )
        if (high - low <= 1).all():
            return [float(value) for value in np.sort(_number(high))]
        # Few intervals are cut into many at once, since asking DuckDB takes longer than working.
        fan = np.uint64(max(2, min(_FAN, _AT_ONCE // len(low))))
        part = np.arange(1, fan, dtype=np.uint64)[:, None]
        width = high - low
        inner = low + width // fan * part + width % fan * part // fan
        at_inner = evaluator.along(use.column, use.expression, _number(inner.reshape(-1)))
        ends = np.vstack([low, inner, high])
        at_ends = np.vstack([at_low, at_inner.reshape(inner.shape), at_high])
        low, high = ends[:-1].reshape(-1), ends[1:].reshape(-1)
        at_low, at_high = at_ends[:-1].reshape(-1), at_ends[1:].reshape(-1)
        # Cutting neighbours once more leaves empty intervals, which never differ.


def _same(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.asarray((left == right) | (np.isnan(left) & np.isnan(right)))


def _ordered(values: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return numbers as integers in the same order; neighbours in DOUBLE differ by 1."""
    bits = (values + 0.0).view(np.uint64)  # -0.0 becomes 0.0.
    top = np.uint64(1 << 63)
    return np.where(bits & top, ~bits, bits | top)


def _number(ordered: NDArray[np.uint64]) -> NDArray[np.float64]:
    top = np.uint64(1 << 63)
    return np.where(ordered & top, ordered ^ top, ~ordered).view(np.float64)


def _compares(node: Node) -> bool:
    kinds = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
    return isinstance(node, (*kinds, exp.Between, exp.In))


def _tests_null(node: Node) -> bool:
    return isinstance(node, exp.Is) and isinstance(node.expression, exp.Null)


def _refusal(node: Node, name: str, domain: Domain) -> RefusedError:
    return RefusedError(
        "real-column",
        f"the real column {name!r} can only be compared with constants, binned or counted",
        hint=f"Bin it first: {hints.bins(domain, name)}. Counts, sums and quantiles of the binned "
        "value are supported; pick a bin width that suits your question. The curator can declare "
        f"decimals for {name!r}: then it is summed as it is.",
        node=node,
    )
