"""A table may be many Parquet files: a pattern, a folder, a partitioned folder."""

import duckdb
import pytest

from sqlmadp.errors import SourceError
from sqlmadp.private.engines import Source, open_engine
from sqlmadp.table.domain import Column, Domain
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows

SALES = Domain(
    table="sales",
    columns=(
        Column(name="amount", type="integer", minimum=0, maximum=3),
        Column(name="year", type="integer", minimum=2023, maximum=2025, nullable=True),
        Column(name="city", type="category", values=("rome", "new york")),
    ),
)
AMOUNTS = Domain(table="sales", columns=SALES.columns[:1])


def by(domain, *names):
    return Rows(
        tuple(sorted(names)),
        tuple(Partition.finest(domain.column(name).size) for name in sorted(names)),
    )


def write(path, select):
    path.parent.mkdir(parents=True, exist_ok=True)
    duckdb.execute(f"COPY ({select}) TO '{path}' (FORMAT parquet)")


@pytest.fixture
def lake(tmp_path):
    """Return a folder partitioned by year and city, with files that are no part of it."""
    root = tmp_path / "lake"
    for year, city, amount in [(2023, "rome", 1), (2024, "new%20york", 2), (2024, "rome", 2)]:
        place = root / f"year={year}" / f"city={city}"
        write(place / "part-0.parquet", f"SELECT {amount} AS amount FROM range(2)")
    write(root / "year=2026" / "city=rome" / "a.parquet", "SELECT 3 AS amount")
    write(
        root / "year=__HIVE_DEFAULT_PARTITION__" / "city=rome" / "a.parquet", "SELECT 0 AS amount"
    )
    write(root / "_temporary" / "0" / "a.parquet", "SELECT 'canary' AS amount")
    (root / "_SUCCESS").touch()
    return root


LAKE = {"lake", "lake/", "lake/**/*.parquet", "lake/year=*/city=*/*.parquet"}


@pytest.mark.parametrize("location", sorted(LAKE))
def test_the_names_of_folders_are_columns(lake, counts_of, location):
    amounts, years = counts_of(location, SALES, [by(SALES, "amount"), by(SALES, "year")])
    assert amounts.tolist() == [1, 2, 4, 1, 0]
    assert years.tolist() == [2, 4, 0, 2]


@pytest.mark.parametrize("location", ["lake/", "lake/year=*/city=*/*.parquet"])
def test_spark_reads_the_same_folders_alike(lake, session, counts_of, location):
    marginals = [by(SALES, "amount", "city"), by(SALES, "year")]
    ours = counts_of(location, SALES, marginals)
    theirs = counts_of(f"spark://#{location}", SALES, marginals)
    assert [each.tolist() for each in theirs] == [each.tolist() for each in ours]


def test_a_pattern_counts_the_files_it_names(lake, counts_of):
    (amounts,) = counts_of("lake/year=2024/*/*.parquet", AMOUNTS, [by(AMOUNTS, "amount")])
    assert amounts.tolist() == [0, 0, 4, 0, 0]


def test_columns_may_be_in_any_order_but_not_of_different_types(tmp_path, counts_of):
    write(tmp_path / "d" / "a.parquet", "SELECT 1 AS amount, 'x' AS note")
    write(tmp_path / "d" / "b.parquet", "SELECT 'y' AS note, 2 AS amount")
    (amounts,) = counts_of("d", AMOUNTS, [by(AMOUNTS, "amount")])
    assert amounts.tolist() == [0, 1, 1, 0, 0]
    write(tmp_path / "d" / "c.parquet", "SELECT 'canary' AS amount, 'z' AS note")
    with pytest.raises(SourceError, match="differ in name or type") as caught:
        counts_of("d", AMOUNTS, [by(AMOUNTS, "amount")])
    assert "canary" not in str(caught.value)


def test_a_column_that_is_also_the_name_of_folders_is_refused(tmp_path, counts_of):
    write(tmp_path / "d" / "amount=1" / "a.parquet", "SELECT 2 AS amount")
    with pytest.raises(SourceError, match="also names of folders"):
        counts_of("d", AMOUNTS, [by(AMOUNTS, "amount")])


def test_folders_that_are_partitioned_differently_are_refused(tmp_path, counts_of):
    write(tmp_path / "d" / "year=2024" / "a.parquet", "SELECT 2 AS amount")
    write(tmp_path / "d" / "a.parquet", "SELECT 2 AS amount")
    with pytest.raises(SourceError, match="partitioned differently"):
        counts_of("d", AMOUNTS, [by(AMOUNTS, "amount")])


@pytest.mark.parametrize("location", ["empty", "empty/*.parquet"])
def test_a_folder_without_files_is_refused(tmp_path, counts_of, location):
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match=r"has no \.parquet file"):
        counts_of(location, AMOUNTS, [by(AMOUNTS, "amount")])


def test_the_connection_opens_no_other_file_of_the_folder(lake, tmp_path):
    engine = open_engine(Source(location="lake/year=2023/*/*.parquet", folder=tmp_path), table="t")
    other = lake / "year=2024" / "city=rome" / "part-0.parquet"
    with pytest.raises(duckdb.Error):
        engine.connection.execute(f"SELECT * FROM read_parquet('{other}')")
    engine.close()
