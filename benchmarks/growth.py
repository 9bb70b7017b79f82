"""How planning grows: CPU time against cells, statements and analysts, as text and one SVG.

    python benchmarks/growth.py [growth.svg] [--steps 4]

Every curve doubles one size a step and holds the others.  Statements ask for ranges of age, crossed
with another column now and then; waterfilling with equal shares, interference included.  Each
time is also divided by the one before it: 2 is linear growth.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from sqlmadp.asked import Asked
from sqlmadp.mechanism.fairness import outcome
from sqlmadp.mechanism.waterfilling import Waterfilling
from sqlmadp.plan import Plan

SCHEMA = """table = "people"
[columns.age]
type = "integer"
min = 0
max = {oldest}
[columns.ward]
type = "integer"
min = 1
max = 12
"""
PLAN = """schema = "people.toml"
source = "people.parquet"
epsilon = "1"
[ledger]
path = "people.ledger"
budget = "1"
"""
COLOURS = ("#1b6ca8", "#c8553d", "#3d8b5f")


def planned(*, cells: int = 1200, statements: int = 10, analysts: int = 4) -> float:
    """Return the CPU time of one plan of so many cells, statements an analyst, and analysts."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "people.toml").write_text(SCHEMA.format(oldest=cells // 12 - 1))
        plan = PLAN
        for number in range(analysts):
            random = np.random.default_rng(number)
            asked = []
            for place in range(statements):
                low, high = sorted(random.integers(0, cells // 12, 2))
                where = f"WHERE age BETWEEN {low} AND {high}"
                ward = f" AND ward = {random.integers(1, 13)}" if place % 5 == 0 else ""
                asked.append(f"SELECT COUNT(*) FROM people {where}{ward};\n")
            (folder / f"a{number}.sql").write_text("".join(asked))
            plan += f'[analysts.a{number}]\nqueries = "a{number}.sql"\n'
        (folder / "plan.toml").write_text(plan)
        start = time.process_time()
        bound = Asked.bind(Plan.open(folder / "plan.toml"))
        shares = [analyst.share for analyst in bound.plan.analysts]
        outcome(Waterfilling(), bound.workloads, shares, bound.plan.epsilon)
        return time.process_time() - start


def curve(name: str, first: int, steps: int, work: Callable[[int], float]) -> list[float]:
    """Print and return the time of every size."""
    times: list[float] = []
    for step in range(steps):
        times.append(work(first * 2**step))
        growth = f"{times[-1] / times[-2]:.2f} times the one before" if step else ""
        print(f"{name:<10} {first * 2**step:>8,} {times[-1]:>8.2f} CPU s {growth}", flush=True)
    return times


def drawn(curves: dict[str, list[float]]) -> str:
    """Return the curves as SVG, both axes logarithmic."""
    largest = max(max(times) for times in curves.values())
    least = min(min(times) for times in curves.values())
    lines = []
    for (name, times), colour in zip(curves.items(), COLOURS, strict=True):
        points = [
            (40 + 400 * step / (len(times) - 1), 220 - 200 * math.log(t / least) / span)
            for span in [max(math.log(largest / least), 1e-9)]
            for step, t in enumerate(times)
        ]
        path = " ".join(f"{x:.0f},{y:.0f}" for x, y in points)
        lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}"/>')
        lines.append(f'<text x="445" y="{points[-1][1]:.0f}" fill="{colour}">{name}</text>')
    axes = f'<text x="40" y="245">doubling; {least:.2f} to {largest:.2f} CPU s</text>'
    size = 'viewBox="0 0 540 255" font-family="sans-serif" font-size="12"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{axes}{"".join(lines)}</svg>\n'


def main() -> None:
    """Print the curves, and draw them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("svg", nargs="?", type=Path)
    parser.add_argument("--steps", type=int, default=4)
    arguments = parser.parse_args()
    planned()  # Imports and first uses are not part of any curve.
    steps = arguments.steps
    curves = {
        "cells": curve("cells", 1200, steps, lambda size: planned(cells=size)),
        "statements": curve("statements", 10, steps, lambda size: planned(statements=size)),
        "analysts": curve("analysts", 4, steps, lambda size: planned(analysts=size)),
    }
    if arguments.svg is not None:
        arguments.svg.write_text(drawn(curves))


if __name__ == "__main__":
    main()
