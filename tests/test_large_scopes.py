"""A release of Kronecker blocks, from SQL to rows: the answers are DuckDB's own."""

import json

import pytest
from click.testing import CliRunner
from sqlmadp.strategy import select as selecting

import sqlmadp
from sqlmadp.cli import main
from sqlmadp.plan import Plan
from sqlmadp.release import release, released
from sqlmadp.table.products import Products

EXACT = "1000000000"
"""An epsilon at which the noise rounds to nothing."""


@pytest.fixture
def large(monkeypatch):
    """Let every scope of a few dozen cells be too large for rows over all its cells."""
    monkeypatch.setattr(selecting, "_known", {})
    monkeypatch.setattr(selecting, "DENSE_GROUPS", 20)
    monkeypatch.setattr(selecting, "TOGETHER", 20)


def statements(step):
    """Everybody up to an age and a day, for every so many ages and some days."""
    asked = ["SELECT COUNT(*) AS n FROM visits"]
    days = ["2024-02-26", "2024-02-28", "2024-03-02", "2024-03-05"]
    for age in range(0, 20, step):
        asked += [
            f"SELECT COUNT(*) AS n FROM visits WHERE age <= {age} AND day <= DATE '{day}'"
            for day in days
        ]
    return ";\n".join(asked) + ";\n"


def assert_exact(plans, own, results):
    """Every answer is what DuckDB counts."""
    table = plans.table()
    for name, sql in own.items():
        exact = [table.execute(each).fetchone()[0] for each in sql.split(";\n") if each]
        assert [result.rows[0][0] for result in results[name].values()] == exact


def has_products(measurement):
    return any(isinstance(block, Products) for block in measurement.blocks)


@pytest.mark.parametrize(
    "mechanism", ["utilitarian", "weighted_utilitarian", "waterfilling", "independent"]
)
def test_a_release_of_products_answers_what_was_asked(plans, large, mechanism):
    own = {"ann": statements(1), "bob": statements(2)}
    path = plans.write(own, epsilon=EXACT, budget=EXACT, mechanism=mechanism)
    plan = Plan.open(path)
    release(plan)
    again = released(plan)
    assert has_products(again.measurement)
    assert_exact(plans, own, again.results())


@pytest.mark.parametrize("mechanism", ["pareto", "ratchet", "identity"])
def test_large_scopes_are_answered_whatever_the_mechanism_measures(plans, large, mechanism):
    own = {"ann": statements(1), "bob": statements(2)}
    plan = Plan.open(plans.write(own, epsilon=EXACT, budget=EXACT, mechanism=mechanism))
    release(plan)
    assert_exact(plans, own, released(plan).results())


@pytest.mark.parametrize("mechanism", ["waterfilling", "ratchet"])
def test_a_late_analyst_is_answered_from_the_products_of_both_releases(plans, large, mechanism):
    own = {"ann": statements(1), "bob": statements(2)}
    plans.write(own, mechanism=mechanism)
    first = (
        plans.path.read_text()
        .replace('epsilon = "1"\n', "")
        .replace('budget = "2"', f'budget = "{EXACT}00"')
    )
    each = f'epsilon = "{EXACT}"\n'
    first = first.replace('queries = "ann.sql"\n', f'queries = "ann.sql"\n{each}')
    plans.path.write_text(first.replace('queries = "bob.sql"\n', f'queries = "bob.sql"\n{each}'))
    release(Plan.open(plans.path))
    own["cat"] = statements(3)
    (plans.folder / "cat.sql").write_text(own["cat"])
    with plans.path.open("a") as file:
        file.write(f'[analysts.cat]\nqueries = "cat.sql"\n{each}')
    late = release(Plan.open(plans.path))
    assert_exact(plans, own, late.results())
    assert_exact(plans, own, released(Plan.open(plans.path)).results())


def test_products_answer_further_questions_and_are_shown_in_a_report(plans, large, tmp_path):
    own = {"ann": statements(1), "bob": statements(2)}
    path = plans.write(own, epsilon=EXACT, budget=EXACT)
    before = CliRunner().invoke(main, ["report", str(path), "--out", str(tmp_path / "before.html")])
    assert before.exit_code == 0, before.output
    release(Plan.open(path))
    further = "SELECT COUNT(*) AS n FROM visits WHERE age > 3 AND day <= DATE '2024-02-28'"
    [exact] = plans.table().execute(further).fetchone()
    with sqlmadp.connect(path, analyst="bob") as connection:
        cursor = connection.cursor()
        cursor.execute(further)
        assert cursor.fetchall() == [(exact,)]
    after = CliRunner().invoke(main, ["report", str(path), "--out", str(tmp_path / "after.html")])
    assert after.exit_code == 0, after.output
    shown = CliRunner().invoke(main, ["query", str(path), further, "--json"])
    assert json.loads(shown.stdout)["result"]["rows"] == [[exact]]


@pytest.mark.parametrize("option", ["nonnegative", "consistent"])
def test_post_processed_products_are_exact(plans, large, option):
    own = {"ann": statements(1), "bob": statements(2)}
    path = plans.write(own, epsilon=EXACT, budget=EXACT)
    path.write_text(f"{option} = true\n{path.read_text()}")
    release(Plan.open(path))
    assert_exact(plans, own, released(Plan.open(path)).results())
    assert has_products(released(Plan.open(path)).measurement)
