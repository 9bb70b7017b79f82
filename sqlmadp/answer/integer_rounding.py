"""Whole numbers that add up: integer counts for all cells of all tables at once.

A *table* is what is counted over one measured scope.  The partitions of a column are put in a
chain, coarse to fine, each refined by all before it, and every table is written over the chain.
Over a chain there is a basis of indicators in which every cell of every table has integer
coefficients: the whole; then of every group that a finer partition splits, each part but the last,

    last part  =  group  -  its other parts.

So integers c in these coordinates, whatever they are, give integers B c in all cells that add up.
The ones near the wanted counts are found by rounding one coordinate after the other, coarse ones
first, each given those before it, with the best of the finer ones (Babai's nearest plane): B = Q R,

    c_i = round((q_i - sum_k>i R_ik c_k) / R_ii),     q = Q^T wanted.

So the total is the nearest integer, and no count is far off.  If no count may be below zero,
records are then added where one is, each in a cell of every table, where most are missing; and
others are taken away again where most are too many, as long as every cell that they leave holds
one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from sqlmadp.table.partition import Partition, common
from sqlmadp.table.rows import Rows, kronecker
from sqlmadp.table.runs import Floats, Integers

Mask = NDArray[np.bool_]


class Tables:
    """The tables that blocks measure, over partitions that nest."""

    def __init__(self, blocks: Sequence[Rows]) -> None:
        """Find the chains, and the scopes that no other scope holds as finely."""
        self._chains = _chains(blocks)
        levels: dict[tuple[str, ...], tuple[int, ...]] = {}
        for block in blocks:
            pairs = zip(block.scope, block.parts, strict=True)
            own = tuple(self._chains[name].level(_collapsed(part)) for name, part in pairs)
            known = levels.get(block.scope, own)
            levels[block.scope] = tuple(map(max, own, known))
        self._levels = {
            scope: own
            for scope, own in levels.items()
            if not any(other != scope and _inside(scope, own, other, levels) for other in levels)
        }
        self.rows = [self._table(scope, own) for scope, own in self._levels.items()]
        """Every cell of every table."""
        self._starts = np.cumsum([0, *(table.size for table in self.rows)])

    def _table(self, scope: tuple[str, ...], levels: tuple[int, ...]) -> Rows:
        pairs = zip(scope, levels, strict=True)
        return Rows(scope, tuple(self._chains[name].parts[level] for name, level in pairs), 1.0)

    @property
    def size(self) -> int:
        """The number of cells of all tables."""
        return sum(table.size for table in self.rows)

    def rounded(self, wanted: Floats, *, nonnegative: bool) -> Floats:
        """Return integers near the wanted counts that add up; one column per release."""
        counts = _nearest(self._integer_rows, wanted)
        if nonnegative:
            pairs = zip(counts.T, wanted.T, strict=True)
            counts = np.column_stack([self._repaired(*pair) for pair in pairs])
        return counts

    @cached_property
    def _integer_rows(self) -> Floats:
        """Every cell in the coordinates of integers, the coarsest coordinate first."""
        numbers: dict[tuple[tuple[str, int], ...], int] = {}
        parts = []
        for scope, levels in self._levels.items():
            chains = [self._chains[name] for name in scope]
            shape = [chain.parts[level].size for chain, level in zip(chains, levels, strict=True)]
            pairs = zip(chains, levels, strict=True)
            rows = kronecker(chain.integers(level) for chain, level in pairs)
            places = np.ndindex(*shape)  # The total has one, of no column.
            keys = [
                tuple((name, int(at)) for name, at in zip(scope, place, strict=True) if at)
                for place in places
            ]
            parts.append((rows, [numbers.setdefault(key, len(numbers)) for key in keys]))
        found = np.zeros((self.size, len(numbers)))
        for start, (rows, columns) in zip(self._starts, parts, strict=False):
            found[start : start + len(rows), columns] += rows
        coarse = sorted(numbers, key=lambda key: (len(key), max((at for _, at in key), default=0)))
        return found[:, [numbers[key] for key in coarse]]

    # Records.

    def _repaired(self, counts: Floats, wanted: Floats) -> Floats:
        """Return counts with none below zero, and the same total as far as that is possible."""
        counts = counts.copy()
        total = counts[: self._starts[1]].sum()
        while (low := int(np.argmin(counts))) >= 0 and counts[low] < 0:
            record = self._record(wanted - counts, np.ones(len(counts), dtype=np.bool_), low)
            counts[record] += 1
        while counts[: self._starts[1]].sum() > max(total, 0):
            record = self._record(counts - wanted, counts > 0, None)
            if record is None:
                break
            counts[record] -= 1
        return counts

    @cached_property
    def _labels(self) -> list[list[Integers]]:
        """Of every table and column: the group of every group of the finest partition."""
        return [
            [
                part.pieces[self._chains[name].parts[-1].first_values]
                for name, part in zip(table.scope, table.parts, strict=True)
            ]
            for table in self.rows
        ]

    def _record(self, scores: Floats, allowed: Mask, first: int | None) -> list[int] | None:
        """Return one allowed cell of each table that one record can be in, of high scores.

        ``first`` is one of them, if given.
        """
        groups = {
            name: np.ones(chain.parts[-1].size, np.bool_) for name, chain in self._chains.items()
        }
        order = list(range(len(self.rows)))
        cells: dict[int, int] = {}
        if first is not None:
            table = int(np.searchsorted(self._starts, first, side="right")) - 1
            order.remove(table)
            order.insert(0, table)
        for table in order:
            start, end = self._starts[table : table + 2]
            possible = allowed[start:end] & self._possible(table, groups)
            if first is not None and table == order[0]:
                cell = int(first - start)
            elif possible.any():
                cell = int(np.argmax(np.where(possible, scores[start:end], -np.inf)))
            else:
                return None
            cells[table] = int(start) + cell
            rows = self.rows[table]
            places = np.unravel_index(cell, rows.shape) if rows.shape else ()
            for name, at, labels in zip(rows.scope, places, self._labels[table], strict=True):
                groups[name] = groups[name] & (labels == at)
        return [cells[table] for table in sorted(cells)]

    def _possible(self, table: int, groups: dict[str, Mask]) -> Mask:
        """Return which cells of a table a record can be in, given the groups that are left."""
        possible = np.ones(1, dtype=np.bool_)
        rows = self.rows[table]
        for name, size, labels in zip(rows.scope, rows.shape, self._labels[table], strict=True):
            inside = np.zeros(size, dtype=np.bool_)
            inside[labels[groups[name]]] = True
            possible = np.logical_and.outer(possible, inside).reshape(-1)
        return possible


class _Chain:
    """The partitions of one column, coarse to fine, each refined by all before it."""

    def __init__(self, used: set[Partition]) -> None:
        ordered = sorted(used, key=lambda part: (part.size, part.key))
        self._levels = {part: level for level, part in enumerate(ordered)}
        self.parts = [common(ordered[: level + 1]) for level in range(len(ordered))]

    def level(self, part: Partition) -> int:
        return self._levels[part]

    def integers(self, level: int) -> Floats:
        """Return the groups of one partition over the basis of indicators."""
        rows = np.ones((1, 1))
        coarser = np.zeros_like(self.parts[0].pieces)
        for part in self.parts[: level + 1]:
            rows = _split_groups(rows, coarser[part.first_values])
            coarser = part.pieces
        return rows


def _split_groups(groups: Floats, parents: Integers) -> Floats:
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


def _collapsed(part: Partition) -> Partition:
    """Return a partition with one vertex per piece: only records are whole, sums need not be."""
    return part if part.is_flat else Partition.flat(part.pieces)


def _chains(blocks: Sequence[Rows]) -> dict[str, _Chain]:
    used: dict[str, set[Partition]] = {}
    for block in blocks:
        for name, part in zip(block.scope, block.parts, strict=True):
            used.setdefault(name, set()).add(_collapsed(part))
    return {name: _Chain(parts) for name, parts in used.items()}


def _inside(
    scope: tuple[str, ...],
    own: tuple[int, ...],
    other: tuple[str, ...],
    levels: dict[tuple[str, ...], tuple[int, ...]],
) -> bool:
    place = dict(zip(other, levels[other], strict=True))
    pairs = zip(scope, own, strict=True)
    return all(name in place and place[name] >= level for name, level in pairs)


def _nearest(rows: Floats, wanted: Floats) -> Floats:
    """Return integer counts ``rows @ c`` near the wanted ones; coarse coordinates come first."""
    fine_first = rows[:, ::-1]
    triangle = cholesky(fine_first.T @ fine_first, check_finite=False)
    aims = solve_triangular(triangle, fine_first.T @ wanted, trans="T", check_finite=False)
    chosen = np.zeros_like(aims)
    for place in reversed(range(len(aims))):
        rest = aims[place] - triangle[place, place + 1 :] @ chosen[place + 1 :]
        chosen[place] = np.rint(rest / triangle[place, place])
    return np.asarray(np.rint(fine_first @ chosen))


def running_sums_rounded(cells: Floats) -> Floats:
    """Return integers whose running sums are those of the cells, rounded; one column each.

    Every running sum is within half a record, the total above all, and no cell falls below zero
    that was not.  This is all that a single table, however large, needs.
    """
    running = np.rint(np.cumsum(cells, axis=0))
    return np.diff(running, axis=0, prepend=np.zeros_like(running[:1]))
