"""The ledger's file: its tables, and how it comes into being.

Guarantee  A ledger appears at its path whole, with its budget, or not at all; one that is
           there, or was there and left its write-ahead file, is never replaced.
Requires   A file system with hard links and fsync.
Numerics   Exact: the budget is a fraction, stored as text.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

from sqlmadp.errors import LedgerError

VERSION = 1
APPLICATION_ID = 0x6D616470  # "madp": tells a ledger from any other SQLite file.

TABLES = (
    "CREATE TABLE ledger (one INTEGER PRIMARY KEY CHECK (one = 1), budget TEXT NOT NULL, "
    "created TEXT NOT NULL)",
    "CREATE TABLE charges (number INTEGER PRIMARY KEY, release TEXT NOT NULL UNIQUE, "
    "analysts TEXT NOT NULL, mechanism TEXT NOT NULL, epsilon TEXT NOT NULL, "
    "time TEXT NOT NULL, digest TEXT NOT NULL, hash TEXT NOT NULL, measurement BLOB NOT NULL)",
    *(
        f"CREATE TRIGGER {table}_{change.lower()} BEFORE {change} ON {table} "
        "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END"
        for table in ("ledger", "charges")
        for change in ("UPDATE", "DELETE")
    ),
)


def create(path: Path, budget: Fraction) -> None:
    """Make the ledger elsewhere and link it into place: it appears whole, or not at all."""
    leftover = path.with_name(path.name + "-wal")
    if leftover.exists() and not path.exists():  # Unless another process just made it.
        raise LedgerError(
            f"ledger {str(path)!r} is missing, but its write-ahead file {leftover.name!r} is "
            "there, so releases were made against it; restore the ledger from a copy"
        )
    if not path.parent.is_dir():
        raise LedgerError(f"the ledger's folder {str(path.parent)!r} does not exist; create it")
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as folder:
            new = Path(folder) / "new"
            _write_genesis(new, budget)
            os.link(new, path)
        _sync_folder(path.parent)
    except FileExistsError:
        return  # Another process was faster; its ledger is opened and checked like any other.
    except (OSError, sqlite3.Error) as error:
        raise LedgerError(f"the ledger {str(path)!r} cannot be created: {error}") from None


def _write_genesis(path: Path, budget: Fraction) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        for statement in TABLES:
            connection.execute(statement)
        created = datetime.now(UTC).isoformat(timespec="microseconds")
        connection.execute("INSERT INTO ledger VALUES (1, ?, ?)", [str(budget), created])
    finally:
        connection.close()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
