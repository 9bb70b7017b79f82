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

from sqlglot import exp

from sqlmadp.sql.tree import Call, Node, binary, call_of, cast, not_null, text

PieceKind = Literal["count", "sum", "histogram"]


@dataclass(frozen=True)
class Piece:
    """A linear part of an aggregate."""

    kind: PieceKind
    where: tuple[Node, ...]
    """Predicates that its records satisfy, beside those of the whole SELECT."""
    value: Node | None = None
    """What is summed or told apart; NULL is left out."""
    ordered: bool = False
    """Of a histogram: whether running counts are what matters."""

    @property
    def key(self) -> str:
        """Return text that is equal just when two pieces are."""
        value = "" if self.value is None else text(self.value)
        return "\n".join([f"{self.kind} {self.ordered}", value, *map(text, self.where)])


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
    "percentile_cont": "quantile_cont",
    "percentile_disc": "quantile_disc",
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
    call = call_of(node)
    return call is not None and call.name in PRIVATE


def canonical(name: str) -> str:
    """Return the one name of an aggregate that has several."""
    return _ALIASES.get(name, name)


def arguments(call: Call) -> tuple[int, ...]:
    """Return how many arguments a call of an aggregate may have."""
    name = canonical(call.name)
    if name == "count":
        return (0, 1)
    if name in QUANTILES:
        return (1,) if call.orders else (2,)
    if name == "mode" and call.orders:
        return (0,)
    return (2,) if name in PAIRS or name == "regr_count" else (1,)


def is_count_star(call: Call) -> bool:
    """Return whether a call is COUNT(*)."""
    return call.name == "count" and all(isinstance(a, exp.Star) for a in call.arguments)


def describe(node: Node) -> Aggregate:
    """Return a resolved call of an aggregate with the pieces that it is worked out from."""
    call = call_of(node)
    if call is None:
        raise TypeError("only a call of an aggregate can be described")
    name = canonical(call.name)
    where = () if call.where is None else (call.where,)
    given = [] if is_count_star(call) else list(call.arguments)
    fraction: Node | None = None
    descending = False
    if call.orders:  # WITHIN GROUP (ORDER BY value): the argument is the fraction.
        descending = bool(call.orders[0].args.get("desc"))
        fraction = given[0] if given else None
        given = [call.orders[0].this]
    elif name in QUANTILES:
        *given, fraction = given
    pieces = _PIECES.get(name, _histogram)(name, where, given)
    return Aggregate(name, node, tuple(pieces), fraction, descending)


Where = tuple[Node, ...]


def _count(name: str, where: Where, arguments: list[Node]) -> list[Piece]:
    if name == "count_if":
        return [Piece("count", (*where, *arguments))]
    return [Piece("count", (*where, *map(not_null, arguments)))]


def _sum(_: str, where: Where, arguments: list[Node]) -> list[Piece]:
    return [Piece("sum", where, arguments[0])]


def _mean(_: str, where: Where, arguments: list[Node]) -> list[Piece]:
    return [Piece("sum", where, arguments[0]), *_count("count", where, arguments)]


def _moments(_: str, where: Where, arguments: list[Node]) -> list[Piece]:
    value = cast(arguments[0], "DOUBLE")
    return [
        Piece("sum", where, arguments[0]),
        *_count("count", where, arguments),
        Piece("sum", where, binary(exp.Mul, value, value)),
    ]


def _pairs(_: str, where: Where, arguments: list[Node]) -> list[Piece]:
    # DuckDB's first argument is y, the second x.
    both = (*where, *map(not_null, arguments))
    y, x = (cast(argument, "DOUBLE") for argument in arguments)
    values = [x, y, *(binary(exp.Mul, *pair) for pair in ((x, x), (y, y), (x, y)))]
    return [Piece("count", both), *(Piece("sum", both, value) for value in values)]


def _histogram(name: str, where: Where, arguments: list[Node]) -> list[Piece]:
    return [Piece("histogram", where, arguments[0], ordered=name != "mode")]


_PIECES: Final[dict[str, Callable[[str, Where, list[Node]], list[Piece]]]] = {
    "count": _count,
    "count_if": _count,
    "regr_count": _count,
    "sum": _sum,
    "avg": _mean,
    **dict.fromkeys(MOMENTS, _moments),
    **dict.fromkeys(PAIRS, _pairs),
}
