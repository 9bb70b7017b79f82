"""Check a plan and all that it names, without reading a record or spending anything."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from sqlmadp.errors import InputError, Problem, SourceError
from sqlmadp.files.drafts import catalogue_notes
from sqlmadp.files.plan import Plan
from sqlmadp.files.schema import read_schema
from sqlmadp.mechanism import MECHANISMS
from sqlmadp.private import Ledger
from sqlmadp.private.engines import open_engine
from sqlmadp.private.engines.catalogue import catalogue_problems
from sqlmadp.release.bound_plan import BoundPlan
from sqlmadp.release.history import History, find_history
from sqlmadp.release.trial import prepare, without_failing


@dataclass(frozen=True)
class Checked:
    """What was found out about a plan."""

    asked: BoundPlan | None
    """The bound plan, if it could be bound."""
    problems: tuple[Problem, ...]
    notes: tuple[Problem, ...] = ()
    """What is accepted and yet is most likely a slip."""


def check_plan(
    path: Path,
    *,
    deep: bool = False,
    skip_refused: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Checked:
    """Bind a plan and compare its schema with the table's catalogue.

    ``deep`` also selects what would be measured and makes all that a release makes from made-up
    measurements, as a release does before it charges anything.
    """
    try:
        plan, found = Plan.read(path)
    except InputError as error:
        return Checked(None, error.problems)
    if not plan.schema_path.is_file():
        return Checked(None, found)
    try:
        read_schema(plan.schema_path)
    except InputError as error:
        return Checked(None, (*found, *error.problems))
    plan = replace(plan, skip_refused=plan.skip_refused or skip_refused)
    mistaken = bool(found)
    compared, notes = compare_with_catalogue(plan) if plan.source else ((), ())
    found += compared
    try:
        asked = BoundPlan.bind_sound(plan)
        if deep and not mistaken:
            asked = _tried(asked, progress)
        elif asked.refused and (mistaken or not (plan.skip_refused and asked.plan.analysts)):
            raise asked.refusal()
    except InputError as error:
        # Of a plan with mistakes only what is wrong in the statements is certain.
        more = [each for each in error.problems if not mistaken or each.file != str(plan.path)]
        return Checked(None, (*found, *more), notes)
    except SourceError as error:  # A public table is to be read from the source.
        problem = Problem(file=str(plan.path), code="source", message=str(error))
        return Checked(None, (*found, problem), notes)
    return Checked(None if mistaken else asked, found, (*notes, *asked.notes))


def most_seconds(asked: BoundPlan) -> int:
    """Return the CPU seconds that a preview, or a release, takes at most, announced beforehand.

    They follow from sizes alone: statements and kinds of conditions to bind, select for and answer,
    analysts, values of a column to evaluate, and combinations of values, which are few where they
    are only counted, and are factored where conditions depend on several at once.  Rounded up to 1,
    2 or 5 times a power of 10.  The time in which the engine counts records is not part of it.

    Factors were chosen so that this is above what the everyday plans took on one core: flights
    4.1 s, incomes 4.0, hospital 5.8, web 4.6, library 2.5, survey 4.5, shop 18.3.
    """
    several = [
        rows
        for own in asked.queries
        for rows in {rows.layout: rows for query in own for rows in query.aggregates}.values()
    ]
    counted = sum(rows.size for rows in several if rows.plain)
    dependent = [rows.size for rows in several if not rows.plain]
    seconds = 2 + 0.1 * (sum(map(len, asked.queries)) + len(several)) + 0.3 * len(asked.queries)
    seconds += counted / 20_000 + sum(dependent) / 1000
    seconds += sum((min(size, 6000) / 1000) ** 2 + max(0, size - 6000) / 100 for size in dependent)
    seconds += 4 * max((column.size for column in asked.domain.columns), default=0) / 1e6
    seconds *= MECHANISMS[asked.plan.mechanism].effort
    power = int(10 ** math.floor(math.log10(seconds)))
    return next(step * power for step in (1, 2, 5, 10) if seconds <= step * power)


def _tried(asked: BoundPlan, progress: Callable[[str], None]) -> BoundPlan:
    """Try all that a release would do before it reads a record; raise all that is refused."""
    plan = asked.plan
    asked = without_failing(asked)
    if not plan.ledger_path.exists() and plan.head is None:
        return prepare(asked, lambda _: History(), progress).asked
    with Ledger.read(plan.ledger_path, budget=plan.budget, head=plan.head) as ledger:
        return prepare(asked, lambda asked: find_history(asked, ledger), progress).asked


def compare_with_catalogue(plan: Plan) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    """Return the problems and the notes of the schema beside the table's catalogue."""
    domain = read_schema(plan.schema_path)
    try:
        engine = open_engine(plan.table, table=domain.table)
    except SourceError as error:
        return (Problem(file=str(plan.path), code="source", message=str(error)),), ()
    try:
        return catalogue_problems(engine, domain), catalogue_notes(engine, domain, plan.csv)
    finally:
        engine.close()
