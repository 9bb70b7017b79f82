"""A locked DuckDB: in memory, without any way to files, networks, extensions or this program.

It never spills: what does not fit its memory fails, and nothing is written to any directory.
Statements are bound in one (``sandbox``), and what runs around the counts runs in another, over
released answers (``answer.rows``).
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from sqlmadp.sql.limits import DEFAULT
from sqlmadp.table.domain import PublicTable

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


def quote(name: str) -> str:
    """Return a name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
