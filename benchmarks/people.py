"""What several benchmarks share: a table of people, plans over it, and a plan's analysts."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import duckdb

from sqlmadp.files.plan import Plan
from sqlmadp.mechanism.collective import Collective
from sqlmadp.release.bound_plan import BoundPlan

STATES = [f"S{number:02}" for number in range(51)]
COLUMNS = {
    "age": 'type = "integer"\nmin = 0\nmax = 99',
    "hours": 'type = "integer"\nmin = 0\nmax = 40',
    "race": 'type = "category"\nvalues = ["r1", "r2", "r3", "r4", "r5", "r6", "r7"]',
    "sex": 'type = "category"\nvalues = ["female", "male"]',
    "state": f'type = "category"\nvalues = {STATES}'.replace("'", '"'),
}
FOUR = ("age", "race", "sex", "state")
"""Columns of 71,400 cells."""

PLAN = """schema = "{table}.toml"
source = "{source}.parquet"
epsilon = "1"
mechanism = "{mechanism}"
[ledger]
path = "{source}.ledger"
budget = "1"
"""


def declared(table: str, columns: Mapping[str, str]) -> str:
    """Return a schema."""
    texts = "".join(f"[columns.{name}]\n{text}\n" for name, text in columns.items())
    return f'table = "{table}"\n{texts}'


def write_people(path: Path, records: int) -> None:
    """Write a table of people, all columns of it, the same ones every time."""
    states = ", ".join(f"'{state}'" for state in STATES)
    duckdb.execute(
        "SELECT setseed(0.5);"
        "COPY (SELECT CAST(floor(100 * pow(random(), 1.3)) AS BIGINT) AS age,"
        "  CAST(floor(41 * random()) AS BIGINT) AS hours,"
        "  'r' || CAST(1 + floor(7 * pow(random(), 3)) AS INTEGER) AS race,"
        "  CASE WHEN random() < 0.51 THEN 'female' ELSE 'male' END AS sex,"
        f" [{states}][1 + CAST(floor(51 * pow(random(), 2)) AS INTEGER)] AS state"
        f" FROM range({records})) TO '{path}' (FORMAT parquet)"
    )


def write_plan(
    folder: Path,
    asked: Mapping[str, str],
    *,
    columns: Mapping[str, str] | None = None,
    table: str = "people",
    source: str | None = None,
    mechanism: str = "waterfilling",
) -> Path:
    """Write a schema, every analyst's statements and a plan of them; return the plan."""
    chosen = {name: COLUMNS[name] for name in FOUR} if columns is None else columns
    (folder / f"{table}.toml").write_text(declared(table, chosen))
    plan = PLAN.format(table=table, source=source or table, mechanism=mechanism)
    for name, statements in asked.items():
        (folder / f"{name}.sql").write_text(statements)
        plan += f'[analysts.{name}]\nqueries = "{name}.sql"\n'
    path = folder / f"{source or 'plan'}.toml"
    path.write_text(plan)
    return path


def collective(path: Path) -> Collective:
    """Return the analysts of a plan; their errors are plain sums of squares, as in the paper."""
    plan = replace(Plan.open(path), measure="squared")
    known = BoundPlan.bind(plan).collective
    # Without the cache on disk: what is measured is selection.
    return Collective(known.workloads, known.shares, columns=known.columns)
