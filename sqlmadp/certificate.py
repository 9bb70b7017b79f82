"""The certificate: what a release gives each analyst, beside what each would have had alone.

For every analyst: the share, the expected error alone with that share, the expected error in
the collective, their ratio (at most 1: the sharing incentive), and by whom that error changed
through joining (at most 1: non-interference).  It is worked out from workloads, shares and
the strategy that was measured, so it is public and reads no data.

Where analysts join one after the other, under Ratchet or after a release, the certificate lists
each join with everybody's error after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sqlmadp.answer.result import number
from sqlmadp.answer.table import TextTable
from sqlmadp.asked import Asked
from sqlmadp.mechanism.base import Joining, JointStrategy, Mechanism, settled
from sqlmadp.mechanism.bounds import Bounds, bounds
from sqlmadp.mechanism.catalogue import LATE, MECHANISMS, PROMISED
from sqlmadp.mechanism.fairness import (
    Outcome,
    expected_errors,
    left_out_at_once,
    outcome,
    ratio,
)
from sqlmadp.schema.kronecker import contents
from sqlmadp.strategy.cache import StrategyCache
from sqlmadp.workload.workload import Workload


@dataclass(frozen=True)
class Standing:
    """One analyst's part of a certificate.  Errors are expected errors, summed over answers."""

    share: Fraction
    alone: float
    """The error with their own share and nobody else."""
    now: float
    """The error in the collective."""
    ratio: float
    """``now / alone``; above 1 the sharing incentive is violated."""
    interference: Mapping[str, float]
    """By whom: the ratio of ``now`` to the error without that analyst; above 1 is a violation."""


@dataclass(frozen=True)
class Join:
    """Analysts who came at one time, and what everybody who was in had from then on."""

    analysts: tuple[str, ...]
    epsilon: Fraction
    """What they brought."""
    errors: Mapping[str, float]


@dataclass(frozen=True)
class Skipped:
    """A statement that the plan has and the release left out."""

    analyst: str
    query: str
    """Empty for what concerns no single statement of the analyst."""
    code: str
    """Why it was refused, as ``check --json`` says it."""

    def __str__(self) -> str:
        what = f"{self.analyst}.{self.query}" if self.query else self.analyst
        return f"{what} ({self.code})"


@dataclass(frozen=True, repr=False)
class Certificate:
    """What a mechanism gives each analyst of a plan."""

    mechanism: str
    epsilon: Fraction
    analysts: Mapping[str, Standing]
    total: float
    """Everybody's error together, also where only one analyst's part is shown."""
    bounds: Bounds
    joins: tuple[Join, ...] = ()
    """In the order of joining; none where everybody came at once."""
    protects: str = "adding or removing one record"
    """What epsilon is promised against, as the schema declares units and neighbours."""
    error_meaning: str = ""
    """What the errors that are stated with answers cover, and what they do not."""
    skipped: tuple[Skipped, ...] = ()
    """What was refused and left out; nobody is charged for it."""
    plainer: tuple[str, ...] = ()
    """Where a plainer strategy was chosen, since a full search would take too much work."""

    @classmethod
    def of(
        cls, asked: Asked, given: Outcome, bounds: Bounds, mechanism: str | None = None
    ) -> Certificate:
        """Return the certificate of an outcome, of the plan's mechanism or of another."""
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
        name = mechanism or asked.plan.mechanism
        return cls(
            name,
            asked.plan.epsilon,
            standings,
            given.total_error,
            bounds,
            protects=asked.domain.protection,
            error_meaning=asked.domain.error_meaning,
        )

    def only(self, analyst: str) -> Certificate:
        """Return the part of the certificate that concerns one analyst."""
        joins = tuple(
            replace(join, errors={analyst: join.errors[analyst]})
            for join in self.joins
            if analyst in join.errors
        )
        skipped = tuple(each for each in self.skipped if each.analyst == analyst)
        part = {analyst: self.analysts[analyst]}
        return replace(self, analysts=part, joins=joins, skipped=skipped)

    def __repr__(self) -> str:
        return "\n".join(p if isinstance(p, str) else p.text() for p in self.parts())

    def parts(self) -> list[str | TextTable]:
        """Return the certificate for people: sentences and tables in order."""
        title = f"{self.mechanism}, epsilon {self.epsilon} against {self.protects}"
        parts: list[str | TextTable] = [
            f"{title}; total expected squared error per analyst",
            self._table(),
        ]
        if len(self.analysts) > 1:
            title = "interference (above 1, the row's analyst harms the column's)"
            parts += [title, self._matrix()]
        if self.joins:
            parts += ["errors after each join", self._joins()]
        if self.skipped:
            listed = ", ".join(map(str, self.skipped))
            parts.append(f"refused and left out, charged to nobody: {listed}")
        parts += [f"chosen more plainly: {each}" for each in self.plainer]
        meaning = [self.error_meaning] if self.error_meaning else []
        return [*parts, self._beside(), self.promised, *meaning]

    @property
    def promised(self) -> str:
        """Say what holds always; late analysts add to what a mechanism promised only in part."""
        late = bool(self.joins) and self.mechanism not in ("independent", "ratchet")
        return LATE if late else PROMISED[self.mechanism]

    def _beside(self) -> str:
        """Say how far the total error is from Utilitarian's and from the lower bound."""
        utilitarian, gap = self.bounds.beside(self.total)
        text = f"total error {number(self.total)}"
        if utilitarian is not None:
            text += f", {utilitarian:.3f} times utilitarian's ({_figure(self.bounds.utilitarian)})"
        if gap is not None:
            text += f", {gap:.2f} times the lower bound ({_figure(self.bounds.lowest)})"
        return text

    def _matrix(self) -> TextTable:
        """Return who changed whose error through joining: a row an analyst who joins."""
        names = list(self.analysts)
        headers = [("joining", False), *((name, True) for name in names)]
        rows = [
            [
                joining,
                *(
                    f"{self.analysts[name].interference[joining]:.3f}"
                    if joining in self.analysts[name].interference
                    else ""
                    for name in names
                ),
            ]
            for joining in names
        ]
        return TextTable.of(headers, len(rows), rows.__getitem__, limit=None)

    def _joins(self) -> TextTable:
        """Return everybody's error after each join."""
        names = list(self.analysts)
        titles = ["epsilon", *names, *(["total"] if len(names) > 1 else [])]
        headers = [("joining", False), *((title, True) for title in titles)]
        rows = []
        for join in self.joins:
            errors = [number(join.errors[name]) if name in join.errors else "" for name in names]
            total = [number(sum(join.errors.values()))] if len(names) > 1 else []
            rows.append([", ".join(join.analysts), str(join.epsilon), *errors, *total])
        return TextTable.of(headers, len(rows), rows.__getitem__, limit=None)

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


def _figure(value: float | None) -> str:
    return "" if value is None else number(value)


def certify(
    asked: Asked, cache: StrategyCache | None, measured: JointStrategy | None = None
) -> Certificate:
    """Return the certificate of what was ``measured``, or of what would be if it is None."""
    mechanism = MECHANISMS[asked.plan.mechanism](asked.columns, cache)
    shares = [analyst.share for analyst in asked.plan.analysts]
    with threadpool_limits(limits=1):  # Threads that contend for small matrices are slower.
        if measured is not None:
            mechanism = _measured(settled(mechanism, asked.workloads, shares), measured)
        given = outcome(mechanism, asked.workloads, shares, asked.epsilon_per_record)
        compared = bounds(asked.workloads, asked.epsilon_per_record, cache)
        return replace(Certificate.of(asked, given, compared), joins=joins(asked, mechanism))


def joins(asked: Asked, mechanism: Mechanism) -> tuple[Join, ...]:
    """Return each join under a mechanism in which analysts join one after the other."""
    if not isinstance(mechanism, Joining):
        return ()
    analysts = asked.plan.analysts
    shares = [analyst.share for analyst in analysts]
    found = []
    for place, strategy in enumerate(mechanism.joins(asked.workloads, shares)):
        inside = slice(place + 1)
        spent = asked.epsilon_per_record * sum(shares[inside], Fraction(0))
        errors = expected_errors(strategy, asked.workloads[inside], spent)
        names = [analyst.name for analyst in analysts[inside]]
        brought = asked.plan.epsilon * shares[place]
        found.append(Join((names[-1],), brought, dict(zip(names, errors, strict=True))))
    return tuple(found)


def _measured(mechanism: Mechanism, strategy: JointStrategy) -> Mechanism:
    kind = _MeasuredJoining if isinstance(mechanism, Joining) else _Measured
    return kind(mechanism, strategy)


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

    def interference(
        self, workloads: Sequence[Workload], shares: Sequence[Fraction]
    ) -> NDArray[np.float64] | None:
        """Return what leaving everyone out once does, if the mechanism knows it of its own choice.

        That and what was measured are compared with the same errors of those who are left.
        """
        known = left_out_at_once(self.mechanism, workloads, shares)
        if known is None:
            return None
        chosen = self.mechanism.select(workloads, shares)
        alike = contents(chosen.blocks) == contents(self.strategy.blocks)
        if alike and chosen.reads == self.strategy.reads:
            return known
        usual = expected_errors(chosen, workloads, Fraction(1))
        given = expected_errors(self.strategy, workloads, Fraction(1))
        ratios = known * [ratio(now, then) for now, then in zip(given, usual, strict=True)]
        np.fill_diagonal(ratios, 1.0)
        return ratios


@dataclass(frozen=True)
class _MeasuredJoining(_Measured):
    """The same for one in which analysts join one after the other."""

    def joins(
        self, workloads: Sequence[Workload], shares: Sequence[Fraction]
    ) -> list[JointStrategy]:
        """Return what would have been measured after each join, and what was after the last."""
        counts = range(1, len(workloads) + 1)
        return [self.select(workloads[:count], shares[:count]) for count in counts]
