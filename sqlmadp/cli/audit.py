"""``sqlmadp audit``: an attempt to break the promise."""

from __future__ import annotations

import sys

import click

from sqlmadp.cli.options import JSON, QUIET, print_json


@click.command()
@click.option(
    "--measurements",
    type=click.IntRange(min=2_000),
    default=200_000,
    show_default=True,
    help="Measurements of each of two neighbouring tables, in every case.",
)
@JSON
@QUIET
def audit(measurements: int, as_json: bool, quiet: bool) -> None:
    """Test the privacy guarantee empirically on synthetic tables.

    Fails if the noise does not hide a record. Measures neighbouring tables very many times
    through the code that releases use, and works out a lower bound on epsilon that the results
    prove. No plan, no private table and no ledger of yours is touched. Takes some minutes.
    """
    from sqlmadp.audit import report as auditing  # noqa: PLC0415
    from sqlmadp.show.progress import counted  # noqa: PLC0415

    with counted("measuring", quiet=quiet) as progress:
        report = auditing.audit(measurements, progress=progress)
    if as_json:
        print_json(auditing.audit_figures(report))
    else:
        auditing.show_audit(report)
    for problem in report.problems:
        click.echo(problem, err=True)
    sys.exit(1 if report.problems else 0)
