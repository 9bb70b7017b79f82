"""Staging: statements that analysts hand in from a connection, as plain SQL beside the plan.

    census.toml                   the plan
    census.staged/health.sql      what health has handed in, every statement under its name

The curator may read these files like any other; a release binds them along with the files
that the plan names.  Statements are added all or none, and withdrawn one by one: the new file is
written aside, synced and moved into place, so a reader sees it as it was or as it will be.  One
lock orders changes and releases: nothing is handed in or withdrawn while a release is being made,
and no two changes write over each other, whichever threads or processes they come from.  The lock
is on the plan's folder, ends with its process, and leaves nothing behind.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from sqlmadp.errors import InternalError, OperationalError, ProgrammingError
from sqlmadp.files import PAUSE_SECONDS, WAIT_SECONDS
from sqlmadp.sql.limits import DEFAULT, Limits
from sqlmadp.sql.statements import Statement, split

UNNAMED = "q1"
"""What a single statement without a name is called by ``split``."""

_HEADER = "-- Statements that were handed in from a connection. A release answers them.\n"


@contextmanager
def held(folder: Path, *, shared: bool = False, seconds: float = WAIT_SECONDS) -> Iterator[None]:
    """Hold the lock of the plans in ``folder``: alone for a change, shared by releases."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise _unusable(folder, error) from None
    try:
        _lock(descriptor, folder, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, seconds)
        yield
    finally:
        os.close(descriptor)  # Which ends the lock.


def _lock(descriptor: int, folder: Path, kind: int, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < deadline:
                time.sleep(PAUSE_SECONDS)
                continue
        except OSError as error:
            raise _unusable(folder, error) from None
        else:
            return
        raise OperationalError(
            f"a release or another change in {str(folder)!r} has been under way for "
            f"{seconds:.0f} seconds; nothing was done. Try again when it has ended"
        )


def _unusable(folder: Path, error: OSError) -> OperationalError:
    return OperationalError(
        f"the plan's folder {str(folder)!r} cannot be locked ({error.strerror}); nothing was done. "
        "Keep plans on a local file system that the analysts may read"
    )


def staged_statements(path: Path, limits: Limits = DEFAULT) -> list[Statement]:
    """Return the statements that were handed in at ``path``, a file that need not exist."""
    text = _text(path)
    # Without a statement once all of them are withdrawn, which is no mistake here.
    return [] if text in {None, _HEADER} else split(text or "", file=str(path), limits=limits)


def _text(path: Path) -> str | None:
    """Return the file as it is, without a look at line ends, which may be part of a string."""
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        reason = "it is not UTF-8 text"
    except OSError as error:
        reason = str(error.strerror)
    raise OperationalError(
        f"what was handed in cannot be read from {str(path)!r} ({reason}); "
        "ask the curator to mend it"
    )


def new_statements(statements: Sequence[Statement], known: Sequence[Statement]) -> list[Statement]:
    """Return those statements that an analyst who has handed in ``known`` would add to them.

    What is there already, in the same words, is not added again; a statement without a name
    gets one.
    """
    taken = {statement.name.casefold() for statement in known}
    added: list[Statement] = []
    for statement in statements:
        if any(_same(statement, other) for other in (*known, *added)):
            continue
        name = _free_name(taken) if statement.name == UNNAMED else statement.name
        if name.casefold() in taken:
            raise ProgrammingError(
                f"you have another statement with the name {name!r}; "
                "give this one a '-- name: ...' of its own"
            )
        taken.add(name.casefold())
        added.append(replace(statement, name=name))
    return added


def _same(one: Statement, other: Statement) -> bool:
    return one.key == other.key and one.name in {UNNAMED, other.name}


def hand_in(
    path: Path,
    statements: Sequence[Statement],
    known: Sequence[Statement],
    limits: Limits = DEFAULT,
) -> list[str]:
    """Add statements to the file at ``path``, all or none, and return the names of those added.

    ``known`` is all that the analyst has handed in, at ``path`` and in files of their own.  The
    caller has the lock.
    """
    added = new_statements(statements, known)
    if added:
        before = _text(path) or _HEADER
        _write(path, before + "".join(map(_written, added)), added, limits)
    return [statement.name for statement in added]


def withdraw(
    path: Path, name: str, known: Sequence[Statement], limits: Limits = DEFAULT
) -> Statement:
    """Take the statement called ``name`` out of the file at ``path``, and return it.

    ``known`` is as for `hand_in`, and the caller has the lock.
    """
    staged = staged_statements(path, limits)
    found = [each for each in staged if each.name.casefold() == name.casefold()]
    if not found:
        raise _not_staged(name, staged, known)
    left = [each for each in staged if each is not found[0]]
    _write(path, _HEADER + "".join(map(_written, left)), left, limits)
    return found[0]


def _not_staged(
    name: str, staged: Sequence[Statement], known: Sequence[Statement]
) -> ProgrammingError:
    for statement in known:
        if statement.name.casefold() == name.casefold():
            return ProgrammingError(
                f"{name!r} was not handed in from a connection: it is in {statement.file!r}. "
                "Nothing was withdrawn. Delete it from that file, or ask the curator to"
            )
    names = ", ".join(each.name for each in staged) or "none"
    return ProgrammingError(
        f"you have handed in no statement called {name!r}; nothing was withdrawn. "
        f"Those that can be withdrawn: {names}"
    )


def _free_name(taken: set[str]) -> str:
    number = 1
    while f"staged_{number}" in taken:
        number += 1
    return f"staged_{number}"


def _write(path: Path, text: str, last: Sequence[Statement], limits: Limits) -> None:
    """Write the file whole or not at all; its last statements must read back as ``last``."""
    try:
        _check_reads_back(text, path, last, limits)
        path.parent.mkdir(exist_ok=True)
        _replace(path, text)
    except OSError as error:
        raise OperationalError(
            f"{str(path)!r} cannot be written ({error.strerror}), so nothing was handed in or "
            "withdrawn. Ask the curator for access to that folder"
        ) from None


def _written(statement: Statement) -> str:
    """Return a statement as it is in the file: its name and, unless they are plain, the rest."""
    said = f"\n-- name: {statement.name}\n"
    said += f"-- weight: {statement.weight}\n" if statement.weight != 1 else ""
    said += f"-- dialect: {statement.dialect}\n" if statement.dialect != "duckdb" else ""
    # The semicolon has a line of its own, since a statement may end in a comment.
    return f"{said}{statement.text}\n;\n"


def _check_reads_back(text: str, path: Path, last: Sequence[Statement], limits: Limits) -> None:
    """Refuse to write a file that would be read as other statements than were meant."""
    if not last:
        return
    read = split(text, file=str(path), limits=limits)[-len(last) :]
    if [(s.name, s.key, s.weight) for s in read] != [(s.name, s.key, s.weight) for s in last]:
        raise InternalError("the statements would not read back; nothing was changed")


def _replace(path: Path, text: str) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".commit-") as aside:
        new = Path(aside) / path.name
        with open(new, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
