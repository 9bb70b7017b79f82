"""Utilitarian: the strategy that is best for all queries taken together."""

from __future__ import annotations

from dataclasses import dataclass

from sqlmadp.core.collective import Collective, Joint, Workload
from sqlmadp.core.mechanism.base import NEITHER, Mechanism, registered


@registered
@dataclass(frozen=True, kw_only=True)
class Utilitarian(Mechanism):
    """Collect first, then select: least total error, whoever pays for it [PWFM21].

    Neither the sharing incentive nor non-interference holds: an analyst with few queries can be
    drowned out by one with many.
    """

    name = "utilitarian"
    promise = NEITHER

    def searches(self, collective: Collective) -> list[Workload]:
        """Return everyone's queries as one workload, and every analyst's own."""
        return [*collective.workloads, collective.together]

    def _choose(self, collective: Collective) -> Joint:
        strategy = collective.select(collective.together)
        return collective.read_by_all(strategy.blocks, strategy.total)
