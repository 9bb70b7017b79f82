"""Show: the measures of an experiment as a table, as figures, and as box plots."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sqlmadp.answer.table import TextTable
from sqlmadp.experiment.boxplot import Panel, box_plots
from sqlmadp.experiment.measures import MEASURES, Measured

VIOLATED = 1 + 1e-9
"""A ratio above this is a violation; what rounding adds is not."""


def experiment_figures(name: str, results: Sequence[Measured]) -> dict[str, Any]:
    """Return what ``experiment --json`` prints."""
    return {
        "experiment": name,
        "instances": len(results),
        "mechanisms": {
            label: {
                "total_error": _middle(total),
                "sharing_ratio": _middle(ratio) | _worst(ratio),
                "interference": _middle(interference) | _worst(interference),
            }
            for label, (total, ratio, interference) in _by_label(results).items()
        },
    }


def experiment_table(results: Sequence[Measured]) -> str:
    """Return the medians, means and violations as text, one line a mechanism."""
    titles = ["total error: median", "mean", "ratio: median", "largest", "above 1"]
    titles += ["interference: median", "largest", "above 1"]
    rows = []
    for label, (total, ratio, interference) in _by_label(results).items():
        row = [label, *(f"{value:,.6g}" for value in _middle(total).values())]
        for values in (ratio, interference):
            worst = _worst(values)
            row += [f"{_middle(values)['median']:.3f}", f"{worst['largest']:.3f}"]
            row += [str(worst["violations"])]
        rows.append(row)
    headers = [("mechanism", False), *((title, True) for title in titles)]
    return TextTable.of(headers, len(rows), rows.__getitem__, limit=None).text()


def experiment_plots(title: str, results: Sequence[Measured]) -> str:
    """Return the three measures as box plots (SVG)."""
    found = _by_label(results)
    panels = [
        Panel(
            measure,
            {label: values[place] for label, values in found.items()},
            mark=None if place == 0 else 1.0,
        )
        for place, measure in enumerate(MEASURES)
    ]
    return box_plots(title, panels)


def _by_label(results: Sequence[Measured]) -> dict[str, tuple[list[float], ...]]:
    """Return the values of each measure by mechanism, without those that do not serve."""
    found: dict[str, tuple[list[float], ...]] = {}
    for result in results:
        for label, measures in result.items():
            if measures is not None:
                columns = found.setdefault(label, ([], [], []))
                for column, value in zip(columns, measures, strict=True):
                    column.append(value)
    return found


def _middle(values: Sequence[float]) -> dict[str, float]:
    return {"median": float(np.median(values)), "mean": math.fsum(values) / len(values)}


def _worst(values: Sequence[float]) -> dict[str, Any]:
    return {"largest": max(values), "violations": sum(value > VIOLATED for value in values)}
