"""Preview: what every mechanism would give every analyst, before anything is spent."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from sqlmadp.answer.result import number
from sqlmadp.answer.table import TextTable
from sqlmadp.asked import Asked
from sqlmadp.certificate import Join, joins
from sqlmadp.errors import NotSupportedError
from sqlmadp.late import Base
from sqlmadp.mechanism.bounds import Bounds, bounds
from sqlmadp.mechanism.catalogue import MECHANISMS
from sqlmadp.mechanism.fairness import Outcome, noise_variance, outcome
from sqlmadp.mechanism.searches import searches
from sqlmadp.sql.bind import BoundQuery
from sqlmadp.strategy.cache import StrategyCache
from sqlmadp.strategy.parallel import select_all
from sqlmadp.workload.solver import Solver, solver_for


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
    bounds: Bounds
    queries: tuple[tuple[QueryError, ...], ...]
    joins: tuple[Join, ...] = ()
    """In the order of joining, under a mechanism in which analysts join one after the other."""


class Previews(dict[str, Preview | NotSupportedError]):
    """Previews by mechanism; one that cannot serve this domain says why instead."""

    def __init__(self, asked: Asked, base: Base | None = None) -> None:
        super().__init__()
        self.asked = asked
        self.base = base
        """The completed release that the plan adds analysts to, if it does."""

    def __repr__(self) -> str:
        return self._table().text()

    def _repr_html_(self) -> str:
        """Return the table that notebooks show."""
        return self._table().html()

    def _table(self) -> TextTable:
        """Return the expected error of every analyst, summed over answers, by mechanism."""
        names = [analyst.name for analyst in self.asked.plan.analysts]
        titles = [*names, "total error", "largest sharing ratio", "largest interference"]
        rows = []
        for mechanism, each in self.items():
            figures = [""] * len(titles)
            if isinstance(each, Preview):
                given = each.outcome
                figures = [number(error) for error in (*given.errors, given.total_error)]
                figures += [f"{given.sharing_ratio:.3f}", f"{given.worst_interference:.3f}"]
            rows.append([mechanism, *figures])
        headers = [("mechanism", False), *((title, True) for title in titles)]
        return TextTable.of(headers, len(rows), rows.__getitem__, limit=None)


def preview(
    asked: Asked,
    mechanisms: Iterable[str],
    cache: StrategyCache | None,
    progress: Callable[[str], None] = lambda _: None,
) -> dict[str, Preview | NotSupportedError]:
    """Return each mechanism's preview; a mechanism that cannot serve this domain says why."""
    previews: dict[str, Preview | NotSupportedError] = {}
    mechanisms = list(mechanisms)
    wanted = searches(mechanisms, asked.workloads)
    select_all(wanted, cache, progress=selecting(progress))
    with threadpool_limits(limits=1):  # Threads that contend for small matrices are slower.
        compared = bounds(asked.workloads, asked.epsilon_per_record, cache)
        for name in mechanisms:
            progress(f"mechanism {name}")
            try:
                previews[name] = _preview(asked, name, cache, compared)
            except NotSupportedError as error:
                previews[name] = error
    return previews


def selecting(progress: Callable[[str], None]) -> Callable[[int, int], None]:
    """Return what tells how many strategies are selected."""
    return lambda done, total: progress(f"selecting strategies: {done} of {total}")


def _preview(asked: Asked, name: str, cache: StrategyCache | None, compared: Bounds) -> Preview:
    shares = [analyst.share for analyst in asked.plan.analysts]
    mechanism = MECHANISMS[name](asked.columns, cache)
    expected = outcome(mechanism, asked.workloads, shares, asked.epsilon_per_record)
    variance = noise_variance(expected.strategy.sensitivity, asked.epsilon_per_record)
    known = {
        reads: solver_for([expected.strategy.blocks[number] for number in reads])
        for reads in set(expected.strategy.reads)
    }
    queries = [
        tuple(query_error(query, known[reads], variance) for query in own)
        for own, reads in zip(asked.queries, expected.strategy.reads, strict=True)
    ]
    return Preview(expected, compared, tuple(queries), joins(asked, mechanism))


def query_error(query: BoundQuery, solver: Solver, variance: float) -> QueryError:
    """Return the expected error of a query, from rows whose noise has the given variance."""
    spread = [solver.variances(block) for block in query.aggregates]
    mean = float(np.concatenate(spread).mean()) if spread else 0.0
    return QueryError(query.name, query.rows, float(np.sqrt(variance * mean)))
