"""Selection of single workloads, beside HDMM's p-Identity with 25 restarts.

    python benchmarks/selection.py REFERENCE [--cells N]... [--runs 5]

REFERENCE is a folder with HDMM's results, which are not part of this project.  Errors are for
epsilon 1, summed over queries.
Ours are certified: recomputed from the integer strategy.  CPU seconds: those recorded with HDMM's
results are for its restarts together, the searches alone; ours are the median of several runs on
this machine, from the queries to a certified integer strategy, Gram matrix included.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sqlmadp.experiment.instances import over_cells
from sqlmadp.strategy.select import select
from sqlmadp.table.rows import Rows


def prefix(cells: int) -> NDArray[np.float64]:
    """Return every range that starts at the first cell."""
    return np.tril(np.ones((cells, cells)))


def all_range(cells: int) -> NDArray[np.float64]:
    """Return the Cholesky factor of the Gram matrix of all ranges, which is all that matters."""
    places = np.arange(cells)
    gram = (np.minimum.outer(places, places) + 1) * (cells - np.maximum.outer(places, places))
    return np.linalg.cholesky(gram.astype(np.float64)).T


def identity_and_total(cells: int) -> NDArray[np.float64]:
    """Return every cell, and all of them together."""
    return np.vstack([np.eye(cells), np.ones((1, cells))])


def binary_hierarchy(cells: int) -> NDArray[np.float64]:
    """Return the cells in groups of 1, 2, 4, ... and all."""
    levels = []
    width = 1
    while width <= cells:
        levels.append(np.kron(np.eye(cells // width), np.ones((1, width))))
        width *= 2
    return np.vstack(levels)


WORKLOADS = {
    "Prefix": prefix,
    "AllRange": all_range,
    "IdTotal": identity_and_total,
    "H2": binary_hierarchy,
}


def selected(workload: tuple[Rows, ...], runs: int) -> tuple[float, float]:
    """Return the error of the strategy that is selected, and the median CPU seconds it took."""
    seconds = []
    for _ in range(runs):
        started = time.process_time()
        error = 2 * select(workload).error
        seconds.append(time.process_time() - started)
    return error, float(np.median(seconds))


def main() -> None:
    """Print one line per workload and size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("reference", type=Path)
    parser.add_argument("--cells", type=int, action="append")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    stored = json.loads((options.reference / "hdmm_1d_bench.json").read_text())
    known = {(each["workload"], each["n"]): each for each in stored}
    print(
        f"{'workload':10}{'cells':>6}{'ours':>16}{'HDMM':>16}{'ratio':>8}{'CPU s':>9}{'HDMM s':>9}"
        f"{'ratio':>8}"
    )
    selected(over_cells(prefix(40)), 1)  # The first selection of a process takes longer.
    for cells in options.cells or (64, 256, 1024):
        for name, make in WORKLOADS.items():
            workload = over_cells(make(cells))
            error, seconds = selected(workload, options.runs)
            theirs = known.get((name, cells))
            best = min(theirs["best"], theirs["idtotal"]) if theirs else np.nan
            spent = theirs["cpu_total"] if theirs else np.nan
            print(
                f"{name:10}{cells:6}{error:16,.1f}{best:16,.1f}{error / best:8.3f}"
                f"{seconds:9.3f}{spent:9.3f}{seconds / spent:8.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
