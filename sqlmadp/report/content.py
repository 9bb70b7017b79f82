"""Content: everything that a report shows, as plain values its reader may see.

The page is made of this and of nothing else.  A report for one analyst has that analyst's own
statements, rows and errors, and the number of the other analysts.  Nothing here reads a record: a
preview comes from planning, and rows come from the stored measurement.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sqlmadp.answer.result import Result
from sqlmadp.asked import Asked
from sqlmadp.certificate import TINY, Certificate, Join, Skipped
from sqlmadp.certificate import Standing as Given
from sqlmadp.errors import NotSupportedError, ProgrammingError
from sqlmadp.late import Base
from sqlmadp.plan import Plan
from sqlmadp.preview import base_of, preview
from sqlmadp.private import Ledger
from sqlmadp.release import Progress, Results, added, asked_and_released, select
from sqlmadp.report.measured import Measured, measured
from sqlmadp.table.rows import Rows

BARELY = 1e-3
"""Call nobody better off by less than this part of the error."""

Interference = Mapping[str, Mapping[str, float]]
"""[joining][other]: the ratio by which an analyst changes another's error."""


@dataclass(frozen=True)
class Standing:
    """What one mechanism gives one analyst, in squared errors."""

    alone: float
    together: float
    ratio: float
    """``together / alone``; above 1 the sharing incentive is violated."""
    interference: float
    """The largest that anybody else causes; above 1 is a violation."""
    within_agreement: float
    """The same where those who are left keep to what everyone agreed on."""


@dataclass(frozen=True)
class Statement:
    """One statement of an analyst, with its rows once they are released."""

    name: str
    sql: str
    rows: int
    rmse: float
    """The expected error of a typical count or sum under the plan's mechanism."""
    factor: float
    """Its variance relative to asking one by one."""
    result: Result | None = None
    failure: str = ""
    """Why there are no rows though there is a release."""


@dataclass(frozen=True)
class Member:
    """An analyst whom the reader may see."""

    name: str
    share: Fraction
    standings: Mapping[str, Standing]
    """By mechanism."""
    statements: tuple[Statement, ...]


@dataclass(frozen=True)
class Charge:
    """One charge of the ledger."""

    time: str
    epsilon: Fraction
    analysts: tuple[str, ...]
    """Empty where the reader may not know."""
    this: bool
    """Whether it paid for the release that the report is about."""


@dataclass(frozen=True)
class Content:
    """Everything that a report shows."""

    plan: str
    """The name of the plan's file."""
    schema: str
    """The name of the schema's file."""
    schema_id: str
    """The hash of the table and its declared columns."""
    release_id: str
    """The hash of everything that is asked."""
    table: str
    reader: str | None
    """The analyst whom the report is for; None for the curator."""
    mechanism: str
    epsilon: Fraction
    charge: Fraction
    """What the release would be charged: epsilon, or the newcomers' part if analysts join."""
    budget: Fraction
    charges: tuple[Charge, ...]
    head: str | None
    """The last hash of the ledger's chain, once there is one."""
    made: bool
    """Whether there are rows."""
    protection: str
    """What one of two neighbouring tables has and the other has not."""
    left_out: tuple[str, ...]
    """Which records are not counted, in words."""
    undeclared: tuple[str, ...]
    """Columns in which an undeclared value is read as NULL."""
    units: bool
    """Whether a person with several records is protected, as the schema's unit."""
    cells: int
    analysts: int
    members: tuple[Member, ...]
    interference: Interference
    """For the curator; empty for an analyst."""
    within_agreement: Interference
    """The same where those who are left keep to what everyone agreed on."""
    joins: tuple[Join, ...]
    """For the curator, where analysts join one after the other."""
    relative: bool
    """Whether errors are relative to asking every statement one by one; squares otherwise."""
    totals: Mapping[str, float]
    """By mechanism: everybody's error together."""
    unsupported: Mapping[str, str]
    """Mechanisms that cannot serve this plan, and why."""
    verdict: str
    """The outcome in one sentence."""
    one_by_one: tuple[str, ...]
    """Every answer compared with asking one by one, in words."""
    promised: str
    """What holds whatever is asked, in words."""
    measured: tuple[Measured, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    """What was refused and left out, as far as the reader may know."""

    @property
    def spent(self) -> Fraction:
        """What the ledger has spent in all."""
        return sum((charge.epsilon for charge in self.charges), Fraction(0))

    @property
    def left(self) -> Fraction:
        """What the ledger has left."""
        return self.budget - self.spent

    @property
    def released(self) -> Charge | None:
        """The charge of this release, once it is made."""
        return next((charge for charge in self.charges if charge.this), None)

    @property
    def statements(self) -> list[tuple[Member, Statement]]:
        """Every statement with its analyst."""
        return [(member, each) for member in self.members for each in member.statements]


def gather(
    plan: Plan,
    analyst: str | None = None,
    progress: Progress = lambda _: None,
    mechanisms: Sequence[str] = (),
) -> Content:
    """Return what a report shows to its reader: the curator, or one analyst.

    The plan's mechanism is compared with the ones named.
    """
    progress("binding statements")
    asked, done = asked_and_released(plan)
    if analyst is not None and asked.analyst(analyst) is None:
        names = ", ".join(each.name for each in asked.plan.analysts)
        raise ProgrammingError(f"no analyst {analyst!r} in this plan; there are {names}")
    base = None if done is not None else base_of(asked)
    certificates: dict[str, Certificate] = {}
    unsupported: dict[str, str] = {}
    for name in dict.fromkeys([plan.mechanism, *mechanisms]):
        progress(f"mechanism {name}")
        if done is not None and name == plan.mechanism:
            certificates[name] = done.certificate
            continue
        try:
            certificates[name] = preview(asked, base, name, progress)
        except NotSupportedError as error:
            if name == plan.mechanism:
                raise
            unsupported[name] = str(error)
    progress("answering")
    known = done.measurements if done is not None else base.measurements if base else ()
    blocks = [(each.epsilon, each.blocks) for each in known]
    if done is None:
        blocks.append(_planned(asked, base))
    return assemble(
        asked,
        certificates,
        reader=analyst,
        results=None if done is None else done.results(),
        base=base,
        unsupported=unsupported,
        blocks=blocks,
    )


def assemble(
    asked: Asked,
    certificates: Mapping[str, Certificate],
    *,
    reader: str | None = None,
    results: Results | None = None,
    base: Base | None = None,
    unsupported: Mapping[str, str] | None = None,
    blocks: Sequence[tuple[Fraction, Sequence[Rows]]] = (),
) -> Content:
    """Return what a report shows, from certificates, expected errors and, once made, results.

    ``certificates`` has the plan's mechanism, and others to compare it with.  ``blocks``: what is
    measured, with the epsilon of each measurement.
    """
    plan, domain = asked.plan, asked.domain
    charges, head = _ledger(asked, reader)
    certificate = certificates[plan.mechanism]
    standings = certificate.analysts
    seen = list(standings) if reader is None else []
    return Content(
        plan=plan.path.name,
        schema=plan.schema_path.name,
        schema_id=asked.schema_id,
        release_id=asked.release_id,
        table=domain.table,
        reader=reader,
        mechanism=plan.mechanism,
        epsilon=plan.epsilon,
        charge=plan.epsilon if base is None else base.epsilon(plan),
        budget=plan.budget,
        charges=charges,
        head=head,
        made=results is not None,
        protection=domain.protection,
        left_out=domain.left_out,
        undeclared=tuple(column.name for column in domain.columns if not column.complete),
        units=domain.unit is not None,
        cells=domain.cells,
        analysts=len(plan.analysts),
        members=tuple(_members(asked, certificates, results, reader)),
        interference=_matrix(seen, {n: s.interference for n, s in standings.items()}),
        within_agreement=_matrix(seen, {n: s.within_agreement for n, s in standings.items()}),
        joins=certificate.joins if reader is None else (),
        relative=certificate.relative,
        totals={name: each.total for name, each in certificates.items()},
        unsupported=unsupported or {},
        verdict=certificate.verdict if reader is None else _own_verdict(reader, standings),
        one_by_one=tuple((certificate.only(reader) if reader else certificate).one_by_one),
        promised=certificate.promise,
        measured=measured(asked, blocks, reader),
        skipped=tuple(e for e in certificate.skipped if reader in (None, e.analyst)),
    )


def _planned(asked: Asked, base: Base | None) -> tuple[Fraction, tuple[Rows, ...]]:
    """Return what would be measured next, and the epsilon that it would be charged."""
    if base is None:
        return asked.plan.epsilon, select(asked).blocks
    return base.epsilon(asked.plan), added(asked, base).blocks


def _members(
    asked: Asked,
    certificates: Mapping[str, Certificate],
    results: Results | None,
    reader: str | None,
) -> list[Member]:
    members = []
    for number, analyst in enumerate(asked.plan.analysts):
        if reader not in (None, analyst.name):
            continue
        standings = {name: _standing(each, analyst.name) for name, each in certificates.items()}
        statements = []
        accuracy = certificates[asked.plan.mechanism].analysts[analyst.name].statements
        for place, query in enumerate(asked.queries[number]):
            expected = accuracy[place]
            result, failure = None, ""
            if results is not None:
                result = results[analyst.name].get(query.name)
                failure = str(results.failed.get((analyst.name, query.name), ""))
            statements.append(
                Statement(
                    query.name,
                    query.statement.text,
                    query.rows,
                    expected.rmse,
                    expected.factor,
                    result,
                    failure,
                )
            )
        members.append(Member(analyst.name, analyst.share, standings, tuple(statements)))
    return members


def _standing(certificate: Certificate, analyst: str) -> Standing:
    found = certificate.analysts[analyst]
    rerun = max(found.interference.values(), default=1.0)
    kept = max(found.within_agreement.values(), default=1.0)
    return Standing(found.alone, found.now, found.ratio, rerun, kept)


def _own_verdict(reader: str, standings: Mapping[str, Given]) -> str:
    """Say in one sentence what an analyst gains, in errors as they are stated."""
    ratio = standings[reader].ratio
    alone = "alone with the same share"
    if ratio > 1 + TINY:
        return f"taking part makes the answers to {reader} less accurate than {alone}"
    if not 0 < ratio < 1 - BARELY:
        return f"taking part leaves the answers to {reader} as accurate as {alone}"
    times = math.sqrt(1 / ratio)
    return f"taking part makes the answers to {reader} {times:.2g} times as accurate as {alone}"


def _matrix(names: Sequence[str], caused: Mapping[str, Mapping[str, float]]) -> Interference:
    """Return what is known by whom it is caused the other way round: what each one causes."""
    return {
        joining: {other: caused[other][joining] for other in names if joining in caused[other]}
        for joining in names
    }


def _ledger(asked: Asked, reader: str | None) -> tuple[tuple[Charge, ...], str | None]:
    """Return the charges of the plan's ledger, and its head; nothing if there is none yet."""
    plan = asked.plan
    if not plan.ledger_path.exists() and plan.head is None:
        return (), None
    with Ledger.read(plan.ledger_path, budget=plan.budget, head=plan.head) as ledger:
        charges = tuple(
            Charge(
                time=each.time,
                epsilon=each.epsilon,
                analysts=each.analysts if reader is None else (),
                this=each.release == asked.release_id,
            )
            for each in ledger.charges
        )
        return charges, ledger.head
