"""Hundreds of analysts: CPU time of binding, selecting, and leaving everyone out once.

    python benchmarks/many_analysts.py [--analysts 500] [--statements 40]

Analysts share one table of 71,400 cells.  Each has some statements from a common pool and some of
their own; every fifth asks what the one before asks.  Under waterfilling, with equal shares.  The
time to leave everyone out is also given in units of pouring and expected errors once.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from people import STATES, collective, write_plan

from sqlmadp.mechanism import mechanism


def statements(random: np.random.Generator, count: int) -> list[str]:
    """Return one analyst's statements: some of a common pool, the others of their own."""
    asked = []
    for number in range(count):
        kind = number % 4
        low, high = sorted(random.integers(0, 10, 2) * 10)
        state = STATES[random.integers(51)]
        age = f"age BETWEEN {low} AND {high + 9}"
        asked.append(
            [
                f"SELECT COUNT(*) FROM people WHERE {age}",
                f"SELECT sex, COUNT(*) FROM people WHERE {age} GROUP BY sex",
                f"SELECT COUNT(*) FROM people WHERE state = '{state}'",
                f"SELECT race, COUNT(*) FROM people WHERE sex = 'female' AND race <> "
                f"'r{random.integers(1, 8)}' GROUP BY race",
            ][kind]
        )
    return asked


def write(folder: Path, analysts: int, count: int) -> Path:
    """Write a plan of many analysts; return it."""
    asked, own = {}, []
    for number in range(analysts):
        if number % 5 < 4:  # The fifth asks the same as the fourth.
            own = statements(np.random.default_rng(number), count)
        asked[f"a{number}"] = ";\n".join(own) + ";\n"
    return write_plan(folder, asked)


def main() -> None:
    """Print the time of every stage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--analysts", type=int, default=500)
    parser.add_argument("--statements", type=int, default=40)
    arguments = parser.parse_args()
    clock = time.process_time
    with tempfile.TemporaryDirectory() as temporary:
        plan = write(Path(temporary), arguments.analysts, arguments.statements)
        start = clock()
        everyone = collective(plan)
        print(f"binding {clock() - start:.1f} CPU s", flush=True)
    start = clock()
    distinct = len({id(strategy) for strategy in everyone.strategies})
    print(f"selecting {distinct} strategies {clock() - start:.1f} CPU s", flush=True)
    start = clock()
    waterfilling = mechanism("waterfilling")
    errors = 2 * waterfilling.select(everyone).errors
    poured = clock() - start
    print(f"pouring and expected errors {poured:.1f} CPU s", flush=True)
    start = clock()
    ratios = waterfilling.interference(everyone)
    seconds = clock() - start
    print(
        f"leaving {arguments.analysts} out {seconds:.1f} CPU s, as long as {seconds / poured:.0f} "
        f"times pouring; largest interference {ratios.max():.6f}, total error {sum(errors):,.0f}"
    )


if __name__ == "__main__":
    main()
