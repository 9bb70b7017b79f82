"""Figures of a query: its rows as a table, and as the chart that suits their shape.

One column of groups and a count are bars with error bars, or thin columns if there are many
groups; two columns of groups are a heat map, which is a table with shaded cells, so that it
is read without colour too; no group is a single number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlmadp.answer.result import Result, interval, is_number, number
from sqlmadp.report.drawing import WIDTH, box, breadth, chart, label, line, short, ticks
from sqlmadp.report.frames import scrolling
from sqlmadp.report.markup import Markup, element, join

MOST_BARS = 26
"""Groups up to which each has a bar with its name."""
MOST_ORDERED = 12
"""The same for numbers and dates, which are read as a course from 13 on."""
MOST_COLUMNS = 370
"""Groups up to which each has a thin column."""
MOST_ROWS = 60
MOST_ACROSS = 24
"""Rows and columns of a heat map."""
SHOWN_ROWS = 100
"""Rows of a table that are shown; the rest are left out with a word."""


@dataclass(frozen=True)
class _Answer:
    """One answer of one group, with its 95% interval."""

    group: str
    value: float
    low: float
    high: float

    @property
    def words(self) -> str:
        """Return the answer for those who do not see the chart."""
        ends = f"{short(self.low)} and {short(self.high)}"
        return f"{self.group}: {short(self.value)}, between {ends}"


def shown_rows(name: str, result: Result) -> Markup:
    """Return a query's rows: a chart that suits them, and the table."""
    keys = [place for place, (column, _) in enumerate(result.columns) if column not in result.rmse]
    counts = [place for place, (column, _) in enumerate(result.columns) if column in result.rmse]
    table = _rows_table(result, name)
    if result.rows and counts:
        if not keys and len(result.rows) == 1:
            return join([_numbers(result), _folded(table, again=True)])
        if len(keys) == 1:
            charts = [_bars(name, result, keys[0], place) for place in counts]
            if found := [each for each in charts if each is not None]:
                left, right = element("div", *found), element("div", table)
                return element("div", left, right, class_="pair")
        if len(keys) == 2 and (heat := _heat_map(result, keys[0], keys[1], counts[0])) is not None:
            return join([heat, _folded(table, again=len(counts) == 1)])
    return table


def _folded(table: Markup, *, again: bool) -> Markup:
    """Return a table to be unfolded; on paper it is left out if it only says all ``again``."""
    kind = "again" if again else None
    return element("details", element("summary", "Rows as a table"), table, class_=kind)


def _numbers(result: Result) -> Markup:
    """Return each answer of a single row as a number with its interval."""
    cells = []
    for (name, _), value in zip(result.columns, result.rows[0], strict=True):
        low, high = interval(value, result.rmse[name][0])
        spread = "" if low is None or high is None else f"{_rounded(low)} to {_rounded(high)}"
        cells.append(
            element(
                "div",
                element("dt", name),
                element("dd", element("strong", _figure(value)), element("span", spread)),
            )
        )
    return element("dl", *cells, class_="numbers")


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _answers(result: Result, key: int, count: int) -> list[_Answer]:
    found = []
    name = result.columns[count][0]
    for row, error in zip(result.rows, result.rmse[name], strict=True):
        low, high = interval(row[count], error)
        if low is not None and high is not None and math.isfinite(low) and math.isfinite(high):
            found.append(_Answer(_cell(row[key]), float(row[count]), low, high))
    return found


def _bars(name: str, result: Result, key: int, count: int) -> Markup | None:
    answers = _answers(result, key, count)
    if not answers or len(answers) > MOST_COLUMNS:
        return None
    title = f"{name}: {result.columns[count][0]} by {result.columns[key][0]}"
    ordered = is_number(result.columns[key][1]) or result.columns[key][1] == "DATE"
    draw = _lying if len(answers) <= (MOST_ORDERED if ordered else MOST_BARS) else _standing
    return element("figure", element("figcaption", title), draw(title, answers))


def _lying(title: str, answers: Sequence[_Answer]) -> Markup:
    """Return bars from left to right, one a group."""
    longest = max(breadth(answer.group) for answer in answers)
    left, right, step, top = min(max(longest + 8, 40), 140), 50, 22, 4
    low, high = _range(answers)
    place = _placer(low, high, left, WIDTH - right)
    bottom = top + step * len(answers)
    parts = [line(place(t), top, place(t), bottom, "grid") for t in ticks(low, high, 4)]
    for row, answer in enumerate(answers):
        y = top + step * row
        zero, end = place(0), place(answer.value)
        parts += [
            label(left - 6, y + 15, answer.group, "end", room=left - 8),
            box(min(zero, end), y + 3, abs(end - zero), step - 6, "bar", hint=answer.words),
            *_whisker(place(answer.low), y + step / 2, place(answer.high), y + step / 2),
            label(WIDTH, y + 15, short(answer.value), "end small"),
        ]
    parts.append(line(place(0), top, place(0), bottom, "axis"))
    parts += [label(place(t), bottom + 13, short(t), "middle small") for t in ticks(low, high, 4)]
    return chart(bottom + 18, title, _described(answers), *parts)


def _standing(title: str, answers: Sequence[_Answer]) -> Markup:
    """Return thin columns, one a group, with a name here and there."""
    left, top, height = 38, 8, 130
    low, high = _range(answers)
    up = _placer(low, high, top + height, top)
    room = (WIDTH - left) / len(answers)
    parts = []
    for tick in ticks(low, high, 4):
        parts += [
            line(left, up(tick), WIDTH, up(tick), "grid"),
            label(left - 5, up(tick) + 4, short(tick), "end small"),
        ]
    for n, answer in enumerate(answers):
        x = left + room * n
        zero, end = up(0), up(answer.value)
        width = room * 0.8
        parts.append(box(x, min(zero, end), width, abs(end - zero), "bar", hint=answer.words))
        parts += _whisker(x + width / 2, up(answer.low), x + width / 2, up(answer.high))
    parts.append(line(left, up(0), WIDTH, up(0), "axis"))
    every = max(1, math.ceil((max(len(a.group) for a in answers) + 1) * 6.5 / room))
    for n in range(0, len(answers), every):
        x = left + room * (n + 0.4)
        if x + len(answers[n].group) * 2.9 <= WIDTH:
            parts.append(label(x, top + height + 15, answers[n].group, "middle small"))
    return chart(top + height + 20, title, _described(answers), *parts)


def _whisker(x1: float, y1: float, x2: float, y2: float) -> list[Markup]:
    """Return an error bar: a line with ends, unless it is too short to be seen."""
    if abs(x2 - x1) + abs(y2 - y1) < 1:
        return []
    end = 2.5
    if y1 == y2:
        ends = [line(x, y1 - end, x, y1 + end, "whisker") for x in (x1, x2)]
    else:
        ends = [line(x1 - end / 2, y, x1 + end / 2, y, "whisker") for y in (y1, y2)]
    return [line(x1, y1, x2, y2, "whisker"), *ends]


def _range(answers: Sequence[_Answer]) -> tuple[float, float]:
    low = min([0.0, *(answer.low for answer in answers)])
    high = max([0.0, *(answer.high for answer in answers)])
    return (low, high) if high > low else (0.0, 1.0)


def _placer(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    """Return where a number lies between start and end."""
    return lambda value: start + (value - low) / (high - low) * (end - start)


def _described(answers: Sequence[_Answer]) -> str:
    """Return the first answers in words; all of them stand in the table."""
    first = "; ".join(answer.words for answer in answers[:5])
    more = len(answers) - 5
    return first + (f"; and {more} more, in the table" if more > 0 else "")


def _heat_map(result: Result, down: int, across: int, count: int) -> Markup | None:
    """Return a table of shaded cells: one group down, the other across."""
    name = result.columns[count][0]
    rows = list(dict.fromkeys(_cell(row[down]) for row in result.rows))
    columns = list(dict.fromkeys(_cell(row[across]) for row in result.rows))
    if len(rows) * len(columns) != len(result.rows):
        return None
    if len(columns) > len(rows):  # The longer side goes down: a phone is narrow.
        return _heat_map(result, across, down, count)
    if len(rows) > MOST_ROWS or len(columns) > MOST_ACROSS:
        return None
    values = {(_cell(r[down]), _cell(r[across])): r[count] for r in result.rows}
    errors = {
        (_cell(r[down]), _cell(r[across])): e
        for r, e in zip(result.rows, result.rmse[name], strict=True)
    }
    known = [float(value) for value in values.values() if value is not None]
    high = max([*known, 0.0])
    body = []
    for row in rows:
        cells = [element("th", row, scope="row")]
        for column in columns:
            value = values[row, column]
            part = 0.0 if value is None or not high else max(float(value), 0.0) / high
            cells.append(_shaded(_figure(value), part, f"± {number(errors[row, column])}"))
        body.append(element("tr", *cells))
    corner = f"{result.columns[down][0]} \\ {result.columns[across][0]}"
    head = [element("th", corner, scope="col"), *(element("th", c, scope="col") for c in columns)]
    table = element(
        "table",
        element("caption", f"{name} by {result.columns[down][0]} and {result.columns[across][0]}"),
        element("thead", element("tr", *head)),
        element("tbody", *body),
        class_="heat",
    )
    return scrolling(table, f"{name} as a heat map")


def _shaded(value: str, part: float, error: str) -> Markup:
    return element("td", value, " ", element("small", error), style=f"--part:{part:.3f}")


def _rows_table(result: Result, name: str) -> Markup:
    """Return the rows, each answer with its expected error beside it."""
    head = []
    for column, kind in result.columns:
        right = "right" if is_number(kind) else None
        head.append(element("th", column, scope="col", class_=right))
        if column in result.rmse:
            sign = element("abbr", "±", title="one standard error of the noise")
            head.append(element("th", sign, scope="col", class_="error"))
    body = [_row(result, place) for place in range(min(len(result.rows), SHOWN_ROWS))]
    hidden = len(result.rows) - SHOWN_ROWS
    if hidden > 0:
        words = f"… {hidden:,} more rows, which 'sqlmadp release --out' writes to a file"
        body.append(element("tr", element("td", words, colspan=len(head))))
    table = element(
        "table",
        element("caption", f"{name}: {len(result.rows):,} row{'s' * (len(result.rows) != 1)}"),
        element("thead", element("tr", *head)),
        element("tbody", *body),
    )
    return scrolling(table, f"Rows of {name}", "scroll rows")


def _row(result: Result, place: int) -> Markup:
    cells = []
    for (column, kind), value in zip(result.columns, result.rows[place], strict=True):
        shown = _figure(value) if column in result.rmse else _cell(value)
        cells.append(element("td", shown, class_="right" if is_number(kind) else None))
        if column in result.rmse:
            cells.append(element("td", number(result.rmse[column][place]), class_="error"))
    return element("tr", *cells)


def _cell(value: Any) -> str:
    """Return a value as text: a group's name, or what a query works out."""
    if value is None:
        return "NULL"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _figure(value: Any) -> str:
    """Return an answer as text, thousands apart."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _cell(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.2f}" if abs(value) < 1e9 else f"{value:.6g}"
