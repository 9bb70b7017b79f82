"""The example that goes from a connection to a plot, run as an analyst would run it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run(tmp_path):
    shutil.copytree(ROOT / "schemas", tmp_path / "schemas")
    folder = shutil.copytree(
        ROOT / "examples" / "notebook",
        tmp_path / "examples" / "notebook",
        ignore=shutil.ignore_patterns("*.ledger*", "*.staged", "*.parquet*", "*.svg"),
    )

    def run(*command):
        done = subprocess.run(
            [sys.executable, *command],
            cwd=folder,
            env=os.environ | {"MPLBACKEND": "agg"},
            capture_output=True,
            check=True,
            text=True,
        )
        return done.stdout

    run.folder = folder
    return run


@pytest.mark.slow
def test_the_same_script_asks_before_the_release_and_plots_after_it(run):
    run("make_data.py")
    before = run("analyst.py")
    assert "expected error of a day: ±" in before
    assert before.count("plan.staged/ana.sql") == 2
    assert not (run.folder / "visits.svg").exists()
    assert "staged_2" in run("-m", "sqlmadp", "release", "plan.toml")
    after = run("analyst.py")
    assert before.splitlines()[-1] == after.splitlines()[0]
    assert "visits of minors: " in after
    assert "ana" in after
    assert "board" not in after
    assert "<svg" in (run.folder / "visits.svg").read_text()
