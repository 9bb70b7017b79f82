"""The README says what the program does: its commands are run and its outputs compared."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

import sqlmadp
from sqlmadp.cli import main

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
RESEARCH = (ROOT / "docs" / "research.md").read_text()
RUNS = re.findall(
    r"<!-- (run|sample): sqlmadp (.*?) -->\n```console\n\$ sqlmadp (.*?)\n(.*?)```\n<!-- end -->",
    README,
    re.DOTALL,
)


def output(arguments: str) -> list[str]:
    result = CliRunner().invoke(main, shlex.split(arguments))
    assert result.exit_code == 0, result.output
    return [line.rstrip() for line in result.stdout.rstrip().splitlines()]


def test_the_first_screen_has_the_two_commands_of_a_fresh_machine():
    screen = README.splitlines()[:24]
    commands = [line for line in screen if line.startswith("python3 ")]
    assert len(commands) == 2
    assert "sqlmadp release examples/covid/plan.toml" in commands[0]
    assert "pytest" in commands[1]


def test_there_are_runs_to_compare():
    assert {kind for kind, *_ in RUNS} == {"run", "sample"}


@pytest.mark.parametrize("run", [r for r in RUNS if r[0] == "run"], ids=lambda r: r[1])
def test_a_run_prints_what_the_readme_shows(run, monkeypatch):
    monkeypatch.chdir(ROOT)
    _, arguments, shown_arguments, shown = run
    assert arguments == shown_arguments
    assert output(arguments) == [line.rstrip() for line in shown.rstrip().splitlines()]


def test_python_blocks_run_and_mean_what_their_comments_say():
    (block,) = [
        b for b in re.findall(r"```python\n(.*?)```", RESEARCH, re.DOTALL) if "compare" in b
    ]
    names: dict[str, object] = {}
    exec(block, names)
    results = names["results"]
    assert results["waterfilling"].errors == pytest.approx((46.2, 46.2, 13.2), rel=1e-3)
    assert results["utilitarian"].sharing_ratio == pytest.approx(1.22, abs=0.005)
    assert results["waterfilling"].interference.shape == (3, 3)
    assert sqlmadp.compare is not None


def test_the_readme_is_short_and_has_no_glossary_word_before_how_it_works():
    assert len(README.encode()) <= 10_240
    prose = re.sub(r"```.*?```", "", README.partition("## How it works")[0], flags=re.DOTALL)
    assert not re.search(r"\b(cell|scope|strateg|bucket)", prose)
