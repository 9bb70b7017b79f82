"""Aggregates: what each one is worked out from.

Counts and sums are linear in the records: each is one *piece*, a sum over the cells of its
group.  Every other aggregate is derived from pieces once they are answered:

    AVG                     sum, count
    VAR, STDDEV, SEM        sums of x and x^2, count
    COVAR, CORR, REGR       sums of x, y, x^2, y^2 and x y, count, of records with both
    MEDIAN, QUANTILE, MODE  the count of every value: a histogram

Two aggregates that need the same piece share it, so that AVG(x) is SUM(x) / COUNT(x).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from sqlmadp.sql.syntax import NOT_NULL, Node, cast, fingerprint, function, operator, unaliased

PieceKind = Literal["count", "sum", "histogram"]


@dataclass(frozen=True)
class Piece:
    """A linear part of an aggregate."""

    kind: PieceKind
    where: tuple[Node, ...]
    """Predicates that its records satisfy, beside those of the whole SELECT."""
    value: Node | None = None
    """What is summed or told apart; NULL is left out."""

    @property
    def key(self) -> str:
        """Return text that is equal just when two pieces are."""
        return fingerprint([self.kind, list(self.where), self.value])


@dataclass(frozen=True)
class Aggregate:
    """An aggregate function applied to expressions of declared columns."""

    function: str
    """Its name, of the aliases DuckDB knows the one listed here."""
    call: Node
    """The call itself, resolved."""
    pieces: tuple[Piece, ...]
    fraction: Node | None = None
    """The constant that says which quantile, or the list of them."""
    descending: bool = False


_ALIASES: Final = {
    "countif": "count_if",
    "count_star": "count",
    "mean": "avg",
    "favg": "avg",
    "fsum": "sum",
    "kahan_sum": "sum",
    "sumkahan": "sum",
    "variance": "var_samp",
    "stddev": "stddev_samp",
    "quantile": "quantile_disc",
    "median": "median",
}
LINEAR: Final = frozenset({"count", "count_if", "sum", "regr_count"})
"""Aggregates that are one piece themselves."""
MOMENTS: Final = frozenset({"var_pop", "var_samp", "stddev_pop", "stddev_samp", "sem"})
QUANTILES: Final = frozenset({"quantile_cont", "quantile_disc", "approx_quantile"})
PAIRS: Final = frozenset(
    {"covar_pop", "covar_samp", "corr", "regr_slope", "regr_intercept", "regr_r2"}
    | {"regr_avgx", "regr_avgy", "regr_sxx", "regr_syy", "regr_sxy"}
)
PRIVATE: Final = frozenset(
    {*LINEAR, "avg", *MOMENTS, *QUANTILES, *PAIRS, "median", "mode", *_ALIASES}
)
"""The aggregates of private records that are answered, by every name."""


def is_aggregate(node: Node) -> bool:
    """Return whether an expression is one of the aggregates that are answered."""
    return node["class"] == "FUNCTION" and node["function_name"].lower() in PRIVATE


def canonical(name: str) -> str:
    """Return the one name of an aggregate that has several."""
    return _ALIASES.get(name.lower(), name.lower())


def arguments(call: Node) -> tuple[int, ...]:
    """Return how many arguments a call of an aggregate may have."""
    name = canonical(call["function_name"])
    if name == "count":
        return (0, 1)
    if name in QUANTILES:
        return (1,) if call["order_bys"]["orders"] else (2,)
    if name == "mode" and call["order_bys"]["orders"]:
        return (0,)
    return (2,) if name in PAIRS or name == "regr_count" else (1,)


def describe(call: Node) -> Aggregate:
    """Return what a resolved call of an aggregate is worked out from."""
    name = canonical(call["function_name"])
    where = (call["filter"],) if call["filter"] is not None else ()
    arguments = [unaliased(argument["expression"]) for argument in call["arguments"]]
    orders = call["order_bys"]["orders"]
    fraction: Node | None = None
    descending = False
    if orders:  # WITHIN GROUP (ORDER BY value): the fraction is what stands in the parentheses.
        descending = orders[0]["type"] == "DESCENDING"
        fraction = arguments[0] if arguments else None
        arguments = [unaliased(orders[0]["expression"])]
    elif name in QUANTILES:
        *arguments, fraction = arguments
    pieces = _PIECES.get(name, _histogram)(name, where, arguments)
    return Aggregate(name, call, tuple(pieces), fraction, descending)


Where = tuple[Node, ...]


def _count(name: str, where: Where, arguments: list[Node]) -> list[Piece]:
    if name == "count_if":
        return [Piece("count", (*where, *arguments))]
    present = [operator(NOT_NULL, argument) for argument in arguments]
    return [Piece("count", (*where, *present))]


def _sum(_: str, where: Where, arguments: list[Node]) -> list[Piece]:
    return [Piece("sum", where, arguments[0])]


def _mean(_: str, where: Where, arguments: list[Node]) -> list[Piece]:
    return [Piece("sum", where, arguments[0]), *_count("count", where, arguments)]


def _moments(_: str, where: Where, arguments: list[Node]) -> list[Piece]:
    value = cast(arguments[0], "DOUBLE")
    return [
        Piece("sum", where, arguments[0]),
        *_count("count", where, arguments),
        Piece("sum", where, function("*", value, value)),
    ]


def _pairs(_: str, where: Where, arguments: list[Node]) -> list[Piece]:
    # DuckDB's first argument is y, the second x.
    both = (*where, *(operator(NOT_NULL, argument) for argument in arguments))
    y, x = (cast(argument, "DOUBLE") for argument in arguments)
    values = [x, y, function("*", x, x), function("*", y, y), function("*", x, y)]
    return [Piece("count", both), *(Piece("sum", both, value) for value in values)]


def _histogram(_: str, where: Where, arguments: list[Node]) -> list[Piece]:
    return [Piece("histogram", where, arguments[0])]


_PIECES: Final[dict[str, Callable[[str, Where, list[Node]], list[Piece]]]] = {
    "count": _count,
    "count_if": _count,
    "regr_count": _count,
    "sum": _sum,
    "avg": _mean,
    **dict.fromkeys(MOMENTS, _moments),
    **dict.fromkeys(PAIRS, _pairs),
}
