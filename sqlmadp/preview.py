"""Preview: what every mechanism would give every analyst, before anything is spent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from sqlmadp.asked import Asked
from sqlmadp.errors import NotSupportedError
from sqlmadp.mechanism.catalogue import MECHANISMS
from sqlmadp.mechanism.fairness import Outcome, noise_variance, outcome
from sqlmadp.strategy.cache import StrategyCache
from sqlmadp.workload.solver import solver_for


@dataclass(frozen=True)
class QueryError:
    """The expected error of one query."""

    name: str
    rows: int
    rmse: float
    """Root of the mean expected squared error over the query's counts."""


@dataclass(frozen=True, eq=False)
class Preview:
    """One mechanism's expected errors, analyst by analyst and query by query."""

    outcome: Outcome
    queries: tuple[tuple[QueryError, ...], ...]


def preview(
    asked: Asked, mechanisms: Iterable[str], cache: StrategyCache | None
) -> dict[str, Preview | NotSupportedError]:
    """Return each mechanism's preview; a mechanism that cannot serve this domain says why."""
    previews: dict[str, Preview | NotSupportedError] = {}
    with threadpool_limits(limits=1):  # Threads that contend for small matrices are slower.
        for name in mechanisms:
            try:
                previews[name] = _preview(asked, name, cache)
            except NotSupportedError as error:
                previews[name] = error
    return previews


def _preview(asked: Asked, name: str, cache: StrategyCache | None) -> Preview:
    shares = [analyst.share for analyst in asked.plan.analysts]
    mechanism = MECHANISMS[name](asked.columns, cache)
    expected = outcome(mechanism, asked.workloads, shares, asked.plan.epsilon)
    variance = noise_variance(expected.strategy.sensitivity, asked.plan.epsilon)
    solvers = dict.fromkeys(expected.strategy.reads)
    known = {
        reads: solver_for([expected.strategy.blocks[number] for number in reads])
        for reads in solvers
    }
    queries = []
    for own, reads in zip(asked.queries, expected.strategy.reads, strict=True):
        errors = []
        for query in own:
            spread = [known[reads].variances(block) for block in query.aggregates]
            mean = float(np.concatenate(spread).mean()) if spread else 0.0
            errors.append(QueryError(query.name, query.rows, float(np.sqrt(variance * mean))))
        queries.append(tuple(errors))
    return Preview(expected, tuple(queries))
