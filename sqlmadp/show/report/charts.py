"""Charts in SVG: answers as bars, everybody's gain, and the budget.

Every chart is as wide as a phone.  Text keeps its size there, and on a wide screen the whole
chart grows a little.  Colours are classes, so that a page in the dark, or on paper, has its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlmadp.release.certificate import TINY
from sqlmadp.show import CHART_CAPITAL, CHART_LETTER, CHART_WIDTH
from sqlmadp.show.report.content import Content
from sqlmadp.show.report.markup import Markup, element


@dataclass(frozen=True)
class Bar:
    """One answer of one group, with its 95% interval."""

    group: str
    value: float
    low: float
    high: float

    @property
    def words(self) -> str:
        """The answer for those who do not see the chart."""
        ends = f"{short(self.low)} and {short(self.high)}"
        return f"{self.group}: {short(self.value)}, between {ends}"


def lying_bars(title: str, bars: Sequence[Bar]) -> Markup:
    """Return bars from left to right, one per group."""
    longest = max(_breadth(bar.group) for bar in bars)
    left, right, step, top = min(max(longest + 8, 40), 140), 50, 22, 4
    low, high = _range(bars)
    place = _scale(low, high, left, CHART_WIDTH - right)
    bottom = top + step * len(bars)
    parts = [_line(place(t), top, place(t), bottom, "grid") for t in _ticks(low, high, 4)]
    for row, bar in enumerate(bars):
        y = top + step * row
        zero, end = place(0), place(bar.value)
        parts += [
            _label(left - 6, y + 15, bar.group, "end", room=left - 8),
            _box(min(zero, end), y + 3, abs(end - zero), step - 6, "bar", hint=bar.words),
            *_whisker(place(bar.low), y + step / 2, place(bar.high), y + step / 2),
            _label(CHART_WIDTH, y + 15, short(bar.value), "end small"),
        ]
    parts.append(_line(place(0), top, place(0), bottom, "axis"))
    parts += [_label(place(t), bottom + 13, short(t), "middle small") for t in _ticks(low, high, 4)]
    return _chart(bottom + 18, title, _described(bars), *parts)


def standing_bars(title: str, bars: Sequence[Bar]) -> Markup:
    """Return thin columns, one per group, with a name here and there."""
    left, top, height = 38, 8, 130
    low, high = _range(bars)
    up = _scale(low, high, top + height, top)
    room = (CHART_WIDTH - left) / len(bars)
    parts = []
    for tick in _ticks(low, high, 4):
        parts += [
            _line(left, up(tick), CHART_WIDTH, up(tick), "grid"),
            _label(left - 5, up(tick) + 4, short(tick), "end small"),
        ]
    for n, bar in enumerate(bars):
        x = left + room * n
        zero, end = up(0), up(bar.value)
        width = room * 0.8
        parts.append(_box(x, min(zero, end), width, abs(end - zero), "bar", hint=bar.words))
        parts += _whisker(x + width / 2, up(bar.low), x + width / 2, up(bar.high))
    parts.append(_line(left, up(0), CHART_WIDTH, up(0), "axis"))
    every = max(1, math.ceil((max(len(bar.group) for bar in bars) + 1) * 6.5 / room))
    for n in range(0, len(bars), every):
        x = left + room * (n + 0.4)
        if x + len(bars[n].group) * 2.9 <= CHART_WIDTH:
            parts.append(_label(x, top + height + 15, bars[n].group, "middle small"))
    return _chart(top + height + 20, title, _described(bars), *parts)


def gains_chart(content: Content) -> Markup:
    """Return everybody's error together, in parts of what it would be alone."""
    ratios = {name: each.ratio for name, each in content.certificate.analysts.items()}
    longest = max(_breadth(name) for name in ratios)
    left, right, step, top = min(max(longest + 8, 40), 140), 46, 24, 18
    place = _scale(
        0, max(1.1, *(r for r in ratios.values() if r < math.inf)), left, CHART_WIDTH - right
    )
    bottom = top + step * len(ratios)
    parts = [_label(place(1), 12, "alone", "middle small")]
    for row, (name, ratio) in enumerate(ratios.items()):
        y = top + step * row
        worse = ratio > 1 + TINY
        end = place(ratio) if ratio < math.inf else CHART_WIDTH - right
        parts += [
            _label(left - 6, y + 16, name, "end", room=left - 8),
            _box(left, y + 5, end - left, step - 10, "bad" if worse else "good"),
            _label(CHART_WIDTH, y + 16, f"{ratio:.2f}{' !' if worse else ''}", "end small"),
        ]
    parts += [
        _line(left, top, left, bottom, "axis"),
        _line(place(1), top, place(1), bottom, "axis dashed"),
    ]
    said = "; ".join(f"{name}: {ratio:.2f}" for name, ratio in ratios.items())
    return _chart(bottom + 4, "Squared error together, in parts of that alone", said, *parts)


def budget_chart(content: Content) -> Markup:
    """Return the budget: what was spent before, what this release takes, and what is left."""
    budget = float(content.budget)
    own = content.charge if content.released is None else content.released.epsilon
    before = content.spent - (own if content.released else 0)
    kind = "planned" if content.released is None else "this"
    parts = [_box(0.5, 4.5, CHART_WIDTH - 1, 17, "empty")]
    start = 0.0
    named = [("spent before", before, "spent"), ("this release", own, kind)]
    for words, epsilon, look in named:
        width = float(epsilon) / budget * CHART_WIDTH
        hint = f"{words}: {epsilon}"
        parts.append(_box(start, 4, min(width, CHART_WIDTH - start), 18, look, hint=hint))
        start += width
    said = "; ".join(f"{words} {epsilon}" for words, epsilon, _ in named)
    return _chart(26, f"Budget of {content.budget}", said, *parts)


def short(value: float) -> str:
    """Return a number for an axis."""
    if value == 0:
        return "0"
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            scale = {"G": 1e9, "M": 1e6, "k": 1e3}[letter]
            return f"{value / scale:.3g}{letter}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _chart(height: float, title: str, description: str, *parts: Markup) -> Markup:
    """Return a chart, with its content in words for those who do not see it."""
    return element(
        "svg",
        *parts,
        view_box=f"0 0 {CHART_WIDTH} {height:.0f}",
        role="img",
        aria_label=f"{title}. {description}",
        class_="chart",
    )


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=kind)


def _box(x: float, y: float, width: float, height: float, kind: str, *, hint: str = "") -> Markup:
    """Return a rectangle; ``hint`` is shown where a pointer rests."""
    hints = [element("title", hint)] if hint else []
    return element(
        "rect", *hints, x=x, y=y, width=max(width, 0.0), height=max(height, 0.0), class_=kind
    )


def _label(x: float, y: float, words: str, kind: str = "", *, room: float | None = None) -> Markup:
    """Return text, cut to ``room``, whole where a pointer rests on it."""
    shown = words if room is None else _shortened(words, room)
    hint = [element("title", words)] if shown != words else []
    return element("text", shown, *hint, x=x, y=y, class_=kind or None)


def _whisker(x1: float, y1: float, x2: float, y2: float) -> list[Markup]:
    """Return an error bar: a line with ends, unless it is too short to be seen."""
    if abs(x2 - x1) + abs(y2 - y1) < 1:
        return []
    end = 2.5
    if y1 == y2:
        ends = [_line(x, y1 - end, x, y1 + end, "whisker") for x in (x1, x2)]
    else:
        ends = [_line(x1 - end / 2, y, x1 + end / 2, y, "whisker") for y in (y1, y2)]
    return [_line(x1, y1, x2, y2, "whisker"), *ends]


def _breadth(words: str) -> float:
    """Return the units that words take, at most as a rule."""
    return sum(CHART_CAPITAL if letter.isupper() else CHART_LETTER for letter in words)


def _shortened(words: str, room: float) -> str:
    """Return words that fit into some units, with an ellipsis for what does not."""
    if _breadth(words) <= room + 1e-9:
        return words
    kept = words[:-1]
    while len(kept) > 1 and _breadth(kept) + CHART_LETTER > room + 1e-9:
        kept = kept[:-1]
    return kept + "…"


def _range(bars: Sequence[Bar]) -> tuple[float, float]:
    low = min([0.0, *(bar.low for bar in bars)])
    high = max([0.0, *(bar.high for bar in bars)])
    return (low, high) if high > low else (0.0, 1.0)


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    """Return a function that places a number between start and end."""
    return lambda value: start + (value - low) / (high - low) * (end - start)


def _ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return round numbers inside a range."""
    if not high > low:
        return [low]
    step = 10 ** math.floor(math.log10((high - low) / most))
    step = next(s * step for s in (1, 2, 5, 10, 20) if (high - low) / (s * step) <= most)
    first = math.ceil(low / step - 1e-9)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]


def _described(bars: Sequence[Bar]) -> str:
    """Return the first answers in words; the table has all of them."""
    first = "; ".join(bar.words for bar in bars[:5])
    more = len(bars) - 5
    return first + (f"; and {more} more, in the table" if more > 0 else "")
