"""The paper's practical and one-way marginal instances, beside the paper's own results.

    python benchmarks/paper_instances.py practical REFERENCE [--instances N] [--mechanism M]...
    python benchmarks/paper_instances.py marginals REFERENCE --keep FILE

REFERENCE is a folder with the instances and the paper's results, which are not part of this
project.  For every mechanism: median and mean total error, the largest sharing ratio and the
largest interference, each beside the paper's; the number of our instances where one of the ratios
is above 1 + 1e-9; and our CPU time an instance with leave-one-out interference, nothing taken from
a disk cache.  The paper has no figures for mechanisms that are not its own, and none for CPU time.
With --keep every instance's figures go to a file as they come, and an interrupted run goes on.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from sqlmadp.mechanism.catalogue import MECHANISMS
from sqlmadp.mechanism.fairness import outcome
from sqlmadp.schema.marginal import Block, Marginal, Partition
from sqlmadp.strategy.select import select
from sqlmadp.workload.workload import Workload

PAPER = {
    "independent": "ind",
    "identity": "iden",
    "utilitarian": "uni",
    "weighted_utilitarian": "fsum",
    "waterfilling": "buc_qsd",
}
RESULTS = {
    "practical": "paper_pickles_practical_n64_k20.json",
    "marginals": "paper_pickles_marginal1_d8_k20.json",
}


Instance = tuple[list[Workload], list[tuple[str, int]]]
"""Everyone's workload, and the columns of the domain."""


def practical(folder: Path, instances: list[dict[str, Any]]) -> Iterator[Instance]:
    """Yield each practical instance: fixed and custom workloads over 64 cells."""
    cells = Marginal(("cell",), (Partition.finest(64),))
    with np.load(folder / "instances_practical_n64.npz") as file:
        for instance in instances:
            prefix, customs = f"r{instance['run']}_i{instance['idx']}_custom", 0
            workloads = []
            for name in instance["names"]:
                matrix = file[f"{prefix}{customs}" if name == "custom" else f"fixed_{name}"]
                workloads.append(Workload.of([Block(cells, sparse.csr_array(matrix))]))
                customs += name == "custom"
            yield workloads, [("cell", 64)]


def marginals(folder: Path, instances: list[dict[str, Any]]) -> Iterator[Instance]:
    """Yield each instance of one-way marginals, d = 8."""
    eye = sparse.eye_array(2, format="csr")
    columns = [Marginal((f"c{i}",), (Partition.finest(2),)) for i in range(8)]
    asked = [Workload.of([Block(column, eye)]) for column in columns]
    started = time.process_time()
    for workload in asked:
        select(workload)
    print(f"selection of the eight workloads: {time.process_time() - started:.3f} s CPU")
    for instance in instances:
        workloads = [asked[_column(name)] for name in instance["names"]]
        yield workloads, [(f"c{i}", 2) for i in range(8)]


def _column(name: str) -> int:
    """Return the column of a marginal that the paper names by a bit: 1, 2, 4, ..., 128."""
    return int(name).bit_length() - 1


def measured(name: str, workloads: list[Workload], columns: list[tuple[str, int]]) -> list[float]:
    """Return total error, largest sharing ratio, largest interference and CPU seconds."""
    started = time.process_time()
    shares = [Fraction(1, len(workloads))] * len(workloads)
    with threadpool_limits(limits=1):
        found = outcome(MECHANISMS[name](columns, None), workloads, shares, Fraction(1))
    seconds = time.process_time() - started
    return [found.total_error, found.sharing_ratio, found.worst_interference, seconds]


def main() -> None:
    """Print one line a mechanism."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", choices=RESULTS)
    parser.add_argument("reference", type=Path)
    parser.add_argument("--instances", type=int, default=100)
    parser.add_argument("--mechanism", action="append", choices=MECHANISMS)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    results = json.loads((options.reference / RESULTS[options.experiment]).read_text())
    instances = results["instances"][: options.instances]
    run = {"practical": practical, "marginals": marginals}[options.experiment]
    print(f"{'':22}{'total error':^52}{'largest sharing':^18}{'largest interference':^24}")
    print(
        f"{'mechanism':22}{'median':>13}{'paper':>13}{'mean':>13}{'paper':>13}{'ratio':>9}{'paper':>9}"
        f"{'':3}{'':>12}{'paper':>9}{'violations':>12}{'CPU s':>8}"
    )
    kept = _kept(options.keep)
    for name in options.mechanism or MECHANISMS:
        ours = []
        for number, drawn in enumerate(run(options.reference, instances)):
            key = f"{options.experiment} {name} {number}"
            if key not in kept:
                kept[key] = measured(name, *drawn)
                _keep(options.keep, key, kept[key])
            ours.append(kept[key])
        totals, sharing, interference, seconds = zip(*ours, strict=True)
        worst = [max(pair) for pair in zip(sharing, interference, strict=True)]
        paper = [_of_paper(instances, what, name) for what in ("total", "maxratio", "interference")]
        print(
            f"{name:22}{np.median(totals):13,.1f}{np.median(paper[0]):13,.1f}"
            f"{np.mean(totals):13,.1f}{np.mean(paper[0]):13,.1f}"
            f"{max(sharing):9.4f}{max(paper[1]):9.3f}{'':3}"
            f"{max(interference):12.9f}{max(paper[2]):9.3f}"
            f"{sum(ratio > 1 + 1e-9 for ratio in worst):12}{np.mean(seconds):8.3f}",
            flush=True,
        )


def _kept(file: Path | None) -> dict[str, list[float]]:
    """Return what an earlier run kept."""
    if file is None or not file.exists():
        return {}
    return dict(json.loads(line) for line in file.read_text().splitlines())


def _keep(file: Path | None, key: str, figures: list[float]) -> None:
    if file is not None:
        with file.open("a") as lines:
            lines.write(json.dumps([key, figures]) + "\n")


def _of_paper(instances: list[dict[str, Any]], what: str, name: str) -> list[float]:
    """Return one of the paper's own figures for every instance; not a number if it has none."""
    return [instance[what].get(PAPER.get(name), np.nan) for instance in instances]


if __name__ == "__main__":
    main()
