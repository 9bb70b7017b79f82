"""Expected errors, and both fairness measures, of a mechanism before anything is measured.

    Err_i  = 2 (sensitivity / epsilon)^2  sum over the queries w of W_i of  w (A^T A)^- w^T

summed over analyst i's queries; A holds the rows that analyst i reads.  With s_i the shares:

    sharing ratio   Err_i(M, all, epsilon) / Err_i(M, {W_i}, s_i epsilon)
    interference    I_i(j) = Err_j(M, all, epsilon) / Err_j(M, all but i, (1 - s_i) epsilon)

A ratio above 1 is a violation.  Nothing is clipped.  Selection is deterministic, so leaving an
analyst out holds everybody else's own strategy fixed; and a mechanism that settles on one of
several rules by looking at everyone keeps to that rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import NDArray

from sqlmadp.mechanism import left_out
from sqlmadp.mechanism.base import Joining, JointStrategy, LeavingOut, Mechanism, settled
from sqlmadp.mechanism.cell_totals import CellTotals
from sqlmadp.workload.solver import Solver, solver_for
from sqlmadp.workload.workload import Workload

Matrix = NDArray[np.float64]

Progress = Callable[[int, int], None]
"""Told how many analysts were left out, and of how many."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a mechanism would give every analyst."""

    strategy: JointStrategy
    errors: tuple[float, ...]
    """Each analyst's expected error, summed over queries, in the collective."""
    alone: tuple[float, ...]
    """The same with the analyst's own share and nobody else."""
    interference: Matrix
    """``[i, j]``: the ratio by which analyst i's joining changes analyst j's error; 1 for i = j."""

    @property
    def total_error(self) -> float:
        """Return the sum of everyone's expected error."""
        return float(sum(self.errors))

    @property
    def ratios(self) -> tuple[float, ...]:
        """Return each analyst's sharing ratio."""
        return tuple(ratio(e, a) for e, a in zip(self.errors, self.alone, strict=True))

    @property
    def sharing_ratio(self) -> float:
        """Return the largest sharing ratio."""
        return max(self.ratios)

    @property
    def worst_interference(self) -> float:
        """Return the largest interference between two different analysts (1 for a single one)."""
        apart = self.interference[~np.eye(len(self.errors), dtype=np.bool_)]
        return float(apart.max(initial=0.0)) if apart.size else 1.0


def outcome(
    mechanism: Mechanism,
    workloads: Sequence[Workload],
    shares: Sequence[Fraction],
    epsilon: Fraction,
) -> Outcome:
    """Return the expected errors and fairness measures of a mechanism."""
    mechanism = settled(mechanism, workloads, shares)
    strategy = mechanism.select(workloads, shares)
    together = expected_errors(strategy, workloads, epsilon)
    return compared(mechanism, strategy, workloads, shares, epsilon, together=together)


def compared(
    mechanism: Mechanism,
    strategy: JointStrategy,
    workloads: Sequence[Workload],
    shares: Sequence[Fraction],
    epsilon: Fraction,
    *,
    together: tuple[float, ...],
    progress: Progress = lambda done, total: None,
) -> Outcome:
    """Return the fairness measures of what a settled mechanism selected, given all errors."""
    everyone = range(len(workloads))
    # Analysts who ask the same with the same share are alike, so each kind of analyst is left
    # out once; but not where the order in which they join matters.
    kinds = [(w.fingerprint, share) for w, share in zip(workloads, shares, strict=True)]
    many = CellTotals(workloads)

    @cache
    def errors(members: tuple[int, ...]) -> dict[tuple[str, Fraction], float]:
        chosen = [workloads[m] for m in members]
        budget = [shares[m] for m in members]
        spent = epsilon * sum(budget) / sum(shares)
        strategy = mechanism.select(chosen, budget)
        totals = many.of(strategy, chosen) if len(members) > 1 else None
        if totals is None:
            found = expected_errors(strategy, chosen, spent)
        else:
            variance = noise_variance(strategy.sensitivity, spent)
            found = tuple(variance * total for total in totals)
        return {kinds[m]: error for m, error in zip(members, found, strict=True)}

    interference = left_out_at_once(mechanism, workloads, shares)
    if interference is None:
        interference = np.full((len(workloads), len(workloads)), np.nan)
    np.fill_diagonal(interference, 1.0)
    anew = np.flatnonzero(np.isnan(interference).any(axis=1)).tolist()
    for done, i in enumerate(anew):
        progress(done, len(anew))
        first = i if isinstance(mechanism, Joining) else kinds.index(kinds[i])
        without = errors(tuple(m for m in everyone if m != first))
        for j in (j for j in everyone if j != i):
            interference[i, j] = ratio(together[j], without[kinds[j]])
    alone = tuple(errors((kinds.index(kinds[m]),))[kinds[m]] for m in everyone)
    return Outcome(strategy, together, alone, interference)


def left_out_at_once(
    mechanism: Mechanism, workloads: Sequence[Workload], shares: Sequence[Fraction]
) -> Matrix | None:
    """Return the interference where it is known without selecting anew for everyone left out.

    Rows that take selecting anew hold no numbers.
    """
    if len(workloads) == 1:
        return np.ones((1, 1))  # Nobody is left whose error could have changed.
    if isinstance(mechanism, LeavingOut):
        return mechanism.interference(workloads, shares)
    return left_out.interference(mechanism, workloads, shares)


def expected_errors(
    strategy: JointStrategy, workloads: Sequence[Workload], epsilon: Fraction
) -> tuple[float, ...]:
    """Return each analyst's expected error, summed over queries."""
    solvers: dict[tuple[int, ...], Solver] = {}
    known: dict[tuple[tuple[int, ...], str], float] = {}
    errors = []
    for analyst, workload in enumerate(workloads):
        reads = strategy.reads[analyst]
        if reads not in solvers:
            solvers[reads] = solver_for(strategy.read_by(analyst))
        key = (reads, workload.fingerprint)
        if key not in known:
            known[key] = solvers[reads].total(workload.by_scope)
        errors.append(noise_variance(strategy.sensitivity, epsilon) * known[key])
    return tuple(errors)


def noise_variance(sensitivity: int, epsilon: Fraction) -> float:
    """Return the variance of Laplace noise of scale ``sensitivity / epsilon``."""
    return 2 * float(sensitivity / epsilon) ** 2


def ratio(error: float, reference: float) -> float:
    """Return ``error / reference``; two errors of 0 are equal."""
    if reference == 0:
        return 1.0 if error == 0 else float("inf")
    return error / reference
