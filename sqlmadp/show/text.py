"""Text for people: plain tables on standard output.

Colours appear on a terminal only; rich leaves them out if NO_COLOR is set.  A table that is
wider than the terminal is shown in several pieces below each other, each with the first columns
(its keys) again, so that no number is ever broken over two lines.  Only text is folded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Literal

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sqlmadp.answer.result import Result, TextTable, number
from sqlmadp.errors import NotSupportedError
from sqlmadp.mechanism import MECHANISMS
from sqlmadp.mechanism.fairness import AT_CAP, Cap
from sqlmadp.private import Ledger
from sqlmadp.release.bound_plan import BoundPlan
from sqlmadp.release.certificate import TINY, Accuracy, Certificate
from sqlmadp.release.check import most_seconds
from sqlmadp.release.preview import DryRun, Previews
from sqlmadp.release.release import Release, Results
from sqlmadp.show import GAP, SHOWN_HASH, WIDEST

STATEMENT = (("analyst", False), ("statement", False), ("groups", True), ("column", False))
"""The first columns of tables of statements, and whether they are aligned to the right."""


def console() -> Console:
    """Return standard output: as wide as the terminal, or as the text if there is none."""
    plain = Console(highlight=False)
    return plain if plain.is_terminal else Console(highlight=False, width=WIDEST)


def show_checked(asked: BoundPlan) -> None:
    """Print what was found to be in order."""
    count = sum(len(own) for own in asked.queries)
    console().print(
        f"{asked.plan.path}: {'1 query' if count == 1 else f'{count:,} queries'} of "
        f"{_analysts(asked)} {'is' if count == 1 else 'are'} in order; "
        "no record was read. 'plan' and 'release' take at most "
        f"about {most_seconds(asked):,} s of processor time each",
        markup=False,
    )


def _analysts(asked: BoundPlan) -> str:
    count = len(asked.plan.analysts)
    return f"{count:,} analyst{'s' * (count != 1)}"


def show_previews(previews: Previews) -> None:
    """Print the plan's own mechanism statement by statement, or several side by side."""
    screen, asked = console(), previews.asked
    shown = {name: each for name, each in previews.items() if isinstance(each, Certificate)}
    screen.print(
        f"epsilon {asked.plan.epsilon}, {_analysts(asked)}, mechanism "
        f"{', '.join(previews)}. Nothing is spent and no record is read.",
        markup=False,
    )
    if history := previews.history:
        late, charge = ", ".join(history.late(asked.plan)), history.epsilon(asked.plan)
        screen.print(
            f"This adds {late} to the release of {history.time}: what was measured stays, and the "
            f"charge is epsilon {charge}.",
            markup=False,
        )
    if len(shown) == 1:
        (found,) = shown.values()
        show_statements(found)
        screen.print(f"\n{_sentence(found.verdict)}", markup=False)
        for line in (*found.one_by_one, *found.plainer):
            screen.print(_sentence(line), markup=False)
        screen.print(
            "More: --compare shows all mechanisms side by side, --json every figure, and "
            "'sqlmadp report' a page with pictures.",
        )
    elif shown:
        relative = asked.plan.measure == "relative"
        unit = "1 = asking one by one" if relative else "squared"
        screen.print(f"\nExpected error ({unit}): alone with their own share -> together")
        show_table(_analysts_table(shown), keys=2)
        screen.print("\nStandard error (±) of every statement's answers")
        show_table(_queries_table(shown), keys=4)
        for name, each in shown.items():
            screen.print(f"{name}: {each.promise}", markup=False)
    for name, unsupported in previews.items():
        if isinstance(unsupported, NotSupportedError):
            screen.print(f"\n{name}: {unsupported}", markup=False)


def show_caps(previews: Previews, caps: Mapping[str, Mapping[str, Cap]]) -> None:
    """Print which caps bind under each mechanism, and what they cost everybody together."""
    for mechanism, own in caps.items():
        found = previews[mechanism]
        if not isinstance(found, Certificate):
            continue
        if not own:
            console().print(f"\n{mechanism} does not search within caps.", markup=False)
            continue
        console().print(
            f"\nCaps of {mechanism}: {MECHANISMS[mechanism].capped_at}. "
            "What each costs is by how much the total error would fall without it.",
            markup=False,
        )
        headers = [("analyst", False), ("error / cap", True), ("binds", False), ("costs", True)]
        rows = [
            (name, f"{each.reached:.3f}", "yes", f"{100 * each.cost:.1f}%")
            if each.binds
            else (name, f"{each.reached:.3f}", "no", "")
            for name, each in own.items()
        ]
        show_table(TextTable.whole(headers, rows))
        above, _ = found.bounds.beside(found.total)
        if above is not None:
            console().print(
                f"All of them together: the total is {above:.3f} times utilitarian's, which has no "
                "caps."
            )
        statements = [
            f"{name}.{each.name}"
            for name, standing in found.analysts.items()
            for each in standing.statements
            if each.factor >= 1 - AT_CAP
        ]
        if found.relative:
            listed = ", ".join(statements) or "none"
            console().print(f"Statements that gain nothing over asking one by one: {listed}")


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def show_statements(certificate: Certificate) -> None:
    """Print every statement: its groups, the standard error of each column, and its gain."""
    headers = [*STATEMENT, ("±", True), ("times as accurate as one by one", True)]
    rows: list[Sequence[str]] = []
    for name, standing in certificate.analysts.items():
        for each in standing.statements:
            gain = f"{each.factor**-0.5:.2f}" if each.factor else ""
            first, *others = _column_errors(each)
            rows.append((name, each.name, f"{each.rows:,}", *first, gain))
            rows += [("", "", "", *column, "") for column in others]
    show_table(TextTable.whole(headers, rows))


def _column_errors(accuracy: Accuracy) -> list[tuple[str, str]]:
    """Return every column that has an error, and the error in words; one empty pair if none has."""
    found = [
        (name, "after the release" if error is None else number(error))
        for name, error in accuracy.columns
    ]
    return found or [("", "")]


def show_least_epsilon(least: Mapping[str, Fraction]) -> None:
    """Print the least epsilon that meets the targets, by mechanism; nothing without targets."""
    if least:
        console().print("\nLeast epsilon that meets every target")
        rows = [(name, f"{float(epsilon):.6g}") for name, epsilon in least.items()]
        show_table(TextTable.whole([("mechanism", False), ("epsilon", True)], rows))


def _analysts_table(shown: Mapping[str, Certificate]) -> TextTable:
    every = list(shown.values())
    rows: list[Sequence[str]] = []
    for name, first in every[0].analysts.items():
        own = [each.analysts[name] for each in every]
        errors = [f"{number(each.alone)} -> {number(each.now)}" for each in own]
        rows.append((name, str(first.share), *errors))
    beside = [each.bounds.beside(each.total) for each in every]
    rows += [
        ("largest sharing ratio", "", *(_ratio(each.sharing_ratio) for each in every)),
        ("largest interference", "", *(_ratio(each.worst_interference) for each in every)),
        ("  within the agreement", "", *(_ratio(each.worst_within_agreement) for each in every)),
        ("total error", "", *(number(each.total) for each in every)),
        ("total / utilitarian's", "", *(f"{r:.3f}" if r else "" for r, _ in beside)),
        ("total / lower bound", "", *(f"{r:.2f}" if r else "" for _, r in beside)),
    ]
    headers = [("analyst", False), ("share", False), *((name, True) for name in shown)]
    return TextTable.whole(headers, rows)


def _ratio(value: float) -> str:
    """Return a fairness measure; a violation is marked."""
    return f"{value:.3f}{' !' if value > 1 + TINY else ''}"


def _queries_table(shown: Mapping[str, Certificate]) -> TextTable:
    every = list(shown.values())
    rows: list[Sequence[str]] = []
    for name, standing in every[0].analysts.items():
        for place, each in enumerate(standing.statements):
            own = [_column_errors(c.analysts[name].statements[place]) for c in every]
            for line, ((column, _), *_) in enumerate(zip(*own, strict=True)):
                first = (name, each.name, f"{each.rows:,}") if line == 0 else ("", "", "")
                rows.append((*first, column, *(errors[line][1] for errors in own)))
    return TextTable.whole([*STATEMENT, *((name, True) for name in shown)], rows)


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
            show_table(part)


def show_result(result: Result) -> None:
    """Print one query's rows, and what is to be said about them."""
    show_table(result.table(limit=None))
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


def show_dry_run(found: DryRun) -> None:
    """Print what a release would cost and give, after everything but the release was tried."""
    screen = console()
    asked, plan = found.asked, found.asked.plan
    screen.print(
        f"epsilon {plan.epsilon}, mechanism {plan.mechanism}, {_analysts(asked)}. "
        "Nothing is spent, no record is read and nothing is written."
    )
    if found.completed is not None:
        screen.print(f"This plan was released at {found.completed}: releasing it again is free")
    else:
        screen.print(
            f"It would charge epsilon {found.epsilon} to ledger {str(plan.ledger_path)!r}: "
            f"spent {found.spent} of {found.budget} so far, "
            f"{found.left - found.epsilon} left after it",
            markup=False,
        )
    if found.added_to is not None:
        screen.print(f"It would add analysts to the release of {found.added_to}, which stays")
    screen.print("\nWhat would be measured")
    rows = [
        (", ".join(columns) or "(all records)", f"{questions:,}")
        for columns, questions in found.measured.items()
    ]
    show_table(TextTable.whole([("columns", False), ("questions", True)], rows))
    screen.print("\nExpected accuracy of every statement")
    show_statements(found.preview)


def show_ledger(ledger: Ledger) -> None:
    """Print budget, spent and left, and every charge."""
    screen = console()
    screen.print(f"budget {ledger.budget}, spent {ledger.spent}, left {ledger.left}")
    if ledger.charges:
        titles = ("time", "epsilon", "mechanism", "analysts", "release")
        rows = []
        for each in ledger.charges:
            names, release = ", ".join(each.analysts), each.release[:SHOWN_HASH]
            rows.append((each.time, str(each.epsilon), each.mechanism, names, release))
        show_table(TextTable.whole([(title, title == "epsilon") for title in titles], rows))
    screen.print(f"head {ledger.head}", soft_wrap=True)


def show_table(table: TextTable, keys: int = 1, screen: Console | None = None) -> None:
    """Print a table, in as many pieces as the width of the screen makes necessary.

    Each piece has the first ``keys`` columns again.
    """
    screen = screen or console()
    for piece, places in enumerate(_pieces(table, screen.width, keys)):
        if piece:
            screen.print()
        screen.print(_piece(table, places))


def _pieces(table: TextTable, width: int, keys: int) -> Iterator[list[int]]:
    """Yield the columns of each piece."""
    widths = [
        max(map(cell_len, (title, *(row[place] for row in table.rows))))
        for place, (title, _) in enumerate(table.headers)
    ]
    if sum(widths) + GAP * (len(widths) - 1) <= width:
        yield list(range(len(widths)))
        return
    first = list(range(keys))
    taken = min(sum(widths[place] + GAP for place in first), width // 2)
    piece, used = [*first], taken
    for unit in _units(table, keys):
        needed = sum(widths[place] + GAP for place in unit)
        if len(piece) > keys and used + needed - GAP > width:
            yield piece
            piece, used = [*first], taken
        piece.extend(unit)
        used += needed
    yield piece


def _units(table: TextTable, keys: int) -> list[list[int]]:
    """Return the columns behind the keys, an error together with its answer."""
    units: list[list[int]] = []
    for place in range(keys, len(table.headers)):
        if table.headers[place][0] == "±" and units:
            units[-1].append(place)
        else:
            units.append([place])
    return units


def _piece(table: TextTable, places: Sequence[int]) -> Table:
    """Return some columns of a table: numbers on the right and never folded."""
    shown = Table(box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0))
    for place in places:
        title, right = table.headers[place]
        justify: Literal["left", "right"] = "right" if right else "left"
        shown.add_column(Text(title), justify=justify, no_wrap=right, overflow="fold")
    for row in table.rows:
        shown.add_row(*(Text(row[place]) for place in places))
    return shown
