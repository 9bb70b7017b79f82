"""How planning and releasing grow with rows, cells, statements and analysts: time and memory.

    python benchmarks/growth.py [growth.svg] [--steps 4]

Every curve doubles one size a step and holds the others.  Statements ask for ranges of age, crossed
with another column now and then, and one of the first analyst's for every age there is;
waterfilling with equal shares, both fairness measures included.
`sqlmadp plan` starts with an empty strategy cache, `sqlmadp release` with the strategies of the
plan before it.  Each is a process of its own: CPU time of it and what it starts, and its largest
resident memory, start-up included.  The line after a curve says by which power of the size each
grew in the last step, beside what is stated as the most.
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
import numpy as np

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
FIRST = {"rows": 4_000_000, "cells": 1200, "statements": 10, "analysts": 4}
STATED = {"rows": 1, "cells": 2, "statements": 1, "analysts": 2}
"""The most that time grows by, as a power of the size; memory grows by 1 at most."""
COMMANDS = {"plan": ("plan", "--mechanism", "waterfilling"), "release": ("release",)}
COLOURS = {"plan": "#1b6ca8", "release": "#c8553d"}
WIDTH, HEIGHT = 250, 200


@dataclass(frozen=True)
class Cost:
    """What one command took."""

    seconds: float
    megabytes: float


def costs(*, rows: int, cells: int, statements: int, analysts: int) -> dict[str, Cost]:
    """Return what planning and releasing take: ``statements`` are an analyst's."""
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
    asked = ["SELECT age, COUNT(*) FROM people GROUP BY age;\n"] if analyst == 0 else []
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
        size = FIRST[name] * 2**step
        each = costs(**(FIRST | {name: size}))
        shown = ""
        for command, cost in each.items():
            found[command].append(cost)
            shown += f"   {command} {cost.seconds:6.2f} CPU s {cost.megabytes:6.0f} MB"
        print(f"{name:<10} {size:>9,}{shown}", flush=True)
    shown = ""
    for command, every in found.items():
        time = _power([cost.seconds for cost in every])
        memory = _power([cost.megabytes for cost in every])
        shown += f"   {command} {time:6.2f} (time)  {memory:6.2f} (memory)"
    print(f"{'grew by':<10} {'power':>9}{shown}   stated: {STATED[name]} and 1", flush=True)
    return found


def _power(values: list[float]) -> float:
    return math.log2(values[-1] / values[-2]) if len(values) > 1 else math.nan


def drawn(curves: dict[str, dict[str, list[Cost]]]) -> str:
    """Return one panel a curve as SVG, both axes logarithmic; memory is dashed."""
    panels = [_panel(name, found, place) for place, (name, found) in enumerate(curves.items())]
    legend = "".join(
        f'<text x="{20 + 90 * number}" y="{2 * HEIGHT + 25}" fill="{colour}">{command}</text>'
        for number, (command, colour) in enumerate(COLOURS.items())
    )
    words = f'<text x="200" y="{2 * HEIGHT + 25}">solid: CPU seconds; dashed: megabytes</text>'
    size = f'viewBox="0 0 {2 * WIDTH} {2 * HEIGHT + 35}" font-family="sans-serif" font-size="11"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(panels)}{legend}{words}</svg>\n'
    )


def _panel(name: str, found: dict[str, list[Cost]], place: int) -> str:
    steps = len(next(iter(found.values())))
    left, top = WIDTH * (place % 2) + 20, HEIGHT * (place // 2) + 20
    wide, high = WIDTH - 75, HEIGHT - 55
    parts = [f'<text x="{left}" y="{top - 5}">{FIRST[name]:,} {name}, doubling</text>']
    parts.append(f'<path d="M{left},{top} v{high} h{wide}" fill="none" stroke="#999"/>')
    for measure, dashes in (("seconds", ""), ("megabytes", ' stroke-dasharray="4 3"')):
        every = [getattr(cost, measure) for costs in found.values() for cost in costs]
        span = math.log(max(every) / min(every)) or 1.0
        for command, costs_found in found.items():
            values = [getattr(cost, measure) for cost in costs_found]
            points = [
                (
                    left + wide * step / max(1, steps - 1),
                    top + high * (0.9 - 0.8 * math.log(value / min(every)) / span),
                )
                for step, value in enumerate(values)
            ]
            path = " ".join(f"{x:.0f},{y:.0f}" for x, y in points)
            line = f'fill="none" stroke="{COLOURS[command]}"{dashes}'
            parts.append(f'<polyline points="{path}" {line}/>')
            unit = " s" if measure == "seconds" else " MB"
            text = f"{values[-1]:.3g}{unit}"
            at = f'x="{left + wide + 3}" y="{points[-1][1] + 4:.0f}" fill="{COLOURS[command]}"'
            parts.append(f"<text {at}>{text}</text>")
    return "".join(parts)


def main() -> None:
    """Print the curves, and draw them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("svg", nargs="?", type=Path)
    parser.add_argument("--steps", type=int, default=4)
    arguments = parser.parse_args()
    curves = {name: curve(name, arguments.steps) for name in FIRST}
    if arguments.svg is not None:
        arguments.svg.write_text(drawn(curves))


if __name__ == "__main__":
    main()
