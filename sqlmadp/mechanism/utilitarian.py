"""Utilitarian: the least total error, whoever pays for it, plain or in units of errors alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sqlmadp.mechanism.base import NEITHER, Mechanism, registered
from sqlmadp.mechanism.capped import least_capped, side_by_side, unpoured
from sqlmadp.mechanism.collective import Collective, Joint
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

    def _choose(self, collective: Collective) -> Joint:
        return least_found(collective) or collective.poured


def least_found(collective: Collective) -> Joint | None:
    """Return the strategy of least total error that a search without caps finds.

    None if the collective is too large for any such search.
    """
    key = "least found", *collective.kinds
    if key not in collective.memory:
        entry = collective.restored(Utilitarian.name)
        chosen = None
        if entry is not None and len(entry.strategies) == 1:
            [known] = entry.strategies
            chosen = collective.read_by_all(known.blocks, known.total)
        if chosen is None or not np.isfinite(chosen.errors).all():
            chosen = _searched(collective)
            if chosen is not None:
                collective.store(Utilitarian.name, Entry((Strategy(chosen.blocks, chosen.total),)))
                # As if it had been stored.
                chosen = collective.read_by_all(chosen.blocks, chosen.total)
        collective.memory[key] = chosen
    found = collective.memory[key]
    assert found is None or isinstance(found, Joint)
    return found


def _searched(collective: Collective) -> Joint | None:
    best = collective.for_all
    found = [] if best is None else [collective.read_by_all(best.blocks, best.total)]
    if best is None or len({block.scope for block in best.blocks}) > 1:
        # A workload of many scopes is searched for only so long: everyone's own blocks, weighed
        # anew, alone or beside those of the search, can be better.
        everyone = unpoured(collective.strategies, collective.factors)
        uncapped = np.full(len(collective), np.inf)
        for beside in [[], *([unpoured([best], [1])] if best else [])]:
            draft = side_by_side([*everyone, *beside])
            weighed = least_capped(collective, draft, uncapped, move=False)
            found += [weighed] if weighed else []
    return min([*found, collective.poured], key=collective.total) if found else None


@registered
@dataclass(frozen=True, kw_only=True)
class WeightedUtilitarian(Mechanism):
    """Minimise the sum of everyone's error divided by their error alone [PWFM21].

    The weight ``omega_i = 1 / Err_i(alone)`` multiplies the *error* of analyst i, so the rows of
    W_i are scaled by its square root.  Meant to favour the sharing incentive; nothing is proved.
    """

    name = "weighted_utilitarian"
    rule = (
        "the measurements are chosen for the least error of everybody together, each analyst's "
        "counted in units of what it would be alone"
    )
    promise = NEITHER

    def _choose(self, collective: Collective) -> Joint:
        alone = collective.alone
        omega = np.where(alone > 0, 1 / np.where(alone > 0, alone, 1.0), 1.0)
        importance = collective.importance * omega
        weighed = collective.of(range(len(collective)), importance=importance.tolist())
        found = weighed.for_all
        if found is None:  # Too large to search.
            return collective.poured
        return collective.read_by_all(found.blocks, found.total)
