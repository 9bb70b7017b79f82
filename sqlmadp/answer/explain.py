"""EXPLAIN: what a statement asks for, column by column, and how exact the answer would be.

One row for every result column that depends on answers: the declared columns that those tell apart
(their scope), how many cells and groups they have, how many linear answers the column costs, and
its expected error (root of the mean over rows).  Everything is known without data; what is not,
because it depends on the answers, is said in ``note`` and has no number.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sqlmadp.answer.exact import exact_errors
from sqlmadp.answer.reconstruct import Estimate
from sqlmadp.answer.result import Result, is_number
from sqlmadp.answer.rows import Desk
from sqlmadp.errors import NotCoveredError
from sqlmadp.schema.marginal import Block
from sqlmadp.sql.bound import BoundQuery
from sqlmadp.sql.kinds import Kind

COLUMNS = (
    ("column", "VARCHAR"),
    ("scope", "VARCHAR"),
    ("cells", "BIGINT"),
    ("groups", "BIGINT"),
    ("answers", "BIGINT"),
    ("rmse", "DOUBLE"),
    ("note", "VARCHAR"),
)

EXACT = "exact"
LATER = "depends on the answers: known after the release"


def explain(query: BoundQuery, estimate: Estimate) -> Result:
    """Return the rows of EXPLAIN for a bound statement."""
    try:
        for block in query.aggregates:
            estimate.rmse(block)
        errors = exact_errors(query, estimate, Desk()).errors
        reason = ""
    except NotCoveredError as error:
        errors, reason = {}, f"not covered: {error}"
    rows = [
        (name, *_measured(query, place), *_error(errors.get(place), reason, kind))
        for place, (name, kind) in enumerate(query.columns)
        if query.kinds[place] != Kind.FREE
    ]
    return Result(COLUMNS, tuple(rows), {})


def _measured(query: BoundQuery, place: int) -> tuple[Any, ...]:
    """Return scope, cells, groups and answers of what a column is worked out from."""
    measure = query.measures[place]
    if measure is None:
        parts: list[Block] = list(query.aggregates)
    else:
        block = query.top_block
        pieces = [block.pieces[number] for number in block.aggregates[measure].pieces]
        parts = [part for piece in pieces for part in piece.blocks]
    scope = sorted({name for part in parts for name in part.marginal.scope})
    return (
        " x ".join(scope) or "the total",
        sum(part.marginal.size for part in parts),
        query.rows,
        sum(part.rows for part in parts),
    )


def _error(errors: np.ndarray | None, reason: str, kind: str) -> tuple[float | None, str]:
    if reason or not is_number(kind):
        return None, reason or "not a number: it has no error"
    if errors is None:
        return None, LATER
    known = errors[np.isfinite(errors)]
    return (math.sqrt(float((known**2).mean())) if len(known) else None), EXACT
