"""EXPLAIN: what a statement asks for, aggregate by aggregate, and how exact the answer would be.

One row an aggregate: the columns that it tells apart (its scope), how many cells and groups it
has, how many linear answers it is worked out from, and the expected error of those answers (root of
the mean over groups).  Everything is known without data.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sqlmadp.answer.reconstruct import Estimate
from sqlmadp.answer.result import Result
from sqlmadp.errors import NotCoveredError
from sqlmadp.sql.bound import BoundAggregate, BoundQuery, PrivateBlock

COLUMNS = (
    ("block", "INTEGER"),
    ("aggregate", "VARCHAR"),
    ("scope", "VARCHAR"),
    ("cells", "BIGINT"),
    ("groups", "BIGINT"),
    ("answers", "BIGINT"),
    ("rmse", "DOUBLE"),
    ("covered", "BOOLEAN"),
)


def explain(query: BoundQuery, estimate: Estimate) -> Result:
    """Return the rows of EXPLAIN for a bound statement."""
    rows = [
        (number, *_describe(block, aggregate, estimate))
        for number, block in enumerate(query.blocks)
        for aggregate in block.aggregates
    ]
    return Result(COLUMNS, tuple(rows), {})


def _describe(
    block: PrivateBlock, aggregate: BoundAggregate, estimate: Estimate
) -> tuple[Any, ...]:
    parts = [part for place in aggregate.pieces for part in block.pieces[place].blocks]
    scope = sorted({name for part in parts for name in part.marginal.scope})
    cells = sum(part.marginal.size for part in parts)
    answers = sum(part.rows for part in parts)
    try:
        errors = np.concatenate([estimate.rmse(part) for part in parts])
        rmse = math.sqrt(float((errors**2).mean())) if len(errors) else 0.0
        covered = True
    except NotCoveredError:
        rmse, covered = None, False
    return (
        aggregate.function,
        " x ".join(scope) or "the total",
        cells,
        block.rows,
        answers,
        rmse,
        covered,
    )
