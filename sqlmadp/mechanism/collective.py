"""A collective: who takes part, with analysts who ask the same counted together.

Analysts with equal workloads have equal errors, so all that a search needs of them is their
number and their shares.  Members are kept in an order of their own: the order in which analysts
are listed does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sqlmadp.mechanism.base import JointStrategy, read_by_all
from sqlmadp.mechanism.fairness import expected_errors
from sqlmadp.schema.kronecker import scaled
from sqlmadp.schema.marginal import Block
from sqlmadp.workload.workload import Workload, stacked

Matrix = NDArray[np.float64]
Key = tuple[tuple[str, tuple[Fraction, ...]], ...]


@dataclass(frozen=True, eq=False)
class Member:
    """Analysts who ask the same."""

    workload: Workload
    shares: tuple[Fraction, ...]
    """One an analyst, smallest first."""


@dataclass(frozen=True, eq=False)
class Chosen:
    """A strategy for a collective, and each member's error with the collective's shares."""

    strategy: JointStrategy
    errors: Matrix


@dataclass(frozen=True, eq=False)
class Collective:
    """Everyone who takes part."""

    members: tuple[Member, ...]

    @classmethod
    def of(cls, workloads: Sequence[Workload], shares: Sequence[Fraction]) -> Collective:
        """Return the collective of some analysts."""
        found: dict[str, list[Fraction]] = {}
        known = {}
        for workload, share in zip(workloads, shares, strict=True):
            found.setdefault(workload.fingerprint, []).append(share)
            known[workload.fingerprint] = workload
        return cls(tuple(Member(known[key], tuple(sorted(found[key]))) for key in sorted(found)))

    @property
    def total(self) -> Fraction:
        """Return the sum of all shares."""
        return sum((share for member in self.members for share in member.shares), Fraction(0))

    @property
    def key(self) -> Key:
        """Return what collectives with the same workloads have in common: proportions."""
        return tuple(
            (member.workload.fingerprint, tuple(share / self.total for share in member.shares))
            for member in self.members
        )

    @property
    def counts(self) -> Matrix:
        """Return the number of analysts of each member."""
        return np.array([len(member.shares) for member in self.members], dtype=np.float64)

    @property
    def workloads(self) -> list[Workload]:
        """Return everyone's workload, analyst by analyst."""
        return [member.workload for member in self.members for _ in member.shares]

    @property
    def shares(self) -> list[Fraction]:
        """Return everyone's share, in the order of `workloads`."""
        return [share for member in self.members for share in member.shares]

    def together(self) -> Workload:
        """Return everyone's queries as one workload."""
        return stacked(self.workloads)

    def certified(self, strategy: JointStrategy) -> Chosen:
        """Return a strategy with each member's error, recomputed from its integers."""
        workloads = [member.workload for member in self.members]
        reading = read_by_all(strategy.blocks, strategy.sensitivity, len(workloads))
        return Chosen(reading, np.array(expected_errors(reading, workloads, self.total)))

    def smaller(self) -> Iterator[tuple[Collective, list[int], Member]]:
        """Yield each collective with one analyst less, its members' places here, and who left.

        Analysts who ask the same with the same share leave the same collective behind: one of
        them is enough.
        """
        for number, member in enumerate(self.members):
            for place, share in enumerate(member.shares):
                rest = member.shares[:place] + member.shares[place + 1 :]
                left = [*self.members]
                left[number] = Member(member.workload, rest)
                places = [n for n, each in enumerate(left) if each.shares]
                if places and share not in member.shares[:place]:
                    smaller = Collective(tuple(left[n] for n in places))
                    yield smaller, places, Member(member.workload, (share,))


def weighted(blocks: Sequence[Block], sensitivity: int, share: Fraction) -> list[Block]:
    """Return blocks scaled so that their columns sum to ``share``."""
    return [scaled(block, float(share / sensitivity)) for block in blocks]
