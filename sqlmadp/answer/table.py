"""A small table for people: plain text everywhere, HTML in notebooks.

Long tables show their first and their last rows.  Whatever stands in a cell is text: HTML is
escaped, and control characters, which could redraw a terminal, are shown as their codes.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass

SHOWN_ROWS = 20
"""Rows of a long table that are shown."""


@dataclass(frozen=True)
class TextTable:
    """Headers and rows as text; ``hidden`` rows are left out after the first ``before`` ones."""

    headers: tuple[tuple[str, bool], ...]
    """Title of every column, and whether it is aligned to the right."""
    rows: tuple[tuple[str, ...], ...]
    before: int
    hidden: int

    @classmethod
    def of(
        cls,
        headers: Sequence[tuple[str, bool]],
        size: int,
        cells: Callable[[int], Sequence[str]],
        limit: int | None = SHOWN_ROWS,
    ) -> TextTable:
        """Return the table of ``size`` rows, where ``cells(i)`` is row i, cut to ``limit`` rows."""
        shown = size if limit is None or size <= limit else max(limit, 2)
        before = (shown + 1) // 2 if shown < size else size
        places = [*range(before), *range(size - (shown - before), size)]
        return cls(
            tuple((visible(title), right) for title, right in headers),
            tuple(tuple(visible(cell) for cell in cells(place)) for place in places),
            before,
            size - shown,
        )

    def text(self) -> str:
        """Return the table in columns of equal width, with what is left out said in words."""
        lines = [tuple(title for title, _ in self.headers), *self.rows]
        widths = [max(len(line[place]) for line in lines) for place in range(len(self.headers))]
        printed = [
            "  ".join(
                cell.rjust(width) if right else cell.ljust(width)
                for cell, width, (_, right) in zip(line, widths, self.headers, strict=True)
            ).rstrip()
            for line in lines
        ]
        if self.hidden:
            printed.insert(1 + self.before, f"... {self._left_out}")
        return "\n".join(printed)

    def html(self) -> str:
        """Return the table as HTML."""
        rows = ["<tr>" + "".join(self._html_cells(row, "td")) + "</tr>" for row in self.rows]
        if self.hidden:
            left_out = f'<tr><td colspan="{len(self.headers)}">… {self._left_out}</td></tr>'
            rows.insert(self.before, left_out)
        head = "".join(self._html_cells([title for title, _ in self.headers], "th"))
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"

    def _html_cells(self, cells: Sequence[str], tag: str) -> list[str]:
        return [
            f'<{tag} style="text-align: {"right" if right else "left"}">{html.escape(cell)}</{tag}>'
            for cell, (_, right) in zip(cells, self.headers, strict=True)
        ]

    @property
    def _left_out(self) -> str:
        return f"{self.hidden:,} more rows"


def visible(text: str) -> str:
    """Return text on one line, every character of which can be seen."""
    return "".join(
        mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in text
    )
