"""Preview: what every mechanism would give every analyst, before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sqlmadp.answer.result import number
from sqlmadp.answer.table import TextTable
from sqlmadp.asked import Asked
from sqlmadp.certificate import Join, joins
from sqlmadp.errors import NotSupportedError
from sqlmadp.late import Base
from sqlmadp.mechanism.base import settled
from sqlmadp.mechanism.bounds import Bounds, bounds
from sqlmadp.mechanism.catalogue import MECHANISMS
from sqlmadp.mechanism.fairness import Outcome, compared, noise_variance
from sqlmadp.mechanism.searches import searches, weighted_searches
from sqlmadp.schema.marginal import Block
from sqlmadp.sql.bind import BoundQuery
from sqlmadp.strategy.cache import StrategyCache
from sqlmadp.strategy.parallel import select_all
from sqlmadp.workload.solver import Solver, solver_for
from sqlmadp.workload.variances import variances_of

Matrix = NDArray[np.float64]


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
    shares = [analyst.share for analyst in asked.plan.analysts]
    weighted = weighted_searches(mechanisms, asked.workloads, shares, cache)
    select_all(weighted, cache, progress=selecting(progress))
    with threadpool_limits(limits=1):  # Threads that contend for small matrices are slower.
        lowest = bounds(asked.workloads, asked.epsilon_per_record, cache)
        for name in mechanisms:
            progress(f"mechanism {name}")
            try:
                previews[name] = _preview(asked, name, cache, lowest, leaving_out(name, progress))
            except NotSupportedError as error:
                previews[name] = error
    return previews


def selecting(progress: Callable[[str], None]) -> Callable[[int, int], None]:
    """Return what tells how many strategies are selected."""
    return lambda done, total: progress(f"selecting strategies: {done} of {total}")


def leaving_out(name: str, progress: Callable[[str], None]) -> Callable[[int, int], None]:
    """Return what tells how many analysts were left out of a mechanism's collective."""
    return lambda done, total: progress(f"mechanism {name}: {done} of {total} left out")


def _preview(
    asked: Asked,
    name: str,
    cache: StrategyCache | None,
    lowest: Bounds,
    progress: Callable[[int, int], None],
) -> Preview:
    shares = [analyst.share for analyst in asked.plan.analysts]
    epsilon = asked.epsilon_per_record
    mechanism = settled(MECHANISMS[name](asked.columns, cache), asked.workloads, shares)
    strategy = mechanism.select(asked.workloads, shares)
    variance = noise_variance(strategy.sensitivity, epsilon)
    read = read_from(asked, strategy.blocks, strategy.reads)
    errors = tuple(variance * each.total for each in read)
    expected = compared(
        mechanism, strategy, asked.workloads, shares, epsilon, together=errors, progress=progress
    )
    queries = tuple(each.queries(variance) for each in read)
    return Preview(expected, lowest, queries, joins(asked, mechanism))


@dataclass(frozen=True, eq=False)
class Read:
    """The variances of an analyst's queries from the rows that the analyst reads."""

    asked: tuple[BoundQuery, ...]
    blocks: tuple[Matrix, ...]
    """One variance a row of every block of the workload, in units of the noise variance.

    A query's rows are scaled by the root of its weight.
    """

    @property
    def total(self) -> float:
        """Return the sum of all variances."""
        return math.fsum(float(block.sum()) for block in self.blocks)

    def queries(self, variance: float) -> tuple[QueryError, ...]:
        """Return the expected error of every query, from rows of noise of the given variance."""
        found, left = [], list(self.blocks)
        for query in self.asked:
            count = len(query.aggregates)
            own, left = left[:count], left[count:]
            rows = np.concatenate([np.zeros(0), *own])
            mean = float(rows.mean()) if len(rows) else 0.0  # No group, no answer, no error.
            mean /= float(query.statement.weight)
            found.append(QueryError(query.name, query.rows, float(np.sqrt(variance * mean))))
        return tuple(found)


def read_from(
    asked: Asked, rows: Sequence[Block], reads: Sequence[tuple[int, ...]]
) -> tuple[Read, ...]:
    """Return what each analyst's queries are known to from those rows that each one reads.

    Whoever reads the same and asks the same is worked out once.
    """
    solvers: dict[tuple[int, ...], Solver] = {}
    known: dict[tuple[tuple[int, ...], tuple[Block, ...]], tuple[Matrix, ...]] = {}
    found = []
    for numbers, workload, own in zip(reads, asked.workloads, asked.queries, strict=True):
        if numbers not in solvers:
            solvers[numbers] = solver_for([rows[number] for number in numbers])
        key = (numbers, workload.blocks)
        if key not in known:
            known[key] = variances_of(workload, solvers[numbers])
        found.append(Read(own, known[key]))
    return tuple(found)
