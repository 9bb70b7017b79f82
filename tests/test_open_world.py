"""Tables as they really are: NULLs and undeclared values everywhere, and every record counts."""

import random

import duckdb
import pytest
from people_table import same_rows

from sqlmadp.files.plan import Plan
from sqlmadp.release.bound_plan import BoundPlan
from sqlmadp.release.release import release

SCHEMA = """
table = "loans"

[columns.day]
type = "date"
min = 2025-03-01
max = 2025-03-31

[columns.district]
type = "category"
values = ["North", "South", "Harbour"]

[columns.sex]
type = "category"
values = ["f", "m"]
nullable = true

[columns.age]
type = "integer"
min = 0
max = 99

[columns.late]
type = "boolean"

[columns.fine]
type = "real"
min = 0.0
max = 50.0
"""

COMPLETE = SCHEMA.replace("nullable = true\n", "").replace("]\ntype", "]\ncomplete = true\ntype")

ROWS = 4_000

STATEMENTS = """
-- name: everybody
SELECT COUNT(*) AS n FROM loans;
-- name: by_district
SELECT district, COUNT(*) AS n FROM loans GROUP BY district;
-- name: by_sex
SELECT sex, COUNT(*) AS n FROM loans GROUP BY sex;
-- name: elsewhere
SELECT COUNT(*) AS n FROM loans WHERE district IS NULL;
-- name: days
SELECT COUNT(day) AS known, COUNT(*) AS n, SUM(age) AS years, AVG(age) AS mean FROM loans;
-- name: not_north
SELECT COUNT(*) AS n FROM loans WHERE district <> 'North' AND NOT late;
-- name: named
SELECT COALESCE(district, 'other') AS place, COUNT(*) AS n FROM loans GROUP BY place;
-- name: rolled
SELECT district, GROUPING(district) AS whole, COUNT(*) AS n FROM loans GROUP BY ROLLUP (district);
-- name: fines
SELECT fine < 10 AS small, COUNT(*) AS n FROM loans GROUP BY small
"""

AS_DECLARED = """
CREATE TABLE loans AS SELECT
    CASE WHEN TRY_CAST(day AS DATE) BETWEEN '2025-03-01' AND '2025-03-31'
        THEN TRY_CAST(day AS DATE) END AS day,
    CASE WHEN district IN ('North', 'South', 'Harbour') THEN district END AS district,
    CASE WHEN sex IN ('f', 'm') THEN sex END AS sex,
    CASE WHEN TRY_CAST(age AS BIGINT) BETWEEN 0 AND 99 THEN TRY_CAST(age AS BIGINT) END AS age,
    TRY_CAST(late AS BOOLEAN) AS late,
    CASE WHEN TRY_CAST(fine AS DOUBLE) BETWEEN 0 AND 50 THEN TRY_CAST(fine AS DOUBLE) END AS fine
FROM raw
"""


@pytest.fixture(scope="module")
def loans(tmp_path_factory):
    """Return a folder with a CSV file whose columns all have NULLs and undeclared values."""
    folder = tmp_path_factory.mktemp("loans")
    draw = random.Random(7310)
    pools = [
        [*(f"2025-03-{day:02}" for day in range(1, 32)), "28.03.2025", "2024-12-31", ""],
        ["North", "South", "Harbour", "north", "abroad", ""],
        ["f", "m", "x", ""],
        [*map(str, range(100)), "-1", "130", "unknown", ""],
        ["true", "false", "perhaps", ""],
        ["0", "2.5", "10", "49.99", "70", "1,5", ""],
    ]
    lines = ["day,district,sex,age,late,fine"]
    for _ in range(ROWS):
        lines.append(",".join(f'"{value}"' if value else "" for value in map(draw.choice, pools)))
    (folder / "loans.csv").write_text("\n".join(lines) + "\n")
    (folder / "loans.toml").write_text(SCHEMA)
    (folder / "promised.schema.toml").write_text(COMPLETE)
    (folder / "city.sql").write_text(STATEMENTS)
    return folder


def plan_of(folder, *, epsilon, name, schema="loans.toml"):
    path = folder / f"{name}.toml"
    path.write_text(
        f'schema = "{schema}"\nsource = "loans.csv"\nepsilon = "{epsilon}"\n[ledger]\n'
        f'path = "loans.ledger"\nbudget = "{10**10}"\n[analysts.city]\nqueries = "city.sql"\n'
    )
    return Plan.open(path)


def rows_of(plan):
    return {name: list(found.rows) for name, found in release(plan).results()["city"].items()}


@pytest.fixture(scope="module")
def exact(loans):
    """Return the rows of every statement at a huge epsilon."""
    return rows_of(plan_of(loans, epsilon=10**9, name="exact"))


@pytest.fixture(scope="module")
def reference(loans):
    """Return DuckDB with the table in which undeclared values are NULL."""
    connection = duckdb.connect()
    # A table of its own first: DuckDB would move the casts into the reader, and fail there.
    connection.execute(
        f"CREATE TABLE raw AS FROM read_csv('{loans}/loans.csv', all_varchar = true)"
    )
    connection.execute(AS_DECLARED)
    return connection


def test_the_count_of_all_records_is_within_noise_of_their_number(loans):
    noisy = release(plan_of(loans, epsilon=1, name="noisy"))
    everybody = noisy.rows("city", "everybody")
    ((counted,),) = everybody.rows
    assert abs(counted - ROWS) < 12 * everybody.rmse["n"][0]
    assert everybody.rmse["n"][0] < ROWS / 20


@pytest.mark.parametrize("name", ["everybody", "by_sex", "elsewhere", "days", "not_north", "named"])
def test_the_rows_are_those_of_duckdb_where_undeclared_values_are_null(exact, reference, name):
    text = next(part for part in STATEMENTS.split(";") if f"name: {name}\n" in part)
    theirs = reference.execute(text).fetchall()
    assert same_rows(exact[name], theirs)


def test_groups_add_up_to_everybody_with_a_declared_value(exact, reference):
    theirs = dict(reference.execute("SELECT district, COUNT(*) FROM loans GROUP BY 1").fetchall())
    undeclared = theirs.pop(None)
    assert dict(exact["by_district"]) == theirs
    assert exact["elsewhere"] == [(undeclared,)]
    assert undeclared > ROWS / 4
    assert sum(theirs.values()) + undeclared == ROWS


def test_the_total_of_a_rollup_is_everybody_and_the_group_of_null_is_hidden(exact):
    assert [row for row in exact["rolled"] if row[0] is None] == [(None, 1, ROWS)]


def test_a_comparison_of_what_is_undeclared_is_no_group(exact, reference):
    theirs = dict(reference.execute("SELECT fine < 10, COUNT(*) FROM loans GROUP BY 1").fetchall())
    assert dict(exact["fines"]) == {key: theirs[key] for key in (True, False)}


def test_a_promise_makes_another_release(loans):
    plain = BoundPlan.bind(plan_of(loans, epsilon=1, name="plain"))
    complete = BoundPlan.bind(
        plan_of(loans, epsilon=1, name="complete", schema="promised.schema.toml")
    )
    assert plain.release_id != complete.release_id
    assert [column.null_cell for column in complete.domain.columns] == [None] * 6


def test_a_record_that_breaks_a_promise_is_counted_nowhere(loans, reference):
    plan = plan_of(loans, epsilon=10**9, name="promised", schema="promised.schema.toml")
    results = rows_of(plan)
    kept = "FROM loans WHERE COLUMNS(*) IS NOT NULL"
    assert results["everybody"] == reference.execute(f"SELECT COUNT(*) {kept}").fetchall()
    assert results["elsewhere"] == [(0,)]
