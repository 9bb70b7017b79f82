"""Rows: answers in, result rows out, as if the SQL had run on the table.

The rest of a statement (HAVING, ORDER BY, LIMIT, arithmetic on counts) runs in a locked-down,
in-memory DuckDB that holds nothing but released answers.  Counts are rounded to the nearest
integer and not clamped at zero: clamping would bias every sum of small counts upwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from sqlmadp.answer.reconstruct import Estimate
from sqlmadp.sql.bind import BoundQuery
from sqlmadp.sql.sandbox import SETTINGS, quote

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Result:
    """The rows of one query, with the expected error of every count in them."""

    columns: tuple[tuple[str, str], ...]
    """Name and DuckDB type of every column."""
    rows: tuple[tuple[Any, ...], ...]
    rmse: Mapping[str, tuple[float, ...]]
    """For every column that is a count: the expected error of each row."""


class Desk:
    """Runs the rest of statements over released answers."""

    def __init__(self) -> None:
        """Open an empty database without any way out."""
        self._connection = duckdb.connect(":memory:", config=SETTINGS)
        self._connection.execute("SET TimeZone = 'UTC'")
        self._connection.execute("SET lock_configuration = true")

    def result(self, query: BoundQuery, estimate: Estimate) -> Result:
        """Return the rows of ``query`` with answers from ``estimate``."""
        counts = [np.rint(estimate.answers(block)).astype(np.int64) for block in query.aggregates]
        errors = [estimate.rmse(block) for block in query.aggregates]
        self._load(query, counts)
        rows = self._connection.execute(query.outer).fetchall()
        places = [row[-1] for row in rows]  # The group that every result row comes from.
        rmse = {
            name: tuple(float(errors[measure][place]) for place in places)
            for (name, _), measure in zip(query.columns, query.measures, strict=True)
            if measure is not None
        }
        return Result(query.columns, tuple(row[:-1] for row in rows), rmse)

    def _load(self, query: BoundQuery, counts: list[NDArray[np.int64]]) -> None:
        """Fill ``__block`` with group keys and counts, in the order of the groups."""
        keys = query.keys
        typed = [
            *zip(keys.names, keys.types, strict=True),
            *((f"__a{place}", "BIGINT") for place in range(len(counts))),
        ]
        declared = ", ".join(f"{quote(name)} {kind}" for name, kind in typed)
        self._connection.execute(f"CREATE OR REPLACE TABLE __block ({declared})")
        values = [*(list(texts) for texts in keys.columns), *(c.tolist() for c in counts)]
        types = ["VARCHAR"] * len(keys.names) + ["BIGINT"] * len(counts)
        unnested = ", ".join(
            f"CAST(unnest(?::{given}[]) AS {kind})"
            for given, (_, kind) in zip(types, typed, strict=True)
        )
        self._connection.execute(f"INSERT INTO __block SELECT {unnested}", values)
