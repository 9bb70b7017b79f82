"""Cursors: execute a statement, then fetch its rows once the release has been made.

Rows are answers with noise, so each count has an expected error: ``expected_error`` has it
by column and row, before the release too, since planning reads no data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from sqlmadp.answer.result import Result, TextTable, number
from sqlmadp.bind.bind import BoundQuery
from sqlmadp.errors import Error, InterfaceError, NotSupportedError, Warning
from sqlmadp.sql.statements import Parameters

if TYPE_CHECKING:
    from sqlmadp.dbapi.connection import Connection


@dataclass(frozen=True, eq=False)
class Answered:
    """A statement with its rows."""

    result: Result
    rmse: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """For every column that is an answer: the expected error of each row."""

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """Return name and DuckDB type of every column."""
        return self.result.columns

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the rows."""
        return self.result.notes


@dataclass(frozen=True, eq=False)
class Pending:
    """A statement that was checked before the release, so that it has no rows yet."""

    query: BoundQuery

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """Return name and DuckDB type of every column."""
        return self.query.columns

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on what is most likely a slip in the statement."""
        return tuple(map(str, self.query.notes))

    def table(self, errors: Mapping[str, tuple[float, ...]]) -> TextTable:
        """Return a table of what is known before the release: columns, types, expected errors."""
        rows = [(name, kind, _range(errors.get(name, ()))) for name, kind in self.columns]
        headers = [("column", False), ("type", False), ("expected ±", True)]
        return TextTable.whole(headers, rows)


Executed = Answered | Pending


def _range(errors: tuple[float, ...]) -> str:
    if not errors:
        return ""
    low, high = number(min(errors)), number(max(errors))
    return low if low == high else f"{low} to {high}"


Row = tuple[Any, ...]
Described = tuple[str, str, None, None, int | None, int | None, None]
"""Name, type code, display size, internal size, precision, scale, whether NULL is possible."""


class Cursor:
    """A cursor of PEP 249.  Belongs to one thread at a time."""

    arraysize = 1
    """Rows that ``fetchmany`` returns unless a number is given."""
    lastrowid = None
    """Always None: nothing is ever inserted."""

    def __init__(self, connection: Connection) -> None:
        """Make a cursor; use ``Connection.cursor``."""
        self.connection = connection
        self.messages: list[tuple[type[Exception], Exception]] = []
        """Notes on the last statement, such as a value that it names and no schema declares.

        Before the release the last note on a SELECT says that it is staged, and what hands it in.
        """
        self._sets: list[Executed] | None = []
        self._set = 0
        self._next_row = 0

    def execute(self, operation: str, parameters: Parameters | None = None) -> Cursor:
        """Answer a statement, or stage it before the release; return this cursor.

        ``HAND IN SELECT ...`` hands it in, and the rows are all that was handed in.
        """
        return self._run([(operation, parameters)])

    def executemany(self, operation: str, seq_of_parameters: Iterable[Parameters]) -> Cursor:
        """Do so once for each set of parameters; ``nextset`` moves from result to result.

        Before the release all of them are staged or, if one is refused, none.  So it is with HAND
        IN, and there is one result.
        """
        return self._run([(operation, parameters) for parameters in seq_of_parameters])

    def _run(self, operations: Sequence[tuple[str, Parameters | None]]) -> Cursor:
        self._open()
        self._reset([])
        self._reset(self.connection._execute(operations))
        self.messages = [
            (Warning, Warning(note)) for executed in self._open() for note in self._notes(executed)
        ]
        return self

    def _notes(self, executed: Executed) -> tuple[str, ...]:
        if isinstance(executed, Answered):
            return executed.notes
        return *executed.notes, self.connection._standing(executed)

    def _reset(self, sets: list[Executed]) -> None:
        self._sets, self._set, self._next_row = sets, 0, 0

    @property
    def description(self) -> tuple[Described, ...] | None:
        """Return name and type of every column; None before anything was executed."""
        if not self._sets:
            return None
        return tuple(_described(*column) for column in self._sets[self._set].columns)

    @property
    def rowcount(self) -> int:
        """Return the number of rows; -1 before the release and before anything was executed."""
        executed = self._sets[self._set] if self._sets else None
        return len(executed.result) if isinstance(executed, Answered) else -1

    @property
    def rownumber(self) -> int | None:
        """Return the number of the next row, from 0; None if there are no rows to number."""
        return None if self.rowcount < 0 else self._next_row

    @property
    def result(self) -> Result:
        """Return all rows at once: as tuples, DuckDB relation, Arrow, pandas or polars."""
        executed = self.connection._with_rows(self._executed())
        if self._sets:
            self._sets[self._set] = executed
        return executed.result

    @property
    def expected_error(self) -> Mapping[str, tuple[float, ...]]:
        """Return the expected error (RMSE) of every count, by column and then by row.

        Before the release the rows are all groups, in order, since HAVING, ORDER BY and LIMIT
        depend on answers; the error is the one that a release made now would have.
        """
        return self.connection._expected_error(self._executed())

    def fetchone(self) -> Row | None:
        """Return the next row, or None after the last."""
        rows = self._take(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """Return the next ``size`` rows (``arraysize`` if not given), or those that are left."""
        size = self.arraysize if size is None else size
        if size < 0:
            raise InterfaceError(f"the number of rows to fetch cannot be {size}")
        return self._take(size)

    def fetchall(self) -> list[Row]:
        """Return the rows that are left."""
        return self._take(None)

    def _take(self, size: int | None) -> list[Row]:
        rows = self.result.rows
        start = self._next_row
        end = len(rows) if size is None else min(start + size, len(rows))
        self._next_row = max(start, end)
        return list(rows[start:end])

    def __iter__(self) -> Cursor:
        return self

    def __next__(self) -> Row:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def scroll(self, value: int, mode: str = "relative") -> None:
        """Move to another row, by a number of rows or ("absolute") to the row of that number."""
        if mode not in {"relative", "absolute"}:
            raise InterfaceError(f"a mode is 'relative' or 'absolute', not {mode!r}")
        size = len(self.result)
        target = value + self._next_row if mode == "relative" else value
        if not 0 <= target <= size:
            raise IndexError(f"row {target} does not exist: there are {size}")
        self._next_row = target

    def nextset(self) -> bool | None:
        """Move to the next result of ``executemany``; None if there is none."""
        self._executed()
        if self._sets is None or self._set + 1 >= len(self._sets):
            return None
        self._set, self._next_row = self._set + 1, 0
        return True

    def callproc(self, procname: str, *_: object) -> NoReturn:
        """Raise NotSupportedError: there are no stored procedures."""
        self._open()
        raise NotSupportedError(f"there are no stored procedures, so none is called {procname!r}")

    def setinputsizes(self, sizes: Sequence[object]) -> None:
        """Do nothing, as PEP 249 allows."""
        self._open()

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Do nothing, as PEP 249 allows."""
        self._open()

    def close(self) -> None:
        """Close the cursor; closing it again does nothing."""
        self._sets = None

    def __enter__(self) -> Cursor:
        self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._sets is None:
            return "<closed cursor>"
        if not self._sets:
            return "<cursor>"
        executed = self._sets[self._set]
        if isinstance(executed, Answered):
            return repr(executed.result)
        names = ", ".join(name for name, _ in executed.columns)
        return f"<cursor: {names}; the release is pending>"

    def __str__(self) -> str:
        if not self._sets or not isinstance(executed := self._sets[self._set], Pending):
            return repr(self)
        try:
            standing = self.connection._standing(executed)
            table = executed.table(self.expected_error).text()
        except InterfaceError:  # The connection is closed.
            return repr(self)
        except Error as error:
            table = str(error)
        return f"{table}\n\nThe release is pending. {standing}"

    def _repr_html_(self) -> str | None:
        """Return the small table that notebooks show."""
        if not self._sets:
            return None
        executed = self._sets[self._set]
        if isinstance(executed, Answered):
            return executed.result._repr_html_()
        try:
            table = executed.table(self.expected_error).html()
            standing = escape(self.connection._standing(executed))
        except Error:
            return None
        return f"{table}<p>The release is pending. {standing}</p>"

    def _executed(self) -> Executed:
        """Return the current result set."""
        sets = self._open()
        if not sets:
            raise InterfaceError("nothing was executed on this cursor, so there are no rows")
        return sets[self._set]

    def _open(self) -> list[Executed]:
        if self._sets is None:
            raise InterfaceError("the cursor is closed; make another one")
        self.connection._open()
        return self._sets


def _described(name: str, kind: str) -> Described:
    precision: int | None = None
    scale: int | None = None
    if kind.startswith("DECIMAL("):
        precision, scale = (int(part) for part in kind[8:-1].split(","))
    return (name, kind, None, None, precision, scale, None)
