"""One plan gives the same rows on every engine: what engines differ in never reaches them."""

import duckdb
import pytest

from sqlmadp.files.plan import Plan
from sqlmadp.private import noise

STATEMENTS = """
-- name: halves
SELECT age // 2 AS pair, age / 2 AS half, COUNT(*) AS n FROM visits GROUP BY ALL;
-- name: remainders
SELECT -age % 3 AS rest, SUM(age) AS years FROM visits GROUP BY rest;
-- name: weeks
SELECT date_trunc('week', day) AS week, COUNT(*) AS n FROM visits
WHERE day + INTERVAL 3 DAY > DATE '2024-02-29' GROUP BY week;
-- name: costs
SELECT COUNT(*) AS n FROM visits WHERE cost > 99.5 OR cost = 37 OR NOT smoker;
-- name: regions
SELECT region, COUNT(*) AS n FROM visits JOIN regions ON visits.sex = regions.code GROUP BY region;
-- name: unknown
SELECT COALESCE(sex, '?') AS sex, upper(sex) LIKE 'F%' AS f, COUNT(*) AS n FROM visits GROUP BY ALL
"""
PUBLIC = '[public.regions]\ntable = "{table}"\n'
UNIT = '[unit]\ncolumn = "person"\nmax_records = 2\n'
TABLE = """
SELECT age, sex, smoker, day, cost, (row_number() OVER ()) % 60 AS person,
    row_number() OVER () AS visit
FROM '{folder}/visits.parquet'
"""


@pytest.fixture
def rows(plans, monkeypatch):
    """Return a function that releases the statements without noise from a source."""
    monkeypatch.setattr(noise, "add_discrete_laplace", lambda exact, scale: exact)
    made = iter(range(10))

    def run(source, regions):
        folder = plans.folder
        schema = (folder / "visits.toml").read_text().partition("[public")[0].partition("[unit")[0]
        (folder / "visits.toml").write_text(schema + UNIT + PUBLIC.format(table=regions))
        path = plans.write({"ana": STATEMENTS}, source=source, epsilon="1", budget="9")
        text = path.read_text().replace("visits.ledger", f"{next(made)}.ledger")
        path.write_text(text)
        release = Plan.open(path).release()
        return {name: found.tuples() for name, found in release.results()["ana"].items()}

    return run


@pytest.fixture
def here(plans):
    """Return the rows' table in a DuckDB file, with a public table of regions."""
    with duckdb.connect(str(plans.folder / "visits.duckdb")) as connection:
        connection.execute(f"CREATE TABLE visits AS {TABLE.format(folder=plans.folder)}")
        connection.execute("CREATE TABLE regions (code VARCHAR, region VARCHAR)")
        connection.execute("INSERT INTO regions VALUES ('f', 'north'), ('m', 'south')")
        connection.execute(f"COPY visits TO '{plans.folder}/units.parquet'")
        return connection.execute("SELECT * FROM visits").fetchall()


def test_postgresql_gives_the_rows_of_duckdb(rows, here, server, database):
    database.execute("DROP TABLE IF EXISTS visits, regions")
    database.execute(
        "CREATE TABLE visits (age bigint, sex char(3), smoker boolean, day date, "
        "cost double precision, person bigint, visit bigint)"
    )
    database.execute("CREATE TABLE regions AS VALUES ('f', 'north'), ('m', 'south')")
    database.execute("ALTER TABLE regions RENAME column1 TO code")
    database.execute("ALTER TABLE regions RENAME column2 TO region")
    with database.cursor() as cursor:
        cursor.executemany("INSERT INTO visits VALUES (%s, %s, %s, %s, %s, %s, %s)", here)
    theirs = rows(f"{server}#sqlmadp_test.visits", "sqlmadp_test.regions")
    ours = rows("visits.duckdb", "regions")
    assert theirs == ours
    assert len(ours["regions"]) == 2
    assert sum(n for _, n in ours["regions"]) > 40


def test_spark_gives_the_rows_of_duckdb(rows, here, session, plans):
    session.sql("DROP TABLE IF EXISTS visits")
    session.sql("DROP TABLE IF EXISTS regions")
    session.sql(
        "CREATE TABLE visits (age BIGINT, sex CHAR(3), smoker BOOLEAN, day DATE, cost DOUBLE, "
        f"person BIGINT, visit BIGINT) USING parquet LOCATION '{plans.folder}/units.parquet'"
    )
    session.sql(
        "CREATE TABLE regions USING parquet AS VALUES ('f', 'north'), ('m', 'south') "
        "AS t(code, region)"
    )
    assert rows("spark://#visits", "regions") == rows("visits.duckdb", "regions")
