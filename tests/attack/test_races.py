"""Processes that race are served one after the other, and none is served twice."""

import time

import pytest
from attack.victims import World

from sqlmadp.private import Ledger

RACERS = 16


def race(victims, world, plans):
    """Release every plan at the same moment; return the exit codes."""
    moment = time.time() + 0.5
    racers = [
        victims.start(world.folder, "release", "--json", plan, output=f"out{number}", at=moment)
        for number, plan in enumerate(plans)
    ]
    return [victims.wait(racer) for racer in racers]


@pytest.mark.slow
def test_sixteen_processes_racing_for_a_budget_of_five_get_five_releases(victims, tmp_path):
    world = World(tmp_path, budget=5, plans=RACERS)
    codes = race(victims, world, world.plans)
    assert sorted(codes) == [0] * 5 + [1] * 11
    printed = [world.printed(f"out{number}") for number in range(RACERS)]
    for code, (results, rest) in zip(codes, printed, strict=True):
        assert bool(results) == (code == 0)
        assert "Traceback" not in rest
        if code:
            assert "asks for epsilon 1, but the ledger has 0 left (budget 5, spent 5)" in rest
    assert len(world.charges()) == 5


@pytest.mark.slow
def test_sixteen_processes_with_the_same_plan_get_the_same_answers_for_one_charge(
    victims, tmp_path
):
    world = World(tmp_path, budget=1)
    assert race(victims, world, world.plans * RACERS) == [0] * RACERS
    outputs = {world.printed(f"out{number}")[0] for number in range(RACERS)}
    assert len(outputs) == 1
    assert len(world.charges()) == 1


@pytest.mark.slow
def test_a_python_program_may_keep_the_ledger_open_meanwhile(victims, tmp_path):
    world = World(tmp_path, budget=2, plans=2)
    assert victims.run(tmp_path, "release", world.plans[0]) == 0
    with Ledger.read(world.ledger) as held:
        assert held.left == 1
        assert victims.run(tmp_path, "release", world.plans[1]) == 0
        assert held.left == 0
        assert len(held.charges) == 2
