"""The mechanisms by name, as plans and the command line know them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sqlmadp.mechanism.base import Mechanism
from sqlmadp.mechanism.identity import Identity
from sqlmadp.mechanism.independent import Independent
from sqlmadp.mechanism.pareto import Pareto
from sqlmadp.mechanism.ratchet import Ratchet
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
    "ratchet": lambda columns, cache: Ratchet(cache=cache),
}
"""How to make each mechanism for a domain."""

BOTH = "holds always: sharing incentive, non-interference"
NEITHER = "holds always: nothing; the ratios are those of this plan"

LATE = (
    "holds always: nobody worse off because of somebody who joined after them, and nobody who "
    "joined late worse off than alone"
)
"""What is promised, whatever the mechanism of the first release, once analysts joined late."""

PROMISED: dict[str, str] = {
    "independent": BOTH,
    "identity": BOTH,
    "utilitarian": NEITHER,
    "weighted_utilitarian": NEITHER,
    "waterfilling": BOTH,
    "pareto": (
        "holds always: sharing incentive, and nobody worse off than under waterfilling with or "
        "without any one of the others; certified for this plan: nobody better off without any "
        "one of the others, who then keep to the scopes that everyone agreed on"
    ),
    "ratchet": (
        "holds always: sharing incentive, and nobody worse off because of somebody who joins after "
        "them"
    ),
}
"""What each mechanism promises whoever takes part, and what is certified case by case."""
