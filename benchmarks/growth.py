"""How planning and releasing grow with rows, cells, statements and analysts: time and memory.

    python benchmarks/growth.py [growth.svg] [--steps 4]

Every curve doubles one size per step and holds the others.  A statement of the first analyst asks
for every cell there is, and all others for ranges of age, crossed with another column now and
then; waterfilling with equal shares, both fairness measures included.
`sqlmadp plan` starts with an empty strategy cache, `sqlmadp release` with the strategies of the
plan before it.  Each is a process of its own: CPU time of it and what it starts, and its largest
resident memory.  The line after a curve says by which power of the size each grew over all steps,
without what it takes for a plan of one statement over two cells and a row, beside what is stated as
the most.  The run fails if a power is above that.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import math
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import duckdb
import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib import ticker

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
FIRST = {"rows": 2_000_000, "cells": 1200, "statements": 10, "analysts": 4}
START = FIRST | {"rows": 10_000_000}
"""Where each curve starts: fewer rows than that hardly show beside everything else."""
LEAST = {"rows": 1, "cells": 24, "statements": 1, "analysts": 1}
STATED = {"rows": 1.0, "cells": 1.0, "statements": 1.5, "analysts": 2.0}
"""The most that time grows by, as a power of the size."""
STATED_MEMORY = {"rows": 1.0, "cells": 1.0, "statements": 2.0, "analysts": 2.0}
COMMANDS = {"plan": ("plan", "--mechanism", "waterfilling"), "release": ("release",)}
COLOURS = {"plan": "#2f6fd0", "release": "#e08a1e"}
STYLE = {"svg.hashsalt": "sqlmadp", "svg.fonttype": "none", "font.size": 10, "figure.dpi": 100}


@dataclass(frozen=True)
class Cost:
    """What one command took."""

    seconds: float
    megabytes: float


def costs(*, rows: int, cells: int, statements: int, analysts: int) -> dict[str, Cost]:
    """Return the costs of planning and releasing, with so many ``statements`` per analyst."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "people.toml").write_text(SCHEMA.format(oldest=cells // 12 - 1))
        duckdb.execute(
            f"COPY (SELECT (hash(range) % {cells // 12})::INTEGER AS age, "
            f"1 + (hash(range, 1) % 12)::INTEGER AS ward FROM range({rows})) "
            f"TO '{folder / 'people.parquet'}'"
        )
        plan = PLAN
        for number in range(analysts):
            (folder / f"a{number}.sql").write_text(_asked(number, cells, statements))
            plan += f'[analysts.a{number}]\nqueries = "a{number}.sql"\n'
        (folder / "plan.toml").write_text(plan)
        return {name: _cost(arguments, folder) for name, arguments in COMMANDS.items()}


def _asked(analyst: int, cells: int, statements: int) -> str:
    random = np.random.default_rng(analyst)
    asked = ["SELECT age, ward, COUNT(*) FROM people GROUP BY age, ward;\n"] if analyst == 0 else []
    for place in range(statements - len(asked)):
        low, high = sorted(random.integers(0, cells // 12, 2))
        ward = f" AND ward = {random.integers(1, 13)}" if place % 5 == 0 else ""
        asked.append(f"SELECT COUNT(*) FROM people WHERE age BETWEEN {low} AND {high}{ward};\n")
    return "".join(asked)


def _cost(arguments: tuple[str, ...], folder: Path) -> Cost:
    """Run a command, and return what the system says it took."""
    process = subprocess.Popen(
        [sys.executable, "-m", "sqlmadp", *arguments, str(folder / "plan.toml"), "--quiet"],
        env=os.environ | {"SQLMADP_CACHE": str(folder / "cache")},
        stdout=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"sqlmadp {arguments[0]} ended with {process.returncode}")
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def curve(name: str, steps: int) -> dict[str, list[Cost]]:
    """Print and return what every size takes."""
    found: dict[str, list[Cost]] = {command: [] for command in COMMANDS}
    for step in range(steps):
        size = START[name] * 2**step
        each = costs(**(FIRST | {name: size}))
        shown = ""
        for command, cost in each.items():
            found[command].append(cost)
            shown += f"   {command} {cost.seconds:6.2f} CPU s {cost.megabytes:6.0f} MB"
        print(f"{name:<10} {size:>10,}{shown}", flush=True)
    return found


def keeps_to_what_is_stated(
    name: str, found: dict[str, list[Cost]], start_up: dict[str, Cost]
) -> bool:
    """Print by which powers a curve grew, and tell whether none is above what is stated."""
    shown, powers = "", []
    for command, every in found.items():
        least = start_up[command]
        time = _power([cost.seconds - least.seconds for cost in every])
        memory = _power([cost.megabytes - least.megabytes for cost in every])
        powers.append(time <= STATED[name] and memory <= STATED_MEMORY[name])
        shown += f"   {command} {time:6.2f} (time)  {memory:5.2f} (memory)"
    stated = f"stated: {STATED[name]:g} and {STATED_MEMORY[name]:g}"
    print(f"{'grew by':<10} {'power':>10}{shown}   {stated}", flush=True)
    return all(powers)


def _power(values: list[float]) -> float:
    """Return the power of the size by which values grew from the first to the last."""
    if len(values) < 2 or min(values[0], values[-1]) <= 0:
        return 0.0  # No more than starting takes.
    return math.log2(values[-1] / values[0]) / (len(values) - 1)


def draw(curves: dict[str, dict[str, list[Cost]]], start_up: dict[str, Cost], path: Path) -> None:
    """Write two panels a curve, time above memory; what starting takes is dotted."""
    figure, panels = plt.subplots(
        2, len(curves), figsize=(9.5, 4.6), sharex="col", sharey="row", layout="constrained"
    )
    measures = {"seconds": "CPU seconds", "megabytes": "megabytes"}
    for column, (name, found) in enumerate(curves.items()):
        for row, (measure, title) in enumerate(measures.items()):
            panel = panels[row][column]
            for (command, every), mark in zip(found.items(), "os", strict=True):
                sizes = [START[name] * 2**step for step in range(len(every))]
                values = [getattr(cost, measure) for cost in every]
                colour = COLOURS[command]
                panel.plot(sizes, values, f"{mark}-", color=colour, label=command, markersize=4)
                least = getattr(start_up[command], measure)
                panel.axhline(least, color=colour, linewidth=1, linestyle=":")
            panel.set_xscale("log", base=2)
            panel.set_yscale("log")
            panel.set_xticks(sizes, [_short(size) for size in sizes], fontsize=7)
            panel.minorticks_off()
            panel.grid(color="#d9dee7")
            panel.set_axisbelow(True)
            if not column:
                panel.set_ylabel(title)
        panels[0][column].set_title(name, fontsize=10)
    for row in panels:
        row[0].yaxis.set_major_locator(ticker.LogLocator(base=10, subs=(1, 2, 5)))
        row[0].yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    figure.savefig(path, metadata={"Date": None})


def _short(size: int) -> str:
    return f"{size // 1_000_000}M" if size >= 1_000_000 else f"{size:,}"


def main() -> None:
    """Print the curves, and draw them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("svg", nargs="?", type=Path)
    parser.add_argument("--steps", type=int, default=4)
    arguments = parser.parse_args()
    start_up = costs(**LEAST)
    shown = "".join(
        f"   {c} {k.seconds:6.2f} CPU s {k.megabytes:6.0f} MB" for c, k in start_up.items()
    )
    print(f"{'starting':<21}{shown}", flush=True)
    curves, kept = {}, True
    for name in FIRST:
        curves[name] = curve(name, arguments.steps)
        kept = keeps_to_what_is_stated(name, curves[name], start_up) and kept
    if arguments.svg is not None:
        with mpl.rc_context(STYLE):
            draw(curves, start_up, arguments.svg)
    sys.exit(0 if kept else "something grows faster than stated")


if __name__ == "__main__":
    main()
