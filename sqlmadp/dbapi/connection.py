"""Connections: ``sqlmadp.connect(plan, analyst="alice")``.

Before the release, what is executed is checked and staged; ``commit`` hands it in, and
``rollback`` drops it.  After the release every statement that it supports is answered, free, and
there is nothing to commit.  A connection may be shared by threads; its cursors may not.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NoReturn

from sqlmadp import errors
from sqlmadp.answer.result import Result
from sqlmadp.bug_report import reporting
from sqlmadp.certificate import Certificate
from sqlmadp.dbapi.cursor import Cursor
from sqlmadp.dbapi.executed import Answered, Executed, Pending
from sqlmadp.dbapi.probe import probed
from sqlmadp.dbapi.session import Session
from sqlmadp.errors import (
    InterfaceError,
    NotReleasedError,
    NotSupportedError,
    ProgrammingError,
)
from sqlmadp.plan import Plan
from sqlmadp.sql.limits import Limits
from sqlmadp.sql.parameters import Parameters, is_sql_text, with_parameters
from sqlmadp.sql.statements import Statement, explained, split


def connect(
    plan: str | os.PathLike[str] | Plan, *, analyst: str, dialect: str | None = None
) -> Connection:
    """Return a connection of one analyst to a plan, given as a file or as an open plan.

    ``dialect`` is that of the SQL on this connection; the plan's own otherwise.
    """
    path = plan.path if isinstance(plan, Plan) else Path(plan)
    return Connection(path, analyst, dialect)


def _no_two_phases(*_: object) -> NoReturn:
    """Raise NotSupportedError."""
    raise NotSupportedError("there are no transactions in two phases; use commit and rollback")


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

    def __init__(self, path: Path, analyst: str, dialect: str | None = None) -> None:
        """Open the plan at ``path``; use `connect`."""
        self._dialect = dialect
        self._lock = threading.RLock()
        with reporting():
            self._session: Session | None = Session(path, analyst)
        self._staged: list[Statement] = []

    def cursor(self) -> Cursor:
        """Return a new cursor."""
        self._open()
        return Cursor(self)

    def execute(self, operation: str, parameters: Parameters | None = None) -> Cursor:
        """Execute a statement on a new cursor, and return the cursor."""
        return self.cursor().execute(operation, parameters)

    def commit(self) -> None:
        """Hand in what is staged, all of it or, with an error, none of it."""
        with self._lock, reporting():
            session = self._open()
            if self._staged:
                session.hand_in(self._staged)
                self._staged = []

    def rollback(self) -> None:
        """Drop what is staged."""
        with self._lock, reporting():
            self._open()
            self._staged = []

    def close(self) -> None:
        """Close the connection and drop what is staged; closing it again does nothing."""
        with self._lock:
            self._session, self._staged = None, []

    def __enter__(self) -> Connection:
        self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Commit, or roll back after an exception; then close."""
        try:
            if self._session is not None and kind is None:
                self.commit()
        finally:
            self.close()

    @property
    def analyst(self) -> str:
        """Return whose connection this is."""
        return self._open().analyst

    @property
    def released(self) -> bool:
        """Tell whether the release has been made."""
        with self._lock, reporting():
            return self._open().look() is not None

    @property
    def tables(self) -> Mapping[str, tuple[tuple[str, str, bool], ...]]:
        """Return name, DuckDB type and nullability of all columns, by table, the private first."""
        with self._lock, reporting():
            return self._open().tables()

    @property
    def queries(self) -> Mapping[str, str]:
        """Return the analyst's own statements, as handed in, by name."""
        with self._lock, reporting():
            return self._open().queries()

    @property
    def staged(self) -> tuple[str, ...]:
        """Return the statements that ``commit`` would hand in."""
        with self._lock, reporting():
            self._open()
            return tuple(statement.text for statement in self._staged)

    @property
    def certificate(self) -> Certificate:
        """Return what the release gives this analyst; before it, what it would give now."""
        with self._lock, reporting():
            return self._open().certificate(self._staged)

    def rows(self, query: str) -> Result:
        """Return the rows of the analyst's own query of that name."""
        with self._lock, reporting():
            return self._open().rows(query)

    def _execute(self, operations: Sequence[tuple[str, Parameters | None]]) -> list[Executed]:
        """Answer statements, or check all of them and then stage them; for cursors."""
        with self._lock, reporting():
            session = self._open()
            dialect = self._dialect or session.dialect
            statements = [_statement(*each, session.limits, dialect) for each in operations]
            released = session.look() is not None
            staged = list(self._staged)
            executed: list[Executed] = []
            for statement in statements:
                if (probe := probed(statement.text, session.tables())) is not None:
                    executed.append(Answered(probe))
                elif (about := explained(statement)) is not None:
                    executed.append(Answered(session.explain(about, staged)))
                elif released:
                    executed.append(Answered(session.answer(statement)))
                else:
                    query, new = session.check(statement, staged)
                    staged.extend([statement] if new else [])
                    executed.append(Pending(query))
            self._staged = staged
            return executed

    def _result(self, executed: Executed) -> Result:
        """Return the rows of what was executed; NotReleasedError if there are none yet."""
        if isinstance(executed, Answered):
            return executed.result
        with self._lock, reporting():
            session = self._open()
            if session.look() is not None:
                return session.answer(executed.query.statement)
            raise self._pending(session, executed)

    def _expected_error(self, executed: Executed) -> Mapping[str, tuple[float, ...]]:
        with self._lock, reporting():
            session = self._open()
            if isinstance(executed, Pending) and session.look() is None:
                return session.expected_error(executed.query, self._staged)
            return self._result(executed).rmse

    def _pending(self, session: Session, executed: Pending) -> NotReleasedError:
        statement = executed.query.statement
        if statement.text in session.queries().values():
            return session.pending("this statement has been handed in")
        if any(statement.text == staged.text for staged in self._staged):
            return session.pending("this statement is staged, and commit() hands it in")
        return session.pending("this statement is no longer staged: execute it again")

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
        raise ProgrammingError("the statement holds a zero or a lone surrogate, which SQL cannot")
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
