"""Whenever a release is killed: no answer without its charge, and none lost or given twice."""

import random
import time

import pytest
from attack.victims import CANARY, World

KILLS = 30


def rows(world, output):
    """Return the lines of answers that a command printed; what is spent in all goes on."""
    printed, _ = world.printed(output)
    return [line for line in printed.splitlines() if not line.startswith("epsilon")]


@pytest.mark.slow
def test_kills_at_random_moments_lose_nothing_and_give_nothing_away(victims, tmp_path):
    world = World(tmp_path, budget=KILLS, plans=KILLS)
    started = time.monotonic()
    assert victims.run(World(tmp_path / "timed", budget=1).folder, "release", "plan0.toml") == 0
    usual = time.monotonic() - started
    # Every run has its own moments; a failure prints the one it died of.
    moments = [random.SystemRandom().uniform(0, 1.2 * usual) for _ in range(KILLS)]
    before = ()
    for number, moment in enumerate(moments):
        pid = victims.start(tmp_path, "release", world.plans[number], output=f"dead{number}")
        victims.kill(pid, moment)
        after = world.charges()  # Verifies the file, the chain and the budget.
        assert after[: len(before)] == before, moment
        assert len(after) <= len(before) + 1, moment
        if world.printed(f"dead{number}")[0]:
            assert len(after) == len(before) + 1, moment
        before = after
    for number, moment in enumerate(moments):
        plan = world.plans[number]
        assert victims.run(tmp_path, "release", plan, output=f"live{number}") == 0
        dead, live = rows(world, f"dead{number}"), rows(world, f"live{number}")
        assert live[: len(dead)] == dead, moment
    assert victims.run(tmp_path, "release", plan, output="again") == 0
    assert rows(world, "again") == live
    assert len(world.charges()) == KILLS
    assert set(world.files_with_canary()) == {"people.parquet"}


def test_a_canary_is_in_no_file_and_no_message_of_a_release(victims, tmp_path):
    world = World(tmp_path, budget=1)
    for arguments in (["check"], ["plan"], ["release"], ["release", "--json"], ["ledger"]):
        assert victims.run(tmp_path, *arguments, world.plans[0]) == 0
        assert CANARY not in "".join(world.printed())
    assert world.files_with_canary() == ["people.parquet"]
