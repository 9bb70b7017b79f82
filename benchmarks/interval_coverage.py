"""Coverage of the stated 95% intervals, over releases with the real noise source.

    python benchmarks/interval_coverage.py --releases 2000

The plan is small: counts, ranges, sums and grouped counts of two analysts over three columns,
measured by waterfilling at epsilon 1.  Prints how often the truth lies inside the interval,
for linear answers, block by block and in all.
"""

from __future__ import annotations

import argparse
import time
from fractions import Fraction

import numpy as np

from sqlmadp.answer.reconstruct import Estimate
from sqlmadp.answer.result import WITHIN
from sqlmadp.mechanism.catalogue import MECHANISMS
from sqlmadp.mechanism.fairness import noise_variance
from sqlmadp.private.noise import add_discrete_laplace, noise_scale
from sqlmadp.schema.domain import Column, Domain
from sqlmadp.schema.marginal import Block
from sqlmadp.sql.bind import bind_all
from sqlmadp.sql.evaluate import Evaluator
from sqlmadp.sql.statements import split
from sqlmadp.workload.solver import solver_for
from sqlmadp.workload.workload import Workload

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


def counts(block: Block, cells: np.ndarray) -> np.ndarray:
    """Return the records in every cell of a block's marginal."""
    names = [column.name for column in DOMAIN.columns]
    table = cells
    for axis, name in reversed(list(enumerate(names))):
        if name not in block.marginal.scope:
            table = table.sum(axis=axis)
            continue
        partition = block.marginal.partitions[block.marginal.scope.index(name)]
        merged = np.zeros((partition.size, *np.moveaxis(table, axis, 0).shape[1:]))
        np.add.at(merged, partition.labels, np.moveaxis(table, axis, 0))
        table = np.moveaxis(merged, 0, axis)
    order = [name for name in names if name in block.marginal.scope]
    return table.transpose([order.index(name) for name in block.marginal.scope]).reshape(-1)


def main() -> None:
    """Print the coverage."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--releases", type=int, default=2000)
    releases, begun = parser.parse_args().releases, time.process_time()
    evaluator, epsilon = Evaluator(DOMAIN), Fraction(1)
    asked = [bind_all(split(text, file="a.sql"), evaluator) for text in (ALICE, BOB)]
    workloads = [Workload.of(b for query in own for b in query.aggregates) for own in asked]
    columns = [(column.name, column.size) for column in DOMAIN.columns]
    strategy = MECHANISMS["waterfilling"](columns, None).select(workloads, [Fraction(1, 2)] * 2)
    place = np.indices([column.size for column in DOMAIN.columns])
    cells = 40 + (7 * place[0] + 3 * place[1] + 11 * place[2]) % 23
    exact = [
        np.rint(block.matrix @ counts(block, cells)).astype(np.int64) for block in strategy.blocks
    ]
    scale = noise_scale(strategy.sensitivity, epsilon)
    estimate = Estimate(
        DOMAIN,
        strategy.blocks,
        tuple(values.astype(float) for values in exact),
        noise_variance(strategy.sensitivity, epsilon),
    )
    solver = solver_for(strategy.blocks)
    blocks = [(query.name, block) for own in asked for query in own for block in query.aggregates]
    truths = [block.matrix @ counts(block, cells) for _, block in blocks]
    errors = [estimate.rmse(block) for _, block in blocks]
    inside = [np.zeros(len(truth)) for truth in truths]
    for _ in range(releases):
        noisy = solver.fit([add_discrete_laplace(v, scale).astype(float) for v in exact])
        for number, (_, block) in enumerate(blocks):
            answers = np.rint(noisy(block))
            inside[number] += np.abs(answers - truths[number]) <= WITHIN * errors[number]
    for (name, block), found in zip(blocks, inside, strict=True):
        share = found / releases
        scope = " x ".join(block.marginal.scope) or "the total"
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
