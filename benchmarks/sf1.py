"""Census tables about persons, one analyst per table: total errors, fairness, CPU time.

    python benchmarks/sf1.py [REFERENCE] [--mechanisms utilitarian pareto ...] [--folder DIR]

Sex (2) x Hispanic (2) x race (64, one bit each of six races) x relationship (17) x age (115),
500,480 cells, and the tables P1, P3, P4, P5, P8 to P12, P12A-I, PCT12 and PCT12A-O of the 2010
summary file, 4,151 counts, written as SQL.  Errors are totals at epsilon 1; where REFERENCE holds
hdmm_sf1.json, beside HDMM's best.  CPU time is that of selecting and of all expected errors,
and that of both fairness measures, for which everyone is left out once.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import tempfile
import time
from fractions import Fraction
from pathlib import Path

from people import collective

from sqlmadp.mechanism import mechanism
from sqlmadp.mechanism.fairness import outcome

SCHEMA = """table = "persons"
[columns.age]
type = "integer"
complete = true
min = 0
max = 114
[columns.hispanic]
type = "boolean"
complete = true
[columns.race]
type = "integer"
complete = true
min = 0
max = 63
[columns.relationship]
type = "integer"
complete = true
min = 0
max = 16
[columns.sex]
type = "category"
complete = true
values = ["female", "male"]
"""
PLAN = """schema = "persons.toml"
source = "persons.parquet"
epsilon = "1"
[ledger]
path = "persons.ledger"
budget = "1"
"""
BANDS = (5, 10, 15, 18, 20, 21, 22, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85)
BAND = f"CASE {' '.join(f'WHEN age < {end} THEN {end}' for end in BANDS)} ELSE 115 END"
SINGLE = "CASE WHEN age < 100 THEN age WHEN age < 105 THEN 100 WHEN age < 110 THEN 105 ELSE 110 END"
SEVEN = "CASE WHEN bit_count(race) = 1 THEN race ELSE 0 END"
"""Each single race, and everybody else."""
MECHANISMS_SHOWN = ["utilitarian", "waterfilling", "pareto"]
GROUPS = (*(f"race = {1 << bit}" for bit in range(6)), "bit_count(race) <> 1")


def where(*conditions: str) -> str:
    """Return a WHERE clause of the conditions that are not empty."""
    given = [condition for condition in conditions if condition]
    return f" WHERE {' AND '.join(given)}" if given else ""


def by_race(only: str = "") -> list[str]:
    """Return the 71 counts of the detailed race tables."""
    several = where("bit_count(race) >= 2", only)
    return [
        f"SELECT COUNT(*) FROM persons{where(only)}",
        "SELECT bit_count(race) = 1 AS one, COUNT(*) FROM persons"
        f"{where('race > 0', only)} GROUP BY one",
        f"SELECT bit_count(race) AS races, COUNT(*) FROM persons{several} GROUP BY races",
        f"SELECT race, COUNT(*) FROM persons{where('race > 0', only)} GROUP BY race",
    ]


def by_origin(only: str = "") -> list[str]:
    """Return the 73 counts of the tables by Hispanic origin and race."""
    return [
        f"SELECT COUNT(*) FROM persons{where(only)}",
        f"SELECT COUNT(*) FROM persons{where('hispanic', only)}",
        *by_race(" AND ".join(filter(None, ("NOT hispanic", only)))),
    ]


def by_age(years: str, only: str = "") -> list[str]:
    """Return the counts by sex and age, with their totals."""
    counts = f"SELECT sex, {years} AS years, COUNT(*) FROM persons{where(only)}"
    return [f"{counts} GROUP BY ROLLUP (sex, years)"]


def tables() -> dict[str, list[str]]:
    """Return the statements of every table."""
    total, rollup = "SELECT COUNT(*) FROM persons", " GROUP BY ROLLUP (hispanic, k)"
    found = {
        "P1": [total],
        "P3": [total, f"SELECT {SEVEN} AS race, COUNT(*) FROM persons GROUP BY ALL"],
        "P4": ["SELECT hispanic, COUNT(*) FROM persons GROUP BY ROLLUP (hispanic)"],
        "P5": [f"SELECT hispanic, {SEVEN} AS k, COUNT(*) FROM persons{rollup}"],
        "P8": by_race(),
        "P9": by_origin(),
        "P10": by_race("age >= 18"),
        "P11": by_origin("age >= 18"),
        "P12": by_age(BAND),
    }
    for letter, only in zip(
        "ABCDEFGHI", (*GROUPS, "hispanic", "NOT hispanic AND race = 1"), strict=True
    ):
        found[f"P12{letter}"] = by_age(BAND, only)
    found["PCT12"] = by_age(SINGLE)
    alone = (f"NOT hispanic AND {group}" for group in GROUPS)
    for letter, only in zip("ABCDEFGHIJKLMNO", (*GROUPS, "hispanic", *alone), strict=True):
        found[f"PCT12{letter}"] = by_age(SINGLE, only)
    return found


def write(folder: Path) -> Path:
    """Write the schema, the SQL files and the plan; return the plan."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "persons.toml").write_text(SCHEMA)
    plan = PLAN
    for name, statements in tables().items():
        (folder / f"{name}.sql").write_text(";\n".join(statements) + ";\n")
        plan += f'[analysts.{name}]\nqueries = "{name}.sql"\n'
    (folder / "plan.toml").write_text(plan)
    return folder / "plan.toml"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reference", nargs="?", type=Path)
    parser.add_argument("--mechanisms", nargs="*", default=MECHANISMS_SHOWN)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        plan = write(arguments.folder or Path(temporary))
        start = time.process_time()
        everyone = collective(plan)
        binding = time.process_time() - start
    best = float("nan")
    if arguments.reference is not None:
        known = json.loads((arguments.reference / "hdmm_sf1.json").read_text())
        best = min(*known["kron"], *known["defaultkron"])
    counts = sum(rows.count for own in everyone.workloads for rows in own)
    print(f"{len(everyone)} analysts, {counts:,} counts, bound in {binding:.1f} CPU s")
    utilitarian = None
    for name in arguments.mechanisms:
        start = time.process_time()
        found = outcome(mechanism(name), everyone, Fraction(1))
        total = found.total_error
        seconds = time.process_time() - start
        utilitarian = total if name == "utilitarian" else utilitarian
        print(
            f"{name}: total error {total:,.0f}, {total / best:.3f} of HDMM's best, "
            f"{total / utilitarian if utilitarian else float('nan'):.3f} of utilitarian's; "
            f"{seconds:.1f} CPU s",
            flush=True,
        )
        start = time.process_time()
        print(
            f"  largest sharing ratio {found.sharing_ratio:.4f}, largest interference "
            f"{found.worst_interference:.4f}, within the agreement "
            f"{found.worst_interference_within_agreement:.4f}; "
            f"{time.process_time() - start:.1f} CPU s",
            flush=True,
        )


if __name__ == "__main__":
    main()
