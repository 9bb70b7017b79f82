"""PostgreSQL: one table of a server, counted in one read-only transaction.

Everything happens in one transaction, repeatable read and read-only, so that all scopes are
counted on one state of the table and nothing is ever written.  A table whose records are
chosen or computed by somebody's expression (a view, row-level security, a column that is
generated when it is read) is refused: such an expression may fail on a record.

Credentials come from the URL, or from libpq's own environment variables and files.  No
message holds any of them: what libpq says of a connection is quoted only where it does not.

Guarantee  The transaction reads; its statements take at most `STATEMENT_TIMEOUT`, which
           depends on nothing.  No credential is in `location`, `identity` or a message.
Requires   psycopg 3; a server that counts correctly.
Numerics   A numeric is compared as the nearest 64-bit floating-point number.  The server's own
           cast fails on numbers that are too large or too small for one, so these are
           replaced before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sqlmadp.errors import SourceError
from sqlmadp.private.engines import (
    Constraints,
    Engine,
    Identity,
    Source,
    SourceColumn,
    kind_of,
    no_table,
    quietly,
)

try:
    import psycopg
    from psycopg import conninfo
except ImportError:
    raise SourceError(
        "a postgresql:// source needs psycopg 3, which is not installed: "
        "pip install 'sqlmadp[postgres]'"
    ) from None

STATEMENT_TIMEOUT = "1h"
"""The same for every statement, so that it says nothing about the table but its size."""
CONNECT_TIMEOUT = 30

_SETTINGS = {
    "statement_timeout": STATEMENT_TIMEOUT,
    "lock_timeout": STATEMENT_TIMEOUT,
    "search_path": "pg_catalog",
    "standard_conforming_strings": "on",
    "row_security": "off",  # Rather an error, always, than records left out.
    "DateStyle": "ISO",
    "TimeZone": "UTC",  # The day of a timestamptz is that in UTC.
    # Cells are fewer than the server expects of expressions, so it would sort all records.
    "enable_sort": "off",
    # For the same reason it would not even read the table in parallel.
    "parallel_setup_cost": "0",
    "parallel_tuple_cost": "0",
    "work_mem": "64MB",
}

_FIND = """
SELECT c.oid, n.nspname, c.relname, row_security_active(c.oid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND lower(c.relname) = lower(%s)
    AND lower(n.nspname) = lower(coalesce(nullif(%s, ''), 'public'))
    AND has_any_column_privilege(c.oid, 'SELECT')
"""

# A domain is read as the type under it; what is neither a base type nor an enumeration is other.
_COLUMNS = """
WITH RECURSIVE under AS (
    SELECT attnum, attname, attgenerated, atttypid AS type, atttypmod AS modifier,
        attnotnull AS required
    FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped
    UNION ALL
    SELECT attnum, attname, attgenerated, typbasetype, typtypmod, required OR typnotnull
    FROM under JOIN pg_type t ON t.oid = type WHERE typtype = 'd'
)
SELECT attname, CASE typtype WHEN 'e' THEN 'text' WHEN 'b' THEN typname ELSE 'other' END,
    format_type(type, modifier), attgenerated = 'v', NOT required,
    CASE typtype WHEN 'e' THEN ARRAY(
        SELECT enumlabel::text FROM pg_enum WHERE enumtypid = type ORDER BY enumsortorder
    ) END
FROM under JOIN pg_type t ON t.oid = type WHERE typtype <> 'd' ORDER BY attnum
"""

# A table holds the records of its partitions, and of what inherits from it.
_RELATED = """
WITH RECURSIVE above AS (
    SELECT inhparent AS oid FROM pg_inherits WHERE inhrelid = %(oid)s
    UNION SELECT inhparent FROM pg_inherits JOIN above ON inhrelid = above.oid
), below AS (
    SELECT inhrelid AS oid FROM pg_inherits WHERE inhparent = %(oid)s
    UNION SELECT inhrelid FROM pg_inherits JOIN below ON inhparent = below.oid
)
SELECT nspname, relname FROM (TABLE above UNION TABLE below) AS related
JOIN pg_class c ON c.oid = related.oid JOIN pg_namespace n ON n.oid = relnamespace
ORDER BY 1, 2
"""

# Only constraints that hold for every record.
_CONSTRAINTS = """
SELECT contype::text, pg_get_expr(conbin, conrelid), attname, confrelid::regclass::text
FROM pg_constraint LEFT JOIN pg_attribute
    ON attrelid = conrelid AND attnum = conkey[1] AND cardinality(conkey) = 1
WHERE conrelid = %(table)s AND convalidated AND contype IN ('c', 'f')
"""

Connection = psycopg.Connection[tuple[Any, ...]]


@dataclass(frozen=True, eq=False, kw_only=True)
class PostgresTable(Engine):
    """One table of a PostgreSQL server, in one transaction, which `close` ends."""

    connection: Connection

    def typed(self, column: SourceColumn, sql_type: str) -> exp.Expression:
        """Return a column's value to compare as ``sql_type``, NULL if it is none."""
        raw = exp.column(column.name, quoted=True)
        match sql_type:
            case "VARCHAR":
                # Blanks that pad CHAR(n) end with the cast; no other collation is in force.
                text = exp.cast(raw, "TEXT")
                return exp.Collate(this=text, expression=exp.to_identifier("C", quoted=True))
            case "BIGINT" if column.kind == "wide integer":
                return exp.Nullif(this=raw, expression=_numeric("NaN"))
            case "DOUBLE" if column.native.startswith("numeric"):
                return _nearest(raw)
            case "DATE" | "TIMESTAMP" if column.kind == "timestamp":
                return exp.cast(raw, sql_type)
            case "DOUBLE":
                return exp.cast(raw, "DOUBLE")
            case _:
                return raw

    def microseconds(self, moment: exp.Expression) -> exp.Expression:
        """Return how many microseconds after 1970 a timestamp is; EXTRACT gives a numeric."""
        seconds = exp.Extract(this=exp.var("EPOCH"), expression=moment)
        return exp.cast(exp.Mul(this=seconds, expression=exp.Literal.number(10**6)), "BIGINT")

    def wide(self, whole: exp.Expression) -> exp.Expression:
        """Return a 64-bit integer as a number of any size."""
        return exp.cast(whole, "DECIMAL")

    def counts(self, select: exp.Select) -> Mapping[str, NDArray[Any]]:
        """Run ``select`` and return its columns by name; NULLs are masked.  Private."""
        cursor = self.connection.execute(select.sql("postgres").encode())
        names = [column.name for column in cursor.description or ()]
        rows = cursor.fetchall()
        values = list(zip(*rows, strict=True)) if rows else [()] * len(names)
        return {name: _masked(column) for name, column in zip(names, values, strict=True)}


def open_table(source: Source, url: str, table: str) -> PostgresTable:
    """Open a table of the server that ``url`` names; ``table`` may name a schema too."""
    connection = _connected(source.shown, url)
    try:
        opened = quietly(
            lambda: _opened(source.shown, connection, table),
            f"source {source.shown!r} does not answer questions about its catalogue",
        )
    except BaseException:
        connection.close()
        raise
    return opened


def _opened(shown: str, connection: Connection, table: str) -> PostgresTable:
    _settle(connection)
    schema, _, name = table.rpartition(".")
    found = connection.execute(_FIND, [name, schema]).fetchall()
    if len(found) > 1:  # Names that differ only in case: one must be spelled exactly.
        found = [row for row in found if row[1:3] == (schema or "public", name)]
    if len(found) != 1:
        raise SourceError(no_table(shown, table))
    oid, schema, name, hidden = found[0]
    if hidden:
        raise SourceError(
            f"source {shown!r} has row-level security, which hides records of table {table!r} "
            "from this role; connect as a role that sees all of them"
        )
    place = f"postgresql:{_server(connection)}/{connection.info.dbname}/"
    related = connection.execute(_RELATED, {"oid": oid}).fetchall()
    return PostgresTable(
        location=shown,
        identity=Identity(
            table=f"{place}{schema}.{name}", related=tuple(f"{place}{s}.{n}" for s, n in related)
        ),
        relation=exp.table_(name, db=schema, quoted=True),
        columns=_columns(connection, oid),
        close=connection.close,
        connection=connection,
    )


def _connected(shown: str, url: str) -> Connection:
    try:
        given = conninfo.conninfo_to_dict(url)
        reason = ""
    except psycopg.Error:  # What it says may quote the URL.
        given, reason = {}, "its URL cannot be read; write special characters as %xx"
    if not reason:
        options: dict[str, Any] = {
            "connect_timeout": CONNECT_TIMEOUT,
            "application_name": "sqlmadp",
        }
        try:
            return psycopg.connect(**{**options, **given, "client_encoding": "utf8"})
        except psycopg.Error as error:
            reason = _harmless(str(error), given)
    raise SourceError(
        f"source {shown!r} cannot be reached: {reason}. Nothing was read or spent; the same "
        "command can be run again"
    )


def _harmless(said: str, given: Mapping[str, Any]) -> str:
    """Return libpq's reason in one line, unless a secret of the URL is part of it."""
    secrets = {str(value) for name, value in given.items() if "password" in name and value}
    if any(secret in said for secret in secrets):
        return "the server or libpq refused the connection"
    return " ".join(said.split()).rstrip(".")


def _settle(connection: Connection) -> None:
    connection.read_only = True
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    for name, value in _SETTINGS.items():
        # Inside the transaction, where a pool of connections allows it too.
        connection.execute("SELECT set_config(%s, %s, true)", [name, value])


def _server(connection: Connection) -> str:
    """Return an identifier of the server: one for all of its names, addresses and replicas."""
    row = connection.execute(
        "SELECT CASE WHEN has_function_privilege('pg_catalog.pg_control_system()', 'execute') "
        "THEN (SELECT system_identifier::text FROM pg_control_system()) END"
    ).fetchone()
    if row is not None and row[0] is not None:
        return str(row[0])
    return f"{connection.info.host.lower()}:{connection.info.port}"


def _columns(connection: Connection, oid: int) -> tuple[SourceColumn, ...]:
    """Return the columns of a table, with their constraints."""
    rows = connection.execute(_COLUMNS, [oid]).fetchall()
    constraints = connection.execute(_CONSTRAINTS, {"table": oid}).fetchall()
    checks = tuple(text for kind, text, *_ in constraints if kind == "c")
    keys = {name: other for kind, _, name, other in constraints if kind == "f" and name}
    return tuple(
        SourceColumn(
            name=name,
            # An expression in place of a stored value may fail on a record.
            kind="other" if virtual else kind_of(stored, native),
            native=f"{native}, generated when it is read" if virtual else native,
            constraints=Constraints(
                null=null,
                values=values and tuple(values),
                checks=checks,
                dialect="postgres",
                references=keys.get(name, ""),
            ),
        )
        for name, stored, native, virtual, null, values in rows
    )


def _numeric(text: str) -> exp.Expression:
    return exp.cast(exp.Literal.string(text), "NUMERIC")


def _nearest(value: exp.Expression) -> exp.Expression:
    """Return a numeric as the nearest floating-point number, without an error anywhere."""
    # The second is just above half of the smallest number, which the cast would call out of range.
    large, small = "1.797693134862315807e308", "2.4703282292062328e-324"
    absolute = exp.Abs(this=value.copy())
    return (
        exp.Case()
        .when(exp.EQ(this=value.copy(), expression=_numeric("NaN")), _real("NaN"))
        .when(exp.GTE(this=value.copy(), expression=_numeric(large)), _real("Infinity"))
        .when(exp.LTE(this=value.copy(), expression=_numeric(f"-{large}")), _real("-Infinity"))
        .when(exp.LTE(this=absolute, expression=_numeric(small)), _real("0"))
        .else_(exp.cast(value.copy(), "DOUBLE"))
    )


def _real(text: str) -> exp.Expression:
    return exp.cast(exp.Literal.string(text), "DOUBLE")


def _masked(values: Sequence[Any]) -> NDArray[Any]:
    """Return values as an array with NULLs masked; under the mask is the first value."""
    null = np.array([value is None for value in values], dtype=bool)
    known = next((value for value in values if value is not None), 0)
    kind = object if isinstance(known, str) else None
    filled = np.array([known if value is None else value for value in values], dtype=kind)
    return np.ma.MaskedArray(filled, mask=null)
