"""Drawing: the parts that charts are put together from, in SVG.

Every chart is as wide as a phone.  Text keeps its size there, and on a wide screen the whole
chart grows a little.  Colours are classes, so that a page in the dark, or on paper, has its own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from contextvars import ContextVar

from sqlmadp.report.markup import Markup, element, join

WIDTH = 350
"""Units of every chart's width."""

LETTER, CAPITAL = 7.2, 9.2
"""Units that a letter takes on average, in a font of wide letters."""

_numbers: ContextVar[Iterator[int]] = ContextVar("numbers of a page's charts")
_others = itertools.count(1)


def count_anew() -> None:
    """Count charts from 1 again, so that a page is the same whatever was drawn before it."""
    _numbers.set(itertools.count(1))


def chart(height: float, title: str, description: str, *parts: Markup) -> Markup:
    """Return a chart with a title and a description for those who do not see it."""
    number = next(_numbers.get(_others))
    return element(
        "svg",
        element("title", title, id=f"t{number}"),
        element("desc", description, id=f"d{number}"),
        *parts,
        view_box=f"0 0 {WIDTH} {height:.0f}",
        role="img",
        aria_labelledby=f"t{number} d{number}",
        class_="chart",
    )


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    """Return a straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=kind)


def box(x: float, y: float, width: float, height: float, kind: str, *, hint: str = "") -> Markup:
    """Return a rectangle; ``hint`` is shown where a pointer rests."""
    hints = [element("title", hint)] if hint else []
    return element(
        "rect", *hints, x=x, y=y, width=max(width, 0.0), height=max(height, 0.0), class_=kind
    )


def dot(x: float, y: float, radius: float, kind: str) -> Markup:
    """Return a circle."""
    return element("circle", cx=x, cy=y, r=radius, class_=kind)


def label(x: float, y: float, words: str, kind: str = "", *, room: float | None = None) -> Markup:
    """Return text, cut to ``room``, whole where a pointer rests on it."""
    shown = words if room is None else shortened(words, room)
    hint = [element("title", words)] if shown != words else []
    return element("text", shown, *hint, x=x, y=y, class_=kind or None)


def breadth(words: str) -> float:
    """Return the units that words take, at most as a rule."""
    return sum(CAPITAL if letter.isupper() else LETTER for letter in words)


def shortened(words: str, room: float) -> str:
    """Return words that fit into some units, with an ellipsis for what does not."""
    if breadth(words) <= room + 1e-9:
        return words
    kept = words[:-1]
    while len(kept) > 1 and breadth(kept) + LETTER > room + 1e-9:
        kept = kept[:-1]
    return kept + "…"


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return round numbers that cover a range, a few of them inside it."""
    if not high > low:
        return [low]
    step = 10 ** math.floor(math.log10((high - low) / most))
    step = next(s * step for s in (1, 2, 5, 10, 20) if (high - low) / (s * step) <= most)
    first = math.ceil(low / step - 1e-9)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]


def short(value: float) -> str:
    """Return a number for an axis."""
    if value == 0:
        return "0"
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            scale = {"G": 1e9, "M": 1e6, "k": 1e3}[letter]
            return f"{value / scale:.3g}{letter}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def legend(entries: Sequence[tuple[str, str]]) -> Markup:
    """Return a key: swatches, each of a class, with their names."""
    items = (
        element(
            "li",
            element(
                "svg",
                box(0.5, 0.5, 15, 11, kind),
                view_box="0 0 16 12",
                class_="swatch",
                aria_hidden="true",
            ),
            name,
        )
        for kind, name in entries
    )
    return element("ul", join(items), class_="legend")
