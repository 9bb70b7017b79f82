"""One scope too large for rows over all its cells: products of one strategy a column.

    python benchmarks/large_scopes.py [REFERENCE] [--sides 64 256 1024]

First all pairs of prefixes of two columns, as many queries as cells: total errors at epsilon 1
divided by those of measuring every cell, and of HDMM's product of its best strategies for single
columns where REFERENCE holds hdmm_1d_bench.json (errors of a product of workloads multiply).  Then
two analysts with 400 ranges each of two columns of 256 values, and totals, as SQL: errors
divided by those of measuring every cell, and the CPU time of selection and expected errors.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
from people import write_plan

from sqlmadp.asked import Asked
from sqlmadp.mechanism.catalogue import MECHANISMS
from sqlmadp.mechanism.fairness import expected_errors
from sqlmadp.plan import Plan
from sqlmadp.schema.marginal import Marginal, Partition
from sqlmadp.strategy.kronecker import select_kronecker
from sqlmadp.workload.product_rows import ProductRows

VALUES, RANGES = 256, 400


def prefixes(side: int) -> tuple[ProductRows, Marginal]:
    """Return all pairs of prefixes of two columns, none of them written out."""
    first, second = np.divmod(np.arange(side**2), side)
    members = (np.tri(side), np.tri(side))
    none = np.zeros(0, dtype=np.int64)
    rows = ProductRows(np.arange(side**2), np.ones(side**2), (first, second), members, none)
    return rows, Marginal(("a", "b"), (Partition.finest(side),) * 2)


def pairs(sides: list[int], reference: Path | None) -> None:
    """Print errors of pairs of prefixes."""
    known = {}
    if reference is not None:
        rows = json.loads((reference / "hdmm_1d_bench.json").read_text())
        known = {row["n"]: row["best"] ** 2 / 2 for row in rows if row["workload"] == "Prefix"}
    print(f"{'cells':>11} {'error':>16} {'/ cells':>8} {'/ HDMM':>8} {'CPU s':>7}")
    for side in sides:
        start = time.process_time()
        error = 2 * select_kronecker(*prefixes(side)).error
        seconds = time.process_time() - start
        cells = 2 * (side * (side + 1) / 2) ** 2
        beside = f"{error / known[side]:.3f}" if side in known else "-"
        print(f"{side**2:>11,} {error:>16,.0f} {error / cells:>8.4f} {beside:>8} {seconds:>7.2f}")


def ranges(seed: int, values: int, count: int) -> str:
    """Return one analyst's statements."""
    random = np.random.default_rng(seed)
    asked = ["SELECT COUNT(*) FROM t", "SELECT a, COUNT(*) FROM t GROUP BY a"]
    for _ in range(count):
        (low, high), (least, most) = np.sort(random.integers(0, values, (2, 2)), axis=1)
        asked.append(
            f"SELECT COUNT(*) FROM t WHERE a BETWEEN {low} AND {high} "
            f"AND b BETWEEN {least} AND {most}"
        )
    return ";\n".join(asked) + ";\n"


def lay_out(folder: Path, values: int, count: int) -> Path:
    """Write a plan of two analysts with so many ranges of two columns; return it."""
    column = f'type = "integer"\nmin = 0\nmax = {values - 1}'
    asked = {name: ranges(number, values, count) for number, name in enumerate("xy")}
    return write_plan(folder, asked, columns={"a": column, "b": column}, table="t")


def analysts(folder: Path) -> None:
    """Print errors of two analysts."""
    asked = Asked.bind(Plan.open(lay_out(folder, VALUES, RANGES)))
    shares = [analyst.share for analyst in asked.plan.analysts]
    cells = None
    for name in ("identity", "utilitarian", "waterfilling"):
        start = time.process_time()
        strategy = MECHANISMS[name](asked.columns, None).select(asked.workloads, shares)
        errors = expected_errors(strategy, asked.workloads, asked.plan.epsilon)
        seconds = time.process_time() - start
        cells = cells or sum(errors)
        rows = sum(block.rows for block in strategy.blocks)
        print(
            f"{name:>12}: total error {sum(errors):,.0f}, {sum(errors) / cells:.3f} of measuring "
            f"every cell; {rows:,} strategy queries, {seconds:.1f} CPU s",
            flush=True,
        )


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reference", nargs="?", type=Path)
    parser.add_argument("--sides", nargs="*", type=int, default=[64, 256, 1024])
    arguments = parser.parse_args()
    pairs(arguments.sides, arguments.reference)
    with tempfile.TemporaryDirectory() as folder:
        analysts(Path(folder))


if __name__ == "__main__":
    main()
