"""Draw the plots of docs/choosing.md from the examples' own plans; reads no record.

python benchmarks/doc_plots.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt

from sqlmadp.files.plan import Plan
from sqlmadp.mechanism import MECHANISMS
from sqlmadp.release.certificate import Certificate

ROOT = Path(__file__).parent.parent
EXAMPLES = ("covid", "census", "hospital", "web")
TARGET = ROOT / "docs" / "plots"
STYLE = {"svg.hashsalt": "sqlmadp", "svg.fonttype": "none", "font.size": 10, "figure.dpi": 100}
COLOURS = ("#2f6fd0", "#e08a1e", "#1d9a6c", "#b4459b")


def figures() -> dict[str, dict[str, tuple[float, float, float]]]:
    """Return total error in units of Utilitarian's, and both fairness measures, by example."""
    found: dict[str, dict[str, tuple[float, float, float]]] = {}
    for example in EXAMPLES:
        previews = Plan.open(ROOT / "examples" / example / "plan.toml").preview(*MECHANISMS)
        found[example] = {}
        for name, each in previews.items():
            if isinstance(each, Certificate) and each.bounds.utilitarian:
                beside = each.total / each.bounds.utilitarian
                found[example][name] = (beside, each.sharing_ratio, each.worst_interference)
    return found


def draw(found: dict[str, dict[str, tuple[float, float, float]]]) -> None:
    """Write mechanisms.svg: three panels, one row per mechanism, one mark per example."""
    titles = ("total error / utilitarian's", "largest sharing ratio", "largest interference")
    figure, panels = plt.subplots(1, 3, figsize=(9.5, 3.7), sharey=True, layout="constrained")
    for place, (panel, title) in enumerate(zip(panels, titles, strict=True)):
        for example, colour, mark in zip(EXAMPLES, COLOURS, "osD^", strict=True):
            rows = [n for n, name in enumerate(MECHANISMS) if name in found[example]]
            values = [found[example][name][place] for name in MECHANISMS if name in found[example]]
            panel.plot(values, rows, mark, color=colour, label=example, markersize=6, alpha=0.85)
        panel.axvline(1, color="#56627a", linewidth=1, linestyle="--")
        panel.set_title(title, fontsize=10)
        panel.grid(axis="x", color="#d9dee7")
        panel.set_axisbelow(True)
    panels[0].set_xscale("log")
    panels[0].set_yticks(range(len(MECHANISMS)), [name.replace("_", " ") for name in MECHANISMS])
    panels[0].invert_yaxis()
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.savefig(TARGET / "mechanisms.svg", metadata={"Date": None})


def main() -> None:
    """Draw the plots and print the figures that they show."""
    TARGET.mkdir(exist_ok=True)
    found = figures()
    with mpl.rc_context(STYLE):
        draw(found)
    for example, own in found.items():
        for name, values in own.items():
            print(f"{example:9} {name:21} " + " ".join(f"{value:10.3f}" for value in values))


if __name__ == "__main__":
    main()
