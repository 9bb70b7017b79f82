"""A Spark cluster of its own processes: the table is counted there, by the command line."""

import json
import subprocess
import sys

from sqlmadp.private import Ledger


def test_a_release_is_counted_on_a_cluster(plans, cluster):
    asked = {"ana": "SELECT sex, COUNT(*) AS n FROM visits WHERE age < 40 GROUP BY sex"}
    source = f"{cluster}#visits.parquet"
    path = plans.write(asked, source=source, epsilon="1000000", budget="1000000")
    command = [sys.executable, "-W", "error", "-m", "sqlmadp", "release", "--json", "--quiet", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.stderr == ""
    assert done.returncode == 0
    (query,) = json.loads(done.stdout)["analysts"]["ana"].values()
    right = plans.table().execute(asked["ana"]).fetchall()
    assert sorted(map(repr, map(tuple, query["rows"]))) == sorted(map(repr, right))
    with Ledger.read(plans.folder / "visits.ledger") as ledger:
        assert len(ledger.charges) == 1
