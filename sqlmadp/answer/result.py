"""A result: the rows of one query, their expected errors, and the forms they are handed out in.

For people that is a small table: plain text everywhere, HTML in notebooks, long ones with their
first and last rows.  Cells are text: HTML is escaped, and control characters, which could redraw a
terminal, are shown as their codes.  Files are CSV and Parquet, which hold exactly the columns of
the statement with DuckDB's types, and JSON, which holds the expected errors too.

The rows are plain tuples.  DuckDB, which is always there, makes the other forms of them;
pyarrow, pandas and polars are imported when they are asked for and not before.  A result is
an Arrow stream too (``__arrow_c_stream__``), so libraries that know Arrow read it as it is.

Every form can have the standard error and the 95% interval of each answer in columns of their own.
"""

from __future__ import annotations

import html
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import msgspec

from sqlmadp.answer.sizes import INTERVAL, SHOWN_ROWS
from sqlmadp.errors import OperationalError
from sqlmadp.sql.tree import quote

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


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

    @classmethod
    def whole(cls, headers: Sequence[tuple[str, bool]], rows: Sequence[Sequence[str]]) -> TextTable:
        """Return a table of all rows."""
        return cls.of(headers, len(rows), rows.__getitem__, limit=None)

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


@dataclass(frozen=True, repr=False)
class Result:
    """The rows of one query, with the expected error of every count in them."""

    columns: tuple[tuple[str, str], ...]
    """Name and DuckDB type of every column."""
    rows: tuple[tuple[Any, ...], ...]
    rmse: Mapping[str, tuple[float, ...]]
    """For every column that is a count: the expected error of each row."""
    notes: tuple[str, ...] = ()
    """What is to be said about the rows, such as that a value did not fit its type."""

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows)

    def tuples(self) -> list[tuple[Any, ...]]:
        """Return the rows as a list of tuples."""
        return list(self.rows)

    def relation(
        self, connection: duckdb.DuckDBPyConnection | None = None
    ) -> duckdb.DuckDBPyRelation:
        """Return the rows as a DuckDB relation, in a database of its own or in ``connection``.

        There it is table ``result``, in place of the one before it.
        """
        names = distinct([name for name, _ in self.columns])
        typed = list(zip(names, (kind for _, kind in self.columns), strict=True))
        connection = connection or duckdb.connect(":memory:")
        # Column by column: a hundred times faster than row by row.
        unnested = ", ".join(
            f"unnest(CAST(? AS {kind}[])) AS {quote(name)}" for name, kind in typed
        )
        values = [[row[place] for row in self.rows] for place in range(len(typed))]
        connection.execute(f"CREATE OR REPLACE TABLE result AS SELECT {unnested}", values)
        return connection.table("result")

    def with_errors(self) -> Result:
        """Return the result with three more columns after every answer: n_stderr, n_low, n_high.

        They are its standard error and the ends of its 95% interval.
        """
        columns: list[tuple[str, str]] = []
        for name, kind in self.columns:
            columns.append((name, kind))
            if name in self.rmse:
                columns.extend((f"{name}_{part}", "DOUBLE") for part in ("stderr", "low", "high"))
        rows = []
        for place, row in enumerate(self.rows):
            values: list[Any] = []
            for (name, _), value in zip(self.columns, row, strict=True):
                values.append(value)
                if name in self.rmse:
                    error = self.rmse[name][place]
                    values += [None if math.isnan(error) else error, *interval(value, error)]
            rows.append(tuple(values))
        return Result(tuple(columns), tuple(rows), {}, self.notes)

    def _stating(self, errors: bool) -> Result:
        return self.with_errors() if errors else self

    def arrow(self, *, errors: bool = False) -> pyarrow.Table:
        """Return the rows as an Arrow table, with errors if asked for; needs pyarrow."""
        return self._stating(errors).relation().to_arrow_table()

    def pandas(self, *, errors: bool = False) -> pandas.DataFrame:
        """Return the rows as a pandas data frame, with errors if asked for; needs pandas."""
        return self._stating(errors).relation().df()

    def polars(self, *, errors: bool = False) -> polars.DataFrame:
        """Return the rows as a polars data frame, with errors if asked for; needs polars."""
        import polars  # noqa: PLC0415

        relation = self._stating(errors).relation()
        kinds = dict(zip(relation.columns, map(str, relation.types), strict=True))
        # Polars reads no interval of Arrow's, but has durations.
        intervals = [name for name, kind in kinds.items() if kind == "INTERVAL"]
        listed = (
            f"epoch_us({quote(c)}) AS {quote(c)}" if c in intervals else quote(c) for c in kinds
        )
        frame = polars.DataFrame(relation.project(", ".join(listed)))
        return frame.with_columns(polars.col(c).cast(polars.Duration("us")) for c in intervals)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as an Arrow stream, for any library that reads those."""
        return self.relation().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return self.table().text()

    def _repr_html_(self) -> str:
        """Return the small table that notebooks show."""
        return self.table().html()

    def table(self, limit: int | None = SHOWN_ROWS) -> TextTable:
        """Return the first and last rows as text, at most ``limit``, each count with its error."""
        headers: list[tuple[str, bool]] = []
        for name, kind in self.columns:
            headers.append((name, is_number(kind)))
            if name in self.rmse:
                headers.append(("±", True))
        return TextTable.of(headers, len(self.rows), self._cells, limit)

    def _cells(self, place: int) -> list[str]:
        cells = []
        for (name, _), value in zip(self.columns, self.rows[place], strict=True):
            error = self.rmse[name][place] if name in self.rmse else None
            cells.append(shown(value, error))
            if error is not None:
                cells.append(number(error))
        return cells


def interval(value: Any, error: float) -> tuple[float | None, float | None]:
    """Return the 95% interval of an answer; None where there is no answer or no error."""
    if value is None or math.isnan(error):
        return None, None
    return float(value) - INTERVAL * error, float(value) + INTERVAL * error


def is_number(kind: str) -> bool:
    """Tell whether values of a DuckDB type are numbers, which are aligned to the right."""
    return kind.endswith("INT") or kind.partition("(")[0] in _NUMBERS


_NUMBERS = {"INTEGER", "UINTEGER", "FLOAT", "DOUBLE", "DECIMAL", "BIGNUM"}


def number(value: float) -> str:
    """Return an expected error in three digits, as a person reads it; nothing for NaN."""
    if math.isnan(value):
        return ""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def shown(value: Any, error: float | None = None) -> str:
    """Return a value as a person reads it: digits far below its expected error are noise."""
    if value is None:
        return "NULL"
    if not isinstance(value, float) or not math.isfinite(value):
        return str(value)
    if error is not None and 0 < error < math.inf:
        digits, scale = 2, error
    elif value == (whole := float(f"{value:.8g}")) or abs(value - whole) < abs(value) * 1e-14:
        return str(whole)  # A group's name, say: all of its digits mean something.
    else:
        digits, scale = 6, abs(value)
    if not 1e-9 < scale < 1e15:
        return f"{value:.6g}"
    return f"{value:.{max(digits - 1 - math.floor(math.log10(scale)), 0)}f}"


def distinct(names: Sequence[str]) -> list[str]:
    """Return names that a table can have: DuckDB results may repeat one, tables may not."""
    taken: set[str] = set()
    free_names = []
    for name in names:
        free, suffix = name, 1
        while free.casefold() in taken:
            free, suffix = f"{name}_{suffix}", suffix + 1
        taken.add(free.casefold())
        free_names.append(free)
    return free_names


FORMATS = ("csv", "parquet", "json")


def as_json(result: Result) -> dict[str, Any]:
    """Return a result as plain values, in the form of ``release --json``."""
    return {
        "columns": [name for name, _ in result.columns],
        "rows": [list(row) for row in result.rows],
        "rmse": {name: list(errors) for name, errors in result.rmse.items()},
        **({"notes": list(result.notes)} if result.notes else {}),
    }


def encode(value: Any) -> bytes:
    """Return a value as JSON; what JSON does not know becomes text."""
    return msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2)


def write_results(results: Mapping[str, Mapping[str, Result]], folder: Path, *forms: str) -> None:
    """Write all results of all analysts, each to ``folder/analyst/query.form``."""
    written: dict[int, Path] = {}
    with duckdb.connect(":memory:") as connection:
        for analyst, own in results.items():
            for name, result in own.items():
                path = folder / analyst / name
                _write_result(result, path, forms, connection, like=written.get(id(result)))
                written.setdefault(id(result), path)


def _write_result(
    result: Result,
    path: Path,
    forms: Sequence[str],
    connection: duckdb.DuckDBPyConnection,
    like: Path | None,
) -> None:
    """Write a result to ``path`` in every form, each file whole or not at all.

    ``like`` is the path of files that hold it already.
    """
    rows = None
    for form in forms:
        file = Path(f"{path}.{form}")
        aside = file.with_name(f".{file.name}.part")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            if like is not None:
                shutil.copyfile(f"{like}.{form}", aside)
            elif form == "json":
                aside.write_bytes(encode(as_json(result)) + b"\n")
            else:
                rows = rows or result.relation(connection)
                write = rows.write_csv if form == "csv" else rows.write_parquet
                write(str(aside))
            os.replace(aside, file)
        except (OSError, duckdb.IOException) as error:
            reason = error.strerror if isinstance(error, OSError) else "DuckDB cannot write there"
            aside.unlink(missing_ok=True)
            raise OperationalError(
                f"cannot write {str(file)!r} ({reason}); the release is stored, so run it again "
                "with another --out: it spends nothing"
            ) from None
