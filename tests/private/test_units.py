"""At most so many records of a unit are counted, whichever other units there are."""

from dataclasses import replace
from random import Random

import duckdb
import numpy as np
import pytest

from sqlmadp.errors import SourceError
from sqlmadp.private.data_vector import read_counts
from sqlmadp.private.engines import Source, open_engine
from sqlmadp.private.engines.catalogue import catalogue_problems, check_catalogue
from sqlmadp.table.domain import Column, Domain, Unit
from sqlmadp.table.rows import Rows

UNIT = Unit(column="person", max_records=3, key=("visit",))
VISITS = Domain(
    table="visits",
    columns=(
        Column(name="age", type="integer", minimum=0, maximum=9, complete=True),
        Column(name="ward", type="category", values=("a", "b"), nullable=True),
    ),
    unit=UNIT,
)


@pytest.fixture
def count(tmp_path, marginal_of):
    """Return a function that counts records (person, visit, age, ward) by age and ward."""

    def run(records, domain=VISITS, marginal=None):
        path = tmp_path / "visits.duckdb"
        path.unlink(missing_ok=True)
        with duckdb.connect(str(path)) as connection:
            connection.execute(
                "CREATE TABLE visits (person VARCHAR, visit INTEGER, age INTEGER, ward VARCHAR)"
            )
            if records:
                columns = [list(column) for column in zip(*records, strict=True)]
                connection.execute(
                    "INSERT INTO visits SELECT unnest(?), unnest(?), unnest(?), unnest(?)", columns
                )
        engine = open_engine(Source(location=path.name, folder=tmp_path), table="visits")
        try:
            wanted = marginal or marginal_of(domain, "age", "ward")
            return read_counts(engine, domain, [wanted])[0]
        finally:
            engine.close()

    return run


def visits(person, ages, ward="a"):
    return [(person, visit, age, ward) for visit, age in enumerate(ages)]


def test_no_more_of_a_units_records_are_counted_than_declared(count):
    assert count(visits("p", range(10)) + visits("q", [1, 2])).sum() == 3 + 2


@pytest.mark.parametrize("key", [("visit",), ()])
def test_one_unit_moves_no_more_than_its_own_few_records(count, key):
    random = Random(7310)
    domain = replace(VISITS, unit=replace(UNIT, key=key))
    for _ in range(12):
        people = "pqrst"[: random.randint(1, 5)]
        records = [
            (person, random.randint(0, 5), random.randint(-1, 10), random.choice(["a", "b", None]))
            for person in people
            for _ in range(random.randint(1, 8))
        ]
        whole = count(records, domain)
        for person in people:
            without = count([record for record in records if record[0] != person], domain)
            owned = (whole - without).sum()
            assert np.abs(whole - without).sum() == owned <= UNIT.max_records


def test_what_is_counted_of_a_unit_does_not_follow_the_values_counted(count):
    ages = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    rising, falling = count(visits("p", ages)), count(visits("p", ages[::-1]))
    chosen = {int(cell) // 3 for cell in np.flatnonzero(rising)}
    assert {9 - int(cell) // 3 for cell in np.flatnonzero(falling)} == chosen
    assert chosen != {0, 1, 2}


def test_without_a_key_the_undeclared_columns_are_the_key(count):
    undeclared = replace(VISITS, unit=replace(UNIT, key=()))
    records = visits("p", range(10)) + visits("q", range(10))
    np.testing.assert_array_equal(count(records), count(records, undeclared))


def test_different_units_keep_different_records(count):
    kept = [tuple(np.flatnonzero(count(visits(f"p{n}", range(10))))) for n in range(8)]
    assert len(set(kept)) > 4


def test_records_that_are_counted_nowhere_do_not_use_a_unit_up(count):
    assert count([*visits("p", [-1] * 50), ("p", 77, 5, "a")]).sum() == 1


@pytest.mark.parametrize(("nulls", "counted"), [("drop", 3), ("own", 3 + 10)])
def test_records_of_nobody_are_dropped_or_units_of_their_own(count, nulls, counted):
    domain = replace(VISITS, unit=replace(UNIT, nulls=nulls))
    assert count(visits("p", range(10)) + visits(None, range(10)), domain).sum() == counted


def test_units_are_told_apart_by_every_byte(count):
    people = ["p", "P", "p ", "pé", "pe\u0301", ""]
    records = [record for person in people for record in visits(person, range(10))]
    assert count(records, marginal=Rows((), (), 1)).tolist() == [3 * len(people)]


def test_a_unit_that_the_table_does_not_have_is_refused(tmp_path):
    duckdb.execute(
        f"COPY (SELECT 1 AS age, 'a' AS ward, 0.5::DOUBLE AS person) TO '{tmp_path}/v.parquet'"
    )
    engine = open_engine(Source(location="v.parquet", folder=tmp_path), table="visits")
    messages = [problem.message for problem in catalogue_problems(engine, VISITS)]
    assert messages == [
        "column 'person' is stored as DOUBLE, but the schema's unit needs values to compare",
        "the table has no column 'visit', which the schema declares",
    ]
    with pytest.raises(SourceError, match="integers, text, dates or booleans"):
        check_catalogue(engine, VISITS)
    engine.close()
