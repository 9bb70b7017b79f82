"""Rows that are products of functions of single columns: these sexes, that band of age, its mean.

A counting query has one value on a product of one set of groups a column, and is zero elsewhere; a
sum has the summed values along one column besides.  Most queries are of this form.  The functions
of a column are numbered, so that rows with equal functions can be worked on together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sqlmadp.schema.marginal import Block, CellBlock, Labels, Marginal, row_major_strides

Matrix = NDArray[np.float64]

CLOSE = 1e-12
"""Relative distance at which an entry is the product of its row's functions."""


@dataclass(frozen=True, eq=False)
class ProductRows:
    """The rows of a block that are products of functions, and the numbers of all others."""

    rows: Labels
    """The numbers of the rows that are products."""
    values: Matrix
    """The value of each of them at its first cell, where all its functions are 1."""
    sets: tuple[Labels, ...]
    """For every column, the number of each row's function."""
    members: tuple[Matrix, ...]
    """For every column, one row a function and one column a group; 0 outside its set."""
    others: Labels
    """The numbers of the rows that are no products."""

    @classmethod
    def of(cls, block: Block) -> ProductRows:
        """Find the products among the rows of a block."""
        if isinstance(block, CellBlock):
            return cls._of_cells(block)
        if not block.marginal.scope:
            values = block.matrix.toarray()[:, 0].astype(np.float64)
            rows = np.flatnonzero(values)
            return cls(rows, values[rows], (), (), np.zeros(0, dtype=np.int64))
        matrix = block.matrix.tocsr().copy()
        matrix.eliminate_zeros()
        matrix.sort_indices()  # A product's first cell then has the first group of every column.
        counts = np.diff(matrix.indptr)
        filled = counts > 0
        row = np.repeat(np.arange(block.rows), counts)
        first = np.zeros(block.rows, dtype=np.int64)
        first[filled] = matrix.indptr[:-1][filled]
        values = np.zeros(block.rows)
        values[filled] = matrix.data[first[filled]]
        groups = _groups(matrix.indices.astype(np.int64), block.marginal.shape)
        lines = [_lines(groups, column, first[row]) for column in range(len(groups))]
        profiles = [
            _Profile(row[line], group[line], (matrix.data / values[row])[line])
            for group, line in zip(groups, lines, strict=True)
        ]
        product, sizes = values[row], np.ones(block.rows)
        known = np.ones(len(row), dtype=bool)
        for profile, group, size in zip(profiles, groups, block.marginal.shape, strict=True):
            found, factor = profile.at(row, group, size)
            known &= found
            product = product * factor
            sizes *= np.bincount(profile.row, minlength=block.rows)
        wrong = ~known | (np.abs(product - matrix.data) > CLOSE * np.abs(matrix.data))
        is_product = filled & (sizes == counts) & (np.bincount(row, wrong, block.rows) == 0)
        rows = np.flatnonzero(is_product)
        numbered = [
            profile.numbered(rows, size)
            for profile, size in zip(profiles, block.marginal.shape, strict=True)
        ]
        return cls(
            rows,
            values[rows],
            tuple(sets for sets, _ in numbered),
            tuple(members for _, members in numbered),
            np.flatnonzero(~is_product & filled),
        )

    @classmethod
    def _of_cells(cls, block: CellBlock) -> ProductRows:
        """Return the cells of a marginal, each a product of one group a column."""
        cells = np.arange(block.rows)
        sets = tuple(_groups(cells, block.marginal.shape))
        members = tuple(np.eye(size) for size in block.marginal.shape)
        values = np.full(block.rows, float(block.weight))
        return cls(cells, values, sets, members, np.zeros(0, dtype=np.int64))

    def lifted(self, old: Marginal, new: Marginal) -> ProductRows:
        """Return the products over more columns, and over partitions as fine or finer."""
        place = {name: column for column, name in enumerate(old.scope)}
        sets, members = [], []
        for name, partition in zip(new.scope, new.partitions, strict=True):
            if name in place:
                column = place[name]
                sets.append(self.sets[column])
                finer = old.partitions[column].coarsen(partition)
                members.append(self.members[column][:, finer])
            else:
                sets.append(np.zeros(len(self.rows), dtype=np.int64))
                members.append(np.ones((1, partition.size)))
        return ProductRows(self.rows, self.values, tuple(sets), tuple(members), self.others)

    @classmethod
    def joined(cls, parts: Sequence[ProductRows]) -> ProductRows:
        """Return products over the same cells as one; they are numbered anew."""
        columns = range(len(parts[0].sets))
        sizes = [[len(part.members[column]) for part in parts] for column in columns]
        starts = [np.cumsum([0, *each[:-1]]) for each in sizes]
        values = np.concatenate([part.values for part in parts])
        return cls(
            np.arange(len(values)),
            values,
            tuple(
                np.concatenate([p.sets[c] + s for p, s in zip(parts, starts[c], strict=True)])
                for c in columns
            ),
            tuple(np.vstack([part.members[column] for part in parts]) for column in columns),
            np.zeros(0, dtype=np.int64),
        )


def _groups(cells: Labels, shape: tuple[int, ...]) -> list[Labels]:
    """Return the group of every cell in every column."""
    strides = row_major_strides(shape)
    return [cells // stride % size for size, stride in zip(shape, strides, strict=True)]


def _lines(groups: list[Labels], column: int, first: Labels) -> NDArray[np.bool_]:
    """Tell the entries that differ from the first one of their row in one column at most."""
    others = [group == group[first] for n, group in enumerate(groups) if n != column]
    alike: NDArray[np.bool_] = np.logical_and.reduce([np.ones(len(first), dtype=bool), *others])
    return alike


@dataclass(frozen=True, eq=False)
class _Profile:
    """How every row varies along one column, from its first cell: its entries in order."""

    row: Labels
    group: Labels
    factor: Matrix

    def at(self, row: Labels, group: Labels, size: int) -> tuple[NDArray[np.bool_], Matrix]:
        """Return whether the rows have a factor at the groups, and which."""
        keys, wanted = self.row * size + self.group, row * size + group
        place = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        return keys[place] == wanted, self.factor[place]

    def numbered(self, rows: Labels, size: int) -> tuple[Labels, Matrix]:
        """Return the number of the function of each of ``rows``, and every function's values."""
        starts = np.searchsorted(self.row, rows)
        ends = np.searchsorted(self.row, rows, side="right")
        known: dict[bytes, tuple[int, int]] = {}
        numbers: dict[bytes, int] = {}
        sets = np.zeros(len(rows), dtype=np.int64)
        for place, (a, b) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            key = self.group[a:b].tobytes() + self.factor[a:b].tobytes()
            sets[place] = numbers.setdefault(key, len(numbers))
            known.setdefault(key, (a, b))
        members = np.zeros((len(numbers), size))
        for number, (a, b) in enumerate(known.values()):
            members[number, self.group[a:b]] = self.factor[a:b]
        return sets, members
