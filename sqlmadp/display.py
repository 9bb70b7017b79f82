"""Text for people: plain tables on standard output.

Colours appear on a terminal only; rich leaves them out if NO_COLOR is set.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from sqlmadp.answer.result import Result, is_number, number, shown
from sqlmadp.asked import Asked
from sqlmadp.certificate import Certificate
from sqlmadp.errors import NotSupportedError
from sqlmadp.grid import Grid, Header
from sqlmadp.preview import Preview, Previews
from sqlmadp.private import Ledger
from sqlmadp.rehearsal import Rehearsal
from sqlmadp.release import Release, Results

WIDEST = 400
"""Columns of a table that is not shown on a terminal: nothing is cut off in a file."""

TINY = 1e-9
"""How far above 1 a ratio may be by the last digits of floating-point numbers alone."""


def console() -> Console:
    """Return standard output: as wide as the terminal, or as the text if there is none."""
    plain = Console(highlight=False)
    return plain if plain.is_terminal else Console(highlight=False, width=WIDEST)


def show_checked(asked: Asked) -> None:
    """Print what was found to be in order."""
    count = sum(len(own) for own in asked.queries)
    console().print(
        f"{asked.plan.path}: {'1 query' if count == 1 else f'{count:,} queries'} of "
        f"{_analysts(asked)} {'is' if count == 1 else 'are'} in order; "
        f"{asked.domain.cells:,} cells; no record was read",
        markup=False,
    )


def _analysts(asked: Asked) -> str:
    count = len(asked.plan.analysts)
    return f"{count:,} analyst{'s' * (count != 1)}"


def show_previews(previews: Previews) -> None:
    """Print the mechanisms side by side: analysts first, then every query."""
    screen, asked = console(), previews.asked
    shown = {name: each for name, each in previews.items() if isinstance(each, Preview)}
    screen.print(
        f"epsilon {asked.plan.epsilon}, {_analysts(asked)}, "
        f"{asked.domain.cells:,} cells. Nothing is spent and no record is read."
    )
    if (base := previews.base) is not None:
        new, charge = ", ".join(base.newcomers(asked.plan)), base.epsilon(asked.plan)
        screen.print(
            f"This adds {new} to the release of {base.time}: what was measured stays, and the "
            f"charge is epsilon {charge}.",
            markup=False,
            soft_wrap=True,
        )
    if shown:
        screen.print("\nExpected error per answer (RMSE): alone with their own share -> together")
        _analysts_table(asked, shown).show(screen)
        screen.print("\nExpected error per answer (RMSE) of every query")
        _queries_table(asked, shown).show(screen)
    for name, found in shown.items():
        if name == asked.plan.mechanism or len(shown) == 1:
            given = Certificate.of(asked, found.outcome, found.bounds, name)
            show_certificate(replace(given, joins=found.joins))
    for name, each in previews.items():
        if isinstance(each, NotSupportedError):
            screen.print(f"\n{name}: {each}", markup=False)


def show_least_epsilon(least: Mapping[str, Fraction]) -> None:
    """Print the least epsilon that meets the targets, by mechanism; nothing without targets."""
    if least:
        console().print("\nLeast epsilon that meets every target")
        table = Grid([Header("mechanism"), Header("epsilon", right=True)])
        for name, epsilon in least.items():
            table.add(name, f"{float(epsilon):.6g}")
        table.show(console())


def _analysts_table(asked: Asked, previews: Mapping[str, Preview]) -> Grid:
    mechanisms = (Header(name, right=True) for name in previews)
    table = Grid([Header("analyst"), Header("share"), *mechanisms], keys=2)
    answers = [
        float(sum(query.statement.weight * b.rows for query in own for b in query.aggregates)) or 1
        for own in asked.queries
    ]
    for i, analyst in enumerate(asked.plan.analysts):
        cells = []
        for each in previews.values():
            alone = math.sqrt(each.outcome.alone[i] / answers[i])
            together = math.sqrt(each.outcome.errors[i] / answers[i])
            cells.append(f"{number(alone)} -> {number(together)}")
        table.add(analyst.name, str(analyst.share), *cells)
    outcomes = [each.outcome for each in previews.values()]
    table.add("largest sharing ratio", "", *(_ratio(o.sharing_ratio) for o in outcomes))
    table.add("largest interference", "", *(_ratio(o.worst_interference) for o in outcomes))
    table.add("total squared error", "", *(f"{o.total_error:,.1f}" for o in outcomes))
    beside = [each.bounds.beside(each.outcome.total_error) for each in previews.values()]
    table.add("total / utilitarian's", "", *(f"{r:.3f}" if r else "" for r, _ in beside))
    table.add("total / lower bound", "", *(f"{r:.2f}" if r else "" for _, r in beside))
    return table


def _ratio(value: float) -> Text:
    """Return a fairness measure; a violation is red where there are colours."""
    return Text(f"{value:.3f}", style="bold red" if value > 1 + TINY else "")


def _queries_table(asked: Asked, previews: Mapping[str, Preview]) -> Grid:
    mechanisms = (Header(name, right=True) for name in previews)
    headers = [Header("analyst"), Header("query"), Header("rows", right=True), *mechanisms]
    table = Grid(headers, keys=3)
    for i, analyst in enumerate(asked.plan.analysts):
        for q, query in enumerate(asked.queries[i]):
            errors = (number(each.queries[i][q].rmse) for each in previews.values())
            table.add(analyst.name, query.name, f"{query.rows:,}", *errors)
    return table


def show_release(release: Release, results: Results) -> None:
    """Print every query's rows, by analyst and name, and what was spent."""
    screen = console()
    for analyst, own in zip(release.asked.plan.analysts, release.asked.queries, strict=True):
        for query in own:
            screen.print(f"[bold]{escape(analyst.name)}  {escape(query.name)}[/bold]")
            if (error := results.failed.get((analyst.name, query.name))) is not None:
                screen.print(f"no rows: {error}", markup=False, soft_wrap=True)
            else:
                show_result(results[analyst.name][query.name])
            screen.print()
    if isinstance(certified := release.certified(), Certificate):
        show_certificate(certified)
    else:
        screen.print(f"no certificate: {certified}", markup=False, soft_wrap=True)
    screen.print()
    show_budget(release)


def show_certificate(certificate: Certificate) -> None:
    """Print what a mechanism gives each analyst, beside what each would have had alone."""
    screen = console()
    for place, part in enumerate(certificate.parts()):
        if isinstance(part, str):
            screen.print(part if place else f"\nCertificate: {part}", markup=False)
        else:
            Grid.of(part).show(screen)


def show_result(result: Result) -> None:
    """Print one query's rows, and what is to be said about them."""
    _result_table(result).show(console())
    for note in result.notes:
        console().print(f"note: {note}", markup=False, soft_wrap=True)


def show_explained(result: Result) -> None:
    """Print the rows of EXPLAIN or HAND IN: numbers with digits after the point are errors."""
    rows = (tuple(number(v) if isinstance(v, float) else v for v in row) for row in result.rows)
    show_result(replace(result, rows=tuple(rows)))


def show_budget(release: Release) -> None:
    """Print what this release cost, and what the ledger has left."""
    console().print(
        f"epsilon {release.measurement.epsilon} for this release; "
        f"spent {release.spent} in all, left {release.left}"
    )
    show_meaning(release)


def show_meaning(release: Release) -> None:
    """Print what stated errors mean, if answers are processed further."""
    if (meaning := release.processing.meaning) is not None:
        console().print(meaning, soft_wrap=True)


def _result_table(result: Result) -> Grid:
    headers: list[Header] = []
    for name, kind in result.columns:
        headers.append(Header(name, right=is_number(kind)))
        if name in result.rmse:
            headers.append(Header("±", right=True, joined=True))
    table = Grid(headers)
    for place, row in enumerate(result.rows):
        cells = []
        for (name, _), value in zip(result.columns, row, strict=True):
            error = result.rmse[name][place] if name in result.rmse else None
            cells.append(shown(value, error))
            if error is not None:
                cells.append(number(error))
        table.add(*cells)
    return table


def show_rehearsal(rehearsal: Rehearsal) -> None:
    """Print what a release would cost and give, after everything but the release was tried."""
    screen = console()
    asked, plan = rehearsal.asked, rehearsal.asked.plan
    screen.print(
        f"epsilon {plan.epsilon}, mechanism {plan.mechanism}, {_analysts(asked)}. "
        "Nothing is spent, no record is read and nothing is written."
    )
    if rehearsal.completed is not None:
        screen.print(f"This plan was released at {rehearsal.completed}: releasing it again is free")
    else:
        screen.print(
            f"It would charge epsilon {rehearsal.epsilon} to ledger {str(plan.ledger_path)!r}: "
            f"spent {rehearsal.spent} of {rehearsal.budget} so far, "
            f"{rehearsal.left - rehearsal.epsilon} left after it",
            markup=False,
        )
    if rehearsal.added_to is not None:
        screen.print(f"It would add analysts to the release of {rehearsal.added_to}, which stays")
    screen.print("\nWhat would be measured")
    table = Grid([Header("columns"), Header("questions", right=True)])
    for columns, questions in rehearsal.measured.items():
        table.add(", ".join(columns) or "(all records)", f"{questions:,}")
    table.show(screen)
    screen.print("\nExpected error per answer (RMSE) of every query")
    _queries_table(asked, {plan.mechanism: rehearsal.preview}).show(screen)


def show_ledger(ledger: Ledger) -> None:
    """Print budget, spent and left, and every charge."""
    screen = console()
    screen.print(f"budget {ledger.budget}, spent {ledger.spent}, left {ledger.left}")
    if ledger.charges:
        titles = ("mechanism", "analysts", "release")
        headers = [Header("time"), Header("epsilon", right=True), *map(Header, titles)]
        table = Grid(headers)
        for charge in ledger.charges:
            analysts = ", ".join(charge.analysts)
            table.add(
                charge.time, str(charge.epsilon), charge.mechanism, analysts, charge.release[:12]
            )
        table.show(screen)
    screen.print(f"head {ledger.head}", soft_wrap=True)
