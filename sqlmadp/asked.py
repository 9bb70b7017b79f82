"""What was asked: a plan with its schema read and every statement bound.  Reads no data.

A release is identified by the hash of what was asked: the domain, each analyst's workload and
share, epsilon and the mechanism.  The strategy is not part of it, since another machine may
select another one; nor is anything that runs over released answers (names of columns,
HAVING, ORDER BY, LIMIT), since that is free to change.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec

from sqlmadp.errors import Problem, SqlError
from sqlmadp.plan import Analyst, Plan
from sqlmadp.schema.declaration import read_schema
from sqlmadp.schema.domain import Domain
from sqlmadp.sql.bind import BoundQuery, bind_all, cuts
from sqlmadp.sql.evaluate import Evaluator
from sqlmadp.sql.statements import Statement, split
from sqlmadp.workload.workload import Workload

VERSION = 1
"""Part of every release's hash: raised if the meaning of what is hashed changes."""


@dataclass(frozen=True, eq=False)
class Asked:
    """A plan with every statement bound to the domain."""

    plan: Plan
    domain: Domain
    """With the cuts of all statements."""
    queries: tuple[tuple[BoundQuery, ...], ...]
    """Each analyst's queries, in the order of the plan."""

    @classmethod
    def bind(cls, plan: Plan) -> Asked:
        """Bind every statement of every analyst; one error lists all mistakes."""
        domain = read_schema(plan.schema_path)
        statements, problems = _statements(plan)
        everything = [statement for own in statements for statement in own]
        domain = domain.with_cuts(cuts(everything, domain))
        try:
            bound = iter(bind_all(everything, Evaluator(domain)))
        except SqlError as error:
            problems.extend(error.problems)
        if problems:
            raise SqlError(problems)
        return cls(plan, domain, tuple(tuple(next(bound) for _ in own) for own in statements))

    @cached_property
    def workloads(self) -> tuple[Workload, ...]:
        """Return each analyst's workload."""
        return tuple(
            Workload.of(block for query in own for block in query.aggregates)
            for own in self.queries
        )

    @property
    def columns(self) -> list[tuple[str, int]]:
        """Return the name and number of cells of every declared column."""
        return [(column.name, column.size) for column in self.domain.columns]

    @property
    def cuts(self) -> dict[str, list[float]]:
        """Return the cuts of every real column."""
        return {c.name: list(c.cuts) for c in self.domain.columns if c.type == "real"}

    @cached_property
    def release_id(self) -> str:
        """Return the hash of what was asked."""
        analysts = sorted(
            (analyst.name, str(analyst.share), workload.fingerprint)
            for analyst, workload in zip(self.plan.analysts, self.workloads, strict=True)
        )
        columns = [
            (c.name, c.type, c.nullable, c.outside, c.values, c.minimum, c.maximum, c.cuts)
            for c in self.domain.columns
        ]
        domain = (self.domain.table, self.domain.records_per_unit, columns)
        asked = (VERSION, domain, analysts, str(self.plan.epsilon), self.plan.mechanism)
        return hashlib.sha256(msgspec.json.encode(asked)).hexdigest()

    def analyst(self, name: str) -> int | None:
        """Return the number of the analyst called ``name``, or None."""
        names = [analyst.name for analyst in self.plan.analysts]
        return names.index(name) if name in names else None


def _statements(plan: Plan) -> tuple[list[list[Statement]], list[Problem]]:
    """Return every analyst's statements, and the mistakes of files that cannot be split."""
    problems: list[Problem] = []
    statements = []
    for analyst in plan.analysts:
        own: list[Statement] = []
        for path in analyst.files:
            try:
                own.extend(split(_text(path), file=str(path)))
            except SqlError as error:
                problems.extend(error.problems)
        problems.extend(_repeated(own, analyst))
        statements.append(own)
    return statements, problems


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        message, hint = "the file is not UTF-8 text", "Save it as UTF-8."
    except OSError as error:
        message = f"the file cannot be read ({error.strerror})"
        hint = "Check the path and its permissions."
    raise SqlError([Problem(file=str(path), code="unreadable-file", message=message, hint=hint)])


def _repeated(statements: list[Statement], analyst: Analyst) -> list[Problem]:
    """Refuse a name that two files of one analyst share: rows are told apart by it."""
    first: dict[str, Statement] = {}
    problems = []
    for statement in statements:
        known = first.setdefault(statement.name.casefold(), statement)
        if known.file != statement.file:
            problems.append(
                statement.problem(
                    "duplicate-name",
                    f"{analyst.name!r} has a statement {statement.name!r} in {known.file} already",
                    hint="Write '-- name: ...' above one of them.",
                    span=(0, 1),
                )
            )
    return problems
