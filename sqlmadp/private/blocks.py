"""Blocks at the boundary: rechecked on the way in, multiplied in exact integers.

`measure` trusts no caller, so every block is checked against the domain and copied.  The
product of a block and the exact counts must not overflow for any table whatever, since
even an error message would depend on records.  Counts are split into four digits of
16 bits; with rows whose absolute values add up to less than 2^46, each product fits:

    A x = sum over k of 2^(16 k) (A x_k),    |A x_k| < 2^46 * 2^16 = 2^62

The digits are added up in Python's integers and the sum is held within +-2^62.

A Kronecker block is checked and multiplied by its factors, one column after the other.  A row is a
height times the products of entries of one row a factor, all of them whole numbers, so its height
times the largest entries of those, or times their sums, bounds it.  Numbers on the way are products
of fewer of them, and the sums of factor rows alone, for heights of 0 too, keep below 2^46 as well.

Guarantee  `exact_answers` returns ``A x``, held within +-2^62, for every vector of 64-bit
           counts.  Holding a number within fixed bounds never moves two further apart.
Requires   Blocks that `checked_blocks` returned; counts that are not negative.
Numerics   Exact.  Overflow is excluded by the limits below, which depend on no record.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.errors import StrategyError
from sqlmadp.schema.domain import Domain
from sqlmadp.schema.kronecker import KroneckerBlock, along
from sqlmadp.schema.marginal import Block, Marginal, Partition

MAX_CELLS = 2**26
"""The largest marginal that is counted; its counts alone then take 512 MiB."""
MAX_ENTRY = 2**31
MAX_ROW_SUM = 2**46
MAX_ANSWER = 2**62

_DIGIT_BITS = 16


def checked_blocks(blocks: Sequence[Block], domain: Domain) -> tuple[Block, ...]:
    """Return canonical copies of ``blocks``; StrategyError if they must not be measured."""
    copies: list[Block] = []
    for block in blocks:
        marginal = _checked_marginal(block.marginal, domain)
        if isinstance(block, KroneckerBlock):
            copies.append(_checked_products(block, marginal))
        else:
            copies.append(Block(marginal, _checked_matrix(block.matrix, marginal)))
    if sum(block.rows for block in copies) == 0:
        raise StrategyError("the strategy has no rows, so there is nothing to measure")
    return tuple(copies)


def exact_answers(block: Block, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return ``block.matrix @ counts`` without rounding or overflow, held within +-2^62."""
    total = np.zeros(block.rows, dtype=object)
    for shift in range(0, 64, _DIGIT_BITS):
        digit = (counts >> shift) & (2**_DIGIT_BITS - 1)
        total += _times(block, digit).astype(object) * 2**shift
    held = [max(-MAX_ANSWER, min(MAX_ANSWER, answer)) for answer in total]
    return np.array(held, dtype=np.int64)


def _times(block: Block, cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return ``block.matrix @ cells`` in integers."""
    if not isinstance(block, KroneckerBlock):
        return np.asarray(block.matrix @ cells)
    table = cells.reshape(block.marginal.shape)
    for axis, factor in enumerate(block.factors):
        table = along(factor, table, axis)
    heights = np.asarray(block.heights, dtype=np.int64)
    return np.asarray((heights * table)[heights > 0])


def _checked_marginal(marginal: Marginal, domain: Domain) -> Marginal:
    if not set(marginal.scope) <= {column.name for column in domain.columns}:
        raise StrategyError(f"scope {marginal.scope} is not made of declared columns")
    # One spelling of a set of columns: `sensitivity` adds parts up by it.
    if list(marginal.scope) != sorted(set(marginal.scope)):
        raise StrategyError(f"scope {marginal.scope} is not in alphabetical order")
    if len(marginal.partitions) != len(marginal.scope):
        raise StrategyError(f"scope {marginal.scope} does not have one partition a column")
    partitions = tuple(
        _checked_partition(partition, domain.column(name).size, name)
        for name, partition in zip(marginal.scope, marginal.partitions, strict=True)
    )
    checked = Marginal(marginal.scope, partitions)
    if checked.size > MAX_CELLS:
        raise StrategyError(f"scope {marginal.scope} has {checked.size} cells, too many to count")
    return checked


def _checked_partition(partition: Partition, cells: int, column: str) -> Partition:
    labels = np.array(partition.labels)
    if labels.dtype != np.int64 or labels.shape != (cells,):
        raise StrategyError(f"a partition of column {column!r} does not label its {cells} cells")
    if not np.array_equal(Partition.of(labels).labels, labels):
        raise StrategyError(f"a partition of column {column!r} is not numbered by first cells")
    return Partition(labels)


def _checked_matrix(matrix: sparse.csr_array, marginal: Marginal) -> sparse.csr_array:
    if not isinstance(matrix, sparse.csr_array) or matrix.dtype != np.int64:
        raise StrategyError("a block holds a csr_array of 64-bit integers")
    if matrix.ndim != 2 or matrix.shape[1] != marginal.size:
        raise StrategyError(
            f"a block over {marginal.scope} has shape {matrix.shape}, not {marginal.size} columns"
        )
    copy = matrix.copy()
    try:
        copy.check_format(full_check=True)
    except ValueError as error:
        raise StrategyError(f"a block over {marginal.scope} is malformed: {error}") from None
    # Before duplicates are added up, so that not even their sum can wrap around.
    _check_entries(copy, marginal)
    copy.sum_duplicates()
    copy.eliminate_zeros()
    _check_entries(copy, marginal)
    sums = np.zeros(copy.shape[0], dtype=np.int64)
    np.add.at(sums, np.repeat(np.arange(copy.shape[0]), np.diff(copy.indptr)), abs(copy.data))
    if sums.max(initial=0) >= MAX_ROW_SUM:
        raise StrategyError(f"a row over {marginal.scope} adds up to 2^46 or more")
    return copy


def _checked_products(block: KroneckerBlock, marginal: Marginal) -> KroneckerBlock:
    """Return a canonical copy of a Kronecker block; its rows keep within the same limits."""
    if len(block.factors) != len(marginal.scope):
        raise StrategyError(f"a block over {marginal.scope} does not have one factor a column")
    factors = [
        _checked_matrix(factor, Marginal((name,), (partition,)))
        for factor, name, partition in zip(
            block.factors, marginal.scope, marginal.partitions, strict=True
        )
    ]
    heights = np.array(block.heights)
    if heights.dtype != np.int64 or heights.shape != tuple(f.shape[0] for f in factors):
        raise StrategyError(f"a block over {marginal.scope} does not have one height a row")
    if heights.min(initial=0) < 0:
        raise StrategyError(f"a block over {marginal.scope} has a height below 0")
    sizes = (max(factor.shape) for factor in factors)
    if math.prod(sizes) > MAX_CELLS:
        raise StrategyError(f"a block over {marginal.scope} has too many rows to measure")
    if not heights.any() or not all(factor.nnz for factor in factors):
        raise StrategyError(f"a block over {marginal.scope} has a factor of nothing but zeros")
    # At least 1, since a factor row of zeros would hide how large the others are.
    largest = [np.maximum(abs(factor).max(axis=1).toarray(), 1) for factor in factors]
    sums = [np.maximum(abs(factor).sum(axis=1), 1) for factor in factors]
    together = math.prod(int(each.max()) for each in sums)
    too_large = together >= MAX_ROW_SUM or together * int(heights.max()) >= MAX_ANSWER
    # Otherwise no product of the following exceeds 64 bits.
    if (
        too_large
        or (heights * reduce(np.multiply.outer, largest)).max() >= MAX_ENTRY
        or (heights * reduce(np.multiply.outer, sums)).max() >= MAX_ROW_SUM
    ):
        raise StrategyError(f"a row over {marginal.scope} holds 2^31 or more, or adds up to 2^46")
    return KroneckerBlock(marginal, factors, heights.astype(np.int64))


def _check_entries(matrix: sparse.csr_array, marginal: Marginal) -> None:
    # With fewer than 2^31 entries, each below 2^31, no sum of them reaches 2^62.
    large = max(int(matrix.data.max(initial=0)), -int(matrix.data.min(initial=0)))
    if large >= MAX_ENTRY or matrix.nnz >= MAX_ENTRY:
        raise StrategyError(
            f"a block over {marginal.scope} holds 2^31 or more (or as many entries)"
        )
