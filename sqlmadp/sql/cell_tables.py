"""Cell tables: a small table of every column's cells in the sandbox, a number and a value each.

An expression of several columns runs over the product of their tables, whose cells are
numbered row by row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from sqlmadp.sql.factor import Factor, TooManyCellsError
from sqlmadp.sql.limits import Limits
from sqlmadp.sql.locked import quote
from sqlmadp.sql.sandbox import Sandbox
from sqlmadp.sql.tree import Node, column_names
from sqlmadp.table.domain import Column, Domain
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import row_major_strides


class CellTables:
    """The tables of a domain's cells, each made at its first use."""

    def __init__(self, domain: Domain, limits: Limits, sandbox: Sandbox) -> None:
        self._domain, self._limits, self._sandbox = domain, limits, sandbox
        self._made: set[str] = set()

    def columns(self, node: Node) -> list[Column]:
        """Return the columns of an expression, unless they have too many cells together."""
        names = column_names(node)
        columns = [column for column in self._domain.columns if column.name in names]
        cells = math.prod(column.size for column in columns)
        if cells > self._limits.predicate_cells:
            together = [column.name for column in columns]
            raise TooManyCellsError(together, cells, self._limits.predicate_cells)
        return columns

    def product(
        self, columns: list[Column], cells: Mapping[str, NDArray[np.int64]] | None = None
    ) -> tuple[str, str]:
        """Return a FROM clause over the product of columns, and the number of its cells.

        With ``cells``, over those of every column only.
        """
        if not columns:
            return "(SELECT 1)", "0::BIGINT"
        tables = [self._cell_table(column) for column in columns]
        source = ", ".join(tables)
        if cells is not None:
            source = ", ".join(
                f"(FROM {table} WHERE __cell IN ({', '.join(map(str, cells[c.name]))})) AS {table}"
                for table, c in zip(tables, columns, strict=True)
            )
        strides = row_major_strides([column.size for column in columns])
        terms = [f"{t}.__cell * {stride}" for t, stride in zip(tables, strides, strict=True)]
        return source, " + ".join(terms)

    def _cell_table(self, column: Column) -> str:
        """Return the name of the table of a column's cells, which is made at first use."""
        table = f"__cells_{self._domain.columns.index(column)}"
        if table not in self._made:
            value, parameters = _value_sql(column)
            # What can be counted out is not stored, so that wide columns take no memory.
            made = "TABLE" if parameters else "VIEW"
            self._sandbox.execute(
                f"CREATE {made} {table} AS SELECT range AS __cell, "
                f"CASE WHEN range < {column.declared} THEN CAST({value} AS {column.sql_type}) END "
                f"AS {quote(column.name)} FROM range({column.size})",
                parameters,
            ).fetchall()
            self._made.add(table)
        return table


def scatter(
    columns: list[Column], cells: NDArray[np.generic], values: NDArray[np.generic]
) -> Factor:
    """Return values that came in any order as a factor."""
    shape = tuple(column.size for column in columns)
    placed = np.empty(math.prod(shape), dtype=np.int64)
    placed[np.asarray(cells, dtype=np.int64)] = values
    return Factor(
        tuple(column.name for column in columns),
        tuple(Partition.finest(size) for size in shape),
        placed.reshape(shape),
    )


def _value_sql(column: Column) -> tuple[str, list[object]]:
    """Return the SQL of a cell's value, given its number as ``range``."""
    match column.type:
        case "boolean":
            return "range = 1", []
        case "integer":
            return f"range + ({column.ordinal_bounds[0]})", []
        case "decimal":
            step = f"CAST(range + ({column.ordinal_bounds[0]}) AS DOUBLE)"
            return f"{step} / {10**column.decimals}", []
        case "date":
            return f"DATE '{column.minimum}' + CAST(range AS INTEGER)", []
        case _:
            values = [column.value(cell) for cell in range(column.declared)]
            return f"(?::{column.sql_type}[])[range + 1]", [values]
