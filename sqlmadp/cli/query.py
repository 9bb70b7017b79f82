"""``sqlmadp query`` and ``sqlmadp staged``: what an analyst asks for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sqlmadp.cli.options import ERROR, JSON, PLAN, QUIET, analysts_of_the_plan, notices, print_json
from sqlmadp.errors import NotReleasedError, ProgrammingError
from sqlmadp.files.plan import Plan

if TYPE_CHECKING:
    from sqlmadp.answer.result import Result
    from sqlmadp.release.release import Release


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
    name' takes it back. Where the plan was changed after a release and --analyst is not given, the
    statement is answered from that release. Reads no record.
    """
    from sqlmadp.release.preview import explain_text  # noqa: PLC0415
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
            done, result = _answered(opened, sql, analyst, dialect, notices(quiet=quiet))
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
        notices(quiet=quiet)(done.asked.domain.error_meaning)


def _answered(
    plan: Plan, sql: str, analyst: str | None, dialect: str | None, notice: Callable[[str], None]
) -> tuple[Release, Result]:
    """Return the rows of a statement from the plan's release, or from one before it was changed."""
    from sqlmadp.release.release import answered_before  # noqa: PLC0415

    try:
        done = plan.released(notice=notice)
    except NotReleasedError as error:
        found = answered_before(plan, sql, dialect=dialect)  # Raises the statement's own mistakes.
        if found is None:
            raise
        time, done, result = found
        if analyst is not None:
            raise NotReleasedError(
                f"{error}\nThe plan has changed since its release of {time}, which answers this "
                "statement: ask again without --analyst"
            ) from None
        notice(f"note: the plan has changed since; answered from the release of {time}")
        return done, result
    return done, done.query(sql, analyst, dialect=dialect)


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


@click.command()
@PLAN
@click.option(
    "--analyst",
    metavar="NAME",
    required=True,
    shell_complete=analysts_of_the_plan,
    help="Whose statements.",
)
@click.option(
    "--withdraw",
    metavar="STATEMENT",
    help="Take this statement back, by its name. Not possible once the release has been made.",
)
@JSON
def staged(path: Path, analyst: str, withdraw: str | None, *, as_json: bool) -> None:
    """List the statements that an analyst has handed in, or withdraw one of them.

    Statements are in the analyst's own SQL files, or were handed in from a connection or by
    'sqlmadp query PLAN --analyst NAME "HAND IN SELECT ..."'. The latter can be withdrawn until the
    release is made; a statement of a file is deleted there. Reads no record.
    """
    from sqlmadp.dbapi.connection import connect  # noqa: PLC0415
    from sqlmadp.show.json import staged_figures  # noqa: PLC0415
    from sqlmadp.show.text import show_result  # noqa: PLC0415

    with connect(path, analyst=analyst) as connection:
        listed = connection.staged() if withdraw is None else connection.withdraw(withdraw)
    if as_json:
        print_json(staged_figures(analyst, listed))
    elif len(listed):
        show_result(listed)
    else:
        click.echo(f"{analyst!r} has handed in no statement")
