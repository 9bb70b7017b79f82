"""A release of Kronecker blocks, from SQL to rows: the answers are DuckDB's own."""

import json

import duckdb
import pytest
from click.testing import CliRunner

import sqlmadp
from sqlmadp.cli import main
from sqlmadp.files.plan import Plan
from sqlmadp.release.release import release, released
from sqlmadp.strategy.select import SEARCHED_VERTICES
from sqlmadp.table.products import Products

EXACT = "1000000000"
"""An epsilon at which the noise rounds to nothing."""

SIDE = 34
"""Values of each of two columns."""

SCHEMA = f"""
table = "grid"

[columns.a]
type = "integer"
min = 0
max = {SIDE - 1}
complete = true

[columns.b]
type = "integer"
min = 0
max = {SIDE - 1}
complete = true
"""


@pytest.fixture
def grid(plans):
    """Return a folder whose table has two columns of many values."""
    (plans.folder / "grid.toml").write_text(SCHEMA)
    records = f"SELECT i * 7 % {SIDE} AS a, i * i * 5 % 31 AS b FROM range(5000) AS t(i)"
    duckdb.execute(f"COPY ({records}) TO '{plans.folder / 'grid.parquet'}' (FORMAT parquet)")
    return plans


def written(grid, own, **given):
    """Write a plan over the grid, at an epsilon without noise."""
    given = {"epsilon": EXACT, "budget": EXACT} | given
    return grid.write(own, schema="grid.toml", source="grid.parquet", **given)


def statements(step):
    """The total, and the records up to a value of each column, for every ``step``-th pair."""
    pairs = [divmod(number, SIDE - 1) for number in range(0, (SIDE - 1) ** 2, step)]
    counts = ", ".join(
        f"COUNT(*) FILTER (a <= {a} AND b <= {b}) AS n{n}" for n, (a, b) in enumerate(pairs)
    )
    return f"SELECT COUNT(*) AS n FROM grid;\nSELECT {counts} FROM grid;\n"


OWN = {"ann": statements(13), "bob": statements(20)}


def table(grid):
    """Return a connection where ``grid`` holds the records."""
    connection = duckdb.connect()
    connection.execute(f"CREATE VIEW grid AS FROM '{grid.folder / 'grid.parquet'}'")
    return connection


def assert_exact(grid, own, results):
    """Every answer is what DuckDB counts."""
    records = table(grid)
    for name, sql in own.items():
        exact = [records.execute(each).fetchone() for each in sql.split(";\n") if each]
        assert [result.rows[0] for result in results[name].values()] == exact


def has_products(measurement):
    return any(isinstance(block, Products) for block in measurement.blocks)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism", ["waterfilling", "utilitarian", "weighted_utilitarian", "independent"]
)
def test_a_release_of_products_answers_what_was_asked(grid, mechanism):
    assert SIDE**2 > SEARCHED_VERTICES
    plan = Plan.open(written(grid, OWN, mechanism=mechanism))
    release(plan)
    again = released(plan)
    assert has_products(again.measurement)
    assert_exact(grid, OWN, again.results())


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["identity", "pareto", "ratchet"])
def test_large_scopes_are_answered_whatever_the_mechanism_measures(grid, mechanism):
    plan = Plan.open(written(grid, OWN, mechanism=mechanism))
    release(plan)
    assert_exact(grid, OWN, released(plan).results())


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["waterfilling", "ratchet"])
def test_a_late_analyst_is_answered_from_the_products_of_both_releases(grid, mechanism):
    written(grid, OWN, mechanism=mechanism, budget=f"{EXACT}00")
    each = f'epsilon = "{EXACT}"\n'
    first = grid.path.read_text().replace(each, "")
    for name in OWN:
        first = first.replace(f'queries = "{name}.sql"\n', f'queries = "{name}.sql"\n{each}')
    grid.path.write_text(first)
    assert has_products(release(Plan.open(grid.path)).measurement)
    own = OWN | {"cat": statements(25)}
    (grid.folder / "cat.sql").write_text(own["cat"])
    with grid.path.open("a") as file:
        file.write(f'[analysts.cat]\nqueries = "cat.sql"\n{each}')
    late = release(Plan.open(grid.path))
    assert_exact(grid, own, late.results())
    assert_exact(grid, own, released(Plan.open(grid.path)).results())


@pytest.mark.slow
def test_products_answer_further_questions_and_are_shown_in_a_report(grid, tmp_path):
    path = written(grid, OWN)
    before = CliRunner().invoke(main, ["report", str(path), "--out", str(tmp_path / "before.html")])
    assert before.exit_code == 0, before.output
    assert has_products(release(Plan.open(path)).measurement)
    further = "SELECT COUNT(*) AS n FROM grid WHERE a > 3 AND b <= 20"
    [[exact]] = table(grid).execute(further).fetchall()
    with sqlmadp.connect(path, analyst="bob") as connection:
        cursor = connection.cursor()
        cursor.execute(further)
        assert cursor.fetchall() == [(exact,)]
    after = CliRunner().invoke(main, ["report", str(path), "--out", str(tmp_path / "after.html")])
    assert after.exit_code == 0, after.output
    shown = CliRunner().invoke(main, ["query", str(path), further, "--json"])
    assert json.loads(shown.stdout)["result"]["rows"] == [[exact]]


@pytest.mark.slow
@pytest.mark.parametrize("option", ["nonnegative", "consistent"])
def test_post_processed_products_are_exact(grid, option):
    path = written(grid, OWN)
    path.write_text(f"{option} = true\n{path.read_text()}")
    release(Plan.open(path))
    assert_exact(grid, OWN, released(Plan.open(path)).results())
    assert has_products(released(Plan.open(path)).measurement)
