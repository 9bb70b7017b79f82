"""Waterfilling: measure each direction once, with the weight of everyone who asked for it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.errors import UnfitPlanError
from sqlmadp.mechanism.base import (
    MOST_SENSITIVITY,
    JointStrategy,
    poured_weights,
    read_by_all,
    whole_shares,
)
from sqlmadp.schema.kronecker import KroneckerBlock, read_as_products, scaled
from sqlmadp.schema.marginal import (
    Block,
    CellBlock,
    Marginal,
    Partition,
    expand,
)
from sqlmadp.strategy.cache import StrategyCache
from sqlmadp.strategy.scopes import split_by_scope
from sqlmadp.strategy.select import select
from sqlmadp.workload.workload import Workload, common

CLOSE_CELLS = 1 << 12
"""Cells of all columns in use up to which rows can be poured that are only close."""


@dataclass(frozen=True, kw_only=True)
class Waterfilling:
    """Select first, then pour: parallel strategy queries share one bucket [PWFM21].

    Each analyst's share is spent on the strategy that analyst would choose alone.  Strategy
    queries that point the same way are poured into one bucket, whoever they came from, and
    each bucket is measured once.  Every column of every strategy sums to exactly S, so pouring
    in one more analyst raises the sensitivity by exactly that analyst's part and every other row
    stays or grows: sharing incentive and non-interference hold exactly at tolerance 0.
    """

    cache: StrategyCache | None = None
    tolerance: float = 0.0
    """0: exactly parallel.  Otherwise the paper's rule: cosine at least ``1 - tolerance``."""

    def select(self, workloads: Sequence[Workload], shares: Sequence[Fraction]) -> JointStrategy:
        """Pour everyone's strategy, scaled by the share, into buckets."""
        strategies = [select(workload, cache=self.cache) for workload in workloads]
        factors, total = poured_weights(strategies, shares)
        blocks = [
            scaled(block, factor)
            for strategy, factor in zip(strategies, factors, strict=True)
            for block in strategy.blocks
        ]
        if self.tolerance == 0:
            return read_by_all(pour(blocks), total, len(workloads))
        together = _over_one_scope(blocks)
        rows = pour_close(together.matrix, self.tolerance)
        # Rows that are only close may cancel where their signs differ.
        sensitivity = int(np.abs(rows).sum(axis=0).max())
        close = split_by_scope(Block(together.marginal, sparse.csr_array(rows)))
        return read_by_all(list(close), sensitivity, len(workloads))


def pour(blocks: Iterable[Block]) -> list[Block]:
    """Return one block a scope, with parallel rows of all blocks added up."""
    parts: dict[tuple[str, ...], list[Block]] = {}
    for block in blocks:
        parts.setdefault(block.marginal.scope, []).append(block)
    return [poured for group in parts.values() for poured in _poured_scope(group)]


def _poured_scope(blocks: Sequence[Block]) -> list[Block]:
    """Return what blocks of one scope are poured into: one block, or products and the rest.

    Products and other rows stay apart.  Where two of them are parallel, both are measured: that is
    less than one bucket would tell, and whoever joins still takes nothing from anybody.
    """
    if not any(isinstance(block, KroneckerBlock) for block in blocks):
        return [_poured(blocks)]
    products: list[KroneckerBlock] = []
    others: list[Block] = []
    for block in blocks:
        read = read_as_products(block)
        if read is None:
            others.append(block)
        else:
            products.append(read)
    return [pour_products(products), *([_poured(others)] if others else [])]


def _poured(blocks: Sequence[Block]) -> Block:
    """Return blocks of one scope as one; the cells of equal marginals just add up."""
    marginal = blocks[0].marginal
    plain = [b.weight for b in blocks if isinstance(b, CellBlock) and b.marginal == marginal]
    if len(plain) == len(blocks):
        return CellBlock(marginal, sum(plain))
    together = stacked_rows(blocks)
    return Block(together.marginal, pour_exact(together.matrix))


Part = tuple[Sequence[Block], int, Fraction]
"""Blocks to be poured with others, their sensitivity, and their share of the whole."""


def pour_together(parts: Sequence[Part], analysts: int) -> JointStrategy:
    """Return several strategies poured into one.

    Exactly: each keeps the weight that its share gives it, and the sensitivities add up.
    """
    scaled_parts, sensitivity = scaled_together(parts)
    blocks = [block for own in scaled_parts for block in own]
    return read_by_all(pour(blocks), sensitivity, analysts)


def scaled_together(parts: Sequence[Part]) -> tuple[list[list[Block]], int]:
    """Return the blocks of every part as integers in exact proportion; and their sensitivity."""
    shares = whole_shares([share for _, _, share in parts])
    unit = math.lcm(*(sensitivity for _, sensitivity, _ in parts))
    factors = [
        share * (unit // sensitivity)
        for share, (_, sensitivity, _) in zip(shares, parts, strict=True)
    ]
    divisor = math.gcd(*factors)
    factors = [factor // divisor for factor in factors]
    sensitivity = sum(f * own for f, (_, own, _) in zip(factors, parts, strict=True))
    if sensitivity > MOST_SENSITIVITY:
        raise UnfitPlanError(
            f"strategies with shares {', '.join(str(share) for _, _, share in parts)} of the whole "
            "cannot be poured into one exactly; choose shares with a smaller common denominator"
        )
    pairs = zip(factors, parts, strict=True)
    return [[scaled(block, factor) for block in own] for factor, (own, _, _) in pairs], sensitivity


def pour_products(blocks: Sequence[KroneckerBlock]) -> KroneckerBlock:
    """Add up parallel rows of Kronecker blocks of one scope, without writing any of them out.

    Products are parallel just when their factor rows are, column by column.  Over dictionaries of
    each column's directions every block is a table of heights, and the tables add up.
    """
    marginal = common([block.marginal for block in blocks])
    factors, numbers, multiples = [], [], []
    for axis, partition in enumerate(marginal.partitions):
        rows = [b.factors[axis][:, b.marginal.partitions[axis].coarsen(partition)] for b in blocks]
        found = buckets(sparse.csr_array(sparse.vstack(rows), dtype=np.int64))
        ends = np.cumsum([block.heights.shape[axis] for block in blocks])[:-1]
        factors.append(found.directions)
        numbers.append(np.split(found.numbers, ends))
        multiples.append(np.split(found.heights, ends))
    heights = np.zeros(tuple(factor.shape[0] for factor in factors), dtype=np.int64)
    for block, places, times in zip(
        blocks, zip(*numbers, strict=True), zip(*multiples, strict=True), strict=True
    ):
        np.add.at(heights, np.ix_(*places), block.heights * reduce(np.multiply.outer, times))
    return KroneckerBlock(marginal, factors, heights)


@dataclass(frozen=True, eq=False)
class Buckets:
    """Rows, none of them zero, sorted into buckets of parallel ones."""

    directions: sparse.csr_array
    """One row a bucket, in lowest terms."""
    numbers: NDArray[np.int64]
    """The bucket of every row."""
    heights: NDArray[np.int64]
    """How often each row holds its direction."""


def pour_exact(rows: sparse.csr_array) -> sparse.csr_array:
    """Add up parallel rows: divide each by its gcd, hash, and add the gcds of equal ones."""
    found = buckets(rows)
    weights = np.zeros(found.directions.shape[0], dtype=np.int64)
    np.add.at(weights, found.numbers, found.heights)
    poured = sparse.diags_array(weights, dtype=np.int64) @ found.directions
    return sparse.csr_array(poured, dtype=np.int64)


def buckets(rows: sparse.csr_array) -> Buckets:
    """Return the bucket of every row that is not zero, in the order of their first rows."""
    rows = rows.copy()
    rows.sum_duplicates()
    rows.eliminate_zeros()
    rows = rows[np.diff(rows.indptr) > 0]
    starts, sizes = rows.indptr[:-1], np.diff(rows.indptr)
    signs = np.sign(rows.data[starts])  # A row and its negative are the same question.
    heights = np.gcd.reduceat(np.abs(rows.data), starts) * signs
    directions = rows.data // np.repeat(heights, sizes)
    found: dict[tuple[bytes, bytes], int] = {}
    first: list[int] = []
    numbers = np.empty(rows.shape[0], dtype=np.int64)
    for row, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        part = slice(start, start + size)
        key = (rows.indices[part].tobytes(), directions[part].tobytes())
        bucket = found.setdefault(key, len(first))
        if bucket == len(first):
            first.append(row)
        numbers[row] = bucket
    primitive = sparse.csr_array((directions, rows.indices, rows.indptr), shape=rows.shape)[first]
    return Buckets(primitive, numbers, np.abs(heights))


def pour_close(rows: sparse.csr_array, tolerance: float) -> NDArray[np.int64]:
    """Pour each row into the first bucket that is close enough, in order, as the paper does."""
    buckets = np.zeros((0, rows.shape[1]), dtype=np.int64)
    for row in rows.toarray():
        lengths = np.linalg.norm(buckets.astype(np.float64), axis=1) * np.linalg.norm(row)
        cosines = buckets.astype(np.float64) @ row
        close = np.flatnonzero(cosines >= (1 - tolerance) * lengths)
        if len(close):
            buckets[close[0]] += row
        else:
            buckets = np.vstack([buckets, row])
    return buckets


def stacked_rows(blocks: Sequence[Block]) -> Block:
    """Stack the rows of one scope over the common refinement of their partitions."""
    marginal = common([block.marginal for block in blocks])
    rows = [expand(block.matrix, block.marginal, marginal) for block in blocks]
    return Block(marginal, sparse.csr_array(sparse.vstack(rows), dtype=np.int64))


def _over_one_scope(blocks: Sequence[Block]) -> Block:
    """Stack all rows over all columns: close rows may depend on different ones."""
    finest: dict[str, Partition] = {}
    for block in blocks:
        for name, partition in zip(block.marginal.scope, block.marginal.partitions, strict=True):
            finest[name] = finest[name].refine(partition) if name in finest else partition
    marginal = Marginal(tuple(sorted(finest)), tuple(finest[name] for name in sorted(finest)))
    if marginal.size > CLOSE_CELLS:
        raise UnfitPlanError(
            f"waterfilling with a tolerance compares rows over all {marginal.size:,} cells; "
            f"at most {CLOSE_CELLS:,} are supported. Use tolerance 0, which has no such limit."
        )
    rows = [expand(block.matrix, block.marginal, marginal) for block in blocks]
    return Block(marginal, sparse.csr_array(sparse.vstack(rows), dtype=np.int64))
