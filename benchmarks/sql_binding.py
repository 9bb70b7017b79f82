"""Binding speed: 1,000 mixed statements, parsed, bound and evaluated over 71,400 cells.

python benchmarks/sql_binding.py
"""

from __future__ import annotations

import time

from sqlmadp.bind.bind import bind_all, cuts
from sqlmadp.bind.evaluate import Evaluator
from sqlmadp.sql.statements import split
from sqlmadp.table.domain import Column, Domain

STATES = tuple(f"s{number:02}" for number in range(51))
DOMAIN = Domain(
    table="people",
    columns=(
        Column(name="age", type="integer", minimum=0, maximum=99, complete=True),
        Column(name="sex", type="category", values=("f", "m"), complete=True),
        Column(name="race", type="category", values=tuple("abcdefg"), complete=True),
        Column(name="state", type="category", values=STATES, complete=True),
    ),
)


def statements() -> str:
    """Return a file of 1,000 statements of ten kinds."""
    made = []
    for n in range(100):
        low, high = n % 70, n % 70 + 1 + n % 29
        made += [
            f"SELECT COUNT(*) FROM people WHERE age BETWEEN {low} AND {high}",
            f"SELECT sex, COUNT(*) FROM people WHERE age >= {low} GROUP BY sex",
            f"SELECT state, COUNT(*) FROM people WHERE age < {high} AND sex = 'f' GROUP BY state",
            f"SELECT race, sex, COUNT(*) FROM people WHERE state IN ('s0{n % 10}') GROUP BY ALL",
            f"SELECT age // {n % 20 + 1} AS band, COUNT(*) FROM people GROUP BY band ORDER BY band",
            f"SELECT sex, AVG(age), COUNT(*) FROM people WHERE age > {low} GROUP BY sex",
            f"SELECT state, SUM(age) FROM people WHERE race <> 'a' AND age < {high} GROUP BY state",
            f"SELECT race, COUNT(*) FILTER (age > {low}) FROM people GROUP BY ROLLUP (race)",
            f"SELECT MEDIAN(age) FROM people WHERE sex = 'm' AND age <> {high}",
            f"SELECT sex, COUNT(*) AS n FROM people WHERE age % {n % 7 + 2} = 0 OR race = 'b' "
            "GROUP BY sex HAVING COUNT(*) > 10 ORDER BY n DESC LIMIT 1",
        ]
    return ";\n".join(made)


def main() -> None:
    """Print the CPU time."""
    text = statements()
    start = time.process_time()
    split_up = split(text, file="mixed.sql")
    domain = DOMAIN.with_cuts(cuts(split_up, DOMAIN))
    bound = bind_all(split_up, Evaluator(domain))
    spent = time.process_time() - start
    print(f"{len(bound):,} statements over {domain.cells:,} cells: {spent:.2f} s CPU")


if __name__ == "__main__":
    main()
