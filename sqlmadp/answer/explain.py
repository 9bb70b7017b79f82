"""What a statement would give before there are answers: expected errors, and EXPLAIN.

EXPLAIN has one row for every result column that depends on answers: the declared columns that those
tell apart (their scope), how many cells and groups they have, how many linear answers the column
costs, and its expected error (root of the mean over rows).  Everything is known without data; what
is not, because it depends on the answers, is said in ``note`` and has no number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sqlmadp.answer.errors import by_name, exact_errors
from sqlmadp.answer.reconstruct import Estimate
from sqlmadp.answer.result import Result, is_number
from sqlmadp.answer.rows import Desk
from sqlmadp.bind.bound import BoundQuery
from sqlmadp.bind.linear import Kind
from sqlmadp.errors import Error, NotCoveredError, ProgrammingError
from sqlmadp.table.joint import declared
from sqlmadp.table.rows import Rows

COLUMNS = (
    ("column", "VARCHAR"),
    ("scope", "VARCHAR"),
    ("cells", "BIGINT"),
    ("groups", "BIGINT"),
    ("answers", "BIGINT"),
    ("rmse", "DOUBLE"),
    ("note", "VARCHAR"),
)

KNOWN = "known in advance"
LATER = "available after the release: it depends on the answers"
OTHERS = "covered, but other columns are not, so the statement as a whole is refused"


def explain(query: BoundQuery, estimate: Estimate) -> Result:
    """Return the rows of EXPLAIN for a bound statement."""
    whole = _gap(query.aggregates, estimate)
    errors = {} if whole else exact_errors(query, estimate, Desk()).errors
    rows = []
    for place, (name, kind) in enumerate(query.columns):
        if query.kinds[place] != Kind.FREE:
            parts = _parts(query, place)
            gap = (_gap(parts, estimate) or OTHERS) if whole else ""
            measured = _measured(parts, query.rows)
            rows.append((name, *measured, *_error(errors.get(place), gap, kind)))
    if query.read_as:
        rows.append(("", None, None, None, None, None, f"read as: {query.read_as}"))
    return Result(COLUMNS, tuple(rows), {})


def _gap(parts: Sequence[Rows], estimate: Estimate) -> str:
    """Return why what was, or would be, measured does not answer all parts; nothing if it does."""
    try:
        for part in parts:
            estimate.rmse(part)
    except NotCoveredError as error:
        return f"not covered: {error}"
    return ""


def _parts(query: BoundQuery, place: int) -> Sequence[Rows]:
    """Return the answers behind a column."""
    measure = query.measures[place]
    if measure is None:
        return query.aggregates
    block = query.top_block
    pieces = [block.pieces[number] for number in block.aggregates[measure].pieces]
    return [part for piece in pieces for part in piece.rows]


def _measured(parts: Sequence[Rows], groups: int) -> tuple[Any, ...]:
    """Return scope, cells, groups and answers of what a column is worked out from."""
    scope = declared(name for part in parts for name in part.scope)
    return (
        " x ".join(scope) or "the total",
        sum(part.size for part in parts),
        groups,
        sum(part.count for part in parts),
    )


def _error(errors: np.ndarray | None, gap: str, kind: str) -> tuple[float | None, str]:
    if gap or not is_number(kind):
        return None, gap or "not a number: it has no error"
    if errors is None:
        return None, LATER
    return _typical(errors), KNOWN


def _typical(errors: np.ndarray) -> float | None:
    """Return the root of the mean square over rows; None if no row has an error."""
    known = errors[np.isfinite(errors)]
    return math.sqrt(float((known**2).mean())) if len(known) else None


def column_errors(
    query: BoundQuery, estimate: Estimate, desk: Desk
) -> tuple[tuple[str, float | None], ...]:
    """Return every numeric column that depends on answers, with its typical error.

    That is None where only the release will tell: of means, ratios and quantiles.  ``estimate``
    needs no values.
    """
    try:
        errors = exact_errors(query, estimate, desk).errors
    except Error:  # It fails on answers of 0 and 1.
        errors = {}
    return tuple(
        (name, _typical(errors[place]) if place in errors else None)
        for place, (name, kind) in enumerate(query.columns)
        if query.kinds[place] != Kind.FREE and is_number(kind)
    )


class ExpectedErrors(dict[str, tuple[float, ...]]):
    """Expected errors (RMSE) by column, and then by row, before the release."""

    def __init__(self, errors: dict[str, tuple[float, ...]], later: tuple[str, ...]) -> None:
        super().__init__(errors)
        self.later = later
        """The columns whose error depends on the answers, so that only the release will tell."""

    def __missing__(self, name: str) -> tuple[float, ...]:
        if name in self.later:
            raise ProgrammingError(
                f"the expected error of {name!r} depends on the answers, so it is known once the "
                "release is made; that of counts, sums and what is added up from them is known now"
            )
        raise KeyError(name)


def expected_error(query: BoundQuery, estimate: Estimate) -> ExpectedErrors:
    """Return, for every column that is linear in the answers, the expected error of every row.

    The rows are all that the statement can have, before HAVING, ORDER BY and LIMIT, which depend on
    answers; so do the errors of ratios, means and quantiles, which are left for ``later``.
    ``estimate`` needs no values.
    """
    exact = exact_errors(query, estimate, Desk())
    later = tuple(
        name
        for place, (name, kind) in enumerate(query.columns)
        if query.kinds[place] != Kind.FREE and is_number(kind) and place not in exact.errors
    )
    return ExpectedErrors(by_name(query, exact.errors), later)
