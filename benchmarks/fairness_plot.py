"""Draw the figure of docs/fairness.md, and print the numbers in its text; reads no record.

    python benchmarks/fairness_plot.py [--instances 100]

Left: analyst H asks for both cells of a binary column and k analysts T for the total, all with
share 1.  H's error under waterfilling, with everything pooled in the cells, and at least under any
strictly non-interfering rule with non-negative rows; crosses are the least that was found for H if
T^k keep what they have without H.  Right: one-way marginals of eight binary columns, drawn as
`sqlmadp experiment marginals` draws them: totals over the bound for strict rules that leave nobody
above waterfilling, by the number of columns asked for.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import math
import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt

from sqlmadp.experiment.instances import Settings, instance
from sqlmadp.experiment.run import measured

TARGET = Path(__file__).parent.parent / "docs" / "plots" / "fairness.svg"
STYLE = {"svg.hashsalt": "sqlmadp", "svg.fonttype": "none", "font.size": 10, "figure.dpi": 100}
COLOURS = {"waterfilling": "#2f6fd0", "pareto": "#1d9a6c", "utilitarian": "#e08a1e"}
MOST = 10
"""Analysts who ask for the total, at most."""


def waterfilling(count: int) -> float:
    """Return H's error beside so many who ask for the total, in units of one share's noise."""
    return 1 + 1 / (1 + 2 * count**2)


def pooled(count: int) -> float:
    """Return everybody's error if all shares are spent on the two cells."""
    return 2 / (count + 1) ** 2


def least_found(count: int) -> float:
    """Return the least error found for H if nobody who asks for the total loses by H's joining.

    Measured are the total with weight x and both cells with weight y, x + y = count + 1, where y
    is the larger for which the total is as accurate as without H: 2 x^2 + y^2 = 2 count^2.
    """
    whole = 4 * (count + 1)
    weight = (whole - math.sqrt(whole**2 - 24 * (2 * count + 1))) / 6
    return (1 / count**2 + 2 / weight**2) / 2


def strict_bound(asking: Sequence[int]) -> float:
    """Return the least total of one-way marginals under a strict rule, in units of one share.

    ``asking[b]`` analysts ask for column b.
    """
    return sum(1 / count for count in asking)


def waterfilling_total(asking: Sequence[int]) -> float:
    """Return the total error of waterfilling on one-way marginals, in the same units."""
    return strict_bound(asking) + sum(asking) / sum(count**2 for count in asking)


def marginals(instances: int) -> list[tuple[int, dict[str, float]]]:
    """Return columns asked for, and totals over the strict bound by mechanism."""
    settings = Settings(
        experiment="marginals", seed=0, most_analysts=20, epsilon="1", mechanisms=tuple(COLOURS)
    )
    found = []
    for number in range(instances):
        asking = list(Counter(instance(settings, number).names).values())
        unit = 2 * sum(asking) ** 2  # The variance of a row with one analyst's share of epsilon 1.
        ratios = {
            name: figures[0] / (unit * strict_bound(asking))
            for name, figures in measured(settings, number).items()
            if figures is not None
        }
        found.append((len(asking), ratios))
    return found


def draw(found: list[tuple[int, dict[str, float]]]) -> None:
    """Write both panels."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.9), layout="constrained")
    counts = range(1, MOST + 1)
    left.fill_between([1, MOST], 0, 1, color="#e6e9ef")
    left.plot(counts, list(map(waterfilling, counts)), "o-", color=COLOURS["waterfilling"])
    left.plot(counts, list(map(pooled, counts)), "s-", color=COLOURS["utilitarian"])
    allowed = range(3, MOST + 1)
    left.plot(allowed, list(map(least_found, allowed)), "x", color="#56627a")
    left.text(5.2, 1.06, "waterfilling", color=COLOURS["waterfilling"])
    left.text(3.2, 0.2, "pooled in the cells", color=COLOURS["utilitarian"])
    left.text(4.2, 0.79, "least found if T keeps its error", color="#56627a")
    left.text(4.2, 0.5, "out of reach of strict rules", color="#56627a")
    left.set_xlabel("analysts who ask for the total")
    left.set_title("error of H, who asks for both cells", fontsize=10)
    left.set_ylim(0, 1.4)
    for place, (name, colour) in enumerate(COLOURS.items()):
        shifted = [columns + 0.18 * (place - 1) for columns, _ in found]
        values = [ratios[name] for _, ratios in found]
        right.plot(shifted, values, "o", color=colour, markersize=3.5, alpha=0.7, label=name)
    asked = sorted({columns for columns, _ in found})
    limits = [1 + 1 / columns for columns in asked]
    right.plot(asked, limits, "--", color=COLOURS["waterfilling"], linewidth=1, label="1 + 1/d")
    right.axhspan(0, 1, color="#e6e9ef", zorder=0)
    right.set_ylim(0, 2.05)
    right.set_xticks(asked)
    right.set_xlabel("columns asked for, d")
    right.set_title("one-way marginals: total error / strict bound", fontsize=10)
    right.legend(loc="upper right", fontsize=8)
    for panel in (left, right):
        panel.grid(axis="y", color="#d9dee7")
        panel.set_axisbelow(True)
    TARGET.parent.mkdir(exist_ok=True)
    figure.savefig(TARGET, metadata={"Date": None})


def main() -> None:
    """Draw the figure and print its numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instances", type=int, default=100)
    options = parser.parse_args()
    print(f"{'k':>3}{'waterfilling':>14}{'least found':>13}{'pooled':>9}")
    for count in range(1, MOST + 1):
        least = f"{least_found(count):.3f}" if count >= 3 else "-"
        print(f"{count:3}{waterfilling(count):14.3f}{least:>13}{pooled(count):9.3f}")
    found = marginals(options.instances)
    for name in COLOURS:
        ratios = [each[name] for _, each in found]
        print(
            f"{name:13} / strict bound: median {statistics.median(ratios):.3f}, "
            f"{min(ratios):.3f} to {max(ratios):.3f}"
        )
    with mpl.rc_context(STYLE):
        draw(found)


if __name__ == "__main__":
    main()
