"""Three analysts on one million records: accuracy over many releases, and CPU time.

    python benchmarks/three_analysts.py [--releases 20] [--records 1000000]

Each analyst asks for a histogram by age (100), the total, 50 age ranges of their own, sex x race
(14) and state (51), at epsilon 1 under waterfilling, over 71,400 cells.  Every release is made in
full through the command line's own functions, each with a ledger of its own; the error is against
DuckDB's exact answers.  The CPU time is that of one plan (all mechanisms) and one release,
nothing cached.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np
from people import write_people, write_plan

from sqlmadp.files.plan import Plan
from sqlmadp.release.release import release

NAMES = ("alice", "bob", "carol")
KEYS = {"ages": 1, "total": 0, "ranges": 0, "sex_race": 2, "states": 1}
"""Columns of a query that name a group."""


def statements(seed: int) -> str:
    """Return one analyst's SQL file."""
    random = np.random.default_rng(seed)
    ranges = [sorted(random.integers(0, 100, 2)) for _ in range(50)]
    counts = ",\n".join(
        f"COUNT(*) FILTER (WHERE age BETWEEN {low} AND {high}) AS r{i}"
        for i, (low, high) in enumerate(ranges)
    )
    return f"""-- name: ages
SELECT age, COUNT(*) AS n FROM people GROUP BY age;
-- name: total
SELECT COUNT(*) AS n FROM people;
-- name: ranges
SELECT {counts} FROM people;
-- name: sex_race
SELECT sex, race, COUNT(*) AS n FROM people GROUP BY sex, race;
-- name: states
SELECT state, COUNT(*) AS n FROM people GROUP BY state;
"""


def lay_out(folder: Path, records: int) -> Path:
    """Write data, schema, SQL files and a plan; return the plan."""
    write_people(folder / "people.parquet", records)
    return write_plan(folder, {name: statements(seed) for seed, name in enumerate(NAMES)})


def truth(folder: Path) -> dict[str, dict[str, list[tuple[object, ...]]]]:
    """Return DuckDB's own rows of every statement."""
    connection = duckdb.connect()
    connection.execute(f"CREATE VIEW people AS FROM '{folder / 'people.parquet'}'")
    exact: dict[str, dict[str, list[tuple[object, ...]]]] = {}
    for name in NAMES:
        for part in (folder / f"{name}.sql").read_text().split("-- name: ")[1:]:
            query, sql = part.split("\n", 1)
            exact.setdefault(name, {})[query] = connection.execute(sql).fetchall()
    return exact


def squared_errors(rows: list[tuple[object, ...]], exact: list[tuple[object, ...]], keys: int):
    """Return the squared error of every count; a group absent from the table counts 0."""
    known = {row[:keys]: np.array(row[keys:], dtype=float) for row in exact}
    zero = np.zeros(len(rows[0]) - keys)
    return [(np.array(row[keys:], dtype=float) - known.get(row[:keys], zero)) ** 2 for row in rows]


def main() -> None:
    """Print RMSE by query, and CPU seconds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--releases", type=int, default=20)
    parser.add_argument("--records", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lay_out(folder, options.records)
        exact = truth(folder)
        os.environ["SQLMADP_CACHE"] = str(folder / "cache")
        for command in (["plan", "--compare"], ["release"]):
            before = os.times()
            subprocess.run(
                [sys.executable, "-m", "sqlmadp", *command, str(folder / "plan.toml"), "--json"],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            after = os.times()
            seconds = after.children_user + after.children_system
            seconds -= before.children_user + before.children_system
            print(f"sqlmadp {' '.join(command)}: {seconds:.2f} s CPU")
        squares: dict[str, list[float]] = {query: [] for query in KEYS}
        started = time.process_time()
        for _ in range(options.releases):
            for stale in folder.glob("*.ledger*"):
                stale.unlink()
            plan = Plan.open(folder / "plan.toml")
            results = release(plan).results()
            for analyst, queries in results.items():
                for query, result in queries.items():
                    errors = squared_errors(list(result.rows), exact[analyst][query], KEYS[query])
                    squares[query].append(float(np.mean(errors)))
        seconds = (time.process_time() - started) / options.releases
        print(f"RMSE over {options.releases} releases of {options.records:,} records:")
        for query, means in squares.items():
            print(f"  {query:10}{np.sqrt(np.mean(means)):8.2f}")
        print(f"a further release in the same process: {seconds:.2f} s CPU")


if __name__ == "__main__":
    main()
