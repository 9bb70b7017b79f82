"""Expected errors of a bound query, from the strategy alone: no measurement is needed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sqlmadp.answer.reconstruct import Estimate
from sqlmadp.sql.aggregates import LINEAR
from sqlmadp.sql.bound import BoundQuery


def expected_error(query: BoundQuery, estimate: Estimate) -> Mapping[str, tuple[float, ...]]:
    """Return, for every column that is a count or sum, the expected error (RMSE) of every group.

    The groups are those of GROUP BY, in their order, before HAVING, ORDER BY and LIMIT, which
    depend on answers; so do the errors of what is derived from counts and sums, such as a mean,
    which are left out.  ``estimate`` needs no values.
    """
    errors: dict[str, tuple[float, ...]] = {}
    for (name, _), measure in zip(query.columns, query.measures, strict=True):
        if query.tracked and measure is not None:
            block = query.blocks[0]
            aggregate = block.aggregates[measure]
            if aggregate.function in LINEAR:
                (piece,) = aggregate.pieces
                parts = [estimate.rmse(part) for part in block.pieces[piece].blocks]
                errors[name] = tuple(np.concatenate(parts).tolist())
    return errors
