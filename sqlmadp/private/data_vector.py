"""The data vector: how many records of the private table lie in each cell of a marginal.

One statement (see `counting`) counts every scope of a release in one scan of the table.  A
scope that is part of another is not counted by itself, and small scopes are counted together (see
`together`): their cells are added up afterwards, here.  Only cells with records come back
from the engine, and stay a list of them until they are measured.

Guarantee  Adding or removing one record that is counted changes one cell of every marginal by
           1, the same table cell in all of them.  Adding or removing one unit changes whether
           at most ``domain.records_per_unit`` records are counted, all of them its own.
Requires   Catalogue checked against the domain; marginals of the domain.
Numerics   Exact: 64-bit counts of records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqlmadp.private.counting import counting_select, used_columns
from sqlmadp.private.engines import Engine
from sqlmadp.private.together import Scope, counted_together
from sqlmadp.schema.domain import Column, Domain
from sqlmadp.schema.marginal import Marginal, row_major_strides

Counts = NDArray[np.int64]

_EPOCH = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, eq=False, kw_only=True)
class CellCounts:
    """The counts of one marginal: those of its cells that have records.  Private."""

    size: int
    """The number of cells of the marginal."""
    cells: NDArray[np.int64]
    """Numbers of cells; one may be there several times, and its records add up."""
    records: Counts

    def dense(self) -> Counts:
        """Return the count of every cell."""
        counts = np.zeros(self.size, dtype=np.int64)
        np.add.at(counts, self.cells, self.records)
        return counts


def read_counts(engine: Engine, domain: Domain, marginals: Sequence[Marginal]) -> list[Counts]:
    """Return the exact counts of every marginal, cell by cell.  Private."""
    return [counts.dense() for counts in read_cells(engine, domain, marginals)]


def read_cells(engine: Engine, domain: Domain, marginals: Sequence[Marginal]) -> list[CellCounts]:
    """Return the exact counts of every marginal, for cells with records alone.  Private."""
    counted = counted_together(domain, {marginal.scope for marginal in marginals})
    scopes = sorted(set(counted.values()))
    answer = engine.counts(counting_select(engine, domain, scopes))
    used = used_columns(domain, scopes)
    records = np.asarray(answer["records"], dtype=np.int64)
    cells = {
        name: _cells(domain.column(name), answer[f"c{number}"], numbered=engine.numbers_values)
        for number, name in enumerate(used)
    }
    tables = {}
    for scope in scopes:
        rows = slice(None) if len(scopes) == 1 else _rows(answer, used, scope)
        tables[scope] = ({name: cells[name][rows] for name in scope}, records[rows])
    return [_of_marginal(marginal, *tables[counted[marginal.scope]]) for marginal in marginals]


def _rows(
    answer: Mapping[str, NDArray[Any]], used: Sequence[str], scope: Scope
) -> NDArray[np.bool_]:
    """Return which rows of the answer count one scope of several."""
    rows = np.ones(len(answer["records"]), dtype=bool)
    for number, name in enumerate(used):
        rows &= np.asarray(answer[f"g{number}"]) == (name not in scope)
    return rows


def _cells(column: Column, values: NDArray[Any], *, numbered: bool) -> NDArray[np.int64]:
    """Return the cell of every value of a result column; -1 for one that has none."""
    data = np.ma.getdata(values)
    match column.type:
        case "category" if not numbered:
            number = {value: cell for cell, value in enumerate(column.values)}
            cells = np.array([number.get(value, -1) for value in data.tolist()], dtype=np.int64)
        case "integer":
            cells = data.astype(np.int64) - column.ordinal_bounds[0]
        case "date":
            days = data.astype("datetime64[D]").astype(np.int64)
            cells = days + _EPOCH - column.ordinal_bounds[0]
        case _:
            cells = data.astype(np.int64)
    if not np.ma.is_masked(values):
        return cells
    null = -1 if column.null_cell is None else column.null_cell
    return np.where(np.ma.getmaskarray(values), null, cells)


def _of_marginal(
    marginal: Marginal, cells: Mapping[str, NDArray[np.int64]], records: Counts
) -> CellCounts:
    place = np.zeros(len(records), dtype=np.int64)
    inside = np.ones(len(records), dtype=bool)
    strides = row_major_strides(marginal.shape)
    for name, partition, stride in zip(marginal.scope, marginal.partitions, strides, strict=True):
        cell = cells[name]
        inside &= (cell >= 0) & (cell < len(partition.labels))
        place += partition.labels[np.where(inside, cell, 0)] * stride
    return CellCounts(size=marginal.size, cells=place[inside], records=records[inside])
