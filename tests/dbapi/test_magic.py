"""SQL magics of notebooks: jupysql's ``%sql`` and ``%sqlcmd`` over the SQLAlchemy dialect."""

import json
import os
import subprocess
import sys

import pytest
from conftest import PlanFolder

import sqlmadp

# In a process of its own, since a shell changes the process that it runs in.
CELLS = """
import json, sys
sys.modules["pyspark"] = None  # Or jupysql wants Spark Connect wherever Spark is.
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
outcomes = []
for cell in [
    "%load_ext sql",
    f"%sql sqlmadp:///{sys.argv[1]}?analyst=alice",
    *json.loads(sys.argv[2]),
]:
    outcome = shell.run_cell(cell)
    if outcome.result is not None:
        print(outcome.result)
    outcomes.append(outcome.success)
print("outcomes:", json.dumps(outcomes[2:]))
"""


def run_cells(folder, *cells):
    """What the cells of a notebook show, and whether each of them succeeded."""
    finished = subprocess.run(
        [sys.executable, "-c", CELLS, str(folder.path), json.dumps(cells)],
        capture_output=True,
        text=True,
        env=os.environ
        | {"PLOOMBER_STATS_ENABLED": "false", "IPYTHONDIR": str(folder.path.parent / "ipy")},
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    shown, _, last = finished.stdout.rpartition("outcomes: ")
    return shown + finished.stderr, json.loads(last.splitlines()[0])


QUERY = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"


@pytest.mark.slow
def test_magics_show_rows_tables_and_columns(tmp_path):
    folder = PlanFolder(tmp_path)
    folder.write({"alice": QUERY + ";"}, epsilon=str(10**9), budget=str(10**9))
    sqlmadp.Plan.open(folder.path).release()
    shown, outcomes = run_cells(
        folder,
        f"rows = %sql {QUERY} ORDER BY sex",
        "print(rows.DataFrame().to_csv(index=False))",
        "%sqlcmd tables",
        "%sqlcmd columns --table visits",
    )
    assert all(outcomes), shown
    counted = folder.table().execute(f"{QUERY} ORDER BY sex").fetchall()
    for sex, n in counted:
        assert f"{sex or ''},{n}" in shown
    assert "| visits |" in shown
    for column in ("age", "sex", "smoker", "day", "cost"):
        assert f"| {column} " in shown.replace("|  ", "| ").replace("|  ", "| ")


@pytest.mark.slow
def test_magics_hand_in_what_is_typed_so_and_nothing_else(tmp_path):
    folder = PlanFolder(tmp_path)
    folder.write({"alice": QUERY + ";"})
    staged = sqlmadp.Plan.open(folder.path).staged_path("alice")
    total = "SELECT COUNT(*) AS n FROM visits"
    shown, outcomes = run_cells(folder, f"%sql {total}", f"%sql EXPLAIN {total}")
    assert outcomes == [False, True]  # Jupysql commits after each of them.
    assert "it is not handed in" in shown
    assert "HAND IN SELECT" in shown
    assert not staged.exists()
    shown, outcomes = run_cells(
        folder,
        f"%sql HAND IN AS total {total}",
        f"%%sql\nHAND IN AS adults\n{total} WHERE age > 9",
        f"%sql {total}",
        "%sql WITHDRAW total",
    )
    assert outcomes == [True, True, False, True]
    for said in ("handed in now", "This statement has been handed in", "withdrawn now"):
        assert said in shown
    assert [line for line in staged.read_text().splitlines() if "-- name" in line] == [
        "-- name: adults"
    ]
