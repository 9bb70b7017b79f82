"""``sqlmadp staged``: what an analyst has handed in, and taking it back."""

from __future__ import annotations

from pathlib import Path

import click

from sqlmadp.cli.options import JSON, PLAN, analysts_of_the_plan, print_json


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
