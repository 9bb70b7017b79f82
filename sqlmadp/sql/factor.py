"""Factors: integer functions of a few columns, stored over groups of cells.

A factor has one axis for each of its columns.  An axis does not run over the column's
cells but over the groups of a partition: cells on which the factor never differs are
merged, and a column on which it does not depend is dropped.  Truth values, group numbers
and masks are all factors.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sqlmadp.table.partition import Partition, common

Integers = NDArray[np.int64]


class TooManyCellsError(Exception):
    """Columns that must be looked at together have too many cells together."""

    def __init__(
        self, columns: Sequence[str], cells: int, limit: int, name: str = "predicate_cells"
    ) -> None:
        super().__init__(columns, cells, limit, name)
        self.columns, self.cells, self.limit = tuple(columns), cells, limit
        self.name = name
        """The name of the limit in a plan."""


@dataclass(frozen=True, eq=False)
class Factor:
    """An integer function of the cells of a few columns."""

    columns: tuple[str, ...]
    partitions: tuple[Partition, ...]
    values: Integers
    """One axis per column, as long as its partition has pieces."""

    def reduce(self) -> Factor:
        """Return the same function with cells merged and columns dropped wherever possible."""
        columns: list[str] = []
        partitions: list[Partition] = []
        values = self.values
        axis = 0
        for name, partition in zip(self.columns, self.partitions, strict=True):
            groups = _equal_slices(values, axis)
            values = values.take(groups.first_values, axis=axis)
            if groups.size == 1:
                values = values.squeeze(axis)
                continue
            columns.append(name)
            same = groups.size == partition.size
            partitions.append(partition if same else groups.composed(partition))
            axis += 1
        return Factor(tuple(columns), tuple(partitions), values)

    def map(self, values: Integers) -> Factor:
        """Return a factor of the same columns with other values."""
        return Factor(self.columns, self.partitions, values)


def _equal_slices(values: Integers, axis: int) -> Partition:
    """Return which positions of an axis hold equal slices."""
    if values.ndim == 1:
        return Partition.flat(values)
    numbers: dict[bytes, int] = {}
    labels = [
        numbers.setdefault(row.tobytes(), len(numbers)) for row in np.moveaxis(values, axis, 0)
    ]
    return Partition.flat(np.array(labels, dtype=np.int64))


def align(factors: Iterable[Factor], limit: int) -> tuple[Factor, list[Integers]]:
    """Return a zero factor of all columns, and every factor's values, broadcastable to it.

    Its axes are in alphabetical order, as scopes are.
    """
    factors = list(factors)
    finest: dict[str, Partition] = {}
    for factor in factors:
        for name, partition in zip(factor.columns, factor.partitions, strict=True):
            known = finest.get(name)
            finest[name] = partition if known is None else common([known, partition])
    columns = tuple(sorted(finest))
    shape = tuple(finest[name].size for name in columns)
    if math.prod(shape) > limit:
        raise TooManyCellsError(columns, math.prod(shape), limit)
    zero = Factor(columns, tuple(finest[name] for name in columns), np.zeros(shape, np.int64))
    return zero, [_spread(factor, columns, finest) for factor in factors]


def _spread(factor: Factor, columns: tuple[str, ...], finest: dict[str, Partition]) -> Integers:
    values = factor.values
    for axis, (name, partition) in enumerate(zip(factor.columns, factor.partitions, strict=True)):
        if partition.size != finest[name].size:  # Finer by refinement, so equal when as large.
            values = values.take(partition.runs.at(finest[name].first_values)[0], axis=axis)
    present = {name: axis for axis, name in enumerate(factor.columns)}
    values = values.transpose([present[name] for name in columns if name in present])
    return values.reshape([finest[name].size if name in present else 1 for name in columns])
