"""Release: from a plan to rows, the stages in order.

    bind      statements -> blocks over the declared domain            asked        public
    look      stored already?  enough budget?                          private      public
    select    workloads and shares -> one integer strategy             mechanism    public
    measure   read, add noise, record with the charge                  private      PRIVATE
    answer    measurement -> answers -> rows                           answer       public

Everything before ``measure`` reads no data, and everything after it reads only what was stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from threadpoolctl import threadpool_limits

from sqlmadp.answer.reconstruct import Estimate
from sqlmadp.answer.rows import Desk, Result
from sqlmadp.asked import Asked
from sqlmadp.errors import (
    NotCoveredError,
    NotReleasedError,
    ProgrammingError,
    SqlError,
)
from sqlmadp.mechanism.base import JointStrategy
from sqlmadp.mechanism.catalogue import MECHANISMS
from sqlmadp.mechanism.fairness import expected_errors
from sqlmadp.plan import Plan
from sqlmadp.private import Ledger, Measurement, measure
from sqlmadp.private.engines import Source
from sqlmadp.sql.bind import BoundQuery, bind, cuts
from sqlmadp.sql.evaluate import Evaluator
from sqlmadp.sql.statements import split
from sqlmadp.strategy.cache import StrategyCache

Progress = Callable[[str], None]
"""Told the name of each stage as it begins."""


@dataclass(frozen=True, eq=False)
class Release:
    """A completed release: the stored measurement, and rows worked out from it."""

    asked: Asked
    measurement: Measurement
    spent: Fraction
    """What the ledger has spent in all."""
    left: Fraction

    @cached_property
    def _desk(self) -> Desk:
        return Desk()

    @cached_property
    def _estimates(self) -> dict[tuple[int, ...], Estimate]:
        reads = self.measurement.metadata["reads"].values()
        return {
            tuple(numbers): Estimate.of(self.measurement, self.asked.domain, numbers)
            for numbers in reads
        }

    def result(self, analyst: str, query: BoundQuery) -> Result:
        """Return the rows of one of the analyst's queries."""
        numbers = tuple(self.measurement.metadata["reads"][analyst])
        return self._desk.result(query, self._estimates[numbers])

    def results(self) -> dict[str, dict[str, Result]]:
        """Return the rows of every query of every analyst, by name."""
        return {
            analyst.name: {query.name: self.result(analyst.name, query) for query in own}
            for analyst, own in zip(self.asked.plan.analysts, self.asked.queries, strict=True)
        }

    def query(self, sql: str, analyst: str | None = None) -> Result:
        """Answer any further statement that the measurement supports; spends nothing."""
        statements = split(sql, file="query")
        if len(statements) != 1:
            raise ProgrammingError(f"one statement was expected, but there are {len(statements)}")
        domain = self.asked.domain.with_cuts(cuts(statements, self.asked.domain))
        query = bind(statements[0], Evaluator(domain))
        try:
            return self._desk.result(
                query, Estimate.of(self.measurement, domain, self._reads(analyst))
            )
        except NotCoveredError as error:
            reason = str(error)
        raise SqlError(
            [
                statements[0].problem(
                    "not-covered",
                    f"this release cannot answer the query: {reason}",
                    hint="Ask for less detail, or add the query to a plan and release it: "
                    "only what was measured can be answered free.",
                )
            ]
        )

    def _reads(self, analyst: str | None) -> list[int] | None:
        if analyst is None:
            return None
        reads: dict[str, list[int]] = self.measurement.metadata["reads"]
        if analyst not in reads:
            raise ProgrammingError(
                f"no analyst {analyst!r} in this plan; there are {', '.join(reads)}"
            )
        return reads[analyst]


def release(
    plan: Plan, cache: StrategyCache | None, progress: Progress = lambda _: None
) -> Release:
    """Spend the plan's epsilon once, and return the release; a completed one again, free."""
    progress("binding statements")
    asked = Asked.bind(plan)
    with Ledger.open(plan.ledger_path, budget=plan.budget) as ledger:
        measurement = ledger.find(asked.release_id)
        if measurement is None:
            ledger.require(plan.epsilon)  # Before the work of selecting, and before any data.
            progress("selecting a strategy")
            strategy = select(asked, cache)
            progress("measuring")
            measurement = measure(
                strategy.blocks,
                source=Source(location=plan.source, folder=plan.folder),
                domain=asked.domain,
                ledger=ledger,
                release=asked.release_id,
                epsilon=plan.epsilon,
                analysts=[analyst.name for analyst in plan.analysts],
                mechanism=plan.mechanism,
                metadata=_metadata(asked, strategy),
            )
        progress("answering")
        return Release(asked, measurement, ledger.spent, ledger.left)


def released(plan: Plan) -> Release:
    """Return the completed release of a plan without spending or reading anything."""
    asked = Asked.bind(plan)
    missing = "this plan has not been released yet; run 'sqlmadp release' first"
    if not plan.ledger_path.exists():
        raise NotReleasedError(missing)
    with Ledger.open(plan.ledger_path, budget=plan.budget) as ledger:
        measurement = ledger.find(asked.release_id)
        if measurement is None:
            raise NotReleasedError(missing)
        return Release(asked, measurement, ledger.spent, ledger.left)


def select(asked: Asked, cache: StrategyCache | None) -> JointStrategy:
    """Return the plan's strategy, checked to answer every query of every analyst."""
    plan = asked.plan
    mechanism = MECHANISMS[plan.mechanism](asked.columns, cache)
    with threadpool_limits(limits=1):  # Threads that contend for small matrices are slower.
        strategy = mechanism.select(asked.workloads, [a.share for a in plan.analysts])
        expected_errors(strategy, asked.workloads, plan.epsilon)  # Raises if one is not covered.
    return strategy


def _metadata(asked: Asked, strategy: JointStrategy) -> dict[str, object]:
    """Return what a reader needs beside the measurement, as plain JSON values."""
    pairs = zip(asked.plan.analysts, strategy.reads, strict=True)
    return {"reads": {a.name: list(reads) for a, reads in pairs}, "cuts": asked.cuts}
