"""The sandbox: a locked DuckDB that holds declared types and values only.

It is in memory, without any way to files, networks, extensions or this program, and it never
spills: what does not fit its memory fails, and nothing is written to any directory.  It reads
statements, says what a statement returns (by running it over an empty table of the declared types),
and runs expressions over declared values.  What runs around the counts runs in another locked one,
over released answers (``answer.rows``).

What takes too long is interrupted after some seconds of CPU time of the thread that asked, not time
on the clock, so that a busy machine refuses nothing that an idle one accepts.  DuckDB notices an
interruption between batches of rows; ``limits`` keeps single calls short.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import duckdb

from sqlmadp.errors import OperationalError, SqlError
from sqlmadp.sql.limits import DEFAULT, Limits, advice
from sqlmadp.sql.names import stored_name
from sqlmadp.sql.read import Reader, Reading, place_of
from sqlmadp.sql.statements import Statement, characters
from sqlmadp.sql.tree import Span, quote
from sqlmadp.table.domain import Domain, PublicTable


class TooSlowError(Exception):
    """Something took longer than the limits allow."""


@contextmanager
def interrupted(connection: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    """Interrupt what runs on a connection after ``seconds`` of CPU time, as TooSlowError."""
    done, clock = threading.Event(), _clock()
    end = clock() + seconds

    def watch() -> None:
        while (left := end - clock()) > 0:
            if done.wait(max(left, 0.01)):
                return
        connection.interrupt()

    watcher = threading.Thread(target=watch, daemon=True)
    try:
        watcher.start()
    except RuntimeError:
        raise OperationalError(
            "this machine starts no more threads, and one is needed to end what takes too long. "
            "Run it again when less is running: a release that was recorded returns the same "
            "answers and spends nothing"
        ) from None
    try:
        yield
    except duckdb.InterruptException:
        raise TooSlowError from None
    finally:
        done.set()
        watcher.join()


def _clock() -> Callable[[], float]:
    """Return a clock of this thread's CPU time that other threads can read.

    It is the process's CPU time where there is no such clock.
    """
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.process_time
    number = time.pthread_getcpuclockid(threading.get_ident())
    return lambda: time.clock_gettime(number)


SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    "preserve_insertion_order": True,
    "threads": 1,
    # DuckDB would write what does not fit its memory into a directory where the program runs.
    "temp_directory": "",
    "max_temp_directory_size": "0MB",
    # More than any limit of nesting, since printing an expression adds parentheses.
    "max_expression_depth": 1000,
    "errors_as_json": True,
}

MACROS = (
    # Standard SQL's, which DuckDB does not have; worked out as PostgreSQL does.
    "CREATE MACRO width_bucket(x, low, high, buckets) AS CASE "
    "WHEN (low < high AND x < low) OR (low > high AND x > low) THEN 0::BIGINT "
    "WHEN (low < high AND x >= high) OR (low > high AND x <= high) THEN buckets::BIGINT + 1 "
    "ELSE CAST(floor(buckets * ((x - low) / (high - low))) AS BIGINT) + 1 END",
)
"""Functions that statements may use beside DuckDB's own."""


def locked_connection(megabytes: int = DEFAULT.sql_memory) -> duckdb.DuckDBPyConnection:
    """Return an empty in-memory DuckDB without any way out, which takes at most ``megabytes``."""
    limits = {"memory_limit": f"{megabytes}MiB"}
    connection = duckdb.connect(":memory:", config=SETTINGS | limits)
    for macro in MACROS:
        connection.execute(macro)
    # The two last doors: TIMESTAMPTZ arithmetic would follow the machine's time zone,
    # and a statement must not change what the lines above have set.
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET lock_configuration = true")
    return connection


def load_public(
    connection: duckdb.DuckDBPyConnection, public: PublicTable, name: str, columns: Sequence[str]
) -> None:
    """Make a public table under a name, with its columns under the given names."""
    kinds = [kind for _, kind in public.columns]
    listed = ", ".join(f"{quote(c)} {kind}" for c, kind in zip(columns, kinds, strict=True))
    connection.execute(f"CREATE OR REPLACE TABLE {quote(name)} ({listed})")
    if public.rows:
        unnested = ", ".join(f"unnest(?::{kind}[])" for kind in kinds)
        values = [list(column) for column in zip(*public.rows, strict=True)]
        connection.execute(f"INSERT INTO {quote(name)} SELECT {unnested}", values)


DUCKDB_HINTS = {
    "GROUP BY clause": "Add it to GROUP BY, or count or sum it.",
    "cannot contain aggregates": "Conditions on counts belong in HAVING.",
    "QUANTILE can only": "A quantile is a fraction between 0 and 1: that of the median is 0.5.",
    "No function matches": "It has no meaning for values of this type; CAST gives them another.",
    "out of range - should be": "The number is that of a result column, from the left.",
    "": "DuckDB refuses this statement itself, whatever the table holds.",
}
"""What to do about a message of DuckDB, by words in it; the first that fits counts."""

ResultColumns = tuple[tuple[str, str], ...]
"""Name and DuckDB type of every result column."""


class Sandbox:
    """A locked DuckDB connection with an empty table of the declared types."""

    def __init__(self, domain: Domain, limits: Limits = DEFAULT) -> None:
        self._connection = locked_connection(limits.sql_memory)
        self._reader = Reader(self._connection, limits, domain)
        columns = ", ".join(f"{quote(c.name)} {c.sql_type}" for c in domain.columns)
        self._connection.execute(f"CREATE TABLE {quote(domain.table)} ({columns})")
        for number, public in enumerate(domain.public):
            load_public(self._connection, public, public.name, [c for c, _ in public.columns])
            generic = [f"__p{place}" for place in range(len(public.columns))]
            load_public(self._connection, public, stored_name(number), generic)
        self._names: dict[str, str] = {}
        self._tables: dict[str, tuple[str, ...]] = {}
        self._types: dict[str, str] = {}

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> duckdb.DuckDBPyConnection:
        """Run SQL of our own making; the caller fetches the result to its end."""
        return self._connection.execute(sql, list(parameters))

    def fetch(self, sql: str, seconds: float, parameters: Sequence[Any] = ()) -> dict[str, Any]:
        """Run SQL of our own making within ``seconds`` of CPU time, and fetch it as arrays."""
        with interrupted(self._connection, seconds):
            fetched: dict[str, Any] = self.execute(sql, parameters).fetchnumpy()
            return fetched

    @cached_property
    def functions(self) -> dict[str, tuple[str, str]]:
        """Return the type and stability of every function that DuckDB knows."""
        rows = self._connection.execute(
            "SELECT lower(function_name), min(function_type), coalesce(max(stability), '') "
            "FROM duckdb_functions() GROUP BY ALL"
        ).fetchall()
        return {name: (kind, stability) for name, kind, stability in rows}

    def read(self, statements: Iterable[Statement]) -> list[Reading | SqlError]:
        """Return every statement as it was read, or why it cannot be."""
        return self._reader.read(statements)

    def name_of(self, expression: str) -> str:
        """Return the name that DuckDB gives to a result column without an alias."""
        if expression not in self._names:
            try:
                ((text,),) = self._connection.execute(
                    "SELECT json_deserialize_sql(json_serialize_sql(?))", [f"SELECT {expression}"]
                ).fetchall()
            except duckdb.Error:  # A construct that DuckDB cannot write has no name to call it by.
                text = expression
            self._names[expression] = str(text).removeprefix("SELECT ")
        return self._names[expression]

    def describe(self, statement: Statement, sql: str) -> ResultColumns:
        """Return the result columns of a checked statement, or DuckDB's reason to refuse it.

        ``sql`` is the statement in DuckDB's dialect.
        """
        try:
            return self._describe(sql)
        except duckdb.Error:
            pass
        try:  # Running it over the empty table gives the mistake's place.
            self._connection.execute(sql).fetchall()
        except duckdb.Error as error:
            message, place = explain(error)
            same = place is not None and sql == statement.text
            span = characters(sql, place) if same and place is not None else None
            known = (hint for words, hint in DUCKDB_HINTS.items() if words in message)
            raise statement.refuse("duckdb", message, hint=next(known), span=span) from None
        raise statement.refuse("duckdb", "DuckDB cannot say what this statement returns")

    def describe_outer(
        self, sql: str, tables: Mapping[str, Iterable[tuple[str, str]]]
    ) -> tuple[str, ...]:
        """Return the types of ``sql`` over tables with the given columns."""
        for name, block in tables.items():
            columns = tuple(f"{column} {kind}" for column, kind in block)
            if columns != self._tables.get(name):
                # A table needs a column, even for a statement that reads none of them.
                listed = ", ".join(columns or ("__nothing INTEGER",))
                self._connection.execute(f"CREATE OR REPLACE TABLE {name} ({listed})")
                self._tables[name] = columns
        return self.types(sql)

    def types(self, sql: str) -> tuple[str, ...]:
        """Return the types that a SELECT returns, without running it."""
        return tuple(kind for _, kind in self._describe(sql))

    def type_of(self, sql: str) -> str:
        """Return the type of a SELECT's only column, and remember it."""
        if sql not in self._types:
            self._types[sql] = self.types(sql)[0]
        return self._types[sql]

    def _describe(self, sql: str) -> ResultColumns:
        described = self._connection.sql(sql).description
        return tuple((str(name), storable(str(kind))) for name, kind, *_ in described)


def storable(kind: str) -> str:
    """Return a type that a table can have: a bare NULL is stored as an INTEGER, as DuckDB does."""
    return "INTEGER" if kind == '"NULL"' else kind


def explain(error: duckdb.Error) -> tuple[str, Span | None]:
    """Return DuckDB's message, on one line, and the place it speaks of, in bytes."""
    if isinstance(error, duckdb.OutOfMemoryException):
        # DuckDB would advise settings that nobody can change here.
        return f"it takes more memory than is allowed. {advice('sql_memory')}", None
    kind, _, body = str(error).partition(": ")
    try:
        details = json.loads(body)
    except ValueError:
        return f"DuckDB says: {str(error).splitlines()[0]}", None
    # The further lines are candidate functions and advice that does not hold here.
    message = str(details.get("exception_message", "")).partition("\n")[0]
    return f"DuckDB says: {kind}: {message}", place_of(details)
