"""Coverage of the stated 95% intervals, over releases with the real noise source.

    python benchmarks/interval_coverage.py --releases 2000

The plan is small: counts, ranges, sums and grouped counts of two analysts over three columns,
measured by waterfilling at epsilon 1.  Prints how often the truth lies inside the interval,
for linear answers, block by block and in all.
"""

from __future__ import annotations

import argparse
import math
import time
from fractions import Fraction

import numpy as np

from sqlmadp.answer.sizes import INTERVAL
from sqlmadp.bind.bind import bind_all
from sqlmadp.bind.evaluate import Evaluator
from sqlmadp.mechanism import mechanism
from sqlmadp.mechanism.collective import Collective
from sqlmadp.mechanism.fairness import noise_variance
from sqlmadp.private.noise import add_discrete_laplace, noise_scale
from sqlmadp.solve.products import solution_of
from sqlmadp.sql.statements import split
from sqlmadp.table.domain import Column, Domain
from sqlmadp.table.rows import Rows

DOMAIN = Domain(
    table="people",
    columns=(
        Column(name="age", type="integer", minimum=0, maximum=19, complete=True),
        Column(name="sex", type="category", values=("f", "m"), complete=True),
        Column(name="area", type="category", values=tuple("abcd"), complete=True),
    ),
)
ALICE = """
SELECT COUNT(*) FROM people;
SELECT age, COUNT(*) FROM people GROUP BY age;
SELECT COUNT(*) FROM people WHERE age BETWEEN 3 AND 11;
SELECT SUM(age) FROM people;
"""
BOB = """
SELECT sex, area, COUNT(*) FROM people GROUP BY ROLLUP (sex, area);
SELECT area, SUM(age) FROM people GROUP BY area;
"""


def exact_answers(rows: Rows, cells: np.ndarray) -> np.ndarray:
    """Return the exact answers of rows, given the records of every cell."""
    table = cells
    for axis, column in reversed(list(enumerate(DOMAIN.columns))):
        if column.name not in rows.scope:
            table = table.sum(axis=axis)
            continue
        functions = rows.parts[rows.scope.index(column.name)].functions
        moved = np.moveaxis(table, axis, -1)
        table = np.moveaxis(moved @ functions.T.toarray(), -1, axis)
    order = [column.name for column in DOMAIN.columns if column.name in rows.scope]
    vertices = table.transpose([order.index(name) for name in rows.scope]).reshape(-1)
    return np.asarray(rows.matrix @ vertices)


def main() -> None:
    """Print the coverage."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--releases", type=int, default=2000)
    releases, begun = parser.parse_args().releases, time.process_time()
    evaluator, epsilon = Evaluator(DOMAIN), Fraction(1)
    asked = [bind_all(split(text, file="a.sql"), evaluator) for text in (ALICE, BOB)]
    workloads = [[rows for query in own for rows in query.aggregates] for own in asked]
    columns = {column.name: column.size for column in DOMAIN.columns}
    everyone = Collective(workloads, [Fraction(1, 2)] * 2, columns=columns)
    strategy = mechanism("waterfilling").select(everyone)
    place = np.indices([column.size for column in DOMAIN.columns])
    cells = 40 + (7 * place[0] + 3 * place[1] + 11 * place[2]) % 23
    # Rows of ramps are multiplied until their exact answers are whole numbers.
    units = math.lcm(*(block.units for block in strategy.blocks))
    blocks, total = [block.times(units) for block in strategy.blocks], strategy.total * units
    exact = [np.rint(exact_answers(block, cells)).astype(np.int64) for block in blocks]
    scale = noise_scale(total, epsilon)
    solution = solution_of(blocks)
    asking = [(query.name, rows) for own in asked for query in own for rows in query.aggregates]
    truths = [exact_answers(rows, cells) for _, rows in asking]
    variance = total**2 * noise_variance(epsilon)
    errors = [np.sqrt(variance * solution.variances(rows)) for _, rows in asking]
    inside = [np.zeros(len(truth)) for truth in truths]
    for _ in range(releases):
        noisy = [add_discrete_laplace(values, scale).astype(float) for values in exact]
        estimate = solution.estimate(noisy)
        for number, (_, rows) in enumerate(asking):
            answers = np.rint(estimate.answers(rows))
            inside[number] += np.abs(answers - truths[number]) <= INTERVAL * errors[number]
    for (name, rows), found in zip(asking, inside, strict=True):
        share = found / releases
        scope = " x ".join(rows.scope) or "the total"
        print(
            f"  {name} {scope:12} {share.mean():.4f} (rows {share.min():.4f} to {share.max():.4f})"
        )
    every = np.concatenate(inside) / releases
    print(
        f"{releases:,} releases, {len(every)} linear answers: coverage {every.mean():.4f}, "
        f"{time.process_time() - begun:.0f} s CPU"
    )


if __name__ == "__main__":
    main()
