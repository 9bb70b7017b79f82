"""``sqlmadp release`` and ``sqlmadp query``: answers, once for epsilon and then free."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click

from sqlmadp.cli.interrupts import heeding
from sqlmadp.cli.options import (
    ERROR,
    JSON,
    PLAN,
    QUIET,
    analysts_of_the_plan,
    print_json,
    print_notes,
)
from sqlmadp.plan import Plan


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
@ERROR
@JSON
@QUIET
def release(
    path: Path,
    out: Path | None,
    form: str,
    *,
    dry_run: bool,
    error: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Spend the plan's epsilon once and print every query's rows.

    Charge and measurement are stored together in the ledger before anything is shown. A
    completed plan returns the same rows again and spends nothing.
    """
    from sqlmadp.display import show_budget, show_release  # noqa: PLC0415
    from sqlmadp.figures import release_figures  # noqa: PLC0415
    from sqlmadp.progress import stages  # noqa: PLC0415

    opened = Plan.open(path)
    if dry_run:
        _rehearse(opened, as_json=as_json, quiet=quiet)
        return
    with stages(5, quiet=quiet) as progress:
        notice = _silent if quiet else _say
        done = replace(
            opened.release(progress=heeding(progress), notice=notice), stated_errors=error
        )
        results = done.results()
        progress("certifying")
        _ = done.certificate  # Kept for whatever is shown below.
    if out is not None:
        from sqlmadp.answer.files import write_results  # noqa: PLC0415

        write_results(results, out, form)
    if as_json:
        print_json(release_figures(done, results))
    elif out is None:
        show_release(done, results)
    else:
        show_budget(done)


def _silent(_: str) -> None:
    """Take a note and say nothing."""


def _say(note: str) -> None:
    """Say something on standard error; written there, it stands above the bar and not in it."""
    sys.stderr.write(f"{note}\n")
    sys.stderr.flush()


def _rehearse(opened: Plan, *, as_json: bool, quiet: bool) -> None:
    from sqlmadp.display import show_rehearsal  # noqa: PLC0415
    from sqlmadp.figures import rehearsal_figures  # noqa: PLC0415
    from sqlmadp.progress import stages  # noqa: PLC0415
    from sqlmadp.rehearsal import rehearse  # noqa: PLC0415
    from sqlmadp.strategy.cache import StrategyCache, default_directory  # noqa: PLC0415

    with stages(3, quiet=quiet) as progress:
        found = rehearse(opened, StrategyCache(default_directory()), progress)
    print_notes(found.asked, quiet=quiet)
    if as_json:
        print_json(rehearsal_figures(found))
    else:
        show_rehearsal(found)


@click.command()
@PLAN
@click.argument("sql", metavar="SQL")
@click.option(
    "--analyst",
    metavar="NAME",
    shell_complete=analysts_of_the_plan,
    help="Answer from what this analyst reads; from everything otherwise.",
)
@ERROR
@JSON
@QUIET
def query(
    path: Path, sql: str, analyst: str | None, *, error: bool, as_json: bool, quiet: bool
) -> None:
    """Answer one more SELECT from the stored release, free.

    Any query in the span of what was measured is answered, with its expected error; another is
    refused with the columns or values that the release does not cover. 'EXPLAIN SELECT ...'
    shows scope, cells, groups and expected error, released or not. Reads no record.
    """
    from sqlmadp.answer.errors import with_errors  # noqa: PLC0415
    from sqlmadp.display import show_explained, show_meaning, show_result  # noqa: PLC0415
    from sqlmadp.explaining import explain_text  # noqa: PLC0415
    from sqlmadp.figures import query_figures, result_figures  # noqa: PLC0415
    from sqlmadp.progress import stages  # noqa: PLC0415

    opened = Plan.open(path)
    with stages(quiet=quiet) as progress:
        progress("answering")
        explained = explain_text(opened, sql, analyst)
        if explained is None:
            done = opened.released()
            result = done.query(sql, analyst)
            result = with_errors(result) if error else result
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
