"""Ratchet: analysts join one after the other, and nobody's error ever rises.

Let e_j(k) be analyst j's error once k analysts are in, with their shares of epsilon.  The first one
measures what that analyst would alone.  Joining, analyst k brings a share, and then

    least  sum_j w_j e_j(k)    subject to  e_j(k) <= e_j(k - 1)    for everyone already in
                               and         e_k(k) <= Waterfilling's of the k analysts.

*Pouring in* measures all that was to be measured before, with the same weight, and beside it what
analyst k would measure alone with that share.  It only adds rows, so nobody's error rises and k
does no worse than alone.  It may still miss the last cap: what was chosen before k came
need not hold the rows that k would have shared under Waterfilling, and moving weight there can cost
those already in.  If no candidate meets the cap, that of pouring in takes its place.  Every
candidate is made of integers first, and its errors are recomputed from those.

Guaranteed, by construction:
    ratchet             e_j(n) <= e_j(k) for everyone who was in at k, and every later n;
    sharing incentive   e_k(n) <= e_k(k) <= the error alone with the own share.
Not guaranteed: that nobody would be better off had an earlier analyst never come, since
everything after that would have been chosen otherwise.  The certificate states it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sqlmadp.mechanism.base import Mechanism, registered
from sqlmadp.mechanism.capped import (
    MOVED_VERTICES,
    Draft,
    acceptable,
    best_of,
    draft_over,
    laid_over,
    least_capped,
    mixed,
    side_by_side,
    unpoured,
    within,
)
from sqlmadp.mechanism.collective import Collective, Joint
from sqlmadp.mechanism.pour import pour
from sqlmadp.strategy.cache import Entry
from sqlmadp.strategy.integers import Strategy
from sqlmadp.table.runs import Floats

NEAR = 0.003
"""End the search at a join once the total error is within this part above Utilitarian's."""

STEPS, ROUNDS = 100, 5
"""Search so long at a join."""

_Start = tuple[Draft, bool]
"""A draft to start from, and whether its rows are to be moved."""

LEAD_STEPS = 60
"""Search so long for the least total error without caps, from what it was one analyst before."""


@dataclass(frozen=True, eq=False)
class _In:
    """What is measured once some analysts are in."""

    joint: Joint
    lead: Joint
    """The strategy of least total error for them that was found, whoever pays for it."""


@registered
@dataclass(frozen=True, kw_only=True)
class Ratchet(Mechanism):
    """Least total error at every join that leaves nobody already in worse off."""

    name = "ratchet"
    rule = (
        "the analysts join one after the other, each time with the least error of everybody "
        "together that leaves nobody worse off than before"
    )
    promise = (
        "guaranteed: sharing incentive, and nobody worse off because of somebody who joins after "
        "them"
    )
    ordered = True
    capped_at = "the error before the last analyst joined; for that one, under waterfilling"

    def caps(self, collective: Collective) -> Floats:
        """Return the caps of the last join; that of pouring in where it took the last one's."""
        *before, joint = self.joins(collective)
        joining = max(collective.poured.errors[-1], joint.errors[-1])
        return np.append(before[-1].errors if before else [], joining)

    def _choose(self, collective: Collective) -> Joint:
        return self.joins(collective)[-1]

    def joins(self, collective: Collective) -> list[Joint]:
        """Return the strategy after each analyst joined, read by all who are in."""
        found: list[_In] = []
        for count in range(1, len(collective) + 1):
            inside = collective.of(range(count))
            key = "ratchet", *inside.kinds
            if key not in collective.memory:
                collective.memory[key] = _join(found[-1] if found else None, inside)
            step = collective.memory[key]
            assert isinstance(step, _In)
            found.append(step)
        return [step.joint for step in found]


def _join(before: _In | None, inside: Collective) -> _In:
    """Return the best strategy once the last of the analysts has joined."""
    own = inside.strategies[-1]
    if before is None:
        alone = inside.read_by_all(own.blocks, own.total)
        return _In(alone, alone)
    entry = inside.restored(Ratchet.name)
    found = None if entry is None else _read(entry, before, inside)
    if found is not None:
        return found
    chosen = _searched(before, inside)
    pair = tuple(Strategy(each.blocks, each.total) for each in (chosen.joint, chosen.lead))
    inside.store(Ratchet.name, Entry(pair))
    return _read(Entry(pair), before, inside) or chosen


def _read(entry: Entry, before: _In, inside: Collective) -> _In | None:
    """Return a join, its errors recomputed from integers; None if somebody would be worse off."""
    if len(entry.strategies) != 2:
        return None
    joint, lead = (inside.read_by_all(each.blocks, each.total) for each in entry.strategies)
    promised = np.append(before.joint.errors, inside.alone[-1])
    return _In(joint, lead) if acceptable(inside, joint, promised) else None


def _searched(before: _In, inside: Collective) -> _In:
    poured = _poured_in(before.joint, inside.strategies[-1], inside)
    if not poured.errors.any():  # Nobody asks anything.
        return _In(poured, poured)
    strict = np.append(before.joint.errors, inside.poured.errors[-1])
    loose = np.append(before.joint.errors, max(poured.errors[-1], inside.poured.errors[-1]))
    lead, goal, drafts = _leading(before, poured, inside)
    best = _least(inside, poured, strict, goal, drafts)
    if not within(best.errors, strict):
        best = _least(inside, best, loose, goal, drafts)
    return _In(best, lead)


def _least(
    inside: Collective, first: Joint, caps: Floats, goal: float, drafts: Sequence[_Start]
) -> Joint:
    """Return the best strategy within caps that searches find, or else the first one."""
    best = first
    for draft, move in drafts:
        if within(best.errors, caps) and inside.total(best) <= (1 + NEAR) * goal:
            break
        found = least_capped(inside, draft, caps, move=move, steps=STEPS, rounds=ROUNDS)
        best = best_of(inside, [found], caps, best)
    return best


def _poured_in(before: Joint, own: Strategy, inside: Collective) -> Joint:
    """Return the strategy so far and the joining analyst's own, poured together exactly."""
    earlier = sum(inside.shares[:-1], Fraction(0))
    ratio = earlier * own.total / (inside.shares[-1] * before.total)
    factors = [ratio.numerator, ratio.denominator]
    blocks = pour([Strategy(before.blocks, before.total), own], factors)
    total = before.total * factors[0] + own.total * factors[1]
    return inside.read_by_all(blocks, total)


def _leading(before: _In, poured: Joint, inside: Collective) -> tuple[Joint, float, list[_Start]]:
    """Return a strategy of little total error, that error, and drafts to start from.

    Drafts come with whether their rows are to be moved.
    """
    own = inside.strategies[-1]
    asked = [rows for workload in inside.workloads for rows in workload]
    scopes = {rows.scope for rows in (*poured.blocks, *before.lead.blocks, *own.blocks)}
    layout = laid_over(asked, scopes)
    if layout is None or sum(block.size for block in layout) > MOVED_VERTICES:
        parts = unpoured([Strategy(poured.blocks, poured.total)], [1])
        return poured, 0.0, [(side_by_side(parts), False)]
    none = np.full(len(inside), np.inf)
    if len(layout) == 1:
        share = float(inside.shares[-1] / inside.whole)
        start = mixed(
            [(before.lead.blocks, (1 - share) / before.lead.total), (own.blocks, share / own.total)]
        )
        led = least_capped(inside, draft_over(layout, start), none, steps=LEAD_STEPS, rounds=1)
        lead = poured if led is None else led
    else:
        best = inside.for_all
        lead = poured if best is None else inside.read_by_all(best.blocks, best.total)
        layout = laid_over(asked, scopes | {rows.scope for rows in lead.blocks}) or layout
    goal = inside.total(lead)

    half = mixed([(poured.blocks, 1 / poured.total), (lead.blocks, 1 / lead.total)])
    starts = (half, poured.blocks, lead.blocks)
    return lead, goal, [(draft_over(layout, blocks), True) for blocks in starts]
