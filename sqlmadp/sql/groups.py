"""Groups: from masks and group keys to the rows of blocks, without the product of all columns.

Factors that share a column, directly or through others, form a *component*; factors of
different components are independent, so the groups of a statement are all combinations
of its components' groups, and its matrix is a Kronecker product of small ones:

    row = (group of component 1, group of component 2, ...)      entry = product of entries

A component is stored as the group number of each of its cells (-1 where a cell is not
counted), never as a matrix.  The FILTER of an aggregate may tie components together for
that aggregate alone.

A key that is NULL because of an undeclared value alone makes no group: its number is the complement
of NULL's own (see ``evaluate``), and is counted where declared values make the same group, as
``NULLIF(ward, 'none')`` does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.schema.marginal import TOTAL, Block, Marginal, row_major_strides
from sqlmadp.sql.factor import Factor, Integers, TooManyCellsError, align
from sqlmadp.sql.limits import Limits

OUT = -1
"""The group of a cell that is not counted."""


class TooManyGroupsError(Exception):
    """A statement would return too many groups."""

    def __init__(self, groups: int, limit: int) -> None:
        super().__init__(groups, limit)
        self.groups, self.limit = groups, limit


@dataclass(frozen=True, eq=False)
class Component:
    """Factors that belong together: the groups that their keys form where all masks hold."""

    factor: Factor
    """The group of every cell, or -1."""
    keys: tuple[int, ...]
    """Which keys of the statement vary with this component."""
    codes: Integers
    """For each group, the value numbers of those keys; groups ascend by them."""

    @property
    def size(self) -> int:
        """Return the number of groups."""
        return len(self.codes)


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups of a statement, in the order of their keys' first declared cells."""

    components: tuple[Component, ...]
    codes: Integers
    """For each group, the value number of every key."""
    rank: Integers
    """The place of each combination of components' groups in that order."""
    grouped: bool
    limits: Limits

    @property
    def size(self) -> int:
        """Return the number of rows."""
        return len(self.codes) if self.grouped else 1


def form_groups(
    masks: Sequence[Factor], keys: Sequence[Factor], *, grouped: bool, limits: Limits
) -> Groups:
    """Return every group that declared values make where all masks hold."""
    factors = [*masks, *keys]
    components = []
    for places in connected([factor.columns for factor in factors]):
        here = [place - len(masks) for place in places if place >= len(masks)]
        chosen = [factors[place] for place in places if place < len(masks)]
        components.append(_component(chosen, {key: keys[key] for key in here}, limits))
    sizes = [component.size for component in components]
    total = math.prod(sizes)
    if total > limits.groups:
        raise TooManyGroupsError(total, limits.groups)
    places_in = np.unravel_index(np.arange(total), sizes) if sizes else ()
    codes = np.zeros((total, len(keys)), dtype=np.int64)
    for component, place in zip(components, places_in, strict=True):
        codes[:, component.keys] = component.codes[place]
    # The last key of lexsort is the one that counts most.
    ascending = np.lexsort(codes.T[::-1]) if len(keys) else np.arange(total)
    rank = np.empty(total, dtype=np.int64)
    rank[ascending] = np.arange(total)
    return Groups(tuple(components), codes[ascending], rank, grouped, limits)


def _component(masks: list[Factor], keys: dict[int, Factor], limits: Limits) -> Component:
    zero, arrays = align([*masks, *keys.values()], limits.predicate_cells)
    inside = np.ones(zero.values.shape, dtype=bool)
    for array in arrays[: len(masks)]:
        inside &= array == 1
    codes = [np.broadcast_to(array, zero.values.shape)[inside] for array in arrays[len(masks) :]]
    table = np.stack(codes, axis=1) if codes else np.zeros((int(inside.sum()), 0), np.int64)
    undeclared = table < 0
    found, place = _distinct(np.where(undeclared, ~table, table))
    declared = np.zeros(len(found), dtype=bool)
    declared[place[~undeclared.any(axis=1)]] = True
    number = np.where(declared, np.cumsum(declared) - 1, OUT)
    groups = np.full(zero.values.shape, OUT, dtype=np.int64)
    groups[inside] = number[place]
    return Component(zero.map(groups).reduce(), tuple(keys), found[declared])


def _distinct(table: Integers) -> tuple[Integers, Integers]:
    """Return the distinct rows of a table, ascending, and which of them every row is."""
    place = np.zeros(len(table), dtype=np.int64)
    for column in table.T:
        # Numbered anew after every column, so that the numbers never overflow.
        _, place = np.unique(place * (column.max(initial=0) + 1) + column, return_inverse=True)
        place = place.reshape(-1)
    _, first = np.unique(place, return_index=True)
    return table[first], place


@dataclass(frozen=True, eq=False)
class Values:
    """What an aggregate adds up, on every cell of its columns: the number of a value, or -1."""

    factor: Factor
    weights: NDArray[np.float64]
    """What one record of each value adds."""


def block(groups: Groups, masks: Sequence[Factor], values: Values | None = None) -> Block:
    """Return one row a group: what a record of each cell adds to it, where all masks hold."""
    return _block(groups, masks, values, histogram=False)


def histogram(groups: Groups, masks: Sequence[Factor], values: Values) -> Block:
    """Return one row for every group and value, the values of a group together."""
    return _block(groups, masks, values, histogram=True)


def _block(
    groups: Groups, masks: Sequence[Factor], values: Values | None, *, histogram: bool
) -> Block:
    strides = row_major_strides([component.size for component in groups.components])
    count = 1 if values is None else max(1, len(values.weights))
    # A component's group number becomes what it adds to the number of the combination, and the
    # number of the value is carried along below it.
    steps = [
        _scaled(component.factor, stride * count)
        for component, stride in zip(groups.components, strides, strict=True)
    ]
    steps += [] if values is None else [values.factor]
    factors = [*steps, *masks]
    parts = [
        _tie(
            [factors[place] for place in places if place < len(steps)],
            [factors[place] for place in places if place >= len(steps)],
            groups.limits,
        )
        for places in connected([factor.columns for factor in factors])
    ]
    rows = groups.size * count if histogram else groups.size
    if groups.size == 0 or any((part.values == OUT).all() for part in parts):
        return Block(TOTAL, sparse.csr_array((rows, 1), dtype=np.float64))
    marginal, numbers, cells = _product(parts, groups.limits)
    combination, value = np.divmod(numbers, count)
    row = groups.rank[combination]
    added = np.ones(len(row)) if values is None or histogram else values.weights[value]
    matrix = sparse.csr_array(
        (added, (row * count + value if histogram else row, cells)), shape=(rows, marginal.size)
    )
    matrix.eliminate_zeros()
    return Block(marginal, matrix)


def tied(groups: Groups, masks: Sequence[Factor]) -> list[Factor]:
    """Return factors of no common column that add up to the number of a cell's group, or OUT."""
    strides = row_major_strides([component.size for component in groups.components])
    pairs = zip(groups.components, strides, strict=True)
    steps = [_scaled(component.factor, stride) for component, stride in pairs]
    factors = [*steps, *masks]
    return [
        _tie(
            [factors[place] for place in places if place < len(steps)],
            [factors[place] for place in places if place >= len(steps)],
            groups.limits,
        )
        for places in connected([factor.columns for factor in factors])
    ]


def _scaled(factor: Factor, stride: int) -> Factor:
    return factor.map(np.where(factor.values == OUT, OUT, factor.values * stride))


def _tie(steps: list[Factor], masks: list[Factor], limits: Limits) -> Factor:
    zero, arrays = align([*steps, *masks], limits.predicate_cells)
    shape = zero.values.shape
    total = np.zeros(shape, dtype=np.int64)
    inside = np.ones(shape, dtype=bool)
    for array in arrays[: len(steps)]:
        total += array
        inside &= array != OUT
    for array in arrays[len(steps) :]:
        inside &= array == 1
    return zero.map(np.where(inside, total, OUT)).reduce()


def _product(parts: Sequence[Factor], limits: Limits) -> tuple[Marginal, Integers, Integers]:
    """Return the marginal of all parts, and the number and cell of every combination."""
    partition_of = {
        name: partition
        for part in parts
        for name, partition in zip(part.columns, part.partitions, strict=True)
    }
    scope = tuple(sorted(partition_of))
    marginal = Marginal(scope, tuple(partition_of[name] for name in scope))
    if marginal.size > limits.block_cells:
        raise TooManyCellsError(scope, marginal.size, limits.block_cells, "block_cells")
    strides = dict(zip(scope, row_major_strides(marginal.shape), strict=True))
    numbers = cells = np.zeros(1, dtype=np.int64)
    for part in parts:
        steps = [
            np.arange(n) * strides[name]
            for name, n in zip(part.columns, part.values.shape, strict=True)
        ]
        offsets = reduce(np.add.outer, steps, np.zeros((), dtype=np.int64))
        inside = part.values != OUT
        numbers = np.add.outer(numbers, part.values[inside]).reshape(-1)
        cells = np.add.outer(cells, offsets[inside]).reshape(-1)
    return marginal, numbers, cells


def connected(scopes: Sequence[Iterable[str]]) -> list[list[int]]:
    """Return the positions of ``scopes``, those that share a name (or a chain of them) together."""
    leader = list(range(len(scopes)))

    def find(place: int) -> int:
        while leader[place] != place:
            place = leader[place]
        return place

    owner: dict[str, int] = {}
    for place, scope in enumerate(scopes):
        for name in scope:
            leader[find(place)] = find(owner.setdefault(name, place))
    found: dict[int, list[int]] = {}
    for place in range(len(scopes)):
        found.setdefault(find(place), []).append(place)
    return list(found.values())
