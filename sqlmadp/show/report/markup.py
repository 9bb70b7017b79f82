"""Markup: elements of HTML and SVG, in which every string that is not markup is escaped.

Names of analysts, queries, columns and values come from strangers.  ``element`` takes them as plain
strings and escapes them; only what ``element`` made is put in as it is.  Characters that cannot be
seen, such as those that turn the direction of writing, are shown as their codes.

Where a table is too wide for a phone, each of its rows becomes a list of headings and values there
(the style does this).  Every table can be downloaded as CSV from a ``data:`` link: the file is part
of the page, so it needs neither a server nor script, and the page's content security policy, which
is about what a page loads, allows it.
"""

from __future__ import annotations

import csv
import html
import io
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Number
from typing import Any
from urllib.parse import quote

from sqlmadp.answer.result import visible
from sqlmadp.show import BOLD, LETTER, MAX_CSV_BYTES, PADDING, PHONE, SMALL

VOID = frozenset({"meta", "br", "hr", "input"})
"""Elements of HTML that have no end."""


class Markup(str):
    """A piece of HTML or SVG that is safe to put into a page."""

    __slots__ = ()


def text(plain: str) -> Markup:
    """Return a plain string as markup; lines and tabs stay."""
    if not plain.isprintable():
        plain = "".join(mark if mark in "\n\t" else visible(mark) for mark in plain)
    return Markup(html.escape(plain))


def element(name: str, /, *children: str, **attributes: object) -> Markup:
    """Return an element.  ``class_`` is class, and other underscores are hyphens.

    An attribute that is None or False is left out, and one that is True has no value.
    """
    given = "".join(
        f" {_attribute_name(key)}" + ("" if value is True else f'="{text(_shown(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in VOID:
        return Markup(f"<{name}{given}>")
    return Markup(f"<{name}{given}>{join(children)}</{name}>")


def join(pieces: Iterable[str]) -> Markup:
    """Return the pieces in order; those that are not markup are escaped."""
    return Markup("".join(p if isinstance(p, Markup) else text(p) for p in pieces))


def section(name: str, title: str, *parts: str) -> Markup:
    """Return a part of the page, named by its heading."""
    heading = element("h2", title, id=f"{name}-title")
    return element("section", heading, *parts, id=name, aria_labelledby=f"{name}-title")


def listed(items: Iterable[str]) -> Markup:
    """Return a list of points."""
    return element("ul", *(element("li", item) for item in items))


def sentence(words: str) -> str:
    """Return words with a capital letter and a full stop."""
    return f"{words[:1].upper()}{words[1:]}."


def _attribute_name(key: str) -> str:
    return "viewBox" if key == "view_box" else key.rstrip("_").replace("_", "-")


def _shown(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


STANDARD_ERROR = "one standard error of the noise"
TOO_LARGE = (
    "Too large for a download from this page: sqlmadp release PLAN --out FOLDER writes all rows to "
    "a file."
)


@dataclass(frozen=True)
class Cell:
    """One cell: a value for the file, and how the page shows it."""

    value: Any
    shown: str
    kind: str | None = None
    """Its class in the page."""
    small: str = ""
    """What is shown below it."""
    shade: float | None = None
    """From 0 to 1, in a heat map."""


Row = Sequence[str | Cell]
"""One row of a table; a string is shown as it is."""


def table(
    name: str, headings: Sequence[str], rows: Iterable[Row], *, file: str, kind: str = ""
) -> Markup:
    """Return a table under a caption, with its download."""
    made = [_cells(row) for row in rows]
    shown = framed(name, headings, made, kind=kind)
    values = ([cell.value for cell in row] for row in made)
    return element("div", shown, download(file, headings, values), class_="table")


def framed(
    caption: str,
    headings: Sequence[str],
    rows: Iterable[Row],
    *,
    kind: str = "",
    frame: str = "scroll",
    more: str = "",
) -> Markup:
    """Return a table in a frame, which a keyboard can scroll; the first cell of a row heads it.

    Columns of numbers are aligned to the right.
    """
    made = [_cells(row) for row in rows]
    right = [_numeric([row[place].value for row in made]) for place in range(len(headings))]
    body = [_row(headings, right, row) for row in made]
    if more:
        body.append(element("tr", element("td", more, colspan=len(headings))))
    kinds = " ".join(filter(None, [kind, "" if _fits_phone(headings, made) else "wide"]))
    heads = (_heading(*each) for each in zip(headings, right, strict=True))
    shown = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *heads)),
        element("tbody", *body),
        class_=kinds or None,
    )
    return element("div", shown, class_=frame, tabindex="0", role="region", aria_label=caption)


def _cells(row: Row) -> list[Cell]:
    return [cell if isinstance(cell, Cell) else Cell(cell, cell) for cell in row]


def _numeric(values: Sequence[Any]) -> bool:
    """Return whether the values of a column are numbers, apart from missing ones."""
    known = [value for value in values if value is not None]
    return bool(known) and all(
        isinstance(value, Number) and not isinstance(value, bool) for value in known
    )


def download(name: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Markup:
    """Return a link to a table as a CSV file that is part of the page."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_plain(value) for value in row])
        if written.tell() > MAX_CSV_BYTES:
            return element("p", TOO_LARGE, class_="download")
    data = quote(written.getvalue(), safe=",:/")
    if len(data) > MAX_CSV_BYTES:
        return element("p", TOO_LARGE, class_="download")
    file = re.sub(r"[^\w.-]+", "_", name).strip("_.") + ".csv"
    link = element(
        "a",
        "Download CSV",
        href=f"data:text/csv;charset=utf-8,{data}",
        download=file,
        aria_label=f"Download {name} as CSV",
    )
    return element("p", link, class_="download")


def _heading(name: str, right: bool) -> Markup:
    shown = element("abbr", name, title=STANDARD_ERROR) if name == "±" else name
    return element("th", shown, scope="col", class_="right" if right else None)


def _row(headings: Sequence[str], right: Sequence[bool], row: Sequence[Cell]) -> Markup:
    cells = []
    for place, (heading, cell) in enumerate(zip(headings, row, strict=True)):
        small = [" ", element("small", cell.small)] if cell.small else []
        kinds = " ".join(filter(None, ["right" if right[place] else "", cell.kind]))
        own: dict[str, object] = {"class_": kinds or None}
        if place:
            own["data_label"] = heading
        else:
            own["scope"] = "row"
        if cell.shade is not None:
            own["style"] = f"--part:{cell.shade:.3f}"
        cells.append(element("td" if place else "th", cell.shown, *small, **own))
    return element("tr", *cells)


def _fits_phone(headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> bool:
    """Return whether the longest words of all columns fit side by side on a phone."""
    widths: list[float] = [_longest_word(heading) * BOLD for heading in headings]
    for row in rows:
        for place, cell in enumerate(row):
            letter = LETTER if place else BOLD
            own = max(_longest_word(cell.shown) * letter, len(cell.small) * SMALL)
            widths[place] = max(widths[place], own)
    return sum(widths) + len(widths) * PADDING <= PHONE


def _longest_word(words: str) -> int:
    return max((len(word) for word in words.split()), default=0)


def _plain(value: Any) -> Any:
    """Return a value as a file has it: nothing for what is not known, no digits lost."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return str(value).lower() if isinstance(value, bool) else value
