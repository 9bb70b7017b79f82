"""The paper's practical and one-way marginal instances, beside the paper's own results.

    python benchmarks/paper_instances.py practical REFERENCE [--instances N] [--mechanism M]...
    python benchmarks/paper_instances.py marginals REFERENCE --keep FILE

REFERENCE is a folder with the instances and the paper's results, which are not part of this
project.  For every mechanism: median and mean total error, the largest sharing ratio and the
largest interference, each beside the paper's, and ours while those who are left keep to what
everyone settled on; on how many instances the sharing ratio, and each interference, is above
1 + 1e-9; and our CPU time per instance with everybody left out once, nothing taken from a cache.
The paper has no figures for mechanisms that are not its own, and none for CPU time.
With --keep every instance's figures go to a file as they come, and an interrupted run goes on.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from sqlmadp.experiment.instances import over_cells
from sqlmadp.mechanism import MECHANISMS, mechanism
from sqlmadp.mechanism.collective import Collective
from sqlmadp.mechanism.fairness import outcome
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows

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


Figures = list[float]
Instance = tuple[list[tuple[Rows, ...]], dict[str, int]]
"""Everyone's workload, and the columns of the domain."""


def practical(folder: Path, instances: list[dict[str, Any]]) -> Iterator[Instance]:
    """Yield each practical instance: fixed and custom workloads over 64 cells."""
    with np.load(folder / "instances_practical_n64.npz") as file:
        for instance in instances:
            prefix, customs = f"r{instance['run']}_i{instance['idx']}_custom", 0
            workloads = []
            for name in instance["names"]:
                matrix = file[f"{prefix}{customs}" if name == "custom" else f"fixed_{name}"]
                workloads.append(over_cells(matrix))
                customs += name == "custom"
            yield workloads, {"cell": 64}


def marginals(folder: Path, instances: list[dict[str, Any]]) -> Iterator[Instance]:
    """Yield each instance of one-way marginals, d = 8."""
    asked = [(Rows((f"c{i}",), (Partition.finest(2),), 1.0),) for i in range(8)]
    for instance in instances:
        workloads = [asked[_column(name)] for name in instance["names"]]
        yield workloads, {f"c{i}": 2 for i in range(8)}


def _column(name: str) -> int:
    """Return the column of a marginal that the paper names by a bit: 1, 2, 4, ..., 128."""
    return int(name).bit_length() - 1


def measured(name: str, workloads: list[tuple[Rows, ...]], columns: dict[str, int]) -> Figures:
    """Return total error, sharing ratio, both interferences (the largest ones) and CPU seconds."""
    started = time.process_time()
    shares = [Fraction(1, len(workloads))] * len(workloads)
    with threadpool_limits(limits=1):
        everyone = Collective(workloads, shares, columns=columns)
        found = outcome(mechanism(name), everyone, Fraction(1))
        found.work_out()
    return [
        found.total_error,
        found.sharing_ratio,
        found.worst_interference,
        found.worst_interference_within_agreement,
        time.process_time() - started,
    ]


def main() -> None:
    """Print one line per mechanism."""
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
    print(f"{'':22}{'total error':^52}{'sharing ratio':^22}{'interference':^30}{'within':^12}")
    print(
        f"{'mechanism':22}{'median':>13}{'paper':>13}{'mean':>13}{'paper':>13}"
        f"{'largest':>9}{'paper':>9}{'>1':>4}{'largest':>14}{'paper':>9}{'>1':>4}"
        f"{'largest':>14}{'>1':>4}{'CPU s':>8}"
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
        totals, sharing, interference, within, seconds = zip(*ours, strict=True)
        paper = [_of_paper(instances, what, name) for what in ("total", "maxratio", "interference")]
        print(
            f"{name:22}{np.median(totals):13,.1f}{np.median(paper[0]):13,.1f}"
            f"{np.mean(totals):13,.1f}{np.mean(paper[0]):13,.1f}"
            f"{max(sharing):9.4f}{max(paper[1]):9.3f}{_above(sharing):4}"
            f"{max(interference):14.9f}{max(paper[2]):9.3f}{_above(interference):4}"
            f"{max(within):14.9f}{_above(within):4}{np.mean(seconds):8.3f}",
            flush=True,
        )


def _above(ratios: Sequence[float]) -> int:
    """Return how many ratios are violations."""
    return sum(ratio > 1 + 1e-9 for ratio in ratios)


def _kept(file: Path | None) -> dict[str, list[float]]:
    """Return the figures that an earlier run kept."""
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
