"""Utilitarian: the strategy that is best for all queries taken together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sqlmadp.mechanism.agreement import side_by_side, unpoured
from sqlmadp.mechanism.base import NEITHER, Mechanism, registered
from sqlmadp.mechanism.capped import least_capped
from sqlmadp.mechanism.collective import Collective, Joint, Workload
from sqlmadp.strategy.cache import Entry
from sqlmadp.strategy.integers import Strategy


@registered
@dataclass(frozen=True, kw_only=True)
class Utilitarian(Mechanism):
    """Collect first, then select: least total error, whoever pays for it [PWFM21].

    Neither the sharing incentive nor non-interference holds: an analyst with few queries can be
    drowned out by one with many.
    """

    name = "utilitarian"
    rule = "the measurements are chosen for the least error of everybody together"
    promise = NEITHER

    def searches(self, collective: Collective) -> list[Workload]:
        """Return everyone's queries as one workload, and every analyst's own."""
        return [*collective.workloads, collective.together]

    def _choose(self, collective: Collective) -> Joint:
        entry = collective.restored(self.name)
        if entry is not None and len(entry.strategies) == 1:
            [known] = entry.strategies
            found = collective.read_by_all(known.blocks, known.total)
            if np.isfinite(found.errors).all():
                return found
        chosen = self._searched(collective)
        collective.store(self.name, Entry((Strategy(chosen.blocks, chosen.total),)))
        return collective.read_by_all(chosen.blocks, chosen.total)  # As if it had been stored.

    def _searched(self, collective: Collective) -> Joint:
        strategy = collective.select(collective.together)
        found = collective.read_by_all(strategy.blocks, strategy.total)
        if len({block.scope for block in strategy.blocks}) == 1:
            return found
        # A workload of many scopes is searched for only so long: everyone's own blocks, weighed
        # anew, alone or beside those of the search, can be better.
        own, none = list(zip(collective.strategies, collective.factors, strict=True)), np.inf
        candidates: list[Joint | None] = [found, collective.poured]
        for parts in (own, [*own, (strategy, 1)]):
            draft = side_by_side(unpoured([s for s, _ in parts], [f for _, f in parts]))
            caps = np.full(len(collective), none)
            candidates.append(least_capped(collective, draft, caps, move=False))
        return min((j for j in candidates if j), key=lambda joint: _total(collective, joint))


def _total(collective: Collective, joint: Joint) -> float:
    return float(collective.importance @ joint.errors)
