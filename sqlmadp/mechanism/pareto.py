"""Pareto: the least total error that leaves nobody worse off than Waterfilling does.

For a collective C with shares s_i, let wf_j(C) be analyst j's error under Waterfilling.  An
*agreement* (see `agreement`) says what a collective and any fewer of its analysts choose; its
``free(C)`` is the least total error within the caps ``e_j <= wf_j(C)``.  Pareto settles on an
agreement for everyone who takes part, N, and

    select(N)   least  sum_j w_j e_j   subject to  e_j <= wf_j(N)
                                       and         e_j <= e_j(free(N but i))   for every other i.

If no strategy that is found meets all caps, the next agreement is tried; the last one is
Waterfilling itself, for N and for every smaller collective.

Guaranteed, by construction:
    against Waterfilling   e_j(N) <= wf_j(N) <= wf_j(N but i): joining never costs anybody what
                           Waterfilling without the newcomer would have given them;
    sharing incentive      e_j(N) <= wf_j(N) <= wf_j({j}), what j's own selection gives j alone;
    within the agreement   e_j(N) <= e_j(free(N but i)): nobody would be better off with one
                           analyst less under the agreement that was settled on.
Not guaranteed: that nobody would be better off if the smaller collective settled on an agreement of
its own.  Pooling is in the way.  Let three ask for one column of two values each, a and b with one
share, c with two.  Without b, a and c gain by pooling what they measure; so do b and c without a;
but c can pool with only one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
import numpy as np

from sqlmadp.mechanism.agreement import Agreement, Constant, OnScopes, Plain, constant_of
from sqlmadp.mechanism.base import Mechanism, registered
from sqlmadp.mechanism.capped import acceptable, within
from sqlmadp.mechanism.collective import Collective, Joint, Workload
from sqlmadp.mechanism.pooling import Pool, pooled_scopes
from sqlmadp.strategy.cache import Entry
from sqlmadp.strategy.integers import Strategy
from sqlmadp.table.partition import Floats

MARGIN = 0.002
"""Aim this part below an error in a smaller collective first."""

PROMISE = (
    "guaranteed: sharing incentive, and nobody worse off than under waterfilling with or without "
    "any one of the others; certified for this plan: nobody better off without any one of the "
    "others, who then keep to what everyone agreed on"
)


@registered
@dataclass(frozen=True, kw_only=True)
class Pareto(Mechanism):
    """Nobody worse off than under Waterfilling, and of all such strategies the least error.

    For a single analyst it is that analyst's own selection.
    """

    name = "pareto"
    rule = (
        "of all choices that leave nobody worse off than waterfilling (equal measurements pooled) "
        "would, the one with the least error of everybody together is taken"
    )
    promise = PROMISE

    def searches(self, collective: Collective) -> list[Workload]:
        """Return everyone's queries as one workload, and every analyst's own."""
        return [*collective.workloads, collective.together]

    def settled(self, collective: Collective) -> Settled:
        """Return the rule with the agreement that suits these analysts."""
        arranged, memory = collective.arranged, collective.memory
        key = self.name, *arranged.kinds
        if key not in memory:
            memory[key] = _settle(arranged)
        found = memory[key]
        assert isinstance(found, Settled)
        return found

    def _choose(self, collective: Collective) -> Joint:
        return self.settled(collective).select(collective)


@dataclass(frozen=True, kw_only=True, eq=False)
class Settled(Mechanism):
    """Pareto under an agreement: what everyone chose, and what fewer of them would choose."""

    name = "pareto"
    promise = PROMISE

    _agreement: Agreement
    _known: dict[tuple[bytes, ...], Joint] = field(default_factory=dict)

    def _choose(self, collective: Collective) -> Joint:
        key = tuple(collective.kinds)
        if key not in self._known:
            self._known[key] = self._agreement.free(collective)
        return self._known[key]

    def interference(self, collective: Collective) -> Floats | None:
        """Return what leaving everyone out once does under one strategy for whoever takes part."""
        if not isinstance(self._agreement, Constant):
            return None
        now = self.select(collective).errors
        same = collective.read_by_all(self._agreement.blocks, self._agreement.total).errors
        found = np.ones((len(collective), len(collective)))
        for i, share in enumerate(collective.shares):
            others = [j for j in range(len(collective)) if j != i]
            if not others:
                continue
            without = collective.poured_without(i)
            left = same[others] / float(1 - share / collective.whole) ** 2
            if len(others) > 1 and within(left, without):
                smaller = collective.of(others)
                joint = smaller.read_by_all(self._agreement.blocks, self._agreement.total, left)
                without = without if smaller.exceeded(joint) else left
            found[i, others] = np.where(
                without > 0, now[others] / np.where(without > 0, without, 1), 1.0
            )
        return found


def _settle(everyone: Collective) -> Settled:
    """Return the rule that analysts settle on, checked with errors recomputed from integers."""
    entry = everyone.restored(Pareto.name)
    found = None if entry is None else _read(entry, everyone)
    if found is None:
        entry = _written(everyone, _searched(everyone))
        everyone.store(Pareto.name, entry)
        found = _read(entry, everyone)
    if found is None:  # Rounding put an error above its cap.
        found = Settled(_agreement=Plain(), _known={tuple(everyone.kinds): everyone.poured})
    return found


def _searched(everyone: Collective) -> Settled:
    poured = everyone.poured
    kinds = tuple(everyone.kinds)
    if len(everyone) == 1 or not poured.errors.any():
        return Settled(_agreement=Plain(), _known={kinds: poured})
    offers: list[tuple[Agreement, Joint]] = [
        (each, each.free(everyone)) for each in _agreements(everyone)
    ]
    constant = constant_of(everyone) if not offers or len(everyone.columns) > 1 else None
    if constant is not None:
        offers.append((constant, constant.free(everyone)))
    offers.sort(key=lambda offer: float(everyone.importance @ offer[1].errors))
    for agreement, chosen in offers:
        if not isinstance(agreement, OnScopes):
            return Settled(_agreement=agreement, _known={kinds: chosen})
        settled = _capped(agreement, everyone, chosen)
        if settled is not None:
            return settled
    return Settled(_agreement=Plain(), _known={kinds: poured})


class _Words(msgspec.Struct):
    """What was agreed on, beside strategies: a constant one, or one per collective."""

    constant: bool = False
    scopes: list[tuple[str, ...]] = []
    search: bool = True
    kinds: list[list[str]] = []
    """Of every collective's analysts, in hexadecimal digits; of everyone first."""


def _written(everyone: Collective, settled: Settled) -> Entry:
    agreement, known = settled._agreement, dict(settled._known)
    strategies: list[Strategy] = []
    words = _Words()
    if isinstance(agreement, Constant):
        strategies = [Strategy(agreement.blocks, agreement.total)]
        words = _Words(constant=True)
    elif isinstance(agreement, OnScopes):
        first = tuple(everyone.kinds)
        order = [first, *sorted(known.keys() - {first})]
        strategies = [Strategy(known[kinds].blocks, known[kinds].total) for kinds in order]
        names = [[kind.hex() for kind in kinds] for kinds in order]
        words = _Words(scopes=list(agreement.scopes), search=agreement.search, kinds=names)
    return Entry(tuple(strategies), (msgspec.json.encode(words).decode(),))


def _read(entry: Entry, everyone: Collective) -> Settled | None:
    """Return what was settled on; None if it is not for these analysts or exceeds a cap."""
    try:
        words = msgspec.json.decode(entry.words[0], type=_Words)
    except (msgspec.DecodeError, IndexError):
        return None
    first, poured = tuple(everyone.kinds), everyone.poured
    if words.constant and len(entry.strategies) == 1:
        [strategy] = entry.strategies
        agreement = Constant(strategy.blocks, strategy.total)
        return Settled(_agreement=agreement, _known={first: agreement.free(everyone)})
    if not words.kinds:
        return Settled(_agreement=Plain(), _known={first: poured})
    collectives = {first: everyone}
    for i in sorted({everyone.kinds.index(kind) for kind in everyone.kinds}):
        smaller = everyone.without(i).arranged
        collectives[tuple(smaller.kinds)] = smaller
    stored = {
        tuple(bytes.fromhex(kind) for kind in kinds): strategy
        for kinds, strategy in zip(words.kinds, entry.strategies, strict=False)
    }
    if stored.keys() != collectives.keys():
        return None
    known = {}
    least = dict(zip(everyone.kinds, poured.errors, strict=True))
    for kinds, collective in collectives.items():
        own = collective.read_by_all(stored[kinds].blocks, stored[kinds].total)
        if kinds != first:
            if not acceptable(collective, own, collective.poured.errors):
                return None
            for kind, error in zip(kinds, own.errors, strict=True):
                least[kind] = min(least[kind], error)
        known[kinds] = own
    caps = np.array([least[kind] for kind in everyone.kinds])
    if not acceptable(everyone, known[first], caps):
        return None
    rule = OnScopes(tuple(words.scopes), words.search, known[first].blocks)
    return Settled(_agreement=rule, _known=known)


def _agreements(everyone: Collective) -> Iterator[OnScopes]:
    """Yield the scopes that could be agreed on: pooled by parts, or those of Utilitarian."""
    own = {block.scope for strategy in everyone.strategies for block in strategy.blocks} - {()}
    pooled = tuple(pooled_scopes(Pool.of(everyone)))
    choices = [OnScopes(pooled)]
    if len(own) > 1:
        best = everyone.select(everyone.together)
        both = own | ({block.scope for block in best.blocks} - {()})
        choices += [OnScopes(pooled, search=False), OnScopes(tuple(sorted(both)))]
    for choice in choices:
        if choice.layout(everyone) is not None:
            yield choice


def _capped(agreement: OnScopes, everyone: Collective, chosen: Joint) -> Settled | None:
    """Return the least error with caps from every smaller collective; None if none is found."""
    rule = OnScopes(agreement.scopes, agreement.search, chosen.blocks)
    known: dict[tuple[bytes, ...], Joint] = {}
    least: dict[bytes, float] = {}
    for i in sorted({everyone.kinds.index(kind) for kind in everyone.kinds}):
        smaller = everyone.without(i).arranged
        without = known[tuple(smaller.kinds)] = rule.free(smaller)
        for kind, error in zip(smaller.kinds, without.errors, strict=True):
            least[kind] = min(least.get(kind, np.inf), float(error))
    limits = np.minimum(everyone.poured.errors, [least[kind] for kind in everyone.kinds])
    for slack in (1.0, 1 - MARGIN, 1.0):
        if within(chosen.errors, limits):
            return Settled(_agreement=rule, _known=known | {tuple(everyone.kinds): chosen})
        chosen = agreement.least(everyone, limits * slack, [chosen.blocks])
    return None
