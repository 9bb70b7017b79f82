"""``sqlmadp init`` and ``sqlmadp schema``: files to start from."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path

import click

from sqlmadp.cli.options import JSON, QUIET, print_json, print_notes
from sqlmadp.errors import InputError
from sqlmadp.files.plan import is_separator
from sqlmadp.table.csv_format import CsvFormat


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


def _csv(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say how a CSV file is written, as [csv] does in a plan."""

    @click.option("--separator", default=",", help="What separates the fields of a CSV.")
    @click.option("--date-format", metavar="FORMAT", help='Of a CSV, such as "%d.%m.%Y".')
    @click.option("--decimal", default=".", help="What a CSV has for a decimal point.")
    @wraps(command)
    def with_format(
        *, separator: str, date_format: str | None, decimal: str, **given: object
    ) -> None:
        separator = "\t" if separator == "\\t" else separator
        if not is_separator(separator):
            raise click.BadParameter(
                f"{separator!r} is not one character", param_hint="--separator"
            )
        form = CsvFormat(separator=separator, date_format=date_format, decimal=decimal)
        command(csv=form, **given)

    return with_format


@click.group()
def schema() -> None:
    """Draft a schema file from a table's catalogue, or check one."""


@schema.command()
@click.argument("source", metavar="SOURCE")
@click.argument("table", metavar="TABLE")
@click.option(
    "--trusted-values",
    is_flag=True,
    help="Read values and bounds from the table, WITHOUT NOISE, and write them into the draft.",
)
@_csv
@QUIET
def draft(
    source: str,
    table: str,
    *,
    trusted_values: bool,
    csv: CsvFormat,
    quiet: bool,
) -> None:
    """Print a first schema file for a table: names and types.

    SOURCE is what a plan names: a file, postgresql://..., spark://...; TABLE is the table's name.
    Reads the catalogue alone, and no value. What only the curator can say is left as comments.
    """
    from sqlmadp.files.drafts import draft as write  # noqa: PLC0415
    from sqlmadp.private.engines import Source  # noqa: PLC0415
    from sqlmadp.show.progress import stages  # noqa: PLC0415

    with stages(quiet=quiet) as progress:
        progress("reading the table" if trusted_values else "reading the catalogue")
        where = Source(location=source, folder=Path(), csv=csv)
        text = write(where, table, trusted_values=trusted_values)
    click.echo(text, nl=False)


@schema.command("check")
@click.argument("path", metavar="SCHEMA", type=click.Path(path_type=Path))
@click.option("--source", help="Compare with the catalogue of this source; reads no record.")
@_csv
@JSON
@QUIET
def check_schema_file(
    path: Path,
    source: str | None,
    *,
    csv: CsvFormat,
    as_json: bool,
    quiet: bool,
) -> None:
    """Check a schema file, alone or beside a table's catalogue.

    Reports every mistake at once, and what the catalogue lets into a column that is declared
    complete; reads no record.
    """
    from sqlmadp.files.drafts import check_schema  # noqa: PLC0415
    from sqlmadp.show.progress import stages  # noqa: PLC0415

    with stages(quiet=quiet) as progress:
        progress("checking")
        domain, problems, notes = check_schema(path, source, csv)
    print_notes(notes, quiet=quiet)
    if as_json:
        from sqlmadp.show.json import check_figures  # noqa: PLC0415

        print_json(check_figures(problems, notes))
    elif problems or domain is None:
        click.echo(str(InputError(problems)), err=True)
    else:
        click.echo(
            f"{path}: {len(domain.columns)} columns are in order; "
            f"protects against {domain.protection}; no record was read"
        )
    sys.exit(1 if problems else 0)
