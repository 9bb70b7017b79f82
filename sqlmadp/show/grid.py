"""Grids: tables of text on a terminal, cut into pieces where they are wider than it.

A table that does not fit is shown in several pieces below each other, each with the first columns
(its keys) again, so that no number is ever broken over two lines.  Only text is folded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sqlmadp.answer.table import TextTable, visible

GAP = 2
"""Blanks between two columns."""


@dataclass(frozen=True)
class Header:
    """The head of one column."""

    title: str
    right: bool = False
    """Whether the column holds numbers: aligned to the right, and never folded."""
    joined: bool = False
    """Whether the column belongs to the one before it and stays beside it."""


@dataclass
class Grid:
    """Rows of text under headers."""

    headers: Sequence[Header]
    keys: int = 1
    """How many of the first columns are repeated in every piece."""
    rows: list[list[Text]] = field(default_factory=list)

    @classmethod
    def of(cls, table: TextTable) -> Grid:
        """Return a grid of all rows of a table."""
        grid = cls([Header(title, right) for title, right in table.headers])
        for row in table.rows:
            grid.add(*row)
        return grid

    def add(self, *cells: str | Text) -> None:
        """Add a row; text of any kind is shown on one line, whatever characters it holds."""
        self.rows.append([c if isinstance(c, Text) else Text(visible(c)) for c in cells])

    def show(self, screen: Console) -> None:
        """Print the table, in as many pieces as the width of the screen makes necessary."""
        for number, places in enumerate(self._pieces(screen.width)):
            if number:
                screen.print()
            screen.print(self._table(places))

    def _pieces(self, width: int) -> Iterator[list[int]]:
        """Yield the columns of each piece."""
        widths = [
            max(cell_len(text) for text in (header.title, *(row[place].plain for row in self.rows)))
            for place, header in enumerate(self.headers)
        ]
        if sum(widths) + GAP * (len(widths) - 1) <= width:
            yield list(range(len(widths)))
            return
        keys = list(range(self.keys))
        taken = min(sum(widths[place] + GAP for place in keys), width // 2)
        piece, used = [*keys], taken
        for unit in self._units():
            needed = sum(widths[place] + GAP for place in unit)
            if len(piece) > len(keys) and used + needed - GAP > width:
                yield piece
                piece, used = [*keys], taken
            piece.extend(unit)
            used += needed
        yield piece

    def _units(self) -> list[list[int]]:
        """Return the columns behind the keys, those that stay beside each other together."""
        units: list[list[int]] = []
        for place in range(self.keys, len(self.headers)):
            if self.headers[place].joined and units:
                units[-1].append(place)
            else:
                units.append([place])
        return units

    def _table(self, places: Sequence[int]) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0))
        for place in places:
            header = self.headers[place]
            table.add_column(
                Text(visible(header.title)),
                justify="right" if header.right else "left",
                no_wrap=header.right,
                overflow="fold",
            )
        for row in self.rows:
            table.add_row(*(row[place] for place in places))
        return table
