"""Weights on queries: what counts more inside a workload."""

import shutil
from pathlib import Path

import pytest
from sqlmadp.outlook import preview_plan

from sqlmadp.plan import Plan

ROOT = Path(__file__).parent.parent


@pytest.fixture
def plan_path(tmp_path):
    ignored = shutil.ignore_patterns("*.ledger*")
    shutil.copytree(ROOT / "schemas", tmp_path / "schemas")
    shutil.copytree(ROOT / "examples" / "covid", tmp_path / "examples" / "covid", ignore=ignored)
    return tmp_path / "examples" / "covid" / "plan.toml"


def carol(path, mechanism):
    found = preview_plan(Plan.open(path), [mechanism], lambda _: None)[mechanism]
    return found.outcome.errors[2], found.queries[2][0].rmse


def weigh(path, weight):
    file = path.parent / "carol.sql"
    file.write_text(f"-- weight: {weight}\n{file.read_text()}")


def test_the_error_that_fairness_compares_is_the_weighted_one(plan_path):
    error, rmse = carol(plan_path, "identity")
    weigh(plan_path, 4)
    weighted, same = carol(plan_path, "identity")
    assert weighted == pytest.approx(4 * error)
    assert same == pytest.approx(rmse)


def test_a_weight_moves_the_selected_strategy_towards_its_query(plan_path):
    _, before = carol(plan_path, "utilitarian")
    weigh(plan_path, 100)
    _, after = carol(plan_path, "utilitarian")
    assert after < before
