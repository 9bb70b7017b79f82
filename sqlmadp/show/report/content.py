"""Content: everything that a report shows, as plain values its reader may see.

The page is made of this and of nothing else.  A report for one analyst has that analyst's own
statements, rows and errors, and the number of the other analysts.  Nothing here reads a record: a
preview comes from planning, and rows come from the stored measurement.

A block of a strategy is over one scope, and the absolute values of its columns sum to its weight.
Weights of one measurement add up to its sensitivity, so a block's part of epsilon is

    weight / sum of all weights.

A statement is answered mostly from the smallest combination of columns that has all of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce

import numpy as np

from sqlmadp.answer.result import Result
from sqlmadp.errors import NotSupportedError
from sqlmadp.files.analysts import no_analyst
from sqlmadp.files.plan import Plan
from sqlmadp.private import Ledger
from sqlmadp.private.ledger import Charge
from sqlmadp.release.bound_plan import BoundPlan
from sqlmadp.release.certificate import Accuracy, Certificate
from sqlmadp.release.history import History, history_of
from sqlmadp.release.preview import preview
from sqlmadp.release.release import Progress, Results, asked_and_released
from sqlmadp.table.joint import declared
from sqlmadp.table.products import Products
from sqlmadp.table.rows import Rows

OTHERS = "others"
"""Whom a report for one analyst names in place of anybody else."""


@dataclass(frozen=True)
class Statement:
    """One statement of an analyst, with its rows once they are released."""

    analyst: str
    sql: str
    expected: Accuracy
    result: Result | None = None
    failure: str = ""
    """Why there are no rows though there is a release."""


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
    """What the release would be charged: epsilon, or the late analysts' part if some join late."""
    budget: Fraction
    charges: tuple[Charge, ...]
    """Those of the ledger, without analysts where the reader may not know them."""
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
    statements: tuple[Statement, ...]
    certificates: Mapping[str, Certificate]
    """By mechanism, the plan's own and those to compare it with: what the reader may see of it."""
    unsupported: Mapping[str, str]
    """Mechanisms that cannot serve this plan, and why."""
    measured: tuple[Measured, ...] = ()

    @property
    def certificate(self) -> Certificate:
        """What the plan's own mechanism gives."""
        return self.certificates[self.mechanism]

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
        return next((each for each in self.charges if each.release == self.release_id), None)


def gather(
    plan: Plan,
    analyst: str | None = None,
    progress: Progress = lambda _: None,
    mechanisms: Sequence[str] = (),
) -> Content:
    """Return the content of a report for its reader: the curator, or one analyst.

    The plan's mechanism is compared with the ones named.
    """
    progress("binding statements")
    asked, done = asked_and_released(plan)
    if analyst is not None and asked.analyst(analyst) is None:
        raise no_analyst(analyst, (each.name for each in asked.plan.analysts))
    history = History() if done is not None else history_of(asked)
    certificates: dict[str, Certificate] = {}
    unsupported: dict[str, str] = {}
    for name in dict.fromkeys([plan.mechanism, *mechanisms]):
        progress(f"mechanism {name}")
        if done is not None and name == plan.mechanism:
            certificates[name] = done.certificate
            continue
        try:
            certificates[name] = preview(asked, history, name, progress)
        except NotSupportedError as error:
            if name == plan.mechanism:
                raise
            unsupported[name] = str(error)
    progress("answering")
    known = history.measurements if done is None else done.measurements
    blocks = [(each.epsilon, each.blocks) for each in known]
    if done is None:
        blocks.append((history.epsilon(asked.plan), history.select(asked).measured))
    return assemble(
        asked,
        certificates,
        reader=analyst,
        results=None if done is None else done.results(),
        history=history,
        unsupported=unsupported,
        blocks=blocks,
    )


def assemble(
    asked: BoundPlan,
    certificates: Mapping[str, Certificate],
    *,
    reader: str | None = None,
    results: Results | None = None,
    history: History = History(),  # noqa: B008 - It never changes.
    unsupported: Mapping[str, str] | None = None,
    blocks: Sequence[tuple[Fraction, Sequence[Rows]]] = (),
) -> Content:
    """Return the content of a report from certificates, expected errors and, once made, results.

    ``certificates`` has the plan's mechanism, and others to compare it with.  ``blocks``: what is
    measured, with the epsilon of each measurement.
    """
    plan, domain = asked.plan, asked.domain
    charges, head = _ledger(asked, reader)
    return Content(
        plan=plan.path.name,
        schema=plan.schema_path.name,
        schema_id=asked.schema_id,
        release_id=asked.release_id,
        table=domain.table,
        reader=reader,
        mechanism=plan.mechanism,
        epsilon=plan.epsilon,
        charge=history.epsilon(plan),
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
        statements=tuple(_statements(asked, certificates[plan.mechanism], results, reader)),
        certificates={name: _seen_by(reader, each) for name, each in certificates.items()},
        unsupported=unsupported or {},
        measured=measured(asked, blocks, reader),
    )


def _statements(
    asked: BoundPlan, certificate: Certificate, results: Results | None, reader: str | None
) -> Iterator[Statement]:
    """Yield every statement that the reader may see, analyst by analyst."""
    for analyst, queries in zip(asked.plan.analysts, asked.queries, strict=True):
        if reader not in (None, analyst.name):
            continue
        accuracy = certificate.analysts[analyst.name].statements
        for query, expected in zip(queries, accuracy, strict=True):
            result, failure = None, ""
            if results is not None:
                result = results[analyst.name].get(query.name)
                failure = str(results.failed.get((analyst.name, query.name), ""))
            yield Statement(analyst.name, query.statement.text, expected, result, failure)


def _seen_by(reader: str | None, certificate: Certificate) -> Certificate:
    """Return the part of a certificate that an analyst may see: nobody else's name or figures."""
    if reader is None:
        return certificate
    own = certificate.only(reader)
    standing = own.analysts[reader]
    hidden = replace(
        standing,
        interference=_worst(standing.interference),
        within_agreement=_worst(standing.within_agreement),
    )
    return replace(own, analysts={reader: hidden}, joins=())


def _worst(interference: Mapping[str, float]) -> dict[str, float]:
    return {OTHERS: max(interference.values())} if interference else {}


def _ledger(asked: BoundPlan, reader: str | None) -> tuple[tuple[Charge, ...], str | None]:
    """Return the charges of the plan's ledger, and its head; nothing if there is none yet."""
    plan = asked.plan
    if not plan.ledger_path.exists() and plan.head is None:
        return (), None
    with Ledger.read(plan.ledger_path, budget=plan.budget, head=plan.head) as ledger:
        charges = ledger.charges
        if reader is not None:
            charges = tuple(replace(each, analysts=()) for each in charges)
        return charges, ledger.head


Columns = frozenset[str]


@dataclass(frozen=True)
class Measured:
    """All measured numbers over one combination of columns."""

    columns: tuple[str, ...]
    summed: frozenset[str]
    """Columns whose values are summed, not only counted."""
    numbers: int
    """How many numbers are measured."""
    part: float
    """Of all epsilon that was ever charged for the answers."""
    serves: tuple[str, ...]
    """Analysts whose statements are answered from it."""

    @property
    def name(self) -> str:
        """The combination as a person would put it: 'ward × sum of price'."""
        named = (f"sum of {name}" if name in self.summed else name for name in self.columns)
        return " × ".join(named) or "all records"


def measured(
    asked: BoundPlan, blocks: Sequence[tuple[Fraction, Sequence[Rows]]], reader: str | None
) -> tuple[Measured, ...]:
    """Return the measured combinations of columns, the largest part first.

    An analyst sees just what is within the columns of an own statement, and no other name.
    """
    found: dict[tuple[tuple[str, ...], frozenset[str]], tuple[int, float]] = {}
    whole = float(sum(epsilon for epsilon, _ in blocks))
    for epsilon, own in blocks:
        weights = [weight(rows) for rows in own]
        for rows, each in zip(own, weights, strict=True):
            pairs = zip(rows.scope, rows.parts, strict=True)
            key = rows.scope, frozenset(name for name, part in pairs if part.degree)
            numbers, part = found.get(key, (0, 0.0))
            found[key] = numbers + rows.count, part + each / sum(weights) * float(epsilon) / whole
    scopes = {
        analyst.name: [
            Columns(declared(rows.scope)) for query in queries for rows in query.aggregates
        ]
        for analyst, queries in zip(asked.plan.analysts, asked.queries, strict=True)
        if reader in (None, analyst.name)
    }
    combinations = [Columns(scope) for scope, _ in found]
    made = []
    for (scope, summed), (numbers, part) in found.items():
        columns = Columns(scope)
        if reader is not None and not any(columns <= own for own in scopes[reader]):
            continue
        serves = _served(scopes, columns, combinations)
        made.append(Measured(scope, summed, numbers, part, serves))
    return tuple(sorted(made, key=lambda each: -each.part))


def _served(
    asked: Mapping[str, Sequence[Columns]], columns: Columns, combinations: Sequence[Columns]
) -> tuple[str, ...]:
    """Return the analysts whose statements are answered from one of all combinations.

    One that no statement is answered from first adds to statements about more columns.
    """
    first = [
        n for n, own in asked.items() if any(columns in _smallest(q, combinations) for q in own)
    ]
    return tuple(first or [n for n, own in asked.items() if any(columns <= q for q in own)])


def _smallest(asked: Columns, scopes: Sequence[Columns]) -> list[Columns]:
    """Return the combinations that have all columns of a statement and contain no other such."""
    wide = [each for each in scopes if asked <= each]
    return [each for each in wide if not any(other < each for other in wide)]


def weight(rows: Rows) -> float:
    """Return the sum of the absolute values of a block's columns, averaged over vertices."""
    if isinstance(rows, Products):
        sums = [np.asarray(abs(f).sum(axis=1)).reshape(-1) / f.shape[1] for f in rows.factors]
        left = np.abs(rows.heights).astype(np.float64)
        return float(reduce(lambda table, axis: np.tensordot(axis, table, (0, 0)), sums, left))
    if rows.plain:
        return abs(float(rows.weight))
    return float(abs(rows.matrix).sum()) / rows.size
