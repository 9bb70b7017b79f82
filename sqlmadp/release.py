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

from sqlmadp.answer.errors import with_errors
from sqlmadp.answer.reader import Reader
from sqlmadp.answer.result import Result
from sqlmadp.asked import Asked
from sqlmadp.certificate import Certificate, certify
from sqlmadp.errors import NotReleasedError, ProgrammingError
from sqlmadp.mechanism.base import JointStrategy
from sqlmadp.mechanism.catalogue import MECHANISMS
from sqlmadp.mechanism.fairness import expected_errors
from sqlmadp.plan import Plan
from sqlmadp.private import Ledger, Measurement, measure
from sqlmadp.private.engines import Source
from sqlmadp.sql.bind import BoundQuery
from sqlmadp.sql.statements import Statement, split
from sqlmadp.staging import held
from sqlmadp.strategy.cache import StrategyCache, default_directory

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
    stated_errors: bool = False
    """Whether results have columns for standard errors and 95% intervals."""

    @cached_property
    def _reader(self) -> Reader:
        return Reader(self.measurement, self.asked.domain, self.asked.plan.limits)

    @cached_property
    def certificate(self) -> Certificate:
        """Return what the release gives each analyst, beside what each would have had alone."""
        names = [analyst.name for analyst in self.asked.plan.analysts]
        measured = JointStrategy(
            self.measurement.blocks,
            self.measurement.sensitivity // self.asked.domain.records_per_unit,
            tuple(tuple(self._reads(name)) for name in names),
        )
        return certify(self.asked, StrategyCache(default_directory()), measured)

    def rows(self, analyst: str, query: str) -> Result:
        """Return the rows of the query that ``analyst`` named ``query``."""
        number = self._number(analyst)
        own = {each.name: each for each in self.asked.queries[number]}
        if query not in own:
            raise ProgrammingError(
                f"{analyst!r} has no query {query!r}; there are {', '.join(own)}"
            )
        return self.result(analyst, own[query])

    def result(self, analyst: str, query: BoundQuery) -> Result:
        """Return the rows of one of the analyst's queries."""
        found = self._reader.result(query, self._reads(analyst))
        return with_errors(found) if self.stated_errors else found

    def results(self) -> dict[str, dict[str, Result]]:
        """Return the rows of every query of every analyst, by name."""
        return {
            analyst.name: {query.name: self.result(analyst.name, query) for query in own}
            for analyst, own in zip(self.asked.plan.analysts, self.asked.queries, strict=True)
        }

    def query(self, sql: str, analyst: str | None = None) -> Result:
        """Answer any further statement that the measurement supports; spends nothing."""
        statements = split(sql, file="query", limits=self.asked.plan.limits)
        if len(statements) != 1:
            raise ProgrammingError(f"one statement was expected, but there are {len(statements)}")
        return self.answer(statements[0], analyst)

    def answer(self, statement: Statement, analyst: str | None = None) -> Result:
        """Answer one statement from what ``analyst`` reads, or from everything."""
        reads = None if analyst is None else self._reads(analyst)
        return self._reader.answer(statement, reads)

    def _reads(self, analyst: str) -> list[int]:
        reads: list[list[int]] = self.measurement.metadata["reads"]
        return reads[self.asked.places[self._number(analyst)]]

    def _number(self, analyst: str) -> int:
        number = self.asked.analyst(analyst)
        if number is None:
            names = ", ".join(each.name for each in self.asked.plan.analysts)
            raise ProgrammingError(f"no analyst {analyst!r} in this plan; there are {names}")
        return number


def release(
    plan: Plan,
    cache: StrategyCache | None,
    progress: Progress = lambda _: None,
    notice: Progress = lambda _: None,
) -> Release:
    """Spend the plan's epsilon once, and return the release; a completed one again, free.

    ``notice`` is told, before anything is spent, what is about to be.
    """
    with held(plan.folder, shared=True):  # Nothing is handed in while a release is made.
        progress("binding statements")
        asked = Asked.bind(plan)
        with Ledger.open(plan.ledger_path, budget=plan.budget, head=plan.head) as ledger:
            measurement = ledger.find(asked.release_id)
            notice(_intention(asked, ledger))
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
    done = find(Asked.bind(plan))
    if done is None:
        raise NotReleasedError("this plan has not been released yet; run 'sqlmadp release' first")
    return done


def find(asked: Asked) -> Release | None:
    """Return the completed release of what was asked, or None."""
    plan = asked.plan
    if not plan.ledger_path.exists() and plan.head is None:
        return None
    with Ledger.read(plan.ledger_path, budget=plan.budget, head=plan.head) as ledger:
        measurement = ledger.find(asked.release_id)
        if measurement is None:
            return None
        return Release(asked, measurement, ledger.spent, ledger.left)


def select(asked: Asked, cache: StrategyCache | None) -> JointStrategy:
    """Return the plan's strategy, checked to answer every query of every analyst."""
    plan = asked.plan
    mechanism = MECHANISMS[plan.mechanism](asked.columns, cache)
    with threadpool_limits(limits=1):  # Threads that contend for small matrices are slower.
        strategy = mechanism.select(asked.workloads, [a.share for a in plan.analysts])
        expected_errors(strategy, asked.workloads, plan.epsilon)  # Raises if one is not covered.
    return strategy


def _intention(asked: Asked, ledger: Ledger) -> str:
    """Say what a release will cost, before it does."""
    known = next((c for c in ledger.charges if c.release == asked.release_id), None)
    if known is not None:
        return (
            f"this release was completed at {known.time}: its stored answers are returned, "
            "no record is read and nothing is spent"
        )
    changed = (
        "it asks something else than the releases before it, and a changed plan is a new release "
        "and a new charge"
        if ledger.charges
        else "running the same plan again is free, but a changed plan is a new release and a new "
        "charge"
    )
    return (
        f"this is a new release: it charges epsilon {asked.plan.epsilon} to ledger "
        f"{str(ledger.path)!r} (budget {ledger.budget}, spent {ledger.spent}, left {ledger.left}); "
        f"{changed}"
    )


def _metadata(asked: Asked, strategy: JointStrategy) -> dict[str, object]:
    """Return what a reader needs beside the measurement, as plain JSON values."""
    reads = sorted(zip(asked.places, strategy.reads, strict=True))
    return {"reads": [list(blocks) for _, blocks in reads], "cuts": asked.cuts}
