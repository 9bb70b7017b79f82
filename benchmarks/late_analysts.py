"""An analyst who comes after the release, against everybody at once.

    python benchmarks/late_analysts.py [--instances 20] [--mechanism waterfilling] [--analysts 8]

Random practical instances, as ``sqlmadp experiment practical`` draws them.  All analysts but the
last one are released together; the last one joins late with as much epsilon as each of the others.
For the mechanism of the first release: the total error in units of what the mechanism gives
everybody at once with the same epsilon in all, the largest change of an earlier analyst's error,
and the late analyst's error in units of what it is alone.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import math
import time
from fractions import Fraction

import numpy as np

from sqlmadp.experiment.instances import Settings, instance
from sqlmadp.mechanism import MECHANISMS, mechanism
from sqlmadp.mechanism.complement import Complement
from sqlmadp.mechanism.fairness import noise_variance


def main() -> None:
    """Print medians and extremes over instances."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instances", type=int, default=20)
    parser.add_argument("--analysts", type=int, default=8)
    parser.add_argument("--mechanism", default="waterfilling", choices=MECHANISMS)
    options = parser.parse_args()
    settings = Settings(
        experiment="practical",
        seed=0,
        most_analysts=options.analysts,
        epsilon="1",
        mechanisms=(),
    )
    begun = time.process_time()
    found = np.array(
        [late(settings, number, options.mechanism) for number in range(options.instances)]
    )
    seconds = (time.process_time() - begun) / options.instances
    print(f"{options.mechanism}: {options.instances} instances, {seconds:.2f} s CPU each")
    titles = ("total / all at once", "largest change of an earlier one", "late analyst / alone")
    for title, column in zip(titles, found.T, strict=True):
        print(f"  {title:34} median {np.median(column):.3f}  largest {column.max():.9f}")


def late(settings: Settings, number: int, name: str) -> tuple[float, float, float]:
    """Return the three figures of one instance."""
    everyone = instance(settings, number).collective
    count, share = len(everyone), everyone.shares[0]
    there = everyone.of(range(count - 1))
    chosen = mechanism(name)
    first = chosen.select(there)
    # Rows whose noise has variance 1, at an epsilon of 1 for everybody together.
    weight = float(there.whole) / (first.total * math.sqrt(noise_variance(Fraction(1))))
    choice = Complement(known=tuple(block.times(weight) for block in first.blocks))
    now = choice.select(everyone, [None] * (count - 1) + [share]).errors
    before = choice.errors(None, there.workloads, share)
    unit = noise_variance(Fraction(1))
    at_once = unit * chosen.select(everyone).errors
    alone = unit * chosen.select(everyone.of([count - 1])).errors
    return (
        float(now.sum() / at_once.sum()),
        float((now[:-1] / before).max()),
        float(now[-1] / alone[0]),
    )


if __name__ == "__main__":
    main()
