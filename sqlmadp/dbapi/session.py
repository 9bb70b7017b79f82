"""A session: what one analyst sees of one plan, before its release and after.

It opens the plan, binds the analyst's statements, works out expected errors from everyone's
workloads, hands statements in, and notices the release.  Other analysts' statements are bound
here too, since expected errors depend on them; nothing of them is shown, their mistakes
included.

Notebook magics and BI tools send *probes*, ``SELECT * FROM t WHERE 1 = 0``, and read the names and
types of what comes back.  A probe returns no row of any table, so the schema alone answers it,
before the release and after, and it is no part of any workload.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sqlmadp.answer.explain import expected_error, explain
from sqlmadp.answer.reconstruct import Estimate
from sqlmadp.answer.result import Result
from sqlmadp.answer.rows import Desk
from sqlmadp.bind.bind import Binder, BoundQuery
from sqlmadp.errors import NotReleasedError, OperationalError, SqlError
from sqlmadp.files.analysts import Analyst, no_analyst
from sqlmadp.files.plan import Plan
from sqlmadp.files.staging import UNNAMED, hand_in, held, new_statements, withdraw
from sqlmadp.release.bound_plan import BoundPlan, domain_of, own_statements
from sqlmadp.release.certificate import Certificate
from sqlmadp.release.history import history_of
from sqlmadp.release.preview import expected_estimate, explain_statement, preview
from sqlmadp.release.release import Release, find
from sqlmadp.release.size_limits import oversized
from sqlmadp.release.trial import try_statement
from sqlmadp.show.progress import Report, shown_progress
from sqlmadp.sql.limits import Limits
from sqlmadp.sql.statements import Statement

Seen = tuple[Plan, tuple[tuple[int, int, int] | None, ...]]
"""A plan, and the state of every file that it depends on."""

STAGED_COLUMNS = tuple((name, "VARCHAR") for name in ("name", "state", "file", "statement"))
"""The columns of the list of what an analyst has handed in."""


@dataclass(frozen=True, eq=False)
class _Preview:
    """What a release would give if it were made now, as far as one analyst may know."""

    asked: BoundPlan
    number: int
    estimate: Estimate

    def bound(self, statement: Statement) -> BoundQuery:
        """Return a statement as it is bound beside all others."""
        own = self.asked.queries[self.number]
        return next(each for each in own if each.statement.text == statement.text)


class Session:
    """One analyst's view of one plan.  Belongs to one thread at a time."""

    def __init__(
        self, path: Path, analyst: str, progress: Callable[[str], None] | bool = False
    ) -> None:
        """Open the plan at ``path``; raises for a mistake in it or in the analyst's own files."""
        self.path, self.analyst, self._progress = path, analyst, progress
        self._release: Release | None = None
        self._seen: Seen | None = None
        self._plan = Plan.open(path)
        self._me()
        self._binder = Binder(domain_of(self._plan), self._plan.limits)
        self._desk = Desk(self._plan.limits)
        self._previews: dict[tuple[str, ...], _Preview] = {}
        self.queries()
        self.look()

    def look(self) -> Release | None:
        """Return the release once it has been made; a session keeps to the one it has seen."""
        if self._release is None:
            plan = Plan.open(self.path)
            seen = (plan, _states(plan))
            if seen != self._seen:
                self._plan, self._previews = plan, {}
                self._me()
                domain = domain_of(plan)
                if (domain, plan.limits) != (self._binder.domain, self._binder.limits):
                    self._binder = Binder(domain, plan.limits)
                self._release = _find(plan)
                self._seen = seen
        return self._release

    @property
    def dialect(self) -> str:
        """Return the dialect of SQL that the plan names for this analyst."""
        named = {analyst.name: analyst.dialect for analyst in self._plan.analysts}
        return named.get(self.analyst, self._plan.dialect)

    @property
    def limits(self) -> Limits:
        """Return how large statements may be."""
        return self._plan.limits

    def tables(self) -> dict[str, tuple[tuple[str, str, bool], ...]]:
        """Return the columns of all tables that statements may name: what the schema declares."""
        domain = self._binder.domain
        private = tuple((c.name, c.sql_type, not c.complete) for c in domain.columns)
        return {domain.table: private} | {
            table.name: tuple((name, kind, True) for name, kind in table.columns)
            for table in domain.public
        }

    def queries(self) -> dict[str, str]:
        """Return the analyst's own statements, as handed in, by name."""
        return {statement.name: statement.text for statement in self._own()}

    def check(self, statement: Statement) -> BoundQuery:
        """Bind one statement before the release; hands in nothing.

        Raises if the statement is wrong or too large by itself, or if its rows cannot be made from
        made-up answers.
        """
        query, _ = self._binder.bind(statement)
        sizes = oversized({self.analyst: [query]}, self.limits)
        if problems := [problem for _, _, problem in sizes]:
            raise SqlError(problems)
        if (problem := try_statement(query, self.analyst, self._desk)) is not None:
            raise SqlError([problem])
        return query

    def answer(self, statement: Statement) -> Result:
        """Return the rows of any statement that the release supports."""
        return self._released().answer(statement, self.analyst)

    def is_handed_in(self, statement: Statement) -> bool:
        """Return whether the analyst has handed in a statement, under any name."""
        return any(statement.key == own.key for own in self._own())

    def is_new(self, statement: Statement, staged: Sequence[Statement]) -> bool:
        """Return whether a statement is to be staged beside ``staged`` and all that is handed in.

        Raises if it has the name of another one.
        """
        return bool(new_statements([statement], [*self._own(), *staged]))

    def explain(self, statement: Statement, staged: Sequence[Statement]) -> Result:
        """Return scope, cells, groups and expected error of a statement.

        Before the release that is as if it and ``staged`` were handed in, with all that is.
        """
        if self.look() is not None:
            return explain_statement(self._plan, statement, self.analyst)
        self.check(statement)  # What could not be handed in has no error to expect.
        found = self._preview(staged, statement)
        return explain(found.bound(statement), found.estimate)

    def rows(self, name: str) -> Result:
        """Return the rows of the analyst's own query called ``name``."""
        return self._released().rows(self.analyst, name)

    def hand_in(self, statements: Sequence[Statement]) -> Result:
        """Hand statements in, all or none, unless the release has been made; return the list."""
        notes: list[str] = []
        for statement in statements if self.look() is None else ():
            notes += map(str, self.check(statement).notes)
        with held(self.path.parent):
            if self.look() is not None:
                raise OperationalError(
                    f"the release of plan {str(self.path)!r} has been made, so nothing can be "
                    "handed in any more, and nothing was. Execute the statement without HAND IN: "
                    "it is answered as far as the release covers it. rollback() discards what is "
                    "staged"
                )
            path = self._plan.staged_path(self.analyst)
            added = hand_in(path, statements, self._own(), self.limits)
        listed = self.staged(dict.fromkeys(added, "handed in now"))
        return replace(listed, notes=tuple(notes))

    def withdraw(self, name: str) -> Result:
        """Take back a statement that was handed in from a connection; return what is left."""
        with held(self.path.parent):
            if self.look() is not None:
                raise OperationalError(
                    f"the release of plan {str(self.path)!r} has been made, so {name!r} cannot be "
                    "withdrawn from it: its epsilon is spent and its answers are stored. Nothing "
                    "was withdrawn"
                )
            path = self._plan.staged_path(self.analyst)
            taken = withdraw(path, name, self._readable(), self.limits)
        left = self.staged()
        gone = (taken.name, "withdrawn now", self._place(taken), taken.text)
        return replace(left, rows=(gone, *left.rows))

    def staged(
        self, states: Mapping[str, str] | None = None, more: Sequence[Statement] = ()
    ) -> Result:
        """List the analyst's statements: name, state, file and text.

        ``states`` has the state of those that something has just happened to, by name; they are
        listed first.  ``more`` is staged and not handed in; it is listed last.
        """
        state = "waits for the release" if self.look() is None else "released"
        own = self._readable()
        rows = [
            (each.name, (states or {}).get(each.name, state), self._place(each), each.text)
            for each in own
        ]
        rows.sort(key=lambda row: row[1] == state)
        rows += [
            (each.name, "staged, not handed in", "", each.text)
            for each in new_statements(more, own)
        ]
        return Result(STAGED_COLUMNS, tuple(rows), {})

    def _place(self, statement: Statement) -> str:
        """Return the file of a statement, relative to the plan's folder if it is inside."""
        file = Path(statement.file)
        folder = self._plan.folder
        return str(file.relative_to(folder) if file.is_relative_to(folder) else file)

    def _sound(self, staged: Mapping[str, Sequence[Statement]]) -> BoundPlan:
        """Bind everybody's statements with ``staged``; raise what is wrong with one's own."""
        asked = BoundPlan.bind_sound(self._plan, staged)
        own = [each.problem for each in asked.refused if each.analyst == self.analyst]
        if own:  # Only these; the others' are for the curator to see.
            raise SqlError(own)
        return asked

    def expected_error(
        self, query: BoundQuery, staged: Sequence[Statement]
    ) -> Mapping[str, tuple[float, ...]]:
        """Return the expected error of a query, by column and group, before the release.

        That is the error if it and ``staged`` were handed in, and all that is were released now.
        """
        found = self._preview(staged, query.statement)
        return expected_error(found.bound(query.statement), found.estimate)

    def certificate(self, staged: Sequence[Statement]) -> Certificate:
        """Return the analyst's part of the certificate: the release's, or what it would be now.

        Now means with ``staged`` handed in.
        """
        release = self.look()
        if release is not None:
            return release.certificate.only(self.analyst)
        asked = self._preview(staged).asked
        with shown_progress(self._progress, 1) as report:
            found = preview(asked, history_of(asked), asked.plan.mechanism, report)
        return found.only(self.analyst)

    def pending(self, what: str) -> NotReleasedError:
        """Return the error that says why there are no rows, and what happens next."""
        return NotReleasedError(
            f"the release of plan {str(self.path)!r} is pending, so there are no rows yet. When "
            "everyone has handed in, the curator runs: sqlmadp release "
            f"{shlex.quote(str(self.path))}\n{what}"
        )

    def _me(self) -> Analyst:
        for analyst in self._plan.analysts:
            if analyst.name == self.analyst:
                return analyst
        raise no_analyst(self.analyst, (analyst.name for analyst in self._plan.analysts))

    def _own(self) -> list[Statement]:
        own, problems = own_statements(self._plan, self._me())
        if problems:
            raise SqlError(problems)
        return own

    def _readable(self) -> list[Statement]:
        """Return the analyst's statements but for those with a mistake that ``_own`` raises."""
        own, _ = own_statements(self._plan, self._me())
        return own

    def _released(self) -> Release:
        release = self.look()
        if release is None:
            raise self.pending("What was handed in is not measured yet.")
        return release

    def _preview(
        self, staged: Sequence[Statement], asked_about: Statement | None = None
    ) -> _Preview:
        """Preview a release with these handed in too, the last under any name."""
        self.look()
        last = [] if asked_about is None else [replace(asked_about, name=UNNAMED)]
        added = new_statements([*staged, *last], self._own())
        key = tuple(statement.text for statement in added)
        if key not in self._previews:
            with shown_progress(self._progress, 2) as report:
                report("binding statements")
                asked = self._sound({self.analyst: added})
                self._previews = {key: _preview(asked, self.analyst, report)}
        return self._previews[key]


def _preview(asked: BoundPlan, analyst: str, report: Report) -> _Preview:
    number = [each.name for each in asked.plan.analysts].index(analyst)
    asked.collective.progress = lambda done, total: report(
        f"selecting a strategy: {done} of {total} analysts"
    )
    return _Preview(asked, number, expected_estimate(asked, number))


def _find(plan: Plan) -> Release | None:
    if not plan.ledger_path.exists() and plan.head is None:
        return None  # Without the work of binding everything.
    return find(BoundPlan.bind_sound(plan))


def _states(plan: Plan) -> tuple[tuple[int, int, int] | None, ...]:
    """Return a fingerprint of every file that the plan reads, to detect changes."""
    ledger = Path(os.path.realpath(plan.ledger_path))  # The write-ahead file is beside that one.
    files = [
        plan.schema_path,
        ledger,
        ledger.with_name(ledger.name + "-wal"),
    ]
    for analyst in plan.analysts:
        files += [*analyst.files, plan.staged_path(analyst.name)]
    return tuple(_state(file) for file in files)


def _state(file: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


_NAME = r'(?:"((?:[^"]|"")+)"|([A-Za-z_]\w*))'
_PROBE = re.compile(
    rf"\s*SELECT\s+\*\s+FROM\s+{_NAME}\s+(?:WHERE\s+(?:1\s*=\s*0|0\s*=\s*1|FALSE)|LIMIT\s+0)\s*",
    re.IGNORECASE,
)


def probed(text: str, tables: Mapping[str, tuple[tuple[str, str, bool], ...]]) -> Result | None:
    """Return the empty result of a probe of a declared table; None if the text is no probe."""
    found = _PROBE.fullmatch(text)
    if found is None:
        return None
    name = found[1].replace('""', '"') if found[1] else found[2]
    for table, columns in tables.items():
        if table.casefold() == name.casefold():
            return Result(tuple((column, kind) for column, kind, _ in columns), (), {})
    return None
