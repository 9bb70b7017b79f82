"""EXPLAIN for a plan: what a statement would cost and how exact it would be; reads no data.

The strategy is the one that was measured or, before the release, the one that the plan's own
queries select, so this is what the release answers the statement from.
"""

from __future__ import annotations

from sqlmadp.answer.explain import explain
from sqlmadp.answer.reconstruct import Estimate, recut
from sqlmadp.answer.result import Result
from sqlmadp.bind.bind import bind, cuts
from sqlmadp.bind.evaluate import Evaluator
from sqlmadp.files.analysts import no_analyst
from sqlmadp.files.plan import Plan
from sqlmadp.release.bound_plan import BoundPlan
from sqlmadp.release.history import history_of
from sqlmadp.release.release import asked_and_released
from sqlmadp.sql.statements import Statement, explained, split
from sqlmadp.table.domain import Domain


def explain_text(
    plan: Plan, sql: str, analyst: str | None = None, *, dialect: str | None = None
) -> Result | None:
    """Return the rows of ``EXPLAIN SELECT ...``; None if this is no EXPLAIN."""
    dialect = dialect or plan.dialect
    statements = split(sql, file="query", limits=plan.limits, dialect=dialect)
    asked = [explained(statement) for statement in statements]
    if len(asked) != 1 or asked[0] is None:
        return None
    return explain_statement(plan, asked[0], analyst)


def explain_statement(plan: Plan, statement: Statement, analyst: str | None = None) -> Result:
    """Return scope, cells, groups and expected error of a statement, from what a reader reads."""
    asked, done = asked_and_released(plan)
    number = None if analyst is None else asked.analyst(analyst)
    if analyst is not None and number is None:
        raise no_analyst(analyst, (each.name for each in asked.plan.analysts))
    domain = asked.domain.with_cuts(cuts([statement], asked.domain, plan.limits))
    query = bind(statement, Evaluator(domain, plan.limits))
    if done is not None:
        return explain(query, done.estimate(domain, analyst))
    return explain(query, expected_estimate(asked, number, domain))


def expected_estimate(
    asked: BoundPlan, number: int | None = None, domain: Domain | None = None
) -> Estimate:
    """Return what an analyst, or the curator, would read once the plan is released: no values.

    ``domain`` may cut real columns at more places than the plan's own.
    """
    stages, own = history_of(asked).expected(asked)
    rows = [block for stage in stages for block in stage.rows]
    reads = range(len(rows)) if number is None else own[number]
    domain = domain or asked.domain
    read = tuple(recut(rows[place], asked.cuts, domain) for place in reads)
    return Estimate(domain, read, (), noise_variance=1.0)
