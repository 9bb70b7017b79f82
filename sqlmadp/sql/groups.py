"""Groups: from masks and group keys to numbered groups, without the product of all columns.

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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from sqlmadp.sql.factor import Factor, Integers, align
from sqlmadp.sql.limits import Limits
from sqlmadp.table.rows import row_major_strides

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
