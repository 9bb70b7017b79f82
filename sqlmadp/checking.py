"""Check a plan and all that it names, without reading a record or spending anything."""

from __future__ import annotations

from pathlib import Path

from sqlmadp.asked import Asked
from sqlmadp.errors import InputError, Problem, SourceError
from sqlmadp.plan import Plan
from sqlmadp.private.catalogue import catalogue_problems
from sqlmadp.private.engines import Source, open_engine
from sqlmadp.schema.declaration import read_schema


def check_plan(path: Path) -> tuple[Asked | None, tuple[Problem, ...]]:
    """Return the bound plan, if it could be bound, and every problem that was found."""
    try:
        plan = Plan.open(path)
        read_schema(plan.schema_path)
    except InputError as error:
        return None, error.problems
    found = source_problems(plan)
    try:
        return Asked.bind(plan), found
    except InputError as error:
        return None, (*found, *error.problems)
    except SourceError as error:  # A public table is to be read from the source.
        return None, (*found, Problem(file=str(plan.path), code="source", message=str(error)))


def source_problems(plan: Plan) -> tuple[Problem, ...]:
    """Compare the schema with the table's catalogue: names and types, no record."""
    domain = read_schema(plan.schema_path)
    try:
        engine = open_engine(Source(location=plan.source, folder=plan.folder), table=domain.table)
    except SourceError as error:
        return (Problem(file=str(plan.path), code="source", message=str(error)),)
    try:
        return catalogue_problems(engine, domain)
    finally:
        engine.close()


def source_identity(plan: Plan) -> str:
    """Return what names the table itself, the same for every spelling of its location."""
    domain = read_schema(plan.schema_path)
    engine = open_engine(Source(location=plan.source, folder=plan.folder), table=domain.table)
    try:
        return engine.identity
    finally:
        engine.close()
