"""Expected errors by simulation: how far columns move from one simulated release to the next.

For columns that are not linear in the answers: ratios, means, quantiles, ranks.  The statement is
run again over the answers of simulated releases (see ``draws``), and a column's error is the root
of the mean squared distance of those runs from their mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sqlmadp.answer.derived import derive
from sqlmadp.answer.made_up import Estimated
from sqlmadp.answer.matching import Key, row_keys
from sqlmadp.answer.rows import Desk, ResultRows, answers_of
from sqlmadp.sql.bound import BoundQuery

Matrix = NDArray[np.float64]

LEAST = 20
"""Simulated releases that are looked at, however large the result."""
WORK = 1_000_000
"""Groups times simulated releases that are worked through, beyond the least number."""


def simulated_errors(
    query: BoundQuery, estimate: Estimated, desk: Desk, places: Sequence[int], keys: Sequence[Key]
) -> dict[int, Matrix]:
    """Return the error of every row that ``keys`` tell apart, by the place of the column.

    A column that never moves is no answer, and is left out.
    """
    answers = [answers_of(block, estimate.simulated) for block in query.blocks]
    draws = next((each.shape[1] for own in answers for each in own), 0)
    draws = min(draws, max(LEAST, WORK // max(1, query.rows)))
    if query.tracked and all(query.local[place] for place in places):
        found = _at_once(query, answers, desk, places, draws)
        groups = [group for (group,) in keys]
        errors = {place: _spread(values)[groups] for place, values in found.items()}
    else:
        runs = _one_by_one(query, answers, desk, draws)
        errors = {place: _spread(_aligned(runs, place, keys)) for place in places}
    return {place: each for place, each in errors.items() if (each > 0).any()}


def _at_once(
    query: BoundQuery,
    answers: Sequence[Sequence[Matrix]],
    desk: Desk,
    places: Sequence[int],
    draws: int,
) -> dict[int, Matrix]:
    """Return columns that read nothing but their own group: one line a release, one place a group.

    All releases stand in one table, one below the other, so the statement runs once.
    """
    for other, own in zip(query.blocks, answers, strict=True):
        desk.fill(other, derive(other, [each[:, 0] for each in own]))
    block = query.top_block
    stacked = [each[:, :draws].T.reshape(-1) for each in answers[query.top]]
    desk.fill(block, derive(replace(block, rows=block.rows * draws), stacked), draws)
    found = {place: np.full(draws * block.rows, np.nan) for place in places}
    for row in desk.run(query, query.untouched):
        for place, values in found.items():
            values[row[-1]] = _number(row[place])
    return {place: values.reshape(draws, block.rows) for place, values in found.items()}


def _one_by_one(
    query: BoundQuery, answers: Sequence[Sequence[Matrix]], desk: Desk, draws: int
) -> list[dict[Key, tuple[object, ...]]]:
    """Return the rows of every simulated release, by what tells them apart."""
    runs = []
    for draw in range(draws):
        for block, own in zip(query.blocks, answers, strict=True):
            desk.fill(block, derive(block, [columns[:, draw] for columns in own]))
        rows: ResultRows = desk.run(query, query.untouched)
        runs.append(dict(zip(row_keys(query, rows) or (), rows, strict=False)))
    return runs


def _aligned(
    runs: Sequence[dict[Key, tuple[object, ...]]], place: int, keys: Sequence[Key]
) -> Matrix:
    return np.array(
        [[_number(run[key][place]) if key in run else np.nan for key in keys] for run in runs]
    )


def _number(value: object) -> float:
    return math.nan if value is None else float(value)  # type: ignore[arg-type]


def _spread(values: Matrix) -> Matrix:
    """Return the standard deviation of every column; NaN where half of it or more is missing."""
    finite = np.isfinite(values)
    count = finite.sum(axis=0)
    with np.errstate(all="ignore"):
        mean = np.where(finite, values, 0).sum(axis=0) / count
        squares = (np.where(finite, values - mean, 0) ** 2).sum(axis=0)
        spread = np.sqrt(squares / (count - 1))
    return np.where((count >= 2) & (2 * count >= len(values)), spread, np.nan)
