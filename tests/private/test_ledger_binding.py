"""The budget belongs to the data: a second ledger for the same table is refused."""

import json
import os
import shutil
import threading
from fractions import Fraction
from pathlib import Path, PurePosixPath

import duckdb
import pytest
from click.testing import CliRunner

from sqlmadp.cli import main
from sqlmadp.errors import LedgerError
from sqlmadp.files.plan import Plan
from sqlmadp.private import Ledger, ledger_binding
from sqlmadp.private.engines import Identity, Source, open_engine
from sqlmadp.private.engines.files import identity_of_files, split_location
from sqlmadp.private.ledger_binding import bind, note_of


@pytest.fixture
def note(people_source):
    """Return the note beside the table, whether it is there or not."""
    return note_of(f"file:{(people_source.folder / people_source.location).resolve()}")


def new_ledger(folder, name="other.ledger"):
    return Ledger.open(folder / name, budget=Fraction(5))


def test_a_second_ledger_for_the_same_table_is_refused(measure_people, tmp_path):
    measure_people()
    with (
        new_ledger(tmp_path) as other,
        pytest.raises(LedgerError, match=r"path = .*people\.ledger.* under"),
    ):
        measure_people(ledger=other)
    with Ledger.read(tmp_path / "other.ledger") as other:
        assert other.spent == 0


@pytest.mark.parametrize("spelling", ["./people.parquet", "x/../people.parquet", "link.parquet"])
def test_another_spelling_of_the_path_is_the_same_table(measure_people, tmp_path, spelling):
    (tmp_path / "x").mkdir()
    (tmp_path / "link.parquet").symlink_to("people.parquet")
    measure_people()
    with (
        new_ledger(tmp_path) as other,
        pytest.raises(LedgerError, match="charged to another ledger"),
    ):
        measure_people(ledger=other, source=Source(location=spelling, folder=tmp_path))


def test_a_deleted_ledger_is_noticed(measure_people, ledger, tmp_path):
    measure_people()
    ledger.close()
    for path in tmp_path.glob("people.ledger*"):
        path.unlink()
    with (
        Ledger.open(tmp_path / "people.ledger", budget=Fraction(1)) as anew,
        pytest.raises(LedgerError, match=r"missing or out of date.*Restore people\.ledger"),
    ):
        measure_people(ledger=anew)


def test_a_restored_older_copy_is_noticed(measure_people, ledger, tmp_path):
    measure_people()
    ledger.close()
    shutil.copy(tmp_path / "people.ledger", tmp_path / "copy")
    with Ledger.read(tmp_path / "people.ledger") as later:
        measure_people(ledger=later, release="second")
    shutil.copy(tmp_path / "copy", tmp_path / "people.ledger")
    with (
        Ledger.read(tmp_path / "people.ledger") as restored,
        pytest.raises(LedgerError, match="missing or out of date"),
    ):
        measure_people(ledger=restored, release="third")


def test_a_ledger_that_moved_is_the_same_ledger(measure_people, ledger, tmp_path):
    measure_people()
    ledger.close()
    (tmp_path / "people.ledger").rename(tmp_path / "moved.ledger")
    with Ledger.read(tmp_path / "moved.ledger") as moved:
        measure_people(ledger=moved, release="second")
        assert len(moved.charges) == 2


def test_a_completed_release_needs_no_note(measure_people, note):
    first = measure_people()
    note.write_text("nonsense")
    assert measure_people().encode() == first.encode()
    with pytest.raises(LedgerError, match="cannot be read"):
        measure_people(release="second")


def test_a_note_that_was_removed_is_made_again(measure_people, note, ledger):
    measure_people()
    note.unlink()
    measure_people(release="second")
    assert ledger.head in note.read_text()


def test_a_table_in_a_folder_that_cannot_be_written_to_has_no_note(
    measure_people, note, monkeypatch, ledger
):
    monkeypatch.setattr("sqlmadp.private.ledger_binding.tempfile.TemporaryDirectory", denied)
    measure_people()
    assert not note.exists()
    assert len(ledger.charges) == 1


@pytest.mark.parametrize("made", ["a link that leads nowhere", "a pipe", "a folder"])
def test_a_note_that_is_no_file_is_refused(measure_people, note, ledger, made):
    match made:
        case "a link that leads nowhere":
            note.symlink_to("unmounted/note")
        case "a pipe":
            os.mkfifo(note)  # Reading it would wait for ever.
        case _:
            note.mkdir()
    with pytest.raises(LedgerError, match=r"cannot be read\. Nothing was read or spent"):
        measure_people()
    assert ledger.spent == 0


def test_all_tables_of_one_database_file_are_charged_to_one_ledger(tmp_path):
    with duckdb.connect(str(tmp_path / "people.duckdb")) as connection:
        connection.execute("CREATE TABLE a (n INTEGER); CREATE TABLE b (n INTEGER)")
    identities = set()
    for table in "ab":
        source = Source(location=f"people.duckdb#{table}", folder=tmp_path)
        engine = open_engine(source, table="a")
        identities.add(engine.identity)
        engine.close()
    assert len(identities) == 1


def test_a_pattern_and_its_folder_are_charged_to_one_ledger(tmp_path):
    (tmp_path / "data" / "year=2024").mkdir(parents=True)
    duckdb.execute(f"COPY (SELECT 1 AS n) TO '{tmp_path}/data/year=2024/a.parquet'")
    notes = set()
    for location in ("data", "data/", "data/*/*.parquet", "data/year=*/a.parquet"):
        engine = open_engine(Source(location=location, folder=tmp_path), table="t")
        notes.add(note_of(engine.identity.table))
        engine.close()
    assert notes == {tmp_path.resolve() / "data.ledger-head"}


FILES_AND_FOLDERS = ["people.parquet", "peopl?.parquet", "*.parquet", ".", "sub/../[p]*.parquet"]


@pytest.mark.parametrize("first", FILES_AND_FOLDERS)
@pytest.mark.parametrize("second", FILES_AND_FOLDERS)
def test_a_file_its_folder_and_its_patterns_are_charged_to_one_ledger(
    measure_people, tmp_path, first, second
):
    (tmp_path / "sub").mkdir()
    measure_people(source=Source(location=first, folder=tmp_path))
    spelled = Source(location=second, folder=tmp_path)
    with (
        new_ledger(tmp_path) as other,
        pytest.raises(LedgerError, match="charged to another ledger"),
    ):
        measure_people(source=spelled, ledger=other)
    measure_people(source=spelled, release="second")


def test_a_file_behind_a_link_in_a_folder_is_charged_to_one_ledger(measure_people, tmp_path):
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "part-0.parquet").symlink_to("../people.parquet")
    measure_people(source=Source(location="lake", folder=tmp_path))
    with (
        new_ledger(tmp_path) as other,
        pytest.raises(LedgerError, match="charged to another ledger"),
    ):
        measure_people(ledger=other)


def test_another_file_of_a_folder_may_be_charged_to_another_ledger(measure_people, tmp_path):
    shutil.copy(tmp_path / "people.parquet", tmp_path / "others.parquet")
    measure_people()
    others = Source(location="others.parquet", folder=tmp_path)
    with new_ledger(tmp_path) as other:
        measure_people(source=others, ledger=other)
        everyone = Source(location="*.parquet", folder=tmp_path)
        with pytest.raises(LedgerError, match="charged to another ledger"):
            measure_people(source=everyone, ledger=other, release="everyone")


def test_the_files_of_a_server_have_names_like_those_of_a_disk():
    scheme, root = split_location("hdfs://host/lake/{2023,2024}/*.parquet")
    files = [PurePosixPath("/lake/2023/a.parquet"), PurePosixPath("/elsewhere/b.parquet")]
    identity = identity_of_files(root, files, scheme)
    assert identity.names == ("hdfs://host/lake", "hdfs://host/elsewhere/b.parquet")
    assert "hdfs://host/lake/2023/a.parquet" in identity.related
    assert split_location("spark:catalogue.default.people") is None


@pytest.fixture
def killed(monkeypatch):
    """Return a function that runs another in a process that dies once it has charged."""
    write = ledger_binding._write

    def die(*arguments, new):
        if not new:
            raise SystemExit
        return write(*arguments, new=new)

    def run(release):
        with monkeypatch.context() as patch:
            patch.setattr(ledger_binding, "_write", die)
            with pytest.raises(SystemExit):
                release()

    return run


def test_a_note_that_was_not_written_after_a_charge_is_mended_before_answers_are_shown(
    plans, killed
):
    """Four releases of epsilon 1 were shown under a budget of 3."""
    plan, ledger = plans.folder / "plan.toml", plans.folder / "visits.ledger"

    def release(age):
        statement = f"SELECT COUNT(*) FROM visits WHERE age > {age}"
        plans.write({"ana": statement}, budget="3", mechanism="identity")
        return Plan.open(plan).release()

    release(1)
    release(2)
    older = Path(shutil.copy(ledger, plans.folder / "older"))
    killed(lambda: release(3))
    assert release(3).left == 0
    shutil.copy(older, ledger)
    with pytest.raises(LedgerError, match="missing or out of date"):
        release(4)


def test_showing_a_stored_release_repairs_its_note(plans, killed):
    path = plans.write({"ana": "SELECT COUNT(*) FROM visits"}, mechanism="identity")
    killed(lambda: Plan.open(path).release())
    note = plans.folder / "visits.parquet.ledger-head"
    with Ledger.read(plans.folder / "visits.ledger") as ledger:
        assert ledger.head not in note.read_text()
        Plan.open(path).released()
        assert ledger.head in note.read_text()


def test_a_note_that_cannot_be_written_is_spoken_of_and_mended_later(
    measure_people, note, monkeypatch, ledger
):
    said = []
    with monkeypatch.context() as full:
        full.setattr("sqlmadp.private.ledger_binding.os.replace", denied)
        full.setattr("sqlmadp.private.ledger_binding.os.link", denied)
        measure_people(notice=said.append)
    assert [str(note) in text and "another ledger" in text for text in said] == [True]
    measure_people(release="second", notice=said.append)
    assert ledger.head in note.read_text()
    assert len(said) == 1
    with monkeypatch.context() as full:
        full.setattr("sqlmadp.private.ledger_binding.os.replace", denied)
        measure_people(release="third", notice=said.append)
        measure_people(release="third", notice=said.append)
    assert [str(note) in text and "older copy" in text for text in said[1:]] == [True, True]
    measure_people(release="third", notice=said.append)
    assert ledger.head in note.read_text()
    assert len(said) == 3


def denied(*arguments, **options):
    raise PermissionError


def without_notes(source, target, *, replace=os.replace):
    """Put files in place, but no note."""
    if str(target).endswith(".ledger-head"):
        raise PermissionError
    replace(source, target)


def test_a_command_says_that_a_note_is_behind(plans, monkeypatch):
    path = plans.write({"ana": "SELECT COUNT(*) FROM visits"}, mechanism="identity")
    monkeypatch.setattr("sqlmadp.private.ledger_binding.os.replace", without_notes)
    query = ["query", path, "SELECT COUNT(*) FROM visits"]
    for command in (["release", path], query, ["release", "--quiet", path]):
        result = CliRunner().invoke(main, [str(each) for each in command])
        assert result.exit_code == 0
        assert "visits.parquet.ledger-head' cannot be brought up to date" in result.stderr


def test_two_charges_at_once_note_their_hashes_in_the_order_of_the_chain(
    measure_people, note, monkeypatch, ledger
):
    """A process that dies after any write must not leave an older hash than was noted before."""
    replace, noted, others = os.replace, [], []

    def second():
        with Ledger.read(ledger.path) as other:
            measure_people(release="second", ledger=other)

    def overtaken(*places):
        """Put a note in place while another process charges more and wants to note that."""
        if not others:
            others.append(threading.Thread(target=second))
            others[0].start()
            others[0].join(timeout=1)
        replace(*places)
        noted.append(json.loads(note.read_text())["head"])

    monkeypatch.setattr(os, "replace", overtaken)
    measure_people()
    others[0].join()
    assert len(ledger.charges) == 2
    places = [ledger.heads.index(head) for head in noted]
    assert places == sorted(places)
    assert ledger.head in note.read_text()


def test_a_note_that_could_not_be_written_is_made_when_a_stored_release_is_returned(
    measure_people, note, monkeypatch, ledger, tmp_path
):
    said = []
    with monkeypatch.context() as full:
        full.setattr("sqlmadp.private.ledger_binding.os.link", denied)
        measure_people(notice=said.append)
        assert not note.exists()
        measure_people(notice=said.append)
    assert [str(note) in text and "another ledger" in text for text in said] == [True, True]
    measure_people(notice=said.append)
    assert ledger.head in note.read_text()
    assert len(said) == 2


def test_no_note_is_made_for_a_table_that_is_gone(measure_people, note, people_source):
    measure_people()
    note.unlink()
    (people_source.folder / people_source.location).unlink()
    measure_people()
    assert not note.exists()


def test_the_note_of_a_table_in_a_server_is_kept_in_the_curators_folder(
    tmp_path, monkeypatch, ledger
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    people, others = (
        Identity(table=f"postgresql:7310/people/public.{name}") for name in ("people", "others")
    )
    bind(people, ledger)
    (note,) = (tmp_path / "state" / "sqlmadp").iterdir()
    assert note == note_of(people.table)
    assert "7310/people/public.people" in note.read_text()
    with new_ledger(tmp_path) as other:
        with pytest.raises(LedgerError, match=r"path = .*people\.ledger.* under"):
            bind(people, other)
        bind(others, other)
