"""How fast a connection answers queries that have been released.

    python benchmarks/connection.py [--statements 10000]

Releases a copy of the census example, then executes and fetches the statements that one analyst
handed in, over and over; the same with parameters; and statements that nobody has asked yet, each
of which has to be bound and reconstructed.  Times are CPU time.
"""

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import sqlmadp

ROOT = Path(__file__).parent.parent
FURTHER = 200


def main() -> None:
    """Print the CPU time of each kind of statement."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--statements", type=int, default=10_000)
    count = parser.parse_args().statements
    with tempfile.TemporaryDirectory() as folder:
        for part in ("schemas", "examples/census"):
            ignored = shutil.ignore_patterns("*.ledger*", "*.staged")
            shutil.copytree(ROOT / part, Path(folder) / part, ignore=ignored)
        path = Path(folder) / "examples" / "census" / "plan.toml"
        sqlmadp.Plan.open(path).release()
        started = time.process_time()
        connection = sqlmadp.connect(path, analyst="health")
        print(f"connect: {time.process_time() - started:.2f} s CPU")
        measure(connection, count)
        connection.close()


def measure(connection: sqlmadp.Connection, count: int) -> None:
    """Execute and fetch statements of three kinds."""
    queries = list(connection.queries.values())
    cursor = connection.cursor()
    by_age = "SELECT COUNT(*) FROM people WHERE age BETWEEN ? AND ?"

    def released(number: int) -> None:
        cursor.execute(queries[number % len(queries)]).fetchall()

    def with_parameters(number: int) -> None:
        cursor.execute(by_age, [number % 50, 50 + number % 7]).fetchall()

    def further(number: int) -> None:
        low, high = divmod(number, 50)
        sql = f"SELECT COUNT(*) FROM people WHERE age NOT BETWEEN {low} AND {50 + high}"
        cursor.execute(sql).fetchall()

    report(f"execute + fetchall of {len(queries)} released queries", released, count)
    report("execute + fetchall with parameters, 350 different", with_parameters, count)
    report("execute + fetchall of queries not asked before", further, FURTHER)


def report(what: str, run: Callable[[int], None], count: int) -> None:
    """Run something ``count`` times and print what it took."""
    started = time.process_time()
    for number in range(count):
        run(number)
    spent = time.process_time() - started
    print(f"{what}: {count:,} in {spent:.2f} s CPU, {spent / count * 1e3:.3f} ms each")


if __name__ == "__main__":
    main()
