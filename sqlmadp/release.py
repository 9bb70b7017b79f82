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
from sqlmadp.answer.processing import Processing
from sqlmadp.answer.reader import Reader
from sqlmadp.answer.reconstruct import Estimate
from sqlmadp.answer.result import Result
from sqlmadp.asked import Asked
from sqlmadp.certificate import Certificate, certify
from sqlmadp.errors import NotReleasedError, NotSupportedError, ProgrammingError
from sqlmadp.joining import certify_late
from sqlmadp.late import Base, bringing, complement, everything, find_base, known_rows
from sqlmadp.mechanism.base import JointStrategy
from sqlmadp.mechanism.catalogue import MECHANISMS
from sqlmadp.mechanism.fairness import expected_errors
from sqlmadp.mechanism.searches import searches
from sqlmadp.plan import Plan
from sqlmadp.preview import selecting
from sqlmadp.private import Ledger, Measurement, measure
from sqlmadp.private.engines import Source
from sqlmadp.private.together import answer_bytes
from sqlmadp.schema.domain import Domain
from sqlmadp.sql.bind import BoundQuery
from sqlmadp.sql.limits import Limits, advice
from sqlmadp.sql.statements import Statement, split
from sqlmadp.staging import held
from sqlmadp.strategy.cache import StrategyCache, default_directory
from sqlmadp.strategy.parallel import select_all

Progress = Callable[[str], None]
"""Told the name of each stage as it begins."""


@dataclass(frozen=True, eq=False)
class Release:
    """A completed release: the stored measurement, and rows worked out from it."""

    asked: Asked
    measurements: tuple[Measurement, ...]
    """All that answers come from, oldest first: several if analysts joined late."""
    spent: Fraction
    """What the ledger has spent in all."""
    left: Fraction
    stated_errors: bool = False
    """Whether results have columns for standard errors and 95% intervals."""

    @property
    def measurement(self) -> Measurement:
        """Return what was measured last: for this very plan."""
        return self.measurements[-1]

    @cached_property
    def _reader(self) -> Reader:
        limits = self.asked.plan.limits
        return Reader(self.measurements, self.asked.domain, limits, self.processing)

    @property
    def processing(self) -> Processing:
        """Return what is done to the estimate before anything is answered from it."""
        return processing(self.asked.plan)

    @cached_property
    def certificate(self) -> Certificate:
        """Return what the release gives each analyst, beside what each would have had alone."""
        cache = StrategyCache(default_directory())
        reads = tuple(tuple(self._reads(each.name)) for each in self.asked.plan.analysts)
        if len(self.measurements) > 1:
            return certify_late(self.asked, self.measurements, reads, cache)
        neighbours = self.asked.domain.records_between_neighbours
        sensitivity = self.measurement.sensitivity // neighbours
        measured = JointStrategy(self.measurement.blocks, sensitivity, reads)
        return certify(self.asked, cache, measured)

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
        """Return the rows of every query of every analyst, by name.

        Statements of equal text have one result, if they are answered from the same blocks.
        """
        found: dict[tuple[str, tuple[int, ...]], Result] = {}
        results: dict[str, dict[str, Result]] = {}
        for analyst, own in zip(self.asked.plan.analysts, self.asked.queries, strict=True):
            results[analyst.name] = {}
            for query in own:
                key = (query.statement.text, tuple(self._reads(analyst.name)))
                if key not in found:
                    found[key] = self.result(analyst.name, query)
                results[analyst.name][query.name] = found[key]
        return results

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

    def estimate(self, domain: Domain, analyst: str | None) -> Estimate:
        """Return what a reader of all measurements can work out, without post-processing."""
        reads = None if analyst is None else self._reads(analyst)
        return Estimate.of(self.measurements, domain, reads)

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
            base = None if measurement is not None else find_base(asked, ledger)
            epsilon = plan.epsilon if base is None else base.epsilon(plan)
            for note in asked.notes:
                notice(f"note: {note}\n")
            notice(_intention(asked, ledger, base))
            if measurement is None:
                ledger.require(epsilon)  # Before the work of selecting, and before any data.
                wanted = searches([plan.mechanism], asked.workloads)
                select_all(wanted, cache, progress=selecting(progress))
                progress("selecting a strategy")
                strategy = select(asked, cache) if base is None else added(asked, base, cache)
                _require_memory(strategy, asked.domain, plan.limits)
                progress("measuring")
                measurement = measure(
                    strategy.blocks,
                    source=Source(
                        location=plan.source, folder=plan.folder, memory=plan.limits.memory
                    ),
                    domain=asked.domain,
                    ledger=ledger,
                    release=asked.release_id,
                    epsilon=epsilon,
                    analysts=[*bringing(plan)] if base is None else base.newcomers(plan),
                    mechanism=plan.mechanism,
                    metadata=_metadata(asked, strategy, base),
                )
            progress("answering")
            return Release(asked, everything(measurement, ledger), ledger.spent, ledger.left)


def _require_memory(strategy: JointStrategy, domain: Domain, limits: Limits) -> None:
    """Raise NotSupportedError, before any data, if measuring would take too much memory."""
    scopes = {block.marginal.scope for block in strategy.blocks}
    # The engine holds what it counted a second time.
    counting = 2 * answer_bytes(domain, scopes) // 2**20
    if counting > limits.memory:
        raise NotSupportedError(
            f"this release would count the cells of {len(scopes):,} sets of columns, which could "
            f"take {counting:,} MB; {limits.memory:,} are allowed. Nothing was read or spent. Ask "
            f"for fewer columns at once. {advice('memory')}"
        )
    rows = sum(block.rows for block in strategy.blocks)
    if rows > limits.measured_rows:
        finest = max(strategy.blocks, key=lambda block: block.rows).marginal.scope
        raise NotSupportedError(
            f"this release would measure {rows:,} strategy queries, most of them over "
            f"{', '.join(finest)}; {limits.memory:,} MB are enough for {limits.measured_rows:,}. "
            f"Nothing was read or spent. Ask for fewer columns at once. {advice('memory')}"
        )


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
        return Release(asked, everything(measurement, ledger), ledger.spent, ledger.left)


def processing(plan: Plan) -> Processing:
    """Return the post-processing that a plan asks for; it is no part of the release."""
    return Processing(nonnegative=plan.nonnegative, consistent=plan.consistent)


def select(asked: Asked, cache: StrategyCache | None) -> JointStrategy:
    """Return the plan's strategy, checked to answer every query of every analyst."""
    plan = asked.plan
    mechanism = MECHANISMS[plan.mechanism](asked.columns, cache)
    with threadpool_limits(limits=1):  # Threads that contend for small matrices are slower.
        strategy = mechanism.select(asked.workloads, [a.share for a in plan.analysts])
        # Raises if a query is not covered.
        expected_errors(strategy, asked.workloads, asked.epsilon_per_record)
    for reads in set(strategy.reads):
        processing(plan).check([strategy.blocks[number] for number in reads])
    return strategy


def added(asked: Asked, base: Base, cache: StrategyCache | None) -> JointStrategy:
    """Return what newcomers add to a completed release."""
    strategy = complement(asked, base, cache)
    blocks = (*known_rows(base.measurements, asked.domain), *strategy.blocks)
    for reads in set(strategy.reads):
        processing(asked.plan).check([blocks[number] for number in reads])
    return strategy


def _intention(asked: Asked, ledger: Ledger, base: Base | None) -> str:
    """Say what a release will cost, before it does."""
    known = next((c for c in ledger.charges if c.release == asked.release_id), None)
    if known is not None:
        return (
            f"this release was completed at {known.time}: its stored answers are returned, "
            "no record is read and nothing is spent"
        )
    budget = (
        f"ledger {str(ledger.path)!r} (budget {ledger.budget}, spent {ledger.spent}, "
        f"left {ledger.left})"
    )
    if base is not None:
        return (
            f"this adds {', '.join(base.newcomers(asked.plan))} to the release of {base.time}: it "
            f"charges epsilon {base.epsilon(asked.plan)}, which is what they bring, to {budget}; "
            "what was measured before stays, and nobody's expected error rises"
        )
    changed = (
        "it asks something else than the releases before it, and a changed plan is a new release "
        "and a new charge"
        if ledger.charges
        else "running the same plan again is free, but a changed plan is a new release and a new "
        "charge"
    )
    return f"this is a new release: it charges epsilon {asked.plan.epsilon} to {budget}; {changed}"


def _metadata(asked: Asked, strategy: JointStrategy, base: Base | None) -> dict[str, object]:
    """Return what a reader needs beside the measurement, as plain JSON values."""
    reads = sorted(zip(asked.places, strategy.reads, strict=True))
    earlier = () if base is None else base.measurements
    return {
        "reads": [list(blocks) for _, blocks in reads],
        "cuts": asked.cuts,
        "members": {name: str(epsilon) for name, epsilon in bringing(asked.plan).items()},
        "earlier": [measurement.release for measurement in earlier],
    }
