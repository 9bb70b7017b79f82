"""Release: from a plan to rows, the stages in order.

    bind      statements -> blocks over the declared domain            asked        public
    look      stored already?  enough budget?                          private      public
    select    workloads and shares -> one integer strategy             mechanism    public
    try       made-up measurements -> rows, certificate, files, page   trial        public
    measure   read, add noise, record with the charge                  private      PRIVATE
    answer    measurement -> answers -> rows                           answer       public

Everything before ``measure`` reads no data, and everything after it reads only what was stored.
What is charged is answered: all that ``answer`` makes was made before, from made-up measurements.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from sqlmadp.answer.processing import Processing
from sqlmadp.answer.reader import Reader
from sqlmadp.answer.reconstruct import Estimate, joint_scopes
from sqlmadp.answer.result import Result, number
from sqlmadp.answer.sizes import DRAWS
from sqlmadp.bind.bind import Binder, BoundQuery
from sqlmadp.errors import (
    Error,
    NotReleasedError,
    NotSupportedError,
    OperationalError,
    Problem,
    ProgrammingError,
    SourceError,
    reporting,
)
from sqlmadp.files.analysts import no_analyst
from sqlmadp.files.plan import Plan
from sqlmadp.files.staging import held
from sqlmadp.mechanism.collective import Joint
from sqlmadp.private import Ledger, Measurement, measure
from sqlmadp.private.engines import open_engine
from sqlmadp.private.engines.catalogue import check_catalogue
from sqlmadp.private.engines.scope_batches import answer_bytes
from sqlmadp.private.ledger_binding import NOTED, check_binding, stored
from sqlmadp.release.bound_plan import BoundPlan, Refused, domain_of, source_identity
from sqlmadp.release.certificate import Certificate, Skipped, certify
from sqlmadp.release.history import (
    History,
    bringing,
    everything,
    find_history,
    processing,
    stages_of,
    stored_before,
)
from sqlmadp.sql.limits import Limits, advice
from sqlmadp.sql.statements import Statement, split
from sqlmadp.table.domain import Domain

Progress = Callable[[str], None]
"""Told the name of each stage as it begins."""
STAGES = 8
"""The stages of a release with its certificate, for a bar."""


class Results(dict[str, dict[str, Result]]):
    """Rows by analyst and query; a statement whose rows could not be made is in ``failed``."""

    def __init__(self) -> None:
        super().__init__()
        self.failed: dict[tuple[str, str], Error] = {}
        """By analyst and query: why there are no rows.  Nothing is lost: trying again is free."""


@dataclass(frozen=True, eq=False)
class Release:
    """A completed release: the stored measurement, and rows worked out from it."""

    asked: BoundPlan
    measurements: tuple[Measurement, ...]
    """All that answers come from, oldest first: several if analysts joined late."""
    spent: Fraction
    """What the ledger has spent in all."""
    left: Fraction
    stated_errors: bool = False
    """Whether results have columns for standard errors and 95% intervals."""
    draws: int = DRAWS
    """Simulated releases, for errors that are not known exactly."""

    @property
    def measurement(self) -> Measurement:
        """Return the last measurement: the one of this very plan."""
        return self.measurements[-1]

    @cached_property
    def _reader(self) -> Reader:
        limits = self.asked.plan.limits
        found = (self.measurements, self.asked.domain, limits, self.processing, self.draws)
        return Reader(*found)

    def over(
        self,
        measurements: tuple[Measurement, ...],
        *,
        spent: Fraction,
        left: Fraction,
        draws: int = DRAWS,
    ) -> Release:
        """Return the release with other measurements, keeping what depends on the strategy alone.

        Nothing is kept if they are of another strategy, such as one that was stored meanwhile.
        """
        other = replace(self, measurements=measurements, spent=spent, left=left, draws=draws)
        if [_strategy(each) for each in measurements] == [*map(_strategy, self.measurements)]:
            other.__dict__["_reader"] = self._reader.over(measurements, draws)
            if "certificate" in self.__dict__:
                other.__dict__["certificate"] = self.certificate
        return other

    @property
    def processing(self) -> Processing:
        """Return the post-processing of the estimate."""
        return processing(self.asked.plan)

    @cached_property
    def certificate(self) -> Certificate:
        """Return the certificate: each analyst's error, beside the error alone."""
        return replace(self._certified(), skipped=self._skipped)

    def _certified(self) -> Certificate:
        reads = [tuple(self._reads(each.name)) for each in self.asked.plan.analysts]
        return certify(self.asked, stages_of(self.measurements, self.asked), reads)

    def stating_errors(self) -> Release:
        """Return the release with columns for errors in its results; what is known is kept."""
        other = replace(self, stated_errors=True)
        kept = {"_reader", "certificate"} & vars(self).keys()
        other.__dict__.update({name: vars(self)[name] for name in kept})
        return other

    def certified(self) -> Certificate | Error:
        """Return the certificate, or why there is none: rows are shown all the same."""
        try:
            with reporting():
                return self.certificate
        except Error as error:
            return error

    @property
    def _skipped(self) -> tuple[Skipped, ...]:
        return tuple(Skipped(*each) for each in self.measurement.metadata.get("skipped", ()))

    def rows(self, analyst: str, query: str) -> Result:
        """Return the rows of the query that ``analyst`` named ``query``."""
        number = self._number(analyst)
        own = {each.name: each for each in self.asked.queries[number]}
        if query not in own:
            raise ProgrammingError(
                f"{analyst!r} has no query {query!r}; there are {', '.join(own)}"
            )
        return self.result(analyst, own[query])

    def result(self, analyst: str, query: BoundQuery) -> Result:
        """Return the rows of one of the analyst's queries."""
        found = self._reader.result(query, self._reads(analyst))
        return found.with_errors() if self.stated_errors else found

    def results(self, progress: Callable[[int, int], None] = lambda *_: None) -> Results:
        """Return the rows of every query of every analyst, by name; each fails by itself.

        Statements of equal text have one result, if they are answered from the same blocks.
        """
        found: dict[tuple[tuple[str, str], tuple[int, ...]], Result | Error] = {}
        results = Results()
        total, done = sum(map(len, self.asked.queries)), 0
        for analyst, own in zip(self.asked.plan.analysts, self.asked.queries, strict=True):
            results[analyst.name] = {}
            for query in own:
                progress(done, total)
                done += 1
                key = (query.statement.key, tuple(self._reads(analyst.name)))
                if key not in found:
                    found[key] = self._result_or_error(analyst.name, query)
                made = found[key]
                if isinstance(made, Result):
                    results[analyst.name][query.name] = made
                else:
                    results.failed[analyst.name, query.name] = made
        return results

    def _result_or_error(self, analyst: str, query: BoundQuery) -> Result | Error:
        try:
            with reporting():
                return self.result(analyst, query)
        except Error as error:
            return error
        except (MemoryError, RecursionError):
            return OperationalError("there is not enough memory to make the rows of this statement")

    def query(self, sql: str, analyst: str | None = None, *, dialect: str | None = None) -> Result:
        """Answer any further statement that the measurement supports; spends nothing."""
        return self.answer(single_statement(self.asked.plan, sql, dialect), analyst)

    def answer(self, statement: Statement, analyst: str | None = None) -> Result:
        """Answer one statement from what ``analyst`` reads, or from everything."""
        reads = None if analyst is None else self._reads(analyst)
        return self._reader.answer(statement, reads)

    def estimate(self, domain: Domain, analyst: str | None) -> Estimate:
        """Return the estimate from all measurements, without post-processing."""
        reads = None if analyst is None else self._reads(analyst)
        return Estimate.of(self.measurements, domain, reads)

    def _reads(self, analyst: str) -> list[int]:
        reads: list[list[int]] = self.measurement.metadata["reads"]
        return reads[self.asked.places[self._number(analyst)]]

    def _number(self, analyst: str) -> int:
        number = self.asked.analyst(analyst)
        if number is None:
            raise no_analyst(analyst, (each.name for each in self.asked.plan.analysts))
        return number


def release(
    plan: Plan,
    progress: Progress | bool = False,
    notice: Progress = lambda _: None,
    confirm: Progress = lambda _: None,
) -> Release:
    """Spend the plan's epsilon once, and return the release; a completed one again, free.

    ``progress`` is told the name of each stage; True shows a bar, in notebooks too.
    ``notice`` is told, before anything is spent, what is about to be, once it is certain; then
    ``confirm`` is told the same, and what it raises ends the release.
    """
    # It tries all that comes after this.
    from sqlmadp.release.trial import prepare, without_failing  # noqa: PLC0415
    from sqlmadp.show.progress import shown_progress  # noqa: PLC0415

    # Nothing is handed in meanwhile.
    with reporting(), shown_progress(progress, STAGES) as report, held(plan.folder, shared=True):
        report("binding statements")
        asked = BoundPlan.bind_sound(plan)
        if asked.refused and not plan.skip_refused:
            without_failing(asked)  # Raises all refusals at once, and never returns.
        if not asked.plan.analysts:
            raise asked.refusal()
        with Ledger.prepare(plan.ledger_path, budget=plan.budget, head=plan.head) as ledger:
            if (done := _completed(asked, ledger, notice)) is not None:
                _tell(done.asked, _intention(done.asked, ledger, History()), notice)
                if elsewhere := _measured_elsewhere(done):
                    notice(f"note: {elsewhere}\n")
                report("answering")
                return done
            # Before the work of selecting, and before any data.
            ledger.require(find_history(asked, ledger).epsilon(asked.plan))
            _require_source(asked, ledger)
            ready = prepare(asked, lambda asked: find_history(asked, ledger), report)
            asked, history = ready.asked, ready.history

            def announce() -> None:
                if known := _known_answers(asked, ledger):
                    notice(f"note: {known}\n")
                intention = _intention(asked, ledger, history)
                _tell(asked, intention, notice)
                confirm(intention)
                report("measuring")

            report("comparing with stored releases")
            measurement = measure(
                ready.strategy.measured,
                source=plan.table,
                domain=asked.domain,
                ledger=ledger,
                release=asked.release_id,
                epsilon=ready.epsilon,
                analysts=history.late(asked.plan),
                mechanism=plan.mechanism,
                metadata=ready.metadata,
                notice=notice,
                announce=announce,
            )
            report("answering")
            measured = everything(measurement, ledger)
            return ready.trial.over(measured, spent=ledger.spent, left=ledger.left)


def _require_source(asked: BoundPlan, ledger: Ledger) -> None:
    """Raise now what `measure` would refuse the table or its ledger for after all the work."""
    engine = open_engine(asked.plan.table, table=asked.domain.table)
    try:
        check_catalogue(engine, asked.domain)
        check_binding(engine.identity, ledger)
    finally:
        engine.close()


def _measured_elsewhere(done: Release) -> str:
    """Return a warning if stored answers are of another table than the plan's; empty otherwise."""
    measured = done.measurement.metadata.get(NOTED, ())
    try:
        now = source_identity(done.asked.plan).names
    except SourceError:  # Stored answers need no table.
        return ""
    if not measured or set(measured) & set(now):
        return ""
    return (
        f"these are stored answers of {measured[0]}, and the plan now names {now[0]}. A release is "
        "known by what was asked, not by its source. To release the other table, let its schema "
        "say what is different, such as the min and max of a date, or name another ledger"
    )


def _tell(asked: BoundPlan, intention: str, notice: Progress) -> None:
    """Tell of slips, of what is left out and of what is about to be charged."""
    for note in asked.notes:
        notice(f"note: {note}\n")
    for each in asked.refused:
        notice(f"skipped: {each.problem}\n")
    notice(intention)


def require_memory(strategy: Joint, domain: Domain, limits: Limits) -> None:
    """Raise NotSupportedError, before any data, if measuring would take too much memory."""
    scopes = {block.scope for block in strategy.measured}
    # The engine holds what it counted a second time.
    counting = 2 * answer_bytes(domain, strategy.measured) // 2**20
    if counting > limits.memory:
        raise NotSupportedError(
            f"this release would count the cells of {len(scopes):,} sets of columns, which could "
            f"take {counting:,} MB; {limits.memory:,} are allowed. Nothing was read or spent. Ask "
            f"for fewer columns at once. {advice('memory')}"
        )
    rows = sum(block.count for block in strategy.measured)
    if rows > limits.measured_rows:
        finest = max(strategy.measured, key=lambda block: block.count).scope
        raise NotSupportedError(
            f"this release would measure {rows:,} strategy queries, most of them over "
            f"{', '.join(finest)}; {limits.memory:,} MB are enough for {limits.measured_rows:,}. "
            f"Nothing was read or spent. Ask for fewer columns at once. {advice('memory')}"
        )


def single_statement(plan: Plan, sql: str, dialect: str | None = None) -> Statement:
    """Return the one statement of a text, in the plan's dialect if none is named."""
    statements = split(sql, file="query", limits=plan.limits, dialect=dialect or plan.dialect)
    if len(statements) != 1:
        raise ProgrammingError(f"one statement was expected, but there are {len(statements)}")
    return statements[0]


def answered_before(
    plan: Plan, sql: str, *, dialect: str | None = None
) -> tuple[str, Release, Result] | None:
    """Return the rows of a statement from the stored release that answers it best, with its time.

    That is any release of the same schema, also of a plan that has been changed since.  None if
    there is none; a statement that no release could answer is refused.
    """
    # A mistake in it is what matters, whether or not anything was released.
    Binder(domain_of(plan), plan.limits).bind(single_statement(plan, sql, dialect))
    if not plan.ledger_path.exists():
        return None
    asked = BoundPlan.bind_sound(plan)
    with Ledger.read(plan.ledger_path, budget=plan.budget, head=plan.head) as ledger:
        found = [
            (time, each, result)
            for time, each in _releases_before(asked, ledger)
            if (result := _or_none(each, sql, dialect)) is not None
        ]
    return min(found, key=lambda each: _typical(each[2]), default=None)


def _releases_before(asked: BoundPlan, ledger: Ledger) -> list[tuple[str, Release]]:
    return [
        (time, Release(then, measurements, ledger.spent, ledger.left))
        for time, then, measurements in stored_before(asked, ledger)
    ]


def _known_answers(asked: BoundPlan, ledger: Ledger) -> str:
    """Say which statements stored releases answer already, and how well; nothing if none."""
    before = _releases_before(asked, ledger)
    lines = []
    for analyst, own in zip(asked.plan.analysts, asked.queries, strict=True):
        for query in own if before else ():
            statement = query.statement
            found = [(time, _or_none(each, statement)) for time, each in before]
            errors = {time: _typical(each) for time, each in found if each is not None}
            if errors:
                time = min(errors, key=errors.__getitem__)
                lines.append(
                    f"    {analyst.name}.{query.name}  ± {number(errors[time])}  release of {time}"
                )
    if not lines:
        return ""
    plan = shlex.quote(str(asked.plan.path))
    return "\n".join(
        [
            "stored releases already answer these statements, free (± is one standard error):",
            *lines,
            f"The rows: sqlmadp query {plan} 'SELECT ...'",
        ]
    )


def _or_none(
    release: Release, statement: str | Statement, dialect: str | None = None
) -> Result | None:
    try:
        if isinstance(statement, Statement):
            return release.answer(statement)
        return release.query(statement, dialect=dialect)
    except Error:  # It is not covered, or asks for constants that the release does not cut at.
        return None


def _typical(result: Result) -> float:
    """Return the root of the mean squared error of all answers."""
    errors = [e for column in result.rmse.values() for e in column if not math.isnan(e)]
    return math.sqrt(sum(e * e for e in errors) / len(errors)) if errors else 0.0


def released(plan: Plan, notice: Progress = lambda _: None) -> Release:
    """Return the completed release of a plan without spending or reading anything."""
    _, done = asked_and_released(plan, notice)
    if done is None:
        raise NotReleasedError(
            f"the release of plan {str(plan.path)!r} is pending, so there are no rows yet. EXPLAIN "
            "in front of a statement shows how exact its answer would be. The curator runs: "
            f"sqlmadp release {shlex.quote(str(plan.path))}"
        )
    return done


def asked_and_released(
    plan: Plan, notice: Progress = lambda _: None
) -> tuple[BoundPlan, Release | None]:
    """Return the bound plan and its completed release, if there is one; else raise refusals.

    A release that skipped what was refused is found again, and asks what it answered.
    """
    asked = BoundPlan.bind_sound(plan)
    done = find(asked, notice)
    if done is not None:
        return done.asked, done
    if asked.refused and not (plan.skip_refused and asked.plan.analysts):
        raise asked.refusal()
    return asked, None


def find(asked: BoundPlan, notice: Progress = lambda _: None) -> Release | None:
    """Return the completed release of what was asked, or None.

    ``notice`` is told of notes beside the table that are behind the ledger and stay so.
    """
    plan = asked.plan
    if not plan.ledger_path.exists() and plan.head is None:
        return None
    with Ledger.read(plan.ledger_path, budget=plan.budget, head=plan.head) as ledger:
        return _completed(asked, ledger, notice)


def _completed(asked: BoundPlan, ledger: Ledger, notice: Progress) -> Release | None:
    """Return the release of what was asked, or of what was left of it when some was skipped."""
    if not asked.plan.analysts:
        return None
    skipping = asked.plan.skip_refused or not asked.refused
    measurement = stored(ledger, asked.release_id, notice) if skipping else None
    if measurement is None:
        asked_then = _asked_without(asked, ledger)
        if asked_then is None:
            return None
        asked = asked_then
        measurement = stored(ledger, asked.release_id, notice)
        if measurement is None:
            return None
    return Release(asked, everything(measurement, ledger), ledger.spent, ledger.left)


def _asked_without(asked: BoundPlan, ledger: Ledger) -> BoundPlan | None:
    """Return the plan without the statements that its release says it skipped."""
    for charge in ledger.charges:
        known = ledger.find(charge.release)
        skipped = [] if known is None else known.metadata.get("skipped", [])
        names = {(analyst, query) for analyst, query, _ in skipped}
        if not names or not {_name(each) for each in asked.refused} <= names:
            continue
        left = asked.without([Refused(*name, _left_out(*name)) for name in sorted(names)])
        if left.plan.analysts and left.release_id == charge.release:
            return replace(left, refused=asked.refused)
    return None


def _name(refused: Refused) -> tuple[str, str]:
    return refused.analyst, refused.query


def _left_out(analyst: str, query: str) -> Problem:
    return Problem(file="", code="skipped", message=f"{query!r} of {analyst!r} was skipped")


def _strategy(measurement: Measurement) -> tuple[tuple[bytes, ...], float]:
    """Return a fingerprint of a measurement's strategy and noise."""
    return tuple(block.fingerprint for block in measurement.blocks), measurement.scale


def _intention(asked: BoundPlan, ledger: Ledger, history: History) -> str:
    """Say what a release will cost, before it does."""
    known = next((c for c in ledger.charges if c.release == asked.release_id), None)
    if known is not None:
        return (
            f"this release was completed at {known.time}: its stored answers are returned, "
            "no record is read and nothing is spent"
        )
    budget = (
        f"ledger {str(ledger.path)!r} (budget {ledger.budget}, spent {ledger.spent}, "
        f"left {ledger.left})"
    )
    if history:
        late, charge = ", ".join(history.late(asked.plan)), history.epsilon(asked.plan)
        return (
            f"this adds {late} to the release of {history.time}: it charges epsilon {charge}, "
            f"which is what they bring, to {budget}; what was measured before stays, and "
            "nobody's expected error rises"
        )
    changed = (
        "it asks something else than the releases before it, and a changed plan is a new release "
        "and a new charge"
        if ledger.charges
        else "running the same plan again is free, but a changed plan is a new release and a new "
        "charge"
    )
    return f"this is a new release: it charges epsilon {asked.plan.epsilon} to {budget}; {changed}"


def metadata_of(asked: BoundPlan, strategy: Joint, history: History) -> dict[str, object]:
    """Return the metadata stored with a measurement, as plain JSON values."""
    reads = sorted(zip(asked.places, strategy.reads, strict=True))
    joint = joint_scopes(strategy.blocks)
    return {
        "reads": [list(blocks) for _, blocks in reads],
        "cuts": asked.cuts,
        "schema": asked.schema_id,
        "members": {name: str(epsilon) for name, epsilon in bringing(asked.plan).items()},
        "earlier": [measurement.release for measurement in history.measurements],
        **({"joint": joint} if joint else {}),
        **({"skipped": _skipped_names(asked)} if asked.refused else {}),
    }


def _skipped_names(asked: BoundPlan) -> list[list[str]]:
    """Return the skipped statements: analyst, query (empty for all of an analyst's) and why."""
    return [
        list(each)
        for each in dict.fromkeys((r.analyst, r.query, r.problem.code) for r in asked.refused)
    ]
