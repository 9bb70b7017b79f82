"""Show: the measures of an experiment as a table, as figures, and as box plots."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sqlmadp.answer.result import TextTable
from sqlmadp.experiment.boxplot import Panel, box_plots
from sqlmadp.experiment.measures import MEASURES, Measured
from sqlmadp.experiment.misreport import LIARS, TRICKS, labels

VIOLATED = 1 + 1e-9
"""A ratio above this is a violation; what rounding adds is not."""

GAIN = 1 - 1e-9
"""Misreporting that changes an error by a factor below this pays."""


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
                "interference_within_agreement": _middle(within) | _worst(within),
            }
            for label, (total, ratio, interference, within) in _by_label(results).items()
        },
    }


def experiment_table(results: Sequence[Measured]) -> str:
    """Return the medians, means and violations as text, one line per mechanism."""
    titles = ["total error: median", "mean", "ratio: median", "largest", "above 1"]
    titles += ["interference: median", "largest", "above 1"]
    titles += ["within the agreement: median", "largest", "above 1"]
    rows = []
    for label, (total, *ratios) in _by_label(results).items():
        row = [label, *(f"{value:,.6g}" for value in _middle(total).values())]
        for values in ratios:
            worst = _worst(values)
            row += [f"{_middle(values)['median']:.3f}", f"{worst['largest']:.3f}"]
            row += [str(worst["violations"])]
        rows.append(row)
    headers = [("mechanism", False), *((title, True) for title in titles)]
    return TextTable.of(headers, len(rows), rows.__getitem__, limit=None).text()


def experiment_plots(title: str, results: Sequence[Measured]) -> str:
    """Return the measures as box plots (SVG)."""
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


def misreport_figures(name: str, results: Sequence[Measured]) -> dict[str, Any]:
    """Return what ``experiment misreport --json`` prints."""
    return {
        "experiment": name,
        "instances": len(results),
        "mechanisms": {
            label: {
                liar: {trick: _gain(changes[liar, trick]) for trick in TRICKS} for liar in LIARS
            }
            for label, changes in _changes(results).items()
        },
    }


def misreport_table(results: Sequence[Measured]) -> str:
    """Return the change of the true error as text: the median, and the largest gain in brackets."""
    rows = []
    for label, changes in _changes(results).items():
        for liar in LIARS:
            gains = [_gain(changes[liar, trick]) for trick in TRICKS]
            rows.append([label, liar, *(f"{g['median']:.3f} ({g['lowest']:.3f})" for g in gains)])
    headers = [("mechanism", False), ("analyst with", False), *((trick, True) for trick in TRICKS)]
    return TextTable.of(headers, len(rows), rows.__getitem__, limit=None).text()


def misreport_plots(title: str, results: Sequence[Measured]) -> str:
    """Return the changes of the true error as box plots (SVG), both liars in one box."""
    found = _changes(results)
    panels = [
        Panel(
            f"true error, {trick}",
            {
                label: [v for liar in LIARS for v in own[liar, trick]]
                for label, own in found.items()
            },
            mark=1.0,
        )
        for trick in TRICKS
    ]
    return box_plots(title, panels)


def _changes(results: Sequence[Measured]) -> dict[str, dict[tuple[str, str], list[float]]]:
    """Return the changes by mechanism, and by liar and trick."""
    found: dict[str, dict[tuple[str, str], list[float]]] = {}
    for result in results:
        for label, changes in result.items():
            if changes is not None:
                own = found.setdefault(label, {})
                for key, value in zip(labels(), changes, strict=True):
                    own.setdefault(key, []).append(value)
    return found


def _gain(values: Sequence[float]) -> dict[str, Any]:
    return {
        **_middle(values),
        "lowest": min(values),
        "gains": sum(value < GAIN for value in values),
    }


def _by_label(results: Sequence[Measured]) -> dict[str, tuple[list[float], ...]]:
    """Return the values of each measure by mechanism, without mechanisms that do not serve."""
    found: dict[str, tuple[list[float], ...]] = {}
    for result in results:
        for label, measures in result.items():
            if measures is not None:
                columns = found.setdefault(label, tuple([] for _ in MEASURES))
                for column, value in zip(columns, measures, strict=True):
                    column.append(value)
    return found


def _middle(values: Sequence[float]) -> dict[str, float]:
    return {"median": float(np.median(values)), "mean": math.fsum(values) / len(values)}


def _worst(values: Sequence[float]) -> dict[str, Any]:
    return {"largest": max(values), "violations": sum(value > VIOLATED for value in values)}
