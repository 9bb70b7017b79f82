"""Rehearsal: everything that a release does before it reads a record, and nothing after that.

The statements are bound, the table's catalogue is compared with the schema, the ledger is looked
at and the note of which ledger the table is charged to, the strategy is selected, checked and
calibrated as it would be for the release, and all answers are made from made-up measurements
(`trial`).  Whatever refuses the release there refuses the
rehearsal.  Nothing is spent, no record is read, and no ledger is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from sqlmadp.errors import InputError
from sqlmadp.files.plan import Plan
from sqlmadp.private import Ledger
from sqlmadp.private.engines import Identity
from sqlmadp.private.ledger_binding import check_binding
from sqlmadp.private.ledger_file import check_place
from sqlmadp.release.bound_plan import Asked
from sqlmadp.release.certificate import Certificate
from sqlmadp.release.check import compare_with_catalogue, source_identity
from sqlmadp.release.history import Base, find_base
from sqlmadp.release.preview import preview
from sqlmadp.release.release import Progress
from sqlmadp.release.trial import prepare, without_failing


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """What a release would cost and give."""

    asked: Asked
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
        """Return what the ledger has left so far."""
        return self.budget - self.spent


def rehearse(plan: Plan, progress: Progress = lambda _: None) -> Rehearsal:
    """Try everything but the release itself; raise what the release would raise."""
    progress("binding statements")
    asked = without_failing(Asked.bind_sound(plan))
    if problems := compare_with_catalogue(plan)[0]:
        raise InputError(problems)
    progress("looking at the ledger")
    spent, completed, base = _look(asked, source_identity(plan))
    ready = prepare(asked, lambda _: base, progress)
    asked = ready.asked
    found = preview(asked, base, asked.plan.mechanism)
    blocks = ready.strategy.measured
    measured: dict[tuple[str, ...], int] = {}
    for block in blocks:
        measured[block.scope] = measured.get(block.scope, 0) + block.count
    time = None if base is None else base.time
    return Rehearsal(asked, plan.budget, spent, completed, measured, found, ready.epsilon, time)


def _look(asked: Asked, identity: Identity) -> tuple[Fraction, str | None, Base | None]:
    """Return what the ledger has spent, when it recorded this release, and what it adds to."""
    plan = asked.plan
    if not plan.ledger_path.exists() and plan.head is None:
        check_place(plan.ledger_path)
        check_binding(identity, plan.ledger_path, tuple)
        return Fraction(0), None, None
    with Ledger.read(plan.ledger_path, budget=plan.budget, head=plan.head) as ledger:
        known = [charge.time for charge in ledger.charges if charge.release == asked.release_id]
        if known:
            return ledger.spent, known[0], None
        base = find_base(asked, ledger)
        ledger.require(plan.epsilon if base is None else base.epsilon(plan))
        check_binding(identity, ledger.path, lambda: ledger.heads)
        return ledger.spent, None, base
