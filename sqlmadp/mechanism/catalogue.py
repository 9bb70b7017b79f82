"""The mechanisms by name, as plans and the command line know them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sqlmadp.mechanism.base import Mechanism
from sqlmadp.mechanism.identity import Identity
from sqlmadp.mechanism.independent import Independent
from sqlmadp.mechanism.pareto import Pareto
from sqlmadp.mechanism.utilitarian import Utilitarian
from sqlmadp.mechanism.waterfilling import Waterfilling
from sqlmadp.mechanism.weighted_utilitarian import WeightedUtilitarian
from sqlmadp.strategy.cache import StrategyCache

Columns = Iterable[tuple[str, int]]
"""Name and number of cells of every declared column."""

Maker = Callable[[Columns, StrategyCache | None], Mechanism]

MECHANISMS: dict[str, Maker] = {
    "independent": lambda columns, cache: Independent(cache=cache),
    "identity": lambda columns, cache: Identity(columns=tuple(sorted(columns))),
    "utilitarian": lambda columns, cache: Utilitarian(cache=cache),
    "weighted_utilitarian": lambda columns, cache: WeightedUtilitarian(cache=cache),
    "waterfilling": lambda columns, cache: Waterfilling(cache=cache),
    "pareto": lambda columns, cache: Pareto(cache=cache),
}
"""How to make each mechanism for a domain."""
