"""Content: what a report shows, as plain values, and nothing that its reader may not see.

The page is made of this and of nothing else.  A report for one analyst has that analyst's own
statements, rows and errors; of the others it knows that there are some.  Nothing here reads
a record: a preview comes from planning, and rows come from the stored measurement.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from scipy import sparse

from sqlmadp.answer.result import Result
from sqlmadp.asked import Asked
from sqlmadp.certificate import Certificate, Skipped
from sqlmadp.errors import NotSupportedError, ProgrammingError
from sqlmadp.late import Base, find_base
from sqlmadp.outlook import late_preview
from sqlmadp.plan import MECHANISMS, Plan
from sqlmadp.preview import Preview, QueryError, preview
from sqlmadp.private import Ledger
from sqlmadp.release import Progress, Release, Results, asked_and_released
from sqlmadp.report.buckets import Bucket, buckets
from sqlmadp.schema.marginal import Block
from sqlmadp.strategy.cache import StrategyCache
from sqlmadp.table.old_blocks import as_blocks


@dataclass(frozen=True)
class Standing:
    """What one mechanism gives an analyst: expected errors of a typical answer."""

    alone: float
    together: float
    ratio: float
    """Of squared errors; above 1 the sharing incentive is violated."""
    interference: float
    """The largest that anybody else causes; above 1 is a violation."""


@dataclass(frozen=True)
class Question:
    """One query of an analyst, with its rows once they are released."""

    name: str
    sql: str
    groups: int
    rmse: float
    """The expected error of a typical answer under the plan's mechanism."""
    result: Result | None
    failure: str = ""
    """Why there are no rows though there is a release."""


@dataclass(frozen=True)
class Member:
    """An analyst whom the reader may see."""

    name: str
    share: Fraction
    standings: Mapping[str, Standing]
    """By mechanism."""
    questions: tuple[Question, ...]


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
    release: str | None
    """The hash of what was asked, once it is released."""
    protection: str
    """What one of two neighbouring tables has and the other has not."""
    left_out: tuple[str, ...]
    """Which records are not counted, in words."""
    units: bool
    """Whether a person with several records is protected, as the schema's unit."""
    error_meaning: str
    """What ± covers."""
    cells: int
    analysts: int
    members: tuple[Member, ...]
    interference: Mapping[str, Mapping[str, float]]
    """[joining][other], for the curator; empty for an analyst and for a single one."""
    unsupported: Mapping[str, str]
    """Mechanisms that cannot serve this plan, and why."""
    total: float
    """Everybody's expected squared error together."""
    to_utilitarian: float | None
    promised: str
    """What holds whatever is asked, in words."""
    buckets: tuple[Bucket, ...] | None
    """None if there are too many to look at."""
    skipped: tuple[Skipped, ...] = ()
    """What was refused and left out, as far as the reader may know."""

    @property
    def spent(self) -> Fraction:
        """Return what the ledger has spent in all."""
        return sum((charge.epsilon for charge in self.charges), Fraction(0))

    @property
    def released(self) -> Charge | None:
        """Return the charge of this release, once it is made."""
        return next((charge for charge in self.charges if charge.this), None)


def gather(
    plan: Plan,
    analyst: str | None,
    cache: StrategyCache | None,
    progress: Progress = lambda _: None,
    mechanisms: Sequence[str] = (),
) -> Content:
    """Return what a report shows to its reader: the curator, or one analyst.

    The plan's mechanism is shown beside the ones named, or beside all if none is.
    """
    progress("binding statements")
    asked, done = asked_and_released(plan)
    if analyst is not None and asked.analyst(analyst) is None:
        names = ", ".join(each.name for each in asked.plan.analysts)
        raise ProgrammingError(f"no analyst {analyst!r} in this plan; there are {names}")
    base = None if done is not None else _base(asked)
    beside = [m for m in MECHANISMS if not mechanisms or m in (*mechanisms, plan.mechanism)]
    previews = preview(asked, beside, cache, progress)
    certificates = {
        name: Certificate.of(asked, each.outcome, each.bounds, name)
        for name, each in previews.items()
        if isinstance(each, Preview)
    }
    chosen = previews[plan.mechanism]
    if isinstance(chosen, NotSupportedError):
        raise chosen
    progress("certifying")
    if done is not None:
        certificates[plan.mechanism] = done.certificate
    elif base is not None:
        chosen = late_preview(asked, base, cache)
        late = Certificate.of(asked, chosen.outcome, chosen.bounds, plan.mechanism)
        certificates[plan.mechanism] = late
    progress("answering")
    found = buckets(asked, _measured(asked, chosen, done, base), cache)
    unsupported = {n: str(e) for n, e in previews.items() if isinstance(e, NotSupportedError)}
    return assemble(
        asked,
        certificates,
        chosen.queries,
        reader=analyst,
        results=None if done is None else done.results(),
        base=base,
        unsupported=unsupported,
        found=found,
    )


def assemble(
    asked: Asked,
    certificates: Mapping[str, Certificate],
    errors: Sequence[Sequence[QueryError]],
    *,
    reader: str | None = None,
    results: Results | None = None,
    base: Base | None = None,
    unsupported: Mapping[str, str] | None = None,
    found: Sequence[Bucket] | None = None,
) -> Content:
    """Return what a report shows, from certificates, expected errors and, once made, results."""
    plan = asked.plan
    charges, head = _ledger(asked, reader)
    certificate = certificates[plan.mechanism]
    return Content(
        plan=plan.path.name,
        table=asked.domain.table,
        reader=reader,
        mechanism=plan.mechanism,
        epsilon=plan.epsilon,
        charge=plan.epsilon if base is None else base.epsilon(plan),
        budget=plan.budget,
        charges=charges,
        head=head,
        release=None if results is None else asked.release_id,
        protection=asked.domain.protection,
        left_out=asked.domain.left_out,
        units=asked.domain.unit is not None,
        error_meaning=asked.domain.error_meaning,
        cells=asked.domain.cells,
        analysts=len(plan.analysts),
        members=tuple(_members(asked, errors, certificates, results, reader)),
        interference={} if reader is not None else _interference(certificate),
        unsupported=unsupported or {},
        total=certificate.total,
        to_utilitarian=certificate.bounds.beside(certificate.total)[0],
        promised=certificate.promised,
        buckets=None if found is None else tuple(_seen_by(reader, found)),
        skipped=tuple(e for e in certificate.skipped if reader in (None, e.analyst)),
    )


def _base(asked: Asked) -> Base | None:
    """Return the completed release that the plan adds analysts to, or None."""
    plan = asked.plan
    if not plan.ledger_path.exists() and plan.head is None:
        return None
    with Ledger.read(plan.ledger_path, budget=plan.budget, head=plan.head) as ledger:
        return find_base(asked, ledger)


def _measured(
    asked: Asked, chosen: Preview, done: Release | None, base: Base | None
) -> list[Block]:
    """Return all that answers come from, in units of the noise that it is measured with."""
    known = done.measurements if done is not None else base.measurements if base else ()
    found = [
        Block(block.marginal, sparse.csr_array(block.matrix / each.scale))
        for each in known
        for block in as_blocks(each.blocks)
    ]
    if done is None:
        epsilon = asked.plan.epsilon if base is None else base.epsilon(asked.plan)
        strategy = chosen.outcome.strategy
        scale = strategy.sensitivity * asked.domain.records_between_neighbours / float(epsilon)
        found += [
            Block(block.marginal, sparse.csr_array(block.matrix / scale))
            for block in strategy.blocks
        ]
    return found


def _members(
    asked: Asked,
    errors: Sequence[Sequence[QueryError]],
    certificates: Mapping[str, Certificate],
    results: Results | None,
    reader: str | None,
) -> list[Member]:
    members = []
    for number, analyst in enumerate(asked.plan.analysts):
        if reader not in (None, analyst.name):
            continue
        own = asked.queries[number]
        answers = sum(float(q.statement.weight) * b.rows for q in own for b in q.aggregates)
        standings = {
            name: _standing(each, analyst.name, answers) for name, each in certificates.items()
        }
        questions = [
            Question(
                query.name,
                query.statement.text,
                query.rows,
                errors[number][place].rmse,
                None if results is None else results[analyst.name].get(query.name),
                "" if results is None else str(results.failed.get((analyst.name, query.name), "")),
            )
            for place, query in enumerate(own)
        ]
        members.append(Member(analyst.name, analyst.share, standings, tuple(questions)))
    return members


def _standing(certificate: Certificate, analyst: str, answers: float) -> Standing:
    found = certificate.analysts[analyst]
    answers = answers or 1.0  # Whoever asks for no group at all has no answer, and no error.
    return Standing(
        alone=math.sqrt(found.alone / answers),
        together=math.sqrt(found.now / answers),
        ratio=found.ratio,
        interference=max(found.interference.values(), default=1.0),
    )


def _interference(certificate: Certificate) -> dict[str, dict[str, float]]:
    names = list(certificate.analysts)
    return {
        joining: {
            other: certificate.analysts[other].interference[joining]
            for other in names
            if joining in certificate.analysts[other].interference
        }
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


def _seen_by(reader: str | None, found: Sequence[Bucket]) -> list[Bucket]:
    """Return the buckets that a reader may see: an analyst's own, others' parts without names."""
    if reader is None:
        return list(found)
    own = [bucket for bucket in found if reader in bucket.parts]
    return [replace(bucket, parts=_parts(reader, bucket)) for bucket in own]


def _parts(reader: str, bucket: Bucket) -> dict[str | None, float]:
    mine = bucket.parts[reader]
    rest = bucket.size - mine
    return {reader: mine} if len(bucket.parts) == 1 else {reader: mine, None: rest}
