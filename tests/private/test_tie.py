"""The budget belongs to the data: a second ledger for the same table is refused."""

import shutil
from dataclasses import replace
from fractions import Fraction

import pytest

from sqlmadp.errors import LedgerError
from sqlmadp.private import Ledger
from sqlmadp.private.engines import Source
from sqlmadp.private.tie import note_of


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


def test_a_completed_release_needs_no_note(measure_people, people_source):
    first = measure_people()
    note_of(people_source).write_text("nonsense")
    assert measure_people().encode() == first.encode()
    with pytest.raises(LedgerError, match="cannot be read"):
        measure_people(release="second")


def test_a_note_that_was_removed_is_made_again(measure_people, people_source, ledger):
    measure_people()
    note_of(people_source).unlink()
    measure_people(release="second")
    assert ledger.head in note_of(people_source).read_text()


def test_a_table_in_a_folder_that_cannot_be_written_to_has_no_note(
    measure_people, people_source, monkeypatch, ledger
):
    def denied(*arguments, **options):
        raise PermissionError

    monkeypatch.setattr("sqlmadp.private.tie.tempfile.TemporaryDirectory", denied)
    measure_people()
    assert not note_of(people_source).exists()
    assert len(ledger.charges) == 1


def test_all_tables_of_one_database_are_charged_to_one_ledger(people_source):
    database = replace(people_source, location="people.duckdb")
    assert note_of(replace(database, location="people.duckdb#t")) == note_of(database)
    assert note_of(replace(database, location="postgresql://host/people")) is None
