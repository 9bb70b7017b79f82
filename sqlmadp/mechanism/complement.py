"""Complement: what late analysts measure, given everything that was measured before they came.

Earlier measurements stay.  Scaled to noise of variance 1 their rows are K, with Gram matrix
``X_0 = K^T K``.  Late analysts bring epsilon' of their own for one more strategy A of sensitivity
t, measured with noise of variance ``v = 2 (t / epsilon')^2``.  Least squares over both gives j

    e_j = trace(W_j (X_0 + A^T A / v)^- W_j^T),

which is never more than without A: nobody's error rises, whatever A is.  Of several A, all of
integers, the one of least weighted error is chosen among those with which no late analyst does
worse than by pouring in, which is what the late analysts would measure without the others:

    poured in   the late analysts' own strategies with their shares (Waterfilling)
    for all     the strategy selected for everybody's queries
    mixtures    of the two
    searched    the best of these, improved row by row given X_0

So a late analyst does no worse than alone with the own part, where X_0 is missing.  With an empty
history this would leave nobody worse off than Waterfilling; other mechanisms promise more for that
case, so a first release is selected by the mechanism itself.

Errors here are variances, with all noise: for epsilon as given, not per unit of share.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from sqlmadp.mechanism.base import one_thread
from sqlmadp.mechanism.capped import acceptable, best_of, draft_near, least_capped
from sqlmadp.mechanism.collective import Collective, Joint
from sqlmadp.mechanism.fairness import noise_variance
from sqlmadp.mechanism.pour import pour
from sqlmadp.solve.products import solution_of
from sqlmadp.strategy.cache import Entry
from sqlmadp.strategy.integers import Strategy
from sqlmadp.table.products import Products
from sqlmadp.table.rows import Rows
from sqlmadp.table.runs import Floats

MIXTURES = (Fraction(1, 8), Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
"""Parts of the strategy for everybody that are tried in mixtures with what is poured in."""

RULE = "complement"
"""What the cache calls it."""


@dataclass(frozen=True, eq=False)
class Added:
    """What late analysts measure, and everybody's error with it and with what is known."""

    strategy: Joint
    """Its blocks are those of the new measurement alone; everybody reads them."""
    errors: Floats
    """One variance per analyst, of all noise."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Complement:
    """Chooses what late analysts measure, given ``known`` rows whose noise has variance 1."""

    known: Sequence[Rows]

    def select(self, collective: Collective, epsilons: Sequence[Fraction | None]) -> Added:
        """Return the strategy that late analysts add; ``epsilons`` is None for who was in before.

        The collective's own shares are not used: whoever is in brings nothing, and late analysts
        bring their epsilon.
        """
        shares = [epsilon or Fraction(0) for epsilon in epsilons]
        root = math.sqrt(noise_variance(Fraction(1)))
        listed = collective.of(
            range(len(collective)), shares=shares, known=[rows.times(root) for rows in self.known]
        )
        everyone = listed.arranged
        late = [n for n, share in enumerate(everyone.shares) if share]
        with one_thread():
            own = everyone.of(late, known=()).poured
            poured = everyone.read_by_all(own.blocks, own.total)
            caps = np.full(len(everyone), np.inf)
            caps[late] = poured.errors[late]
            best = _stored(everyone, caps) or _chosen(everyone, poured, caps)
        places = np.argsort(listed.arrangement).tolist()
        errors = noise_variance(Fraction(1)) * best.errors
        strategy = replace(best, errors=errors).rearranged(places)
        return Added(strategy, strategy.errors)

    def errors(
        self, added: Added | None, workloads: Sequence[Sequence[Rows]], epsilon: Fraction
    ) -> Floats:
        """Return the variances of workloads with what was added for ``epsilon``, or without it."""
        blocks = list(self.known)
        if added is not None:
            scale = float(epsilon / added.strategy.total) / math.sqrt(noise_variance(Fraction(1)))
            blocks += [block.times(scale) for block in added.strategy.blocks]
        with one_thread():
            return solution_of(blocks).errors(workloads)


def _stored(everyone: Collective, caps: Floats) -> Joint | None:
    """Return the cached strategy of late analysts if its errors, recomputed, are within caps."""
    entry = everyone.restored(RULE)
    if entry is None or len(entry.strategies) != 1:
        return None
    [strategy] = entry.strategies
    found = everyone.read_by_all(strategy.blocks, strategy.total)
    return found if acceptable(everyone, found, caps) else None


def _chosen(everyone: Collective, poured: Joint, caps: Floats) -> Joint:
    """Return the best of all candidates; it is stored."""
    best = best_of(everyone, _mixtures(everyone, poured), caps, poured)
    best = best_of(everyone, _searched(everyone, best, caps), caps, best)
    everyone.store(RULE, Entry((Strategy(best.blocks, best.total),)))
    return everyone.read_by_all(best.blocks, best.total)  # As if it had been stored.


def _mixtures(everyone: Collective, poured: Joint) -> Iterator[Joint]:
    """Yield the strategy selected for everybody, and mixtures of it with what is poured in."""
    if not poured.errors.any():
        return
    best = everyone.for_all
    if best is None:
        return
    if any(isinstance(b, Products) for b in (*best.blocks, *poured.blocks, *everyone.known)):
        return  # Errors of such a strategy take a solve per query.
    yield everyone.read_by_all(best.blocks, best.total)
    for part in MIXTURES:
        ratio = (1 - part) / part * Fraction(best.total, poured.total)
        factors = [ratio.numerator, ratio.denominator]
        blocks = pour([Strategy(poured.blocks, poured.total), best], factors)
        total = poured.total * factors[0] + best.total * factors[1]
        yield everyone.read_by_all(blocks, total)


def _searched(everyone: Collective, start: Joint, caps: Floats) -> Iterator[Joint | None]:
    """Yield what searches from a strategy find: rows and weights, or weights if it is large."""
    if not start.errors.any() or any(isinstance(block, Products) for block in start.blocks):
        return
    draft = draft_near(everyone, start)
    yield least_capped(everyone, draft, caps, move=not draft.fixed)
