"""Answers: every statement with its rows once they are released, and its accuracy before.

One column of groups and a count are bars with error bars, or thin columns if there are many
groups; two columns of groups are a heat map, which is a table with shaded cells, so that it is
read without colour too; no group is a single number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, time
from typing import Any

from sqlmadp.answer.result import Result, interval, is_number, number
from sqlmadp.show import (
    MOST_ACROSS,
    MOST_BARS,
    MOST_COLUMNS,
    MOST_DOWN,
    MOST_ORDERED,
    SHOWN_ROWS,
)
from sqlmadp.show.report.charts import Bar, lying_bars, standing_bars
from sqlmadp.show.report.content import Content, Statement
from sqlmadp.show.report.markup import (
    Cell,
    Markup,
    Row,
    download,
    element,
    framed,
    join,
    section,
    table,
)
from sqlmadp.show.report.privacy import not_counted

ACCURACY = (
    "± is one standard error of the noise in a typical answer of the column; that of averages, "
    "ratios and quantiles is known after the release. The last column compares the squares of a "
    "statement's errors with those of asking one by one, the analyst's share split evenly over "
    "their statements: 1 is no better, 0.25 is half the error."
)
NOISE = (
    "± is one standard error of the noise, for the records that were included; the box says which "
    "were not."
)
INTERVALS = (
    "Lines on bars, and the ranges below single numbers, are 95% intervals for the count of the "
    "records that were included."
)


def answers(content: Content) -> Markup:
    """Return every analyst's statements, with a choice of the analyst if there are several."""
    names = list(content.certificate.analysts)
    articles = [
        element(
            "article",
            element("h3", name),
            *(_statement(each) for each in content.statements if each.analyst == name),
            data_analyst=str(place),
            class_="analyst",
        )
        for place, name in enumerate(names)
    ]
    title = "Answers" if content.made else "Statements"
    key = [element("p", f"{NOISE} {INTERVALS}"), not_counted(content)] if content.made else []
    choice = [_filter(names)] if len(names) > 1 else []
    return section("answers", title, *key, *choice, *articles)


def _filter(names: Sequence[str]) -> Markup:
    """Return the choice of an analyst; the script shows it, since it does nothing without."""
    choices = [("all", "everybody"), *((str(n), name) for n, name in enumerate(names))]
    labels = (
        element(
            "label",
            element("input", type="radio", name="analyst", value=value, checked=value == "all"),
            element("span", name),
        )
        for value, name in choices
    )
    return element("fieldset", element("legend", "Show"), *labels, id="filter", hidden=True)


def accuracy(content: Content) -> Markup:
    """Return the expected error of every column of every statement as a table."""
    headings = ("statement", "analyst", "column", "groups", "±", "relative to one by one")
    rows: list[Row] = [
        [
            *(each.expected.name, each.analyst, column),
            Cell(each.expected.rows, f"{each.expected.rows:,}"),
            Cell(error, "later" if error is None else number(error)),
            Cell(each.expected.factor, f"{each.expected.factor:.2f}"),
        ]
        for each in content.statements
        for column, error in each.expected.columns or [("", 0.0)]
    ]
    return element(
        "div",
        element("p", ACCURACY),
        table("Accuracy of every statement", headings, rows, file="accuracy"),
    )


def _statement(statement: Statement) -> Markup:
    sql = element(
        "details",
        element("summary", "SQL"),
        element("pre", element("code", statement.sql.strip())),
        open=statement.result is None,
    )
    name = statement.expected.name
    shown: list[Markup] = []
    notes: list[str] = []
    if statement.result is not None:
        shown = [_rows(statement.analyst, name, statement.result)]
        notes += statement.result.notes
    if statement.failure:
        notes.append(f"This statement has no rows: {statement.failure}. Nothing is lost.")
    shown += [element("p", note, class_="note") for note in notes]
    return element("section", element("h4", name), sql, *shown, class_="statement")


def _rows(analyst: str, name: str, result: Result) -> Markup:
    """Return rows as a chart that suits them and as a table, with the file to download."""
    keys = [place for place, (column, _) in enumerate(result.columns) if column not in result.rmse]
    counts = [place for place, (column, _) in enumerate(result.columns) if column in result.rmse]
    stated = result.with_errors()
    columns = [column for column, _ in stated.columns]
    file = download(f"{analyst} {name}", columns, stated.rows)
    shown = _table(result, name)
    if result.rows and counts:
        if not keys and len(result.rows) == 1:
            return join([_numbers(result), file])
        if len(keys) == 1:
            charts = [_bars(name, result, keys[0], place) for place in counts]
            if found := [each for each in charts if each is not None]:
                left, right = element("div", *found), element("div", shown, file)
                return element("div", left, right, class_="pair")
        if len(keys) == 2 and (heat := _heat_map(result, keys[0], keys[1], counts[0])) is not None:
            kind = "again" if len(counts) == 1 else None  # On paper nothing is said twice.
            words = element("summary", "Rows as a table")
            return join([heat, file, element("details", words, shown, class_=kind)])
    return join([shown, file])


def _numbers(result: Result) -> Markup:
    """Return each answer of a single row as a number with its error and interval."""
    cells = []
    for (name, _), value in zip(result.columns, result.rows[0], strict=True):
        error = result.rmse[name][0]
        low, high = interval(value, error)
        words = ""
        if low is not None and high is not None:
            words = f"± {number(error)}; 95%: {_rounded(low)} to {_rounded(high)}"
        cells.append(
            element(
                "div",
                element("dt", name),
                element("dd", element("strong", _figure(value)), element("span", words)),
            )
        )
    return element("dl", *cells, class_="numbers")


def _bars(name: str, result: Result, key: int, count: int) -> Markup | None:
    column = result.columns[count][0]
    bars = []
    for row, error in zip(result.rows, result.rmse[column], strict=True):
        low, high = interval(row[count], error)
        if low is not None and high is not None and math.isfinite(low) and math.isfinite(high):
            bars.append(Bar(_cell(row[key]), float(row[count]), low, high))
    if not bars or len(bars) > MOST_COLUMNS:
        return None
    by, kind = result.columns[key]
    ordered = is_number(kind) or kind == "DATE"
    draw = lying_bars if len(bars) <= (MOST_ORDERED if ordered else MOST_BARS) else standing_bars
    caption = element("figcaption", f"{column} by {by}")
    return element("figure", caption, draw(f"{name}: {column} by {by}", bars))


def _heat_map(result: Result, down: int, across: int, count: int) -> Markup | None:
    """Return a table of shaded cells: one group down, the other across."""
    name = result.columns[count][0]
    rows = list(dict.fromkeys(_cell(row[down]) for row in result.rows))
    columns = list(dict.fromkeys(_cell(row[across]) for row in result.rows))
    found = {
        (_cell(row[down]), _cell(row[across])): (row[count], error)
        for row, error in zip(result.rows, result.rmse[name], strict=True)
    }
    if not len(rows) * len(columns) == len(found) == len(result.rows):
        return None  # Some pair of groups is missing, or has several rows.
    if len(columns) > len(rows):  # The longer side goes down: a phone is narrow.
        return _heat_map(result, across, down, count)
    if len(rows) > MOST_DOWN or len(columns) > MOST_ACROSS:
        return None
    high = max((_height(value) for value, _ in found.values()), default=0.0)
    body = []
    for row in rows:
        cells: list[str | Cell] = [row]
        for column in columns:
            value, error = found[row, column]
            part = _height(value) / high if high else 0.0
            small = f"± {number(error)}"
            cells.append(Cell(value, _figure(value), small=small, shade=part))
        body.append(cells)
    by = result.columns[down][0], result.columns[across][0]
    headings = [f"{by[0]} \\ {by[1]}", *columns]
    return framed(f"{name} by {by[0]} and {by[1]}", headings, body, kind="heat")


def _height(value: Any) -> float:
    """Return the part of an answer that is shaded: none of NULL, NaN or below zero."""
    return max(float(value), 0.0) if value is not None and math.isfinite(value) else 0.0


def _table(result: Result, name: str) -> Markup:
    """Return the first rows, each answer with its standard error next to it."""
    headings = [
        title
        for column, _ in result.columns
        for title in ([column, "±"] if column in result.rmse else [column])
    ]
    rows = [_row(result, place) for place in range(min(len(result.rows), SHOWN_ROWS))]
    hidden = len(result.rows) - SHOWN_ROWS
    more = f"… {hidden:,} more rows, which the CSV file has" if hidden > 0 else ""
    caption = f"{name}: {len(result.rows):,} row{'s' * (len(result.rows) != 1)}"
    return framed(caption, headings, rows, frame="scroll rows", more=more)


def _row(result: Result, place: int) -> list[Cell]:
    cells = []
    for (column, _), value in zip(result.columns, result.rows[place], strict=True):
        shown = _figure(value) if column in result.rmse else _cell(value)
        cells.append(Cell(value, shown))
        if column in result.rmse:
            error = result.rmse[column][place]
            cells.append(Cell(error, number(error), "error"))
    return cells


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _cell(value: Any) -> str:
    """Return a value as text: a group's name, or what a query works out."""
    if value is None:
        return "NULL"
    if isinstance(value, datetime) and value.timetz() == time():
        return value.date().isoformat()  # Of date_trunc: the first moment of a day.
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _figure(value: Any) -> str:
    """Return an answer as text, thousands apart."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _cell(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.2f}" if abs(value) < 1e9 else f"{value:.6g}"
