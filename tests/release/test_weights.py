"""Weights on queries: what counts more inside a workload."""

import shutil
from pathlib import Path

import pytest

from sqlmadp.files.plan import Plan

ROOT = Path(__file__).parents[2]


@pytest.fixture
def plan_path(tmp_path):
    ignored = shutil.ignore_patterns("*.ledger*")
    shutil.copytree(ROOT / "schemas", tmp_path / "schemas")
    shutil.copytree(ROOT / "examples" / "covid", tmp_path / "examples" / "covid", ignore=ignored)
    return tmp_path / "examples" / "covid" / "plan.toml"


def carol(path, mechanism):
    standing = Plan.open(path).preview(mechanism)[mechanism].analysts["carol"]
    return standing.now, standing.statements[0].rmse


def weigh(path, weight):
    file = path.parent / "carol.sql"
    file.write_text(f"-- weight: {weight}\n{file.read_text()}")


def squared(path):
    path.write_text('measure = "squared"\n' + path.read_text())


def test_the_squared_error_that_fairness_compares_is_the_weighted_one(plan_path):
    squared(plan_path)
    error, rmse = carol(plan_path, "identity")
    weigh(plan_path, 4)
    weighted, same = carol(plan_path, "identity")
    assert weighted == pytest.approx(4 * error)
    assert same == pytest.approx(rmse)


def test_a_weight_moves_the_selected_strategy_towards_its_query(plan_path):
    squared(plan_path)
    _, before = carol(plan_path, "utilitarian")
    weigh(plan_path, 100)
    _, after = carol(plan_path, "utilitarian")
    assert after < before


def test_relative_errors_weigh_statements_against_the_same_analysts_only(plan_path):
    before = carol(plan_path, "utilitarian")
    weigh(plan_path, 100)  # It is carol's only statement.
    assert carol(plan_path, "utilitarian") == before
    file = plan_path.parent / "carol.sql"
    ages = "SELECT age_group, COUNT(*) AS deaths FROM covid_deaths GROUP BY age_group;"
    plain = file.read_text().replace("-- weight: 100\n", "")
    file.write_text(f"{plain}\n{ages}")
    even, other = statements(plan_path)
    assert other.factor < 0.99
    weigh(plan_path, 100)
    favoured, other = statements(plan_path)
    assert favoured.rmse < even.rmse
    # The other one is at its cap, no worse than asked one by one, so no weight can move more.
    assert 0.999 < other.factor <= 1


def statements(path):
    return Plan.open(path).preview("independent")["independent"].analysts["carol"].statements
