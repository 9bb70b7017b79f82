"""The ledger adds up, never forgets, and notices what was done to it."""

import errno
import multiprocessing
import os
import random
import shutil
import sqlite3
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from sqlmadp.errors import BudgetExceededError, InterfaceError, LedgerError
from sqlmadp.private import Ledger, Measurement
from sqlmadp.table.partition import Partition
from sqlmadp.table.products import Products
from sqlmadp.table.rows import Rows


def measurement(release="r", epsilon="1/3", values=(1, 2)):
    return Measurement(
        release=release,
        blocks=(),
        values=(),
        grains=(),
        scales=(),
        epsilon=Fraction(epsilon),
        sensitivity=1,
        metadata={"values": list(values)},
    )


def record(ledger, *arguments, **options):
    made = measurement(*arguments, **options)
    return ledger.record(made, analysts=["alice", "Bob"], mechanism="identity")


def tamper(path, *statements):
    """Change the file behind the ledger's back, triggers out of the way and back again."""
    with sqlite3.connect(path) as connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        triggers = triggers.fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(statement)
        for _, sql in triggers:
            connection.execute(sql)
    connection.close()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "people.ledger"


def test_a_new_ledger_has_spent_nothing(ledger):
    assert (ledger.budget, ledger.spent, ledger.left, ledger.charges) == (1, 0, 1, ())
    assert ledger.find("r") is None


def test_three_thirds_are_exactly_one(ledger):
    for release in "abc":
        record(ledger, release)
    assert (ledger.spent, ledger.left) == (1, 0)
    with pytest.raises(BudgetExceededError):
        ledger.require(Fraction(1, 10**30))


def test_a_charge_says_who_spent_what_when(ledger):
    record(ledger)
    (charge,) = ledger.charges
    assert charge.release == "r"
    assert charge.analysts == ("alice", "Bob")
    assert charge.mechanism == "identity"
    assert charge.epsilon == Fraction(1, 3)
    assert charge.time.endswith("+00:00")
    assert charge.hash == ledger.head


def test_the_refusal_states_budget_spent_asked_and_left(ledger):
    record(ledger)
    with pytest.raises(BudgetExceededError) as caught:
        ledger.require(Fraction(3, 4))
    error = caught.value
    assert (error.budget, error.spent, error.asked, error.left) == (
        1,
        Fraction(1, 3),
        Fraction(3, 4),
        Fraction(2, 3),
    )


def test_a_refusal_at_the_commit_does_not_claim_that_nothing_was_read(ledger):
    record(ledger, "a", "2/3")
    with pytest.raises(BudgetExceededError, match="no record was read"):
        ledger.require(Fraction(2, 3))
    with pytest.raises(BudgetExceededError, match="took the budget meanwhile") as caught:
        record(ledger, "b", "2/3")
    assert "no record was read" not in str(caught.value)
    assert "budget 1, spent 2/3" in str(caught.value)


def test_a_record_over_budget_changes_nothing(ledger):
    record(ledger, "a", "2/3")
    head = ledger.head
    with pytest.raises(BudgetExceededError):
        record(ledger, "b", "2/3")
    assert (ledger.head, ledger.spent) == (head, Fraction(2, 3))
    assert ledger.find("b") is None


def test_what_is_recorded_outlives_the_process_byte_for_byte(path):
    with Ledger.open(path, budget=Fraction(1)) as ledger:
        stored = record(ledger)
        head = ledger.head
    with Ledger.read(path) as ledger:
        assert ledger.head == head
        assert ledger.find("r").encode() == stored.encode() == measurement().encode()


def test_the_first_measurement_of_a_release_is_the_only_one(ledger):
    first = record(ledger, values=(1,))
    second = record(ledger, values=(2,))
    assert second.encode() == first.encode()
    assert len(ledger.charges) == 1


def test_a_ledger_keeps_the_budget_it_was_created_with(path, ledger):
    with pytest.raises(LedgerError, match=r"budget 1, but the plan says 2.*budget = \"1\""):
        Ledger.open(path, budget=Fraction(2))


@pytest.mark.parametrize("budget", [Fraction(0), Fraction(-1), 1.5, 1])
def test_a_budget_is_a_positive_fraction(tmp_path, budget):
    with pytest.raises(InterfaceError):
        Ledger.open(tmp_path / "new.ledger", budget=budget)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("table", ["ledger", "charges"])
@pytest.mark.parametrize("change", ["UPDATE {} SET rowid = 7", "DELETE FROM {}"])
def test_rows_are_never_changed_or_deleted(path, ledger, table, change):
    record(ledger)
    with sqlite3.connect(path) as connection, pytest.raises(sqlite3.Error, match="append-only"):
        connection.execute(change.format(table))
    connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE charges SET epsilon = '1/300' WHERE number = 1",
        "UPDATE charges SET analysts = '[\"eve\"]' WHERE number = 1",
        "UPDATE charges SET mechanism = 'other' WHERE number = 2",
        "UPDATE charges SET time = '2000-01-01' WHERE number = 2",
        "UPDATE charges SET release = 'other' WHERE number = 2",
        "UPDATE charges SET measurement = '{}' WHERE number = 1",
        "UPDATE charges SET measurement = CAST('{}' AS BLOB) WHERE number = 1",
        "UPDATE charges SET digest = 'x' WHERE number = 1",
        "UPDATE charges SET hash = 'x' WHERE number = 2",
        "UPDATE charges SET number = 5 WHERE number = 2",
        "DELETE FROM charges WHERE number = 1",
        "UPDATE ledger SET budget = '100'",
        "UPDATE ledger SET created = '2000-01-01'",
        "UPDATE ledger SET hash = 'x'",
        "UPDATE ledger SET budget = x'31'",
        "UPDATE charges SET epsilon = x'312f33' WHERE number = 1",
        "DELETE FROM ledger",
        "CREATE TABLE other (x)",
        "CREATE TRIGGER t AFTER INSERT ON charges BEGIN SELECT 1; END",
    ],
)
def test_a_ledger_that_was_changed_is_refused(path, ledger, statement):
    record(ledger, "a")
    record(ledger, "b")
    ledger.close()
    tamper(path, statement)
    with pytest.raises(LedgerError, match=r"cannot be trusted.*restore"):
        Ledger.read(path)


def test_the_budget_of_a_ledger_without_charges_is_protected_too(path, ledger):
    ledger.close()
    tamper(path, "UPDATE ledger SET budget = '100'")
    with pytest.raises(LedgerError, match="cannot be trusted"):
        Ledger.read(path)


def contents(path):
    with Ledger.read(path) as ledger:
        stored = [ledger.find(charge.release).encode() for charge in ledger.charges]
        return ledger.heads, ledger.budget, stored


def test_a_flipped_byte_anywhere_is_noticed_or_harmless(path, ledger):
    record(ledger, "a", values=range(300))
    record(ledger, "b", values=range(300))
    ledger.close()
    sound, whole = contents(path), path.read_bytes()
    refused = 0
    for place in random.SystemRandom().sample(range(len(whole)), 250):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        try:
            assert contents(path) == sound, place  # It was space that nothing is kept in.
        except LedgerError:
            refused += 1
        for leftover in path.parent.glob("people.ledger-*"):
            leftover.unlink()
    assert refused > 20


@pytest.mark.parametrize("page", range(2, 8))
def test_a_page_of_zeros_is_noticed_or_harmless(path, ledger, page):
    record(ledger, "a", values=range(3000))
    ledger.close()
    sound, whole = contents(path), bytearray(path.read_bytes())
    whole[4096 * (page - 1) : 4096 * page] = bytes(4096)
    path.write_bytes(whole)
    with pytest.raises(LedgerError):
        assert contents(path) != sound


def test_commits_are_synced_to_the_disk(ledger):
    def pragma(name):
        return ledger._connection.execute(f"PRAGMA {name}").fetchone()[0]

    assert (pragma("synchronous"), pragma("journal_mode")) == (2, "wal")
    assert pragma("busy_timeout") == 60_000


def test_the_name_of_a_ledger_is_synced_before_anything_is_charged_to_it(ledger, monkeypatch):
    synced = []
    sync = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda file: (synced.append(os.readlink(f"/proc/self/fd/{file}")), sync(file))
    )
    ledger.require(Fraction(1, 3))
    assert str(ledger.path.parent) in synced


def test_a_folder_that_cannot_be_synced_is_refused(ledger, monkeypatch):
    def failing(_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(LedgerError, match="cannot be synced to its disk"):
        ledger.require(Fraction(1, 3))


def test_a_pinned_head_may_be_any_that_the_ledger_has_had(path, ledger):
    heads = [ledger.head]
    for release in "ab":
        record(ledger, release)
        heads.append(ledger.head)
    assert ledger.heads == tuple(heads)
    for head in heads:
        Ledger.open(path, budget=Fraction(1), head=head).close()
    with pytest.raises(LedgerError, match="never had the head 0000"):
        Ledger.open(path, budget=Fraction(1), head="0" * 64)


def test_a_pinned_ledger_that_is_gone_is_not_made_anew(path):
    with pytest.raises(LedgerError, match="pins its head"):
        Ledger.open(path, budget=Fraction(1), head="0" * 64)
    assert not path.exists()


def as_nobody(work):
    """Run ``work`` in a process whose user may write nowhere; return the text it ends with."""
    receiver, sender = os.pipe()
    if os.fork() == 0:
        try:
            if os.getuid() == 0:
                os.setuid(65534)
            text = work()
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
        os.write(sender, text.encode())
        os._exit(0)
    os.close(sender)
    with open(receiver) as file:
        text = file.read()
    os.wait()
    return text


@pytest.fixture
def read_only(tmp_path_factory, path, ledger):
    """Return a ledger with one charge, in a folder that cannot be written to."""
    record(ledger)
    ledger.close()
    for folder in (path.parent, *path.parent.parents):
        if folder.stat().st_uid == os.getuid() and folder.stat().st_mode & 0o777 == 0o700:
            folder.chmod(0o755)  # Parallel runs put one more folder of their own in between.
    path.chmod(0o444)
    path.parent.chmod(0o555)
    yield path
    path.parent.chmod(0o755)


def test_a_ledger_in_a_read_only_folder_can_be_read(read_only):
    def work():
        with Ledger.read(read_only) as ledger:
            ledger.verify()
            return f"{ledger.spent} {ledger.find('r').release}"

    assert as_nobody(work) == "1/3 r"


@pytest.fixture
def linked(tmp_path, read_only):
    """Return a link, in a folder that cannot be written to, to an open ledger with one charge.

    The charge is in the write-ahead file, which is next to the ledger and not next to the link.
    """
    real, links = tmp_path / "real", tmp_path / "links"
    read_only.parent.chmod(0o755)
    real.mkdir()
    links.mkdir()
    with Ledger.open(real / "people.ledger", budget=Fraction(1)) as ledger:
        record(ledger)
        assert (real / "people.ledger-wal").stat().st_size
        link = links / "link.ledger"
        link.symlink_to(real / "people.ledger")
        links.chmod(0o555)
        for file in real.iterdir():
            file.chmod(0o666)
        yield link
    links.chmod(0o755)
    real.chmod(0o755)


@pytest.mark.parametrize("writable", [True, False])
def test_a_link_to_a_ledger_is_read_with_the_ledgers_own_write_ahead_file(linked, writable):
    linked.resolve().parent.chmod(0o777 if writable else 0o555)

    def work():
        with Ledger.read(linked) as ledger:
            return str(ledger.left)

    text = as_nobody(work)
    assert text == "2/3" if writable else "releases in its write-ahead file" in text


def test_a_ledger_is_made_where_a_link_leads(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "link.ledger"
    link.symlink_to("real/people.ledger")
    with Ledger.open(link, budget=Fraction(1)) as ledger:
        ledger.require(Fraction(1))
    assert (tmp_path / "real" / "people.ledger").is_file()
    assert link.is_symlink()


def test_a_circle_of_links_is_no_ledger(tmp_path):
    (tmp_path / "a.ledger").symlink_to("b.ledger")
    (tmp_path / "b.ledger").symlink_to("a.ledger")
    with pytest.raises(LedgerError):
        Ledger.open(tmp_path / "a.ledger", budget=Fraction(1))


def test_a_ledger_in_a_read_only_folder_refuses_a_release_and_says_why(read_only):
    def work():
        with Ledger.read(read_only) as ledger:
            ledger.require(Fraction(1, 3))
        return ""

    assert "cannot be written to" in as_nobody(work)
    assert "Make the file and its folder writable" in as_nobody(work)


def test_a_ledger_is_not_made_in_a_read_only_folder(read_only):
    new = read_only.with_name("new.ledger")

    def work():
        Ledger.open(new, budget=Fraction(1)).close()
        return ""

    assert "cannot be written to" in as_nobody(work)


def test_a_ledger_that_is_changed_while_open_refuses_to_record(path, ledger):
    record(ledger, "a")
    tamper(path, "UPDATE charges SET epsilon = '1/300'")
    with pytest.raises(LedgerError, match="cannot be trusted"):
        record(ledger, "b")


def test_a_ledger_without_its_triggers_is_refused(path, ledger):
    ledger.close()
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TRIGGER charges_delete")
    connection.close()
    with pytest.raises(LedgerError, match="cannot be trusted"):
        Ledger.read(path)


def test_a_restored_older_copy_has_another_head(path, tmp_path, ledger):
    record(ledger, "a")
    ledger.close()
    shutil.copy(path, tmp_path / "old")
    with Ledger.read(path) as later:
        record(later, "b")
        head = later.head
    with Ledger.read(tmp_path / "old") as restored:
        assert restored.head != head


@pytest.mark.parametrize("content", [b"", b"hello", b"SQLite format 3\0" + b"\0" * 200])
def test_a_file_that_is_no_ledger_is_refused_and_left_as_it_is(path, content):
    path.write_bytes(content)
    with pytest.raises(LedgerError, match=r"people\.ledger"):
        Ledger.open(path, budget=Fraction(1))
    assert path.read_bytes() == content


def test_a_truncated_ledger_is_refused(path, ledger):
    record(ledger, values=range(5000))
    ledger.close()
    path.write_bytes(path.read_bytes()[: 4096 * 3])
    with pytest.raises(LedgerError):
        Ledger.open(path, budget=Fraction(1))


def test_a_ledger_of_a_newer_version_is_refused(path, ledger):
    ledger.close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 2")
    connection.close()
    with pytest.raises(LedgerError, match="use a newer sqlmadp"):
        Ledger.open(path, budget=Fraction(1))


def test_a_ledger_that_vanished_but_left_its_write_ahead_file_is_not_made_anew(path):
    path.with_name("people.ledger-wal").write_bytes(b"x")
    with pytest.raises(LedgerError, match="restore"):
        Ledger.open(path, budget=Fraction(1))


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(LedgerError, match="does not exist; create it"):
        Ledger.open(tmp_path / "nowhere" / "a.ledger", budget=Fraction(1))


def test_reading_never_creates_a_ledger(path):
    with pytest.raises(LedgerError, match="there is no ledger"):
        Ledger.read(path)
    assert not path.exists()


def test_creating_a_ledger_leaves_one_file(path, tmp_path):
    Ledger.open(path, budget=Fraction(1)).close()
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_shows_and_charges_nothing(ledger):
    pages = ledger._connection.execute("PRAGMA page_count").fetchone()[0]
    ledger._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(LedgerError, match="nothing is shown"):
        record(ledger, values=range(10_000))
    ledger._connection.execute("PRAGMA max_page_count = 1000000")
    assert ledger.charges == ()
    record(ledger)


def race(path, barrier, results, release):
    """Open (or create) the ledger at the same moment as the others, and try to spend 1/5."""
    barrier.wait()
    with Ledger.open(path, budget=Fraction(1)) as ledger:
        try:
            results.put(record(ledger, release, "1/5", values=[release]).encode())
        except BudgetExceededError:
            results.put(None)


def run_race(path, releases):
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(len(releases)), context.Queue()
    processes = [
        context.Process(target=race, args=(path, barrier, results, release)) for release in releases
    ]
    for process in processes:
        process.start()
    outcomes = [results.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
    return outcomes


def test_eight_processes_racing_for_a_budget_of_five_get_five_releases(path):
    outcomes = run_race(path, [f"r{number}" for number in range(8)])
    assert sum(outcome is not None for outcome in outcomes) == 5
    with Ledger.read(path) as ledger:
        assert ledger.spent == 1


def test_eight_processes_with_the_same_release_get_the_same_measurement_for_one_charge(path):
    outcomes = run_race(path, ["same"] * 8)
    assert len(set(outcomes)) == 1
    assert outcomes[0] is not None
    with Ledger.read(path) as ledger:
        assert len(ledger.charges) == 1


STORED = (
    b'{"release":"r","epsilon":"1/3","sensitivity":65536,"scale":196608.0,"metadata":{"k":[1]},'
    b'"blocks":[{"scope":["age"],"partitions":[[0,0,1]],"row_starts":[0,1,3],"columns":[0,0,1],'
    b'"entries":[65536,1,-1],"values":[70000,-3]}]}'
)
"""A measurement as the first version of ledgers stores it."""


def test_what_the_first_ledgers_hold_is_read():
    read = Measurement.decode(STORED)
    assert read.blocks[0].matrix.toarray().tolist() == [[65536, 0], [1, -1]]
    assert read.blocks[0].parts[0].pieces.tolist() == [0, 0, 1]
    assert read.values[0].tolist() == read.answers[0].tolist() == [70000, -3]
    assert (read.epsilon, read.scale, read.scales) == (Fraction(1, 3), 196608.0, (196608.0,))
    assert Measurement.decode(read.encode()).encode() == read.encode()


PRODUCTS = (
    b'{"release":"r","epsilon":"1","sensitivity":3,"scale":3.0,"metadata":{},"blocks":[{"scope":'
    b'["a","b"],"partitions":[[0,1],[0,1]],"factors":[{"row_starts":[0,2],"columns":[0,1],"entries"'
    b':[1,2]},{"row_starts":[0,1,2],"columns":[0,1],"entries":[1,1]}],"heights":[1,4],"values":'
    b"[7,-8]}]}"
)


def test_products_of_the_first_ledgers_are_read():
    read = Measurement.decode(PRODUCTS)
    (block,) = read.blocks
    assert isinstance(block, Products)
    assert block.matrix.toarray().tolist() == [[1, 0, 2, 0], [0, 4, 0, 8]]
    assert read.values[0].tolist() == [7, -8]
    assert Measurement.decode(read.encode()).encode() == read.encode()


SECOND = (
    b'{"format":2,"release":"r","epsilon":"1/3","sensitivity":9,"metadata":{"k":[1.5]},"partitions"'
    b':[{"pieces":[[4,0,0]],"steps":[[4,0,2]],"degrees":[[1,1,0]],"unit":6},{"pieces":[[2,0,1]],'
    b'"steps":[[2,0,0]],"degrees":[[2,0,0]],"unit":1}],"blocks":[{"scope":["age","sex"],'
    b'"partitions":[0,1],"weight":6,"grain":"1","scale":27.0,"values":[1,2,3,-4]},{"scope":["age"],'
    b'"partitions":[0],"matrix":{"row_starts":[0,1,3],"columns":[1,0,1],"entries":[2,-1,1]},'
    b'"grain":"1/6","scale":162.0,"values":[5,-6]},{"scope":["age","sex"],"partitions":[0,1],'
    b'"factors":[{"row_starts":[0,2],"columns":[0,1],"entries":[1,1]},{"row_starts":[0,1,2],'
    b'"columns":[0,1],"entries":[1,1]}],"heights":[0,1],"grain":"1/6","scale":162.0,"values":[7]}]}'
)
"""A measurement as ledgers store it since they have vertices; these bytes never change."""


def test_what_ledgers_hold_is_read_and_written_byte_for_byte():
    read = Measurement.decode(SECOND)
    assert read.encode() == SECOND
    assert [type(block) for block in read.blocks] == [Rows, Rows, Products]
    ramp = read.blocks[1].parts[0]
    assert (ramp.pieces.tolist(), ramp.steps.tolist()) == ([0, 0, 0, 0], [0, 2, 4, 6])
    assert (ramp.degrees.tolist(), ramp.unit) == ([1], 6)
    assert read.blocks[1].matrix.toarray().tolist() == [[0, 2], [-1, 1]]
    assert read.grains == (1, Fraction(1, 6), Fraction(1, 6))


def test_a_measurement_reads_back_as_it_was_written():
    ramp = Partition(
        np.array([0, 0, 1, 0]), np.array([0, 500, 0, 1000]), np.array([2, 0]), unit=1000
    )
    blocks = (
        Rows(("age", "sex"), (ramp, Partition.finest(2)), 7),
        Rows((), (), 0, sparse.csr_array(np.array([[3], [-4]]))),
        Rows(("age",), (ramp,), 0, sparse.csr_array(np.array([[1, 0, 0, -9]]))),
    )
    made = Measurement(
        release="r",
        blocks=blocks,
        values=(np.arange(8) - 2**62, np.array([2**63 - 1, -(2**63)]), np.array([5])),
        grains=(Fraction(7, 1000**2), Fraction(1), Fraction(1, 1000**2)),
        scales=(0.1 + 0.2, 1.0, 7e5),
        epsilon=Fraction(1, 3),
        sensitivity=2**40,
        metadata={"z": [1.5, None, "é"], "a": {"cuts": {}}},
    )
    read = Measurement.decode(made.encode())
    assert read.encode() == made.encode()
    assert [block.fingerprint for block in read.blocks] == [block.fingerprint for block in blocks]
    assert (read.epsilon, read.scales, read.grains) == (made.epsilon, made.scales, made.grains)
    assert (read.metadata, read.scale) == (made.metadata, 1.0)
    assert read.answers[2].tolist() == [5e-6]
    for mine, theirs in zip(read.values, made.values, strict=True):
        np.testing.assert_array_equal(mine, theirs)
        assert mine.dtype == np.int64


def test_a_plain_block_over_a_wide_column_is_stored_in_a_few_bytes():
    cells = np.arange(1_000_001)
    ramp = Partition(np.zeros_like(cells), cells, np.array([1]), unit=1_000_000)
    made = Measurement(
        release="r",
        blocks=(Rows(("a", "b"), (ramp, Partition.finest(1000)), 3),) * 2,
        values=(np.zeros(2000, dtype=np.int64),) * 2,
        grains=(Fraction(3, 10**6),) * 2,
        scales=(1.0,) * 2,
        epsilon=Fraction(1),
        sensitivity=6,
        metadata={},
    )
    stored = made.encode()
    assert len(stored) < 2 * 2 * 2000 + 1000
    assert Measurement.decode(stored).blocks[1].parts[0] == ramp
