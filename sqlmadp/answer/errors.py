"""Expected errors of result columns, and the intervals that are stated with them.

An answer that is linear in the measurement has an exact expected error (see ``exact``); that of any
other column comes from simulated releases (see ``spread``).

A 95% interval is the answer plus and minus 2.04 expected errors.  Single Laplace noise lies
inside with probability 0.944, and a sum of many, which is nearly normal, with 0.959.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sqlmadp.answer.exact import exact_errors
from sqlmadp.answer.matching import row_keys
from sqlmadp.answer.reconstruct import Estimate
from sqlmadp.answer.result import Result, is_number
from sqlmadp.answer.rows import Desk, Rows
from sqlmadp.answer.spread import simulated_errors
from sqlmadp.sql.bound import BoundQuery
from sqlmadp.sql.kinds import Kind

WITHIN = 2.04
"""Expected errors on either side of an answer that a 95% interval takes in."""

Errors = dict[str, tuple[float, ...]]
"""By the name of the column: one expected error a row; NaN where it cannot be told."""


def result_of(query: BoundQuery, estimate: Estimate, desk: Desk) -> Result:
    """Return the rows of a query with answers from ``estimate``, and their expected errors."""
    rows = desk.tracked_rows(query, estimate)
    errors = _errors(query, estimate, desk, rows) if rows and estimate.noise_variance else {}
    shown = [row[:-1] for row in rows] if query.tracked else rows
    return Result(query.columns, tuple(shown), errors)


def _errors(query: BoundQuery, estimate: Estimate, desk: Desk, rows: Rows) -> Errors:
    keys = row_keys(query, rows)
    if keys is None:
        return {}
    exact = exact_errors(query, estimate, desk)
    place_of = {key: place for place, key in enumerate(exact.keys)}
    chosen = [place_of[key] for key in keys] if exact.errors else []
    found = {place: errors[chosen] for place, errors in exact.errors.items()}
    left = [
        place
        for place, (_, kind) in enumerate(query.columns)
        if place not in found and query.kinds[place] != Kind.FREE and is_number(kind)
    ]
    if left:
        found |= simulated_errors(query, estimate, desk, left, keys)
    return by_name(query, found)


def by_name(query: BoundQuery, errors: dict[int, np.ndarray]) -> Errors:
    """Return errors by the names of their columns; of two columns with one name, the larger."""
    named: dict[str, np.ndarray] = {}
    for place in sorted(errors):
        name = query.columns[place][0]
        named[name] = np.fmax(named[name], errors[place]) if name in named else errors[place]
    return {name: tuple(each.tolist()) for name, each in named.items()}


def interval(value: Any, error: float) -> tuple[float | None, float | None]:
    """Return the 95% interval of an answer; None where there is no answer or no error."""
    if value is None or math.isnan(error):
        return None, None
    return float(value) - WITHIN * error, float(value) + WITHIN * error


def with_errors(result: Result) -> Result:
    """Return a result with three more columns after every answer: n_stderr, n_low, n_high."""
    columns: list[tuple[str, str]] = []
    for name, kind in result.columns:
        columns.append((name, kind))
        if name in result.rmse:
            columns.extend((f"{name}_{part}", "DOUBLE") for part in ("stderr", "low", "high"))
    rows = []
    for place, row in enumerate(result.rows):
        values: list[Any] = []
        for (name, _), value in zip(result.columns, row, strict=True):
            values.append(value)
            if name in result.rmse:
                error = result.rmse[name][place]
                values += [None if math.isnan(error) else error, *interval(value, error)]
        rows.append(tuple(values))
    return Result(tuple(columns), tuple(rows), {})
