"""Show: the measures of an experiment as a table, as figures, and as box plots."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from sqlmadp.answer.result import TextTable
from sqlmadp.experiment.misreport import LIARS, TRICKS, labels
from sqlmadp.experiment.run import MEASURES, Measured

Key = TypeVar("Key", str, tuple[str, str])
"""A measure, or who lies and how."""

WIDE, HIGH = 64, 320
"""Pixels of one box's place, and of the height of a panel."""
LEFT, TOP, BOTTOM, BETWEEN = 90, 50, 130, 30
COLOURS = ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377", "#777777", "#225555")
"""Told apart also by people who see few colours."""


@dataclass(frozen=True)
class Panel:
    """One measure: its title, and the values by label."""

    title: str
    values: Mapping[str, Sequence[float]]
    mark: float | None = None
    """A value to draw a dashed line at."""


def box_plots(title: str, panels: Sequence[Panel]) -> str:
    """Return one picture with the panels side by side."""
    widths = [LEFT + WIDE * len(panel.values) for panel in panels]
    width = sum(widths) + BETWEEN * len(panels)
    height = TOP + HIGH + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13" role="img">',
        f"<title>{html.escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="12" y="20" font-size="15" font-weight="bold">{html.escape(title)}</text>',
    ]
    at = 0
    for panel, own in zip(panels, widths, strict=True):
        parts.append(f'<g transform="translate({at + LEFT},{TOP})">{_panel(panel)}</g>')
        at += own + BETWEEN
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel) -> str:
    values = [v for each in panel.values.values() for v in each if math.isfinite(v)]
    marked = [*values, *([panel.mark] if panel.mark is not None else [])]
    scale = _Scale.of(marked or [0.0, 1.0])
    wide = WIDE * len(panel.values)
    title = panel.title + (" (log scale)" if scale.logarithmic else "")
    parts = [
        f'<text x="{wide / 2}" y="-8" text-anchor="middle">{html.escape(title)}</text>',
        f'<rect width="{wide}" height="{HIGH}" fill="none" stroke="#999999"/>',
    ]
    for tick in scale.ticks:
        y = scale.place(tick)
        parts.append(f'<line x1="0" x2="{wide}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e5e5e5"/>')
        parts.append(f'<text x="-8" y="{y + 4:.1f}" text-anchor="end">{tick:,.6g}</text>')
    if panel.mark is not None:
        y = scale.place(panel.mark)
        parts.append(
            f'<line x1="0" x2="{wide}" y1="{y:.1f}" y2="{y:.1f}" stroke="#cc3311" '
            'stroke-dasharray="6 4"/>'
        )
    for number, (label, own) in enumerate(panel.values.items()):
        centre = WIDE * (number + 0.5)
        finite = np.array([value for value in own if math.isfinite(value)])
        parts.append(
            f'<text transform="translate({centre + 4:.1f},{HIGH + 14}) rotate(-45)" '
            f'text-anchor="end">{html.escape(label)}</text>'
        )
        if len(finite):
            parts.append(_box(finite, centre, scale, COLOURS[number % len(COLOURS)]))
    return "\n".join(parts)


def _box(values: np.ndarray, centre: float, scale: _Scale, colour: str) -> str:
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    reach = 1.5 * (high - low)
    inside = values[(values >= low - reach) & (values <= high + reach)]
    half = WIDE * 0.3
    y = {name: scale.place(v) for name, v in (("low", low), ("middle", middle), ("high", high))}
    parts = [
        f'<rect x="{centre - half:.1f}" y="{y["high"]:.1f}" width="{2 * half:.1f}" '
        f'height="{max(y["low"] - y["high"], 1):.1f}" fill="{colour}" fill-opacity="0.35" '
        f'stroke="{colour}"/>',
        f'<line x1="{centre - half:.1f}" x2="{centre + half:.1f}" y1="{y["middle"]:.1f}" '
        f'y2="{y["middle"]:.1f}" stroke="black" stroke-width="2"/>',
    ]
    for end, box in ((inside.min(), y["low"]), (inside.max(), y["high"])):
        tip = scale.place(end)
        parts.append(
            f'<path d="M{centre:.1f} {box:.1f}V{tip:.1f}M{centre - half / 2:.1f} {tip:.1f}'
            f'H{centre + half / 2:.1f}" stroke="{colour}" fill="none"/>'
        )
    for value in values[(values < low - reach) | (values > high + reach)]:
        parts.append(
            f'<circle cx="{centre:.1f}" cy="{scale.place(value):.1f}" r="3" fill="none" '
            f'stroke="{colour}"/>'
        )
    mean = scale.place(float(values.mean()))
    parts.append(
        f'<path d="M{centre:.1f} {mean - 5:.1f}l5 9h-10z" fill="black" fill-opacity="0.7"/>'
    )
    return "\n".join(parts)


@dataclass(frozen=True)
class _Scale:
    """From values to heights on the page."""

    low: float
    high: float
    logarithmic: bool
    ticks: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float]) -> _Scale:
        """Return the scale that holds all values, with round ticks."""
        least, most = min(values), max(values)
        if least > 0 and most / least > 30:
            first, last = math.floor(math.log10(least)), math.ceil(math.log10(most))
            powers = range(first, last + 1, max(1, (last - first) // 6))
            ticks = tuple(10.0**power for power in powers)
            return cls(10.0**first, 10.0**last, True, ticks)
        spread = (most - least) or abs(most) or 1.0
        unit = 10.0 ** math.floor(math.log10(spread / 4))
        step = next(unit * factor for factor in (1, 2, 5, 10) if spread / (unit * factor) <= 6)
        first, last = math.floor(least / step - 0.05), math.ceil(most / step + 0.05)
        ticks = tuple(round(place * step, 12) for place in range(first, last + 1))
        return cls(first * step, last * step, False, ticks)

    def place(self, value: float) -> float:
        """Return the distance of a value from the top of the panel."""
        if self.logarithmic:
            part = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return HIGH * (1 - part)


VIOLATED = 1 + 1e-9
"""A ratio above this is a violation; what rounding adds is not."""

GAIN = 1 - 1e-9
"""Misreporting that changes an error by a factor below this pays."""


_FIELDS = ("total_error", "sharing_ratio", "interference", "interference_within_agreement")
"""The names of `MEASURES` in JSON."""


def experiment_figures(name: str, results: Sequence[Measured]) -> dict[str, Any]:
    """Return the figures that ``experiment --json`` prints."""
    return {
        "experiment": name,
        "instances": len(results),
        "mechanisms": {
            label: {
                name: _middle(values) if name == "total_error" else _middle(values) | _worst(values)
                for name, values in zip(_FIELDS, found.values(), strict=True)
            }
            for label, found in _by_label(results, MEASURES).items()
        },
    }


def experiment_table(results: Sequence[Measured]) -> str:
    """Return the medians, means and violations as text, one line per mechanism."""
    titles = ["total error: median", "mean", "ratio: median", "largest", "above 1"]
    titles += ["interference: median", "largest", "above 1"]
    titles += ["within the agreement: median", "largest", "above 1"]
    rows = []
    for label, found in _by_label(results, MEASURES).items():
        total, *ratios = found.values()
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
    found = _by_label(results, MEASURES)
    panels = [
        Panel(
            measure,
            {label: own[measure] for label, own in found.items()},
            mark=None if measure == MEASURES[0] else 1.0,
        )
        for measure in MEASURES
    ]
    return box_plots(title, panels)


def misreport_figures(name: str, results: Sequence[Measured]) -> dict[str, Any]:
    """Return the figures that ``experiment misreport --json`` prints."""
    return {
        "experiment": name,
        "instances": len(results),
        "mechanisms": {
            label: {
                liar: {trick: _gain(changes[liar, trick]) for trick in TRICKS} for liar in LIARS
            }
            for label, changes in _by_label(results, labels()).items()
        },
    }


def misreport_table(results: Sequence[Measured]) -> str:
    """Return the change of the true error as text: the median, and the largest gain in brackets."""
    rows = []
    for label, changes in _by_label(results, labels()).items():
        for liar in LIARS:
            gains = [_gain(changes[liar, trick]) for trick in TRICKS]
            rows.append([label, liar, *(f"{g['median']:.3f} ({g['lowest']:.3f})" for g in gains)])
    headers = [("mechanism", False), ("analyst with", False), *((trick, True) for trick in TRICKS)]
    return TextTable.of(headers, len(rows), rows.__getitem__, limit=None).text()


def misreport_plots(title: str, results: Sequence[Measured]) -> str:
    """Return the changes of the true error as box plots (SVG), both liars in one box."""
    found = _by_label(results, labels())
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


def _gain(values: Sequence[float]) -> dict[str, Any]:
    return {
        **_middle(values),
        "lowest": min(values),
        "gains": sum(value < GAIN for value in values),
    }


def _by_label(
    results: Sequence[Measured], keys: Sequence[Key]
) -> dict[str, dict[Key, list[float]]]:
    """Return the values of each measure by mechanism, without mechanisms that do not serve."""
    found: dict[str, dict[Key, list[float]]] = {}
    for result in results:
        for label, values in result.items():
            if values is not None:
                own = found.setdefault(label, {key: [] for key in keys})
                for key, value in zip(keys, values, strict=True):
                    own[key].append(value)
    return found


def _middle(values: Sequence[float]) -> dict[str, float]:
    return {"median": float(np.median(values)), "mean": math.fsum(values) / len(values)}


def _worst(values: Sequence[float]) -> dict[str, Any]:
    return {"largest": max(values), "violations": sum(value > VIOLATED for value in values)}
