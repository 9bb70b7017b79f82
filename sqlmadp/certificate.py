"""The certificate: what a release gives each analyst, beside what each would have had alone.

For every analyst: the share, the expected error alone with that share, the expected error in
the collective, their ratio (at most 1: the sharing incentive), and by whom that error changed
through joining (at most 1: non-interference).  It is worked out from workloads, shares and
the strategy that was measured, so it is public and reads no data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from threadpoolctl import threadpool_limits

from sqlmadp.answer.result import number
from sqlmadp.answer.table import TextTable
from sqlmadp.asked import Asked
from sqlmadp.mechanism.base import JointStrategy, Mechanism
from sqlmadp.mechanism.bounds import Bounds, bounds
from sqlmadp.mechanism.catalogue import MECHANISMS
from sqlmadp.mechanism.fairness import Outcome, outcome
from sqlmadp.strategy.cache import StrategyCache
from sqlmadp.workload.workload import Workload


@dataclass(frozen=True)
class Standing:
    """One analyst's part of a certificate.  Errors are expected errors, summed over answers."""

    share: Fraction
    alone: float
    """The error with the own share and nobody else."""
    now: float
    """The error in the collective."""
    ratio: float
    """``now / alone``; above 1 the sharing incentive is violated."""
    interference: Mapping[str, float]
    """By whom: the ratio of ``now`` to the error without that analyst; above 1 is a violation."""


@dataclass(frozen=True, repr=False)
class Certificate:
    """What a mechanism gives each analyst of a plan."""

    mechanism: str
    epsilon: Fraction
    analysts: Mapping[str, Standing]
    total: float
    """Everybody's error together, also where only one analyst's part is shown."""
    bounds: Bounds

    @classmethod
    def of(cls, asked: Asked, given: Outcome, bounds: Bounds) -> Certificate:
        """Return the certificate of an outcome."""
        names = [analyst.name for analyst in asked.plan.analysts]
        standings = {
            analyst.name: Standing(
                share=analyst.share,
                alone=given.alone[j],
                now=given.errors[j],
                ratio=given.ratios[j],
                interference={
                    name: float(given.interference[i, j]) for i, name in enumerate(names) if i != j
                },
            )
            for j, analyst in enumerate(asked.plan.analysts)
        }
        return cls(asked.plan.mechanism, asked.plan.epsilon, standings, given.total_error, bounds)

    def only(self, analyst: str) -> Certificate:
        """Return the part of the certificate that concerns one analyst."""
        return replace(self, analysts={analyst: self.analysts[analyst]})

    def __repr__(self) -> str:
        title = f"{self.mechanism}, epsilon {self.epsilon}; expected squared errors in all"
        return f"{title}\n{self._table().text()}\n{self._beside()}"

    def _beside(self) -> str:
        """Say how far the total error is from Utilitarian's and from the lower bound."""
        utilitarian, gap = self.bounds.beside(self.total)
        text = f"total error {number(self.total)}"
        if utilitarian is not None:
            text += f", {utilitarian:.3f} times utilitarian's"
        if gap is not None:
            text += f", {gap:.2f} times the lower bound"
        return text

    def _repr_html_(self) -> str:
        """Return the table that notebooks show."""
        return self._table().html()

    def _table(self) -> TextTable:
        titles = ("share", "alone", "now", "now / alone", "largest interference")
        headers = [("analyst", False), *((title, True) for title in titles)]
        rows = [
            [
                name,
                str(standing.share),
                number(standing.alone),
                number(standing.now),
                f"{standing.ratio:.3f}",
                f"{max(standing.interference.values(), default=1.0):.3f}",
            ]
            for name, standing in self.analysts.items()
        ]
        return TextTable.of(headers, len(rows), rows.__getitem__, limit=None)


def certify(
    asked: Asked, cache: StrategyCache | None, measured: JointStrategy | None = None
) -> Certificate:
    """Return the certificate of what was ``measured``, or of what would be if it is None."""
    mechanism = MECHANISMS[asked.plan.mechanism](asked.columns, cache)
    if measured is not None:
        mechanism = _Measured(mechanism, measured)
    shares = [analyst.share for analyst in asked.plan.analysts]
    with threadpool_limits(limits=1):  # Threads that contend for small matrices are slower.
        given = outcome(mechanism, asked.workloads, shares, asked.plan.epsilon)
        return Certificate.of(asked, given, bounds(asked.workloads, asked.plan.epsilon, cache))


@dataclass(frozen=True)
class _Measured:
    """A mechanism whose choice for everyone has been made, perhaps on another machine."""

    mechanism: Mechanism
    strategy: JointStrategy

    def select(self, workloads: Sequence[Workload], shares: Sequence[Fraction]) -> JointStrategy:
        """Return what was measured; for fewer analysts, what would have been."""
        if len(workloads) == len(self.strategy.reads):
            return self.strategy
        return self.mechanism.select(workloads, shares)
