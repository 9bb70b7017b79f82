"""Connections: ``sqlmadp.connect(plan, analyst="alice")``.

One rule holds on a connection and in all that is built on it, such as SQLAlchemy, pandas, polars
and notebook magics: what is typed decides, and nothing else does.

    SELECT ...                   checked before the release, answered after it; never handed in
    EXPLAIN SELECT ...           shows how exact it is, or would be if it were handed in
    HAND IN SELECT ...           hands it in at once, as staged_1, staged_2, ...
    HAND IN AS name SELECT ...   hands it in under a name
    WITHDRAW name                takes it back, until the release is made

A SELECT changes nothing in any database, so tools commit after it or not, and close the connection,
as they please.  That is why ``commit`` and ``rollback`` do nothing here: no statement is lost
because a tool did not commit, and none is handed in because it did.

After the release every statement that it supports is answered, free.  A connection may be shared
by threads; its cursors may not.
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
    NotSupportedError,
    ProgrammingError,
)
from sqlmadp.plan import Plan
from sqlmadp.sql.limits import Limits
from sqlmadp.sql.parameters import Parameters, is_sql_text, with_parameters
from sqlmadp.sql.statements import Statement, explained, handed_in, split, withdrawn


def connect(
    plan: str | os.PathLike[str] | Plan,
    *,
    analyst: str,
    dialect: str | None = None,
    errors: bool = False,
) -> Connection:
    """Return a connection of one analyst to a plan, given as a file or as an open plan.

    ``dialect`` is that of the SQL on this connection; the plan's own otherwise.  With ``errors``
    three columns follow every answer ``n`` in all rows: n_stderr, its standard error, and n_low and
    n_high, the ends of its 95% interval.
    """
    path = plan.path if isinstance(plan, Plan) else Path(plan)
    return Connection(path, analyst, dialect, errors=errors)


def _no_two_phases(*_: object) -> NoReturn:
    """Raise NotSupportedError."""
    raise NotSupportedError(
        "there are no transactions: HAND IN takes effect at once, and WITHDRAW takes it back"
    )


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
        self, path: Path, analyst: str, dialect: str | None = None, *, errors: bool = False
    ) -> None:
        """Open the plan at ``path``; use `connect`."""
        self._dialect, self._errors = dialect, errors
        self._lock = threading.RLock()
        with reporting():
            self._session: Session | None = Session(path, analyst)

    def cursor(self) -> Cursor:
        """Return a new cursor."""
        self._open()
        return Cursor(self)

    def execute(self, operation: str, parameters: Parameters | None = None) -> Cursor:
        """Execute a statement on a new cursor, and return the cursor."""
        return self.cursor().execute(operation, parameters)

    def hand_in(self, operation: str, parameters: Parameters | None = None) -> Result:
        """Hand a statement in, as ``HAND IN`` does, and return all that was handed in.

        Its name is that of a ``-- name: ...`` in front of it, or staged_1, staged_2, ...
        """
        with self._lock, reporting():
            session = self._open()
            return session.hand_in([self._statement(session, operation, parameters)])

    def staged(self) -> Result:
        """Return what the analyst has handed in: name, state, file and statement."""
        with self._lock, reporting():
            return self._open().staged()

    def withdraw(self, name: str) -> Result:
        """Take back a statement that was handed in from a connection, and return what is left.

        Nothing can be withdrawn from a release that has been made: OperationalError.
        """
        with self._lock, reporting():
            return self._open().withdraw(name)

    def commit(self) -> None:
        """Do nothing: ``HAND IN`` takes effect at once, and a SELECT is never handed in."""
        self._open()

    def rollback(self) -> None:
        """Do nothing; `withdraw` takes a statement back."""
        self._open()

    def close(self) -> None:
        """Close the connection; what was handed in stays, and closing it again does nothing."""
        with self._lock:
            self._session = None

    def __enter__(self) -> Connection:
        self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection."""
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
    def certificate(self) -> Certificate:
        """This analyst's certificate.

        Before the release it is a forecast from the statements handed in so far, and computing it
        can take minutes.
        """
        with self._lock, reporting():
            return self._open().certificate()

    def rows(self, query: str) -> Result:
        """Return the rows of the analyst's own query of that name."""
        with self._lock, reporting():
            return self._open().rows(query)

    def _execute(self, operations: Sequence[tuple[str, Parameters | None]]) -> list[Executed]:
        """Answer statements, hand them in all or none, or check them; for cursors."""
        with self._lock, reporting():
            session = self._open()
            statements = [self._statement(session, *each) for each in operations]
            asked = [handed_in(statement) for statement in statements]
            if handing_in := [statement for statement in asked if statement is not None]:
                return [Answered(session.hand_in(handing_in))]
            return [self._executed(session, statement) for statement in statements]

    def _executed(self, session: Session, statement: Statement) -> Executed:
        if (probe := probed(statement.text, session.tables())) is not None:
            return Answered(probe)
        if (about := explained(statement)) is not None:
            return Answered(session.explain(about))
        if (name := withdrawn(statement)) is not None:
            return Answered(session.withdraw(name))
        if session.look() is not None:
            return self._answered(session, statement)
        return Pending(session.check(statement))

    def _answered(self, session: Session, statement: Statement) -> Answered:
        answer = session.answer(statement)
        return Answered(answer.with_errors() if self._errors else answer, answer.rmse)

    def _with_rows(self, executed: Executed) -> Answered:
        """Return what was executed with its rows; NotReleasedError if there are none yet."""
        if isinstance(executed, Answered):
            return executed
        with self._lock, reporting():
            session = self._open()
            if session.look() is not None:
                return self._answered(session, executed.query.statement)
            raise session.pending_statement(executed.query.statement)

    def _expected_error(self, executed: Executed) -> Mapping[str, tuple[float, ...]]:
        with self._lock, reporting():
            session = self._open()
            if isinstance(executed, Pending) and session.look() is None:
                return session.expected_error(executed.query)
            return self._with_rows(executed).rmse

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
