"""Sources are opened locked down and checked from their catalogue alone."""

from datetime import date
from pathlib import Path

import duckdb
import pyarrow.parquet
import pytest

from sqlmadp.errors import SourceError
from sqlmadp.private.data_vector import read_counts
from sqlmadp.private.engines import Source, open_engine
from sqlmadp.private.engines.catalogue import catalogue_problems, check_catalogue
from sqlmadp.table.domain import Column, Domain
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows

EVERY_TYPE = Domain(
    table="t",
    columns=(
        Column(name="word", type="category", values=("a", "b")),
        Column(name="code", type="category", values=(1, 2)),
        Column(name="flag", type="boolean"),
        Column(name="count", type="integer", minimum=0, maximum=9),
        Column(name="day", type="date", minimum=date(2020, 1, 1), maximum=date(2020, 12, 31)),
        Column(name="size", type="real", minimum=0, maximum=1),
    ),
)


@pytest.fixture
def database(tmp_path):
    """Return a function that runs statements in ``t.duckdb``."""

    def run(*statements):
        with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
            for statement in statements:
                connection.execute(statement)

    return run


GOOD_TABLE = (
    "CREATE TABLE t AS SELECT 'a' AS word, 1 AS code, true AS flag, 3 AS count, "
    "DATE '2020-02-02' AS day, 0.5::DOUBLE AS size"
)


def test_a_table_with_the_declared_columns_is_accepted_in_any_order_case_and_width(
    opened, database
):
    database(
        "CREATE TABLE t (extra BLOB, SIZE DECIMAL(9, 2), Day DATE, count UHUGEINT, "
        "code TINYINT, flag BOOLEAN, word ENUM('a', 'z'))",
        "INSERT INTO t VALUES ('x', 0.5, '2020-02-02', 3, 1, true, 'a')",
    )
    engine = opened("t.duckdb")
    assert catalogue_problems(engine, EVERY_TYPE) == ()
    assert read_counts(engine, EVERY_TYPE, [Rows((), (), 1)])[0].tolist() == [1]


def test_every_column_that_does_not_fit_is_named(opened, database):
    database(
        "CREATE TABLE t (word INTEGER, code VARCHAR, flag INTEGER, count DOUBLE, day TIME, "
        "size VARCHAR, other INTEGER)"
    )
    engine = opened("t.duckdb")
    messages = [problem.message for problem in catalogue_problems(engine, EVERY_TYPE)]
    assert messages == [
        "column 'word' is stored as INTEGER, "
        "but the schema declares type 'category' with text values",
        "column 'code' is stored as VARCHAR, "
        "but the schema declares type 'category' with integer values",
        "column 'flag' is stored as INTEGER, but the schema declares type 'boolean'",
        "column 'count' is stored as DOUBLE, but the schema declares type 'integer'",
        "column 'day' is stored as TIME, but the schema declares type 'date'",
        "column 'size' is stored as VARCHAR, but the schema declares type 'real'",
    ]
    with pytest.raises(SourceError, match="Store it as a DATE or TIMESTAMP column") as caught:
        check_catalogue(engine, EVERY_TYPE)
    assert str(caught.value).count("t.duckdb: ") == 6


DAYS = Domain(
    table="t",
    columns=(Column(name="day", type="date", minimum=date(2020, 1, 1), maximum=date(2020, 1, 3)),),
)
BY_DAY = Rows(("day",), (Partition.finest(4),), 1)


@pytest.mark.parametrize("stored", ["TIMESTAMP", "TIMESTAMP_NS", "TIMESTAMPTZ"])
def test_a_timestamp_is_read_as_its_day(opened, database, stored):
    ends = "" if stored == "TIMESTAMP_NS" else ", ('infinity'), ('-infinity')"
    database(
        f"CREATE TABLE t (day {stored})",
        "INSERT INTO t VALUES ('2020-01-01 23:59:59.9'), ('2020-01-02 00:00:00'), (NULL), "
        f"('1999-01-01'), ('2020-01-02 12:00:00'){ends}",
    )
    engine = opened("t.duckdb")
    assert catalogue_problems(engine, DAYS) == ()
    (counts,) = read_counts(engine, DAYS, [BY_DAY])
    assert counts.tolist() == [1, 2, 0, 2 + (2 if ends else 0)]


def test_timestamps_that_a_record_could_make_unreadable_are_refused(opened, tmp_path):
    days = {unit: pyarrow.array([0, 2**62], pyarrow.timestamp(unit)) for unit in ("ms", "us", "ns")}
    for unit, values in days.items():
        pyarrow.parquet.write_table(pyarrow.table({"day": values}), tmp_path / f"{unit}.parquet")
    (problem,) = catalogue_problems(opened("ms.parquet"), DAYS)
    assert "stored as TIMESTAMP in milliseconds" in problem.message
    for unit in ("us", "ns"):
        (counts,) = read_counts(opened(f"{unit}.parquet"), DAYS, [BY_DAY])
        assert counts.tolist() == [0, 0, 0, 2]


def test_a_list_of_integers_is_no_integer(opened, database):
    database("CREATE TABLE t (count INTEGER[], n INTEGER)")
    problems = catalogue_problems(opened("t.duckdb"), EVERY_TYPE)
    assert "stored as INTEGER[]" in "".join(problem.message for problem in problems)


def test_a_list_of_an_enumeration_is_no_enumeration(opened, database):
    database("CREATE TABLE t (count ENUM('a', 'b')[], n ENUM('a', 'b'))")
    count, n = opened("t.duckdb").columns
    assert (count.kind, count.constraints.values) == ("other", None)
    assert (n.kind, n.constraints.values) == ("text", ("a", "b"))


def test_missing_columns_are_named_with_those_there_are(opened, database):
    database("CREATE TABLE t (wrod VARCHAR)")
    problems = catalogue_problems(opened("t.duckdb"), EVERY_TYPE)
    assert len(problems) == 6
    assert problems[0].code == "missing-column"
    assert problems[0].message == "the table has no column 'word', which the schema declares"
    assert problems[0].hint.endswith("The table has: 'wrod'.")


def test_the_first_record_of_a_headless_csv_file_is_never_quoted(opened, tmp_path):
    (tmp_path / "t.csv").write_text("canary,1,true,3,2020-01-01,0.5\n")
    with pytest.raises(SourceError, match="first line of the file a header") as caught:
        check_catalogue(opened("t.csv"), EVERY_TYPE)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"a,,b\n", b"a,A\n", b"canary\xff\xfe,b\n"])
def test_a_csv_file_without_a_usable_header_is_refused(opened, tmp_path, content):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(SourceError, match="no usable header") as caught:
        opened("t.csv")
    assert caught.value.__context__ is None
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("missing.parquet", "does not exist"),
        ("missing.csv", "does not exist"),
        ("missing.duckdb#t", "does not exist"),
        ("t.xlsx", "unknown kind"),
        ("", "unknown kind"),
        ("mysql://host/db", "not supported"),
        ("junk.parquet", "cannot be opened as a Parquet file"),
        ("junk.duckdb", "cannot be opened as a DuckDB database"),
        ("junk.csv#t", "leave the '#'"),
        ("t.duckdb#other", "has no table 'other'"),
        ("t.duckdb#view_of_t", "a view is refused"),
    ],
)
def test_a_source_that_cannot_be_opened_says_why(opened, database, tmp_path, location, message):
    database(GOOD_TABLE, "CREATE VIEW view_of_t AS SELECT * FROM t")
    for name in ("junk.parquet", "junk.duckdb", "junk.csv"):
        (tmp_path / name).write_bytes(b"canary" * 1000)
    with pytest.raises(SourceError, match=message) as caught:
        opened(location)
    assert caught.value.__context__ is None
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    "location", ["t.duckdb", "t.duckdb#T", "t.duckdb#main.t", "t.duckdb#s.other", "sub/../t.duckdb"]
)
def test_a_table_is_found_by_name_or_by_the_schema_files(opened, database, location, tmp_path):
    (tmp_path / "sub").mkdir()
    database(GOOD_TABLE, "CREATE SCHEMA s", "CREATE TABLE s.other AS FROM t")
    assert read_counts(opened(location), EVERY_TYPE, [Rows((), (), 1)])[0].tolist() == [1]


@pytest.mark.parametrize("name", ["it's.parquet", "k=v.parquet", "-.parquet", "é b.parquet"])
def test_an_odd_file_name_is_a_file_name(opened, tmp_path, name):
    with duckdb.connect() as connection:
        connection.execute(GOOD_TABLE)
        connection.execute(f"COPY t TO '{tmp_path}/made.parquet'")
    (tmp_path / "made.parquet").rename(tmp_path / name)
    assert read_counts(opened(name), EVERY_TYPE, [Rows((), (), 1)])[0].tolist() == [1]


@pytest.mark.parametrize("name", ["a*.parquet", "a?.csv", "[a].csv"])
def test_a_file_name_that_reads_as_a_pattern_is_refused(opened, tmp_path, name):
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(SourceError, match="pattern of many files"):
        opened(name)


@pytest.mark.parametrize("location", ["t.parquet", "t.csv", "t.duckdb"])
def test_the_connection_can_do_nothing_but_read_its_table(opened, database, tmp_path, location):
    database(GOOD_TABLE, f"COPY t TO '{tmp_path}/t.parquet'", f"COPY t TO '{tmp_path}/t.csv'")
    (tmp_path / "other.csv").write_text("a\n1\n")
    connection = opened(location).connection
    for statement in (
        f"SELECT * FROM read_csv('{tmp_path}/other.csv')",
        f"COPY (SELECT 1) TO '{tmp_path}/out.csv'",
        f"ATTACH '{tmp_path}/new.duckdb'",
        "SET enable_external_access = true",
        "SET threads = 1",
        f"SET temp_directory = '{tmp_path}'",
        "INSTALL httpfs",
        "LOAD httpfs",
    ):
        with pytest.raises(duckdb.Error):
            connection.execute(statement)
    assert {path.name for path in tmp_path.iterdir()} == {
        "t.parquet",
        "t.csv",
        "t.duckdb",
        "other.csv",
    }


def test_a_database_is_never_written_to(opened, database):
    database(GOOD_TABLE)
    with pytest.raises(duckdb.Error):
        opened("t.duckdb").connection.execute("DELETE FROM t")


def test_an_absolute_location_does_not_start_from_the_plan(database, tmp_path):
    database(GOOD_TABLE)
    source = Source(location=str(tmp_path / "t.duckdb"), folder=Path("/nowhere"))
    open_engine(source, table="t").close()
