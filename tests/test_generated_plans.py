"""Whole plans made at random: a subset with fixed seeds of ``benchmarks/generated_plans.py``."""

import pytest
from plan_generator import World
from plan_runs import PlanRun, Tally, run_statements
from quick import quick

SEEDS = quick((3, 7, 8, 10), range(12))


@pytest.fixture
def tally(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Tally()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_generated_plan_is_answered_like_duckdb_or_refused_before_it_is_charged(
    seed, tally, tmp_path
):
    folder = tmp_path / "plan"
    folder.mkdir()
    PlanRun(seed, folder, tally).run()
    assert tally.tracebacks == []
    assert tally.differences == []
    assert tally.failed_after_charge == []


@pytest.mark.parametrize("seed", range(1000, 1010))
def test_generated_statements_return_the_rows_of_duckdb(seed, tally, tmp_path):
    run_statements(seed, 10, tmp_path, tally)
    assert tally.tracebacks == []
    assert tally.differences == []
    assert tally.failed_after_charge == []
    assert tally.compared > 0


def test_the_generator_makes_awkward_tables_and_statements_of_every_form():
    worlds = [World.made(seed) for seed in range(200)]
    names = {column.name for world in worlds for column in world.columns}
    assert {"x y", "select", "Größe", 'in "quotes"', "UPPER"} <= names
    assert any(not world.records for world in worlds)
    assert any(len(column.values) == 1 for world in worlds for column in world.columns)
    assert any(world.lookups for world in worlds)
    made = [world.statement() for world in worlds for _ in range(10)]
    assert {"joined_answers", "nothing", "constant_key", "cast", "window"} <= {m.kind for m in made}
    assert {
        side for m in made for side in ("LEFT", "RIGHT", "FULL") if f"{side} JOIN" in m.sql
    } == {
        "LEFT",
        "RIGHT",
        "FULL",
    }
