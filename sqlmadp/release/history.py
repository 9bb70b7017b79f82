"""History: what earlier releases mean for a plan: analysts who join late, and known answers.

A plan to which analysts were added, all else unchanged, is not measured anew.  What was measured
stays; the newcomers bring an epsilon of their own, which is all that is charged; one more
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

from sqlmadp.answer.reconstruct import measured_rows
from sqlmadp.errors import InternalError, PlanError, Problem
from sqlmadp.files.plan import Plan
from sqlmadp.files.toml import dotted
from sqlmadp.mechanism import mechanism
from sqlmadp.mechanism.collective import Joint
from sqlmadp.mechanism.complement import Added, Complement
from sqlmadp.private import Ledger, Measurement
from sqlmadp.release.bound_plan import BoundPlan
from sqlmadp.table.domain import Domain
from sqlmadp.table.rows import Rows

ROUNDING = 1e-9
"""By how much more an error may seem to be once more is known."""


@dataclass(frozen=True, eq=False)
class Base:
    """A completed release that a plan adds analysts to."""

    asked: BoundPlan
    """What the analysts of that release asked."""
    measurements: tuple[Measurement, ...]
    """All that they read, oldest first."""
    time: str

    def newcomers(self, plan: Plan) -> list[str]:
        """Return who is in the plan and was not in the release."""
        known = {analyst.name for analyst in self.asked.plan.analysts}
        return [analyst.name for analyst in plan.analysts if analyst.name not in known]

    def epsilon(self, plan: Plan) -> Fraction:
        """Return the epsilon that the newcomers bring, which is their charge."""
        brought, new = bringing(plan), self.newcomers(plan)
        return sum((brought[name] for name in new), Fraction(0))


def bringing(plan: Plan) -> dict[str, Fraction]:
    """Return the epsilon that each analyst of a plan brings."""
    return {analyst.name: analyst.share * plan.epsilon for analyst in plan.analysts}


def find_base(asked: BoundPlan, ledger: Ledger) -> Base | None:
    """Return the largest completed release that the plan adds analysts to, or None."""
    plan = asked.plan
    brought = bringing(plan)
    found: list[Base] = []
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
            found.append(Base(before, everything(stored, ledger), charge.time))
    if not found and changed:
        raise PlanError([_changed(plan, *changed[-1])])
    return max(found, key=lambda base: base.asked.plan.epsilon, default=None)


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
    """What the newcomers brought."""
    rows: tuple[Rows, ...]
    """With noise of variance 1."""


def stages_of(measurements: Sequence[Measurement], domain: Domain) -> list[Stage]:
    """Return the stages that were measured, oldest first."""
    return [
        Stage(tuple(each.metadata["members"]), each.epsilon, known_rows([each], domain))
        for each in measurements
    ]


def known_rows(measurements: Sequence[Measurement], domain: Domain) -> tuple[Rows, ...]:
    """Return the rows of all measurements, scaled to noise of variance 1."""
    rows = []
    for measurement in measurements:
        weight = 1 / (math.sqrt(2) * measurement.scale)
        rows += [block.times(weight) for block in measured_rows(measurement, domain)]
    return tuple(rows)


def complement(asked: BoundPlan, base: Base) -> Joint:
    """Return the newcomers' strategy, with the numbers of all blocks that each analyst reads.

    Blocks are numbered through all measurements.  Under a mechanism that keeps everybody to their
    own rows, newcomers add their own strategies.
    """
    plan = asked.plan
    new, brought = base.newcomers(plan), bringing(plan)
    known = known_rows(base.measurements, asked.domain)
    names = [analyst.name for analyst in plan.analysts]
    chosen = mechanism(plan.mechanism)
    if chosen.separate:
        members = [n for n, name in enumerate(names) if name in new]
        added = chosen.select(asked.collective.of(members))
        reads = _own_reads(base) | {
            name: tuple(len(known) + number for number in own)
            for name, own in zip(new, added.reads, strict=True)
        }
        errors = np.full(len(names), np.nan)
        return Joint(added.blocks, added.total, tuple(reads[n] for n in names), errors)
    choice = Complement(known=known)
    neighbours = asked.domain.records_between_neighbours
    epsilons = [brought[name] / neighbours if name in new else None for name in names]
    found = choice.select(asked.collective, epsilons)
    _check(asked, base, choice, found)
    everyone = tuple(range(len(known) + len(found.strategy.blocks)))
    return replace(found.strategy, reads=(everyone,) * len(names))


def _check(asked: BoundPlan, base: Base, choice: Complement, chosen: Added) -> None:
    """Raise before anything is spent if somebody's error would rise after all."""
    new = base.newcomers(asked.plan)
    there = [n for n, analyst in enumerate(asked.plan.analysts) if analyst.name not in new]
    epsilon = base.epsilon(asked.plan) / asked.domain.records_between_neighbours
    before = choice.errors(None, [asked.collective.workloads[n] for n in there], epsilon)
    if (chosen.errors[there] > (1 + ROUNDING) * before).any():
        raise InternalError("an error would rise by what newcomers add; nothing was spent")


def _own_reads(base: Base) -> dict[str, tuple[int, ...]]:
    """Return the blocks that each analyst of a release read."""
    reads: list[list[int]] = base.measurements[-1].metadata["reads"]
    analysts = base.asked.plan.analysts
    return {a.name: tuple(reads[p]) for a, p in zip(analysts, base.asked.places, strict=True)}


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
        f"says {brought[name]}; what was measured stays, and only newcomers can be charged",
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
