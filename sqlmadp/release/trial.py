"""Trial: answer first, then pay.

Before anything is charged, a release makes all that it will make afterwards, once, from made-up
measurements of the very strategy that is about to be measured, through the very code that will make
the real ones:

    strategy + made-up values  ->  Measurement  ->  Release  ->  rows with errors, certificate,
                                                                 files, the page of the report

The values are all 0, then drawn at random from a public sequence (`answer.processing`), and then
the opposite of those: counts that are negative, large and in no proportion to each other, so that
every one has been above 0 and below.  No record is read.  Whatever fails here is refused before the
charge, by statement, together with all other refusals; what does not depend on values (solvers,
exact errors, the certificate) is kept for the real answers.

A statement that is handed in is tried by itself before there is a strategy, on made-up answers: one
whose rows cannot be made from them is refused at once.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from sqlmadp.answer.errors import result_of
from sqlmadp.answer.processing import Processing, laplace
from sqlmadp.answer.reconstruct import Sums
from sqlmadp.answer.result import FORMATS, write_results
from sqlmadp.answer.rows import Desk
from sqlmadp.bind.bind import BoundQuery
from sqlmadp.errors import (
    Error,
    NotCoveredError,
    NotSupportedError,
    Problem,
    UnfitPlanError,
    reporting,
)
from sqlmadp.mechanism.collective import Joint
from sqlmadp.private import Measurement
from sqlmadp.private.blocks import grain
from sqlmadp.private.measure import calibrate
from sqlmadp.release.bound_plan import BoundPlan, Refused
from sqlmadp.release.history import History
from sqlmadp.release.release import (
    Progress,
    Release,
    Results,
    metadata_of,
    require_memory,
)
from sqlmadp.sql.statements import Statement
from sqlmadp.table.rows import Rows
from sqlmadp.table.runs import Floats

DRAWS = 2
"""Simulated releases from a made-up one: errors are made once more, and nobody reads them."""

FAR = 1000.0
"""Records, about, that answers drawn at random are away from 0, beside the noise."""

MOST = 2.0**62
"""Measured values are never further from 0 than this."""


@dataclass(frozen=True)
class MadeUp:
    """Answers about ``far`` away from 0 with errors of 1, before there is a strategy."""

    far: float
    noise_variance: float = 1.0
    processing: Processing = Processing()  # noqa: RUF009 - It never changes.

    def answers(self, rows: Rows) -> Floats:
        """Return numbers that depend on nothing but their place."""
        return np.rint(self.far * laplace(0, 0, rows.count))

    def simulated(self, rows: Rows) -> Floats:
        """Return others, one column per simulated release."""
        drawn = [self.far * laplace(draw, 0, rows.count) for draw in range(1, DRAWS + 1)]
        return np.column_stack(drawn)

    def rmse(self, rows: Rows) -> Floats:
        """Return 1 for every row."""
        return np.ones(rows.count)

    def sum_rmse(self, parts: Sums) -> Floats:
        """Return 1 for every sum."""
        return np.ones(parts[0][1].shape[0])


MADE_UP = (MadeUp(0.0), MadeUp(FAR), MadeUp(-FAR))
"""The made-up answers that a statement is tried on when it is handed in."""


@dataclass(frozen=True, eq=False)
class Ready:
    """What is about to be measured, after everything that follows was tried."""

    asked: BoundPlan
    history: History
    """What it adds analysts to."""
    epsilon: Fraction
    """What it will be charged."""
    strategy: Joint
    metadata: dict[str, object]
    trial: Release
    """A release of made-up values, which keeps what the real answers need."""


def prepare(
    asked: BoundPlan,
    find_history: Callable[[BoundPlan], History],
    progress: Progress = lambda _: None,
) -> Ready:
    """Select what to measure and try all that follows; raise what is refused, all at once.

    A plan that skips refused statements goes on without those that fail, as long as anybody is
    left to answer.
    """
    while True:
        try:
            ready = _selected(asked, find_history(asked), progress)
        except UnfitPlanError:
            raise
        except NotSupportedError as error:
            failed = [_blamed(asked, error)]
        else:
            failed = try_out(ready.trial, progress)
            if not failed:
                return ready
        left = asked.without(failed)
        if not (asked.plan.skip_refused and left.plan.analysts):
            raise left.refusal()
        asked = left


def without_failing(asked: BoundPlan) -> BoundPlan:
    """Return the plan without statements that fail by themselves; raise all that is refused."""
    desk = Desk(asked.plan.limits)
    failed = [
        Refused(analyst.name, query.name, problem)
        for analyst, own in zip(asked.plan.analysts, asked.queries, strict=True)
        for query in own
        if (problem := try_statement(query, analyst.name, desk)) is not None
    ]
    left = asked.without(failed) if failed else asked
    if left.refused and not (asked.plan.skip_refused and left.plan.analysts):
        raise left.refusal()
    return left


def _selected(asked: BoundPlan, history: History, progress: Progress) -> Ready:
    plan = asked.plan
    progress("selecting a strategy")
    asked.collective.progress = lambda done, total: progress(
        f"selecting a strategy: {done} of {total} analysts"
    )
    epsilon, strategy = history.epsilon(plan), history.select(asked)
    require_memory(strategy, asked.domain, plan.limits)
    metadata = metadata_of(asked, strategy, history)
    measured = (*history.measurements, made_up(asked, strategy, epsilon, metadata))
    trial = Release(asked, measured, Fraction(0), plan.budget, draws=DRAWS)
    return Ready(asked, history, epsilon, strategy, metadata, trial)


def try_statement(query: BoundQuery, analyst: str, desk: Desk | None = None) -> Problem | None:
    """Make the rows of one statement from made-up answers; return why it is refused, if it is.

    It needs no strategy, so a statement can be tried as soon as it is bound.
    """
    desk = desk or Desk()
    for answers in MADE_UP:
        try:
            with reporting():
                result_of(query, answers, desk)
        except Error as error:
            return fails(query.statement, analyst, error)
    return None


def _blamed(asked: BoundPlan, error: NotSupportedError) -> Refused:
    """Return the finest statement: without it, what is too large to be selected for is smaller."""
    _, query, name = max(
        (
            (rows.size, query, analyst.name)
            for analyst, own in zip(asked.plan.analysts, asked.queries, strict=True)
            for query in own
            for rows in query.aggregates
        ),
        key=lambda each: each[0],
    )
    problem = query.statement.problem(
        "not-selectable",
        f"what to measure cannot be selected: {error}; of all statements this one of {name!r} "
        "tells most values apart",
        hint="Ask for fewer columns at once, or for coarser groups of their values.",
    )
    return Refused(name, query.name, problem)


def made_up(
    asked: BoundPlan, strategy: Joint, epsilon: Fraction, metadata: Mapping[str, object]
) -> Measurement:
    """Return a measurement of a strategy without any data: all of its values are 0."""
    calibrated = calibrate(strategy.measured, domain=asked.domain, epsilon=epsilon)
    return Measurement(
        release=asked.release_id,
        blocks=calibrated.blocks,
        values=tuple(np.zeros(block.count, dtype=np.int64) for block in calibrated.blocks),
        grains=tuple(grain(block) for block in calibrated.blocks),
        scales=calibrated.scales,
        epsilon=epsilon,
        sensitivity=calibrated.sensitivity,
        metadata=metadata,
    )


def try_out(trial: Release, progress: Progress = lambda _: None) -> list[Refused]:
    """Make all that a release makes from made-up ones; return the statements that fail.

    Raises what fails for everybody: the certificate, the files, the report.
    """
    failed: dict[tuple[str, str], Refused] = {}
    results = Results()
    made = (trial, _drawn(trial, -1), _drawn(trial, 1))
    total = len(made) * sum(map(len, trial.asked.queries))
    for turn, release in enumerate(made):
        before = turn * total // len(made)

        def report(done: int, _: int, before: int = before) -> None:
            progress(f"trying the answers: {before + done} of {total}")

        results = release.results(report)
        for (analyst, name), error in results.failed.items():
            failed.setdefault((analyst, name), _refused(trial.asked, analyst, name, error))
    if not failed:
        progress("certifying")
        _ = trial.certificate  # It depends on the strategy alone, and is kept.
        _write(trial, results)
    return list(failed.values())


def _drawn(trial: Release, sign: int) -> Release:
    """Return the same release with values drawn at random, or the opposite of these."""
    *earlier, nothing = trial.measurements
    counts = [len(each) for each in nothing.values]
    starts = np.cumsum([0, *counts]).tolist()
    values = []
    for count, start, scale, unit in zip(
        counts, starts, nothing.scales, nothing.grains, strict=False
    ):
        away = sign * (scale + FAR * float(nothing.sensitivity / unit))
        values.append(np.clip(away * laplace(0, start, count), -MOST, MOST).astype(np.int64))
    drawn = replace(nothing, values=tuple(values))
    return trial.over((*earlier, drawn), spent=trial.spent, left=trial.left, draws=DRAWS)


def _refused(asked: BoundPlan, analyst: str, name: str, error: Error) -> Refused:
    """Return the refusal of a statement whose rows cannot be made from every measurement."""
    own = dict(zip((a.name for a in asked.plan.analysts), asked.queries, strict=True))[analyst]
    statement = next(query.statement for query in own if query.name == name)
    return Refused(analyst, name, fails(statement, analyst, error))


def fails(statement: Statement, analyst: str, error: Error) -> Problem:
    """Return why a statement whose rows cannot be made from some answers is refused."""
    hint = (
        "It is no combination of what would be measured; please report this."
        if isinstance(error, NotCoveredError)
        else "Answers have noise: they may be 0, negative or large. Keep them where the function "
        "is defined, as in GREATEST(0, LEAST(20, n))."
    )
    return statement.problem(
        "fails-on-answers",
        f"statement {statement.name!r} of {analyst!r} fails on answers that it may get: {error}",
        hint=hint,
    )


def _write(trial: Release, results: Results) -> None:
    """Write all files and the page of the report, to a folder that is removed again."""
    asked = trial.asked
    with tempfile.TemporaryDirectory(prefix="sqlmadp-trial-") as folder:
        write_results(results, Path(folder), *FORMATS)
    certificates = {asked.plan.mechanism: trial.certificate}
    from sqlmadp.show.report import page  # noqa: PLC0415
    from sqlmadp.show.report.content import assemble  # noqa: PLC0415 - The report shows releases.

    page(assemble(asked, certificates, results=results), "trial")
