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

from sqlmadp.analysts import Analyst
from sqlmadp.declared import domain_of
from sqlmadp.errors import Problem, SqlError
from sqlmadp.oversized import oversized
from sqlmadp.plan import Plan
from sqlmadp.schema.domain import Domain
from sqlmadp.schema.marginal import Block
from sqlmadp.sql.bind import BoundQuery, bind_all, cuts
from sqlmadp.sql.evaluate import Evaluator
from sqlmadp.sql.parameters import with_parameters
from sqlmadp.sql.statements import Statement, split_each
from sqlmadp.staging import staged_statements
from sqlmadp.workload.reduce import reduced
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
            raise SqlError(
                problem
                for own in problems.values()
                for problem in sorted(own, key=lambda each: (each.file, each.line, each.column))
            )
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
        domain = domain_of(plan)
        everything = [statement for own in statements.values() for statement in own]
        domain = domain.with_cuts(cuts(everything, domain, plan.limits))
        evaluator = Evaluator(domain, plan.limits)
        bound: dict[str, tuple[BoundQuery, ...]] = {}
        once = _Once(evaluator)
        for name, own in statements.items():
            try:
                bound[name] = once.bind(own)
            except SqlError as error:
                problems[name] = (*problems.get(name, ()), *error.problems)
                continue
            if own and not any(query.aggregates for query in bound[name]):
                problems[name] = (*problems.get(name, ()), _nothing_counted(own[0], name))
        sound = {name: own for name, own in bound.items() if name not in problems}
        for name, problem in oversized(sound, plan.limits, plan.mechanism):
            problems[name] = (*problems.get(name, ()), problem)
        members = tuple(each for each in plan.analysts if each.name not in problems)
        queries = tuple(bound[member.name] for member in members)
        epsilon = plan.epsilon * sum((member.share for member in members), Fraction(0))
        return cls(replace(plan, analysts=members, epsilon=epsilon), domain, queries), problems

    @cached_property
    def workloads(self) -> tuple[Workload, ...]:
        """Return each analyst's workload; a query's rows scaled by the root of its weight.

        So whatever sums squared errors, selection and fairness alike, sums weighted ones.
        """
        known: dict[tuple[int, Fraction], Block] = {}  # Equal statements share their blocks.

        def scaled(block: Block, weight: Fraction) -> Block:
            key = (id(block), weight)
            if key not in known:
                known[key] = reduced(_scaled(block, weight))
            return known[key]

        return tuple(
            Workload(
                tuple(
                    scaled(block, query.statement.weight)
                    for query in own
                    for block in query.aggregates
                )
            )
            for own in self.queries
        )

    @property
    def notes(self) -> tuple[Problem, ...]:
        """Return what is accepted and yet is most likely a slip, each place once."""
        found = (note for own in self.queries for query in own for note in query.notes)
        return tuple(dict.fromkeys(found))

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
        # Only under Ratchet does it matter in which order analysts join.
        analysts = self._questions
        analysts = analysts if self.plan.mechanism == "ratchet" else sorted(analysts)
        columns = [
            (c.name, c.type, c.nullable, c.outside, c.values, c.minimum, c.maximum, c.cuts)
            for c in self.domain.columns
        ]
        domain = (self.domain.table, _protected(self.domain), columns)
        asked = (VERSION, domain, analysts, str(self.plan.epsilon), self.plan.mechanism)
        return hashlib.sha256(msgspec.json.encode(asked)).hexdigest()

    @property
    def epsilon_per_record(self) -> Fraction:
        """Return the part of epsilon that one differing record gets; it sets expected errors."""
        return self.plan.epsilon / self.domain.records_between_neighbours

    def analyst(self, name: str) -> int | None:
        """Return the number of the analyst called ``name``, or None."""
        names = [analyst.name for analyst in self.plan.analysts]
        return names.index(name) if name in names else None


def _protected(domain: Domain) -> object:
    """Return what a release's hash holds of who is protected; 1 for a record by itself."""
    if domain.unit is None and domain.neighbours == "add_remove":
        return 1
    return domain.unit, domain.neighbours


class _Once:
    """Binds statements, each text only once, whoever asks it and however often."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._known: dict[str, BoundQuery] = {}
        self._entries = 0

    def bind(self, statements: Sequence[Statement]) -> tuple[BoundQuery, ...]:
        """Return every statement bound, or raise one SqlError with all mistakes of all of them."""
        new: dict[str, Statement] = {}
        for statement in statements:
            if statement.text not in self._known:
                new.setdefault(statement.text, statement)
        try:
            found = bind_all(new.values(), self._evaluator, entries=self._entries)
        except SqlError:
            if len(new) == len(statements):
                raise
            found = bind_all(statements, self._evaluator, entries=self._entries)  # Each in place.
        for query in found:
            self._known[query.statement.text] = query
            self._entries += query.entries
        return tuple(replace(self._known[each.text], statement=each) for each in statements)


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
            statements, found = split_each(_text(path), file=str(path), limits=plan.limits)
        except SqlError as error:
            statements, found = [], list(error.problems)
        problems.extend(found)
        for statement in statements:
            try:
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


def _nothing_counted(statement: Statement, name: str) -> Problem:
    return statement.problem(
        "nothing-counted",
        f"no statement of {name!r} counts anything: what the domain allows is public",
        hint="Add a statement with COUNT(*), or leave the analyst out of the plan.",
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
