"""A disk that is full: the release is refused whole, and succeeds when there is space again."""

import pytest
from attack.victims import World


@pytest.mark.parametrize("kilobytes", [0, 4, 8, 16, 32, 40, 64, 128])
def test_a_disk_that_is_full_shows_and_charges_nothing(victims, tmp_path, kilobytes):
    world = World(tmp_path, budget=1)
    limit = kilobytes * 1024 + 24
    code = victims.run(tmp_path, "release", "--json", world.plans[0], most_bytes=limit)
    charged = len(world.charges())
    printed, rest = world.printed()
    assert "Traceback" not in rest
    if not charged:
        assert code == 1
        assert printed == ""
    assert victims.run(tmp_path, "release", "--json", world.plans[0], output="later") == 0
    assert world.printed("later")[0].startswith(printed)
    assert len(world.charges()) == 1


def test_a_full_disk_is_named_as_the_reason(victims, tmp_path):
    world = World(tmp_path, budget=2, plans=2)
    assert victims.run(tmp_path, "release", world.plans[0]) == 0
    assert victims.run(tmp_path, "release", world.plans[1], most_bytes=5_000) == 1
    printed, rest = world.printed()
    assert printed == ""
    assert "the disk is full or failing" in rest
    assert len(world.charges()) == 1
