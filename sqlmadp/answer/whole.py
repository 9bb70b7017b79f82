"""Whole numbers that add up: integer counts for all cells of all tables at once.

In the integer coordinates of `tables` any integers c give counts B c that add up.  Of all these the
one near the wanted counts is found by rounding one coordinate after the other, coarse ones first,
each given those before it, with the best of the finer ones (Babai's nearest plane): B = Q R, and

    c_i = round((q_i - sum_k>i R_ik c_k) / R_ii),     q = Q^T wanted.

So the total is the nearest integer, and no count is far off.  If no count may be below zero,
records are then added where one is, each in a cell of every table, where most are missing; and
others are taken away again where most are too many, as long as every cell that they leave holds
one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular

from sqlmadp.answer.tables import integer_rows
from sqlmadp.schema.marginal import Marginal, Partition

Matrix = NDArray[np.float64]
Mask = NDArray[np.bool_]


def whole_estimate(
    estimate: Matrix, marginals: Sequence[Marginal], cells: Matrix, *, nonnegative: bool
) -> Matrix:
    """Return an estimate near the given one whose cells are integers that add up."""
    columns = estimate.reshape(len(estimate), -1)
    wanted = cells @ columns
    counts = nearest(integer_rows(marginals), wanted)
    if nonnegative:
        tables = _Tables(marginals)
        pairs = zip(counts.T, wanted.T, strict=True)
        counts = np.column_stack([tables.repaired(*pair) for pair in pairs])
    factor = cho_factor(cells.T @ cells, check_finite=False)
    found = columns
    for _ in range(3):  # Again for what rounding left over: counts may be in the millions.
        found = found + cho_solve(factor, cells.T @ (counts - cells @ found), check_finite=False)
    return found.reshape(estimate.shape)


def nearest(rows: Matrix, wanted: Matrix) -> Matrix:
    """Return integer counts ``rows @ c`` near the wanted ones; coarse coordinates come first."""
    fine_first = rows[:, ::-1]
    triangle = cholesky(fine_first.T @ fine_first, check_finite=False)
    aims = solve_triangular(triangle, fine_first.T @ wanted, trans="T", check_finite=False)
    chosen = np.zeros_like(aims)
    for place in reversed(range(len(aims))):
        rest = aims[place] - triangle[place, place + 1 :] @ chosen[place + 1 :]
        chosen[place] = np.rint(rest / triangle[place, place])
    return np.asarray(np.rint(fine_first @ chosen))


class _Tables:
    """Adds and takes away records, each of which is in one cell of every table."""

    def __init__(self, marginals: Sequence[Marginal]) -> None:
        self._marginals = marginals
        self._starts = np.cumsum([0, *(marginal.size for marginal in marginals)])
        used: dict[str, list[Partition]] = {}
        for marginal in marginals:
            for name, partition in zip(marginal.scope, marginal.partitions, strict=True):
                used.setdefault(name, []).append(partition)
        finest = {name: reduce(Partition.refine, each) for name, each in used.items()}
        self._groups = {name: partition.size for name, partition in finest.items()}
        self._labels = [
            [
                partition.coarsen(finest[name])
                for name, partition in zip(marginal.scope, marginal.partitions, strict=True)
            ]
            for marginal in marginals
        ]

    def repaired(self, counts: Matrix, wanted: Matrix) -> Matrix:
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

    def _record(self, scores: Matrix, allowed: Mask, first: int | None) -> list[int] | None:
        """Return one allowed cell of each table that one record can be in, of high scores.

        ``first`` is one of them, if given.
        """
        open_groups = {name: np.ones(size, dtype=np.bool_) for name, size in self._groups.items()}
        order = list(range(len(self._marginals)))
        cells: dict[int, int] = {}
        if first is not None:
            table = int(np.searchsorted(self._starts, first, side="right")) - 1
            order.remove(table)
            order.insert(0, table)
        for table in order:
            start, end = self._starts[table : table + 2]
            possible = allowed[start:end] & self._possible(table, open_groups)
            if first is not None and table == order[0]:
                cell = int(first - start)
            elif possible.any():
                cell = int(np.argmax(np.where(possible, scores[start:end], -np.inf)))
            else:
                return None
            cells[table] = int(start) + cell
            self._narrow(table, cell, open_groups)
        return [cells[table] for table in sorted(cells)]

    def _possible(self, table: int, open_groups: dict[str, Mask]) -> Mask:
        """Return which cells of a table a record can be in, given the groups that are open."""
        possible = np.ones(1, dtype=np.bool_)
        marginal = self._marginals[table]
        for name, partition, labels in zip(
            marginal.scope, marginal.partitions, self._labels[table], strict=True
        ):
            inside = np.zeros(partition.size, dtype=np.bool_)
            inside[labels[open_groups[name]]] = True
            possible = np.logical_and.outer(possible, inside).reshape(-1)
        return possible

    def _narrow(self, table: int, cell: int, open_groups: dict[str, Mask]) -> None:
        """Close the groups that lie outside a cell."""
        marginal = self._marginals[table]
        parts = np.unravel_index(cell, marginal.shape) if marginal.shape else ()
        for name, part, labels in zip(marginal.scope, parts, self._labels[table], strict=True):
            open_groups[name] = open_groups[name] & (labels == part)
