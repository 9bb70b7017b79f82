"""Report: every case audited, and whether the audit itself is sharp enough to be believed.

Each bound holds with confidence ``CONFIDENCE``; of all of them together, one is wrong less
than once in a thousand runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import as_completed
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sqlmadp.audit.bound import Answers, Bound, lower_bound
from sqlmadp.audit.cases import PLAIN_COUNT, Case, cases
from sqlmadp.audit.counted import counted_cases
from sqlmadp.audit.freshness import repeated_noise
from sqlmadp.audit.messages import telling_messages
from sqlmadp.audit.sample import sample
from sqlmadp.experiment.processes import pool, starting

MEASUREMENTS = 200_000
CONFIDENCE = 0.99999
POWER = 0.8
"""What part of epsilon the audit must be able to see on a plain count."""

Progress = Callable[[int, int], None]
"""Told how many measurements were made, of how many."""

_PART = 20_000


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
    """Audit every case, with so many measurements of each of its two tables."""
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


def _audited(case: Case, samples: tuple[Answers, Answers], confidence: float) -> Audited:
    exact = case.exact(0), case.exact(1)
    bound = lower_bound(*samples, *exact, confidence=confidence, only=case.statistic)
    return Audited(case.name, case.epsilon, bound, min(len(each) for each in samples))


def _samples(
    every: Iterable[Case], measurements: int, progress: Progress
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
