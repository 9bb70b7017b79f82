"""A ledger is kept only where a lock that is held is denied to everyone else."""

import errno
import os
from fractions import Fraction
from pathlib import Path

import pytest

from sqlmadp.errors import LedgerError
from sqlmadp.private import Ledger, ledger_file
from sqlmadp.private.ledger_file import NETWORK, check_place, file_system, locks_work

MOUNTS = """\
22 1 0:20 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:25 / /home rw,relatime shared:2 - nfs4 server:/home rw,vers=4.2
31 30 0:26 / /home/alice rw,relatime - ext4 /dev/vdb rw
32 22 0:27 / /mnt/two\\040words rw - cifs //server/share rw
33 22 0:28 / /over rw - ext4 /dev/vdc rw
34 33 0:29 / /over rw - fuse.sshfs server: rw
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/data", "ext4"),
        ("/home/bob/ledgers", "nfs4"),
        ("/home/alice/ledgers", "ext4"),
        ("/homeless", "ext4"),
        ("/mnt/two words/x", "cifs"),
        ("/over/x", "fuse.sshfs"),
    ],
)
def test_the_file_system_is_that_of_the_innermost_and_latest_mount(folder, kind):
    assert file_system(MOUNTS, Path(folder)) == kind
    assert (kind in NETWORK) == (kind != "ext4")


def test_this_machine_s_file_system_locks(tmp_path):
    assert locks_work(tmp_path)
    check_place(tmp_path / "people.ledger")
    assert list(tmp_path.iterdir()) == []


def test_a_network_file_system_is_refused(tmp_path, monkeypatch):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"30 22 0:25 / {tmp_path.resolve()} rw - nfs4 server:/home rw\n")
    monkeypatch.setattr(ledger_file, "_MOUNTS", mounts)
    with pytest.raises(LedgerError, match=r"network file system \(nfs4\).*disk of this machine"):
        Ledger.open(tmp_path / "people.ledger", budget=Fraction(1))
    assert not (tmp_path / "people.ledger").exists()


def test_a_file_system_that_grants_a_lock_twice_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger_file, "_lock", lambda descriptor: None)
    with pytest.raises(LedgerError, match="grants one lock twice"):
        check_place(tmp_path / "people.ledger")


def test_a_file_system_that_cannot_lock_is_refused_before_a_release(tmp_path, monkeypatch):
    def no_locks(descriptor):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    with Ledger.open(tmp_path / "people.ledger", budget=Fraction(1)) as ledger:
        monkeypatch.setattr(ledger_file, "_lock", no_locks)
        with pytest.raises(LedgerError, match=r"cannot be locked \(No locks available\)"):
            ledger.require(Fraction(1))
