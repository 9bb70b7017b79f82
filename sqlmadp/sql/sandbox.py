"""The sandbox: a locked DuckDB that holds declared types and values only.

It parses statements, says what a statement returns (by running it over an empty table of
the declared types), prints syntax trees as text, and runs expressions over declared
values.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import duckdb
import msgspec

from sqlmadp.errors import SqlError
from sqlmadp.schema.domain import Domain
from sqlmadp.sql.limits import DEFAULT, Limits, advice
from sqlmadp.sql.locked import load_public, locked_connection, quote
from sqlmadp.sql.records import stored_name
from sqlmadp.sql.statements import Span, Statement
from sqlmadp.sql.stopwatch import interrupted
from sqlmadp.sql.syntax import Node, fingerprint, select, unaliased

ResultColumns = tuple[tuple[str, str], ...]
"""Name and DuckDB type of every result column."""


class UnfaithfulError(Exception):
    """DuckDB reads an expression differently after printing it."""


class Sandbox:
    """A locked DuckDB connection with an empty table of the declared types."""

    def __init__(self, domain: Domain, limits: Limits = DEFAULT) -> None:
        self._limits = limits
        self._connection = locked_connection()
        columns = ", ".join(f"{quote(c.name)} {c.sql_type}" for c in domain.columns)
        self._connection.execute(f"CREATE TABLE {quote(domain.table)} ({columns})")
        for number, public in enumerate(domain.public):
            load_public(self._connection, public, public.name, [c for c, _ in public.columns])
            generic = [f"__p{place}" for place in range(len(public.columns))]
            load_public(self._connection, public, stored_name(number), generic)
        self._trees: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        self._tables: dict[str, tuple[str, ...]] = {}
        self._types: dict[str, str] = {}

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> duckdb.DuckDBPyConnection:
        """Run SQL of our own making; the caller fetches the result to its end."""
        return self._connection.execute(sql, list(parameters))

    def fetch(self, sql: str, seconds: float) -> dict[str, Any]:
        """Run SQL of our own making within ``seconds`` of CPU time, and fetch it as arrays."""
        with interrupted(self._connection, seconds):
            fetched: dict[str, Any] = self._connection.execute(sql).fetchnumpy()
            return fetched

    @cached_property
    def functions(self) -> dict[str, tuple[str, str]]:
        """Return the type and stability of every function that DuckDB knows."""
        rows = self._connection.execute(
            "SELECT lower(function_name), min(function_type), coalesce(max(stability), '') "
            "FROM duckdb_functions() GROUP BY ALL"
        ).fetchall()
        return {name: (kind, stability) for name, kind, stability in rows}

    def read_ahead(self, texts: Iterable[str]) -> None:
        """Parse many statements at once, which is faster than one by one."""
        wanted = sorted(t for t in set(texts) - self._trees.keys() if not self._is_too_large(t))
        if not wanted:
            return
        rows = self._connection.execute(
            "SELECT text, json_serialize_sql(text) FROM (SELECT unnest(?::VARCHAR[]) AS text)",
            [wanted],
        ).fetchall()
        self._trees.update(rows)

    def _is_too_large(self, text: str) -> bool:
        """Return whether a text has too many tokens to be parsed in reasonable time."""
        # Nearly all texts have fewer characters than that.
        return len(text) > self._limits.parts < len(duckdb.tokenize(text))

    def parse(self, statement: Statement) -> Node:
        """Return the SELECT of a statement as DuckDB's syntax tree."""
        if self._is_too_large(statement.text):
            raise statement.refuse(
                "too-large",
                f"the statement has more than {self._limits.parts:,} parts",
                hint=advice("parts"),
                span=(0, 1),
            )
        self.read_ahead([statement.text])
        try:
            tree = msgspec.json.decode(self._trees.pop(statement.text))
        except RecursionError:
            raise _too_deep(statement, self._limits) from None
        if tree["error"]:
            raise _syntax_error(statement, tree, self._limits)
        if len(tree["statements"]) != 1:
            raise statement.refuse("syntax", "exactly one statement was expected here")
        if parameters := tree["statements"][0]["named_param_map"]:
            names = ", ".join(f"${parameter['key']}" for parameter in parameters)
            raise statement.refuse(
                "parameter",
                f"no value is given for {names}",
                hint="Give values in the plan, under [analysts.NAME.parameters], or in Python.",
            )
        node: Node = tree["statements"][0]["node"]
        self._check_size(node, statement)
        return node

    def _check_size(self, node: Node, statement: Statement) -> None:
        depth, widest = _extent(node)
        if depth > self._limits.nesting:
            raise _too_deep(statement, self._limits)
        if widest > self._limits.in_list:
            raise statement.refuse(
                "in-list",
                f"a list of the statement has {widest:,} values or terms; "
                f"at most {self._limits.in_list:,} are supported",
                hint=f"Use ranges, or join a public table. {advice('in_list')}",
            )

    def describe(self, statement: Statement) -> ResultColumns:
        """Return the result columns of a checked statement, or DuckDB's reason to refuse it."""
        try:
            return self._describe(statement.text)
        except duckdb.Error:
            pass
        try:  # Running it over the empty table tells where the mistake stands.
            self._connection.execute(statement.text).fetchall()
        except duckdb.Error as error:
            message, span = explain(error)
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

    def print_ahead(self, selects: Iterable[Node]) -> None:
        """Print many SELECTs at once, keeping those that DuckDB reads back as they were."""
        wanted = {fingerprint(node): node for node in selects}
        missing = {key: node for key, node in wanted.items() if key not in self._texts}
        trees = [
            msgspec.json.encode(
                {"error": False, "statements": [{"node": node, "named_param_map": []}]}
            ).decode()
            for node in missing.values()
        ]
        if not trees:
            return
        try:
            rows = self._connection.execute(
                "SELECT text, json_serialize_sql(text) FROM (SELECT json_deserialize_sql("
                "tree::JSON) AS text FROM (SELECT unnest(?::VARCHAR[]) AS tree))",
                [trees],
            ).fetchall()
        except duckdb.Error:
            return  # One of them cannot be printed; ``print`` will tell which.
        for key, (text, again) in zip(missing, rows, strict=True):
            tree = msgspec.json.decode(again)
            if not tree["error"] and fingerprint(tree["statements"][0]["node"]) == key:
                self._texts[key] = text

    def print(self, node: Node) -> str:
        """Return a SELECT as text."""
        key = fingerprint(node)
        if key not in self._texts:
            self.print_ahead([node])
        if key not in self._texts:
            raise UnfaithfulError
        return self._texts[key]

    def print_expression(self, node: Node) -> str:
        """Return an expression as text."""
        return self.print(select([unaliased(node)])).removeprefix("SELECT ")


def storable(kind: str) -> str:
    """Return a type that a table can have: a bare NULL is stored as an INTEGER, as DuckDB does."""
    return "INTEGER" if kind == '"NULL"' else kind


def explain(error: duckdb.Error) -> tuple[str, Span | None]:
    """Return DuckDB's message, on one line, and the place it speaks of."""
    kind, _, body = str(error).partition(": ")
    try:
        details = json.loads(body)
    except ValueError:
        return f"DuckDB says: {str(error).splitlines()[0]}", None
    # The further lines are candidate functions and advice that does not hold here.
    message = str(details.get("exception_message", "")).partition("\n")[0]
    return f"DuckDB says: {kind}: {message}", _place(details)


def _place(details: dict[str, Any]) -> Span | None:
    if "location" in details:
        start, length = json.loads(details["location"])
        return int(start), int(length)
    return (int(details["position"]), 1) if "position" in details else None


def _extent(tree: Any) -> tuple[int, int]:
    """Return how many expressions stand inside each other, and the longest list of them."""
    deepest, widest, pending = 0, 0, [(tree, 0)]
    while pending:
        part, depth = pending.pop()
        if isinstance(part, dict):
            depth += "class" in part or "cte_map" in part
            deepest = max(deepest, depth)
            pending.extend((value, depth) for value in part.values())
        elif isinstance(part, list):
            widest = max(widest, len(part))
            pending.extend((value, depth) for value in part)
    return deepest, widest


def _too_deep(statement: Statement, limits: Limits) -> SqlError:
    return statement.refuse(
        "too-deep",
        f"the statement nests expressions deeper than {limits.nesting} levels",
        hint="Use IN for long lists of values, and AND or OR, which do not nest. "
        + advice("nesting"),
    )


def _syntax_error(statement: Statement, tree: dict[str, Any], limits: Limits) -> SqlError:
    message = str(tree["error_message"])
    if "expression depth" in message:
        return _too_deep(statement, limits)
    if tree["error_type"] == "not implemented":
        return statement.refuse(
            "not-a-select",
            "only SELECT statements are answered",
            hint="Ask for counts: SELECT COUNT(*) FROM ... WHERE ...",
        )
    return statement.refuse("syntax", message, span=_place(tree))
