"""The domain: the declared, public values that a private table may hold.

A column has a finite list of *cells*, numbered from 0.  A cell is one declared value, or,
for a ``real`` column, one point or open interval between the constants (*cuts*) that the
queries compare the column with:

    category   one cell per value, in declared order
    boolean    false, true
    integer    one cell per integer, from ``minimum`` to ``maximum``
    date       one cell per day, from ``minimum`` to ``maximum``
    real       e0, (e0, e1), e1, (e1, e2), e2, ...   for the edges e0 < e1 < ...
               that are ``minimum``, the cuts between, and ``maximum``
    timestamp  one cell per step of time (``every``), from ``minimum`` to ``maximum``
    decimal    one cell per number of ``decimals`` decimals, from ``minimum`` to ``maximum``: a
               ``real`` column of a schema that declares its ``decimals``

An undeclared value is read as NULL, so every column has one more cell, the last, for NULL; only a
column that is declared complete has none.  The cells of the table are all combinations of its
columns' cells; nothing is ever stored over all of them.

The domain also says who is protected: a privacy unit, and which tables are neighbours.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import Literal

ColumnType = Literal["category", "boolean", "integer", "date", "timestamp", "real", "decimal"]
Outside = Literal["null", "clamp"]
Neighbours = Literal["add_remove", "replace"]
Value = str | int | bool | date | float | None

ORDERED: frozenset[ColumnType] = frozenset({"integer", "date", "timestamp", "real", "decimal"})

_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True, kw_only=True)
class Column:
    """One declared column and its cells."""

    name: str
    type: ColumnType
    nullable: bool = False
    """Whether NULL is a declared value, which GROUP BY shows as a group."""
    complete: bool = False
    """Whether the curator promises that nothing is undeclared: a record that breaks the promise is
    counted nowhere."""
    outside: Outside = "null"
    """What becomes of a value beyond the ends: it is read as NULL, or moved to the nearest end."""
    values: tuple[str, ...] | tuple[int, ...] = ()
    """The declared values of a category, all text or all integers."""
    minimum: int | date | float | None = None
    maximum: int | date | float | None = None
    decimals: int = 0
    """Digits after the point of a decimal column; a value is read as the nearest such number."""
    every: int = 0
    """Seconds of one step of a timestamp column; a value is read as the start of its step."""
    cuts: tuple[float, ...] = ()
    """Constants that queries compare a real column with; always sorted, inside the bounds."""

    @property
    def sql_type(self) -> str:
        """Return the DuckDB type that statements see."""
        match self.type:
            case "category":
                return "BIGINT" if self.values and isinstance(self.values[0], int) else "VARCHAR"
            case "boolean":
                return "BOOLEAN"
            case "integer":
                return "BIGINT"
            case "date":
                return "DATE"
            case "timestamp":
                return "TIMESTAMP"
            case "real" | "decimal":
                return "DOUBLE"

    @cached_property
    def edges(self) -> tuple[float, ...]:
        """Return the ends and cuts of a real column, ascending and without duplicates."""
        return tuple(sorted({*self._real_bounds, *self.cuts}))

    @cached_property
    def size(self) -> int:
        """Return the number of cells, the NULL cell included."""
        return self.declared + (not self.complete)

    @cached_property
    def declared(self) -> int:
        """Return the number of cells without the NULL cell."""
        match self.type:
            case "category":
                return len(self.values)
            case "boolean":
                return 2
            case "integer" | "date" | "timestamp" | "decimal":
                low, high = self.ordinal_bounds
                return high - low + 1
            case "real":
                return 2 * len(self.edges) - 1

    @property
    def null_cell(self) -> int | None:
        """Return the number of the NULL cell, or None for a complete column."""
        return None if self.complete else self.declared

    @property
    def ordinal_bounds(self) -> tuple[int, int]:
        """The bounds as integers: a date's ordinal, a number of steps of time or of decimals."""
        if self.type == "decimal":
            low, high = (round(end * 10**self.decimals) for end in self._real_bounds)
            return low, high
        if self.type == "timestamp":
            first, last = self.time_bounds
            step = timedelta(seconds=self.every)
            return (first - _EPOCH) // step, (last - _EPOCH) // step
        return _ordinal(self.minimum), _ordinal(self.maximum)

    @property
    def time_bounds(self) -> tuple[datetime, datetime]:
        """The first and the last moment that a timestamp column declares."""
        if not isinstance(self.minimum, datetime) or not isinstance(self.maximum, datetime):
            raise TypeError(f"column {self.name!r} has no bounds of time")
        return self.minimum, self.maximum

    @property
    def _real_bounds(self) -> tuple[float, float]:
        if not isinstance(self.minimum, int | float) or not isinstance(self.maximum, int | float):
            raise TypeError(f"column {self.name!r} has no real bounds")
        return float(self.minimum), float(self.maximum)

    def value(self, cell: int) -> Value:
        """Return the value of ``cell``; for an open interval, a number inside it.

        An interval without a floating-point number inside holds no record; its lower end
        stands for it, so that it is never told apart from a cell that exists.
        """
        if cell == self.null_cell:
            return None
        match self.type:
            case "category":
                return self.values[cell]
            case "boolean":
                return bool(cell)
            case "integer":
                return self.ordinal_bounds[0] + cell
            case "date":
                return date.fromordinal(self.ordinal_bounds[0] + cell)
            case "timestamp":
                return _EPOCH + (self.ordinal_bounds[0] + cell) * timedelta(seconds=self.every)
            case "decimal":
                return float((self.ordinal_bounds[0] + cell) / 10**self.decimals)
            case "real":
                low = self.edges[cell // 2]
                if cell % 2 == 0:
                    return low
                return _between(low, self.edges[cell // 2 + 1])

    def describe(self, cell: int) -> str:
        """Return ``cell`` as text for a person."""
        if self.type == "real" and cell != self.null_cell and cell % 2 == 1:
            return f"between {self.edges[cell // 2]!r} and {self.edges[cell // 2 + 1]!r}"
        value = self.value(cell)
        return "NULL" if value is None else str(value)

    def cell_of_real(self, value: float) -> int:
        """Return the cell of a real column that holds ``value``, which lies within its bounds."""
        position = bisect_left(self.edges, value)
        return 2 * position if self.edges[position] == value else 2 * position - 1

    def with_cuts(self, cuts: Iterable[float]) -> Column:
        """Return this real column with more cuts; those outside the bounds cut nothing."""
        low, high = self._real_bounds
        inside = {cut for cut in cuts if low < cut < high}
        return replace(self, cuts=tuple(sorted({*self.cuts, *inside})))


@dataclass(frozen=True, kw_only=True)
class PublicTable:
    """A table that anybody may read: statements join it on declared columns."""

    name: str
    columns: tuple[tuple[str, str], ...] = ()
    """Name and DuckDB type of every column."""
    rows: tuple[tuple[Value, ...], ...] = ()
    table: str | None = None
    """The table of the source's own database that it is read from, if it is."""


@dataclass(frozen=True, kw_only=True)
class Unit:
    """Who is protected, where one unit may own several records: a person with many visits."""

    column: str
    """The column that says whose a record is; it need not be declared."""
    max_records: int
    """Count at most this many records per unit."""
    nulls: Literal["drop", "own"] = "drop"
    """A record without a unit is dropped, or is a unit of its own."""
    key: tuple[str, ...] = ()
    """Columns that tell a unit's records apart; those that are not declared if it is empty."""


@dataclass(frozen=True, kw_only=True)
class Domain:
    """The declared table: its name, its columns, who is protected, and public tables."""

    table: str
    columns: tuple[Column, ...]
    unit: Unit | None = None
    """None where every record is a unit of its own."""
    neighbours: Neighbours = "add_remove"
    public: tuple[PublicTable, ...] = ()

    @property
    def records_per_unit(self) -> int:
        """Return how many records of one unit are counted at most."""
        return 1 if self.unit is None else self.unit.max_records

    @property
    def records_between_neighbours(self) -> int:
        """Return how many records at most are in one of two neighbouring tables only.

        With one unit added or removed they are that unit's; with one replaced by another
        they are both units'.
        """
        return self.records_per_unit * (2 if self.neighbours == "replace" else 1)

    @property
    def protection(self) -> str:
        """Return the words for what one neighbour has and the other has not."""
        who = "one record"
        if self.unit is not None:
            most = self.unit.max_records
            of_them = "1 of them is" if most == 1 else f"{most} of them are"
            who = f"one {self.unit.column!r} with all of its records (at most {of_them} counted)"
        return f"replacing {who}" if self.neighbours == "replace" else f"adding or removing {who}"

    @property
    def left_out(self) -> tuple[str, ...]:
        """Return which records are not counted, in words; none where every record is."""
        found = []
        if self.unit is not None:
            most, whose = self.unit.max_records, self.unit.column
            found.append(f"at most {most} record{'s' * (most > 1)} per {whose!r} are counted")
            if self.unit.nulls == "drop":
                found.append(f"records without a {whose!r} are not counted")
        promised = [repr(column.name) for column in self.columns if column.complete]
        if promised:
            found.append(
                "the curator promises that no record has NULL or an undeclared value in "
                f"{', '.join(promised)}, and one that has is not counted"
            )
        return tuple(found)

    @property
    def error_meaning(self) -> str:
        """Return in words which errors the stated one covers, and which it does not."""
        noise = "± is one standard error of the noise, for the records that were included"
        if not self.left_out:
            return f"{noise}: all records of the table."
        return (
            f"{noise}. It does not cover records that were not: {'; '.join(self.left_out)}. "
            "So counts can be lower than in the table."
        )

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name.casefold(): column for column in self.columns}

    def column(self, name: str) -> Column:
        """Return a column by its name, in any case, as SQL does; KeyError if there is none."""
        return self._by_name[name.casefold()]

    def __contains__(self, name: str) -> bool:
        return name.casefold() in self._by_name

    @property
    def cells(self) -> int:
        """Return the number of cells of the whole table (exact, of any size)."""
        return math.prod(column.size for column in self.columns)

    def with_cuts(self, cuts: Mapping[str, Iterable[float]]) -> Domain:
        """Return this domain with more cuts on its real columns."""
        return replace(
            self,
            columns=tuple(
                column.with_cuts(cuts[column.name]) if cuts.get(column.name) else column
                for column in self.columns
            ),
        )


def _ordinal(value: int | date | float | None) -> int:
    if isinstance(value, date):
        return value.toordinal()
    if isinstance(value, int):
        return value
    raise TypeError(f"{value!r} is neither an integer nor a date")


def _between(low: float, high: float) -> float:
    middle = low + (high - low) / 2 if math.isfinite(high - low) else low / 2 + high / 2
    if low < middle < high:
        return middle
    after = math.nextafter(low, math.inf)
    return after if after < high else low
