"""What if: the plan as it would be with other analysts, shares or epsilon.  Nothing is spent.

Changes apply in this order: analysts leave, analysts join, shares are set, epsilon is set.
Whoever leaves or joins changes the shares of the others in proportion; a newcomer takes an equal
share unless one is named.  Shares that are named are exact, and the others share the rest in
proportion to what they had.  A changed plan is looked at as if nothing had been released.

Strategies do not depend on epsilon, and every RMSE is proportional to 1 / epsilon.  So the least
epsilon that meets a target is known from one preview: ``epsilon max(rmse / target)``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

from sqlmadp.errors import ProgrammingError
from sqlmadp.files.analysts import Analyst
from sqlmadp.files.plan import Plan
from sqlmadp.release.bound_plan import Asked
from sqlmadp.release.certificate import Certificate
from sqlmadp.release.preview import Previews

DIGITS = 6
"""Significant digits of a least epsilon, rounded up."""


@dataclass(frozen=True, kw_only=True)
class Changes:
    """How a plan is to be changed."""

    without: Sequence[str] = ()
    joining: Mapping[str, Path] = field(default_factory=dict)
    """Newcomers by name, each with a file of statements."""
    shares: Mapping[str, Fraction] = field(default_factory=dict)
    epsilon: Fraction | None = None

    def apply(self, plan: Plan) -> Plan:
        """Return the changed plan, measured at once; the plan itself if nothing is changed."""
        if not (self.without or self.joining or self.shares or self.epsilon):
            return plan
        members = {analyst.name: analyst for analyst in plan.analysts}
        for name in self.without:
            if name not in members:
                raise ProgrammingError(f"no analyst {name!r} in the plan; {_known(members)}")
            del members[name]
        members = {each.name: each for each in _in_proportion([*members.values()], Fraction(1))}
        for name, file in self.joining.items():
            if name in members:
                raise ProgrammingError(f"there is an analyst {name!r} in the plan already")
            share = Fraction(1, len(members) + 1)
            others = _in_proportion([*members.values()], 1 - share)
            newcomer = Analyst(name=name, files=(file,), share=share)
            members = {each.name: each for each in (*others, newcomer)}
        analysts = _with_shares(members, self.shares)
        epsilon = self.epsilon or plan.epsilon
        return replace(plan, analysts=analysts, epsilon=epsilon, late=False)


def least_epsilons(previews: Previews, targets: Mapping[str, float]) -> dict[str, Fraction]:
    """Return, by mechanism, the least epsilon that meets the targets; nothing without targets."""
    if targets and (base := previews.base) is not None:
        raise ProgrammingError(
            f"a target names the least epsilon of a plan that is measured at once, but this one "
            f"adds {', '.join(base.newcomers(previews.asked.plan))} to the release of {base.time}; "
            "write late = false in the plan to see what measuring everything anew would take"
        )
    return {
        name: least_epsilon(previews.asked, each, targets)
        for name, each in previews.items()
        if targets and isinstance(each, Certificate)
    }


def least_epsilon(asked: Asked, preview: Certificate, targets: Mapping[str, float]) -> Fraction:
    """Return the least epsilon with which the RMSE of every named query meets its target.

    A target names a query, of whichever analysts have one of that name, or ``analyst.query``.
    """
    needed = Fraction(0)
    for name, target in targets.items():
        found = [
            query.rmse
            for analyst, standing in preview.analysts.items()
            for query in standing.statements
            if name in (query.name, f"{analyst}.{query.name}")
        ]
        if not found:
            listed = [
                f"{analyst}.{query.name}"
                for analyst, standing in preview.analysts.items()
                for query in standing.statements
            ]
            raise ProgrammingError(
                f"no query named {name!r}. Queries in this plan: {', '.join(listed)}"
            )
        needed = max(needed, asked.plan.epsilon * Fraction(max(found)) / Fraction(target))
    return rounded_up(needed)


def rounded_up(number: Fraction) -> Fraction:
    """Return the least decimal of some significant digits that is not below ``number``."""
    if number == 0:
        return number
    places = DIGITS - 1 - math.floor(math.log10(number))
    scale = Fraction(10) ** places
    return Fraction(math.ceil(number * scale)) / scale


def _in_proportion(analysts: Sequence[Analyst], whole: Fraction) -> list[Analyst]:
    """Return the analysts with shares in the same proportions that sum to ``whole``."""
    total = sum((each.share for each in analysts), Fraction(0))
    return [replace(each, share=each.share * whole / total) for each in analysts]


def _with_shares(
    members: Mapping[str, Analyst], shares: Mapping[str, Fraction]
) -> tuple[Analyst, ...]:
    if unknown := [name for name in shares if name not in members]:
        raise ProgrammingError(f"no analyst {unknown[0]!r} in the plan; {_known(members)}")
    if not members:
        raise ProgrammingError("without these analysts nobody is left")
    left = 1 - sum(shares.values(), Fraction(0))
    others = [each for name, each in members.items() if name not in shares]
    if left < 0 or (left > 0) != bool(others):
        raise ProgrammingError(
            f"the shares given sum to {1 - left}; all shares together must sum to exactly 1, "
            f"and nobody's may be 0"
        )
    named = {name: replace(members[name], share=share) for name, share in shares.items()}
    rest = {each.name: each for each in _in_proportion(others, left)}
    return tuple((named | rest)[name] for name in members)


def _known(members: Mapping[str, Analyst]) -> str:
    return f"there are {', '.join(members)}" if members else "nobody is left"
