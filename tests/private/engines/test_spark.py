"""Spark: tables and Parquet files, counted there; nothing charged when it fails."""

import importlib
import shutil
from fractions import Fraction

import duckdb
import pytest

from sqlmadp.errors import SourceError
from sqlmadp.private import Ledger, measure
from sqlmadp.private.engines import Source, open_engine
from sqlmadp.private.ledger_binding import note_of
from sqlmadp.private.measure import READ_FAILED
from sqlmadp.table.domain import Column, Domain

AGES = Domain(table="people", columns=(Column(name="age", type="integer", minimum=0, maximum=3),))


@pytest.fixture
def people(session, tmp_path):
    """Return a Parquet file of three people, which is also Spark's table ``people``."""
    path = tmp_path / "people.parquet"
    duckdb.execute(f"COPY (SELECT unnest([1, 2, 2]) AS age, 'f' AS sex) TO '{path}'")
    session.sql("DROP TABLE IF EXISTS people")
    session.sql(f"CREATE TABLE people (age INT, sex CHAR(2)) USING parquet LOCATION '{path}'")
    return path


@pytest.fixture
def opened(tmp_path):
    def run(location):
        return open_engine(Source(location=location, folder=tmp_path), table="people")

    return run


@pytest.fixture
def release(tmp_path, block_of):
    def run(location):
        with Ledger.open(tmp_path / "people.ledger", budget=Fraction(1)) as ledger:
            return measure(
                [block_of(AGES, "age")],
                source=Source(location=location, folder=tmp_path),
                domain=AGES,
                ledger=ledger,
                release="ages",
                epsilon=Fraction(1, 3),
                analysts=[],
                mechanism="identity",
                metadata={},
            )

    return run


LOCATIONS = ["spark://", "spark://#people", "spark://#default.People", "spark://#people.parquet"]


@pytest.mark.parametrize("location", [*LOCATIONS, "local[1]#./people.parquet"])
def test_a_table_and_its_files_are_one_table(people, counts_of, opened, marginal_of, location):
    (ages,) = counts_of(location, AGES, [marginal_of(AGES, "age")])
    assert ages.tolist() == [0, 1, 2, 0, 0]  # The last cell is that of NULL.
    # The note is stored next to the file, so that DuckDB and Spark find the same one.
    note = note_of(opened(location).identity.table)
    assert note == people.with_name("people.parquet.ledger-head")
    assert opened(location).identity == opened("people.parquet").identity


PATTERNS = ["spark://#./*.parquet", "spark://#file:{folder}/*.parquet", "*.parquet"]


@pytest.mark.parametrize("location", [*PATTERNS, "spark://#file:{folder}", "."])
def test_a_file_and_the_folder_it_is_in_are_charged_to_one_ledger(
    people, opened, location, tmp_path
):
    one = opened("people.parquet").identity
    folder = opened(location.format(folder=tmp_path)).identity
    assert folder.table == f"file:{tmp_path.resolve()}"
    assert one.table in folder.related
    assert folder.table in one.related


def test_the_users_session_keeps_its_settings(people, session, counts_of, marginal_of):
    session.conf.set("spark.sql.ansi.enabled", "false")
    try:
        counts_of("spark://#people", AGES, [marginal_of(AGES, "age")])
        assert session.conf.get("spark.sql.ansi.enabled") == "false"
    finally:
        session.conf.unset("spark.sql.ansi.enabled")


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("spark://#missing", "has no table 'missing'"),
        ("spark://#seen", "a view is refused"),
        ("spark://#missing.parquet", "there is no file"),
        ("spark://#file:/nowhere/missing.parquet", "cannot be opened as Parquet"),
        ("spark://127.0.0.1:1#people", "session with another master"),
    ],
)
def test_a_source_that_cannot_be_opened_says_why(people, session, opened, location, message):
    session.sql("CREATE OR REPLACE VIEW seen AS SELECT * FROM people")
    try:
        with pytest.raises(SourceError, match=message) as caught:
            opened(location)
        assert caught.value.__context__ is None
    finally:
        session.sql("DROP VIEW seen")


def test_files_that_are_gone_when_they_are_counted_charge_nothing(people, release, tmp_path):
    spark = importlib.import_module("sqlmadp.private.engines.spark")
    kept = tmp_path / "kept"
    right = spark.SparkTable.counts

    def gone(self, select):
        people.rename(kept)
        return right(self, select)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spark.SparkTable, "counts", gone)
        with pytest.raises(SourceError) as caught:
            release("spark://#people.parquet")
    assert str(caught.value) == READ_FAILED
    assert caught.value.__context__ is None
    with Ledger.read(tmp_path / "people.ledger") as ledger:
        assert ledger.spent == 0
    shutil.move(kept, people)
    assert release("spark://#people.parquet").epsilon == Fraction(1, 3)


def test_without_a_session_the_active_one_cannot_be_meant(opened, monkeypatch):
    sql = pytest.importorskip("pyspark.sql")
    monkeypatch.setattr(sql.SparkSession, "getActiveSession", classmethod(lambda cls: None))
    with pytest.raises(SourceError, match="and none is; name a master"):
        opened("spark://#people")
