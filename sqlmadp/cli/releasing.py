"""``sqlmadp release`` and ``sqlmadp query``: answers, once for epsilon and then free."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sqlmadp.cli.interrupts import heeding
from sqlmadp.cli.options import (
    ERROR,
    JSON,
    PLAN,
    QUIET,
    SKIP_REFUSED,
    analysts_of_the_plan,
    print_json,
    print_notes,
    skipping,
)
from sqlmadp.errors import Error, OperationalError, ProgrammingError
from sqlmadp.files.plan import Plan

if TYPE_CHECKING:
    from sqlmadp.answer.result import Result
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
    from sqlmadp.show.json import release_figures  # noqa: PLC0415
    from sqlmadp.show.progress import stages  # noqa: PLC0415
    from sqlmadp.show.text import show_budget, show_release  # noqa: PLC0415

    opened = skipping(Plan.open(path), skip_refused=skip_refused)
    if dry_run:
        _dry_run(opened, as_json=as_json, quiet=quiet)
        return
    with stages(6, quiet=quiet) as progress:
        notice = _silent if quiet else _say

        def confirm(intention: str) -> None:
            if yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
                return
            with progress.paused():
                if not click.confirm(f"{intention}\nSpend it?" if quiet else "Spend it?", err=True):
                    raise OperationalError("the answer was no: nothing was read or spent")

        spending = heeding(progress)
        done = opened.release(progress=spending, notice=notice, confirm=confirm)
        done = done.stating_errors() if error else done
        results = done.results()
        progress("certifying")
        certified = done.certified()
    if out is not None:
        from sqlmadp.answer.files import write_results  # noqa: PLC0415

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


def _silent(_: str) -> None:
    """Take a note and say nothing."""


def _say(note: str) -> None:
    """Say something on standard error; written there, it stands above the bar and not in it."""
    sys.stderr.write(f"{note}\n")
    sys.stderr.flush()


def _dry_run(opened: Plan, *, as_json: bool, quiet: bool) -> None:
    from sqlmadp.release.preview import dry_run  # noqa: PLC0415
    from sqlmadp.show.json import dry_run_figures  # noqa: PLC0415
    from sqlmadp.show.progress import stages  # noqa: PLC0415
    from sqlmadp.show.text import show_dry_run  # noqa: PLC0415

    with stages(3, quiet=quiet) as progress:
        found = dry_run(opened, progress)
    print_notes(found.asked.notes, found.asked.refused, quiet=quiet)
    if as_json:
        print_json(dry_run_figures(found))
    else:
        show_dry_run(found)


@click.command()
@PLAN
@click.argument("sql", metavar="SQL")
@click.option(
    "--analyst",
    metavar="NAME",
    shell_complete=analysts_of_the_plan,
    help="Answer from what this analyst reads; from everything otherwise.",
)
@click.option("--dialect", metavar="NAME", help="The dialect of the SQL; the plan's own otherwise.")
@ERROR
@JSON
@QUIET
def query(
    path: Path,
    sql: str,
    analyst: str | None,
    dialect: str | None,
    *,
    error: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Answer one more SELECT from the stored release, free.

    Any query in the span of what was measured is answered, with its expected error; another is
    refused with the columns or values that the release does not cover. 'EXPLAIN SELECT ...'
    shows scope, cells, groups and expected error; before the release with --analyst as if that
    analyst handed it in. 'HAND IN SELECT ...' hands a statement in for --analyst, and 'WITHDRAW
    name' takes it back. Reads no record.
    """
    from sqlmadp.release.explain import explain_text  # noqa: PLC0415
    from sqlmadp.show.json import query_figures, result_figures  # noqa: PLC0415
    from sqlmadp.show.progress import stages  # noqa: PLC0415
    from sqlmadp.show.text import show_explained, show_meaning, show_result  # noqa: PLC0415
    from sqlmadp.sql.statements import is_explain, is_of_an_analyst  # noqa: PLC0415

    opened = Plan.open(path)
    with stages(quiet=quiet) as progress:
        progress("answering")
        if is_of_an_analyst(sql) or (analyst is not None and is_explain(sql)):
            explained: Result | None = _on_a_connection(opened, sql, analyst, dialect)
        else:
            explained = explain_text(opened, sql, dialect=dialect)
        if explained is None:
            done = opened.released(notice=_silent if quiet else _say)
            result = done.query(sql, analyst, dialect=dialect)
            result = result.with_errors() if error else result
    if explained is not None:
        if as_json:
            print_json(result_figures(explained))
        else:
            show_explained(explained)
    elif as_json:
        print_json(query_figures(done, result))
    else:
        show_result(result)
        show_meaning(done)
        if not quiet:
            _say(done.asked.domain.error_meaning)


def _on_a_connection(plan: Plan, sql: str, analyst: str | None, dialect: str | None) -> Result:
    """Return the rows of EXPLAIN, HAND IN or WITHDRAW, as a connection of an analyst has them."""
    from sqlmadp.dbapi.connection import connect  # noqa: PLC0415

    if analyst is None:
        names = ", ".join(each.name for each in plan.analysts)
        raise ProgrammingError(
            f"HAND IN and WITHDRAW need the name of an analyst: add --analyst NAME, one of {names}"
        )
    with connect(plan, analyst=analyst, dialect=dialect) as connection:
        return connection.execute(sql).result
