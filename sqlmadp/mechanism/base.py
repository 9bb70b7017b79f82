"""What a mechanism is: a rule that selects one strategy for everyone, without data.

A mechanism sees workloads and shares, never records.  What it selects also says which blocks each
analyst reconstructs from; that is what lets all mechanisms go through a single measurement.

Each mechanism declares itself: its name, its rule in words, what it promises, whether the order of
analysts matters, and its options (the fields of the class).
`registered` puts it into `MECHANISMS`, and everything else reads them from there.

[PWFM21] Pujol, Wu, Fain, Machanavajjhala, "Budget Sharing for Multi-Analyst Differential
Privacy", PVLDB 14(10), 2021, doi:10.14778/3467861.3467870.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

from threadpoolctl import ThreadpoolController

from sqlmadp.errors import ProgrammingError
from sqlmadp.mechanism.collective import Collective, Joint
from sqlmadp.table.runs import Floats

BOTH = "guaranteed: sharing incentive, non-interference"
NEITHER = "guaranteed: nothing; the ratios are those of this plan"


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def one_thread() -> AbstractContextManager[object]:
    """Return a context in which BLAS has one thread: several contend for small matrices."""
    limit: AbstractContextManager[object] = _blas().limit(limits=1)
    return limit


_registered: dict[str, type[Mechanism]] = {}


@dataclass(frozen=True, kw_only=True)
class Mechanism(ABC):
    """A rule that selects a strategy for a collective; its fields are its options."""

    name: ClassVar[str]
    """What plans and the command line call it."""
    rule: ClassVar[str] = (
        "the measurements are chosen for everybody together, from statements and shares alone"
    )
    """How it chooses what to measure, in one sentence that follows 'Under its name,'."""
    promise: ClassVar[str]
    """What it promises whoever takes part, in words."""
    ordered: ClassVar[bool] = False
    """Whether the order in which analysts are listed matters."""
    separate: ClassVar[bool] = False
    """Whether everybody reads nothing but the rows of their own strategy."""
    effort: ClassVar[float] = 6.0
    """Time at most, in units of what everybody's own strategies take: on three everyday plans it
    was 2.5 to 3.3 for utilitarian, 1.6 to 2.8 for ratchet and 3.4 to 5.1 for pareto."""
    adaptive: ClassVar[bool] = True
    """Whether what is measured depends on what was asked."""
    capped_at: ClassVar[str] = ""
    """What nobody's error may be above, in words; empty if a search has no such caps."""

    def select(self, collective: Collective) -> Joint:
        """Return one strategy for everyone, with errors recomputed from its integers.

        Unless the mechanism is ordered, the order of analysts does not matter, bit for bit.
        """
        with one_thread():
            if self.ordered:
                return self._choose(collective)
            order = collective.arrangement
            places = sorted(range(len(order)), key=order.__getitem__)
            return self._choose(collective.arranged).rearranged(places)

    @abstractmethod
    def _choose(self, collective: Collective) -> Joint:
        """Return one strategy for analysts in their own order."""

    def settled(self, collective: Collective) -> Mechanism:
        """Return the rule that this collective, and any fewer of them, have agreed on."""
        return self

    def interference(self, collective: Collective) -> Floats | None:
        """Return ``[i, j]``: by what ratio i's joining changes j's error; None if not at once."""
        return None

    def caps(self, collective: Collective) -> Floats | None:
        """Return the error that each analyst may have at most; None without such caps."""
        return None

    def joins(self, collective: Collective) -> list[Joint]:
        """Return the strategy after each analyst joined; nothing if all come at once."""
        return []

    @classmethod
    def options(cls) -> dict[str, Any]:
        """Return the options with their defaults."""
        return {each.name: each.default for each in fields(cls) if not each.name.startswith("_")}


MECHANISMS: Mapping[str, type[Mechanism]] = MappingProxyType(_registered)
"""The mechanisms by name, in the order in which they declared themselves."""

Declared = TypeVar("Declared", bound=type[Mechanism])


def registered(mechanism: Declared) -> Declared:
    """Return a mechanism's class after putting it into `MECHANISMS`."""
    _registered[mechanism.name] = mechanism
    return mechanism


def unregistered(name: str) -> None:
    """Take a mechanism out of `MECHANISMS` again."""
    del _registered[name]


def mechanism(name: str, **options: Any) -> Mechanism:
    """Return a mechanism by name, with options; ProgrammingError if there is none such."""
    if name not in MECHANISMS:
        raise ProgrammingError(f"unknown mechanism {name!r}; known: {', '.join(MECHANISMS)}")
    known = MECHANISMS[name].options()
    if unknown := [option for option in options if option not in known]:
        have = f"its options are {', '.join(known)}" if known else "it has no options"
        raise ProgrammingError(f"mechanism {name!r} has no option {unknown[0]!r}; {have}")
    return MECHANISMS[name](**options)
