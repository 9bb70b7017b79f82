"""What was asked: a plan with its schema read and every statement bound.  Reads no data.

A release is identified by the hash of what was asked: the domain, the questions with their
weights and shares, epsilon, the mechanism and how errors are measured.  The strategy is not part
of it, since another machine may select another one; nor is anything that runs over released answers
(names of columns, HAVING, ORDER BY, LIMIT), since that is free to change; nor are the names of the
plan, its files and the analysts, since the same question under another name is the same question.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from pathlib import Path

import msgspec

from sqlmadp.bind.bind import BoundQuery, bind_each, cuts
from sqlmadp.bind.evaluate import Evaluator
from sqlmadp.errors import Problem, SqlError
from sqlmadp.files.analysts import Analyst
from sqlmadp.files.plan import Plan
from sqlmadp.files.schema import read_schema
from sqlmadp.files.staging import staged_statements
from sqlmadp.files.toml import dotted
from sqlmadp.mechanism import MECHANISMS, mechanism
from sqlmadp.mechanism.collective import Collective
from sqlmadp.mechanism.fairness import Outcome
from sqlmadp.private.engines import Identity, Source, open_engine
from sqlmadp.private.engines.trusted_values import read_public
from sqlmadp.release.size_limits import oversized
from sqlmadp.sql.statements import Statement, split_each, with_parameters
from sqlmadp.strategy.cache import StrategyCache, default_directory
from sqlmadp.table.domain import Column, Domain, PublicTable
from sqlmadp.workload.questions import Question, Workload

VERSION = 2
"""Part of every release's hash: raised if the meaning of what is hashed changes."""


@dataclass(frozen=True)
class Refused:
    """A statement that is left out of a plan, and why."""

    analyst: str
    query: str
    """The name of the statement; empty for what concerns no single statement of the analyst."""
    problem: Problem


@dataclass(frozen=True, eq=False)
class BoundPlan:
    """A plan with every statement bound to the domain."""

    plan: Plan
    domain: Domain
    """With the cuts of all statements."""
    queries: tuple[tuple[BoundQuery, ...], ...]
    """Each analyst's queries, in the order of the plan."""

    refused: tuple[Refused, ...] = ()
    """What is left out of the plan, with the reasons."""

    @classmethod
    def bind(cls, plan: Plan) -> BoundPlan:
        """Bind every statement of every analyst; one error lists all mistakes, sizes included.

        A plan that skips refused statements goes on without them, if anybody is left.
        """
        asked = cls.bind_sound(plan)
        if asked.refused and not (plan.skip_refused and asked.plan.analysts):
            raise asked.refusal()
        return asked

    @classmethod
    def bind_sound(
        cls, plan: Plan, staged: Mapping[str, Sequence[Statement]] | None = None
    ) -> BoundPlan:
        """Bind what can be bound; the rest is left out, and so is whoever is left with nothing.

        Their part of epsilon is left out too.  ``staged`` adds statements that an analyst has
        not handed in yet.
        """
        statements, refused = _statements(plan, staged or {})
        domain = domain_of(plan)
        everything = [statement for own in statements.values() for statement in own]
        domain = domain.with_cuts(cuts(everything, domain, plan.limits))
        once = _Once(Evaluator(domain, plan.limits))
        bound: dict[str, tuple[BoundQuery, ...]] = {}
        for name, own in statements.items():
            bound[name], problems = once.bind(own)
            refused += [Refused(name, each.name, p) for each, found in problems for p in found]
        while found := list(oversized(bound, plan.limits)):
            refused += [
                Refused(name, statement.name, problem) for name, statement, problem in found
            ]
            bound = _without(bound, {(name, statement.name) for name, statement, _ in found})
        mended = {each.analyst for each in refused}
        for name, queries in bound.items():
            if name not in mended and not any(query.aggregates for query in queries):
                problem = _nothing_counted(queries[0].statement, name)
                refused.append(Refused(name, "", problem))
        return cls(plan, domain, (), tuple(refused))._with(bound)

    def without(self, refused: Sequence[Refused]) -> BoundPlan:
        """Return the same without some statements, and without whoever is left with nothing."""
        names = {(each.analyst, each.query) for each in refused}
        known = {analyst.name: own for analyst, own in self._pairs}
        return replace(self, refused=(*self.refused, *refused))._with(_without(known, names))

    def _with(self, bound: Mapping[str, tuple[BoundQuery, ...]]) -> BoundPlan:
        """Return the plan of those who have a statement that counts, with what they bring."""
        members = [
            each
            for each in self.plan.analysts
            if any(query.aggregates for query in bound.get(each.name, ()))
        ]
        left = sum((member.share for member in members), Fraction(0))
        analysts = tuple(replace(member, share=member.share / left) for member in members)
        plan = replace(self.plan, analysts=analysts, epsilon=self.plan.epsilon * left)
        return replace(self, plan=plan, queries=tuple(bound[each.name] for each in members))

    @property
    def _pairs(self) -> list[tuple[Analyst, tuple[BoundQuery, ...]]]:
        return list(zip(self.plan.analysts, self.queries, strict=True))

    def refusal(self) -> SqlError:
        """Return one error with all that is refused, analyst by analyst in the order of files."""
        names = list(dict.fromkeys(each.analyst for each in self.refused))
        places = {name: place for place, name in enumerate(names)}
        ordered = sorted(
            self.refused,
            key=lambda each: (
                places[each.analyst],
                each.problem.file,
                each.problem.line,
                each.problem.column,
            ),
        )
        return SqlError(dict.fromkeys(each.problem for each in ordered))

    @cached_property
    def questions(self) -> tuple[tuple[Question, ...], ...]:
        """Every analyst's statements as questions, in plain units."""
        return tuple(
            tuple(Question(query.aggregates, query.statement.weight) for query in own)
            for own in self.queries
        )

    @cached_property
    def workloads(self) -> tuple[Workload, ...]:
        """Every analyst's workload: their questions, scaled as the plan measures errors."""
        return tuple(Workload.of(own, self.plan.measure) for own in self.questions)

    @cached_property
    def collective(self) -> Collective:
        """Everybody who takes part, with what they ask and bring."""
        return Collective.asking(
            self.workloads,
            [analyst.share for analyst in self.plan.analysts],
            columns=dict(self.columns),
            cache=StrategyCache(default_directory()),
        )

    @cached_property
    def _outcomes(self) -> dict[str, Outcome]:
        return {}

    def outcome(
        self, name: str | None = None, progress: Callable[[int, int], None] = lambda *_: None
    ) -> Outcome:
        """Return the outcome of a mechanism, the plan's own if none is named; worked out once."""
        name = name or self.plan.mechanism
        if name not in self._outcomes:
            chosen = mechanism(name)
            self._outcomes[name] = Outcome(
                chosen, self.collective, self.epsilon_per_record, progress
            )
        return self._outcomes[name]

    @property
    def notes(self) -> tuple[Problem, ...]:
        """Return notes on accepted statements that are most likely slips, each place once."""
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
    def _identities(self) -> list[tuple[list[tuple[str, str]], str]]:
        """What each analyst asks and brings, whatever the order of the statements."""
        return [
            (
                sorted((b"".join(each.key).hex(), str(each.weight)) for each in own),
                str(analyst.share),
            )
            for analyst, own in zip(self.plan.analysts, self.questions, strict=True)
        ]

    @cached_property
    def places(self) -> tuple[int, ...]:
        """Return each analyst's place in what is stored: by question, and by name among equals.

        So the order of the plan does not matter, nor do the names, except between analysts
        who ask the same with the same share and may read different noise.
        """
        names = [analyst.name.casefold() for analyst in self.plan.analysts]
        keys = [*zip(self._identities, names, strict=True)]
        order = sorted(range(len(keys)), key=keys.__getitem__)
        return tuple(order.index(number) for number in range(len(keys)))

    @cached_property
    def release_id(self) -> str:
        """Return the hash of what was asked."""
        analysts = self._identities
        if not MECHANISMS[self.plan.mechanism].ordered:
            analysts = sorted(analysts)
        columns = [_identity(column) for column in self.domain.columns]
        domain = (self.domain.table, _protected(self.domain), columns)
        how = (self.plan.mechanism, self.plan.measure)
        asked = (VERSION, domain, analysts, str(self.plan.epsilon), *how)
        return hashlib.sha256(msgspec.json.encode(asked)).hexdigest()

    @property
    def schema_id(self) -> str:
        """Return the hash of the table and its columns, whatever statements cut out of them."""
        columns = [_identity(replace(column, cuts=())) for column in self.domain.columns]
        named = (self.domain.table, _protected(self.domain), columns)
        return hashlib.sha256(msgspec.json.encode(named)).hexdigest()

    @property
    def epsilon_per_record(self) -> Fraction:
        """Return the part of epsilon that one differing record gets; it sets expected errors."""
        return self.plan.epsilon / self.domain.records_between_neighbours

    def analyst(self, name: str) -> int | None:
        """Return the number of the analyst called ``name``, or None."""
        names = [analyst.name for analyst in self.plan.analysts]
        return names.index(name) if name in names else None


def _identity(column: Column) -> tuple[object, ...]:
    """Return a column's part of the release's hash."""
    outside = "clamp" if column.outside == "clamp" else "drop"
    told = (column.name, column.type, column.nullable, outside, column.values)
    ends: tuple[object, ...] = (column.minimum, column.maximum, column.cuts)
    if column.type == "decimal":
        ends = (*ends, column.decimals)
    if column.type == "timestamp":
        ends = (*ends, column.every)
    return (*told, *ends) if column.complete else (*told, *ends, "undeclared values are NULL")


def _protected(domain: Domain) -> object:
    """Return who is protected, for a release's hash; 1 for a record by itself."""
    if domain.unit is None and domain.neighbours == "add_remove":
        return 1
    return domain.unit, domain.neighbours


class _Once:
    """Binds statements, each text only once, whoever asks it and however often."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._known: dict[tuple[str, str], BoundQuery] = {}
        self._entries = 0

    def bind(
        self, statements: Sequence[Statement]
    ) -> tuple[tuple[BoundQuery, ...], list[tuple[Statement, tuple[Problem, ...]]]]:
        """Return the statements that can be bound, and the others with all their mistakes."""
        new: dict[tuple[str, str], Statement] = {}
        for statement in statements:
            if statement.key not in self._known:
                new.setdefault(statement.key, statement)
        found, problems = bind_each(new.values(), self._evaluator, entries=self._entries)
        for query in found.values():
            self._known[query.statement.key] = query
            self._entries += query.entries
        refused = [each for each in statements if each.key not in self._known]
        if len(refused) > len(problems):  # Some are repeated: each is refused in its own place.
            _, problems = bind_each(refused, self._evaluator, entries=self._entries)
        sound = [each for each in statements if each.key in self._known]
        bound = tuple(replace(self._known[each.key], statement=each) for each in sound)
        return bound, list(zip(refused, (problems[n] for n in sorted(problems)), strict=True))


def _without(
    bound: Mapping[str, tuple[BoundQuery, ...]], names: Set[tuple[str, str]]
) -> dict[str, tuple[BoundQuery, ...]]:
    """Return everybody's queries without those named by analyst and statement."""
    return {
        analyst: tuple(query for query in own if (analyst, query.name) not in names)
        for analyst, own in bound.items()
    }


def _statements(
    plan: Plan, staged: Mapping[str, Sequence[Statement]]
) -> tuple[dict[str, list[Statement]], list[Refused]]:
    """Return every analyst's statements, and what cannot be read or told apart by its name."""
    statements: dict[str, list[Statement]] = {}
    refused: list[Refused] = []
    for analyst in plan.analysts:
        own, problems = own_statements(plan, analyst)
        own.extend(staged.get(analyst.name, ()))
        again = _repeated(own)
        problems += [_duplicate(each, known, analyst) for each, known in again]
        if not own and not problems:
            problems.append(_nothing_asked(plan, analyst))
        repeated = {id(each) for each, _ in again}
        statements[analyst.name] = [each for each in own if id(each) not in repeated]
        refused += [Refused(analyst.name, "", problem) for problem in problems]
    return statements, refused


def own_statements(plan: Plan, analyst: Analyst) -> tuple[list[Statement], list[Problem]]:
    """Return an analyst's statements, from files or a connection, and their mistakes."""
    own: list[Statement] = []
    problems: list[Problem] = []
    for path in analyst.files:
        try:
            statements, found = split_each(
                _text(path), file=str(path), limits=plan.limits, dialect=analyst.dialect
            )
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
        hint=f"Name SQL files in [{dotted(('analysts', analyst.name))}], or let {analyst.name!r} "
        "execute HAND IN SELECT ... on a connection.",
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


def _repeated(statements: list[Statement]) -> list[tuple[Statement, Statement]]:
    """Return statements with the name of an earlier one in another file, and that one."""
    first: dict[str, Statement] = {}
    found = []
    for statement in statements:
        known = first.setdefault(statement.name.casefold(), statement)
        if known.file != statement.file:
            found.append((statement, known))
    return found


def _duplicate(statement: Statement, known: Statement, analyst: Analyst) -> Problem:
    """Refuse a name that two files of one analyst share: rows are told apart by it."""
    return statement.problem(
        "duplicate-name",
        f"{analyst.name!r} has a statement {statement.name!r} in {known.file} already",
        hint="Write '-- name: ...' above one of them.",
        span=(0, 1),
    )


def domain_of(plan: Plan) -> Domain:
    """Return the domain that the plan's schema declares; reads no record of the private table."""
    domain = read_schema(plan.schema_path)
    if all(table.table is None for table in domain.public):
        return domain
    source = replace(plan.table, folder=plan.folder.resolve())
    public = tuple(
        table if table.table is None else _read(table, source, domain.table)
        for table in domain.public
    )
    return replace(domain, public=public)


@lru_cache(maxsize=64)
def _read(table: PublicTable, source: Source, private: str) -> PublicTable:
    return read_public(table, source, private)


def source_identity(plan: Plan) -> Identity:
    """Return the identity of the plan's table, the same for every spelling of its location."""
    domain = read_schema(plan.schema_path)
    engine = open_engine(plan.table, table=domain.table)
    try:
        return engine.identity
    finally:
        engine.close()
