"""``sqlmadp release`` and ``sqlmadp report``: answers, once for epsilon and then free."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sqlmadp.cli.options import (
    ERROR,
    JSON,
    PLAN,
    QUIET,
    SKIP_REFUSED,
    MechanismName,
    analysts_of_the_plan,
    notices,
    print_json,
    print_notes,
    skipping,
    stop_on_interrupt,
)
from sqlmadp.errors import Error, OperationalError
from sqlmadp.files.plan import Plan

if TYPE_CHECKING:
    from sqlmadp.release.certificate import Certificate


@click.command()
@PLAN
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Write each query's rows to OUT/<analyst>/<query>.<format> instead of printing them.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(("csv", "parquet", "json")),
    default="csv",
    show_default=True,
    help="The format of the files that --out writes.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Try everything but the release: read no record, spend nothing, write nothing.",
)
@click.option("--yes", "-y", is_flag=True, help="Spend without asking; a terminal asks otherwise.")
@SKIP_REFUSED
@ERROR
@JSON
@QUIET
def release(
    path: Path,
    out: Path | None,
    form: str,
    *,
    dry_run: bool,
    yes: bool,
    skip_refused: bool,
    error: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Spend the plan's epsilon once and print every query's rows.

    Everything is made once from made-up measurements first, so what cannot be answered is refused
    before it is charged. On a terminal it asks before it spends. Charge and measurement are stored
    together in the ledger before anything is shown. A completed plan returns the same rows again
    and spends nothing.
    """
    from sqlmadp.release.release import STAGES  # noqa: PLC0415
    from sqlmadp.show.json import release_figures  # noqa: PLC0415
    from sqlmadp.show.progress import stages  # noqa: PLC0415
    from sqlmadp.show.text import show_budget, show_release  # noqa: PLC0415

    opened = skipping(Plan.open(path), skip_refused=skip_refused)
    if dry_run:
        _dry_run(opened, as_json=as_json, quiet=quiet)
        return
    with stages(STAGES, quiet=quiet) as progress:
        notice = notices(quiet=quiet)

        def confirm(intention: str) -> None:
            if yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
                return
            with progress.paused():
                if not click.confirm(f"{intention}\nSpend it?" if quiet else "Spend it?", err=True):
                    raise OperationalError("the answer was no: nothing was read or spent")

        spending = stop_on_interrupt(progress)
        done = opened.release(progress=spending, notice=notice, confirm=confirm)
        done = done.stating_errors() if error else done
        results = done.results(lambda n, total: progress(f"answering: {n} of {total}"))
        progress("certifying")
        certified = done.certified()
    if out is not None:
        from sqlmadp.answer.result import write_results  # noqa: PLC0415

        write_results(results, out, form)
    if as_json:
        print_json(release_figures(done, results))
    elif out is None:
        show_release(done, results)
    else:
        show_budget(done)
    _end(results.failed, certified)


def _end(failed: Mapping[tuple[str, str], Error], certified: Certificate | Error) -> None:
    """End with exit code 3, and say so, if anything could not be made after the charge."""
    for (analyst, query_name), error in failed.items():
        click.echo(f"query {query_name!r} of {analyst!r} has no rows: {error}", err=True)
    if isinstance(certified, Error):
        click.echo(f"there is no certificate: {certified}", err=True)
    if failed or isinstance(certified, Error):
        click.echo(
            "Everything else was answered. Nothing is lost: what was measured is stored, and "
            "running this again is free.",
            err=True,
        )
        sys.exit(3)


def _dry_run(opened: Plan, *, as_json: bool, quiet: bool) -> None:
    from sqlmadp.release.preview import dry_run  # noqa: PLC0415
    from sqlmadp.show.json import dry_run_figures  # noqa: PLC0415
    from sqlmadp.show.progress import stages  # noqa: PLC0415
    from sqlmadp.show.text import show_dry_run  # noqa: PLC0415

    with stages(5, quiet=quiet) as progress:
        found = dry_run(opened, progress)
    print_notes(found.asked.notes, found.asked.refused, quiet=quiet)
    if as_json:
        print_json(dry_run_figures(found))
    else:
        show_dry_run(found)


@click.command()
@PLAN
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default="report.html",
    show_default=True,
    help="The file to write.",
)
@click.option(
    "--analyst",
    metavar="NAME",
    shell_complete=analysts_of_the_plan,
    help="Write only what this analyst may see.",
)
@click.option(
    "--mechanism",
    "mechanisms",
    multiple=True,
    type=MechanismName(),
    help="Compare the plan's mechanism with this one; may be given several times.",
)
@click.option("--compare", is_flag=True, help="Compare the plan's mechanism with all others.")
@SKIP_REFUSED
@QUIET
def report(
    path: Path,
    out: Path,
    analyst: str | None,
    *,
    mechanisms: tuple[str, ...],
    compare: bool,
    skip_refused: bool,
    quiet: bool,
) -> None:
    """Write one page that explains the release.

    What was asked, what it costs, who gets what, and why that is fair; before a release it is
    a preview, afterwards it has the rows. The page needs no network and no other file. Reads no
    record and spends nothing.
    """
    from sqlmadp.mechanism import MECHANISMS  # noqa: PLC0415
    from sqlmadp.show.progress import stages  # noqa: PLC0415
    from sqlmadp.show.report import write_report  # noqa: PLC0415

    opened = skipping(Plan.open(path), skip_refused=skip_refused)
    mechanisms = tuple(MECHANISMS) if compare else mechanisms
    with stages(5 + len(mechanisms), quiet=quiet) as progress:
        write_report(opened, out, analyst=analyst, mechanisms=mechanisms, progress=progress)
    click.echo(out)
