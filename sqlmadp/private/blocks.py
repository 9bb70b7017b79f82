"""Blocks at the boundary: rechecked on the way in, multiplied in exact integers.

`measure` trusts no caller, so every block is checked against the domain and copied.  A block is a
matrix M of integers over the vertices of its scope.  What is measured is (M / gcd) x, with x the
data vector in whole numbers: a record's weights on the vertices times their common denominator,
the block's *units*.  Where these are very many (a parabola of a wide column), sums are divided by
a power of 2 and rounded down, which adds less than 1 to what a record changes at each vertex that
it touches.  One whole number of what is measured stands for ``gcd * coarseness / units`` of what
the rows of M ask for: the block's *grain*.

The product must not overflow for any table whatever, since even an error message would depend on
records.  Sums are split into four digits of 16 bits; with rows whose absolute values add up to
less than 2^46, each product fits:

    A x = sum over k of 2^(16 k) (A x_k),    |A x_k| < 2^46 * 2^16 = 2^62

The digits are added up in Python's integers and the sum is held within +-2^62.  No answer gets
there up to `MOST_RECORDS`.

A grid of products is checked and multiplied by its factors, one column after the other.  A row is a
height times the products of entries of one row per factor, all of them whole numbers, so its height
times the largest entries of those, or times their sums, bounds it.  Numbers on the way are products
of fewer of them, and the sums of factor rows alone, for heights of 0 too, keep below 2^46 as well.

Guarantee  `exact_answers` returns ``A x``, held within +-2^62, for every vector of 64-bit
           sums.  Holding a number within fixed bounds never moves two further apart.
Requires   Blocks that `checked_blocks` returned; sums that are not negative.
Numerics   Exact.  Overflow is excluded by the limits below, which depend on no record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.errors import StrategyError
from sqlmadp.table.domain import Domain
from sqlmadp.table.partition import Partition
from sqlmadp.table.products import Products
from sqlmadp.table.rows import Rows

MAX_CELLS = 2**26
"""The most vertices of a block; its sums alone then take 512 MiB."""
MAX_ENTRY = 2**31
MAX_ROW_SUM = 2**46
MAX_ANSWER = 2**62
MOST_RECORDS = 2**30
"""With at most this many records no answer is held back at `MAX_ANSWER`."""
MAX_UNITS = 2**84
"""The most units of a block.  A product of steps is below it, so the sum over 2^42 records is below
2^126, which the integers of every engine hold; two wide columns, both squared, are below it too."""
FINE = 2**12
"""Round sums down only to units of which a record has this many times as many as vertices that it
touches; the noise then grows by less than one part in as many."""

_DIGIT_BITS = 16


def checked_blocks(blocks: Sequence[Rows], domain: Domain) -> tuple[Rows, ...]:
    """Return canonical copies of ``blocks``; StrategyError if they must not be measured."""
    copies = [_checked(block, domain) for block in blocks]
    if not copies:
        raise StrategyError("the strategy has no rows, so there is nothing to measure")
    return tuple(copies)


def grain(block: Rows) -> Fraction:
    """Return the answer to a row that one whole number of the measured values is worth."""
    return Fraction(divisor(block) * coarseness(block), block.units)


def divisor(block: Rows) -> int:
    """Return the divisor of all entries of a block: their gcd (of products, 1)."""
    if isinstance(block, Products):
        return 1
    return int(block.weight if block.given is None else np.gcd.reduce(block.given.data))


def coarseness(block: Rows) -> int:
    """Return the power of 2 by which the sums of a block are divided, and rounded down."""
    if isinstance(block, Products):
        largest = _largest_row(block, _entries)
    else:
        largest = int(block.weight if block.given is None else _largest(block.given))
    answer = largest // divisor(block) * block.units * MOST_RECORDS
    return 1 << max(0, (-(-answer // MAX_ANSWER) - 1).bit_length())


def rounding(block: Rows) -> Fraction:
    """Return how much more than unrounded ones one record moves rounded sums, as weights."""
    coarse = coarseness(block)
    return Fraction(0) if coarse == 1 else Fraction(_touched(block) * coarse, block.units)


def exact_answers(block: Rows, sums: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the answers to measure, without rounding or overflow, within +-2^62."""
    if block.plain:  # Every vertex alone.
        return np.minimum(sums, MAX_ANSWER)
    common = divisor(block)
    total = np.zeros(block.count, dtype=object)
    for shift in range(0, 64, _DIGIT_BITS):
        digit = (sums >> shift) & (2**_DIGIT_BITS - 1)
        times = block.answers(digit) if isinstance(block, Products) else block.matrix @ digit
        total += (times // common).astype(object) * 2**shift
    held = [max(-MAX_ANSWER, min(MAX_ANSWER, answer)) for answer in total]
    return np.array(held, dtype=np.int64)


def _touched(over: Rows) -> int:
    """Return the most vertices on which a record has a weight."""
    return math.prod(part.degree + 1 for part in over.parts)


def _checked(block: Rows, domain: Domain) -> Rows:
    scope, names = block.scope, {column.name for column in domain.columns}
    declared = isinstance(scope, tuple) and set(scope) <= names
    _require(declared, f"scope {scope} is not made of declared columns")
    # One spelling of a set of columns: sums are added up by it.
    _require(list(scope) == sorted(set(scope)), f"scope {scope} is not in alphabetical order")
    fitting = len(block.parts) == len(scope)
    _require(fitting, f"scope {scope} does not have one partition per column")
    parts = tuple(
        _checked_partition(part, domain.column(name).size, name)
        for name, part in zip(scope, block.parts, strict=True)
    )
    size = math.prod(part.size for part in parts)
    _require(size <= MAX_CELLS, f"scope {scope} has {size:,} vertices, too many to count")
    copy: Rows
    if isinstance(block, Products):
        copy = _checked_products(block, parts)
    elif block.given is None:
        whole = _is_positive(block.weight)
        _require(whole, f"the weight of a block over {scope} is not a positive 64-bit integer")
        copy = Rows(scope, parts, block.weight)
    else:
        matrix = _checked_matrix(block.given, scope, size)
        filled = _largest(matrix) > 0
        _require(filled, f"a block over {scope} has no rows, or nothing but zeros in them")
        copy = Rows(scope, parts, 0, matrix)
    coarse, units = coarseness(copy), copy.units
    _require(
        units < MAX_UNITS and (coarse == 1 or units // coarse >= FINE * _touched(copy)),
        f"the answers of a block over {scope} would exceed 2^62 for 2^30 records: its entries "
        "and the steps of its columns are too large together",
    )
    return copy


def _checked_partition(part: Partition, cells: int, column: str) -> Partition:
    """Return a copy of a partition whose pieces, steps, degrees and unit are well formed."""
    where = f"a partition of column {column!r}"
    pieces, steps, degrees = (np.array(a) for a in (part.pieces, part.steps, part.degrees))
    whole = all(array.dtype == np.int64 for array in (pieces, steps, degrees))
    _require(whole, f"{where} is not made of 64-bit integers")
    labelled = pieces.shape == steps.shape == (cells,) and cells > 0
    _require(labelled, f"{where} does not label its {cells} cells")
    first = np.sort(np.unique(pieces, return_index=True)[1])
    numbered = np.array_equal(pieces[first], np.arange(len(first)))
    _require(numbered, f"{where} is not numbered by first cells")
    known = degrees.shape == first.shape and 0 <= degrees.min() <= degrees.max() <= 2
    _require(known, f"{where} does not have one degree of 0, 1 or 2 per piece")
    _require(_is_positive(part.unit), f"{where} has a unit that is not a positive 64-bit integer")
    inside = 0 <= steps.min() <= steps.max() <= part.unit and not steps[degrees[pieces] == 0].any()
    _require(inside, f"{where} has steps below 0, above its unit, or along a single vertex")
    return Partition(pieces, steps, degrees, part.unit)


def _checked_matrix(
    matrix: sparse.csr_array, scope: tuple[str, ...], columns: int
) -> sparse.csr_array:
    whole = isinstance(matrix, sparse.csr_array) and matrix.dtype == np.int64
    _require(whole, "a block holds a csr_array of 64-bit integers")
    fitting = matrix.ndim == 2 and matrix.shape[1] == columns
    _require(fitting, f"a block over {scope} has shape {matrix.shape}, not {columns} columns")
    copy = matrix.copy()
    try:
        copy.check_format(full_check=True)
    except ValueError as error:
        raise StrategyError(f"a block over {scope} is malformed: {error}") from None
    # Before duplicates are added up, so that not even their sum can wrap around.
    _check_entries(copy, scope)
    copy.sum_duplicates()
    copy.eliminate_zeros()
    _check_entries(copy, scope)
    sums = np.zeros(copy.shape[0], dtype=np.int64)
    np.add.at(sums, np.repeat(np.arange(copy.shape[0]), np.diff(copy.indptr)), abs(copy.data))
    _require(sums.max(initial=0) < MAX_ROW_SUM, f"a row over {scope} adds up to 2^46 or more")
    return copy


def _checked_products(block: Products, parts: tuple[Partition, ...]) -> Products:
    """Return a canonical copy of a grid of products; its rows keep within the same limits."""
    where = f"a block over {block.scope}"
    _require(len(block.factors) == len(parts), f"{where} does not have one factor per column")
    factors = tuple(
        _checked_matrix(factor, (name,), part.size)
        for factor, name, part in zip(block.factors, block.scope, parts, strict=True)
    )
    heights = np.array(block.heights)
    shape = tuple(factor.shape[0] for factor in factors)
    fitting = heights.dtype == np.int64 and heights.shape == shape
    _require(fitting, f"{where} does not have one height per row")
    _require(heights.min(initial=0) >= 0, f"{where} has a height below 0")
    few = math.prod(max(factor.shape) for factor in factors) <= MAX_CELLS
    _require(few, f"{where} has too many rows to measure")
    filled = heights.any() and all(factor.nnz for factor in factors)
    _require(filled, f"{where} has a factor of nothing but zeros")
    copy = Products(block.scope, parts, 0, None, factors, heights)
    together = math.prod(max(int(_sums(abs(factor)).max()), 1) for factor in factors)
    _require(
        together < MAX_ROW_SUM
        and together * int(heights.max()) < MAX_ANSWER  # So that the following fit 64 bits.
        and _largest_row(copy, _entries) < MAX_ENTRY
        and _largest_row(copy, _sums) < MAX_ROW_SUM,
        f"a row over {block.scope} holds 2^31 or more, or adds up to 2^46",
    )
    return copy


def _require(condition: object, message: str) -> None:
    if not condition:
        raise StrategyError(message)


def _is_positive(number: object) -> bool:
    """Return whether a number is a positive integer, of Python's own, below 2^62."""
    return type(number) is int and 0 < number < MAX_ANSWER


def _largest_row(block: Products, of_rows: Callable[[sparse.csr_array], Any]) -> int:
    """Return the largest product of a height and one number per factor row, at least 1 each.

    A factor row of zeros would hide how large the others are.
    """
    own = [np.maximum(of_rows(abs(factor)), 1) for factor in block.factors]
    return int((block.heights * reduce(np.multiply.outer, own)).max())


def _entries(factor: sparse.csr_array) -> NDArray[np.int64]:
    return np.asarray(factor.max(axis=1).toarray())


def _sums(factor: sparse.csr_array) -> NDArray[np.int64]:
    return np.asarray(factor.sum(axis=1))


def _check_entries(matrix: sparse.csr_array, scope: tuple[str, ...]) -> None:
    # No sum of entries, nor of some, wraps around.
    small = _largest(matrix) * matrix.nnz < MAX_ANSWER
    _require(small, f"the entries of a block over {scope} could add up to 2^62")


def _largest(matrix: sparse.csr_array) -> int:
    return max(int(matrix.data.max(initial=0)), -int(matrix.data.min(initial=0)))
