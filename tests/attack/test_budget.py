"""The budget belongs to the data: no other name, spelling or copy makes more of it."""

import json
import shutil

import pytest
from attack.victims import World
from click.testing import CliRunner

from sqlmadp.cli import main


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    world = World(tmp_path / "world", budget=1, plans=2)
    monkeypatch.chdir(world.folder)
    return world


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def released(world):
    """Return the world and the answers of its one release, which took the whole budget."""
    result = run("release", "--json", "plan0.toml")
    assert result.exit_code == 0
    return world, result.stdout


def answers(text):
    """Return the answers of every analyst, whatever the analysts are called."""
    return list(json.loads(text)["analysts"].values())


def changed(world, old, new, plan="changed.toml"):
    text = (world.folder / "plan0.toml").read_text()
    assert old in text
    (world.folder / plan).write_text(text.replace(old, new))
    return run("release", "--json", plan)


def test_a_renamed_or_copied_plan_is_the_same_release(released):
    world, first = released
    shutil.copy("plan0.toml", "renamed.toml")
    again = run("release", "--json", "renamed.toml")
    assert (again.exit_code, again.stdout) == (0, first)
    assert len(world.charges()) == 1


@pytest.mark.parametrize("name", ["Alice", "ALICE", "\u0430lice", "\uff41lice", "zoe"])
def test_another_spelling_of_an_analyst_s_name_is_the_same_release(released, name):
    world, first = released
    again = changed(world, "[analysts.alice]", f'[analysts."{name}"]')
    assert again.exit_code == 0
    assert answers(again.stdout) == answers(first)
    assert len(world.charges()) == 1


@pytest.mark.parametrize("path", ["./people.parquet", "../world/people.parquet", "link.parquet"])
def test_another_spelling_of_the_source_is_the_same_budget(released, path):
    world, first = released
    (world.folder / "link.parquet").symlink_to("people.parquet")
    assert answers(changed(world, "people.parquet", path).stdout) == answers(first)
    (world.folder / "plan0.toml").write_text((world.folder / "plan1.toml").read_text())
    other = changed(world, "people.parquet", path)
    assert other.exit_code == 1
    assert "asks for epsilon 1, but the ledger has 0 left" in other.stderr


def test_a_copy_of_the_plan_with_a_ledger_of_its_own_is_refused(released):
    world, _ = released
    (world.folder / "copy").mkdir()
    copied = changed(world, 'path = "people.ledger"', 'path = "copy/people.ledger"')
    assert copied.exit_code == 1
    assert copied.stdout == ""
    assert "this table is charged to another ledger" in copied.stderr


def test_the_order_of_the_analysts_does_not_matter(world):
    bob = '[analysts.bob]\nqueries = "alice1.sql"\n'
    alice = '[analysts.alice]\nqueries = "alice0.sql"\n'
    head = (world.folder / "plan0.toml").read_text().partition("[analysts.alice]")[0]
    (world.folder / "one.toml").write_text(head + alice + bob)
    (world.folder / "two.toml").write_text(head + bob + alice)
    one, two = run("release", "--json", "one.toml"), run("release", "--json", "two.toml")
    assert json.loads(one.stdout) == json.loads(two.stdout)
    assert len(world.charges()) == 1


def test_a_release_says_what_it_will_cost_before_it_spends(world):
    first = run("release", "plan0.toml")
    assert "this is a new release: it charges epsilon 1" in first.stderr
    assert "budget 1, spent 0, left 1" in first.stderr
    assert "a changed plan is a new release and a new charge" in first.stderr
    again = run("release", "plan0.toml")
    assert "nothing is spent" in again.stderr
    assert again.stdout == first.stdout


def test_a_changed_plan_is_announced_as_a_new_charge(tmp_path, world):
    for plan in world.plans:
        text = (world.folder / plan).read_text().replace('budget = "1"', 'budget = "2"')
        (world.folder / plan).write_text(text)
    assert run("release", "plan0.toml").exit_code == 0
    second = run("release", "plan1.toml")
    assert "it asks something else than the releases before it" in second.stderr
    assert len(world.charges()) == 2


def test_a_sound_ledger_is_verified(released):
    world, _ = released
    for path in ("plan0.toml", "people.ledger"):
        result = run("ledger", "verify", path)
        assert result.exit_code == 0
        assert "sound; charges: 1, spent 1 of 1, left 0" in result.stdout
        assert world.charges()[-1].hash in result.stdout
    assert json.loads(run("ledger", "verify", "--json", "plan0.toml").stdout)["ok"] is True


def test_a_damaged_ledger_is_not(released):
    world, _ = released
    damaged = bytearray(world.ledger.read_bytes())
    place = damaged.index(b'"epsilon":"1"')
    damaged[place + len(b'"epsilon":"')] = ord("2")
    world.ledger.write_bytes(damaged)
    for command in (["ledger", "verify"], ["ledger"], ["release"]):
        result = run(*command, "plan0.toml")
        assert result.exit_code == 1
        assert result.stdout == ""
        assert "was changed" in result.stderr
        assert "restore" in result.stderr


def test_a_pinned_head_is_checked(released):
    world, first = released
    head = world.charges()[-1].hash
    pinned = changed(world, 'budget = "1"\n', f'budget = "1"\nhead = "{head}"\n')
    assert (pinned.exit_code, pinned.stdout) == (0, first)
    wrong = changed(world, 'budget = "1"\n', f'budget = "1"\nhead = "{"0" * 64}"\n')
    assert wrong.exit_code == 1
    assert "never had the head" in wrong.stderr
    assert run("ledger", "verify", "changed.toml").exit_code == 1
    bad = changed(world, 'budget = "1"\n', 'budget = "1"\nhead = "abc"\n')
    assert bad.exit_code == 1
    assert "64 digits and letters a-f" in bad.stderr


def test_a_ledger_is_shown_with_and_without_the_word_show(released):
    shown = [run("ledger", "people.ledger"), run("ledger", "show", "people.ledger")]
    assert {result.exit_code for result in shown} == {0}
    assert shown[0].stdout == shown[1].stdout
    for word in ("budget 1, spent 1, left 0", "alice", "identity", "head "):
        assert word in shown[0].stdout
    assert "verify" in run("ledger", "--help").stdout
    assert run("ledger", "nowhere.ledger").exit_code == 1
