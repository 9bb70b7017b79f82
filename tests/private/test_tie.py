"""The budget belongs to the data: a second ledger for the same table is refused."""

import shutil
from fractions import Fraction

import duckdb
import pytest

from sqlmadp.errors import LedgerError
from sqlmadp.private import Ledger
from sqlmadp.private.engines import Source, open_engine
from sqlmadp.private.tie import note_of, tie


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
        pytest.raises(LedgerError, match="budget belongs to the data"),
    ):
        measure_people(ledger=other)
    with Ledger.read(tmp_path / "other.ledger") as other:
        assert other.spent == 0


@pytest.mark.parametrize("spelling", ["./people.parquet", "x/../people.parquet", "link.parquet"])
def test_another_spelling_of_the_path_is_the_same_table(measure_people, tmp_path, spelling):
    (tmp_path / "x").mkdir()
    (tmp_path / "link.parquet").symlink_to("people.parquet")
    measure_people()
    with new_ledger(tmp_path) as other, pytest.raises(LedgerError, match="does not continue it"):
        measure_people(ledger=other, source=Source(location=spelling, folder=tmp_path))


def test_a_deleted_ledger_is_noticed(measure_people, ledger, tmp_path):
    measure_people()
    ledger.close()
    for path in tmp_path.glob("people.ledger*"):
        path.unlink()
    with (
        Ledger.open(tmp_path / "people.ledger", budget=Fraction(1)) as anew,
        pytest.raises(LedgerError, match="a new one or an older copy"),
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
        pytest.raises(LedgerError, match="older copy"),
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
    def denied(*arguments, **options):
        raise PermissionError

    monkeypatch.setattr("sqlmadp.private.tie.tempfile.TemporaryDirectory", denied)
    measure_people()
    assert not note.exists()
    assert len(ledger.charges) == 1


def test_all_tables_of_one_database_file_are_charged_to_one_ledger(tmp_path):
    with duckdb.connect(str(tmp_path / "people.duckdb")) as connection:
        connection.execute("CREATE TABLE a (n INTEGER); CREATE TABLE b (n INTEGER)")
    identities = set()
    for table in "ab":
        source = Source(location=f"people.duckdb#{table}", folder=tmp_path)
        engine = open_engine(source, table="a")
        identities.add(engine.identity)
        engine.close()
    assert len({note_of(identity) for identity in identities}) == 1


def test_a_pattern_and_its_folder_are_charged_to_one_ledger(tmp_path):
    (tmp_path / "data" / "year=2024").mkdir(parents=True)
    duckdb.execute(f"COPY (SELECT 1 AS n) TO '{tmp_path}/data/year=2024/a.parquet'")
    notes = set()
    for location in ("data", "data/", "data/*/*.parquet", "data/year=*/a.parquet"):
        engine = open_engine(Source(location=location, folder=tmp_path), table="t")
        notes.add(note_of(engine.identity))
        engine.close()
    assert notes == {tmp_path.resolve() / "data.ledger-head"}


def test_the_note_of_a_table_in_a_server_is_kept_in_the_curators_folder(
    tmp_path, monkeypatch, ledger
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    tie("postgresql:7310/people/public.people", ledger)
    (note,) = (tmp_path / "state" / "sqlmadp").iterdir()
    assert note == note_of("postgresql:7310/people/public.people")
    assert "7310/people/public.people" in note.read_text()
    with new_ledger(tmp_path) as other:
        with pytest.raises(LedgerError, match="budget belongs to the data"):
            tie("postgresql:7310/people/public.people", other)
        tie("postgresql:7310/people/public.other", other)
