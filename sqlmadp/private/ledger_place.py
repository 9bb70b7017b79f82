"""Where a ledger may be: a folder on this machine that can be written to and locked.

SQLite keeps two processes from spending the same budget with file locks and with memory
that they share, and neither works across a network.  A file system that is known to be one
is refused by its type.  Any other must show that it locks: of two open descriptions of one
file, the second must be denied a lock that the first one holds.

Guarantee  `check_place` returns only if a lock that is held was seen to be denied.
Requires   Linux, for both tests; elsewhere only the folder itself is checked.
Numerics   None.
"""

from __future__ import annotations

import fcntl
import os
import struct
import tempfile
from pathlib import Path

from sqlmadp.errors import LedgerError
from sqlmadp.private.ledger_file import resolved

NETWORK = frozenset(
    {"afs", "beegfs", "ceph", "cifs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs"}
    | {"nfs4", "ocfs2", "orangefs", "smb2", "smb3", "smbfs"}
    | {"fuse.ceph", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs"}
)
"""File systems that other machines may write to at the same time."""

_MOUNTS = Path("/proc/self/mountinfo")
_SET_LOCK = getattr(fcntl, "F_OFD_SETLK", None)


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
