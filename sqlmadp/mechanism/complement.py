"""A complement: what newcomers measure beside what was measured before they came.

Earlier measurements stay: scaled to noise of variance 1 their rows are K, and what they tell is
``K^T K``.  Newcomers bring epsilon' of their own for one more strategy A of sensitivity s, which is
measured with noise of variance ``v = 2 (s / epsilon')^2``.  Least squares over both gives analyst j

    e_j = trace(M_j (K^T K + A^T A / v)^-),

which is never more than without A: nobody's error rises, whatever A is.  Of several A, all of
integers, the one of least total error is chosen among those with which no newcomer does worse than
by pouring in, which is what the newcomers would measure without the others:

    poured in   the newcomers' own selections with their shares (Waterfilling)
    for all     the selection for everybody's queries
    mixtures    of the two
    searched    the best of those, improved row by row beside what is known

So a newcomer does no worse than alone with the own part: there K is missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sqlmadp.errors import NotSupportedError
from sqlmadp.mechanism.agreement import FINE, FINEST, ROOM
from sqlmadp.mechanism.base import JointStrategy, read_by_all
from sqlmadp.mechanism.fairness import noise_variance
from sqlmadp.mechanism.waterfilling import Waterfilling, pour_together
from sqlmadp.schema.kronecker import contents, scaled
from sqlmadp.schema.marginal import Block
from sqlmadp.strategy.beside import Known, beside
from sqlmadp.strategy.cache import StrategyCache
from sqlmadp.strategy.capped import draft_of
from sqlmadp.strategy.integer import rounded
from sqlmadp.strategy.layout import laid_over
from sqlmadp.strategy.scopes import split_by_scope
from sqlmadp.strategy.select import MOVE_ROWS, select
from sqlmadp.workload.solver import Solver, solver_for
from sqlmadp.workload.workload import Workload, stacked

Matrix = NDArray[np.float64]

MIXTURES = (Fraction(1, 8), Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
"""Parts of the selection for everybody that are tried in mixtures."""

FEW_MIXTURES = (Fraction(1, 2),)
"""Those of them that are tried where there are too many rows to search, and errors take long."""

MOST_NUMBERS = 1 << 29
"""Rows that are known or poured in, times the cells of the selection for everybody, up to which
that selection is tried at all: beyond, errors with it take many minutes."""


@dataclass(frozen=True)
class Added:
    """What newcomers measure, and everybody's error with it and with what is known."""

    strategy: JointStrategy
    errors: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Complement:
    """Chooses what newcomers measure beside ``known`` rows, whose noise has variance 1."""

    known: tuple[Block, ...]
    cache: StrategyCache | None = None

    def select(self, workloads: Sequence[Workload], epsilons: Sequence[Fraction | None]) -> Added:
        """Return what newcomers add; ``epsilons`` is None for who was there before."""
        brought = [epsilon for epsilon in epsilons if epsilon is not None]
        newcomers = [n for n, epsilon in enumerate(epsilons) if epsilon is not None]
        asking = _Asking(workloads, sum(brought, Fraction(0)), np.full(len(workloads), np.inf))
        with threadpool_limits(limits=1):  # Threads that contend for small matrices are slower.
            own = [workloads[n] for n in newcomers]
            poured = Waterfilling(cache=self.cache).select(own, brought)
            errors = self.errors(poured, workloads, asking.epsilon)
            asking.caps[newcomers] = [errors[n] for n in newcomers]
            best = Added(poured, errors)
            best = self._best(best, self._mixtures(poured, workloads), asking)
            best = self._best(best, self._searched(best.strategy, asking), asking)
        strategy = best.strategy
        everyone = read_by_all(strategy.blocks, strategy.sensitivity, len(workloads))
        return Added(everyone, best.errors)

    def _best(self, first: Added, candidates: Iterable[JointStrategy], asking: _Asking) -> Added:
        """Return what has the least total error within the caps; the first one is within."""
        best = first
        for candidate in candidates:
            errors = self._within(candidate, asking)
            if errors is not None and math.fsum(errors) < math.fsum(best.errors):
                best = Added(candidate, errors)
        return best

    def _within(self, candidate: JointStrategy, asking: _Asking) -> tuple[float, ...] | None:
        """Return everybody's error with a candidate; None if one is above its cap.

        Errors of large scopes take long: those with a cap come first.
        """
        solver = self._solver(candidate, asking.epsilon)
        errors = np.zeros(len(asking.caps))
        capped = np.isfinite(asking.caps)
        for some in (np.flatnonzero(capped).tolist(), np.flatnonzero(~capped).tolist()):
            errors[some] = errors_from(solver, [asking.workloads[n] for n in some])
            if (errors > asking.caps).any():
                return None
        return tuple(errors.tolist())

    def errors(
        self, strategy: JointStrategy | None, workloads: Sequence[Workload], epsilon: Fraction
    ) -> tuple[float, ...]:
        """Return everybody's error with a strategy, or with what is known alone."""
        return errors_from(self._solver(strategy, epsilon), workloads)

    def _solver(self, strategy: JointStrategy | None, epsilon: Fraction) -> Solver:
        blocks = list(self.known)
        if strategy is not None:
            weight = 1 / math.sqrt(noise_variance(strategy.sensitivity, epsilon))
            blocks += [scaled(block, weight) for block in strategy.blocks]
        return solver_for(blocks)

    def _mixtures(
        self, poured: JointStrategy, workloads: Sequence[Workload]
    ) -> Iterator[JointStrategy]:
        try:
            for_all = select(stacked(workloads), cache=self.cache)
        except NotSupportedError:  # Too large to be selected for as a whole, not one by one.
            return
        cells = max(block.marginal.size for block in for_all.blocks)
        if cells * sum(block.rows for block in (*self.known, *poured.blocks)) > MOST_NUMBERS:
            return
        yield read_by_all(for_all.blocks, for_all.total, 1)
        many = sum(block.rows for block in (*self.known, *poured.blocks)) > MOVE_ROWS
        for part in FEW_MIXTURES if many else MIXTURES:
            rest = (poured.blocks, poured.sensitivity, 1 - part)
            yield pour_together([rest, (for_all.blocks, for_all.total, part)], 1)

    def _searched(self, start: JointStrategy, asking: _Asking) -> Iterator[JointStrategy]:
        """Yield what a search from ``start`` finds; nothing if there is too much to search in."""
        rows = [block for block in (*self.known, *start.blocks) if block.marginal.scope]
        if sum(block.rows for block in rows) > MOVE_ROWS:
            return
        # What is known may tell apart more than anybody asks for.
        everything = stacked([*asking.workloads, Workload.of(self.known)])
        layout = laid_over(everything, {block.marginal.scope for block in rows})
        if sum(scope.groups for scope in layout.scopes) > MOVE_ROWS:
            return
        found = Known(
            information=layout.gram_of(Workload.of(self.known)),
            gain=1 / noise_variance(1, asking.epsilon),
            grams=np.array([layout.gram_of(workload) for workload in asking.workloads]),
            # Whoever asks nothing has no error, and needs no cap.
            caps=np.where(asking.caps > 0, asking.caps * (1 - ROOM), np.inf),
        )
        draft = beside(draft_of(start.blocks, layout), found)
        blocks = rounded(draft, total=FINE, finest=FINEST)
        expanded = (block.expanded(alone=False) for block in blocks)
        parts = [part for block in expanded for part in split_by_scope(block)]
        yield read_by_all(parts, FINE, 1)


@dataclass(frozen=True, eq=False)
class _Asking:
    """Everybody's workload, what newcomers bring, and their caps; infinite for the others."""

    workloads: Sequence[Workload]
    epsilon: Fraction
    caps: Matrix


def errors_from(solver: Solver, workloads: Sequence[Workload]) -> tuple[float, ...]:
    """Return the error of every workload where all noise has variance 1.

    What several of them ask in the same words is worked out once.
    """
    known: dict[bytes, float] = {}
    errors = []
    for workload in workloads:
        parts = [(contents([block]), block) for block in workload.by_scope]
        for key, block in parts:
            if key not in known:
                known[key] = float(solver.variances(block).sum())
        errors.append(math.fsum(known[key] for key, _ in parts))
    return tuple(errors)
