"""Rows: answers in, result rows out, as if the SQL had run on the table.

The rest of a statement (HAVING, ORDER BY, LIMIT, windows, joins of private blocks, arithmetic on
aggregates) runs in a locked-down, in-memory DuckDB that holds nothing but released answers and
public tables.  Counts are rounded to the nearest integer and not clamped at zero: clamping would
bias every sum of small counts upwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from sqlmadp.answer.derived import Column, derive
from sqlmadp.answer.draws import COUNT
from sqlmadp.answer.errors import Spread, spread_by_group, spread_by_key
from sqlmadp.answer.reconstruct import Estimate
from sqlmadp.answer.result import Result
from sqlmadp.errors import OperationalError
from sqlmadp.schema.marginal import Block
from sqlmadp.sql.aggregates import LINEAR
from sqlmadp.sql.bound import BoundQuery, PrivateBlock
from sqlmadp.sql.limits import DEFAULT
from sqlmadp.sql.sandbox import SETTINGS, TooSlowError, explain, interrupted, load_public, quote

Matrix = NDArray[np.float64]
Rows = list[tuple[Any, ...]]

LEAST = 20
"""Simulated releases that are looked at, however large the result."""
WORK = 2_000_000
"""Groups times simulated releases that are worked through, beyond the least number."""


class Desk:
    """Runs the rest of statements over released answers."""

    def __init__(self, seconds: float = DEFAULT.seconds) -> None:
        """Open an empty database without any way out."""
        self._seconds = seconds
        self._connection = duckdb.connect(":memory:", config=SETTINGS)
        self._connection.execute("SET TimeZone = 'UTC'")
        self._connection.execute("SET lock_configuration = true")
        self._public: set[str] = set()

    def result(self, query: BoundQuery, estimate: Estimate) -> Result:
        """Return the rows of ``query`` with answers from ``estimate``."""
        self._load(query, estimate)
        rows = self._run(query.outer)
        errors = self._errors(query, estimate, rows)
        shown = [row[:-1] for row in rows] if query.tracked else rows
        return Result(query.columns, tuple(shown), errors)

    def rows(self, query: BoundQuery, estimate: Estimate) -> Rows:
        """Return the rows of ``query`` alone."""
        self._load(query, estimate)
        rows = self._run(query.outer)
        return [row[:-1] for row in rows] if query.tracked else rows

    # Errors.

    def _errors(
        self, query: BoundQuery, estimate: Estimate, rows: Rows
    ) -> dict[str, tuple[float, ...]]:
        """Return the expected error of every row, column by column."""
        spreads: dict[int, Spread] = {}
        if query.tracked:
            groups = [row[-1] for row in rows]
            for place, measure in enumerate(query.measures):
                if measure is not None and _is_linear(query.blocks[0], measure):
                    exact = _rmse(query.blocks[0], measure, estimate)
                    spreads[place] = [float(exact[group]) for group in groups]
        unknown = [
            place
            for place, (_, kind) in enumerate(query.columns)
            if place not in spreads and query.depends[place] and _is_number(kind)
        ]
        if unknown and rows and not _is_exact(estimate):
            spreads |= self._simulated(query, estimate, rows, unknown)
        return {query.columns[place][0]: tuple(spreads[place]) for place in sorted(spreads)}

    def _simulated(
        self, query: BoundQuery, estimate: Estimate, rows: Rows, places: Sequence[int]
    ) -> dict[int, Spread]:
        """Return the spread of columns over simulated releases."""
        pieces = [_answers(block, estimate.simulated) for block in query.blocks]
        sql = query.untouched if query.tracked else query.outer
        runs = []
        for draw in range(max(LEAST, min(COUNT, WORK // max(1, query.rows)))):
            for block, answers in zip(query.blocks, pieces, strict=True):
                self._fill(block, derive(block, [columns[:, draw] for columns in answers]))
            runs.append(self._run(sql))
        if query.tracked:
            return spread_by_group(runs, [row[-1] for row in rows], places)
        return spread_by_key(rows, runs, places)

    # DuckDB.

    def _run(self, sql: str) -> Rows:
        try:
            with interrupted(self._connection, self._seconds):
                return self._connection.execute(sql).fetchall()
        except TooSlowError:
            message = f"what runs over the answers takes longer than {self._seconds} seconds"
        except duckdb.Error as error:
            # It concerns released answers, which are public, so it may be told.
            message = f"what runs over the answers fails: {explain(error)[0]}"
        raise OperationalError(message)

    def _load(self, query: BoundQuery, estimate: Estimate) -> None:
        """Fill the tables of the query's blocks, in the order of the groups."""
        for public in query.public:
            if public.name not in self._public:
                names = [name for name, _ in public.columns]
                load_public(self._connection, public, public.name, names)
                self._public.add(public.name)
        for block in query.blocks:
            self._fill(block, derive(block, _answers(block, estimate.answers)))

    def _fill(self, block: PrivateBlock, aggregates: list[Column]) -> None:
        columns = block.columns or [("__nothing", "INTEGER")]
        declared = ", ".join(f"{quote(name)} {kind}" for name, kind in columns)
        self._connection.execute(f"CREATE OR REPLACE TABLE {block.name} ({declared})")
        if not block.columns:
            self._connection.execute(
                f"INSERT INTO {block.name} SELECT NULL FROM range({block.rows})"
            )
            return
        values: list[Column] = [list(texts) for texts in block.keys.columns]
        given = ["VARCHAR"] * len(values)
        for column, aggregate in zip(aggregates, block.aggregates, strict=True):
            plain = aggregate.type in ("BIGINT", "DOUBLE")
            values.append(column if plain else [None if v is None else str(v) for v in column])
            given.append(aggregate.type if plain else "VARCHAR")
        unnested = ", ".join(
            f"CAST(unnest(?::{text}[]) AS {kind})"
            for text, (_, kind) in zip(given, columns, strict=True)
        )
        self._connection.execute(f"INSERT INTO {block.name} SELECT {unnested}", values)


def _answers(block: PrivateBlock, answer: Callable[[Block], Matrix]) -> list[Matrix]:
    """Return the answers to every piece of a block."""
    return [
        piece.scale * np.concatenate([answer(part) for part in piece.blocks])
        for piece in block.pieces
    ]


def _is_linear(block: PrivateBlock, measure: int) -> bool:
    return block.aggregates[measure].function in LINEAR


def _rmse(block: PrivateBlock, measure: int, estimate: Estimate) -> Matrix:
    (place,) = block.aggregates[measure].pieces
    piece = block.pieces[place]
    return piece.scale * np.concatenate([estimate.rmse(part) for part in piece.blocks])


def _is_number(kind: str) -> bool:
    numbers = ("BIGINT", "HUGEINT", "DOUBLE", "FLOAT", "INTEGER", "UINTEGER", "SMALLINT", "TINYINT")
    return kind in numbers or kind.startswith("DECIMAL")


def _is_exact(estimate: Estimate) -> bool:
    return estimate.noise_variance == 0
