"""Preview: what ``release`` would give the analysts of a plan, before anything is spent.

    preview    expected errors of the plan, or of the plan with changes
    EXPLAIN    what one statement would cost, and how exact it would be
    dry run    everything that a release does before it reads a record, and nothing after that

A plan that is not released yet is measured at once.  A plan to which analysts were added after a
release keeps what was measured, whatever its mechanism; the part of the late analysts is all that
is chosen and charged (`history`), so that is what is shown.  Reads the ledger, and no data.

Strategies do not depend on epsilon, and every RMSE is proportional to 1 / epsilon.  So the least
epsilon that meets a target is known from one preview: ``epsilon max(rmse / target)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

from sqlmadp.answer.explain import explain
from sqlmadp.answer.reconstruct import Estimate, recut
from sqlmadp.answer.result import Result, TextTable, number
from sqlmadp.bind.bind import bind, cuts
from sqlmadp.bind.evaluate import Evaluator
from sqlmadp.errors import InputError, NotSupportedError, ProgrammingError
from sqlmadp.files.analysts import Analyst, no_analyst
from sqlmadp.files.plan import Plan
from sqlmadp.mechanism import MECHANISMS
from sqlmadp.mechanism.fairness import Cap, explained_caps
from sqlmadp.private import Ledger
from sqlmadp.private.engines import Identity
from sqlmadp.private.ledger_binding import check_binding
from sqlmadp.release.bound_plan import BoundPlan, source_identity
from sqlmadp.release.certificate import Certificate, certify
from sqlmadp.release.check import compare_with_catalogue
from sqlmadp.release.history import History, find_history, history_of
from sqlmadp.release.release import Progress, asked_and_released
from sqlmadp.release.trial import prepare, without_failing
from sqlmadp.sql.statements import Statement, explained, split
from sqlmadp.table.domain import Domain

DIGITS = 6
"""Significant digits of a least epsilon, rounded up."""


class Previews(dict[str, Certificate | NotSupportedError]):
    """Certificates by mechanism; one that cannot serve this domain says why instead."""

    def __init__(self, asked: BoundPlan, history: History) -> None:
        super().__init__()
        self.asked = asked
        self.history = history
        """What the plan adds analysts to."""

    def caps(self) -> dict[str, dict[str, Cap]]:
        """Return the caps on each analyst's error, by mechanism that searches within such caps."""
        names = [analyst.name for analyst in self.asked.plan.analysts]
        found = {}
        for mechanism, each in self.items():
            if isinstance(each, Certificate) and not self.history:
                caps = explained_caps(self.asked.outcome(mechanism))
                found[mechanism] = dict(zip(names, caps, strict=True)) if caps else {}
        return found

    def __repr__(self) -> str:
        return self._table().text()

    def _repr_html_(self) -> str:
        """Return the table that notebooks show."""
        return self._table().html()

    def _table(self) -> TextTable:
        """Return the expected error of every analyst, by mechanism."""
        names = [analyst.name for analyst in self.asked.plan.analysts]
        titles = [*names, "total error", "largest sharing ratio", "largest interference"]
        rows = []
        for mechanism, each in self.items():
            figures = [""] * len(titles)
            if isinstance(each, Certificate):
                figures = [number(standing.now) for standing in each.analysts.values()]
                figures += [number(each.total), f"{each.sharing_ratio:.3f}"]
                figures += [f"{each.worst_interference:.3f}"]
            rows.append([mechanism, *figures])
        headers = [("mechanism", False), *((title, True) for title in titles)]
        return TextTable.of(headers, len(rows), rows.__getitem__, limit=None)


def preview_plan(
    plan: Plan, mechanisms: Sequence[str], progress: Progress | bool = False
) -> Previews:
    """Return the certificates that a release with each mechanism would have."""
    if unknown := [name for name in mechanisms if name not in MECHANISMS]:
        raise ProgrammingError(f"no mechanism {unknown[0]!r}; there are {', '.join(MECHANISMS)}")
    from sqlmadp.show.progress import shown_progress  # noqa: PLC0415

    with shown_progress(progress, 1 + len(mechanisms)) as report:
        report("binding statements")
        asked = BoundPlan.bind(plan)
        previews = Previews(asked, history_of(asked))
        for name in mechanisms:
            report(f"mechanism {name}")
            try:
                previews[name] = preview(asked, previews.history, name, report)
            except NotSupportedError as error:
                previews[name] = error
    return previews


def preview(
    asked: BoundPlan,
    history: History,
    name: str,
    progress: Callable[[str], None] = lambda _: None,
) -> Certificate:
    """Return the certificate of a release with one mechanism that adds to what was released."""
    asked.collective.progress = lambda done, total: progress(
        f"mechanism {name}: {done} of {2 * total} steps"
    )

    def leaving_out(done: int, total: int) -> None:
        progress(f"mechanism {name}: {total + done} of {2 * total} steps")

    asked.outcome(name, leaving_out)  # It is asked for again, and reports when it is worked out.
    return certify(asked, *history.expected(asked, name), name)


def explain_text(
    plan: Plan, sql: str, analyst: str | None = None, *, dialect: str | None = None
) -> Result | None:
    """Return the rows of ``EXPLAIN SELECT ...``; None if this is no EXPLAIN."""
    dialect = dialect or plan.dialect
    statements = split(sql, file="query", limits=plan.limits, dialect=dialect)
    asked = [explained(statement) for statement in statements]
    if len(asked) != 1 or asked[0] is None:
        return None
    return explain_statement(plan, asked[0], analyst)


def explain_statement(plan: Plan, statement: Statement, analyst: str | None = None) -> Result:
    """Return scope, cells, groups and expected error of a statement, from what a reader reads."""
    asked, done = asked_and_released(plan)
    number = None if analyst is None else asked.analyst(analyst)
    if analyst is not None and number is None:
        raise no_analyst(analyst, (each.name for each in asked.plan.analysts))
    domain = asked.domain.with_cuts(cuts([statement], asked.domain, plan.limits))
    query = bind(statement, Evaluator(domain, plan.limits))
    if done is not None:
        return explain(query, done.estimate(domain, analyst))
    return explain(query, expected_estimate(asked, number, domain))


def expected_estimate(
    asked: BoundPlan, number: int | None = None, domain: Domain | None = None
) -> Estimate:
    """Return the estimate that an analyst or the curator would read from, without values.

    ``domain`` may cut real columns at more places than the plan's own.
    """
    stages, own = history_of(asked).expected(asked)
    rows = [block for stage in stages for block in stage.rows]
    reads = range(len(rows)) if number is None else own[number]
    domain = domain or asked.domain
    read = tuple(recut(rows[place], asked.cuts, domain) for place in reads)
    return Estimate(domain, read, (), noise_variance=1.0)


@dataclass(frozen=True, kw_only=True)
class Changes:
    """How a plan is changed before it is previewed.

    Analysts leave, then analysts join, then shares are set, then epsilon.  Whoever leaves or joins
    changes the shares of the others in proportion; who joins takes an equal share unless one is
    named.  Shares that are named are exact, and the others share the rest in proportion to what
    they had.  A changed plan is previewed as if nothing had been released.
    """

    without: Sequence[str] = ()
    joining: Mapping[str, Path] = field(default_factory=dict)
    """Who joins, by name, each with a file of statements."""
    shares: Mapping[str, Fraction] = field(default_factory=dict)
    epsilon: Fraction | None = None

    def apply(self, plan: Plan) -> Plan:
        """Return the changed plan, measured at once; the plan itself if nothing is changed."""
        if not (self.without or self.joining or self.shares or self.epsilon):
            return plan
        members = {analyst.name: analyst for analyst in plan.analysts}
        for name in self.without:
            if name not in members:
                raise no_analyst(name, members)
            del members[name]
        members = {each.name: each for each in _in_proportion([*members.values()], Fraction(1))}
        for name, file in self.joining.items():
            if name in members:
                raise ProgrammingError(f"there is an analyst {name!r} in the plan already")
            share = Fraction(1, len(members) + 1)
            others = _in_proportion([*members.values()], 1 - share)
            joined = Analyst(name=name, files=(file,), share=share)
            members = {each.name: each for each in (*others, joined)}
        analysts = _with_shares(members, self.shares)
        epsilon = self.epsilon or plan.epsilon
        return replace(plan, analysts=analysts, epsilon=epsilon, late=False)


def least_epsilons(previews: Previews, targets: Mapping[str, float]) -> dict[str, Fraction]:
    """Return, by mechanism, the least epsilon that meets the targets; nothing without targets."""
    if targets and (history := previews.history):
        raise ProgrammingError(
            f"a target names the least epsilon of a plan that is measured at once, but this one "
            f"adds {', '.join(history.late(previews.asked.plan))} to the release of "
            f"{history.time}; write late = false in the plan to see what measuring everything anew "
            "would take"
        )
    return {
        name: least_epsilon(previews.asked, each, targets)
        for name, each in previews.items()
        if targets and isinstance(each, Certificate)
    }


def least_epsilon(asked: BoundPlan, preview: Certificate, targets: Mapping[str, float]) -> Fraction:
    """Return the least epsilon with which the RMSE of every named column meets its target.

    A target names a query, and so all of its columns whose error is known in advance, or one column
    as ``query.column``; of whichever analysts have one of that name, or with ``analyst.`` in front.
    """
    known = [
        (analyst, query.name, column, error)
        for analyst, standing in preview.analysts.items()
        for query in standing.statements
        for column, error in query.columns
    ]
    needed = Fraction(0)
    for name, target in targets.items():
        found = [
            error
            for analyst, query, column, error in known
            for own in (query, f"{query}.{column}")
            if name in (own, f"{analyst}.{own}")
        ]
        if not found:
            listed = dict.fromkeys(f"{analyst}.{query}" for analyst, query, _, _ in known)
            raise ProgrammingError(
                f"no query or column named {name!r}. Queries in this plan: {', '.join(listed)}"
            )
        errors = [error for error in found if error is not None]
        if not errors:
            raise ProgrammingError(
                f"the error of {name!r} depends on the answers, so no epsilon can be named for it "
                "before the release; name a target for a count or a sum"
            )
        needed = max(needed, asked.plan.epsilon * Fraction(max(errors)) / Fraction(target))
    return rounded_up(needed)


def rounded_up(number: Fraction) -> Fraction:
    """Return the least decimal of some significant digits that is not below ``number``."""
    if number == 0:
        return number
    places = DIGITS - 1 - math.floor(math.log10(number))
    scale = Fraction(10) ** places
    return Fraction(math.ceil(number * scale)) / scale


def _in_proportion(analysts: Sequence[Analyst], whole: Fraction) -> list[Analyst]:
    """Return the analysts with shares in the same proportions that sum to ``whole``."""
    total = sum((each.share for each in analysts), Fraction(0))
    return [replace(each, share=each.share * whole / total) for each in analysts]


def _with_shares(
    members: Mapping[str, Analyst], shares: Mapping[str, Fraction]
) -> tuple[Analyst, ...]:
    if unknown := [name for name in shares if name not in members]:
        raise no_analyst(unknown[0], members)
    if not members:
        raise ProgrammingError("without these analysts nobody is left")
    left = 1 - sum(shares.values(), Fraction(0))
    others = [each for name, each in members.items() if name not in shares]
    if left < 0 or (left > 0) != bool(others):
        raise ProgrammingError(
            f"the shares given sum to {1 - left}; all shares together must sum to exactly 1, "
            f"and nobody's may be 0"
        )
    named = {name: replace(members[name], share=share) for name, share in shares.items()}
    rest = {each.name: each for each in _in_proportion(others, left)}
    return tuple((named | rest)[name] for name in members)


@dataclass(frozen=True, eq=False)
class DryRun:
    """What a release would cost and give."""

    asked: BoundPlan
    budget: Fraction
    spent: Fraction
    """What the ledger has spent so far."""
    completed: str | None
    """When this release was completed, if it was: releasing it again is free."""
    measured: Mapping[tuple[str, ...], int]
    """How many questions would be measured over which columns."""
    preview: Certificate
    epsilon: Fraction
    """What it would charge: the plan's, or what late analysts bring to a completed release."""
    added_to: str | None = None
    """When the release was completed that the plan adds analysts to, if it does."""

    @property
    def left(self) -> Fraction:
        """Return the budget that is left so far."""
        return self.budget - self.spent


def dry_run(plan: Plan, progress: Progress = lambda _: None) -> DryRun:
    """Return the cost and the certificate of a release; raise the errors that it would raise.

    Statements are bound, the schema is compared with the table's catalogue, the ledger and its
    binding to the table are checked, the strategy is selected and calibrated, and all answers are
    made from made-up measurements (`trial`).  Nothing is spent or written.
    """
    progress("binding statements")
    asked = without_failing(BoundPlan.bind_sound(plan))
    if problems := compare_with_catalogue(plan)[0]:
        raise InputError(problems)
    progress("looking at the ledger")
    spent, completed, history = _look(asked, source_identity(plan))
    ready = prepare(asked, lambda _: history, progress)
    asked = ready.asked
    blocks = ready.strategy.measured
    measured: dict[tuple[str, ...], int] = {}
    for block in sorted(blocks, key=lambda block: (len(block.scope), block.scope)):
        measured[block.scope] = measured.get(block.scope, 0) + block.count
    found = ready.trial.certificate
    time = history.time or None
    return DryRun(asked, plan.budget, spent, completed, measured, found, ready.epsilon, time)


def _look(asked: BoundPlan, identity: Identity) -> tuple[Fraction, str | None, History]:
    """Return the budget spent, when this release was recorded, and the release it adds to."""
    plan = asked.plan
    with Ledger.prepare(plan.ledger_path, budget=plan.budget, head=plan.head) as ledger:
        known = [charge.time for charge in ledger.charges if charge.release == asked.release_id]
        if known:
            return ledger.spent, known[0], History()
        history = find_history(asked, ledger)
        ledger.require(history.epsilon(plan))
        check_binding(identity, ledger)
        return ledger.spent, None, history
