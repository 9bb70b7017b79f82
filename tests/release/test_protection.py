"""Units and neighbours reach expected errors, certificates and the identity of a release."""

import duckdb
import pytest

from sqlmadp.errors import SourceError
from sqlmadp.files.plan import Plan
from sqlmadp.release.bound_plan import BoundPlan

ADULTS = "-- name: adults\nSELECT COUNT(*) AS n FROM visits WHERE age > 9"
UNIT = '[unit]\ncolumn = "age"\nmax_records = 3\n'


@pytest.fixture
def plan(plans):
    """Return a function that opens a plan whose schema has these lines besides its columns."""
    columns = (plans.folder / "visits.toml").read_text()

    def opened(top="", below=""):
        (plans.folder / "visits.toml").write_text(f"{top}\n{columns}\n{below}")
        return Plan.open(plans.write({"ana": ADULTS}, budget="9"))

    return opened


def rmse(plan):
    (statement,) = plan.preview("identity")["identity"].analysts["ana"].statements
    return statement.rmse


@pytest.mark.parametrize(
    ("top", "below", "times"),
    [("", UNIT, 3), ('neighbours = "replace"', "", 2), ('neighbours = "replace"', UNIT, 6)],
)
def test_expected_errors_grow_with_what_is_protected(plan, top, below, times):
    plain = rmse(plan())
    assert rmse(plan(top, below)) == pytest.approx(times * plain)


def test_the_certificate_states_what_is_protected_and_has_the_right_error(plan):
    plain = plan().release().certificate
    assert "epsilon 1 against adding or removing one record;" in repr(plain)
    unit = plan('neighbours = "replace"', UNIT).release().certificate
    protected = "replacing one 'age' with all of its records (at most 3 of them are counted);"
    assert f"epsilon 1 against {protected}" in repr(unit)
    # The error relative to asking one by one with the same protection stays; the plain one grows.
    assert unit.analysts["ana"].now == pytest.approx(plain.analysts["ana"].now)
    rmse = [each.analysts["ana"].statements[0].rmse for each in (plain, unit)]
    assert rmse[1] == pytest.approx(6 * rmse[0])


def test_another_protection_is_another_release(plan):
    known = {
        BoundPlan.bind(plan(top, below)).release_id
        for top in ("", 'neighbours = "replace"')
        for below in ("", UNIT, UNIT + 'nulls = "own"\n', UNIT + 'key = "day"\n')
    }
    assert len(known) == 8


def test_a_public_table_of_the_source_is_joined(plans, plan):
    with duckdb.connect(str(plans.folder / "visits.duckdb")) as connection:
        connection.execute(f"CREATE TABLE visits AS FROM '{plans.folder}/visits.parquet'")
        connection.execute("CREATE TABLE wards AS SELECT 'f' AS sex, 'north' AS ward")
    plan(below='[public.places]\ntable = "wards"\n')
    sql = "SELECT ward, COUNT(*) AS n FROM visits JOIN places USING (sex) GROUP BY ward"
    path = plans.write({"ana": sql}, source="visits.duckdb")
    assert [row[0] for row in Plan.open(path).release().results()["ana"]["q1"].tuples()] == [
        "north"
    ]


@pytest.mark.parametrize(
    ("source", "table", "message"),
    [
        ("visits.parquet", "wards", "holds no other table"),
        ("visits.duckdb", "visits", "is the private table itself"),
        ("visits.duckdb#main.visits", "MAIN.Visits", "is the private table itself"),
        ("visits.duckdb", "wards", "has no table 'wards'"),
    ],
)
def test_a_public_table_that_cannot_be_read_is_refused(plans, plan, source, table, message):
    with duckdb.connect(str(plans.folder / "visits.duckdb")) as connection:
        connection.execute(f"CREATE TABLE visits AS FROM '{plans.folder}/visits.parquet'")
    plan(below=f'[public.places]\ntable = "{table}"\n')
    with pytest.raises(SourceError, match=message):
        BoundPlan.bind(Plan.open(plans.write({"ana": ADULTS}, source=source)))


def test_a_password_in_the_plan_is_not_part_of_its_text(plans):
    path = plans.write({"ana": ADULTS}, source="postgresql://u:secret-7310@127.0.0.1:1/db")
    assert "secret" not in repr(Plan.open(path))
