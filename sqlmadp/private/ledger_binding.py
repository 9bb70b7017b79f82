"""The binding of data to a ledger: a note, stored with the table, of whose budget it is.

The budget belongs to the data.  A copied plan, another spelling of a path, a ledger that was
deleted or restored from an older copy would all start from more budget than is left, so
``people.parquet.ledger-head`` is stored next to ``people.parquet``: the last known hash of the
ledger that the table is charged to.  A ledger whose chain does not hold that hash is refused.

    bound before the first record is read, updated after each charge

A table in a database server is only ever read, so its note is kept on this machine, in the
curator's own folder for such notes, under the hash of the table's identity.  The notes of all that
a table shares records with (see `engines.files`) are heeded as well.  A note that cannot be
written is reported; a copy of the table has none, nor does a server's table on another machine.
PROOF.md says what is then not noticed.

A process may end between a charge and its note, so the names to note are stored with the
measurement, and `stored` brings their notes up to date, while the ledger is held: none goes back.

Guarantee  Once the note is there, no release of the table, of a part of it or of what it is part of
           is charged to a ledger whose chain does not continue the noted one.  Nothing stored is
           returned before its notes were brought up to date, or it was said that they cannot be.
Requires   Nobody removes the note; the table stays where it is.
Numerics   None.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from sqlmadp.errors import LedgerError
from sqlmadp.private.engines import Identity
from sqlmadp.private.ledger import Ledger
from sqlmadp.private.ledger_file import refusing, sync_folder
from sqlmadp.private.measurement import Measurement

SUFFIX = ".ledger-head"
NOTED = "noted_for"
"""Where a measurement's metadata lists the names that its charge is noted for."""

Notice = Callable[[str], None]
"""Told of a note that cannot be written."""


def bind(identity: Identity, ledger: Ledger) -> None:
    """Note the ledger of a table, if that can be; raise LedgerError if another one is noted."""
    check_binding(identity, ledger)
    for name in identity.names:
        if not os.path.lexists(note := note_of(name)):
            _write(note, name, ledger, new=True)
    check_binding(identity, ledger)  # Two may have come at once.


def check_binding(identity: Identity, ledger: Ledger) -> None:
    """Raise LedgerError if another ledger is noted, made or still to be made; writes nothing."""
    for name in (*identity.names, *identity.related):
        note = note_of(name)
        if os.path.lexists(note):  # A link that leads nowhere is a note that cannot be read.
            _check(note, ledger)


def stored(ledger: Ledger, release: str, notice: Notice) -> Measurement | None:
    """Return the stored measurement of a release, or None; its notes are brought up to date."""
    measurement = ledger.find(release)
    if measurement is not None:
        update_notes(measurement.metadata.get(NOTED, ()), ledger, notice)
    return measurement


def update_notes(names: Iterable[str], ledger: Ledger, notice: Notice) -> None:
    """Note the ledger's last hash wherever an earlier one of it is noted, or nothing is."""
    for name in names:
        note = note_of(name)
        if _is_behind(note, name, ledger) and not _updated(note, name, ledger):
            notice(
                f"warning: {str(note)!r} cannot be brought up to date, so an older copy of ledger "
                f"{str(ledger.path)!r}, or another ledger, would not be noticed; make both "
                "folders writable, and run the command again"
            )


def note_of(name: str) -> Path:
    """Return the note's path: next to a file or folder, else in the folder for such notes."""
    scheme, _, place = name.partition(":")
    if scheme == "file":
        table = Path(place)
        return table.parent / (table.name + SUFFIX)
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "sqlmadp" / (hashlib.sha256(name.encode()).hexdigest()[:32] + SUFFIX)


class _Note(msgspec.Struct, kw_only=True):
    about: str = "this table is charged to this ledger; keep the note as long as the table"
    table: str = ""
    ledger: str
    head: str


def _read(note: Path) -> _Note | None:
    try:
        return msgspec.json.decode(note.read_bytes(), type=_Note) if note.is_file() else None
    except (OSError, msgspec.MsgspecError):
        return None


def _check(note: Path, ledger: Ledger) -> None:
    # The note first and then the chain: another release may move both on at any time, and a
    # chain that is read later holds every head that was noted before.
    noted = _read(note)
    if noted is None:
        raise LedgerError(
            f"{str(note)!r}, which records the ledger of this table, cannot be read. Nothing was "
            "read or spent. Restore it from a backup"
        )
    path = ledger.path
    if noted.head not in ledger.heads:
        wrong = "the ledger of this table is missing or out of date"
        remedy = f"Restore {path.name} from a backup"
        if Path(noted.ledger) != path.resolve() and Path(noted.ledger).exists():
            wrong = f"this table is charged to another ledger, {noted.ledger!r}"
            remedy = f'Write path = "{noted.ledger}" under [ledger] in the plan'
        raise LedgerError(
            f"{wrong}: {str(path)!r} does not contain the last recorded charge "
            f"({noted.head[:12]}). Nothing was read or spent. {remedy}. If this is a different "
            f"data set under the same name, delete {str(note)!r} to start a new budget"
        )


def _is_behind(note: Path, name: str, ledger: Ledger) -> bool:
    """Return whether the note has an earlier hash of the ledger, or is missing next to a table."""
    if not os.path.lexists(note):
        return not name.startswith("file:") or Path(name.removeprefix("file:")).exists()
    noted = _read(note)
    return noted is not None and noted.head in ledger.heads[:-1]


def _updated(note: Path, name: str, ledger: Ledger) -> bool:
    """Bring the note up to date while nobody else charges; return whether it is."""
    try:
        with refusing(ledger.path, "is busy"), ledger.held():
            missing = not os.path.lexists(note)
            return not _is_behind(note, name, ledger) or _write(note, name, ledger, new=missing)
    except LedgerError:
        return False


def _write(note: Path, name: str, ledger: Ledger, *, new: bool) -> bool:
    """Put the note in place whole, and return whether that is done."""
    place = os.fsencode(ledger.path.resolve()).decode(errors="replace")
    content = _Note(table=name, ledger=place, head=ledger.head)
    text = msgspec.json.format(msgspec.json.encode(content))
    try:
        if not name.startswith("file:"):
            note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=note.parent, prefix=f".{note.name}-") as folder:
            made = Path(folder) / "note"
            with made.open("wb") as file:
                file.write(text + b"\n")
                file.flush()
                os.fsync(file.fileno())
            # A note that another process just made is never replaced by the first one of ours.
            (os.link if new else os.replace)(made, note)
        sync_folder(note.parent)
    except FileExistsError:
        return True
    except OSError:
        return False
    return True
