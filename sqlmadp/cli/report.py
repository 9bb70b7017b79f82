"""``sqlmadp report``: a page for people who do not read code."""

from __future__ import annotations

from pathlib import Path

import click

from sqlmadp.cli.options import PLAN, QUIET, MechanismName, analysts_of_the_plan
from sqlmadp.files.plan import Plan


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
@QUIET
def report(
    path: Path,
    out: Path,
    analyst: str | None,
    *,
    mechanisms: tuple[str, ...],
    compare: bool,
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

    opened = Plan.open(path)
    mechanisms = tuple(MECHANISMS) if compare else mechanisms
    with stages(5 + len(mechanisms), quiet=quiet) as progress:
        write_report(opened, out, analyst=analyst, mechanisms=mechanisms, progress=progress)
    click.echo(out)
