"""Keys: what every column of a block is grouped by when records are counted.

A key is the declared values of a column or, where these are many, the pieces of a partition.  A
record adds products of powers of its steps along such pieces (*moments*) to its group; the sums at
the vertices follow from these.  So a wide column, such as a price in cents, costs a group per piece
and never a group per value, as long as its pieces and steps can be written as a few runs.

Blocks over few cells are grouped by declared values, which several of them share.

Guarantee  Which keys are taken depends on the schema and the blocks, never on a record.
Requires   Partitions that `blocks.checked_blocks` let through.
Numerics   Steps times cells, and products of steps, stay below 2^62.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sqlmadp.private.runs import bends
from sqlmadp.schema.domain import Domain
from sqlmadp.table.partition import Partition

FEW_CELLS = 2**18
"""Group by declared values, and count scopes together, up to this many cells.  With DuckDB that
halves the time of many scopes, and costs a few small ones up to as much again."""
WIDE = 2**10
"""Group a flat partition by its pieces only where its column has more cells than this, ..."""
COARSER = 8
"""... and at least this many times as many cells as pieces."""
MOST_BENDS = 2**10
"""Write pieces and steps of at most about this many runs into the statement; otherwise group by
values."""


class Layout(Protocol):
    """Some columns, with one partition per column: what a block is over."""

    @property
    def scope(self) -> tuple[str, ...]:
        """The names of the columns."""

    @property
    def parts(self) -> tuple[Partition, ...]:
        """One partition per column."""


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


def keys_of(layout: Layout, domain: Domain) -> Keys:
    """Return what the columns of a block are grouped by."""
    sizes = [domain.column(name).size for name in layout.scope]
    few = math.prod(sizes) <= FEW_CELLS
    return tuple(
        Key(name, len(part.degrees), part)
        if not few and _grouped_by_pieces(part, size)
        else Key(name, size)
        for name, part, size in zip(layout.scope, layout.parts, sizes, strict=True)
    )


def moments_of(keys: Sequence[Key]) -> list[Moment]:
    """Return the moments of the steps along the pieces of keys; the first is the count."""
    steps = [(key, key.part.degree) for key in keys if key.part is not None and key.part.degree]
    powers = [range(degree + 1) for _, degree in steps]
    return [
        tuple((key, power) for (key, _), power in zip(steps, chosen, strict=True) if power)
        for chosen in itertools.product(*powers)
    ]


def by_cell(keys: Sequence[Key]) -> set[str]:
    """Return the columns whose cells have to be known, since pieces are worked out from them."""
    return {key.column for key in keys if key.part is not None}


def _grouped_by_pieces(part: Partition, size: int) -> bool:
    if part.is_flat and (size <= WIDE or len(part.degrees) * COARSER > size):
        return False
    if part.unit * size >= 2**62:
        return False
    return max(len(bends(part.pieces)), len(bends(part.steps))) <= MOST_BENDS
