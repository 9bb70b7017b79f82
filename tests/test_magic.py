"""SQL magics of notebooks: jupysql's ``%sql`` and ``%sqlcmd`` over the SQLAlchemy dialect."""

import os
import subprocess
import sys

from conftest import PlanFolder

import sqlmadp

# In a process of its own, since a shell changes the process that it runs in.
CELLS = """
import sys
sys.modules["pyspark"] = None  # Or jupysql wants Spark Connect wherever Spark is.
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
for cell in [
    "%load_ext sql",
    f"%sql sqlmadp:///{sys.argv[1]}?analyst=alice",
    "rows = %sql SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex ORDER BY sex",
    "print(rows.DataFrame().to_csv(index=False))",
    "%sqlcmd tables",
    "%sqlcmd columns --table visits",
]:
    outcome = shell.run_cell(cell)
    assert outcome.success, cell
    if outcome.result is not None:
        print(outcome.result)
"""


def test_magics_show_rows_tables_and_columns(tmp_path):
    folder = PlanFolder(tmp_path)
    query = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"
    folder.write({"alice": query + ";"}, epsilon=str(10**9), budget=str(10**9))
    sqlmadp.Plan.open(folder.path).release()
    finished = subprocess.run(
        [sys.executable, "-c", CELLS, str(folder.path)],
        capture_output=True,
        text=True,
        env=os.environ | {"PLOOMBER_STATS_ENABLED": "false", "IPYTHONDIR": str(tmp_path / "ipy")},
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    counted = folder.table().execute(f"{query} ORDER BY sex").fetchall()
    for sex, n in counted:
        assert f"{sex or ''},{n}" in finished.stdout
    assert "| visits |" in finished.stdout
    for column in ("age", "sex", "smoker", "day", "cost"):
        assert f"| {column} " in finished.stdout.replace("|  ", "| ").replace("|  ", "| ")
