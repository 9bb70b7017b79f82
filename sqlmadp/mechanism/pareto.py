"""Pareto: the least total error that leaves nobody worse off than Waterfilling does.

For a collective C with shares s_i, let wf_j(C) be analyst j's error under Waterfilling.

    free(C)     least  sum_j e_j (1 + v_j)           subject to  e_j <= wf_j(C)
    select(C)   the same, if some j would be better off without some i, with the further caps
                e_j <= (1 - MARGIN) e_j(free(C but i))  for every i

The weight ``v_j = VOICE mean(wf) / wf_j`` gives analysts with small errors a say, so that what they
get hardly depends on chance.  Every candidate is made of integers first; its errors are
recomputed from those integers, and Waterfilling itself is the last candidate.

What holds always: ``e_j(C) <= wf_j(C)``.  Waterfilling satisfies both fairness measures, so
    sharing incentive      e_j(C) <= wf_j(C) <= wf_j({j}) = e_j({j});
    against Waterfilling   e_j(C) <= wf_j(C but i): joining never costs anybody what
                           Waterfilling without the newcomer would have given them.
What is certified release by release: ``e_j(C) <= e_j(C but i)``, both under this very mechanism.
No cap on C alone can force that, since each smaller collective is optimised too, for others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sqlmadp.errors import NotSupportedError
from sqlmadp.mechanism.base import JointStrategy, read_by_all
from sqlmadp.mechanism.fairness import expected_errors
from sqlmadp.mechanism.waterfilling import Waterfilling
from sqlmadp.schema.marginal import Block
from sqlmadp.strategy.cache import StrategyCache
from sqlmadp.strategy.capped import Caps, capped, draft_of
from sqlmadp.strategy.integer import S, rounded
from sqlmadp.strategy.joint import Draft
from sqlmadp.strategy.layout import covering
from sqlmadp.strategy.scopes import split_by_scope
from sqlmadp.strategy.select import MOVE_ROWS, select
from sqlmadp.workload.workload import Workload, stacked

Matrix = NDArray[np.float64]

VOICE = 1.0
"""How much an analyst's error relative to Waterfilling's counts beside the total error."""

MARGIN = 0.005
"""How far below its error in a smaller collective an error is aimed."""

ROOM = 2e-4
"""How far below its cap an error is aimed, for the integers to stay below it."""

FINE = 1 << 20
"""The sum of every column: finer than S, since caps are met closely."""

TINY = 1e-300
"""Stands for an error of 0 where it divides."""

FINEST = 14
"""Entries below ``2^-FINEST`` of their block's weight are dropped."""


@dataclass(frozen=True, eq=False)
class _Member:
    """Analysts of a collective who ask the same: their number, and their shares together."""

    workload: Workload
    shares: tuple[Fraction, ...]


@dataclass(frozen=True, eq=False)
class _Chosen:
    """A strategy for a collective, and each member's error in units that collectives share."""

    strategy: JointStrategy
    errors: Matrix


Collective = tuple[_Member, ...]


@dataclass(frozen=True, kw_only=True)
class Pareto:
    """Nobody worse off than under Waterfilling, and of all such strategies the least error.

    For a single analyst it is that analyst's own selection.  The same collective gets the same
    strategy, in whatever order its analysts are listed.
    """

    cache: StrategyCache | None = None
    _free: dict[tuple[tuple[str, tuple[Fraction, ...]], ...], _Chosen] = field(
        default_factory=dict, repr=False, compare=False
    )

    def select(self, workloads: Sequence[Workload], shares: Sequence[Fraction]) -> JointStrategy:
        """Return the strategy of least error within the caps."""
        with threadpool_limits(limits=1):
            strategy = self._select(_in_proportion(_collective(workloads, shares))).strategy
        return read_by_all(strategy.blocks, strategy.sensitivity, len(workloads))

    def _select(self, collective: Collective) -> _Chosen:
        """Return the free choice, or one with caps from every smaller collective."""
        chosen = self._freely(collective)
        limits = np.full(len(collective), np.inf)
        worst, start = 1.0, None
        for smaller, places, newcomer in _smaller(collective):
            without = self._freely(smaller)
            limits[places] = np.minimum(limits[places], without.errors)
            largest = float(_ratios(chosen.errors[places], without.errors).max())
            if largest > worst:
                worst, start = largest, (smaller, without, newcomer)
        if start is None:
            return chosen
        joined = self._joined(*start)
        for slack in (1 - MARGIN, 1.0, 1 + (worst - 1) / 2):
            found = self._best(collective, limits * slack, [joined])
            if (found.errors <= limits * slack).all():
                return found
        return chosen

    def _joined(self, smaller: Collective, without: _Chosen, newcomer: _Member) -> list[Block]:
        """Return a smaller collective's strategy with the newcomer's own rows beside it."""
        own = select(newcomer.workload, cache=self.cache).blocks
        strategy = without.strategy
        return [
            *_weighted(strategy.blocks, strategy.sensitivity, _total(smaller)),
            *_weighted(own, S, newcomer.shares[0]),
        ]

    def _freely(self, collective: Collective) -> _Chosen:
        """Return the choice without caps from smaller collectives; only proportions matter."""
        whole = _in_proportion(collective)
        key = tuple((member.workload.fingerprint, member.shares) for member in whole)
        if key not in self._free:
            self._free[key] = self._best(whole, np.full(len(whole), np.inf), [])
        known = self._free[key]
        return _Chosen(known.strategy, known.errors / float(_total(collective)) ** 2)

    def _best(
        self, collective: Collective, limits: Matrix, starts: Sequence[Sequence[Block]]
    ) -> _Chosen:
        """Return the best certified candidate; Waterfilling if there is none better."""
        workloads = [m.workload for m in collective for _ in m.shares]
        shares = [share for m in collective for share in m.shares]
        poured = Waterfilling(cache=self.cache).select(workloads, shares)
        plain = _certified(poured, collective)
        if len(shares) == 1 or not plain.errors.any():
            return plain
        counts = np.array([len(member.shares) for member in collective], dtype=np.float64)
        caps = np.minimum(plain.errors, limits)
        weights = counts * (1 + _voices(counts, plain.errors))
        limits = np.where(caps > 0, caps * (1 - ROOM), 1.0)  # Whoever asks nothing has no error.
        best = plain
        for start in self._starts(workloads, poured, starts):
            grams = [2 * start.layout.gram_of(member.workload) for member in collective]
            found = capped(start, Caps(np.array(grams), weights, limits))
            candidate = _certified(_integers(found), collective)
            if (candidate.errors <= caps).all() and weights @ candidate.errors < weights @ (
                best.errors
            ):
                best = candidate
        return best

    def _starts(
        self,
        workloads: Sequence[Workload],
        poured: JointStrategy,
        others: Sequence[Sequence[Block]],
    ) -> Iterator[Draft]:
        """Yield drafts to start from: Utilitarian, and half of it with half of Waterfilling."""
        together = stacked(workloads)
        try:
            best = select(together, cache=self.cache).blocks
        except NotSupportedError:  # Too large to be selected for as a whole, not one by one.
            return
        half = [
            *_weighted(poured.blocks, poured.sensitivity, Fraction(1, 2)),
            *_weighted(best, S, Fraction(1, 2)),
        ]
        layout = covering(together, (*poured.blocks, *best, *(b for o in others for b in o)))
        if sum(scope.groups for scope in layout.scopes) <= MOVE_ROWS:
            for blocks in (best, half, *others):
                yield draft_of(blocks, layout)


def _certified(strategy: JointStrategy, collective: Collective) -> _Chosen:
    """Return a strategy with each member's error, recomputed from its integers."""
    workloads = [member.workload for member in collective]
    reading = read_by_all(strategy.blocks, strategy.sensitivity, len(workloads))
    return _Chosen(reading, np.array(expected_errors(reading, workloads, _total(collective))))


def _voices(counts: Matrix, errors: Matrix) -> Matrix:
    """Return ``VOICE mean(wf) / wf_j``; 0 for whoever has no error."""
    mean = VOICE * float(counts @ errors) / float(counts.sum())
    return np.where(errors > 0, mean / np.where(errors > 0, errors, 1.0), 0.0)


def _ratios(errors: Matrix, others: Matrix) -> Matrix:
    return (errors + TINY) / (others + TINY)


def _collective(workloads: Sequence[Workload], shares: Sequence[Fraction]) -> Collective:
    """Return the analysts in an order of their own, equal workloads together."""
    found: dict[str, list[Fraction]] = {}
    known = {}
    for workload, share in zip(workloads, shares, strict=True):
        found.setdefault(workload.fingerprint, []).append(share)
        known[workload.fingerprint] = workload
    return tuple(_Member(known[key], tuple(sorted(found[key]))) for key in sorted(found))


def _smaller(collective: Collective) -> Iterator[tuple[Collective, list[int], _Member]]:
    """Yield each collective with one analyst less, where its members were, and who is left out."""
    for number, member in enumerate(collective):
        for place in range(len(member.shares)):
            if place > 0 and member.shares[place] == member.shares[place - 1]:
                continue
            rest = member.shares[:place] + member.shares[place + 1 :]
            smaller = [*collective]
            smaller[number] = _Member(member.workload, rest)
            places = [n for n, each in enumerate(smaller) if each.shares]
            left_out = _Member(member.workload, (member.shares[place],))
            if places:
                yield tuple(smaller[n] for n in places), places, left_out


def _in_proportion(collective: Collective) -> Collective:
    """Return a collective with its shares scaled to sum to 1."""
    total = _total(collective)
    return tuple(
        _Member(member.workload, tuple(share / total for share in member.shares))
        for member in collective
    )


def _total(collective: Collective) -> Fraction:
    return sum((share for member in collective for share in member.shares), Fraction(0))


def _weighted(blocks: Sequence[Block], sensitivity: int, share: Fraction) -> list[Block]:
    """Return blocks scaled so that their columns sum to ``share``."""
    return [Block(b.marginal, b.matrix * float(share / sensitivity)) for b in blocks]


def _integers(draft: Draft) -> JointStrategy:
    blocks = rounded(draft, total=FINE, finest=FINEST)
    expanded = (block.expanded(alone=len(blocks) == 1) for block in blocks)
    return read_by_all([part for block in expanded for part in split_by_scope(block)], FINE, 1)
