"""The paper's practical and one-way marginal instances, beside the paper's own results.

    python benchmarks/paper_instances.py practical REFERENCE [--instances N]
    python benchmarks/paper_instances.py marginals REFERENCE

REFERENCE is a folder with the instances and the paper's results, which are not part of this
project.  For every mechanism: median and mean total error, the largest sharing ratio, the
largest interference, and the CPU time of a full instance: all mechanisms with leave-one-out
interference, nothing taken from a disk cache.
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

from sqlmadp import compare
from sqlmadp.mechanism.catalogue import MECHANISMS
from sqlmadp.mechanism.fairness import Outcome, outcome
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


def practical(folder: Path, instances: list[dict[str, Any]]) -> Iterator[dict[str, Outcome]]:
    """Yield the outcome of every mechanism on each practical instance."""
    with np.load(folder / "instances_practical_n64.npz") as file:
        for instance in instances:
            prefix, customs = f"r{instance['run']}_i{instance['idx']}_custom", 0
            workloads = []
            for name in instance["names"]:
                workloads.append(
                    file[f"{prefix}{customs}" if name == "custom" else f"fixed_{name}"]
                )
                customs += name == "custom"
            yield compare(workloads, epsilon=1)


def marginals(folder: Path, instances: list[dict[str, Any]]) -> Iterator[dict[str, Outcome]]:
    """Yield the outcome of every mechanism on each instance of one-way marginals, d = 8."""
    eye = sparse.eye_array(2, format="csr")
    columns = [Marginal((f"c{i}",), (Partition.finest(2),)) for i in range(8)]
    asked = [Workload.of([Block(column, eye)]) for column in columns]
    domain = [(f"c{i}", 2) for i in range(8)]
    started = time.process_time()
    for workload in asked:
        select(workload)
    print(f"selection of the eight workloads: {time.process_time() - started:.4f} s CPU")
    for instance in instances:
        workloads = [asked[_column(name)] for name in instance["names"]]
        shares = [Fraction(1, len(workloads))] * len(workloads)
        with threadpool_limits(limits=1):
            yield {
                name: outcome(make(domain, None), workloads, shares, Fraction(1))
                for name, make in MECHANISMS.items()
            }


def _column(name: str) -> int:
    """Return the column of a marginal that the paper names by a bit: 1, 2, 4, ..., 128."""
    return int(name).bit_length() - 1


def main() -> None:
    """Print one line a mechanism."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", choices=RESULTS)
    parser.add_argument("reference", type=Path)
    parser.add_argument("--instances", type=int, default=100)
    options = parser.parse_args()
    results = json.loads((options.reference / RESULTS[options.experiment]).read_text())
    instances = results["instances"][: options.instances]
    run = {"practical": practical, "marginals": marginals}[options.experiment]
    started = time.process_time()
    outcomes = list(run(options.reference, instances))
    seconds = (time.process_time() - started) / len(instances)
    print(
        f"{'mechanism':22}{'median':>13}{'mean':>13}{'paper':>13}{'sharing':>10}{'interference':>14}"
    )
    for name in MECHANISMS:
        ours = [each[name] for each in outcomes]
        totals = [each.total_error for each in ours]
        paper = np.median([instance["total"][PAPER[name]] for instance in instances])
        print(
            f"{name:22}{np.median(totals):13,.1f}{np.mean(totals):13,.1f}{paper:13,.1f}"
            f"{max(each.sharing_ratio for each in ours):10.6f}"
            f"{max(each.worst_interference for each in ours):14.9f}"
        )
    print(f"CPU per instance: {seconds:.3f} s over {len(instances)} instances")


if __name__ == "__main__":
    main()
