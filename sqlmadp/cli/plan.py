"""``sqlmadp check`` and ``sqlmadp plan``: before anything is spent."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from sqlmadp.cli.options import (
    JSON,
    PLAN,
    QUIET,
    SKIP_REFUSED,
    MechanismName,
    positive_number,
    print_json,
    print_notes,
    skipping,
)
from sqlmadp.errors import InputError
from sqlmadp.files.plan import Plan


@click.command()
@PLAN
@click.option(
    "--deep",
    is_flag=True,
    help="Also make everything that a release makes, from made-up measurements.",
)
@SKIP_REFUSED
@JSON
@QUIET
def check(path: Path, deep: bool, *, skip_refused: bool, as_json: bool, quiet: bool) -> None:
    """Parse and bind everything; report every mistake at once.

    Reads the plan, the schema, the SQL files and the names and types of the table's columns,
    never a record. --deep also selects what would be measured and tries rows, errors, certificate,
    files and report, as 'release' does before it charges anything.
    """
    from sqlmadp.release.check import check_plan  # noqa: PLC0415
    from sqlmadp.show.progress import stages  # noqa: PLC0415

    with stages(quiet=quiet) as progress:
        progress("checking")
        found = check_plan(path, deep=deep, skip_refused=skip_refused, progress=progress)
    skipped = () if found.asked is None else found.asked.refused
    print_notes(found.notes, skipped, quiet=quiet)
    if as_json:
        from sqlmadp.show.json import check_figures  # noqa: PLC0415

        print_json(check_figures(found.problems, found.notes, found.asked))
    elif found.asked is not None and not found.problems:
        from sqlmadp.show.text import show_checked  # noqa: PLC0415

        show_checked(found.asked)
    else:
        click.echo(str(InputError(found.problems)), err=True)
    sys.exit(1 if found.problems else 0)


@click.command()
@PLAN
@click.option(
    "--mechanism",
    "mechanisms",
    multiple=True,
    type=MechanismName(),
    help="Show this mechanism instead of the plan's own; may be given several times.",
)
@click.option("--compare", is_flag=True, help="Show all mechanisms side by side.")
@click.option("--explain", is_flag=True, help="Show which caps on errors bind, and their cost.")
@click.option("--without", multiple=True, metavar="NAME", help="Preview without this analyst.")
@click.option(
    "--with", "joining", multiple=True, metavar="NAME=FILE", help="Preview with one more analyst."
)
@click.option(
    "--share", "shares", multiple=True, metavar="NAME=SHARE", help="Preview with another share."
)
@click.option("--epsilon", metavar="NUMBER", help="Preview with another epsilon.")
@click.option(
    "--target-rmse",
    "targets",
    multiple=True,
    metavar="QUERY=RMSE",
    help="Show the least epsilon with which every count and sum of the query meets this error; "
    "'query.column' names one column, 'analyst.query' one analyst's.",
)
@SKIP_REFUSED
@JSON
@QUIET
def plan(
    path: Path,
    mechanisms: tuple[str, ...],
    *,
    compare: bool,
    explain: bool,
    without: tuple[str, ...],
    joining: tuple[str, ...],
    shares: tuple[str, ...],
    epsilon: str | None,
    targets: tuple[str, ...],
    skip_refused: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Preview the accuracy of every query without spending budget.

    Shows the standard error of every statement, and whether anyone is worse off than alone.
    --compare shows all mechanisms: each analyst's error on their own share, their error in the
    joint release, and both fairness measures. --with, --without, --share and --epsilon try out
    changes without editing the file. Reads no records.
    """
    from sqlmadp.mechanism import MECHANISMS  # noqa: PLC0415
    from sqlmadp.release.preview import Changes, least_epsilons  # noqa: PLC0415
    from sqlmadp.show.json import plan_figures  # noqa: PLC0415
    from sqlmadp.show.progress import stages  # noqa: PLC0415
    from sqlmadp.show.text import show_caps, show_least_epsilon, show_previews  # noqa: PLC0415

    changes = Changes(
        without=without,
        joining={name: Path(file) for name, file in _pairs(joining, "--with").items()},
        shares={name: positive_number(text) for name, text in _pairs(shares, "--share").items()},
        epsilon=None if epsilon is None else positive_number(epsilon),
    )
    aims = {
        name: float(positive_number(text))
        for name, text in _pairs(targets, "--target-rmse").items()
    }
    mechanisms = tuple(MECHANISMS) if compare else mechanisms
    with stages(2 + max(1, len(mechanisms)), quiet=quiet) as progress:
        opened = skipping(Plan.open(path), skip_refused=skip_refused)
        previews = changes.apply(opened).preview(*mechanisms, progress=progress)
    print_notes(previews.asked.notes, previews.asked.refused, quiet=quiet)
    least = least_epsilons(previews, aims)
    caps = previews.caps() if explain else {}
    if as_json:
        print_json(plan_figures(previews, least, caps))
    else:
        show_previews(previews)
        show_caps(previews, caps)
        show_least_epsilon(least)


def _pairs(given: tuple[str, ...], option: str) -> dict[str, str]:
    """Return the values of ``NAME=VALUE`` options by name."""
    pairs = [text.partition("=") for text in given]
    for name, equals, value in pairs:
        if not (name and equals and value):
            given_text = name + equals + value
            raise click.BadParameter(f"{given_text!r} is not NAME=VALUE", param_hint=option)
    return {name: value for name, _, value in pairs}
