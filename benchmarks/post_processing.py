"""Bias and error of post-processing on skewed data, over releases with the real noise source.

    python benchmarks/post_processing.py [--releases 200] [--epsilon 1/10]
    python benchmarks/post_processing.py --cells 20000

One analyst asks for area x sex, another for area and the total, a third for age.  Records per area
fall off as 1 / rank^2 (from some thousands to none), so most cells are small or empty.  For every
setting: bias (mean of answer minus truth), root mean squared error, and how often the truth lies
inside the stated 95% interval, for empty cells, cells of 1 to 10 records, larger ones, the areas,
and the total.

With --cells: CPU seconds for a table of so many cells, one of its two columns measured beside it,
for the answers and for the simulated releases that errors are stated from.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import time
from fractions import Fraction

import numpy as np

from sqlmadp.answer.processing import Processed, Processing, unit_noise
from sqlmadp.answer.reconstruct import Estimate
from sqlmadp.answer.sizes import DRAWS, INTERVAL
from sqlmadp.mechanism import mechanism
from sqlmadp.mechanism.collective import Collective
from sqlmadp.mechanism.fairness import noise_variance
from sqlmadp.private.noise import add_discrete_laplace, noise_scale
from sqlmadp.table.domain import Column, Domain
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows

AGES, AREAS, SEXES = 20, 60, 2
COLUMNS = (("age", AGES), ("area", AREAS), ("sex", SEXES))
DOMAIN = Domain(
    table="people",
    columns=tuple(
        Column(name=n, type="integer", minimum=0, maximum=s - 1, complete=True) for n, s in COLUMNS
    ),
)
SETTINGS = {
    "neither": Processing(),
    "nonnegative": Processing(nonnegative=True),
    "consistent": Processing(consistent=True),
    "both": Processing(nonnegative=True, consistent=True),
}


def every(*names: str) -> Rows:
    """Return the count of every cell of some columns."""
    return Rows(names, tuple(Partition.finest(dict(COLUMNS)[name]) for name in names), 1.0)


def skewed() -> np.ndarray:
    """Return the records of every cell."""
    age = np.exp(-np.arange(AGES) / 6)
    area = 4000.0 / (1 + np.arange(AREAS)) ** 2
    sex = np.array([0.6, 0.4])
    return np.floor(np.einsum("i,j,k->ijk", age / age.sum(), area, sex) + 0.5).reshape(-1)


def main() -> None:
    """Print one line per setting and group of answers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--releases", type=int, default=200)
    parser.add_argument("--epsilon", type=Fraction, default=Fraction(1, 10))
    parser.add_argument("--cells", type=int)
    options = parser.parse_args()
    if options.cells is not None:
        timed(options.cells)
        return
    asked = [[every("area", "sex")], [every("area"), every()], [every("age")]]
    shares = [Fraction(1, len(asked))] * len(asked)
    everyone = Collective(asked, shares, columns=dict(COLUMNS))
    strategy = mechanism("waterfilling").select(everyone)
    table = skewed()
    scale = noise_scale(strategy.total, options.epsilon)
    exact = [summed(table, block) for block in strategy.blocks]
    answered = [every("area", "sex"), every("area"), every()]
    truths = [summed(table, block) for block in answered]
    variance = strategy.total**2 * noise_variance(options.epsilon)
    noisy = [
        [add_discrete_laplace(e.astype(np.int64), scale).astype(float) for e in exact]
        for _ in range(options.releases)
    ]
    truth = np.concatenate(truths)
    kinds = np.concatenate([_kinds(truths[0]), ["areas"] * AREAS, ["total"]])
    print(f"epsilon {options.epsilon}, {options.releases} releases, {table.sum():,.0f} records")
    print(f"{'':14}{'answers':24}{'number':>7}{'bias':>9}{'RMSE':>9}{'stated':>9}{'inside':>9}")
    for name, processing in SETTINGS.items():
        found, stated = [], []
        for values in noisy:
            estimate = Estimate(DOMAIN, strategy.blocks, tuple(values), variance, processing)
            found.append(np.concatenate([np.rint(estimate.answers(b)) for b in answered]))
            stated.append(np.concatenate([estimate.rmse(b) for b in answered]))
        off, errors = np.array(found) - truth, np.array(stated)
        for kind in dict.fromkeys(kinds):
            chosen = kinds == kind
            inside = np.abs(off[:, chosen]) <= INTERVAL * errors[:, chosen]
            print(
                f"{name:14}{kind:24}{chosen.sum():7}{off[:, chosen].mean():9.2f}"
                f"{np.sqrt((off[:, chosen] ** 2).mean()):9.2f}"
                f"{np.sqrt((errors[:, chosen] ** 2).mean()):9.2f}{inside.mean():9.3f}"
            )


def timed(cells: int) -> None:
    """Print how long one large table takes to process."""
    rows, columns = cells // 200, 200
    sizes = (("age", rows), ("area", columns))
    whole, part = (
        Rows(tuple(n for n, _ in chosen), tuple(Partition.finest(s) for _, s in chosen), 2)
        for chosen in (sizes, sizes[:1])
    )
    table = np.floor(4000.0 / (1 + np.arange(whole.size)))
    sums = table.reshape(rows, columns).sum(axis=1)
    scale = noise_scale(4, Fraction(1, 10))
    values = [
        add_discrete_laplace(2 * each.astype(np.int64), scale).astype(float)
        for each in (table, sums)
    ]
    for name, processing in SETTINGS.items():
        started = time.process_time()
        processed = Processed(processing, [whole, part])
        processed.estimate(values)
        answered = time.process_time()
        pairs = zip(values, unit_noise([whole, part], DRAWS), strict=True)
        processed.estimate([own[:, None] + float(scale) * noise for own, noise in pairs])
        print(
            f"{name:14}{whole.size:8,} cells{answered - started:9.3f} s, "
            f"simulated {time.process_time() - answered:9.3f} s",
            flush=True,
        )


def summed(table: np.ndarray, rows: Rows) -> np.ndarray:
    """Return the exact answers of rows, given the records of every cell."""
    counts = table.reshape([size for _, size in COLUMNS])
    for axis, (name, _) in reversed(list(enumerate(COLUMNS))):
        if name not in rows.scope:
            counts = counts.sum(axis=axis)
            continue
        functions = rows.parts[rows.scope.index(name)].functions.toarray()
        counts = np.moveaxis(np.moveaxis(counts, axis, -1) @ functions.T, -1, axis)
    return np.asarray(rows.matrix @ counts.reshape(-1))


def _kinds(truth: np.ndarray) -> np.ndarray:
    small = np.where(truth == 0, "empty cells", "cells of 1 to 10")
    return np.where(truth > 10, "cells above 10", small)


if __name__ == "__main__":
    main()
