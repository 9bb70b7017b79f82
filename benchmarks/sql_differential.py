"""A differential test: generated statements against DuckDB on the raw table, at epsilon 10^9.

    python benchmarks/sql_differential.py --seeds 0 100 --statements 200

Every seed is one table (with NULLs and undeclared values in every column) and one real release of
all its statements; what comes back must be DuckDB's rows on the table in which undeclared values
are NULL.  Prints the number of statements, differences and crashes, and how many statements of
each construct were accepted.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from fractions import Fraction
from pathlib import Path

import duckdb

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from people_table import DOMAIN, as_declared, possible_connection, same_rows, table
from statement_generator import Generator, Made

from sqlmadp.answer.reconstruct import Estimate
from sqlmadp.answer.rows import Desk
from sqlmadp.bind.bind import BoundQuery, bind, bind_all, cuts
from sqlmadp.bind.evaluate import Evaluator
from sqlmadp.errors import SqlError
from sqlmadp.mechanism import mechanism
from sqlmadp.mechanism.collective import Collective
from sqlmadp.private import Ledger, measure
from sqlmadp.private.engines import Source
from sqlmadp.sql.statements import split

EPSILON = Fraction(10**9)


class Run:
    """Counts what happened."""

    def __init__(self) -> None:
        self.made, self.accepted, self.refused = Counter(), Counter(), Counter()
        self.statements = self.answered = self.differences = self.crashes = 0

    def bind(self, made: Made, evaluator: Evaluator) -> BoundQuery | None:
        """Bind one statement; None if it is refused."""
        self.statements += 1
        self.made.update(made.constructs)
        try:
            (statement,) = split(made.sql, file="generated.sql")
            query = bind(statement, evaluator)
        except SqlError as error:
            self.refused.update({problem.code for problem in error.problems})
            return None
        except Exception as error:
            self.crashes += 1
            print(f"CRASH {type(error).__name__}: {error}\n  {made.sql}")
            return None
        self.accepted.update(made.constructs)
        return query

    def bind_all(self, statements: list[Made], evaluator: Evaluator) -> list[BoundQuery | None]:
        """Bind all at once, which is faster; one by one if any is refused."""
        text = ";\n".join(made.sql for made in statements)
        try:
            bound = bind_all(split(text, file="generated.sql"), evaluator)
        except Exception:
            return [self.bind(made, evaluator) for made in statements]
        self.statements += len(statements)
        for made in statements:
            self.made.update(made.constructs)
            self.accepted.update(made.constructs)
        return list(bound)

    def compare(self, made: Made, query: BoundQuery, rows: list[tuple], raw: object) -> None:
        """Compare rows, names and types with those of DuckDB."""
        self.answered += 1
        described = raw.sql(made.sql).description
        columns = [
            (str(name), str(kind).replace('"NULL"', "INTEGER")) for name, kind, *_ in described
        ]
        theirs = raw.execute(made.reference).fetchall()
        same = same_rows(rows, theirs, ordered=made.ordered)
        if list(query.columns) != columns or not same:
            self.differences += 1
            print(
                f"DIFFERENCE\n  {made.sql}\n  {sorted(map(str, rows))}\n"
                f"  {sorted(map(str, theirs))}"
            )
            print(f"  {query.columns}\n  {columns}" if list(query.columns) != columns else "")


def one_seed(seed: int, count: int, run: Run) -> None:
    """Make one table and one release, and compare every statement."""
    generator = Generator(seed)
    statements = [generator.make() for _ in range(count)]
    text = ";\n".join(made.sql for made in statements)
    domain = DOMAIN.with_cuts(cuts(split(text, file="generated.sql"), DOMAIN))
    evaluator = Evaluator(domain)
    bound = list(zip(statements, run.bind_all(statements, evaluator), strict=True))
    queries = [query for _, query in bound if query is not None]
    records = table(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.parquet"
        write_parquet(records, path)
        columns = {column.name: column.size for column in domain.columns}
        # Identity measures every cell anyway, whatever is asked.
        alone = Collective([queries[0].aggregates], [Fraction(1)], columns=columns)
        strategy = mechanism("identity").select(alone)
        with Ledger.open(Path(folder) / "ledger", budget=EPSILON) as ledger:
            measurement = measure(
                strategy.blocks,
                source=Source(location=str(path), folder=Path(folder)),
                domain=domain,
                ledger=ledger,
                release=f"seed {seed}",
                epsilon=EPSILON,
                analysts=["generated"],
                mechanism="identity",
                metadata={"cuts": {c.name: list(c.cuts) for c in domain.columns if c.cuts}},
            )
    estimate, desk, raw = (
        Estimate.of([measurement], domain),
        Desk(),
        possible_connection(as_declared(records)),
    )
    for made, query in bound:
        if query is None:
            continue
        try:
            rows = desk.rows(query, estimate)
        except Exception as error:
            run.crashes += 1
            print(f"CRASH {type(error).__name__}: {error}\n  {made.sql}")
            continue
        run.compare(made, query, rows, raw)


def write_parquet(records: list, path: Path) -> None:
    """Write the private table."""
    columns = ", ".join(f"{c.name} {c.sql_type}" for c in DOMAIN.columns)
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE people ({columns})")
        if records:
            connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?)", records)
        connection.execute(f"COPY people TO '{path}' (FORMAT parquet)")


def main() -> None:
    """Print what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", nargs=2, type=int, default=(0, 100), metavar=("FIRST", "END"))
    parser.add_argument("--statements", type=int, default=200)
    given = parser.parse_args()
    run, start = Run(), time.process_time()
    for seed in range(*given.seeds):
        one_seed(seed, given.statements, run)
    print(
        f"seeds {given.seeds[0]} to {given.seeds[1] - 1}: {run.statements:,} statements, "
        f"{run.answered:,} answered, {run.differences} differences, {run.crashes} crashes, "
        f"{time.process_time() - start:.0f} s CPU"
    )
    for construct, made in sorted(run.made.items()):
        accepted = run.accepted[construct]
        print(f"  {construct:20} {accepted:6} of {made:6} accepted ({100 * accepted / made:.1f}%)")
    print("  refused for:", dict(run.refused.most_common()))


if __name__ == "__main__":
    main()
