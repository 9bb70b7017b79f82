"""The certificate: what a release gives each analyst, beside what each would have had alone.

For every analyst: the share, the expected error alone with that share, the expected error in
the collective, their ratio (at most 1: the sharing incentive), by whom that error changed through
joining (at most 1: non-interference), and the accuracy of every statement.  It is worked out from
questions, shares and the strategy that was, or would be, measured: it is public and reads no data.

Interference compares with the mechanism rerun from scratch without an analyst; where a mechanism
settles on a rule by looking at everyone, *within the agreement* those who are left keep to it.

Where analysts join one after the other, in the order of the plan or after a release, the
certificate lists each join with everybody's error after it.  Who joins late can be held responsible
for nothing but what changed then, so interference is stated of later analysts on earlier ones.

The accuracy of a statement:

    rmse     root of the mean variance of its counts and sums, in plain units
    factor   mean of  variance / naive variance  over them: 1 is no better than splitting the
             analyst's share evenly over their statements and asking one by one (see
             `workload.questions`); at most 1 where a mechanism only adds to what the analyst
             would measure alone
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from threadpoolctl import threadpool_limits

from sqlmadp.answer.explain import column_errors
from sqlmadp.answer.reconstruct import Estimate
from sqlmadp.answer.result import TextTable, number
from sqlmadp.answer.rows import Desk
from sqlmadp.mechanism import MECHANISMS
from sqlmadp.mechanism.fairness import Bounds, Outcome, bounds, noise_variance, unit
from sqlmadp.mechanism.waterfilling import ratio
from sqlmadp.release.bound_plan import BoundPlan
from sqlmadp.release.history import Stage
from sqlmadp.strategy.select import plainer
from sqlmadp.table.rows import Rows
from sqlmadp.table.runs import Floats
from sqlmadp.workload.questions import naive_deviations

LATE = (
    "guaranteed: nobody worse off because of somebody who joined after them, and nobody who "
    "joined late worse off than alone"
)
"""What is promised, whatever the mechanism of the first release, once analysts joined late."""

TINY = 1e-9
"""How far above 1 a ratio may be by the last digits of floating-point numbers alone."""


@dataclass(frozen=True)
class Accuracy:
    """The expected error of one statement."""

    name: str
    rows: int
    rmse: float
    """Root of the mean expected squared error over the statement's counts and sums."""
    factor: float
    """The same relative to asking one by one: the mean of ``variance / naive variance``."""
    columns: tuple[tuple[str, float | None], ...] = ()
    """Every numeric result column that depends on answers, with the root of its mean expected
    squared error over rows; None where only the release will tell."""


def _accuracies(
    asked: BoundPlan, place: int, estimate: Estimate, desk: Desk
) -> tuple[Accuracy, ...]:
    """Return the accuracy of each of an analyst's statements."""
    share = asked.plan.analysts[place].share
    unit = noise_variance(asked.epsilon_per_record * share)
    questions = asked.questions[place]
    found = []
    for query, question, naive in zip(
        asked.queries[place], questions, naive_deviations(questions), strict=True
    ):
        own = [estimate.rmse(rows) ** 2 for rows in question.pieces]
        every = np.concatenate([np.zeros(0), *own])
        mean = float(every.mean()) if len(every) else 0.0  # No group, no answer, no error.
        ratios = (v.sum() / (unit * n**2) for v, n in zip(own, naive, strict=True) if n)
        factor = math.fsum(float(ratio) for ratio in ratios) / max(1, question.rows)
        columns = column_errors(query, estimate, desk)
        found.append(Accuracy(query.name, query.rows, math.sqrt(mean), factor, columns))
    return tuple(found)


@dataclass(frozen=True)
class Standing:
    """One analyst's part of a certificate."""

    share: Fraction
    alone: float
    """The error with their own share and nobody else."""
    now: float
    """The error in the collective."""
    interference: Mapping[str, float]
    """By whom: the ratio of ``now`` to the error without that analyst; above 1 is a violation."""
    within_agreement: Mapping[str, float]
    """The same where those who are left keep to what everyone agreed on."""
    statements: tuple[Accuracy, ...] = ()
    plainer: tuple[str, ...] = ()
    """Which searches were left out for their strategy, because their statements are too large."""

    @property
    def ratio(self) -> float:
        """``now / alone``; above 1 the sharing incentive is violated."""
        return ratio(self.now, self.alone)


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
    promise: str
    """What is guaranteed, whatever the plan."""
    relative: bool = True
    """Whether errors are relative to asking one by one with the own share; squares otherwise."""
    joins: tuple[Join, ...] = ()
    """In the order of joining; none where everybody came at once."""
    protects: str = "adding or removing one record"
    """What epsilon is promised against, as the schema declares units and neighbours."""
    error_meaning: str = ""
    """What the errors that are stated with answers cover, and what they do not."""
    skipped: tuple[Skipped, ...] = ()
    """What was refused and left out; nobody is charged for it."""

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
        what = (
            "expected error per analyst, 1 if every statement were asked one by one"
            if self.relative
            else "total expected squared error per analyst"
        )
        parts: list[str | TextTable] = [f"{title}; {what}", self._table()]
        if len(self.analysts) > 1:
            title = "interference (above 1, the row's analyst harms the column's)"
            parts += [title, self._matrix()]
        if self.joins:
            parts += ["errors after each join", self._joins()]
        if self.skipped:
            listed = ", ".join(map(str, self.skipped))
            parts.append(f"refused and left out, charged to nobody: {listed}")
        parts += self.plainer
        meaning = [self.error_meaning] if self.error_meaning else []
        return [*parts, *self.one_by_one, self._beside(), self.promise, *meaning]

    @property
    def sharing_ratio(self) -> float:
        """The largest ratio of an error to that alone."""
        return max(each.ratio for each in self.analysts.values())

    @property
    def worst_interference(self) -> float:
        """The largest interference of one analyst with another; 1 if there is none."""
        found = (v for each in self.analysts.values() for v in each.interference.values())
        return max(found, default=1.0)

    @property
    def worst_within_agreement(self) -> float:
        """The largest interference within the agreement."""
        found = (v for each in self.analysts.values() for v in each.within_agreement.values())
        return max(found, default=1.0)

    @property
    def verdict(self) -> str:
        """The one sentence that matters."""
        worse = [name for name, each in self.analysts.items() if each.ratio > 1 + TINY]
        text = (
            f"worse off than alone with their own share: {', '.join(worse)}"
            if worse
            else "nobody is worse off than alone with their own share"
        )
        above, gap = self.bounds.beside(self.total)
        if above is not None:
            whole = f"{text}; the expected error of the whole is {above:.2f} times"
            if above >= 1 - TINY:
                return f"{whole} the least that was found without any guarantee"
            return f"{whole} what a search without any guarantee found"
        text += "; the plan is too large to search for the least error without any guarantee"
        if gap is not None:
            text += f", but that of the whole is at most {gap:.2f} times the least possible"
        return text

    @property
    def plainer(self) -> list[str]:
        """Say whose strategy is plainer than a longer search might find, and why."""
        return [
            f"plainer strategy for {name}, to bound the work: {reason}"
            for name, standing in self.analysts.items()
            for reason in standing.plainer
        ]

    @property
    def one_by_one(self) -> list[str]:
        """Compare with asking statement by statement, if that is what errors are relative to."""
        factors = [s.factor for each in self.analysts.values() for s in each.statements if s.factor]
        if not factors:
            return []
        worse = sum(factor > 1 + TINY for factor in factors)
        gain = math.exp(-0.5 * math.fsum(map(math.log, factors)) / len(factors))
        if worse:
            return [
                f"{worse} of {len(factors)} statements are less accurate than alone, one by one; "
                f"on average they are {gain:.1f} times as accurate"
            ]
        return [
            "each statement is at least as accurate as alone, one by one; on average "
            f"{gain:.1f} times as accurate"
        ]

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
        """Return who changed whose error through joining: one row per analyst who joins."""
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
        return TextTable.whole(headers, rows)

    def _joins(self) -> TextTable:
        """Return everybody's error after each join."""
        names = list(self.analysts)
        summed = len(names) > 1 and not self.relative  # Relative errors are weighted by shares.
        titles = ["epsilon", *names, *(["total"] if summed else [])]
        headers = [("joining", False), *((title, True) for title in titles)]
        rows = []
        for join in self.joins:
            errors = [number(join.errors[name]) if name in join.errors else "" for name in names]
            total = [number(sum(join.errors.values()))] if summed else []
            rows.append([", ".join(join.analysts), str(join.epsilon), *errors, *total])
        return TextTable.whole(headers, rows)

    def _repr_html_(self) -> str:
        """Return the table that notebooks show."""
        return self._table().html()

    def _table(self) -> TextTable:
        interference = ("largest interference", "within the agreement")
        titles = ("share", "alone", "now", "now / alone", *interference)
        headers = [("analyst", False), *((title, True) for title in titles)]
        rows = [
            [
                name,
                str(standing.share),
                number(standing.alone),
                number(standing.now),
                f"{standing.ratio:.3f}",
                f"{max(standing.interference.values(), default=1.0):.3f}",
                f"{max(standing.within_agreement.values(), default=1.0):.3f}",
            ]
            for name, standing in self.analysts.items()
        ]
        return TextTable.whole(headers, rows)


def _figure(value: float | None) -> str:
    return "" if value is None else number(value)


def certify(
    asked: BoundPlan,
    stages: Sequence[Stage],
    reads: Sequence[tuple[int, ...]],
    name: str | None = None,
) -> Certificate:
    """Return the certificate of what was measured, or would be, under the mechanism named.

    ``reads`` numbers, for each analyst, the rows of all stages that they read.  Interference is
    that of the mechanism where everybody came at once, and that of late analysts otherwise.
    """
    plan = asked.plan
    name = name or plan.mechanism
    chosen, late = MECHANISMS[name], len(stages) > 1
    with threadpool_limits(limits=1):  # Threads that contend for small matrices are slower.
        given = asked.outcome(name)
        estimates = _Estimates(asked, [row for stage in stages for row in stage.rows])
        joins = _joins_of(asked, stages, reads, estimates)
        now = joins[-1].errors
        rerun, kept = _interference(given, joins, late=late)
        desk = Desk(plan.limits)
        reasoned = chosen.adaptive or late
        standings = {
            analyst.name: Standing(
                analyst.share,
                given.alone[place],
                now[analyst.name],
                rerun[analyst.name],
                kept[analyst.name],
                _accuracies(asked, place, estimates.of(reads[place]), desk),
                plainer(asked.collective.workloads[place]) if reasoned else (),
            )
            for place, analyst in enumerate(plan.analysts)
        }
        weights = asked.collective.importance / _units(asked)
        total = math.fsum(
            float(w) * now[a.name] for w, a in zip(weights, plan.analysts, strict=True)
        )
        return Certificate(
            name,
            plan.epsilon,
            standings,
            total,
            bounds(asked.collective, asked.epsilon_per_record),
            LATE if late and not (chosen.ordered or chosen.separate) else chosen.promise,
            relative=plan.measure == "relative",
            joins=tuple(joins) if late else _joins_in_order(asked, given, now),
            protects=asked.domain.protection,
            error_meaning=asked.domain.error_meaning,
        )


class _Estimates:
    """Estimates, without values, from some of the rows that were measured; each is solved once."""

    def __init__(self, asked: BoundPlan, rows: Sequence[Rows]) -> None:
        self._asked, self._rows = asked, rows
        self._known: dict[tuple[int, ...], Estimate] = {}

    def of(self, numbers: tuple[int, ...]) -> Estimate:
        if numbers not in self._known:
            read = tuple(self._rows[number] for number in numbers)
            self._known[numbers] = Estimate(self._asked.domain, read, (), noise_variance=1.0)
        return self._known[numbers]


def _units(asked: BoundPlan) -> Floats:
    own = asked.collective.units
    return np.ones(len(asked.plan.analysts)) if own is None else own


def _joins_of(
    asked: BoundPlan,
    stages: Sequence[Stage],
    reads: Sequence[tuple[int, ...]],
    estimates: _Estimates,
) -> list[Join]:
    """Return who came with each measurement, and everybody's error from then on."""
    relative = asked.plan.measure == "relative"
    joins: list[Join] = []
    measured = 0
    for stage in stages:
        measured += len(stage.rows)
        errors: dict[str, float] = {}
        for place, analyst in enumerate(asked.plan.analysts):
            # The names of analysts may change; all are in by the last stage.
            if stage is stages[-1] or analyst.name in stage.members:
                numbers = tuple(number for number in reads[place] if number < measured)
                error = estimates.of(numbers).error(asked.collective.workloads[place])
                # Variances, or variances relative to those of the own share alone.
                own = noise_variance(asked.epsilon_per_record * analyst.share) if relative else 1.0
                errors[analyst.name] = error / own
        came = tuple(name for name in errors if not joins or name not in joins[-1].errors)
        joins.append(Join(came, stage.epsilon, errors))
    return joins


def _joins_in_order(asked: BoundPlan, given: Outcome, now: Mapping[str, float]) -> tuple[Join, ...]:
    """Return each join under a mechanism in which analysts join one after the other."""
    analysts = asked.plan.analysts
    scale = unit(asked.collective, asked.epsilon_per_record) * _units(asked)
    found = []
    for place, joint in enumerate(given.mechanism.joins(asked.collective)):
        names = [analyst.name for analyst in analysts[: place + 1]]
        errors = dict(zip(names, (scale[: place + 1] * joint.errors).tolist(), strict=True))
        brought = asked.plan.epsilon * analysts[place].share
        found.append(Join((names[-1],), brought, errors if place + 1 < len(analysts) else now))
    return tuple(found)


ByWhom = dict[str, dict[str, float]]
"""By analyst and by whom: the ratio by which an error changed."""


def _interference(given: Outcome, joins: Sequence[Join], *, late: bool) -> tuple[ByWhom, ByWhom]:
    """Return by whom errors changed: by anybody who was not left out, or by who came late.

    The first is from scratch, the second within the agreement.
    """
    now = joins[-1].errors
    if late:
        changed = {name: _changed_by(name, joins) for name in now}
        return changed, changed
    found = []
    for matrix in (given.interference, given.interference_within_agreement):
        # What was measured may be selected on another machine; whoever is left out, the others'
        # errors without them are the same.
        found.append(
            {
                name: {
                    other: float(matrix[i, j]) * ratio(now[name], given.errors[j])
                    for i, other in enumerate(now)
                    if i != j
                }
                for j, name in enumerate(now)
            }
        )
    return found[0], found[1]


def _changed_by(name: str, joins: Sequence[Join]) -> dict[str, float]:
    """Return by whom an error changed: everybody who joined late."""
    changes: dict[str, float] = {}
    for before, join in itertools.pairwise(joins):
        if name in before.errors:
            change = ratio(join.errors[name], before.errors[name])
            changes |= dict.fromkeys(join.analysts, change)
    return changes
