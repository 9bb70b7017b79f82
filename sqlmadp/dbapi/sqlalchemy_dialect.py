"""The SQLAlchemy 2 dialect: ``create_engine("sqlmadp:///plan.toml?analyst=alice")``.

    sqlmadp:///plan.toml?analyst=alice         relative to the working folder
    sqlmadp:////data/plan.toml?analyst=alice   from the root
    ...?analyst=alice&errors=true              with columns for standard errors and 95% intervals
    ...?analyst=alice&dialect=postgres         with another dialect of SQL than the plan's own

One table is there, the private one, with the columns that the schema declares; public tables are
there too.  Reflection reads the schema file and nothing else.  Statements are DuckDB's SQL:
names are matched in any case, and whatever is not a counting SELECT is refused.

Tools that use engines commit by themselves, so the dialect connects with ``stage=False``: before
the release a SELECT is checked and has no rows, and only ``HAND IN SELECT ...`` hands it in, and
returns all that was handed in.  Statements that are built in Python have an option for it:

    connection.execute(select(...), execution_options={"hand_in": "by_ward"})  # or True: no name
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from sqlalchemy import Connection, types
from sqlalchemy.engine import URL, default, reflection
from sqlalchemy.engine.interfaces import (
    ConnectArgsType,
    DBAPIConnection,
    DBAPICursor,
    ExecutionContext,
    ReflectedColumn,
    ReflectedPrimaryKeyConstraint,
)
from sqlalchemy.exc import ArgumentError, NoSuchTableError
from sqlalchemy.sql import compiler
from sqlalchemy.types import TypeEngine

SCHEMA = "main"
"""The schema, in SQL's sense of the word, that the tables are in."""

_TYPES: dict[str, Callable[[], TypeEngine[Any]]] = {
    "VARCHAR": types.VARCHAR,
    "BOOLEAN": types.BOOLEAN,
    "BIGINT": types.BIGINT,
    "INTEGER": types.INTEGER,
    "DOUBLE": types.DOUBLE,
    "DATE": types.DATE,
    "TIMESTAMP": types.TIMESTAMP,
}

_SWITCH = {"true": True, "false": False}


class _Preparer(compiler.IdentifierPreparer):
    """Writes tables without a schema: statements name them so."""

    schema_for_object = staticmethod(lambda _: "")


class SqlmadpDialect(default.DefaultDialect):
    """Talks to sqlmadp through its DB-API."""

    name = "sqlmadp"
    driver = "sqlmadp"
    preparer = _Preparer
    default_paramstyle = "qmark"
    default_schema_name = SCHEMA
    supports_statement_cache = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_sane_rowcount = False
    supports_sane_multi_rowcount = False
    supports_default_values = False
    supports_alter = False
    supports_sequences = False
    postfetch_lastrowid = False
    max_identifier_length = 255

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """Return the DB-API module."""
        import sqlmadp  # noqa: PLC0415

        return sqlmadp

    def create_connect_args(self, url: URL) -> ConnectArgsType:
        """Return the arguments of ``sqlmadp.connect``."""
        named: dict[str, Any] = dict(url.query)
        known = {"analyst"} <= named.keys() <= {"analyst", "dialect", "errors"}
        single = all(isinstance(value, str) for value in named.values())
        errors = named.get("errors", "false")
        if not (url.database and known and single) or url.host or errors not in _SWITCH:
            raise ArgumentError(
                "an address of sqlmadp names a plan and one analyst, maybe a dialect of SQL and "
                "errors=true, and nothing else: sqlmadp:///plan.toml?analyst=alice"
            )
        return (url.database,), named | {"errors": _SWITCH[errors], "stage": False}

    def do_ping(self, dbapi_connection: DBAPIConnection) -> bool:
        """Tell that a connection is alive: it is as long as it is open."""
        dbapi_connection.cursor().close()
        return True

    def do_execute(
        self,
        cursor: DBAPICursor,
        statement: str,
        parameters: Any,
        context: ExecutionContext | None = None,
    ) -> None:
        """Execute a statement; with the option ``hand_in``, hand it in."""
        name = context.execution_options.get("hand_in") if context is not None else None
        if name:
            statement = f"HAND IN {'' if name is True else f'AS {name} '}{statement}"
        cursor.execute(statement, parameters)

    def _get_server_version_info(self, connection: Connection) -> tuple[int, ...]:
        from importlib.metadata import version  # noqa: PLC0415

        return tuple(int(part) for part in version("sqlmadp").split(".") if part.isdecimal())

    def _get_default_schema_name(self, connection: Connection) -> str:
        return SCHEMA

    # Reflection.

    def _tables(
        self, connection: Connection, schema: str | None
    ) -> dict[str, tuple[tuple[str, str, bool], ...]]:
        """Return name, DuckDB type and nullability of every column, by table."""
        if schema is not None and schema.casefold() != SCHEMA:
            return {}
        tables: dict[str, tuple[tuple[str, str, bool], ...]] = (
            connection.connection.dbapi_connection.tables  # type: ignore[union-attr]
        )
        return tables

    def _table(
        self, connection: Connection, name: str, schema: str | None
    ) -> tuple[tuple[str, str, bool], ...]:
        for table, columns in self._tables(connection, schema).items():
            if table.casefold() == name.casefold():
                return columns
        raise NoSuchTableError(f"{schema}.{name}" if schema else name)

    def has_table(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> bool:
        """Return whether statements may name a table."""
        try:
            self._table(connection, table_name, schema)
        except NoSuchTableError:
            return False
        return True

    def get_schema_names(self, connection: Connection, **kw: Any) -> list[str]:
        """Return the one schema."""
        return [SCHEMA]

    def get_table_names(
        self, connection: Connection, schema: str | None = None, **kw: Any
    ) -> list[str]:
        """Return the private table and the public ones."""
        return list(self._tables(connection, schema))

    def get_view_names(
        self, connection: Connection, schema: str | None = None, **kw: Any
    ) -> list[str]:
        """Return nothing: there are no views."""
        return []

    @reflection.cache
    def get_columns(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[ReflectedColumn]:
        """Return the declared columns of a table."""
        return [
            {
                "name": name,
                "type": _TYPES.get(kind, types.NullType)(),
                "nullable": nullable,
                "default": None,
            }
            for name, kind, nullable in self._table(connection, table_name, schema)
        ]

    def get_pk_constraint(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> ReflectedPrimaryKeyConstraint:
        """Return an empty key: records have no key."""
        self._table(connection, table_name, schema)
        return {"constrained_columns": [], "name": None}

    def _get_nothing(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[Any]:
        """Return nothing: no table has constraints or indexes."""
        self._table(connection, table_name, schema)
        return []

    get_foreign_keys = get_indexes = get_unique_constraints = _get_nothing
