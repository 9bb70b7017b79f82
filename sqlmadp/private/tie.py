"""The tie between data and ledger: a note beside the table of whose budget it is.

The budget belongs to the data.  A copied plan, another spelling of a path, a ledger that was
deleted or restored from an older copy would all start from more budget than is left, so
beside ``people.parquet`` lies ``people.parquet.ledger-head``: the last known hash of the
ledger that the table is charged to.  A ledger whose chain does not hold that hash is refused.

    tied before the first record is read, moved on after each charge

Where the table's folder cannot be written to, or the table is in a database server, there
is no note; a copy of the table has none either.  PROOF.md says what is then not noticed.

Guarantee  Once the note is there, no release of the table is charged to a ledger whose
           chain does not continue the noted one.
Requires   Nobody removes the note; the table stays where it is.
Numerics   None.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import msgspec

from sqlmadp.errors import LedgerError
from sqlmadp.private.engines import Source
from sqlmadp.private.ledger import Ledger

SUFFIX = ".ledger-head"


def tie(source: Source, ledger: Ledger) -> None:
    """Note the ledger beside the table, or raise LedgerError if another one is noted."""
    note = note_of(source)
    if note is None:
        return
    if not note.exists():
        _write(note, ledger, new=True)
    if note.exists():
        _check(note, source, ledger)


def move_on(source: Source, ledger: Ledger) -> None:
    """Note the ledger's last hash.  What was noted before stays right if this fails."""
    note = note_of(source)
    if note is not None and note.exists():
        _write(note, ledger, new=False)


def note_of(source: Source) -> Path | None:
    """Return the note's path, the same for every spelling of the table's; None without a file."""
    location = source.location.partition("#")[0]
    if "://" in location:
        return None
    table = (source.folder / location).resolve()
    return table.with_name(table.name + SUFFIX)


class _Note(msgspec.Struct, kw_only=True):
    about: str = "the table beside this file is charged to this ledger; keep the two together"
    ledger: str
    head: str


def _check(note: Path, source: Source, ledger: Ledger) -> None:
    try:
        noted = msgspec.json.decode(note.read_bytes(), type=_Note)
    except (OSError, msgspec.MsgspecError):
        raise LedgerError(
            f"{str(note)!r}, which says what ledger the table is charged to, cannot be read; "
            "nothing was spent. Restore it"
        ) from None
    if noted.head not in ledger.heads:
        raise LedgerError(
            f"source {source.location!r} is charged to ledger {noted.ledger!r} with head "
            f"{noted.head}, and ledger {str(ledger.path)!r} does not continue it: it is another "
            "ledger, a new one or an older copy. The budget belongs to the data, so nothing was "
            "read or spent. Name that ledger in the plan, or restore it; only if the table now "
            f"holds other people's records, remove {str(note)!r}"
        )


def _write(note: Path, ledger: Ledger, *, new: bool) -> None:
    """Put the note in place whole; a folder that cannot be written to goes without."""
    place = os.fsencode(ledger.path.resolve()).decode(errors="replace")
    text = msgspec.json.format(msgspec.json.encode(_Note(ledger=place, head=ledger.head)))
    try:
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
