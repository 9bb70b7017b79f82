"""The tie between data and ledger: a note, kept with the table, of whose budget it is.

The budget belongs to the data.  A copied plan, another spelling of a path, a ledger that was
deleted or restored from an older copy would all start from more budget than is left, so
beside ``people.parquet`` lies ``people.parquet.ledger-head``: the last known hash of the
ledger that the table is charged to.  A ledger whose chain does not hold that hash is refused.

    tied before the first record is read, moved on after each charge

A table in a database server is only ever read, so its note is kept on this machine, in the
curator's own folder for such notes, under the hash of the table's identity.  Where a folder
cannot be written to there is no note; a copy of the table has none either, nor does a
server's table on another machine.  PROOF.md says what is then not noticed.

Guarantee  Once the note is there, no release of the table is charged to a ledger whose
           chain does not continue the noted one.
Requires   Nobody removes the note; the table stays where it is.
Numerics   None.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from sqlmadp.errors import LedgerError
from sqlmadp.private.ledger import Ledger

SUFFIX = ".ledger-head"


def tie(identity: str, ledger: Ledger) -> None:
    """Note the ledger of a table, or raise LedgerError if another one is noted."""
    note = note_of(identity)
    if not note.exists():
        _write(note, identity, ledger, new=True)
    if note.exists():
        _check(note, ledger.path, lambda: ledger.heads)


def check_tie(identity: str, path: Path, heads: Callable[[], Sequence[str]]) -> None:
    """Raise LedgerError if a ledger other than that at ``path`` is noted; writes nothing.

    ``heads`` returns the hashes of its chain; none if it is still to be made.
    """
    note = note_of(identity)
    if note.exists():
        _check(note, path, heads)


def move_on(identity: str, ledger: Ledger) -> None:
    """Note the ledger's last hash.  What was noted before stays right if this fails."""
    note = note_of(identity)
    if note.exists():
        _write(note, identity, ledger, new=False)


def note_of(identity: str) -> Path:
    """Return the note's path: beside a file or folder, else in the folder for such notes."""
    scheme, _, place = identity.partition(":")
    if scheme == "file":
        table = Path(place)
        return table.with_name(table.name + SUFFIX)
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    name = hashlib.sha256(identity.encode()).hexdigest()[:32]
    return Path(state) / "sqlmadp" / (name + SUFFIX)


class _Note(msgspec.Struct, kw_only=True):
    about: str = "this table is charged to this ledger; keep the note as long as the table"
    table: str = ""
    ledger: str
    head: str


def _check(note: Path, path: Path, heads: Callable[[], Sequence[str]]) -> None:
    # The note first and then the chain: another release may move both on at any time, and a
    # chain that is read later holds every head that was noted before.
    try:
        noted = msgspec.json.decode(note.read_bytes(), type=_Note)
    except (OSError, msgspec.MsgspecError):
        raise LedgerError(
            f"{str(note)!r}, which says what ledger the table is charged to, cannot be read; "
            "nothing was spent. Restore it"
        ) from None
    if noted.head not in heads():
        raise LedgerError(
            f"the table is charged to ledger {noted.ledger!r} with head "
            f"{noted.head}, and ledger {str(path)!r} does not continue it: it is another "
            "ledger, a new one or an older copy. The budget belongs to the data, so nothing was "
            "read or spent. Name that ledger in the plan, or restore it; only if the table now "
            f"holds other people's records, remove {str(note)!r}"
        )


def _write(note: Path, identity: str, ledger: Ledger, *, new: bool) -> None:
    """Put the note in place whole; a folder that cannot be written to goes without."""
    place = os.fsencode(ledger.path.resolve()).decode(errors="replace")
    noted = _Note(table=identity, ledger=place, head=ledger.head)
    text = msgspec.json.format(msgspec.json.encode(noted))
    try:
        if not identity.startswith("file:"):
            note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=note.parent, prefix=f".{note.name}-") as folder:
            made = Path(folder) / "note"
            with made.open("wb") as file:
                file.write(text + b"\n")
                file.flush()
                os.fsync(file.fileno())
            # A note that another process just made is never replaced by the first one of ours.
            (os.link if new else os.replace)(made, note)
    except OSError:
        return
