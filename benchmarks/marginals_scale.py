"""Marginals of up to 3 of d columns: errors beside other optimisers', time, and memory.

    python benchmarks/marginals_scale.py [REFERENCE] [--columns 20 50 100]

First all exactly-k-way marginals of binary columns, beside the identity and, where REFERENCE holds
hdmm_optm_bench.json, beside HDMM's OPT_M: total errors at epsilon 1.  Then all marginals of at
most 3 of d columns with 10 values each: CPU time of selection and expected errors, divided by that
of writing down the same marginals' scopes with their numbers of cells, and the largest memory.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import itertools
import json
import math
import resource
import time
from pathlib import Path

from sqlmadp.strategy.select import select
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows


def ways(columns: int, values: int, counts: list[int]) -> list[Rows]:
    """Return all marginals of the given numbers of columns."""
    partition = Partition.finest(values)
    names = [f"c{number:03}" for number in range(columns)]
    return [
        Rows(scope, (partition,) * count, 1.0)
        for count in counts
        for scope in itertools.combinations(names, count)
    ]


def total_error(workload: list[Rows]) -> float:
    """Return the expected error at epsilon 1 of the strategy selected for a workload."""
    return 2 * select(workload).error


def binary(reference: Path | None) -> None:
    """Print errors of exactly-k-way marginals."""
    known = {}
    if reference is not None:
        rows = json.loads((reference / "hdmm_optm_bench.json").read_text())
        known = {(row["d"], row["k"]): row["best"] for row in rows}
    print(f"{'d':>3} {'k':>2} {'error':>14} {'/ identity':>11} {'/ OPT_M':>9} {'CPU s':>7}")
    for columns, count in itertools.product((8, 10, 12), (1, 2, 3)):
        start = time.process_time()
        error = total_error(ways(columns, 2, [count]))
        seconds = time.process_time() - start
        identity = 2 * math.comb(columns, count) * 2**columns
        beside = f"{error / known[columns, count]:.3f}" if known else "-"
        line = f"{columns:>3} {count:>2} {error:>14,.1f} {error / identity:>11.3f} {beside:>9}"
        print(f"{line} {seconds:>7.2f}")


def large(columns: int) -> None:
    """Print time and memory of all marginals of at most 3 columns."""
    start = time.process_time()
    blocks = ways(columns, 10, [0, 1, 2, 3])
    cells = sum(block.size for block in blocks)
    listed = time.process_time() - start
    start = time.process_time()
    error = total_error(blocks)
    seconds = time.process_time() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{columns:>3} columns {len(blocks):>9,} marginals {cells:>13,} queries "
        f"RMSE {math.sqrt(error / cells):>12,.1f} {seconds:>7.2f} CPU s "
        f"({seconds / listed:.0f} times listing them) {memory:.2f} GiB"
    )


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reference", nargs="?", type=Path)
    parser.add_argument("--columns", nargs="*", type=int, default=[20, 50, 100])
    arguments = parser.parse_args()
    binary(arguments.reference)
    for columns in arguments.columns:
        large(columns)


if __name__ == "__main__":
    main()
