"""Which workloads mechanisms select strategies for, so that all searches can run side by side.

Every analyst's own workload: select-first mechanisms measure the strategies, and sharing ratios
compare with what they give alone.  Everybody's queries as one: that is what Utilitarian measures,
and its total is what others' totals are compared with.  And the same without each analyst, for
Utilitarian's interference.  Weighted Utilitarian weighs queries by what analysts get alone, so its
searches can only begin once those are over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

from sqlmadp.mechanism.weighted_utilitarian import WeightedUtilitarian
from sqlmadp.strategy.cache import StrategyCache
from sqlmadp.workload.workload import Workload, stacked


def searches(mechanisms: Iterable[str], workloads: Sequence[Workload]) -> list[Workload]:
    """Return the workloads that some mechanisms are known to select strategies for."""
    names = set(mechanisms)
    found = list(workloads) if names != {"identity"} else []
    found.append(stacked(workloads))
    if "utilitarian" in names:
        smaller = _left([workload.fingerprint for workload in workloads])
        found += [stacked([workloads[place] for place in places]) for places in smaller]
    return found


def weighted_searches(
    mechanisms: Iterable[str],
    workloads: Sequence[Workload],
    shares: Sequence[Fraction],
    cache: StrategyCache | None,
) -> list[Workload]:
    """Return those that depend on what `searches` found."""
    if "weighted_utilitarian" not in mechanisms:
        return []
    kinds = [(w.fingerprint, share) for w, share in zip(workloads, shares, strict=True)]
    mechanism = WeightedUtilitarian(cache=cache)
    return [
        mechanism.together([workloads[n] for n in places], [shares[n] for n in places])
        for places in (range(len(kinds)), *_left(kinds))
    ]


def _left(kinds: Sequence[object]) -> Iterator[list[int]]:
    """Yield who is left when one of each kind of analysts is not, if anybody is."""
    for left in {kind: place for place, kind in enumerate(kinds)}.values():
        if len(kinds) > 1:
            yield [place for place in range(len(kinds)) if place != left]
