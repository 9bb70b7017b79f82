"""Connections: ``sqlmadp.connect(plan, analyst="alice")``.

There is one rule: a SELECT is staged, and only an explicit command hands it in.

    SELECT ...                   staged before the release, answered after it
    connection.commit()          hands in what is staged, all of it or none
    connection.rollback()        discards what is staged; so does closing the connection
    EXPLAIN SELECT ...           shows how exact it is, or would be if it were handed in
    HAND IN SELECT ...           hands it in at once, as staged_1, staged_2, ...
    HAND IN AS name SELECT ...   hands it in under a name
    WITHDRAW name                takes it back, until the release is made

Where a tool commits by itself, as SQLAlchemy, pandas and notebook magics do, a commit is nobody's
decision.  Such tools connect with ``stage=False``: a SELECT is only checked then, and HAND IN
alone hands in.

After the release every statement that it supports is answered, free.  A connection may be shared
by threads; its cursors may not.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Concatenate, NoReturn, ParamSpec, TypeVar

from sqlmadp import errors
from sqlmadp.answer.result import Result
from sqlmadp.dbapi.cursor import Answered, Cursor, Executed, Pending
from sqlmadp.dbapi.session import Session, probed
from sqlmadp.errors import InterfaceError, NotSupportedError, ProgrammingError, reporting
from sqlmadp.files.plan import Plan
from sqlmadp.release.certificate import Certificate
from sqlmadp.sql.limits import Limits
from sqlmadp.sql.statements import (
    Parameters,
    Statement,
    explained,
    handed_in,
    is_sql_text,
    split,
    with_parameters,
    withdrawn,
)

P = ParamSpec("P")
R = TypeVar("R")

MAX_COPIED = 300
"""Repeat statements of at most this many characters in a message, to be copied."""


def connect(
    plan: str | os.PathLike[str] | Plan,
    *,
    analyst: str,
    dialect: str | None = None,
    errors: bool = False,
    stage: bool = True,
    progress: Callable[[str], None] | bool = False,
) -> Connection:
    """Return a connection of one analyst to a plan, given as a file or as an open plan.

    ``dialect`` is that of the SQL on this connection; the plan's own otherwise.  With ``errors``
    three columns follow every answer ``n`` in all rows: n_stderr, its standard error, and n_low and
    n_high, the ends of its 95% interval.  ``stage=False`` is for tools that commit by themselves:
    ``commit`` does nothing then, and only ``HAND IN`` hands a statement in.  ``progress`` is called
    with the name of each stage of what can take long, expected errors before the release; True
    shows a bar, in notebooks too.
    """
    path = plan.path if isinstance(plan, Plan) else Path(plan)
    return Connection(path, analyst, dialect, errors=errors, stage=stage, progress=progress)


def _no_two_phases(*_: object) -> NoReturn:
    """Raise NotSupportedError."""
    raise NotSupportedError("there are no transactions in two phases; use commit and rollback")


def _exclusive(
    method: Callable[Concatenate[Connection, P], R],
) -> Callable[Concatenate[Connection, P], R]:
    """Run a method under the connection's lock, and report what nobody foresaw."""

    @wraps(method)
    def run(self: Connection, /, *given: P.args, **named: P.kwargs) -> R:
        with self._lock, reporting():
            return method(self, *given, **named)

    return run


class Connection:
    """One analyst's connection to one plan (PEP 249)."""

    Warning = errors.Warning
    Error = errors.Error
    InterfaceError = errors.InterfaceError
    DatabaseError = errors.DatabaseError
    DataError = errors.DataError
    OperationalError = errors.OperationalError
    IntegrityError = errors.IntegrityError
    InternalError = errors.InternalError
    ProgrammingError = errors.ProgrammingError
    NotSupportedError = errors.NotSupportedError

    xid = tpc_begin = tpc_prepare = tpc_commit = tpc_rollback = tpc_recover = _no_two_phases

    def __init__(
        self,
        path: Path,
        analyst: str,
        dialect: str | None = None,
        *,
        errors: bool = False,
        stage: bool = True,
        progress: Callable[[str], None] | bool = False,
    ) -> None:
        """Open the plan at ``path``; use `connect`."""
        self._dialect, self._errors, self._stage = dialect, errors, stage
        self._staged: list[Statement] = []
        self.messages: list[tuple[type[Exception], Exception]] = []
        """What the last commit, rollback or close did with what was staged."""
        self._lock = threading.RLock()
        with reporting():
            self._session: Session | None = Session(path, analyst, progress)

    def cursor(self) -> Cursor:
        """Return a new cursor."""
        self._open()
        return Cursor(self)

    def execute(self, operation: str, parameters: Parameters | None = None) -> Cursor:
        """Execute a statement on a new cursor, and return the cursor."""
        return self.cursor().execute(operation, parameters)

    @_exclusive
    def hand_in(self, operation: str, parameters: Parameters | None = None) -> Result:
        """Hand a statement in, as ``HAND IN`` does, and return all that was handed in.

        Its name is that of a ``-- name: ...`` in front of it, or staged_1, staged_2, ...
        """
        session = self._open()
        return session.hand_in([self._statement(session, operation, parameters)])

    @_exclusive
    def staged(self) -> Result:
        """List the analyst's statements: name, state, file and text.

        What is staged on this connection, and not handed in, comes after it, without a file.
        """
        return self._open().staged(more=self._staged)

    @_exclusive
    def withdraw(self, name: str) -> Result:
        """Take back a statement that was handed in from a connection, and return what is left.

        Nothing can be withdrawn from a release that has been made: OperationalError.
        """
        return self._open().withdraw(name)

    @_exclusive
    def commit(self) -> None:
        """Hand in what is staged, all of it or, with an error, none of it.

        What was refused stays staged; `rollback` discards it.
        """
        session = self._open()
        self.messages.clear()
        if self._staged:
            session.hand_in(self._staged)
            self._note("handed in")

    @_exclusive
    def rollback(self) -> None:
        """Discard what is staged; `withdraw` takes back what was handed in."""
        self._open()
        self._discard()

    @_exclusive
    def close(self) -> None:
        """Close the connection and discard what is staged; closing it again does nothing.

        What was handed in stays.
        """
        if self._session is not None:
            self._discard()
        self._session = None

    def _discard(self) -> None:
        self.messages.clear()
        if self._staged:
            self._note("discarded, and not handed in")

    def _note(self, what: str) -> None:
        """Say what became of the statements that were staged, and stage none."""
        count = (
            "1 staged statement was"
            if len(self._staged) == 1
            else (f"{len(self._staged)} staged statements were")
        )
        listed = "".join(f"\n    {statement.text}" for statement in self._staged)
        self.messages.append((errors.Warning, errors.Warning(f"{count} {what}:{listed}")))
        self._staged = []

    def __enter__(self) -> Connection:
        self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection: what was staged and not committed is discarded."""
        self.close()

    @property
    def analyst(self) -> str:
        """Return whose connection this is."""
        return self._open().analyst

    @property
    @_exclusive
    def released(self) -> bool:
        """Whether the release has been made."""
        return self._open().look() is not None

    @property
    @_exclusive
    def tables(self) -> Mapping[str, tuple[tuple[str, str, bool], ...]]:
        """Return name, DuckDB type and nullability of all columns, by table, the private first."""
        return self._open().tables()

    @property
    @_exclusive
    def queries(self) -> Mapping[str, str]:
        """Return the analyst's own statements, as handed in, by name."""
        return self._open().queries()

    @property
    @_exclusive
    def certificate(self) -> Certificate:
        """This analyst's certificate.

        Before the release it is a preview from the statements handed in so far and those staged
        on this connection, and computing it can take minutes.
        """
        return self._open().certificate(self._staged)

    @_exclusive
    def rows(self, query: str) -> Result:
        """Return the rows of the analyst's own query of that name."""
        return self._open().rows(query)

    @_exclusive
    def _execute(self, operations: Sequence[tuple[str, Parameters | None]]) -> list[Executed]:
        """Answer statements, or hand them in or stage them, all or none; for cursors."""
        session = self._open()
        statements = [self._statement(session, *each) for each in operations]
        asked = [handed_in(statement) for statement in statements]
        if handing_in := [statement for statement in asked if statement is not None]:
            return [Answered(session.hand_in(handing_in))]
        staged = list(self._staged)
        executed = [self._executed(session, statement, staged) for statement in statements]
        self._staged = staged
        return executed

    def _executed(
        self, session: Session, statement: Statement, staged: list[Statement]
    ) -> Executed:
        """Answer one statement, or check it and add it to ``staged``."""
        if (probe := probed(statement.text, session.tables())) is not None:
            return Answered(probe)
        if (about := explained(statement)) is not None:
            return Answered(session.explain(about, staged))
        if (name := withdrawn(statement)) is not None:
            return Answered(session.withdraw(name))
        if session.look() is not None:
            return self._answered(session, statement)
        query = session.check(statement)
        if self._stage and session.is_new(statement, staged):
            staged.append(statement)
        return Pending(query)

    def _answered(self, session: Session, statement: Statement) -> Answered:
        answer = session.answer(statement)
        return Answered(answer.with_errors() if self._errors else answer, answer.rmse)

    @_exclusive
    def _with_rows(self, executed: Executed) -> Answered:
        """Return an executed statement with its rows; NotReleasedError if there are none yet."""
        if isinstance(executed, Answered):
            return executed
        session = self._open()
        if session.look() is not None:
            return self._answered(session, executed.query.statement)
        raise session.pending(self._standing(executed))

    @_exclusive
    def _expected_error(self, executed: Executed) -> Mapping[str, tuple[float, ...]]:
        session = self._open()
        if isinstance(executed, Pending) and session.look() is None:
            return session.expected_error(executed.query, self._staged)
        return self._with_rows(executed).rmse

    @_exclusive
    def _standing(self, executed: Pending) -> str:
        """Return the state of a statement that has no rows yet, and what to type."""
        statement = executed.query.statement
        if self._open().is_handed_in(statement):
            return "This statement has been handed in."
        if any(statement.key == staged.key for staged in self._staged):
            return (
                "This statement is staged; connection.commit() hands it in, "
                "or write HAND IN before it."
            )
        if self._stage:
            return (
                "This statement is no longer staged, and it is not handed in: execute it again "
                "and call connection.commit(), or write HAND IN before it."
            )
        text = statement.text
        copied = text if len(text) <= MAX_COPIED and text.isprintable() else "SELECT ..."
        return (
            "This statement is in order, and it is not handed in: tools commit by themselves, "
            "so a commit hands in nothing here. EXPLAIN in front of it shows how exact it "
            f"would be; HAND IN in front of it hands it in:\n    HAND IN {copied}"
        )

    def _statement(
        self, session: Session, operation: object, parameters: Parameters | None
    ) -> Statement:
        return _statement(operation, parameters, session.limits, self._dialect or session.dialect)

    def _open(self) -> Session:
        if self._session is None:
            raise InterfaceError("the connection is closed; connect again")
        return self._session


def _statement(
    operation: object, parameters: Parameters | None, limits: Limits, dialect: str
) -> Statement:
    """Return the one statement of ``operation``, with its parameters written into it."""
    if not isinstance(operation, str):
        raise InterfaceError(f"a statement is text, not {type(operation).__name__}")
    if not is_sql_text(operation):
        raise ProgrammingError(
            "the statement has a zero character or a lone surrogate in it, which SQL does not allow"
        )
    statements = split(operation, file="query", limits=limits, dialect=dialect)
    if len(statements) != 1:
        raise ProgrammingError(f"one statement was expected, but there are {len(statements)}")
    if parameters is None:
        return statements[0]
    if isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence | Mapping):
        raise InterfaceError(
            f"parameters are a sequence or a mapping, not {type(parameters).__name__}; "
            "a single one is written (value,)"
        )
    return with_parameters(statements[0], parameters) if parameters else statements[0]
