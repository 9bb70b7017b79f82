"""Rows: answers in, result rows out, as if the SQL had run on the table.

The rest of a statement (HAVING, ORDER BY, LIMIT, windows, joins of private blocks, arithmetic on
aggregates) runs in a locked-down, in-memory DuckDB that holds nothing but released answers and
public tables.  Counts are rounded to the nearest integer and not clamped at zero: clamping would
bias every sum of small counts upwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import duckdb
import numpy as np
from numpy.typing import NDArray

from sqlmadp.answer.derived import Column, derive
from sqlmadp.answer.processing import Processing
from sqlmadp.answer.reconstruct import Sums
from sqlmadp.bind.bound import BoundQuery, PrivateBlock
from sqlmadp.errors import OperationalError
from sqlmadp.sql.limits import DEFAULT, Limits, advice
from sqlmadp.sql.sandbox import (
    TooSlowError,
    explain,
    interrupted,
    load_public,
    locked_connection,
)
from sqlmadp.sql.tree import quote
from sqlmadp.table.rows import Rows

Matrix = NDArray[np.float64]
ResultRows = list[tuple[Any, ...]]


class Estimated(Protocol):
    """What rows and their errors are made from: an estimate, whatever it was solved by."""

    @property
    def noise_variance(self) -> float:
        """The variance of the noise of one measured value; 0 if there are no errors to state."""

    @property
    def processing(self) -> Processing:
        """What was done to the estimate."""

    def answers(self, rows: Rows) -> Matrix:
        """Return the best answer to every row."""

    def simulated(self, rows: Rows) -> Matrix:
        """Return the answers of simulated releases, one column each."""

    def rmse(self, rows: Rows) -> Matrix:
        """Return the root of every row's expected squared error."""

    def sum_rmse(self, parts: Sums) -> Matrix:
        """Return the same of sums of answers."""


DID_NOT_FIT = (
    "an answer did not fit the type that it is cast to, and is NULL; cast it to a wider one"
)


class Desk:
    """Runs the rest of statements over released answers."""

    def __init__(self, limits: Limits = DEFAULT) -> None:
        """Open an empty database without any way out."""
        self._seconds = limits.outer_seconds
        self._connection = locked_connection(limits.sql_memory)
        self._public: set[str] = set()

    def rows(self, query: BoundQuery, estimate: Estimated) -> ResultRows:
        """Return the rows of ``query`` with answers from ``estimate``."""
        rows = self.tracked_rows(query, estimate)
        return [row[:-1] for row in rows] if query.tracked else rows

    def tracked_rows(self, query: BoundQuery, estimate: Estimated) -> ResultRows:
        """Return the same rows; those of a tracked query end with the number of their group."""
        return self.noted_rows(query, estimate)[0]

    def noted_rows(
        self, query: BoundQuery, estimate: Estimated
    ) -> tuple[ResultRows, tuple[str, ...]]:
        """Return the same rows, and what is to be said about them.

        Where a cast of answers fails, its value is NULL: noise must not take rows away.
        """
        for block in query.blocks:
            self.fill(block, derive(block, answers_of(block, estimate.answers)))
        if query.lenient is None:
            return self.run(query, query.outer), ()
        try:
            return self.run(query, query.outer), ()
        except OperationalError:
            return self.run(query, query.lenient), (DID_NOT_FIT,)

    def run(self, query: BoundQuery, sql: str) -> ResultRows:
        """Return the rows of SQL over the tables of the query's blocks, and public tables."""
        for public in query.public:
            if public.name not in self._public:
                names = [name for name, _ in public.columns]
                load_public(self._connection, public, public.name, names)
                self._public.add(public.name)
        try:
            with interrupted(self._connection, self._seconds):
                return self._connection.execute(sql).fetchall()
        except TooSlowError:
            message = (
                f"what runs over the answers takes longer than {self._seconds} seconds. "
                + advice("outer_seconds")
            )
        except duckdb.Error as error:
            # It concerns released answers, which are public, so it may be told.
            message = f"what runs over the answers fails: {explain(error)[0]}"
        raise OperationalError(message)

    def fill(self, block: PrivateBlock, aggregates: Sequence[Column], copies: int = 1) -> None:
        """Fill the table of a block in the order of its groups, all of them ``copies`` times."""
        into = f"CREATE OR REPLACE TABLE {block.name} AS SELECT"
        if not block.columns:
            rows = block.rows * copies
            self._connection.execute(f"{into} NULL::INTEGER AS __nothing FROM range({rows})")
            return
        values: list[Column] = [list(texts) * copies for texts in block.keys.columns]
        given = ["VARCHAR"] * len(values)
        for column, aggregate in zip(aggregates, block.aggregates, strict=True):
            plain = aggregate.type in ("BIGINT", "DOUBLE")
            values.append(column if plain else [None if v is None else str(v) for v in column])
            given.append(aggregate.type if plain else "VARCHAR")
        unnested = ", ".join(
            f"CAST(unnest(?::{text}[]) AS {kind}) AS {quote(name)}"
            for text, (name, kind) in zip(given, block.columns, strict=True)
        )
        try:
            self._connection.execute(f"{into} {unnested}", values)
        except duckdb.Error as error:
            message = f"an answer does not fit the type of its column: {explain(error)[0]}"
        else:
            return
        raise OperationalError(message)


def answers_of(block: PrivateBlock, answer: Callable[[Rows], Matrix]) -> list[Matrix]:
    """Return the answers to every piece of a block."""
    return [np.concatenate([answer(rows) for rows in piece.rows]) for piece in block.pieces]
