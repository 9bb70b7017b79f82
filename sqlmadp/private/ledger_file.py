"""The ledger's file: where it may be, its tables, how it comes into being, and how it is opened.

SQLite keeps two processes from spending the same budget with file locks and with memory that they
share, and neither works across a network.  A file system that is known to be one is refused by its
type.  Any other must show that it locks: of two open descriptions of one file, the second must be
denied a lock that the first one holds.

Guarantee  A ledger appears at its path whole, with its budget, or not at all; one that is
           there, or was there and left its write-ahead file, is never replaced.  After
           `sync_name` a loss of power does not make it disappear.  `connect` returns a
           connection to a file that is a ledger of this version, inside and out.  `check_place`
           returns only if a lock that is held was seen to be denied.  Where the path is a link,
           all of this is about the file that it leads to: SQLite keeps the write-ahead file
           beside that one.
Requires   A file system with hard links and fsync; Linux, for both tests of locks (elsewhere only
           the folder itself is checked).
Numerics   Exact: the budget is a fraction, stored as text.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import sqlite3
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import msgspec

from sqlmadp.errors import LedgerError

VERSION = 1
APPLICATION_ID = 0x6D616470  # "madp": tells a ledger from any other SQLite file.

TABLES = (
    "CREATE TABLE ledger (one INTEGER PRIMARY KEY CHECK (one = 1), budget TEXT NOT NULL, "
    "created TEXT NOT NULL, hash TEXT NOT NULL)",
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

NETWORK = frozenset(
    {"afs", "beegfs", "ceph", "cifs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs"}
    | {"nfs4", "ocfs2", "orangefs", "smb2", "smb3", "smbfs"}
    | {"fuse.ceph", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs"}
)
"""File systems that other machines may write to at the same time."""

_MOUNTS = Path("/proc/self/mountinfo")
_SET_LOCK = getattr(fcntl, "F_OFD_SETLK", None)
_BUSY_SECONDS = 60.0

_ADVICE = {
    "SQLITE_FULL": "; the disk is full: free some space and run the command again",
    "SQLITE_IOERR": "; the disk is full or failing; free some space and run the command again",
    "SQLITE_BUSY": "; another program is using it: run the command again later",
    "SQLITE_READONLY": "; make the file and its folder writable",
    "SQLITE_CANTOPEN": "; make the file and its folder writable",
    "SQLITE_NOTADB": "; it is not a ledger, or was damaged: restore it from a backup",
    "SQLITE_CORRUPT": "; it was damaged: restore it from a backup made after the last release",
}


def create(path: Path, budget: Fraction) -> None:
    """Make the ledger elsewhere and link it into place: it appears whole, or not at all."""
    path = resolved(path)
    leftover = path.with_name(path.name + "-wal")
    if leftover.exists() and not path.exists():  # Unless another process just made it.
        raise LedgerError(
            f"ledger {str(path)!r} is missing, but its write-ahead file {leftover.name!r} is "
            "there, so releases were made against it; restore the ledger from a backup"
        )
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as folder:
            new = Path(folder) / "new"
            _write_genesis(new, budget)
            connect(new).close()  # SQLite may go on without a step that failed, such as WAL.
            os.link(new, path)
    except FileExistsError:
        return  # Another process was faster; its ledger is opened and checked like any other.
    except (OSError, sqlite3.Error, LedgerError) as error:
        reason = getattr(error, "strerror", None) or error
        raise LedgerError(
            f"the ledger {str(path)!r} cannot be created ({reason}); nothing was read or spent. "
            "Free some space, make its folder writable, and run the command again"
        ) from None


def sync_name(path: Path) -> None:
    """Write the ledger's name to the disk; the process that made it may have died before that."""
    try:
        sync_folder(resolved(path).parent)
    except OSError as error:
        raise LedgerError(
            f"the folder of ledger {str(path)!r} cannot be synced to its disk ({error.strerror}); "
            "nothing was read or spent. Check the disk, and run the command again"
        ) from None


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def connect(path: Path) -> sqlite3.Connection:
    """Return a connection to a sound file; one that cannot be written to is only read."""
    options, place = "mode=rw", resolved(path)
    if not _writable(path):
        wal = place.with_name(place.name + "-wal")
        if wal.exists() and wal.stat().st_size:
            raise LedgerError(
                f"ledger {str(path)!r} has releases in its write-ahead file, which cannot be "
                "read where nothing may be written; make its folder writable"
            )
        options = "mode=ro&immutable=1"
    with refusing(path, "cannot be opened"):
        connection = sqlite3.connect(
            f"{place.as_uri()}?{options}",
            uri=True,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
        )
    try:
        check_file(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def check_file(connection: sqlite3.Connection, path: Path) -> None:
    """Raise LedgerError unless this is a whole ledger of this version, in WAL mode."""
    with refusing(path, "cannot be used"):
        application, version, journal = (
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("application_id", "user_version", "journal_mode")
        )
        if application != APPLICATION_ID:
            raise LedgerError(
                f"{str(path)!r} is not a ledger of sqlmadp; "
                "correct the ledger's path, or restore the ledger from a backup"
            )
        if version != VERSION:
            raise LedgerError(
                f"ledger {str(path)!r} has version {version}, and this sqlmadp knows "
                f"version {VERSION}; use a newer sqlmadp"
            )
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")
        checks = connection.execute("PRAGMA integrity_check").fetchall()
        tables = connection.execute("SELECT sql FROM sqlite_master WHERE sql NOT NULL")
        found = sorted(str(row[0]) for row in tables.fetchall())
    if checks != [("ok",)]:
        raise broken(path, "SQLite's integrity check fails")
    if found != sorted(TABLES):
        raise broken(path, "its tables are not those of a ledger")
    if journal != "wal" and _writable(path):  # One that is only read needs no journal.
        raise broken(path, "it is not in WAL mode")


def genesis_hash(budget: str, created: str) -> str:
    """Return the hash that the chain of a ledger starts from."""
    return chain_hash("sqlmadp ledger", VERSION, budget, created)


def chain_hash(*content: object) -> str:
    """Return the hash of a list of texts and numbers."""
    return digest(msgspec.json.encode(content))


def digest(data: bytes) -> str:
    """Return the SHA-256 of ``data`` as text."""
    return hashlib.sha256(data).hexdigest()


def broken(path: Path, why: str) -> LedgerError:
    """Return the error that says that a ledger cannot be trusted."""
    return LedgerError(
        f"ledger {str(path)!r} cannot be trusted: {why}. Nothing may be released "
        "against it; restore it from a backup made after the last release"
    )


@contextmanager
def refusing(path: Path, what: str) -> Iterator[None]:
    """Replace an error of SQLite by a LedgerError that says what to do."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        advice = next((text for start, text in _ADVICE.items() if name.startswith(start)), "")
        raise LedgerError(f"ledger {str(path)!r} {what} ({error}){advice}") from None
    except UnicodeDecodeError:  # SQLite quotes what it found, and that is no text.
        raise broken(path, "it holds bytes that are not text") from None


def resolved(path: Path) -> Path:
    """Return the file that a path leads to, through links; one that leads nowhere, as far."""
    return Path(os.path.realpath(path))  # Unlike Path.resolve it raises on no circle of links.


def _writable(path: Path) -> bool:
    place = resolved(path)
    return os.access(place, os.W_OK) and os.access(place.parent, os.W_OK)


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
        genesis = (str(budget), created)
        connection.execute(
            "INSERT INTO ledger VALUES (1, ?, ?, ?)", [*genesis, genesis_hash(*genesis)]
        )
    finally:
        connection.close()


def check_place(path: Path) -> None:
    """Raise LedgerError unless a charge can be recorded safely in the folder of ``path``."""
    folder = resolved(path).parent
    if not folder.is_dir():
        raise LedgerError(f"the ledger's folder {str(folder)!r} does not exist; create it")
    if not os.access(folder, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise LedgerError(
            f"ledger {str(path)!r} cannot be written to, and a release must record its charge; "
            "nothing was read or spent. Make the file and its folder writable"
        )
    mounts = _MOUNTS.read_text(errors="replace") if _MOUNTS.exists() else ""
    kind = file_system(mounts, folder)
    if kind in NETWORK:
        raise _unlockable(path, f"is on a network file system ({kind})")
    try:
        locks = locks_work(folder)
    except OSError as error:
        raise _unlockable(path, f"is where files cannot be locked ({error.strerror})") from None
    if not locks:
        raise _unlockable(path, "is on a file system that grants one lock twice")


def file_system(mounts: str, folder: Path) -> str:
    """Return the type of the file system that holds ``folder``, by the text of mountinfo."""
    best, kind = -1, ""
    for line in mounts.splitlines():
        fields, _, rest = line.partition(" - ")
        # Spaces and the like in a mount point are written as octal escapes.
        point = fields.split(" ")[4].encode().decode("unicode_escape").encode("latin-1")
        place = Path(os.fsdecode(point))
        if folder.is_relative_to(place) and len(place.parts) >= best:  # Later mounts hide.
            best, kind = len(place.parts), rest.split(" ")[0]
    return kind


def locks_work(folder: Path) -> bool:
    """Return whether a lock that is held on a file of ``folder`` is denied to others."""
    if _SET_LOCK is None:
        return True
    with (
        tempfile.NamedTemporaryFile(dir=folder, prefix=".sqlmadp-lock-") as first,
        open(first.name, "r+b") as second,
    ):
        _lock(first.fileno())
        try:
            _lock(second.fileno())
        except (BlockingIOError, PermissionError):
            return True
    return False


def _lock(descriptor: int) -> None:
    """Take a lock of an open file description on the first byte; raise if it is denied."""
    fcntl.fcntl(descriptor, _SET_LOCK or 0, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 1, 0))


def _unlockable(path: Path, why: str) -> LedgerError:
    return LedgerError(
        f"ledger {str(path)!r} {why}, so two releases could spend the same budget; nothing was "
        "read or spent. Keep the ledger on a disk of this machine"
    )
