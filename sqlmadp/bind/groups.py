"""Groups: from masks and group keys to numbered groups, without the product of all columns.

A *factor* is an integer function of a few columns: whether a predicate holds, the number of a key's
value, of a group.  Its axes do not run over the cells of its columns but over the groups of a
partition: cells on which it never differs are merged, and a column that it does not depend on is
dropped.

Factors that share a column, directly or through others, form a *component*; factors of
different components are independent, so the groups of a statement are all combinations
of its components' groups:

    group = (group of component 1, group of component 2, ...)

A component is stored as the group number of each of its cells (-1 where a cell is not
counted), never as a matrix.  The FILTER of an aggregate may tie components together for
that aggregate alone.

A key that is NULL because of an undeclared value alone makes no group: its number is the complement
of NULL's own (see ``evaluate``), and is counted where declared values make the same group, as
``NULLIF(ward, 'none')`` does.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sqlmadp.sql.hints import shown_name
from sqlmadp.sql.limits import Limits, advice
from sqlmadp.sql.statements import RefusedError
from sqlmadp.table.partition import Partition, common
from sqlmadp.table.rows import row_major_strides

Integers = NDArray[np.int64]


def too_many_cells(
    columns: Collection[str], cells: int, limits: Limits, name: str = "predicate_cells"
) -> RefusedError:
    """Return why columns with so many cells together are refused; ``name``: that of the limit."""
    listed, most = ", ".join(columns), f"at most {getattr(limits, name):,} are supported"
    if len(columns) > 1:
        message = f"{listed} must be looked at together and have {cells:,} cells together; {most}"
        hint = "Compare coarser values (months of dates); join conditions on single columns by AND."
    elif name == "predicate_cells":
        message = f"{listed} has {cells:,} values, each of which must be looked at; {most}"
        hint = "The curator can declare a smaller range or fewer decimals for it."
    else:
        message = f"{cells:,} values of {listed} must be told apart; {most}"
        hint = f"Round it first, as in FLOOR({shown_name(listed)} / 10) * 10."
    return RefusedError("too-many-cells", message, hint=f"{hint} {advice(name)}")


def too_many_groups(groups: int, limits: Limits) -> RefusedError:
    """Return why a statement of so many groups is refused."""
    return RefusedError(
        "too-many-groups",
        f"the domain allows {groups:,} groups; at most {limits.groups:,} are returned",
        hint=f"Group by fewer columns or by coarser expressions. {advice('groups')}",
    )


@dataclass(frozen=True, eq=False)
class Factor:
    """An integer function of the cells of a few columns."""

    columns: tuple[str, ...]
    partitions: tuple[Partition, ...]
    values: Integers
    """One axis per column, as long as its partition has pieces."""

    @classmethod
    def of(cls, columns: Sequence[str], values: NDArray[np.integer]) -> Factor:
        """Return a function of all cells, which are merged, and columns dropped, where possible."""
        names: list[str] = []
        partitions: list[Partition] = []
        for name in columns:
            axis = len(names)
            groups = _equal_slices(values, axis)
            values = values.take(groups.first_values, axis=axis)
            if groups.size == 1:
                values = values.squeeze(axis)
                continue
            names.append(name)
            partitions.append(groups)
        return cls(tuple(names), tuple(partitions), values.astype(np.int64))

    def reduce(self) -> Factor:
        """Return the same function with groups merged and columns dropped wherever possible."""
        found = Factor.of(self.columns, self.values)
        own = dict(zip(self.columns, self.partitions, strict=True))
        partitions = (
            own[name] if groups.size == own[name].size else groups.composed(own[name])
            for name, groups in zip(found.columns, found.partitions, strict=True)
        )
        return Factor(found.columns, tuple(partitions), found.values)

    def map(self, values: Integers) -> Factor:
        """Return a factor of the same columns with other values."""
        return Factor(self.columns, self.partitions, values)


def _equal_slices(values: NDArray[np.integer], axis: int) -> Partition:
    """Return which positions of an axis hold equal slices."""
    if values.ndim == 1:
        return Partition.flat(values)
    numbers: dict[bytes, int] = {}
    labels = [
        numbers.setdefault(row.tobytes(), len(numbers)) for row in np.moveaxis(values, axis, 0)
    ]
    return Partition.flat(np.array(labels, dtype=np.int64))


def align(factors: Iterable[Factor], limits: Limits) -> tuple[Factor, list[Integers]]:
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
    if math.prod(shape) > limits.predicate_cells:
        raise too_many_cells(columns, math.prod(shape), limits)
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


OUT = -1
"""The group of a cell that is not counted."""


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
        raise too_many_groups(total, limits)
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
    zero, arrays = align([*masks, *keys.values()], limits)
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


def tied(
    groups: Groups, masks: Sequence[Factor], values: Factor | None = None, count: int = 1
) -> list[Factor]:
    """Return factors of no common column that add up to the number of a cell's group, or OUT.

    With ``values``, which number ``count`` of them: to ``group * count + value``.
    """
    strides = row_major_strides([component.size for component in groups.components])
    pairs = zip(groups.components, strides, strict=True)
    steps = [_scaled(component.factor, stride * count) for component, stride in pairs]
    steps += [] if values is None else [values]
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
    zero, arrays = align([*steps, *masks], limits)
    shape = zero.values.shape
    total = np.zeros(shape, dtype=np.int64)
    inside = np.ones(shape, dtype=bool)
    for array in arrays[: len(steps)]:
        total += array
        inside &= array != OUT
    for array in arrays[len(steps) :]:
        inside &= array == 1
    return zero.map(np.where(inside, total, OUT)).reduce()


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
