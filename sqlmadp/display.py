"""Text for people: plain tables on standard output, progress on standard error."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sqlmadp.answer.result import Result
from sqlmadp.asked import Asked
from sqlmadp.errors import NotSupportedError
from sqlmadp.preview import Preview
from sqlmadp.private import Ledger
from sqlmadp.release import Progress, Release

WIDEST = 400
"""Columns of a table that is not shown on a terminal: nothing is cut off in a file."""


def console() -> Console:
    """Return standard output: as wide as the terminal, or as the text if there is none."""
    plain = Console(highlight=False)
    return plain if plain.is_terminal else Console(highlight=False, width=WIDEST)


@contextmanager
def stages() -> Iterator[Progress]:
    """Show the stage that is under way, on standard error and only on a terminal."""
    screen = Console(stderr=True)
    if not screen.is_terminal:
        yield lambda _: None
        return
    with screen.status("starting") as status:
        yield status.update


def _table(*headers: tuple[str, str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name, side in headers:
        table.add_column(escape(name), justify="right" if side == "right" else "left")
    return table


def show_checked(asked: Asked) -> None:
    """Print what was found to be in order."""
    count = sum(len(own) for own in asked.queries)
    console().print(
        f"{asked.plan.path}: {count} queries of {len(asked.plan.analysts)} analysts are in "
        f"order; {asked.domain.cells:,} cells; no record was read"
    )


def show_previews(asked: Asked, previews: Mapping[str, Preview | NotSupportedError]) -> None:
    """Print the mechanisms side by side: analysts first, then every query."""
    screen = console()
    shown = {name: each for name, each in previews.items() if isinstance(each, Preview)}
    screen.print(
        f"epsilon {asked.plan.epsilon}, {len(asked.plan.analysts)} analysts, "
        f"{asked.domain.cells:,} cells. Nothing is spent and no record is read."
    )
    if shown:
        screen.print("\nExpected error per answer (RMSE): alone with the own share -> together")
        screen.print(_analysts_table(asked, shown))
        screen.print("\nExpected error per answer (RMSE) of every query")
        screen.print(_queries_table(asked, shown))
    for name, each in previews.items():
        if isinstance(each, NotSupportedError):
            screen.print(f"\n{name}: {each}", markup=False)


def show_least_epsilon(least: Mapping[str, Fraction]) -> None:
    """Print the least epsilon that meets the targets, by mechanism; nothing without targets."""
    if least:
        console().print("\nLeast epsilon that meets every target")
        table = _table(("mechanism", ""), ("epsilon", "right"))
        for name, epsilon in least.items():
            table.add_row(name, f"{float(epsilon):.6g}")
        console().print(table)


def _analysts_table(asked: Asked, previews: Mapping[str, Preview]) -> Table:
    table = _table(("analyst", ""), ("share", ""), *((name, "right") for name in previews))
    answers = [
        float(sum(query.statement.weight * b.rows for query in own for b in query.aggregates))
        for own in asked.queries
    ]
    for i, analyst in enumerate(asked.plan.analysts):
        cells = []
        for each in previews.values():
            alone = math.sqrt(each.outcome.alone[i] / answers[i])
            together = math.sqrt(each.outcome.errors[i] / answers[i])
            cells.append(f"{_number(alone)} -> {_number(together)}")
        table.add_row(escape(analyst.name), str(analyst.share), *cells)
    outcomes = [each.outcome for each in previews.values()]
    table.add_row("largest sharing ratio", "", *(f"{o.sharing_ratio:.3f}" for o in outcomes))
    table.add_row("largest interference", "", *(f"{o.worst_interference:.3f}" for o in outcomes))
    table.add_row("total squared error", "", *(f"{o.total_error:,.1f}" for o in outcomes))
    beside = [each.bounds.beside(each.outcome.total_error) for each in previews.values()]
    table.add_row("total / utilitarian's", "", *(f"{r:.3f}" if r else "" for r, _ in beside))
    table.add_row("total / lower bound", "", *(f"{r:.2f}" if r else "" for _, r in beside))
    return table


def _queries_table(asked: Asked, previews: Mapping[str, Preview]) -> Table:
    table = _table(
        ("analyst", ""), ("query", ""), ("rows", "right"), *((name, "right") for name in previews)
    )
    for i, analyst in enumerate(asked.plan.analysts):
        for q, query in enumerate(asked.queries[i]):
            errors = (_number(each.queries[i][q].rmse) for each in previews.values())
            table.add_row(escape(analyst.name), escape(query.name), f"{query.rows:,}", *errors)
    return table


def show_release(release: Release) -> None:
    """Print every query's rows, and what was spent."""
    screen = console()
    for analyst, results in release.results().items():
        for name, result in results.items():
            screen.print(f"[bold]{escape(analyst)}  {escape(name)}[/bold]")
            screen.print(_result_table(result))
            screen.print()
    show_budget(release)


def show_result(result: Result) -> None:
    """Print one query's rows."""
    console().print(_result_table(result))


def show_budget(release: Release) -> None:
    """Print what this release cost, and what the ledger has left."""
    console().print(
        f"epsilon {release.measurement.epsilon} for this release; "
        f"spent {release.spent} in all, left {release.left}"
    )


def _result_table(result: Result) -> Table:
    headers: list[tuple[str, str]] = []
    for name, kind in result.columns:
        headers.append((name, "left" if kind in {"VARCHAR", "DATE", "BOOLEAN"} else "right"))
        if name in result.rmse:
            headers.append(("±", "right"))
    table = _table(*headers)
    for place, row in enumerate(result.rows):
        cells = []
        for (name, _), value in zip(result.columns, row, strict=True):
            cells.append("NULL" if value is None else escape(str(value)))
            if name in result.rmse:
                cells.append(_number(result.rmse[name][place]))
        table.add_row(*cells)
    return table


def show_ledger(ledger: Ledger) -> None:
    """Print budget, spent and left, and every charge."""
    screen = console()
    screen.print(f"budget {ledger.budget}, spent {ledger.spent}, left {ledger.left}")
    if ledger.charges:
        table = _table(
            ("time", ""), ("epsilon", "right"), ("mechanism", ""), ("analysts", ""), ("release", "")
        )
        for charge in ledger.charges:
            table.add_row(
                charge.time,
                str(charge.epsilon),
                charge.mechanism,
                escape(", ".join(charge.analysts)),
                charge.release[:12],
            )
        screen.print(table)
    screen.print(f"head {ledger.head}")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
