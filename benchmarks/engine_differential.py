"""Counts generated tables on every engine, and in plain Python, and compares.

    python benchmarks/engine_differential.py --cases 200

DuckDB counts each table twice, from its own file and from Parquet.  PostgreSQL and Spark are
found or started as for the tests (see tests/services.py).  Exits with 1 on a difference.
"""

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import psycopg

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from engine_cases import EngineCase, load_postgres, load_spark
from services import postgres, spark

from sqlmadp.private.data_vector import read_counts
from sqlmadp.private.engines import Source, open_engine


def main() -> int:
    """Run the cases and print what was compared."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--engines", default="duckdb,parquet,postgresql,spark")
    given = parser.parse_args()
    engines = given.engines.split(",")
    compared = dict.fromkeys(engines, 0)
    marginals = cells = counted = differences = 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        locations = {"duckdb": "t.duckdb", "parquet": "t.parquet", "spark": "spark://#t"}
        if "postgresql" in engines:
            url = stack.enter_context(postgres())
            connection = stack.enter_context(psycopg.connect(url, autocommit=True))
            connection.prepare_threshold = None
            locations["postgresql"] = f"{url}#public.t"
        session = stack.enter_context(spark()) if "spark" in engines else None
        for number in range(given.first, given.first + given.cases):
            case = EngineCase.number(number)
            for old in folder.iterdir():
                old.unlink()
            case.write_duckdb(folder / "t.duckdb")
            if "postgresql" in engines:
                load_postgres(connection, case)
            if session is not None:
                load_spark(session, case, folder / "t.parquet")
            for name in engines:
                engine = open_engine(Source(location=locations[name], folder=folder), table="t")
                counts = read_counts(engine, case.domain, case.marginals)
                engine.close()
                compared[name] += 1
                for count, expected in zip(counts, case.expected, strict=True):
                    if not np.array_equal(count, expected):
                        differences += 1
                        print(f"case {number} on {name}: {case!r}", flush=True)
            marginals += len(case.marginals)
            cells += sum(counts.size for counts in case.expected)
            counted += max(int(counts.sum()) for counts in case.expected)
    runs = ", ".join(f"{name} {runs}" for name, runs in compared.items())
    print(
        f"tables counted: {runs}; {marginals} marginals with {cells:,} cells of {counted:,} records"
    )
    print(f"differences: {differences}")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
