"""A release of 1,000 statements against DuckDB running the same statements on the table.

    python benchmarks/end_to_end.py [--records 10000000] [--statements 1000] [--mechanism M]

Five analysts ask 1,000 statements over five columns in Parquet: histograms, ranges, filters and
two-way tables, with random constants, so that some are asked more than once.  The baseline is
DuckDB, one thread, which runs each statement on the same file; the release is the whole command
line, from start to written rows, once with an empty strategy cache and once (another copy of the
table and another ledger, so that it is read again) with the strategies of the first run.  Then the
pass over the table alone against a plain GROUP BY of the same columns, three times each in turns,
the least of each, with as many threads as DuckDB takes by itself.  All times are CPU time, taken in
the same run.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np
from people import COLUMNS, STATES, write_people, write_plan

from sqlmadp.files.schema import read_schema
from sqlmadp.private.data_vector import read_counts
from sqlmadp.private.engines import Source, open_engine
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows

ANALYSTS = ("alice", "bob", "carol", "dave", "erin")


def statement(random: np.random.Generator) -> str:
    """Return one statement with constants of its own."""
    low, high = sorted(random.integers(0, 100, 2))
    state = STATES[random.integers(0, 51)]
    hours = random.integers(0, 41)
    race = random.integers(1, 8)
    return (
        f"SELECT COUNT(*) AS n FROM people WHERE age BETWEEN {low} AND {high}",
        f"SELECT sex, COUNT(*) AS n FROM people WHERE age >= {low} GROUP BY sex",
        f"SELECT race, COUNT(*) AS n FROM people WHERE sex = 'female' AND race <> 'r{race}' "
        "GROUP BY race",
        f"SELECT COUNT(*) FILTER (WHERE state = '{state}') AS here, COUNT(*) AS n FROM people",
        f"SELECT hours > {hours} AS longer, COUNT(*) AS n FROM people GROUP BY longer",
        f"SELECT sex, race, COUNT(*) AS n FROM people WHERE race >= 'r{race}' GROUP BY ALL",
        f"SELECT state, COUNT(*) AS n FROM people WHERE state <= '{state}' GROUP BY state",
        f"SELECT age // 10 AS decade, COUNT(*) AS n FROM people WHERE age <= {high} GROUP BY ALL",
    )[random.integers(0, 8)]


def lay_out(folder: Path, records: int, statements: int, mechanism: str) -> list[str]:
    """Write data, schema, SQL files and two plans that differ in their ledgers alone."""
    write_people(folder / "cold.parquet", records)
    shutil.copyfile(folder / "cold.parquet", folder / "warm.parquet")
    random = np.random.default_rng(1)
    written = [statement(random) for _ in range(statements)]
    asked = {
        name: ";\n".join(written[number :: len(ANALYSTS)]) + ";\n"
        for number, name in enumerate(ANALYSTS)
    }
    for copy in ("cold", "warm"):
        write_plan(folder, asked, columns=COLUMNS, source=copy, mechanism=mechanism)
    return written


def direct(path: Path, written: list[str]) -> float:
    """Return the CPU seconds that DuckDB takes for the statements themselves."""
    connection = duckdb.connect(config={"threads": 1})
    connection.execute(f"CREATE VIEW people AS FROM '{path}'")
    started = time.process_time()
    for sql in written:
        connection.execute(sql).fetchall()
    return time.process_time() - started


def released(plan: Path, cache: Path) -> float:
    """Return the CPU seconds of one release through the command line."""
    before = os.times()
    subprocess.run(
        [sys.executable, "-m", "sqlmadp", "release", str(plan), "--out", str(plan.with_suffix(""))],
        check=True,
        env=os.environ | {"SQLMADP_CACHE": str(cache)},
        stdout=subprocess.DEVNULL,
    )
    after = os.times()
    return (
        after.children_user + after.children_system - before.children_user - before.children_system
    )


def materialised(folder: Path) -> tuple[float, float]:
    """Return the CPU seconds of the pass over all columns, and of a plain GROUP BY of them."""
    domain = read_schema(folder / "people.toml")
    cells = {column.name: Partition.finest(column.size) for column in domain.columns}
    everything = Rows(tuple(sorted(cells)), tuple(cells[name] for name in sorted(cells)))
    names = ", ".join(COLUMNS)
    table = folder / "cold.parquet"
    engine = open_engine(Source(location=table.name, folder=folder), table="people")
    connection = duckdb.connect()
    times: list[tuple[float, float]] = []
    for _ in range(3):
        started = time.process_time()
        read_counts(engine, domain, [everything])
        passed = time.process_time()
        connection.execute(f"SELECT {names}, COUNT(*) FROM '{table}' GROUP BY {names}").fetchnumpy()
        times.append((passed - started, time.process_time() - passed))
    engine.close()
    return min(each[0] for each in times), min(each[1] for each in times)


def main() -> None:
    """Print CPU seconds and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--statements", type=int, default=1000)
    parser.add_argument("--mechanism", default="waterfilling")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        written = lay_out(folder, options.records, options.statements, options.mechanism)
        baseline = direct(folder / "cold.parquet", written)
        different = f"{len(set(written)):,} of them different"
        print(
            f"DuckDB runs {len(written):,} statements, {different}: {baseline:.1f} s CPU",
            flush=True,
        )
        for run in ("cold", "warm"):
            seconds = released(folder / f"{run}.toml", folder / "cache")
            ratio = f"ratio {seconds / baseline:.3f}"
            print(f"release, {run} cache: {seconds:.1f} s CPU, {ratio}", flush=True)
        passed, plain = materialised(folder)
        print(f"pass over the table {passed:.2f} s, GROUP BY {plain:.2f} s, {passed / plain:.2f}")


if __name__ == "__main__":
    main()
