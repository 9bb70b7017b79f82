"""History: what earlier releases mean for a plan: analysts who join late, and known answers.

A plan to which analysts were added, all else unchanged, is not measured anew.  What was measured
stays; the late analysts bring an epsilon of their own, which is all that is charged; one more
measurement complements the earlier ones, and everybody's answers are reconstructed from all of
them.  Nobody's expected error rises: see `mechanism.complement`.

What was released before must be what the plan still says: the same statements, the same schema,
and the same epsilon of each analyst, as exact fractions (``share * epsilon``).  If only epsilons
differ, nothing is guessed: the plan is refused with what to write.  ``late = false`` in the plan
measures everything anew.

A new release costs budget, and what an earlier one measured may answer some of its statements for
nothing: whoever is about to spend is told which, and how well (`stored_before`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from sqlmadp.answer.processing import Processing
from sqlmadp.answer.reconstruct import measured_rows
from sqlmadp.errors import InternalError, NotCoveredError, PlanError, Problem
from sqlmadp.files.plan import Plan
from sqlmadp.files.toml import dotted
from sqlmadp.mechanism import mechanism
from sqlmadp.mechanism.collective import Joint
from sqlmadp.mechanism.complement import Complement
from sqlmadp.mechanism.fairness import noise_variance
from sqlmadp.private import Ledger, Measurement
from sqlmadp.release.bound_plan import BoundPlan
from sqlmadp.table.domain import Domain
from sqlmadp.table.rows import Rows

ROUNDING = 1e-9
"""By how much more an error may seem to be once more is known."""


@dataclass(frozen=True, eq=False)
class History:
    """What a plan adds its late analysts to: a completed release, or nothing, and all are new."""

    asked: BoundPlan | None = None
    """What the analysts of that release asked."""
    measurements: tuple[Measurement, ...] = ()
    """All that they read, oldest first."""
    time: str = ""

    def __bool__(self) -> bool:
        return self.asked is not None

    def late(self, plan: Plan) -> list[str]:
        """Return who is in the plan and was not in the release."""
        known = {analyst.name for analyst in self.asked.plan.analysts} if self.asked else ()
        return [analyst.name for analyst in plan.analysts if analyst.name not in known]

    def epsilon(self, plan: Plan) -> Fraction:
        """Return the epsilon that late analysts bring, which is what is charged."""
        brought = bringing(plan)
        return sum((brought[name] for name in self.late(plan)), Fraction(0))

    def select(self, asked: BoundPlan, name: str | None = None) -> Joint:
        """Return the strategy to be measured next, under the plan's mechanism or the one named.

        It is checked to answer every query of every analyst.  The blocks that an analyst reads are
        numbered through all measurements.
        """
        if self:
            strategy = complement(asked, self, name or asked.plan.mechanism)
        else:
            strategy = asked.outcome(name).strategy
            if not np.isfinite(strategy.errors).all():
                raise NotCoveredError("the selected strategy does not answer every statement")
        blocks = (*known_rows(self.measurements, asked.domain), *strategy.blocks)
        for reads in set(strategy.reads):
            processing(asked.plan).check([blocks[number] for number in reads])
        return strategy

    def expected(
        self, asked: BoundPlan, name: str | None = None
    ) -> tuple[list[Stage], Sequence[tuple[int, ...]]]:
        """Return the stages with the next one, and the numbers of the rows that analysts read."""
        strategy = self.select(asked, name)
        following = Stage.following(asked, strategy, self.epsilon(asked.plan))
        return [*stages_of(self.measurements, asked), following], strategy.reads


def processing(plan: Plan) -> Processing:
    """Return the post-processing that a plan asks for; it is no part of the release."""
    return Processing(nonnegative=plan.nonnegative, consistent=plan.consistent)


def bringing(plan: Plan) -> dict[str, Fraction]:
    """Return the epsilon that each analyst of a plan brings."""
    return {analyst.name: analyst.share * plan.epsilon for analyst in plan.analysts}


def find_history(asked: BoundPlan, ledger: Ledger) -> History:
    """Return the largest completed release that the plan adds analysts to; empty if none."""
    plan = asked.plan
    brought = bringing(plan)
    found: list[History] = []
    changed: list[tuple[str, Mapping[str, Fraction]]] = []
    for charge in ledger.charges if plan.late else ():
        stored = ledger.find(charge.release)
        members = _members(stored)
        if stored is None or not members or not members.keys() < brought.keys():
            continue
        before = _asked_before(plan, members, charge.mechanism)
        if before.release_id != charge.release:
            continue
        if any(brought[name] != epsilon for name, epsilon in members.items()):
            changed.append((charge.time, members))
        else:
            found.append(History(before, everything(stored, ledger), charge.time))
    if not found and changed:
        raise PlanError([_changed(plan, *changed[-1])])
    return max(found, key=lambda each: sum(m.epsilon for m in each.measurements), default=History())


def history_of(asked: BoundPlan) -> History:
    """Return the release that a plan adds, or has added, analysts to; empty if none."""
    plan = asked.plan
    if not plan.ledger_path.exists():
        return History()
    with Ledger.read(plan.ledger_path, budget=plan.budget, head=plan.head) as ledger:
        stored = ledger.find(asked.release_id)
        if stored is not None and not stored.metadata.get("earlier"):
            return History()  # Everybody was measured at once.
        return find_history(asked, ledger)


def everything(measurement: Measurement, ledger: Ledger) -> tuple[Measurement, ...]:
    """Return a measurement with all that it was added to, oldest first."""
    earlier = []
    for release in measurement.metadata.get("earlier", ()):
        if (stored := ledger.find(release)) is None:
            raise InternalError(f"release {release!r}, which a later one builds on, is not there")
        earlier.append(stored)
    return (*earlier, measurement)


@dataclass(frozen=True, eq=False)
class Stage:
    """One measurement of several: who was in by then, and what it added."""

    members: tuple[str, ...]
    epsilon: Fraction
    """What the late analysts brought."""
    rows: tuple[Rows, ...]
    """With noise of variance 1."""

    @classmethod
    def following(cls, asked: BoundPlan, strategy: Joint, charge: Fraction) -> Stage:
        """Return the stage of a strategy that is measured next, for the epsilon charged."""
        noise = noise_variance(charge / asked.domain.records_between_neighbours)
        scale = 1 / (strategy.total * math.sqrt(noise))
        rows = tuple(block.times(scale) for block in strategy.blocks)
        return cls(tuple(analyst.name for analyst in asked.plan.analysts), charge, rows)


def stages_of(measurements: Sequence[Measurement], asked: BoundPlan) -> list[Stage]:
    """Return the stages that were measured, oldest first."""
    return [
        Stage(tuple(each.metadata["members"]), each.epsilon, known_rows([each], asked.domain))
        for each in measurements
    ]


def known_rows(measurements: Sequence[Measurement], domain: Domain) -> tuple[Rows, ...]:
    """Return the rows of all measurements, scaled to noise of variance 1."""
    rows = []
    for measurement in measurements:
        weight = 1 / (math.sqrt(2) * measurement.scale)
        rows += [block.times(weight) for block in measured_rows(measurement, domain)]
    return tuple(rows)


def complement(asked: BoundPlan, history: History, name: str) -> Joint:
    """Return the strategy of late analysts under a mechanism, and what everybody reads.

    Under a mechanism that keeps everybody to their own rows, they add their own strategies.
    """
    plan = asked.plan
    late, brought = history.late(plan), bringing(plan)
    known = known_rows(history.measurements, asked.domain)
    names = [analyst.name for analyst in plan.analysts]
    chosen = mechanism(name)
    if chosen.separate:
        members = [n for n, name in enumerate(names) if name in late]
        added = chosen.select(asked.collective.of(members))
        reads = _own_reads(history) | {
            name: tuple(len(known) + number for number in own)
            for name, own in zip(late, added.reads, strict=True)
        }
        errors = np.full(len(names), np.nan)
        return Joint(added.blocks, added.total, tuple(reads[n] for n in names), errors)
    choice = Complement(known=known)
    neighbours = asked.domain.records_between_neighbours
    epsilons = [brought[name] / neighbours if name in late else None for name in names]
    found = choice.select(asked.collective, epsilons)
    there = [n for n, name in enumerate(names) if name not in late]
    before = choice.errors(None, [asked.collective.workloads[n] for n in there], Fraction(1))
    if (found.errors[there] > (1 + ROUNDING) * before).any():
        raise InternalError("an error would rise by what late analysts add; nothing was spent")
    everyone = tuple(range(len(known) + len(found.strategy.blocks)))
    return replace(found.strategy, reads=(everyone,) * len(names))


def _own_reads(history: History) -> dict[str, tuple[int, ...]]:
    """Return the blocks that each analyst of a release read."""
    asked = history.asked
    if asked is None:
        return {}
    reads: list[list[int]] = history.measurements[-1].metadata["reads"]
    pairs = zip(asked.plan.analysts, asked.places, strict=True)
    return {analyst.name: tuple(reads[place]) for analyst, place in pairs}


def _members(stored: Measurement | None) -> dict[str, Fraction]:
    """Return the epsilon that each analyst brought to a release; nothing if it does not say."""
    kept = {} if stored is None else stored.metadata.get("members", {})
    return {name: Fraction(epsilon) for name, epsilon in kept.items()}


def _asked_before(plan: Plan, members: Mapping[str, Fraction], mechanism: str) -> BoundPlan:
    """Return the members' part of this plan, with the epsilon that they brought before."""
    total = sum(members.values(), Fraction(0))
    analysts = tuple(
        replace(analyst, share=members[analyst.name] / total)
        for analyst in plan.analysts
        if analyst.name in members
    )
    return BoundPlan.bind(replace(plan, analysts=analysts, epsilon=total, mechanism=mechanism))


def _changed(plan: Plan, time: str, members: Mapping[str, Fraction]) -> Problem:
    """Say what to write so that those who were released before bring what they brought."""
    brought = bringing(plan)
    name = next(name for name, epsilon in members.items() if brought[name] != epsilon)
    lines = [f'epsilon = "{epsilon}" under {_table(n)}' for n, epsilon in members.items()]
    new = [n for n in brought if n not in members]
    return Problem(
        file=str(plan.path),
        code="epsilon-changed",
        message=f"{name!r} brought epsilon {members[name]} to the release of {time}, but this plan "
        f"says {brought[name]}; what was measured stays, and only late analysts can be charged",
        hint=f"To add {', '.join(new)} to that release, write {', '.join(lines)}, and under "
        f"{', '.join(map(_table, new))} the epsilon to be charged; no share, and no "
        f"epsilon at the top. To measure everything anew for epsilon {plan.epsilon}, write "
        "late = false at the top.",
    )


def _table(analyst: str) -> str:
    """Return the header of an analyst's table, as TOML writes it."""
    return f"[{dotted(('analysts', analyst))}]"


def stored_before(
    asked: BoundPlan, ledger: Ledger
) -> Iterator[tuple[str, BoundPlan, tuple[Measurement, ...]]]:
    """Yield every stored release of the same schema: its time, the plan over its cuts, its values.

    Only the domain of that plan is the release's own: its statements are those of ``asked``.
    """
    for charge in ledger.charges:
        stored = ledger.find(charge.release)
        if stored is None or stored.metadata.get("schema") != asked.schema_id:
            continue
        measurements = everything(stored, ledger)
        cuts: dict[str, set[float]] = {}
        for measurement in measurements:
            for name, values in measurement.metadata["cuts"].items():
                cuts.setdefault(name, set()).update(values)
        columns = tuple(replace(column, cuts=()) for column in asked.domain.columns)
        domain = replace(asked.domain, columns=columns).with_cuts(cuts)
        yield charge.time, replace(asked, domain=domain), measurements
