"""The sandbox: a locked DuckDB that holds declared types and values only.

It reads statements, says what a statement returns (by running it over an empty table of
the declared types), and runs expressions over declared values.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import duckdb

from sqlmadp.errors import SqlError
from sqlmadp.sql.limits import DEFAULT, Limits, advice
from sqlmadp.sql.locked import load_public, locked_connection, quote
from sqlmadp.sql.names import stored_name
from sqlmadp.sql.read import Reader, Reading, place_of
from sqlmadp.sql.statements import Span, Statement, characters
from sqlmadp.sql.stopwatch import interrupted
from sqlmadp.table.domain import Domain

ResultColumns = tuple[tuple[str, str], ...]
"""Name and DuckDB type of every result column."""


class Sandbox:
    """A locked DuckDB connection with an empty table of the declared types."""

    def __init__(self, domain: Domain, limits: Limits = DEFAULT) -> None:
        self._connection = locked_connection(limits.sql_memory)
        types = {column.name.casefold(): column.sql_type for column in domain.columns}
        self._reader = Reader(self._connection, limits, types)
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
        try:  # Running it over the empty table tells where the mistake stands.
            self._connection.execute(sql).fetchall()
        except duckdb.Error as error:
            message, place = explain(error)
            same = place is not None and sql == statement.text
            span = characters(sql, place) if same and place is not None else None
            hint = (
                "Add it to GROUP BY, or count or sum it."
                if "GROUP BY clause" in message
                else "DuckDB refuses this statement itself, whatever the table holds."
            )
            raise statement.refuse("duckdb", message, hint=hint, span=span) from None
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
