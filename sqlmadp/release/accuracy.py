"""Accuracy: the expected error of every statement, before anything is measured.

rmse     root of the mean variance of a statement's counts and sums, in plain units
factor   mean of  variance / naive variance  over them: 1 is no better than splitting the
         analyst's share evenly over their statements and asking one by one (see
         `core.questions`); guaranteed to be at most 1 where a mechanism only adds to what the
         analyst would measure alone
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from threadpoolctl import threadpool_limits

from sqlmadp.mechanism.collective import Joint
from sqlmadp.mechanism.fairness import noise_variance
from sqlmadp.release.bound_plan import Asked
from sqlmadp.solve.products import ProductSolution, solution_of
from sqlmadp.solve.solution import Solution
from sqlmadp.table.partition import Floats
from sqlmadp.table.rows import Rows
from sqlmadp.workload.questions import naive_deviations


@dataclass(frozen=True)
class Accuracy:
    """The expected error of one statement."""

    name: str
    rows: int
    rmse: float
    """Root of the mean expected squared error over the statement's counts and sums."""
    factor: float
    """The same relative to asking one by one: the mean of ``variance / naive variance``."""


def unit_noise(strategy: Joint, epsilon: Fraction) -> list[Rows]:
    """Return a strategy's blocks, scaled so that their noise for ``epsilon`` has variance 1."""
    scale = 1 / (strategy.total * math.sqrt(noise_variance(epsilon)))
    return [block.times(scale) for block in strategy.blocks]


def accuracies(
    asked: Asked, blocks: Sequence[Rows], reads: Sequence[tuple[int, ...]]
) -> tuple[tuple[Accuracy, ...], ...]:
    """Return every statement's accuracy, by analyst, from those blocks that each analyst reads.

    The noise of the blocks has variance 1.
    """
    solutions: dict[tuple[int, ...], _Variances] = {}
    found = []
    with threadpool_limits(limits=1):  # Threads that contend for small matrices are slower.
        for place, numbers in enumerate(reads):
            if numbers not in solutions:
                solutions[numbers] = _Variances(solution_of([blocks[n] for n in numbers]))
            found.append(_of_analyst(asked, place, solutions[numbers]))
    return tuple(found)


class _Variances:
    """The variances of rows, each worked out once."""

    def __init__(self, solution: Solution | ProductSolution) -> None:
        self._solution = solution
        self._known: dict[bytes, Floats] = {}

    def of(self, rows: Rows) -> Floats:
        if rows.fingerprint not in self._known:
            self._known[rows.fingerprint] = self._solution.variances(rows)
        return self._known[rows.fingerprint]


def _of_analyst(asked: Asked, place: int, variances: _Variances) -> tuple[Accuracy, ...]:
    share = asked.plan.analysts[place].share
    unit = noise_variance(asked.epsilon_per_record * share)
    questions = asked.questions[place]
    found = []
    for query, question, naive in zip(
        asked.queries[place], questions, naive_deviations(questions), strict=True
    ):
        own = [variances.of(rows) for rows in question.pieces]
        every = np.concatenate([np.zeros(0), *own])
        mean = float(every.mean()) if len(every) else 0.0  # No group, no answer, no error.
        ratios = (v.sum() / (unit * n**2) for v, n in zip(own, naive, strict=True) if n)
        factor = math.fsum(float(ratio) for ratio in ratios) / max(1, question.rows)
        found.append(Accuracy(query.name, query.rows, math.sqrt(mean), factor))
    return tuple(found)
