"""Expected errors of result columns.

An answer that is linear in the measurement has an exact expected error (see ``exact``); that of any
other column comes from simulated releases (see `simulated_errors`).
"""

from __future__ import annotations

import numpy as np

from sqlmadp.answer.exact import Exact, exact_errors
from sqlmadp.answer.made_up import Estimated
from sqlmadp.answer.matching import row_keys
from sqlmadp.answer.result import Result, is_number
from sqlmadp.answer.rows import Desk, ResultRows
from sqlmadp.answer.simulated_errors import simulated_errors
from sqlmadp.sql.bound import BoundQuery
from sqlmadp.sql.linear import Kind

Errors = dict[str, tuple[float, ...]]
"""By the name of the column: one expected error a row; NaN where it cannot be told."""


def result_of(
    query: BoundQuery, estimate: Estimated, desk: Desk, known: dict[str, Exact] | None = None
) -> Result:
    """Return the rows of a query with answers from ``estimate``, and their expected errors.

    ``known`` keeps the errors that no answer changes, by the text of the statement, for the next
    estimate of the same strategy.
    """
    rows, notes = desk.noted_rows(query, estimate)
    known = {} if known is None or estimate.processing.nonnegative else known
    errors = {}
    if rows and estimate.noise_variance:
        errors = _errors(query, estimate, desk, rows, known)
    shown = [row[:-1] for row in rows] if query.tracked else rows
    return Result(query.columns, tuple(shown), errors, notes)


def _errors(
    query: BoundQuery, estimate: Estimated, desk: Desk, rows: ResultRows, known: dict[str, Exact]
) -> Errors:
    keys = row_keys(query, rows)
    if keys is None:
        return {}
    text = query.statement.text
    if text not in known:
        known[text] = exact_errors(query, estimate, desk)
    exact = known[text]
    place_of = {key: place for place, key in enumerate(exact.keys)}
    usable = exact.errors if all(key in place_of for key in keys) else {}
    chosen = [place_of[key] for key in keys] if usable else []
    found = {place: errors[chosen] for place, errors in usable.items()}
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
