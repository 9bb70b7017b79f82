"""Bound statements: what is measured for them, and the SQL that runs over the answers.

A statement has one *private block* for each SELECT with aggregates over records.  A block is a
table of groups: its keys are known beforehand, its aggregates are worked out from linear
*pieces*, each of which is a list of rows over the cells of marginals.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sqlmadp.errors import Problem
from sqlmadp.schema.domain import PublicTable
from sqlmadp.schema.marginal import Block
from sqlmadp.sql.aggregates import PieceKind
from sqlmadp.sql.dialects import kind_of_dialect
from sqlmadp.sql.evaluate import Argument, Texts
from sqlmadp.sql.factor import Factor
from sqlmadp.sql.groups import Groups
from sqlmadp.sql.kinds import Kind
from sqlmadp.sql.products import Term
from sqlmadp.sql.sandbox import ResultColumns
from sqlmadp.sql.statements import Statement
from sqlmadp.sql.undeclared import Undeclared


@dataclass(frozen=True, eq=False)
class Keys:
    """The group keys: one row a group, one column a key or GROUPING()."""

    names: tuple[str, ...]
    """``__k0``, ``__k1``, ..., then ``__g0``, ..."""
    types: tuple[str, ...]
    """The DuckDB type of each."""
    columns: tuple[Texts, ...]
    """The values as text, which ``CAST(text AS type)`` reads back exactly; None for NULL."""


@dataclass(frozen=True, eq=False)
class BoundPiece:
    """A linear part: one number a group, or a group's histogram."""

    kind: PieceKind
    blocks: tuple[Block, ...]
    """One for each grouping set, in the order of the groups."""
    argument: Argument | None
    """What is summed, or what a histogram tells apart."""
    scale: float = 1.0
    """The rows are this many times smaller than what they stand for.

    A sum that only serves to work out another aggregate, such as the squares of a variance, is
    measured as if its largest value were 1; else it would outweigh every count of its analyst.
    """

    groups: tuple[Groups, ...] = ()
    """For each grouping set, which cells make which group, column by column where they can be."""
    masks: tuple[Factor, ...] = ()
    """Conditions that its records satisfy beside those of the groups: 1 where they hold, else 0."""
    terms: tuple[Term, ...] | None = None
    """What is summed as a sum of products of functions of single columns; None if it is none.

    ``blocks`` is the product of groups, masks and terms, worked out.
    """

    @property
    def width(self) -> int:
        """Return how many rows a group has."""
        return max(1, len(self.argument.texts)) if self.kind == "histogram" and self.argument else 1


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
    """Whether the result is a list, one value a fraction."""
    descending: bool = False
    empty: NDArray[np.bool_] | None = None
    """Of SUM and COUNT_IF: the groups that no cell lies in, so that it is NULL for any table."""


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
        slips = sorted(found, key=lambda note: (note.line, note.column))
        if not self.read_as:
            return tuple(slips)
        dialect = self.statement.dialect
        read = self.statement.problem(
            "read-as",
            f"read as: {self.read_as}",
            hint=f"{dialect} is a {kind_of_dialect(dialect)} dialect.",
        )
        return (read, *slips)

    @property
    def top_block(self) -> PrivateBlock:
        """Return the block whose groups the rows of a tracked query are."""
        return self.blocks[self.top]

    @property
    def rows(self) -> int:
        """Return the number of groups of all blocks."""
        return sum(block.rows for block in self.blocks)

    @property
    def aggregates(self) -> tuple[Block, ...]:
        """Return the linear queries that the statement needs: its part of a workload."""
        return tuple(
            part for block in self.blocks for piece in block.pieces for part in piece.blocks
        )

    @property
    def entries(self) -> int:
        """Return how many numbers its linear queries are made of."""
        return sum(int(block.matrix.nnz) for block in self.aggregates)
