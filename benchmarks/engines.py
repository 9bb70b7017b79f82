"""Releases from one large table on every engine, beside a plain GROUP BY of the same engine.

    python benchmarks/engines.py --rows 10000000

The table has five columns and two of no concern to anybody; one analyst asks for two
histograms, a cross table and a total.  Each engine loads the same records first, which is not
measured, nor is a first round of everything, in which Java compiles itself.  Then, in turns: the
counting of the release (all its scopes in one statement, with and without units of at most three
records), and the GROUP BY that a person would write for the same cells.  Times are on the clock,
since two of the engines are other processes.
PostgreSQL and Spark are found or started as for the tests (see tests/services.py).
"""

import argparse
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import duckdb
import psycopg
from people import declared

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from services import postgres, spark

from sqlmadp.files.plan import Plan
from sqlmadp.files.schema import read_schema
from sqlmadp.private.data_vector import read_counts
from sqlmadp.private.engines import Source, open_engine
from sqlmadp.table.domain import Unit
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows

STATES = [f"s{number:02}" for number in range(50)]
COLUMNS = {
    "age": 'type = "integer"\nmin = 0\nmax = 99',
    "sex": 'type = "category"\nvalues = ["f", "m"]',
    "state": f'type = "category"\nvalues = {STATES}'.replace("'", '"'),
    "insured": 'type = "boolean"',
    "income": 'type = "real"\nmin = 0.0\nmax = 100000.0',
}
STATEMENTS = """
SELECT age, COUNT(*) AS n FROM people GROUP BY age;
SELECT state, sex, COUNT(*) AS n FROM people GROUP BY ALL;
SELECT sex, insured, COUNT(*) AS n FROM people WHERE income > 50000 GROUP BY ALL;
SELECT COUNT(*) AS n FROM people
"""
SCOPES = [("age",), ("sex", "state"), ("income", "insured", "sex"), ()]
PLAN = """
schema = "people.toml"
source = "{source}"
epsilon = "1"
[ledger]
path = "{name}.ledger"
budget = "1"
[analysts.ana]
queries = "ana.sql"
"""
RECORDS = """
SELECT (hash(i) % 100)::INTEGER AS age, CASE hash(i, 1) % 2 WHEN 0 THEN 'f' ELSE 'm' END AS sex,
    's' || lpad((hash(i, 2) % 50)::VARCHAR, 2, '0') AS state, hash(i, 3) % 3 = 0 AS insured,
    (hash(i, 4) % 1000000) / 10 AS income, (hash(i, 5) % ({rows} // 4))::INTEGER AS person,
    i::BIGINT AS visit
FROM range({rows}) t(i)
"""
BY_HAND = (
    "SELECT age, sex, state, insured, income > 50000 AS rich, COUNT(*) AS n FROM people "
    "GROUP BY age, sex, state, insured, income > 50000"
)
TYPES = (
    "age integer, sex text, state text, insured boolean, income double precision, "
    "person integer, visit bigint"
)


def main() -> None:
    """Load the table everywhere, and print what each engine takes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engines", default="duckdb,postgresql,spark")
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        lay_out(folder, given.rows)
        for name in given.engines.split(","):
            location = "people.parquet"
            if name == "postgresql":
                location = _load_postgres(stack.enter_context(postgres()), folder)
            if name == "spark":
                stack.enter_context(spark("local[2]"))
                # Under another name, since one table is charged to one ledger.
                (folder / "lake.parquet").hardlink_to(folder / "people.parquet")
                location = "spark://#lake.parquet"
            measure(name, location, folder, given.rounds)


def lay_out(folder: Path, rows: int) -> None:
    """Write the table, its schema and the statements."""
    (folder / "people.toml").write_text(declared("people", COLUMNS))
    (folder / "ana.sql").write_text(STATEMENTS)
    duckdb.execute(f"COPY ({RECORDS.format(rows=rows)}) TO '{folder}/people.parquet'")


def _load_postgres(url: str, folder: Path) -> str:
    csv = folder / "people.csv"
    duckdb.execute(f"COPY (FROM '{folder}/people.parquet') TO '{csv}' (HEADER false)")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP TABLE IF EXISTS people; CREATE TABLE people ({TYPES})")
        with (
            csv.open("rb") as file,
            connection.cursor().copy("COPY people FROM STDIN (FORMAT csv)") as copy,
        ):
            while part := file.read(2**20):
                copy.write(part)
        connection.execute("VACUUM ANALYZE people")
    csv.unlink()
    return f"{url}#public.people"


def measure(name: str, location: str, folder: Path, rounds: int) -> None:
    """Print what one engine takes."""
    domain = read_schema(folder / "people.toml").with_cuts({"income": [50000.0]})
    units = replace(domain, unit=Unit(column="person", max_records=3, key=("visit",)))
    marginals = [
        Rows(scope, tuple(Partition.finest(domain.column(each).size) for each in scope))
        for scope in SCOPES
    ]
    source = Source(location=location, folder=folder)
    took: dict[str, list[float]] = {"by hand": [], "release": [], "units": []}
    for _ in range(1 + rounds):
        engine = open_engine(source, table="people")
        took["by hand"].append(_seconds(_by_hand, engine, location))
        took["release"].append(_seconds(read_counts, engine, domain, marginals))
        took["units"].append(_seconds(read_counts, engine, units, marginals))
        engine.close()
    hand, counted, limited = (statistics.median(each[1:]) for each in took.values())
    print(
        f"{name:10}  GROUP BY by hand {hand:6.2f} s   counting {counted:6.2f} s "
        f"({counted / hand:4.2f} times)   with units {limited:6.2f} s "
        f"({limited / hand:4.2f} times)",
        flush=True,
    )
    (folder / "plan.toml").write_text(PLAN.format(source=location, name=name))
    start = time.perf_counter()
    Plan.open(folder / "plan.toml").release()
    print(f"{name:10}  whole release, planning included {time.perf_counter() - start:6.2f} s")


def _by_hand(engine, location: str) -> None:
    """Run the plain statement on the connection that counts, and fetch its rows."""
    if hasattr(engine, "session"):
        engine.session.read.parquet(
            str(Path(engine.identity.table.removeprefix("file:")))
        ).createOrReplaceTempView("people")
        engine.session.sql(BY_HAND).toArrow()
        return
    relation = engine.relation.copy()
    dialect = "postgres" if location.startswith("postgresql") else "duckdb"
    text = BY_HAND.replace("FROM people", f"FROM {relation.sql(dialect)}")
    engine.connection.execute(text).fetchall()


def _seconds(work, *arguments) -> float:
    start = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
