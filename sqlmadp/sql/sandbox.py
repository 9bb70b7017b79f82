"""The sandbox: a locked-down, in-memory DuckDB that holds declared types and values only.

It parses statements, says what a statement returns (by running it over an empty table of
the declared types), prints syntax trees as text, and runs expressions over declared
values.  It has no way to files, networks, extensions or the variables of this program.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import duckdb

from sqlmadp.errors import SqlError
from sqlmadp.schema.domain import Domain
from sqlmadp.sql.statements import Span, Statement
from sqlmadp.sql.syntax import Node, bare, fingerprint, select, unaliased

MAX_DEPTH = 100
"""How deep an expression may nest, which bounds every recursion over it."""

SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    "preserve_insertion_order": True,
    "threads": 1,
    "memory_limit": "1GB",
    # More than MAX_DEPTH, since printing an expression adds parentheses.
    "max_expression_depth": 1000,
    "errors_as_json": True,
}

ResultColumns = tuple[tuple[str, str], ...]
"""Name and DuckDB type of every result column."""


class UnfaithfulError(Exception):
    """DuckDB reads an expression differently after printing it."""


class Sandbox:
    """A locked DuckDB connection with an empty table of the declared types."""

    def __init__(self, domain: Domain) -> None:
        self._connection = duckdb.connect(":memory:", config=SETTINGS)
        # The two last doors: TIMESTAMPTZ arithmetic would follow the machine's time zone,
        # and a statement must not change what the lines above have set.
        self._connection.execute("SET TimeZone = 'UTC'")
        self._connection.execute("SET lock_configuration = true")
        columns = ", ".join(f"{quote(c.name)} {c.sql_type}" for c in domain.columns)
        self._connection.execute(f"CREATE TABLE {quote(domain.table)} ({columns})")
        self._trees: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        self._block: tuple[str, ...] | None = None

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> duckdb.DuckDBPyConnection:
        """Run SQL of our own making; the caller fetches the result to its end."""
        return self._connection.execute(sql, list(parameters))

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
        wanted = sorted(set(texts) - self._trees.keys())
        if not wanted:
            return
        rows = self._connection.execute(
            "SELECT text, json_serialize_sql(text) FROM (SELECT unnest(?::VARCHAR[]) AS text)",
            [wanted],
        ).fetchall()
        self._trees.update(rows)

    def parse(self, statement: Statement) -> Node:
        """Return the SELECT of a statement as DuckDB's syntax tree."""
        self.read_ahead([statement.text])
        try:
            tree = json.loads(self._trees.pop(statement.text))
        except RecursionError:
            raise _too_deep(statement) from None
        if tree["error"]:
            raise _syntax_error(statement, tree)
        if len(tree["statements"]) != 1:
            raise statement.refuse("syntax", "exactly one statement was expected here")
        if tree["statements"][0]["named_param_map"]:
            raise statement.refuse(
                "parameter",
                "bind parameters are not supported",
                hint="Write the value into the statement.",
            )
        node: Node = tree["statements"][0]["node"]
        if _depth(node) > MAX_DEPTH:
            raise _too_deep(statement)
        return node

    def describe(self, statement: Statement) -> ResultColumns:
        """Return the result columns of a checked statement, or DuckDB's reason to refuse it."""
        try:
            return self._describe(statement.text)
        except duckdb.Error as error:
            message, span = explain(error)
            raise statement.refuse("duckdb", message, span=span) from None

    def describe_outer(self, sql: str, block: Iterable[tuple[str, str]]) -> tuple[str, ...]:
        """Return the types of ``sql`` over a table ``__block`` with the given columns."""
        columns = tuple(f"{name} {kind}" for name, kind in block)
        if columns != self._block:
            # A table needs a column, even for a statement that reads none of them.
            listed = ", ".join(columns or ("__nothing INTEGER",))
            self._connection.execute(f"CREATE OR REPLACE TABLE __block ({listed})")
            self._block = columns
        return tuple(kind for _, kind in self._describe(sql))

    def _describe(self, sql: str) -> ResultColumns:
        result = self._connection.execute(sql)
        described = result.description or ()
        columns = tuple((str(name), storable(str(kind))) for name, kind, *_ in described)
        result.fetchall()
        return columns

    def print_ahead(self, selects: Iterable[Node]) -> None:
        """Print many SELECTs at once, keeping those that DuckDB reads back as they were."""
        wanted = {fingerprint(node): node for node in selects}
        missing = {key: node for key, node in wanted.items() if key not in self._texts}
        trees = [
            json.dumps({"error": False, "statements": [{"node": node, "named_param_map": []}]})
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
        for (key, node), (text, again) in zip(missing.items(), rows, strict=True):
            tree = json.loads(again)
            if not tree["error"] and bare(tree["statements"][0]["node"]) == bare(node):
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


def quote(name: str) -> str:
    """Return a name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


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


def _depth(tree: Any) -> int:
    """Return how many expressions stand inside each other, without recursion."""
    deepest, pending = 0, [(tree, 0)]
    while pending:
        part, depth = pending.pop()
        if isinstance(part, dict):
            depth += "class" in part
            deepest = max(deepest, depth)
            pending.extend((value, depth) for value in part.values())
        elif isinstance(part, list):
            pending.extend((value, depth) for value in part)
    return deepest


def _too_deep(statement: Statement) -> SqlError:
    return statement.refuse(
        "too-deep",
        f"the statement nests expressions deeper than {MAX_DEPTH} levels",
        hint="Use IN for long lists of values, and AND or OR, which do not nest.",
    )


def _syntax_error(statement: Statement, tree: dict[str, Any]) -> SqlError:
    message = str(tree["error_message"])
    if "expression depth" in message:
        return _too_deep(statement)
    if tree["error_type"] == "not implemented":
        return statement.refuse(
            "not-a-select",
            "only SELECT statements are answered",
            hint="Ask for counts: SELECT COUNT(*) FROM ... WHERE ...",
        )
    return statement.refuse("syntax", message, span=_place(tree))
