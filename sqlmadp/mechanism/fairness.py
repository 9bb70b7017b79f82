"""Expected errors, and both fairness measures, of a mechanism before anything is measured.

    Err_i  = 2 (sensitivity / epsilon)^2  sum over the queries w of W_i of  w (A^T A)^- w^T

A holds the rows that analyst i reads.  With s_i the shares:

    sharing ratio   Err_i(M, all, epsilon) / Err_i(M, {W_i}, s_i epsilon)
    interference    I_i(j) = Err_j(M, all, epsilon) / Err_j(M, all but i, (1 - s_i) epsilon)

A ratio above 1 is a violation.  Nothing is clipped.  Selection is deterministic, so leaving an
analyst out holds everybody else's own strategy fixed.  A mechanism may settle on one of several
rules by looking at everyone; *interference* then lets those who are left settle anew, and
*interference within agreement* keeps them to the rule that everyone settled on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from sqlmadp.mechanism.base import Mechanism, one_thread
from sqlmadp.mechanism.capped import best_of, draft_near, least_capped
from sqlmadp.mechanism.collective import Collective, Joint
from sqlmadp.mechanism.utilitarian import least_found
from sqlmadp.mechanism.waterfilling import ratio
from sqlmadp.solve.residual import Residuals
from sqlmadp.solve.solution import assembled
from sqlmadp.strategy.layout import as_asked, written_out
from sqlmadp.table.rows import Rows
from sqlmadp.table.runs import Floats

MOST_COORDINATES = 2048
"""Work out singular values in spaces of at most this many coordinates."""

AT_CAP = 1e-3
"""Take an error to be at its cap if it is below by at most this part."""

Progress = Callable[[int, int], None]
"""Told how many analysts were left out, and of how many."""


def _silent(done: int, total: int) -> None:
    pass


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a mechanism would give every analyst; interference is worked out when asked for."""

    mechanism: Mechanism
    collective: Collective
    epsilon: Fraction
    """The budget of everyone together."""
    progress: Progress = field(default=_silent, repr=False)

    @cached_property
    def _settled(self) -> Mechanism:
        return self.mechanism.settled(self.collective)

    @cached_property
    def strategy(self) -> Joint:
        """What everyone measures together, and who reads which blocks."""
        return self._settled.select(self.collective)

    @property
    def unit(self) -> float:
        """What an error of 1 in the units of the collective stands for: a variance, if it is one.

        Errors that are relative to something else do not depend on epsilon.
        """
        return unit(self.collective, self.epsilon)

    @property
    def _units(self) -> Floats:
        own = self.collective.units
        return self.unit * (np.ones(len(self.collective)) if own is None else own)

    @cached_property
    def errors(self) -> tuple[float, ...]:
        """Each analyst's expected error, summed over queries, in the collective."""
        return tuple(float(error) for error in self._units * self.strategy.errors)

    @cached_property
    def alone(self) -> tuple[float, ...]:
        """The same with the analyst's own share and nobody else."""
        known: dict[bytes, float] = {}
        for n, kind in enumerate(self.collective.kinds):
            if kind not in known:
                single = self.mechanism.select(self.collective.of([n]))
                known[kind] = float(self._units[n] * single.errors[0])
        return tuple(known[kind] for kind in self.collective.kinds)

    @property
    def total_error(self) -> float:
        """Everyone's expected error, added up by importance."""
        return self.unit * self.collective.total(self.strategy)

    @property
    def ratios(self) -> tuple[float, ...]:
        """Each analyst's sharing ratio."""
        return tuple(ratio(e, a) for e, a in zip(self.errors, self.alone, strict=True))

    @property
    def sharing_ratio(self) -> float:
        """The largest sharing ratio."""
        return max(self.ratios)

    @cached_property
    def interference(self) -> Floats:
        """``[i, j]``: the ratio by which analyst i's joining changes analyst j's error.

        The mechanism is run from scratch without i; 1 for i = j.
        """
        return self._left_out(self.mechanism)

    @cached_property
    def interference_within_agreement(self) -> Floats:
        """The same where those who are left keep to what everyone settled on."""
        if self._settled is self.mechanism:
            return self.interference
        return self._left_out(self._settled)

    @property
    def worst_interference(self) -> float:
        """The largest interference between two different analysts (1 for a single one)."""
        return _worst(self.interference)

    @property
    def worst_interference_within_agreement(self) -> float:
        """The largest of those within the agreement."""
        return _worst(self.interference_within_agreement)

    def work_out(self) -> None:
        """Work out everything now."""
        self.errors, self.alone, self.interference, self.interference_within_agreement  # noqa: B018

    def _left_out(self, mechanism: Mechanism) -> Floats:
        collective = self.collective
        count = len(collective)
        at_once = mechanism.interference(collective)
        if at_once is not None:
            return at_once
        found = np.ones((count, count))
        known: dict[object, tuple[int, Floats]] = {}
        for i in range(count if count > 1 else 0):
            self.progress(i, count)
            # Where order does not matter, analysts of one kind leave the same collective behind.
            key = i if mechanism.ordered else collective.kinds[i]
            if key not in known:
                known[key] = i, mechanism.select(collective.without(i)).errors
            first, without = known[key]
            others = [j for j in range(count) if j != i]
            if mechanism.ordered:
                left = dict(zip(others, without, strict=True))
                found[i, others] = [ratio(self.strategy.errors[j], left[j]) for j in others]
            else:
                kinds = [kind for n, kind in enumerate(collective.kinds) if n != first]
                by_kind = dict(zip(kinds, without, strict=True))
                found[i, others] = [
                    ratio(self.strategy.errors[j], by_kind[collective.kinds[j]]) for j in others
                ]
        return found


@dataclass(frozen=True)
class Cap:
    """What one analyst's error may be at most, and what that costs everybody."""

    reached: float
    """The error in units of the cap: 1 where it binds."""
    cost: float
    """By what part the total error that is found would be lower without this cap."""

    @property
    def binds(self) -> bool:
        """Whether the error is at the cap."""
        return self.reached >= 1 - AT_CAP


def explained_caps(given: Outcome) -> list[Cap]:
    """Return every analyst's cap; nothing where a mechanism has none.

    Searched for is the least total error with one cap lifted, starting from the chosen strategy and
    from Utilitarian's; analysts who ask the same are lifted together.
    """
    collective, joint = given.collective, given.strategy
    caps = given.mechanism.caps(collective)
    if caps is None:
        return []
    best = least_found(collective.arranged)
    starts = [joint] if best is None else [joint, best]
    drafts = [draft_near(collective, start) for start in starts]
    costs: dict[int, float] = {}
    found = []
    for place, alike in enumerate(collective.distinct[1]):
        reached = ratio(joint.errors[place], caps[place])
        if reached >= 1 - AT_CAP and alike not in costs:
            lifted = np.where(np.array(collective.distinct[1]) == alike, np.inf, caps)
            tried = (
                least_capped(collective, draft, lifted, move=not draft.fixed, feasible_first=True)
                for draft in drafts
            )
            least = best_of(collective, tried, lifted, joint)
            costs[alike] = 1 - ratio(collective.total(least), collective.total(joint))
        found.append(Cap(reached, costs[alike] if reached >= 1 - AT_CAP else 0.0))
    return found


def outcome(
    mechanism: Mechanism,
    collective: Collective,
    epsilon: Fraction,
    *,
    progress: Progress = _silent,
) -> Outcome:
    """Return the expected errors and fairness measures of a mechanism."""
    return Outcome(mechanism, collective, epsilon, progress)


def unit(collective: Collective, epsilon: Fraction) -> float:
    """Return the factor of a collective's errors, for a budget of everyone together."""
    return noise_variance(epsilon / collective.whole) if collective.units is None else 1.0


def noise_variance(epsilon: Fraction) -> float:
    """Return the variance of Laplace noise of scale ``1 / epsilon``."""
    return 2 / float(epsilon) ** 2


def _worst(interference: Floats) -> float:
    apart = interference[~np.eye(len(interference), dtype=np.bool_)]
    return float(apart.max()) if apart.size else 1.0


@dataclass(frozen=True)
class Bounds:
    """Totals to compare a mechanism's total error with."""

    utilitarian: float | None
    """Utilitarian's total error; None if the collective is too large to search for it."""
    lowest: float | None
    """No mechanism has less total error; None if there are too many coordinates to tell."""

    def beside(self, total: float) -> tuple[float | None, float | None]:
        """Return a total error in units of Utilitarian's, and of the lower bound."""
        return (
            total / self.utilitarian if self.utilitarian else None,
            total / self.lowest if self.lowest else None,
        )


def bounds(collective: Collective, epsilon: Fraction) -> Bounds:
    """Return the totals that any mechanism's total error can be compared with."""
    everyone = collective.arranged
    # `together` weighs errors in units of the least importance, and its budget is 1.
    least = float(everyone.importance.min()) / float(everyone.whole) ** 2
    scale = unit(everyone, epsilon)
    with one_thread():
        found = least_found(everyone)
        root = _sum_of_singular_values(as_asked(everyone.together))
    return Bounds(
        None if found is None else scale * everyone.total(found),
        None if root is None else scale * least * root**2,
    )


def _sum_of_singular_values(workload: list[Rows]) -> float | None:
    """Return the sum of the singular values of a workload; None if there are too many."""
    if written_out(workload) > MOST_COORDINATES:
        return None
    spaces = Residuals(workload)
    if max((space.size for space in spaces.spaces.values()), default=0) > MOST_COORDINATES:
        return None
    gram = spaces.gram(workload)
    # A partial trace adds up a matrix as often as the fine residuals have dimensions.
    total = float(np.sqrt(gram.numbers * spaces.multiplicities).sum())
    for fine, matrix in assembled(spaces, gram).items():
        values = np.sqrt(np.maximum(np.linalg.eigvalsh(matrix), 0)).sum()
        total += spaces.spaces[fine].multiplicity * float(values)
    return total
