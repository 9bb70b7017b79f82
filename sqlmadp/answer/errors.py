"""Expected errors of result columns, and the intervals that are stated with them.

An answer that is linear in the measurement has an exact expected error.  Any other column is
worked out again from simulated releases, and its error is the root of the mean squared distance
of those runs from their mean.  Rows of two runs belong together when they come from the same
group, or, after joins and unions, when all columns that never change are equal.

A 95% interval is the answer plus and minus 1.96 expected errors.  Single Laplace noise lies
inside with probability 0.937, and sums of many with 0.95.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlmadp.answer.result import Result

Rows = Sequence[tuple[Any, ...]]
Spread = list[float]
"""One expected error a row; NaN where it cannot be told."""

WITHIN = 1.96
"""Expected errors on either side of an answer that a 95% interval takes in."""


def spread_by_group(
    runs: Sequence[Rows], groups: Sequence[int], places: Iterable[int]
) -> dict[int, Spread]:
    """Return the spread of columns over runs whose rows end with the number of their group."""
    tables = [{row[-1]: row for row in run} for run in runs]
    return _varying(
        {
            place: [_spread([t[group][place] for t in tables if group in t]) for group in groups]
            for place in places
        }
    )


def spread_by_key(rows: Rows, runs: Sequence[Rows], places: Iterable[int]) -> dict[int, Spread]:
    """Return the spread of columns over runs, rows matched by the columns that never change."""
    width = len(rows[0])
    places = list(places)
    seen = {place: {row[place] for row in rows if _hashable(row[place])} for place in range(width)}
    fixed = [
        place
        for place in range(width)
        if all(_hashable(row[place]) and row[place] in seen[place] for run in runs for row in run)
        and not _is_float(rows, place)
    ]
    if len(fixed) == width:
        return {}
    keys = [tuple(row[place] for place in fixed) for row in rows]
    if len(set(keys)) < len(keys):
        return {}
    tables: list[Mapping[tuple[Any, ...], tuple[Any, ...]]] = [
        {tuple(row[place] for place in fixed): row for row in run} for run in runs
    ]
    return {
        place: [_spread([t[key][place] for t in tables if key in t]) for key in keys]
        for place in places
        if place not in fixed
    }


def _varying(spreads: dict[int, Spread]) -> dict[int, Spread]:
    """Leave out columns that are no answers, since nothing changes them."""
    return {
        place: spread for place, spread in spreads.items() if any(error > 0 for error in spread)
    }


def _spread(values: list[Any]) -> float:
    numbers = [float(value) for value in values if value is not None]
    finite = [number for number in numbers if math.isfinite(number)]
    if len(finite) < 2 or len(finite) * 2 < len(values):
        return math.nan
    mean = math.fsum(finite) / len(finite)
    return math.sqrt(math.fsum((number - mean) ** 2 for number in finite) / (len(finite) - 1))


def _hashable(value: Any) -> bool:
    return not isinstance(value, list | dict)


def _is_float(rows: Rows, place: int) -> bool:
    return any(isinstance(row[place], float) for row in rows)


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
