"""Tables of the page: each scrolls by itself if it is too wide, and can be downloaded as CSV.

The download is a ``data:`` link: the file is part of the page, so it needs neither a server nor
script, and the page's content security policy, which is about what a page loads, allows it.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from sqlmadp.report.markup import Markup, element

MAX_CSV_BYTES = 1 << 20
"""Put a table's file into the page only below this size: browsers refuse links of 2 MB."""


@dataclass(frozen=True)
class Cell:
    """One cell: a value for the file, and how the page shows it."""

    value: Any
    shown: str
    kind: str | None = None
    """Its class in the page."""
    style: str | None = None


@dataclass(frozen=True)
class Heading:
    """The heading of a column."""

    name: str
    """In the file, and in the page unless ``shown`` is given."""
    right: bool = False
    shown: Markup | None = None


def table(
    name: str,
    headings: Sequence[Heading],
    rows: Sequence[Sequence[Cell]],
    *,
    file: str | None = None,
    kind: str | None = None,
    frame: str = "scroll",
) -> Markup:
    """Return a table under a caption, with its download; the first cell of a row heads it."""
    head = [
        element("th", h.shown or h.name, scope="col", class_="right" if h.right else None)
        for h in headings
    ]
    body = []
    for first, *rest in rows:
        cells = [element("th", first.shown, scope="row")]
        for cell, heading in zip(rest, headings[1:], strict=True):
            classes = " ".join(filter(None, ["right" if heading.right else "", cell.kind]))
            cells.append(element("td", cell.shown, class_=classes or None, style=cell.style))
        body.append(element("tr", *cells))
    values = ([cell.value for cell in row] for row in rows)
    return element(
        "div",
        framed(name, head, body, kind=kind, frame=frame),
        download(file or name, [h.name for h in headings], values),
        class_="table",
    )


def framed(
    caption: str,
    head: Iterable[str],
    body: Iterable[str],
    *,
    kind: str | None = None,
    frame: str = "scroll",
) -> Markup:
    """Return a table in a frame of its own, which a keyboard can scroll if it is too wide."""
    made = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *head)),
        element("tbody", *body),
        class_=kind,
    )
    return element("div", made, class_=frame, tabindex="0", role="region", aria_label=caption)


def download(name: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Markup:
    """Return a link to a table as a CSV file that is part of the page."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_plain(value) for value in row] for row in rows)
    data = quote(written.getvalue(), safe=",:/")
    if len(data) > MAX_CSV_BYTES:
        words = "Too large for a download from this page: sqlmadp release PLAN --out FOLDER writes "
        return element("p", f"{words}it to a file.", class_="download")
    file = re.sub(r"[^\w.-]+", "_", name).strip("_.") + ".csv"
    link = element(
        "a",
        "Download CSV",
        href=f"data:text/csv;charset=utf-8,{data}",
        download=file,
        aria_label=f"Download {name} as CSV",
    )
    return element("p", link, class_="download")


def _plain(value: Any) -> Any:
    """Return a value as a file has it: nothing for what is not known, no digits lost."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return str(value).lower() if isinstance(value, bool) else value
