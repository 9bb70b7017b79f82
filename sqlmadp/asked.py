"""What was asked: a plan with its schema read and every statement bound.  Reads no data.

A release is identified by the hash of what was asked: the domain, the workloads with their
shares, epsilon and the mechanism.  The strategy is not part of it, since another machine may
select another one; nor is anything that runs over released answers (names of columns,
HAVING, ORDER BY, LIMIT), since that is free to change; nor are the names of the plan, its
files and the analysts, since the same question under another name is the same question.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path

import msgspec

from sqlmadp.errors import Problem, SqlError
from sqlmadp.plan import Analyst, Plan
from sqlmadp.schema.declaration import read_schema
from sqlmadp.schema.domain import Domain
from sqlmadp.schema.marginal import Block
from sqlmadp.sql.bind import BoundQuery, bind_all, cuts
from sqlmadp.sql.evaluate import Evaluator
from sqlmadp.sql.parameters import with_parameters
from sqlmadp.sql.statements import Statement, split
from sqlmadp.staging import staged_statements
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
        asked, problems = cls.bind_each(plan)
        if problems:
            raise SqlError(problem for own in problems.values() for problem in own)
        return asked

    @classmethod
    def bind_each(
        cls, plan: Plan, staged: Mapping[str, Sequence[Statement]] | None = None
    ) -> tuple[Asked, dict[str, tuple[Problem, ...]]]:
        """Bind who can be bound; the others are left out of the plan, with all their mistakes.

        Their part of epsilon is left out too.  ``staged`` adds statements that an analyst has
        not handed in yet.
        """
        statements, problems = _statements(plan, staged or {})
        domain = read_schema(plan.schema_path)
        everything = [statement for own in statements.values() for statement in own]
        domain = domain.with_cuts(cuts(everything, domain, plan.limits))
        evaluator = Evaluator(domain, plan.limits)
        bound: dict[str, tuple[BoundQuery, ...]] = {}
        for name, own in statements.items():
            try:
                bound[name] = tuple(bind_all(own, evaluator))
            except SqlError as error:
                problems[name] = (*problems.get(name, ()), *error.problems)
        members = tuple(each for each in plan.analysts if each.name not in problems)
        queries = tuple(bound[member.name] for member in members)
        epsilon = plan.epsilon * sum((member.share for member in members), Fraction(0))
        return cls(replace(plan, analysts=members, epsilon=epsilon), domain, queries), problems

    @cached_property
    def workloads(self) -> tuple[Workload, ...]:
        """Return each analyst's workload; a query's rows scaled by the root of its weight.

        So whatever sums squared errors, selection and fairness alike, sums weighted ones.
        """
        return tuple(
            Workload.of(
                _scaled(block, query.statement.weight)
                for query in own
                for block in query.aggregates
            )
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

    @property
    def _questions(self) -> list[tuple[str, str]]:
        pairs = zip(self.plan.analysts, self.workloads, strict=True)
        return [(workload.fingerprint, str(analyst.share)) for analyst, workload in pairs]

    @cached_property
    def places(self) -> tuple[int, ...]:
        """Return each analyst's place in what is stored: by question, and by name among equals.

        So the order of the plan does not matter, nor do the names, except between analysts
        who ask the same with the same share and may read different noise.
        """
        names = [analyst.name.casefold() for analyst in self.plan.analysts]
        keys = [*zip(self._questions, names, strict=True)]
        order = sorted(range(len(keys)), key=keys.__getitem__)
        return tuple(order.index(number) for number in range(len(keys)))

    @cached_property
    def release_id(self) -> str:
        """Return the hash of what was asked."""
        analysts = sorted(self._questions)
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


def _scaled(block: Block, weight: Fraction) -> Block:
    return block if weight == 1 else Block(block.marginal, block.matrix * math.sqrt(weight))


def _statements(
    plan: Plan, staged: Mapping[str, Sequence[Statement]]
) -> tuple[dict[str, list[Statement]], dict[str, tuple[Problem, ...]]]:
    """Return every analyst's statements, and the mistakes of files that cannot be split."""
    statements: dict[str, list[Statement]] = {}
    problems: dict[str, tuple[Problem, ...]] = {}
    for analyst in plan.analysts:
        own, found = own_statements(plan, analyst)
        own.extend(staged.get(analyst.name, ()))
        found.extend(_repeated(own, analyst))
        if not own and not found:
            found.append(_nothing_asked(plan, analyst))
        statements[analyst.name] = own
        if found:
            problems[analyst.name] = tuple(found)
    return statements, problems


def own_statements(plan: Plan, analyst: Analyst) -> tuple[list[Statement], list[Problem]]:
    """Return what an analyst has handed in, in files or from a connection, and its mistakes."""
    own: list[Statement] = []
    problems: list[Problem] = []
    for path in analyst.files:
        try:
            for statement in split(_text(path), file=str(path), limits=plan.limits):
                own.append(with_parameters(statement, analyst.parameters))
        except SqlError as error:
            problems.extend(error.problems)
    try:
        own.extend(staged_statements(plan.staged_path(analyst.name), plan.limits))
    except SqlError as error:
        problems.extend(error.problems)
    return own, problems


def _nothing_asked(plan: Plan, analyst: Analyst) -> Problem:
    return Problem(
        file=str(plan.path),
        code="nothing-asked",
        message=f"{analyst.name!r} has handed in no statement yet",
        hint=f"Name SQL files in [analysts.{analyst.name}], or let {analyst.name!r} hand "
        "statements in: sqlmadp.connect, execute, commit.",
    )


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
