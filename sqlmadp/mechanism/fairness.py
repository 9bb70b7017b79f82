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

from sqlmadp.mechanism.base import Mechanism
from sqlmadp.mechanism.collective import Collective, Joint
from sqlmadp.mechanism.waterfilling import ratio
from sqlmadp.table.partition import Floats

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
        return float(self.unit * (self.collective.importance @ self.strategy.errors))

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
    """Return what errors of a collective are multiplied by, for a budget of everyone together."""
    return noise_variance(epsilon / collective.whole) if collective.units is None else 1.0


def noise_variance(epsilon: Fraction) -> float:
    """Return the variance of Laplace noise of scale ``1 / epsilon``."""
    return 2 / float(epsilon) ** 2


def _worst(interference: Floats) -> float:
    apart = interference[~np.eye(len(interference), dtype=np.bool_)]
    return float(apart.max()) if apart.size else 1.0
