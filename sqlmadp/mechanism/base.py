"""What a mechanism is: a rule that selects one strategy for everyone, without data.

A mechanism sees workloads and shares, never records.  What it selects also says which
blocks each analyst reconstructs from; that is what lets all mechanisms, Independent
included, go through a single measurement.

[PWFM21] Pujol, Wu, Fain, Machanavajjhala, "Budget Sharing for Multi-Analyst Differential
Privacy", PVLDB 14(10), 2021, doi:10.14778/3467861.3467870.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.errors import ProgrammingError
from sqlmadp.schema.kronecker import KroneckerBlock
from sqlmadp.schema.marginal import Block, CellBlock
from sqlmadp.strategy.integer import S
from sqlmadp.strategy.select import Strategy
from sqlmadp.workload.workload import Workload

MOST_SENSITIVITY = (1 << 31) - 1
"""Entries of a strategy stay below this when it is measured, since its columns do."""

MOST_PARTS = (1 << 31) // S - 1
"""Equal parts of the budget that shares may need: entries stay below 2^31 when measured."""


@dataclass(frozen=True, eq=False)
class JointStrategy:
    """What everyone measures together, and who reads which part."""

    blocks: tuple[Block, ...]
    sensitivity: int
    """For expected errors only; `private.measure` recomputes it and relies on no claim."""
    reads: tuple[tuple[int, ...], ...]
    """For each analyst, the numbers of the blocks that answers are reconstructed from."""
    plainer: tuple[str, ...] = ()
    """Where a full search would take too much work, and a plainer choice was made: in words.

    It is decided by sizes and iterations before any search, never by elapsed time, so that the
    same plan is served alike on every machine.  The certificate says it.
    """

    def read_by(self, analyst: int) -> tuple[Block, ...]:
        """Return the blocks that one analyst reads."""
        return tuple(self.blocks[number] for number in self.reads[analyst])


class Mechanism(Protocol):
    """A rule that selects a strategy from workloads and shares."""

    def select(self, workloads: Sequence[Workload], shares: Sequence[Fraction]) -> JointStrategy:
        """Return one strategy for everyone; shares need not sum to 1."""


@runtime_checkable
class Settling(Protocol):
    """A mechanism that settles on one of several rules by looking at everyone who takes part."""

    def settle(self, workloads: Sequence[Workload], shares: Sequence[Fraction]) -> Mechanism:
        """Return the rule for these analysts, and for any fewer of them."""


@runtime_checkable
class Joining(Protocol):
    """A mechanism in which analysts join one after the other, so that their order matters."""

    def joins(
        self, workloads: Sequence[Workload], shares: Sequence[Fraction]
    ) -> list[JointStrategy]:
        """Return what is measured after each analyst joined, read by all who are in."""


@runtime_checkable
class LeavingOut(Protocol):
    """A mechanism that may know what leaving somebody out does without selecting anew."""

    def interference(
        self, workloads: Sequence[Workload], shares: Sequence[Fraction]
    ) -> NDArray[np.float64] | None:
        """Return ``[i, j]``, by which ratio i's joining changes j's error; None if not known.

        Rows without numbers are not known either.
        """


def settled(
    mechanism: Mechanism, workloads: Sequence[Workload], shares: Sequence[Fraction]
) -> Mechanism:
    """Return a mechanism as it is for these analysts and for any fewer of them."""
    if isinstance(mechanism, Settling):
        return mechanism.settle(workloads, shares)
    return mechanism


def whole_shares(shares: Sequence[Fraction]) -> list[int]:
    """Return the smallest integers in the same proportions as ``shares``."""
    denominator = math.lcm(*(share.denominator for share in shares))
    parts = [int(share * denominator) for share in shares]
    divisor = math.gcd(*parts)
    if sum(parts) // divisor > MOST_PARTS:
        raise ProgrammingError(
            f"the shares {', '.join(str(share) for share in shares)} divide the budget into "
            f"{sum(parts) // divisor:,} equal parts; at most {MOST_PARTS:,} are supported. "
            f"Choose shares with a smaller common denominator."
        )
    return [part // divisor for part in parts]


def poured_weights(
    strategies: Sequence[Strategy], shares: Sequence[Fraction]
) -> tuple[list[int], int]:
    """Return by what each strategy is multiplied, exactly in proportion, and what they sum to."""
    whole = max(strategy.total for strategy in strategies)
    parts = whole_shares(shares)
    if sum(parts) * whole > MOST_SENSITIVITY:
        raise ProgrammingError(
            f"the shares {', '.join(str(share) for share in shares)} divide the budget into "
            f"{sum(parts):,} equal parts; for scopes as large as those asked about, at most "
            f"{MOST_SENSITIVITY // whole:,} are supported. Choose shares with a smaller common "
            f"denominator."
        )
    factors = [p * (whole // s.total) for p, s in zip(parts, strategies, strict=True)]
    return factors, sum(parts) * whole


def lowest_terms(
    blocks: Sequence[Block], sensitivity: int, reads: Sequence[tuple[int, ...]]
) -> JointStrategy:
    """Divide a strategy by the largest integer that divides all of it."""
    divisor = math.gcd(*(_divisor(block) for block in blocks))
    divided = (_divided(block, divisor) for block in blocks)
    return JointStrategy(tuple(divided), sensitivity // divisor, tuple(reads))


def read_by_all(blocks: Sequence[Block], sensitivity: int, analysts: int) -> JointStrategy:
    """Return a strategy, in lowest terms, that every analyst reads all of."""
    return lowest_terms(blocks, sensitivity, [tuple(range(len(blocks)))] * analysts)


def _divisor(block: Block) -> int:
    if isinstance(block, CellBlock):
        return int(block.weight)
    if isinstance(block, KroneckerBlock):
        return int(np.gcd.reduce(block.heights.reshape(-1)))
    return int(np.gcd.reduce(block.matrix.data))


def _divided(block: Block, divisor: int) -> Block:
    if isinstance(block, CellBlock):
        return CellBlock(block.marginal, int(block.weight) // divisor)
    if isinstance(block, KroneckerBlock):
        return KroneckerBlock(block.marginal, block.factors, block.heights // divisor)
    matrix = block.matrix
    parts = (matrix.data // divisor, matrix.indices, matrix.indptr)
    return Block(block.marginal, sparse.csr_array(parts, shape=matrix.shape, dtype=np.int64))
