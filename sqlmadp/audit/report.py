"""The audit: every case sampled, what its samples prove, and whether the audit is sharp enough.

`private.measure.calibrate` and `noisy_answers` are what a release runs between the counts and
the ledger.  Calling them once per measurement would take hours, so the table is laid out many
times, side by side, in copies that one more column tells apart.  A record is in one copy, so
each copy's answers are a measurement of their own, with the sensitivity, scale and noise that
the boundary itself works out:

    blocks of the copies = I (x) A        sensitivity(I (x) A) = sensitivity(A)

Each bound holds with confidence ``CONFIDENCE``; of all of them together, one is wrong less
than once in a thousand runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import sparse

from sqlmadp.answer.result import TextTable
from sqlmadp.audit.bound import Answers, Bound, lower_bound
from sqlmadp.audit.cases import PLAIN_COUNT, Case, cases
from sqlmadp.audit.counted import counted_cases
from sqlmadp.audit.leaks import repeated_noise, telling_messages
from sqlmadp.experiment.processes import pool, starting
from sqlmadp.private.measure import calibrate, noisy_answers
from sqlmadp.table.domain import Column, Domain
from sqlmadp.table.partition import Partition
from sqlmadp.table.products import Products
from sqlmadp.table.rows import Rows

MEASUREMENTS = 200_000
CONFIDENCE = 0.99999
POWER = 0.8
"""The part of epsilon that the audit must be able to see on a plain count."""
COPIES = 2_000
"""Measurements that one call makes."""

Progress = Callable[[int, int], None]
"""Told how many measurements were made, of how many."""

_PART = 20_000
_COPY = " copy"  # Sorts before every name, so that copies are laid out one after the other.


@dataclass(frozen=True)
class Audited:
    """One case, and what its samples prove."""

    case: str
    claimed: Fraction
    bound: Bound
    measurements: int
    """Of either table."""

    @property
    def holds(self) -> bool:
        """Return whether the claim survived."""
        return self.bound.epsilon <= self.claimed


@dataclass(frozen=True)
class Report:
    """Everything that an audit found."""

    audited: tuple[Audited, ...]
    confidence: float
    repeated: str
    """What is wrong with the noise's freshness; empty if nothing is."""
    messages: tuple[str, ...]
    """What a record changed besides the noise."""

    @property
    def power(self) -> float:
        """Return the part of epsilon that was seen on a plain count."""
        plain = next(each for each in self.audited if each.case == PLAIN_COUNT)
        return plain.bound.epsilon / float(plain.claimed)

    @property
    def problems(self) -> list[str]:
        """Return a sentence for everything that is wrong; empty if the audit is passed."""
        found = [
            f"{each.case}: the privacy loss is at least {each.bound.epsilon:.3f}, "
            f"but {each.claimed} is claimed"
            for each in self.audited
            if not each.holds
        ]
        if self.power < POWER:
            found.append(
                f"the audit sees only {self.power:.2f} of epsilon on a plain count, less than "
                f"{POWER}, so it would miss what it looks for; make more measurements"
            )
        return [*found, *([self.repeated] if self.repeated else []), *self.messages]


def audit(
    measurements: int = MEASUREMENTS,
    *,
    confidence: float = CONFIDENCE,
    progress: Progress = lambda done, total: None,
) -> Report:
    """Audit every case, with this many measurements of each of its two tables."""
    every = (*cases(), *counted_cases())
    samples = _samples(every, measurements, progress)
    return Report(
        tuple(
            _audited(case, (samples[number, 0], samples[number, 1]), confidence)
            for number, case in enumerate(every)
        ),
        confidence,
        repeated_noise(),
        tuple(telling_messages()),
    )


def audit_case(
    case: Case, measurements: int = MEASUREMENTS, *, confidence: float = CONFIDENCE
) -> Audited:
    """Audit one case in this process."""
    drawn = sample(case, 0, measurements), sample(case, 1, measurements)
    return _audited(case, drawn, confidence)


def sample(case: Case, table: int, measurements: int) -> Answers:
    """Return at least that many measurements of one table of a case, one per row."""
    domain, blocks = _copied(case)
    strategy = calibrate(blocks, domain=domain, epsilon=case.epsilon)
    counts = [np.tile(each, COPIES) for each in case.sums[table]]
    samples = []
    for _ in range(-(-measurements // COPIES)):
        answers = noisy_answers(strategy, counts)
        samples.append(np.hstack([each.reshape(COPIES, -1) for each in answers]))
    return np.vstack(samples)


def audit_text(report: Report) -> str:
    """Return every case with the epsilon that was proven, and what was found besides."""
    rows = []
    for each in report.audited:
        bound = each.bound
        event = f"{bound.event}: {bound.more_likely:.4f} against {bound.less_likely:.4f}"
        rows.append((each.case, str(each.claimed), f"{bound.epsilon:.3f}", event))
    headers = [("case", False), ("claimed", True), ("proven", True), ("by", False)]
    table = TextTable.of(headers, len(rows), rows.__getitem__, limit=None).text()
    fewest = min(each.measurements for each in report.audited)
    return (
        f"{table}\n\n{len(rows)} cases, {fewest:,} measurements of either table in each; every "
        f"bound holds with confidence {report.confidence:.3%}\n"
        f"power: {report.power:.3f} of epsilon is seen on a plain count (needed: {POWER})\n"
        f"noise: {report.repeated or 'never the same twice'}\n"
        f"messages: {'; '.join(report.messages) or 'none depends on a record'}"
    )


def audit_figures(report: Report) -> dict[str, Any]:
    """Return the figures that ``audit --json`` prints."""
    return {
        "ok": not report.problems,
        "confidence": report.confidence,
        "power": report.power,
        "problems": report.problems,
        "cases": [
            {
                "name": each.case,
                "claimed": str(each.claimed),
                "bound": each.bound.epsilon,
                "event": each.bound.event,
                "measurements": each.measurements,
            }
            for each in report.audited
        ],
    }


def _audited(case: Case, samples: tuple[Answers, Answers], confidence: float) -> Audited:
    exact = case.exact(0), case.exact(1)
    bound = lower_bound(*samples, *exact, confidence=confidence, only=case.statistic)
    return Audited(case.name, case.epsilon, bound, min(len(each) for each in samples))


def _samples(
    every: Sequence[Case], measurements: int, progress: Progress
) -> dict[tuple[int, int], Answers]:
    """Return the samples of every table of every case, drawn on all processors."""
    parts: dict[tuple[int, int], list[Answers]] = {}
    tasks: dict[Any, tuple[int, int]] = {}
    done = 0
    with pool(os.cpu_count()) as processes:
        for number, case in enumerate(every):
            for table in (0, 1):
                for start in range(0, measurements, _PART):
                    part = min(_PART, measurements - start)
                    with starting():
                        tasks[processes.submit(sample, case, table, part)] = (number, table)
        total = len(tasks) * min(_PART, measurements)
        for task in as_completed(tasks):
            parts.setdefault(tasks[task], []).append(task.result())
            done += min(_PART, measurements)
            progress(done, total)
    return {key: np.vstack(drawn) for key, drawn in parts.items()}


def _copied(case: Case) -> tuple[Domain, list[Rows]]:
    copy = Column(name=_COPY, type="integer", minimum=0, maximum=COPIES - 1, complete=True)
    domain = replace(case.domain, columns=(copy, *case.domain.columns))
    copies = Partition.finest(COPIES)
    identity = sparse.eye_array(COPIES, dtype=np.int64, format="csr")
    blocks: list[Rows] = []
    for block in case.blocks:
        scope, parts = (_COPY, *block.scope), (copies, *block.parts)
        if isinstance(block, Products):
            heights = np.stack([block.heights.astype(np.int64)] * COPIES)
            blocks.append(Products(scope, parts, 0, None, (identity, *block.factors), heights))
            continue
        matrix = sparse.csr_array(sparse.kron(identity, block.matrix, format="csr"))
        blocks.append(Rows(scope, parts, 0, matrix.astype(np.int64)))
    return domain, blocks
