"""The README is short, begins with what to type, and leaves the inner workings to the end."""

import re
from pathlib import Path

import pytest

import sqlmadp
from sqlmadp.mechanism import MECHANISMS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
RESEARCH = (ROOT / "docs" / "research.md").read_text()


def test_the_first_screen_has_the_two_commands_of_a_fresh_machine():
    screen = README.splitlines()[:24]
    commands = [line for line in screen if line.startswith("python3 ")]
    assert len(commands) == 2
    assert "sqlmadp release examples/covid/plan.toml" in commands[0]
    assert "pytest" in commands[1]


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


def test_the_readme_is_short():
    assert len(README.encode()) <= 10_240


def test_before_how_it_works_there_is_no_glossary_word_and_no_mechanism_but_the_default():
    before, _, after = README.partition("## How it works")
    assert "strateg" in after
    assert not re.search(r"\b(cell|scope|strateg|bucket)", before)
    assert [name for name in MECHANISMS if re.search(rf"\b{name}\b", before)] == ["waterfilling"]
