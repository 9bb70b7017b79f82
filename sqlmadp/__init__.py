"""Answer several analysts' SQL in one differentially private release.

``connect(plan, analyst="alice")`` is an analyst's connection (PEP 249), ``Plan.open(path)`` the
curator's plan, to preview and to release, and ``compare(workloads, epsilon=...)`` puts the
mechanisms side by side on plain matrices.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sqlmadp.dbapi import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Date,
    DateFromTicks,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
    apilevel,
    paramstyle,
    threadsafety,
)
from sqlmadp.errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
)

if TYPE_CHECKING:
    from sqlmadp.dbapi.connection import Connection, connect
    from sqlmadp.dbapi.cursor import Cursor
    from sqlmadp.experiment.compare import compare
    from sqlmadp.files.plan import Plan

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "Plan",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "apilevel",
    "compare",
    "connect",
    "paramstyle",
    "threadsafety",
]

_LAZY = {
    "Connection": "sqlmadp.dbapi.connection",
    "Cursor": "sqlmadp.dbapi.cursor",
    "Plan": "sqlmadp.files.plan",
    "compare": "sqlmadp.experiment.compare",
    "connect": "sqlmadp.dbapi.connection",
}


def __getattr__(name: str) -> Any:
    """Import the heavy parts only when they are used: they dominate start-up."""
    if name == "__version__":
        return import_module("importlib.metadata").version("sqlmadp")
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'sqlmadp' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, those that are not imported yet included."""
    return [*__all__, *globals()]
