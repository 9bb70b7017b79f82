"""``sqlmadp init``: files to start from."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from sqlmadp.cli.options import QUIET


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@QUIET
def init(folder: Path, quiet: bool) -> None:
    """Create a folder with a working example.

    A plan, a schema, two analysts' statements and an invented table go into DIR, each with comments
    that say what may be changed. Nothing is overwritten.
    """
    from sqlmadp.files.starter import write_starter  # noqa: PLC0415

    for path in write_starter(folder):
        click.echo(path)
    if not quiet:
        plan = shlex.quote(str(folder / "plan.toml"))
        click.echo(
            f"Next: sqlmadp check {plan}, then sqlmadp plan {plan}; both read no record and cost "
            f"nothing. sqlmadp release {plan} spends its epsilon.",
            err=True,
        )
