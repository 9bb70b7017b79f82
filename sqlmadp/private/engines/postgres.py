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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sqlmadp.errors import SourceError
from sqlmadp.private.engines import Constraints, Engine, Kind, Source, SourceColumn
from sqlmadp.private.engines.identity import Identity

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

_KINDS: dict[str, Kind] = {
    "bool": "boolean",
    "int2": "integer",
    "int4": "integer",
    "int8": "integer",
    "float4": "real",
    "float8": "real",
    "numeric": "real",
    "text": "text",
    "varchar": "text",
    "bpchar": "text",
    "citext": "text",
    "name": "text",
    "uuid": "text",
    "date": "date",
    "timestamp": "timestamp",
    "timestamptz": "timestamp",
}

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

# A domain stands for the type under it.
_COLUMNS = """
WITH RECURSIVE under AS (
    SELECT attnum, attname, attgenerated, atttypid AS type, atttypmod AS modifier,
        attnotnull AS required
    FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped
    UNION ALL
    SELECT attnum, attname, attgenerated, typbasetype, typtypmod, required OR typnotnull
    FROM under JOIN pg_type t ON t.oid = type WHERE typtype = 'd'
)
SELECT attname, CASE typtype WHEN 'e' THEN 'text' ELSE typname END,
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

Result = TypeVar("Result")


class PostgresTable(Engine):
    """One table of a PostgreSQL server, in one transaction."""

    def __init__(
        self,
        location: str,
        identity: Identity,
        relation: exp.Expression,
        columns: Sequence[SourceColumn],
        connection: psycopg.Connection[tuple[Any, ...]],
    ) -> None:
        super().__init__(location, identity, relation, columns)
        self._connection = connection

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
            case "DATE" if column.kind == "timestamp":
                return exp.cast(raw, "DATE")
            case "DOUBLE":
                return exp.cast(raw, "DOUBLE")
            case _:
                return raw

    def wide(self, whole: exp.Expression) -> exp.Expression:
        """Return a 64-bit integer as a number of any size."""
        return exp.cast(whole, "DECIMAL")

    def counts(self, select: exp.Select) -> Mapping[str, NDArray[Any]]:
        """Run ``select`` and return its columns by name; NULLs are masked.  Private."""
        cursor = self._connection.execute(select.sql("postgres").encode())
        names = [column.name for column in cursor.description or ()]
        rows = cursor.fetchall()
        values = list(zip(*rows, strict=True)) if rows else [()] * len(names)
        return {name: _masked(column) for name, column in zip(names, values, strict=True)}

    def close(self) -> None:
        """Close the connection, which ends the transaction."""
        self._connection.close()


def open_table(source: Source, url: str, table: str) -> PostgresTable:
    """Open a table of the server that ``url`` names; ``table`` may name a schema too."""
    connection = _connected(source.shown, url)
    try:
        _quiet(source.shown, lambda: _settle(connection))
        schema, _, name = table.rpartition(".")
        found = _quiet(source.shown, lambda: connection.execute(_FIND, [name, schema]).fetchall())
        if len(found) > 1:  # Names that differ only in case: one must be spelled exactly.
            found = [row for row in found if row[1:3] == (schema or "public", name)]
        if len(found) != 1:
            raise SourceError(
                f"source {source.shown!r} has no table {table!r} (a view will not do: store it as "
                "a table), or this role does not see it; name it after '#', as in "
                "'postgresql://host/db#schema.table'"
            )
        oid, schema, name, hidden = found[0]
        if hidden:
            raise SourceError(
                f"source {source.shown!r} has row-level security, which hides records of table "
                f"{table!r} from this role; connect as a role that sees all of them"
            )
        columns = _quiet(source.shown, lambda: _columns(connection, oid))
        server = _quiet(source.shown, lambda: _server(connection))
        related = _quiet(
            source.shown, lambda: connection.execute(_RELATED, {"oid": oid}).fetchall()
        )
    except BaseException:
        connection.close()
        raise
    place = f"postgresql:{server}/{connection.info.dbname}/"
    identity = Identity(
        table=f"{place}{schema}.{name}", related=tuple(f"{place}{s}.{n}" for s, n in related)
    )
    relation = exp.table_(name, db=schema, quoted=True)
    return PostgresTable(source.shown, identity, relation, columns, connection)


def _connected(shown: str, url: str) -> psycopg.Connection[tuple[Any, ...]]:
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


def _settle(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    connection.read_only = True
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    for name, value in _SETTINGS.items():
        # Inside the transaction, where a pool of connections allows it too.
        connection.execute("SELECT set_config(%s, %s, true)", [name, value])


def _server(connection: psycopg.Connection[tuple[Any, ...]]) -> str:
    """Return what is the same for every name and address of one server, and for its replicas."""
    row = connection.execute(
        "SELECT CASE WHEN has_function_privilege('pg_catalog.pg_control_system()', 'execute') "
        "THEN (SELECT system_identifier::text FROM pg_control_system()) END"
    ).fetchone()
    if row is not None and row[0] is not None:
        return str(row[0])
    return f"{connection.info.host.lower()}:{connection.info.port}"


def _quiet(shown: str, attempt: Callable[[], Result]) -> Result:
    """Return what ``attempt`` does before any record is read; its error is not chained."""
    try:
        return attempt()
    except psycopg.Error:
        pass
    raise SourceError(
        f"source {shown!r} does not answer questions about its catalogue; nothing was read or "
        "spent, and the same command can be run again"
    )


def _columns(connection: psycopg.Connection[tuple[Any, ...]], oid: int) -> list[SourceColumn]:
    """Return the columns of a table, with their constraints."""
    rows = connection.execute(_COLUMNS, [oid]).fetchall()
    constraints = connection.execute(_CONSTRAINTS, {"table": oid}).fetchall()
    checks = tuple(text for kind, text, *_ in constraints if kind == "c")
    keys = {name: other for kind, _, name, other in constraints if kind == "f" and name}
    columns = []
    for name, stored, native, virtual, null, values in rows:
        known = Constraints(
            null=null,
            values=values and tuple(values),
            checks=checks,
            dialect="postgres",
            references=keys.get(name, ""),
        )
        columns.append(replace(_column(name, stored, native, virtual), constraints=known))
    return columns


def _column(name: str, stored: str, native: str, virtual: bool) -> SourceColumn:
    kind: Kind = _KINDS.get(stored, "other")
    if stored == "numeric" and native.endswith(",0)"):
        kind = "wide integer"
    if virtual:  # An expression in place of a stored value may fail on a record.
        kind, native = "other", f"{native}, generated when it is read"
    return SourceColumn(name=name, kind=kind, native=native)


def _numeric(text: str) -> exp.Expression:
    return exp.cast(exp.Literal.string(text), "NUMERIC")


def _nearest(value: exp.Expression) -> exp.Expression:
    """Return a numeric as the nearest floating-point number, without an error anywhere."""
    large, small = "1.797693134862315807e308", "2.4703282292062327e-324"
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
    """Return values as an array with NULLs masked; what stands in their place is the first."""
    null = np.array([value is None for value in values], dtype=bool)
    known = next((value for value in values if value is not None), 0)
    kind = object if isinstance(known, str) else None
    filled = np.array([known if value is None else value for value in values], dtype=kind)
    return np.ma.MaskedArray(filled, mask=null)
