"""What a statement became when it was executed: answered, or staged until the release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlmadp.answer.result import Result, number
from sqlmadp.answer.table import TextTable
from sqlmadp.sql.bind import BoundQuery


@dataclass(frozen=True, eq=False)
class Answered:
    """A statement with its rows."""

    result: Result
    rmse: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """For every column that is an answer: the expected error of each row."""

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """Return name and DuckDB type of every column."""
        return self.result.columns

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what is to be said about the rows."""
        return self.result.notes


@dataclass(frozen=True, eq=False)
class Pending:
    """A statement that was checked before the release, so that it has no rows yet."""

    query: BoundQuery

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """Return name and DuckDB type of every column."""
        return self.query.columns

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what is most likely a slip in the statement."""
        return tuple(map(str, self.query.notes))

    def table(self, errors: Mapping[str, tuple[float, ...]]) -> TextTable:
        """Return what is known before the release: columns, types and expected errors."""
        rows = [(name, kind, _range(errors.get(name, ()))) for name, kind in self.columns]
        headers = [("column", False), ("type", False), ("expected ±", True)]
        return TextTable.of(headers, len(rows), rows.__getitem__, limit=None)


Executed = Answered | Pending


def _range(errors: tuple[float, ...]) -> str:
    if not errors:
        return ""
    low, high = number(min(errors)), number(max(errors))
    return low if low == high else f"{low} to {high}"
