"""Scope batches: what every column of a block is grouped by, and which scopes are counted at once.

A *key* is the declared values of a column or, where these are many, the pieces of a partition.  A
record adds products of powers of its steps along such pieces (*moments*) to its group; the sums at
the vertices follow from these.  So a wide column, such as a price in cents, costs a group per piece
and never a group per value, as long as its pieces and steps can be written as a few runs.  Blocks
over few cells are grouped by declared values, which several of them share.

A scope that is part of another one is not counted by itself, nor are small scopes if the columns
of several have few cells: one scope of all these columns is counted, and added up.  That saves an
engine most of its time where there are many scopes.  But every row of its result has all columns in
use, so with many columns fewer scopes are batched.

Guarantee  Every scope is part of the scope that is counted for it.  Keys and batches follow from
           the schema and the blocks, never from a record; so does the bound `answer_bytes`.
Requires   Partitions that `blocks.checked_blocks` let through.
Numerics   Exact integers.  Steps times cells stay below 2^62, and products of steps below 2^84.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlmadp.table.domain import Domain
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows
from sqlmadp.table.runs import bends

FEW_CELLS = 2**18
"""Group by declared values, and batch scopes, up to this many cells.  With DuckDB that halves the
time of many scopes, and costs a few small ones up to as much again."""
WIDE = 2**10
"""Group a flat partition by its pieces only where its column has more cells than this, ..."""
COARSER = 8
"""... and at least this many times as many cells as pieces."""
MOST_BENDS = 2**10
"""Write pieces and steps into the statement while they bend at most this often; otherwise group by
values."""
MAX_BATCH_BYTES = 2**27
"""Always batch small scopes while the engine's result stays below this size.  Above it, batch only
while that at most doubles the result."""
FEWER = 64
"""Divide `FEW_CELLS` by this, once or more, where the result would be too large."""
BYTES_PER_NUMBER = 9
"""The size of a number in the result, and of whether it is NULL."""
BYTES_PER_MOMENT = 48
"""The size of a moment: it comes as text, of at most 39 digits."""
BYTES_PER_SUM = 56
"""The size of a sum at a vertex, a Python integer, and of the vertex's number (measured)."""
BYTES_PER_SUM_IN_WORK = 160
"""The same while the sums of one block are worked out from moments (measured: 153 to 161)."""
BYTES_PER_VALUE = 40
"""The size of a wide column's pieces and steps, value by value, while the statement is built
(measured: 32)."""
LATEST = 256
"""Try at most this many earlier batches for the next scope."""


@dataclass(frozen=True)
class Key:
    """What one column is grouped by."""

    column: str
    size: int
    """How many groups there can be."""
    part: Partition | None = None
    """The partition by whose pieces it is grouped; None: by declared values."""

    @property
    def name(self) -> tuple[str, bytes]:
        """What keys are sorted by."""
        return self.column, b"" if self.part is None else self.part.key


Keys = tuple[Key, ...]
"""The keys of one block, sorted; one per column."""
Moment = tuple[tuple[Key, int], ...]
"""A product of powers of steps, one per key that has steps."""


def keys_of(block: Rows, domain: Domain) -> Keys:
    """Return the keys by which the columns of a block are grouped."""
    sizes = [domain.column(name).size for name in block.scope]
    few = math.prod(sizes) <= FEW_CELLS
    return tuple(
        Key(name, len(part.degrees), part)
        if not few and _grouped_by_pieces(part, size)
        else Key(name, size)
        for name, part, size in zip(block.scope, block.parts, sizes, strict=True)
    )


def moments_of(keys: Sequence[Key]) -> list[Moment]:
    """Return the moments of the steps along the pieces of keys; the first is the count."""
    steps = [(key, key.part.degree) for key in keys if key.part is not None and key.part.degree]
    powers = [range(degree + 1) for _, degree in steps]
    return [
        tuple((key, power) for (key, _), power in zip(steps, chosen, strict=True) if power)
        for chosen in itertools.product(*powers)
    ]


def used_keys(scopes: Iterable[Keys]) -> list[Key]:
    """Return the keys of all scopes, sorted."""
    return sorted({key for scope in scopes for key in scope}, key=lambda key: key.name)


def batch_scopes(scopes: Iterable[Keys]) -> dict[Keys, Keys]:
    """Return, for every scope, the scope that is counted and that it is part of."""
    scopes, few = list(scopes), FEW_CELLS
    alone = _batched(scopes, 0)
    most = max(MAX_BATCH_BYTES, 2 * _bytes(set(alone.values())))
    while few > 1:
        counted = _batched(scopes, few)
        if _bytes(set(counted.values())) <= most:
            return counted
        few //= FEWER
    return alone


def answer_bytes(domain: Domain, blocks: Iterable[Rows]) -> int:
    """Return an upper bound on the size of what an engine returns for some blocks.

    Where columns have steps, every group becomes a sum at each vertex that its records touch.
    """
    blocks = list(blocks)
    scopes = [keys_of(block, domain) for block in blocks]
    moments = {moment for keys in scopes for moment in moments_of(keys)[1:]}
    batches = batch_scopes(scopes)
    sums = [
        _cells(batches[keys]) * math.prod(part.degree + 1 for part in block.parts)
        for keys, block in zip(scopes, blocks, strict=True)
        if any(part.degree for part in block.parts)
    ]
    in_work = BYTES_PER_SUM_IN_WORK * max(sums, default=0)
    wide = (key.part.values for keys in scopes for key in keys if key.part is not None)
    in_work = max(in_work, BYTES_PER_VALUE * max(wide, default=0))
    return _bytes(set(batches.values()), len(moments)) + BYTES_PER_SUM * sum(sums) + in_work


def _grouped_by_pieces(part: Partition, size: int) -> bool:
    if part.is_flat and (size <= WIDE or len(part.degrees) * COARSER > size):
        return False
    if part.unit * size >= 2**62:
        return False
    return max(len(bends(part.pieces)), len(bends(part.steps))) <= MOST_BENDS


def _bytes(counted: set[Keys], moments: int = 0) -> int:
    """Return the size of a result with these scopes: every row has all columns in use."""
    rows = sum(_cells(scope) for scope in counted)
    keys = len({key for scope in counted for key in scope})
    numbers = 1 + keys * (1 if len(counted) == 1 else 2)
    return rows * (numbers * BYTES_PER_NUMBER + moments * BYTES_PER_MOMENT)


def _cells(keys: Iterable[Key]) -> int:
    return math.prod(key.size for key in keys)


def _batched(scopes: Sequence[Keys], few: int) -> dict[Keys, Keys]:
    """Return the same, if scopes of at most ``few`` cells are counted at once."""
    keys = used_keys(scopes)
    number = {key: place for place, key in enumerate(keys)}  # Numbers are compared faster.
    batches: list[frozenset[int]] = []
    place: dict[Keys, int] = {}
    numbered = [(-_cells(scope), [number[key] for key in scope], scope) for scope in scopes]
    for _, own, scope in sorted(numbered, key=lambda each: each[:2]):
        for last in range(max(len(batches) - LATEST, 0), len(batches)):
            both = batches[last].union(own)
            if both == batches[last] or math.prod(keys[n].size for n in both) <= few:
                batches[last], place[scope] = both, last
                break
        else:
            batches.append(frozenset(own))
            place[scope] = len(batches) - 1
    return {scope: tuple(keys[n] for n in sorted(batches[at])) for scope, at in place.items()}
