"""Preview: what ``release`` would give the analysts of a plan, before anything is spent.

    preview    expected errors of the plan, or of the plan with changes
    dry run    everything that a release does before it reads a record, and nothing after that

A plan that is not released yet is measured at once.  A plan to which analysts were added after a
release keeps what was measured, whatever its mechanism; the newcomers' part is all that is chosen
and charged (`history`), so that is what is shown.  Reads the ledger, and no data.

Strategies do not depend on epsilon, and every RMSE is proportional to 1 / epsilon.  So the least
epsilon that meets a target is known from one preview: ``epsilon max(rmse / target)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

from sqlmadp.answer.result import TextTable, number
from sqlmadp.errors import InputError, NotSupportedError, ProgrammingError
from sqlmadp.files.analysts import Analyst, no_analyst
from sqlmadp.files.plan import Plan
from sqlmadp.mechanism import MECHANISMS
from sqlmadp.mechanism.fairness import Cap, explained_caps
from sqlmadp.private import Ledger
from sqlmadp.private.engines import Identity
from sqlmadp.private.ledger_binding import check_binding
from sqlmadp.release.bound_plan import BoundPlan
from sqlmadp.release.certificate import Certificate, certify, certify_late, unit_noise
from sqlmadp.release.check import compare_with_catalogue, source_identity
from sqlmadp.release.history import Base, Stage, find_base, stages_of
from sqlmadp.release.release import Progress, added
from sqlmadp.release.trial import prepare, without_failing

DIGITS = 6
"""Significant digits of a least epsilon, rounded up."""


class Previews(dict[str, Certificate | NotSupportedError]):
    """Certificates by mechanism; one that cannot serve this domain says why instead."""

    def __init__(self, asked: BoundPlan, base: Base | None = None) -> None:
        super().__init__()
        self.asked = asked
        self.base = base
        """The completed release that the plan adds analysts to, if it does."""

    def caps(self) -> dict[str, dict[str, Cap]]:
        """Return the caps on each analyst's error, by mechanism that searches within such caps."""
        names = [analyst.name for analyst in self.asked.plan.analysts]
        found = {}
        for mechanism, each in self.items():
            if isinstance(each, Certificate) and self.base is None:
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
        previews = Previews(asked, base_of(asked))
        for name in mechanisms:
            report(f"mechanism {name}")
            try:
                previews[name] = preview(asked, previews.base, name, report)
            except NotSupportedError as error:
                previews[name] = error
    return previews


def preview(
    asked: BoundPlan,
    base: Base | None,
    name: str,
    progress: Callable[[str], None] = lambda _: None,
) -> Certificate:
    """Return the certificate of a release with one mechanism; with ``base``, of adding to it."""
    asked.collective.progress = lambda done, total: progress(
        f"mechanism {name}: {done} of {2 * total} steps"
    )
    if base is None:
        return certify(asked, name, progress=_leaving_out(name, progress))
    asked = replace(asked, plan=replace(asked.plan, mechanism=name))
    strategy = added(asked, base)
    names = tuple(analyst.name for analyst in asked.plan.analysts)
    charge = base.epsilon(asked.plan)
    rows = unit_noise(strategy, charge / asked.domain.records_between_neighbours)
    stages = [*stages_of(base.measurements, asked.domain), Stage(names, charge, tuple(rows))]
    return certify_late(asked, stages, strategy.reads)


def _leaving_out(name: str, progress: Callable[[str], None]) -> Callable[[int, int], None]:
    """Return a callback that reports how many analysts were left out, after all were selected."""
    return lambda done, total: progress(f"mechanism {name}: {total + done} of {2 * total} steps")


def base_of(asked: BoundPlan) -> Base | None:
    """Return the completed release that a plan adds, or has added, analysts to."""
    plan = asked.plan
    if not plan.ledger_path.exists():
        return None
    with Ledger.read(plan.ledger_path, budget=plan.budget, head=plan.head) as ledger:
        stored = ledger.find(asked.release_id)
        if stored is not None and not stored.metadata.get("earlier"):
            return None  # Everybody was measured at once.
        return find_base(asked, ledger)


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What if: how a plan is to be changed.

    Analysts leave, then analysts join, then shares are set, then epsilon.  Whoever leaves or joins
    changes the shares of the others in proportion; a newcomer takes an equal share unless one is
    named.  Shares that are named are exact, and the others share the rest in proportion to what
    they had.  A changed plan is previewed as if nothing had been released.
    """

    without: Sequence[str] = ()
    joining: Mapping[str, Path] = field(default_factory=dict)
    """Newcomers by name, each with a file of statements."""
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
            newcomer = Analyst(name=name, files=(file,), share=share)
            members = {each.name: each for each in (*others, newcomer)}
        analysts = _with_shares(members, self.shares)
        epsilon = self.epsilon or plan.epsilon
        return replace(plan, analysts=analysts, epsilon=epsilon, late=False)


def least_epsilons(previews: Previews, targets: Mapping[str, float]) -> dict[str, Fraction]:
    """Return, by mechanism, the least epsilon that meets the targets; nothing without targets."""
    if targets and (base := previews.base) is not None:
        raise ProgrammingError(
            f"a target names the least epsilon of a plan that is measured at once, but this one "
            f"adds {', '.join(base.newcomers(previews.asked.plan))} to the release of {base.time}; "
            "write late = false in the plan to see what measuring everything anew would take"
        )
    return {
        name: least_epsilon(previews.asked, each, targets)
        for name, each in previews.items()
        if targets and isinstance(each, Certificate)
    }


def least_epsilon(asked: BoundPlan, preview: Certificate, targets: Mapping[str, float]) -> Fraction:
    """Return the least epsilon with which the RMSE of every named query meets its target.

    A target names a query, of whichever analysts have one of that name, or ``analyst.query``.
    """
    needed = Fraction(0)
    for name, target in targets.items():
        found = [
            query.rmse
            for analyst, standing in preview.analysts.items()
            for query in standing.statements
            if name in (query.name, f"{analyst}.{query.name}")
        ]
        if not found:
            listed = [
                f"{analyst}.{query.name}"
                for analyst, standing in preview.analysts.items()
                for query in standing.statements
            ]
            raise ProgrammingError(
                f"no query named {name!r}. Queries in this plan: {', '.join(listed)}"
            )
        needed = max(needed, asked.plan.epsilon * Fraction(max(found)) / Fraction(target))
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
    """What it would charge: the plan's, or what newcomers bring to a completed release."""
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
    spent, completed, base = _look(asked, source_identity(plan))
    ready = prepare(asked, lambda _: base, progress)
    asked = ready.asked
    found = preview(asked, base, asked.plan.mechanism)
    blocks = ready.strategy.measured
    measured: dict[tuple[str, ...], int] = {}
    for block in sorted(blocks, key=lambda block: (len(block.scope), block.scope)):
        measured[block.scope] = measured.get(block.scope, 0) + block.count
    time = None if base is None else base.time
    return DryRun(asked, plan.budget, spent, completed, measured, found, ready.epsilon, time)


def _look(asked: BoundPlan, identity: Identity) -> tuple[Fraction, str | None, Base | None]:
    """Return the budget spent, when this release was recorded, and the release it adds to."""
    plan = asked.plan
    with Ledger.prepare(plan.ledger_path, budget=plan.budget, head=plan.head) as ledger:
        known = [charge.time for charge in ledger.charges if charge.release == asked.release_id]
        if known:
            return ledger.spent, known[0], None
        base = find_base(asked, ledger)
        ledger.require(plan.epsilon if base is None else base.epsilon(plan))
        check_binding(identity, ledger)
        return ledger.spent, None, base
