"""Names of measured questions, as a person would put them: 'age 18 to 64, sex female'."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sqlmadp.schema.domain import ORDERED, Column, Domain
from sqlmadp.schema.marginal import Marginal, Partition

Row = tuple[NDArray[np.int64], NDArray[np.float64]]
"""The cells where a question is not zero, and what it weighs there."""

ALL = "all records"
LISTED = 3
"""Values of a group up to which they are listed."""


def question_name(domain: Domain, marginal: Marginal, row: Row) -> str:
    """Return what a question counts."""
    cells, weights = row
    if len(cells) == marginal.size and np.ptp(weights) == 0:
        return ALL
    if np.ptp(weights) != 0:
        return f"a weighted mix over {', '.join(marginal.scope)}"
    places = np.unravel_index(cells, marginal.shape)
    chosen = [np.unique(place) for place in places]
    if np.prod([len(groups) for groups in chosen]) != len(cells):
        return f"{len(cells):,} groups of {', '.join(marginal.scope)}"
    parts = zip(marginal.scope, marginal.partitions, chosen, strict=True)
    named = (_column(domain.column(name), part, groups) for name, part, groups in parts)
    return ", ".join(text for text in named if text) or ALL


def _column(column: Column, partition: Partition, groups: NDArray[np.int64]) -> str:
    """Return what part of a column some groups are; empty for all of it."""
    cells = np.flatnonzero(np.isin(partition.labels, groups))
    if len(cells) == len(partition.labels):
        return ""
    if len(cells) <= LISTED:
        return f"{column.name} {' or '.join(column.describe(int(cell)) for cell in cells)}"
    in_a_row = cells[-1] - cells[0] + 1 == len(cells)
    if column.type in ORDERED and in_a_row and cells[-1] != column.null_cell:
        low, high = column.value(int(cells[0])), column.value(int(cells[-1]))
        return f"{column.name} {low} to {high}"
    if len(partition.labels) - len(cells) <= LISTED:
        left_out = np.setdiff1d(np.arange(len(partition.labels)), cells)
        return f"{column.name} not {' nor '.join(column.describe(int(c)) for c in left_out)}"
    return f"{len(cells):,} values of {column.name}"
