"""Bound statements: what is measured for them, and the SQL that runs over the answers.

A statement has one *private block* for each SELECT with aggregates over records.  A block is a
table of groups: its keys are known beforehand, its aggregates are worked out from linear
*pieces*, each of which is a list of rows over vertices.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sqlmadp.bind.evaluate import Argument, Texts
from sqlmadp.bind.linear import Kind
from sqlmadp.errors import Problem
from sqlmadp.sql.aggregates import PieceKind
from sqlmadp.sql.dialects import kind_of_dialect
from sqlmadp.sql.hints import Undeclared
from sqlmadp.sql.sandbox import ResultColumns
from sqlmadp.sql.statements import Statement
from sqlmadp.table.domain import PublicTable
from sqlmadp.table.rows import Rows


@dataclass(frozen=True, eq=False)
class Keys:
    """The group keys: one row per group, one column per key or GROUPING()."""

    names: tuple[str, ...]
    """``__k0``, ``__k1``, ..., then ``__g0``, ..."""
    types: tuple[str, ...]
    """The DuckDB type of each."""
    columns: tuple[Texts, ...]
    """The values as text, which ``CAST(text AS type)`` reads back exactly; None for NULL."""


@dataclass(frozen=True, eq=False)
class BoundPiece:
    """A linear part: one number per group, or a group's histogram."""

    kind: PieceKind
    rows: tuple[Rows, ...]
    """One for each grouping set, in the order of the groups, in plain units."""
    argument: Argument | None = None
    """The values that a histogram counts."""
    bounds: tuple[float, float] = (math.nan, math.nan)
    """The smallest and largest value that one record can add to a sum."""
    coarser: tuple[Rows, ...] = ()
    """Of an ordered histogram: the same over ever wider ranges of values.  They are asked for too:
    a quantile is a matter of running counts, and these are sums of few ranges."""
    merged: int = 1
    """How many neighbouring values a histogram counts as one."""

    @property
    def width(self) -> int:
        """Return how many rows a group has."""
        if self.kind != "histogram" or self.argument is None:
            return 1
        return max(1, len(self.argument.numbers))


@dataclass(frozen=True, eq=False)
class BoundAggregate:
    """An aggregate, and the pieces that it is worked out from."""

    function: str
    type: str
    """The DuckDB type of the aggregate."""
    pieces: tuple[int, ...]
    fractions: tuple[Fraction | float | None, ...] = ()
    """Which quantiles; exact where the statement writes an exact number."""
    listed: bool = False
    """Whether the result is a list, one value per fraction."""
    descending: bool = False
    empty: NDArray[np.bool_] | None = None
    """Of SUM and COUNT_IF: the groups without any cell, which are NULL for every table."""


@dataclass(frozen=True, eq=False)
class PrivateBlock:
    """A table of groups, to be filled with answers."""

    name: str
    """The table that the outer SQL reads: ``__block0``, ``__block1``, ..."""
    rows: int
    """The number of groups; 1 for a SELECT without GROUP BY."""
    keys: Keys
    pieces: tuple[BoundPiece, ...]
    aggregates: tuple[BoundAggregate, ...]

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Return name and type of every column of the table."""
        return [
            *zip(self.keys.names, self.keys.types, strict=True),
            *((f"__a{place}", a.type) for place, a in enumerate(self.aggregates)),
        ]


@dataclass(frozen=True, eq=False)
class BoundQuery:
    """A statement over the domain: what is measured, and what runs over the answers."""

    statement: Statement
    blocks: tuple[PrivateBlock, ...]
    outer: str
    """SQL over the blocks' tables and public tables.

    A block must be a table, filled in the order of the groups, since that order (``rowid``)
    breaks ties.
    """
    columns: ResultColumns
    """Name and DuckDB type of every result column, as DuckDB gives them to the statement."""
    tracked: bool
    """Whether the result has one more column, the last: the number of the row's group."""
    top: int
    """If tracked: the place of the block whose groups the rows are."""
    untouched: str
    """The same SQL without what only chooses among rows and orders them (see ``linear``).

    It serves to work errors out, and casts in it never fail.
    """
    measures: tuple[int | None, ...]
    """If tracked: for every result column, the aggregate that it is a bare copy of."""
    kinds: tuple[Kind, ...]
    """For every result column, how it depends on the answers."""
    local: tuple[bool, ...]
    """For every result column, whether it reads nothing but its own group."""
    fixed: bool
    """Whether ``untouched`` has the same rows whatever the answers are."""
    lenient: str | None = None
    """``outer`` with NULL where a cast of answers fails; None if there is no such cast."""
    public: tuple[PublicTable, ...] = ()
    undeclared: tuple[Undeclared, ...] = ()
    """Comparisons that are accepted, and most likely slips."""
    read_as: str = ""
    """DuckDB's SQL of a statement that is written in another dialect."""

    @property
    def name(self) -> str:
        """Return the name of the statement."""
        return self.statement.name

    @property
    def notes(self) -> tuple[Problem, ...]:
        """Return how it was read if it had to be translated, and what is most likely a slip."""
        found = (
            self.statement.problem("undeclared-value", each.message, hint=each.hint, span=each.span)
            for each in self.undeclared
        )
        slips = [*sorted(found, key=lambda note: (note.line, note.column)), *self._merged()]
        if not self.read_as:
            return tuple(slips)
        dialect = self.statement.dialect
        read = self.statement.problem(
            "read-as",
            f"read as: {self.read_as}",
            hint=f"{dialect} is a verified dialect."
            if kind_of_dialect(dialect) == "verified"
            else f"{dialect} is a translated dialect, not a verified one: check that this means "
            "what you ask.",
        )
        return (read, *slips)

    def _merged(self) -> Iterator[Problem]:
        """Say where a quantile is answered less finely than the column is declared."""
        widths = {piece.merged for block in self.blocks for piece in block.pieces}
        if (widest := max(widths, default=1)) > 1:
            yield self.statement.problem(
                "quantile-resolution",
                f"quantiles are answered to the nearest {widest:,} neighbouring values: more would "
                "be told apart than can be measured",
                hint="Where that is too coarse, tell fewer values apart yourself: cut them off "
                "with LEAST(..., 20000) and divide them by a step with // 10.",
            )

    @property
    def top_block(self) -> PrivateBlock:
        """Return the block whose groups the rows of a tracked query are."""
        return self.blocks[self.top]

    @property
    def rows(self) -> int:
        """Return the number of groups of all blocks."""
        return sum(block.rows for block in self.blocks)

    @property
    def aggregates(self) -> tuple[Rows, ...]:
        """The linear queries that the statement needs: its part of a workload."""
        return tuple(part for block in self.blocks for piece in block.pieces for part in piece.rows)

    @property
    def entries(self) -> int:
        """How many numbers its linear queries are made of."""
        return sum(rows.entries for rows in self.aggregates)
