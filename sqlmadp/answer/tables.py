"""Tables: the cells of every measured scope, over partitions that nest, and how they fit together.

Post-processing looks at counts cell by cell.  Two blocks may cut one column at different
places, so the partitions of a column are put in a chain, coarse to fine, each refined by all before
it, and every block is written over the chain's partitions.  A *table* is the marginal of a scope
that no other scope holds as finely; every measured answer is a sum over the cells of one.

Over a chain there is a basis of indicators in which every cell of every table has integer
coefficients: the whole; then of every group that a finer partition splits, each part but the last,

    last part  =  group  -  its other parts.

So integers in these coordinates, whatever they are, give integers in all cells that add up, and
all integers that add up are given by some.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from sqlmadp.schema.marginal import Block, Labels, Marginal, Partition, expand
from sqlmadp.workload.coordinates import Basis, Coordinates

Matrix = NDArray[np.float64]


def nested(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """Return the blocks over partitions that nest: of one column, and in each scope the same."""
    chains = _chains(blocks)
    chosen: dict[tuple[str, ...], tuple[int, ...]] = {}
    for block in blocks:
        marginal = block.marginal
        columns = zip(marginal.scope, marginal.partitions, strict=True)
        levels = tuple(chains[name][0][partition] for name, partition in columns)
        known = chosen.get(marginal.scope, levels)
        chosen[marginal.scope] = tuple(map(max, levels, known))
    found = []
    for block in blocks:
        scope = block.marginal.scope
        parts = (chains[n][1][level] for n, level in zip(scope, chosen[scope], strict=True))
        marginal = Marginal(scope, tuple(parts))
        found.append(Block(marginal, expand(block.matrix, block.marginal, marginal)))
    return tuple(found)


def _chains(blocks: Sequence[Block]) -> dict[str, tuple[dict[Partition, int], list[Partition]]]:
    """Return, for every column, the level of each partition and the partition of each level."""
    used: dict[str, set[Partition]] = {}
    for block in blocks:
        for name, partition in zip(block.marginal.scope, block.marginal.partitions, strict=True):
            used.setdefault(name, set()).add(partition)
    chains = {}
    for name, partitions in used.items():
        ordered = sorted(partitions, key=lambda p: (p.size, p.key))
        joins = [reduce(Partition.refine, ordered[: k + 1]) for k in range(len(ordered))]
        chains[name] = ({partition: level for level, partition in enumerate(ordered)}, joins)
    return chains


def tables(blocks: Sequence[Block]) -> list[Marginal]:
    """Return the marginals of nested blocks that no other of them holds as finely."""
    marginals = list(dict.fromkeys(block.marginal for block in blocks))
    return [
        one
        for one in marginals
        if not any(other != one and _inside(one, other) for other in marginals)
    ]


def _inside(one: Marginal, other: Marginal) -> bool:
    place = dict(zip(other.scope, other.partitions, strict=True))
    return all(
        name in place and place[name].refine(partition).size == place[name].size
        for name, partition in zip(one.scope, one.partitions, strict=True)
    )


def cell_rows(marginals: Sequence[Marginal], coordinates: Coordinates) -> Matrix:
    """Return the coordinates of every cell of every table, one row a cell."""
    parts = []
    for marginal in marginals:
        coefficients, box = coordinates.cells(marginal)
        rows = np.zeros((marginal.size, coordinates.size))
        rows[:, box] = coefficients
        parts.append(rows)
    return np.vstack(parts)


def integer_rows(marginals: Sequence[Marginal]) -> Matrix:
    """Return every cell in the coordinates of integers, the coarsest coordinate first."""
    return cell_rows(marginals, Coordinates(marginals, _IndicatorBasis.of))


@dataclass(frozen=True, eq=False)
class _IndicatorBasis(Basis):
    """Indicators of the whole, and of all parts but the last of every group, over a chain."""

    integers: dict[Partition, Matrix]
    """The coefficients of the groups of every partition, one row a group."""

    @classmethod
    def of(cls, partitions: Iterable[Partition]) -> _IndicatorBasis:
        """Return the basis of partitions that nest."""
        chain = sorted(set(partitions), key=lambda p: p.size)
        coarser = Partition(np.zeros_like(chain[0].labels))
        rows = np.ones((1, 1))
        integers = {}
        for partition in chain:
            rows = _parts(rows, coarser.coarsen(partition))
            integers[partition] = rows
            coarser = partition
        levels = {partition: partition.size for partition in chain}
        return cls(chain[-1], rows, levels, integers)

    def coefficients(self, partition: Partition, functions: int) -> Matrix:
        """Return the coefficients of the indicators of a partition of the chain."""
        return self.integers[partition]


def _parts(groups: Matrix, parents: Labels) -> Matrix:
    """Return the rows of the parts of ``groups``, with a coordinate more for all but the last."""
    last = {int(parent): part for part, parent in enumerate(parents)}
    rows = np.zeros((len(parents), len(parents)))
    at = groups.shape[1]
    for part, parent in enumerate(parents):
        if last[int(parent)] != part:
            rows[part, at] = 1
            rows[last[int(parent)], at] = -1
            at += 1
    for parent, part in last.items():
        rows[part, : groups.shape[1]] = groups[parent]
    return rows
