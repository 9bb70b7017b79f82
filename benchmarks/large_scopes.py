"""One scope too large for rows over all its cells: products of one strategy per column.

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
from people import collective, write_plan
from scipy import sparse

from sqlmadp.mechanism import mechanism
from sqlmadp.strategy.kronecker import as_products, select_products
from sqlmadp.table.partition import Partition
from sqlmadp.table.products import Products

VALUES, RANGES = 256, 400


def prefixes(side: int) -> Products:
    """Return all pairs of prefixes of two columns, none of them written out."""
    factors = (sparse.csr_array(np.tri(side)),) * 2
    parts = (Partition.finest(side),) * 2
    return Products(("a", "b"), parts, 0, None, factors, np.ones((side, side)))


def pairs_error(side: int) -> float:
    """Return the error at epsilon 1 of products of one strategy per column, for all pairs."""
    return 2 * select_products(as_products([prefixes(side)])).error


def pairs(sides: list[int], reference: Path | None) -> None:
    """Print errors of pairs of prefixes."""
    known = {}
    if reference is not None:
        rows = json.loads((reference / "hdmm_1d_bench.json").read_text())
        known = {row["n"]: row["best"] ** 2 / 2 for row in rows if row["workload"] == "Prefix"}
    print(f"{'cells':>11} {'error':>16} {'/ cells':>8} {'/ HDMM':>8} {'CPU s':>7}")
    for side in sides:
        start = time.process_time()
        error = pairs_error(side)
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
    everyone = collective(lay_out(folder, VALUES, RANGES))
    cells = None
    for name in ("identity", "utilitarian", "waterfilling"):
        start = time.process_time()
        strategy = mechanism(name).select(everyone)
        errors = 2 * strategy.errors
        seconds = time.process_time() - start
        cells = cells or sum(errors)
        rows = sum(block.count for block in strategy.blocks)
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
