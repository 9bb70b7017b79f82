"""The command line: arguments in, text out; no logic of its own.

Results go to standard output and all else to standard error.  Exit code 0 is done, 1 is a
refusal with a message, 2 is bad usage.  The parts are imported inside the commands, so that
``--help`` is quick.
"""

from __future__ import annotations

import errno
import shlex
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sqlmadp.errors import Error, InputError
from sqlmadp.experiment.command import experiment
from sqlmadp.plan import MECHANISMS, Plan, exact

if TYPE_CHECKING:
    from sqlmadp.private import Ledger

ERROR = click.option(
    "--error", is_flag=True, help="Add columns: standard error and 95% interval of every answer."
)
PLAN = click.argument("path", metavar="PLAN", type=click.Path(path_type=Path))
JSON = click.option("--json", "as_json", is_flag=True, help="Print figures as JSON for machines.")
QUIET = click.option(
    "--quiet",
    "-q",
    is_flag=True,
    help="Say nothing but results and refusals: no progress, no notes.",
)


class _Refusing(click.Group):
    """Turns a refusal into its message and exit code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except Error as error:
            click.echo(str(error), err=True)
            ctx.exit(1)
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise  # Whoever read the results has gone; click ends quietly.
            click.echo(
                f"a file could not be used ({error.strerror}): {error.filename}; if a release was "
                "recorded, running it again returns the same answers and spends nothing",
                err=True,
            )
            ctx.exit(1)
        except RecursionError:
            click.echo("a file nests too deeply to be read; nothing was spent", err=True)
            ctx.exit(1)


@click.group(cls=_Refusing, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="sqlmadp")
def main() -> None:
    """Answer every analyst's SQL in one differentially private release.

    A plan (TOML) names a schema, a private table, a ledger with its budget, and the analysts
    with their SQL files and shares. Start with 'sqlmadp check PLAN' and 'sqlmadp plan PLAN': they
    read no record and cost nothing.
    """


@main.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@QUIET
def init(folder: Path, quiet: bool) -> None:
    """Write a plan that can be released at once.

    A plan, a schema, two analysts' statements and an invented table go into DIR, each with comments
    that say what may be changed. Nothing is overwritten.
    """
    from sqlmadp.starter import write_starter  # noqa: PLC0415

    for path in write_starter(folder):
        click.echo(path)
    if not quiet:
        plan = shlex.quote(str(folder / "plan.toml"))
        click.echo(
            f"Next: sqlmadp check {plan}, then sqlmadp plan {plan}; both read no record and cost "
            f"nothing. sqlmadp release {plan} spends its epsilon.",
            err=True,
        )


@main.command()
@PLAN
@JSON
@QUIET
def check(path: Path, as_json: bool, quiet: bool) -> None:
    """Parse and bind everything; report every mistake at once.

    Reads the plan, the schema, the SQL files and the names and types of the table's columns,
    never a record.
    """
    from sqlmadp.checking import check_plan  # noqa: PLC0415
    from sqlmadp.display import stages  # noqa: PLC0415

    with stages(quiet=quiet) as progress:
        progress("checking")
        asked, problems = check_plan(path)
    if as_json:
        from sqlmadp.figures import check_figures  # noqa: PLC0415

        _print_json(check_figures(problems, asked))
    elif asked is not None and not problems:
        from sqlmadp.display import show_checked  # noqa: PLC0415

        show_checked(asked)
    else:
        click.echo(str(InputError(problems)), err=True)
    sys.exit(1 if problems else 0)


@main.command()
@PLAN
@click.option(
    "--mechanism",
    "mechanisms",
    multiple=True,
    type=click.Choice(MECHANISMS),
    help="Show only this mechanism; may be given several times. All of them otherwise.",
)
@click.option("--without", multiple=True, metavar="NAME", help="What if this analyst left?")
@click.option(
    "--with", "joining", multiple=True, metavar="NAME=FILE", help="What if this analyst joined?"
)
@click.option(
    "--share", "shares", multiple=True, metavar="NAME=SHARE", help="What if the share were this?"
)
@click.option("--epsilon", metavar="NUMBER", help="What if epsilon were this?")
@click.option(
    "--target-rmse",
    "targets",
    multiple=True,
    metavar="QUERY=RMSE",
    help="Show the least epsilon that meets this error; 'analyst.query' names one analyst's.",
)
@JSON
@QUIET
def plan(
    path: Path,
    mechanisms: tuple[str, ...],
    *,
    without: tuple[str, ...],
    joining: tuple[str, ...],
    shares: tuple[str, ...],
    epsilon: str | None,
    targets: tuple[str, ...],
    as_json: bool,
    quiet: bool,
) -> None:
    """Show expected errors before anything is spent.

    For every mechanism: what each analyst's error would be alone with their own share and in
    the collective, the error of every query, and both fairness measures (above 1 is a
    violation). The plan can be changed for the occasion; the file stays as it is. Reads no record.
    """
    from sqlmadp.display import show_least_epsilon, show_previews, stages  # noqa: PLC0415
    from sqlmadp.figures import plan_figures  # noqa: PLC0415
    from sqlmadp.preview import Preview  # noqa: PLC0415
    from sqlmadp.what_if import Changes, least_epsilon  # noqa: PLC0415

    changes = Changes(
        without=without,
        joining={name: Path(file) for name, file in _pairs(joining, "--with").items()},
        shares={name: _number(text) for name, text in _pairs(shares, "--share").items()},
        epsilon=None if epsilon is None else _number(epsilon),
    )
    aims = {name: float(_number(text)) for name, text in _pairs(targets, "--target-rmse").items()}
    with stages(2 + len(mechanisms or MECHANISMS), quiet=quiet) as progress:
        previews = changes.apply(Plan.open(path)).preview(*mechanisms, progress=progress)
    least = {
        name: least_epsilon(previews.asked, each, aims)
        for name, each in previews.items()
        if aims and isinstance(each, Preview)
    }
    if as_json:
        _print_json(plan_figures(previews.asked, previews, least))
    else:
        show_previews(previews.asked, previews)
        show_least_epsilon(least)


def _pairs(given: tuple[str, ...], option: str) -> dict[str, str]:
    """Return what ``NAME=VALUE`` options say, by name."""
    pairs = [text.partition("=") for text in given]
    for name, equals, value in pairs:
        if not (name and equals and value):
            given_text = name + equals + value
            raise click.BadParameter(f"{given_text!r} is not NAME=VALUE", param_hint=option)
    return {name: value for name, _, value in pairs}


def _number(text: str) -> Fraction:
    """Return an exact number above 0."""
    number = exact(text)
    if number is None or number <= 0:
        raise click.BadParameter(f"{text!r} is not a number above 0, such as 1, 0.5 or 1/3")
    return number


@main.command()
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
    from sqlmadp.display import show_budget, show_release, stages  # noqa: PLC0415
    from sqlmadp.figures import release_figures  # noqa: PLC0415

    opened = Plan.open(path)
    if dry_run:
        _rehearse(opened, as_json=as_json, quiet=quiet)
        return
    with stages(5, quiet=quiet) as progress:
        notice = _silent if quiet else lambda text: click.echo(text, err=True)
        done = replace(opened.release(progress=progress, notice=notice), stated_errors=error)
        results = done.results()
        progress("certifying")
        _ = done.certificate  # Kept for whatever is shown below.
    if out is not None:
        from sqlmadp.answer.files import write_results  # noqa: PLC0415

        write_results(results, out, form)
    if as_json:
        _print_json(release_figures(done, results))
    elif out is None:
        show_release(done, results)
    else:
        show_budget(done)


def _silent(_: str) -> None:
    """Take a note and say nothing."""


def _rehearse(opened: Plan, *, as_json: bool, quiet: bool) -> None:
    from sqlmadp.display import show_rehearsal, stages  # noqa: PLC0415
    from sqlmadp.figures import rehearsal_figures  # noqa: PLC0415
    from sqlmadp.rehearsal import rehearse  # noqa: PLC0415
    from sqlmadp.strategy.cache import StrategyCache, default_directory  # noqa: PLC0415

    with stages(3, quiet=quiet) as progress:
        found = rehearse(opened, StrategyCache(default_directory()), progress)
    if as_json:
        _print_json(rehearsal_figures(found))
    else:
        show_rehearsal(found)


@main.command()
@PLAN
@click.argument("sql", metavar="SQL")
@click.option("--analyst", help="Answer from what this analyst reads; from everything otherwise.")
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
    from sqlmadp.display import show_meaning, show_result, stages  # noqa: PLC0415
    from sqlmadp.explaining import explain_text  # noqa: PLC0415
    from sqlmadp.figures import query_figures, result_figures  # noqa: PLC0415

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
            _print_json(result_figures(explained))
        else:
            show_result(explained)
    elif as_json:
        _print_json(query_figures(done, result))
    else:
        show_result(result)
        show_meaning(done)


@main.command()
@PLAN
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default="report.html",
    show_default=True,
    help="The file to write.",
)
@click.option("--analyst", metavar="NAME", help="Write only what this analyst may see.")
@click.option(
    "--mechanism",
    "mechanisms",
    multiple=True,
    type=click.Choice(MECHANISMS),
    help="Compare the plan's mechanism with this one; may be given several times. With all of "
    "them otherwise.",
)
@QUIET
def report(
    path: Path, out: Path, analyst: str | None, *, mechanisms: tuple[str, ...], quiet: bool
) -> None:
    """Write one page that explains the release.

    What was asked, what it costs, who gets what, and why that is fair; before a release it is
    a preview, afterwards it has the rows. The page needs no network and no other file. Reads no
    record and spends nothing.
    """
    from sqlmadp.display import stages  # noqa: PLC0415
    from sqlmadp.report import write_report  # noqa: PLC0415

    opened = Plan.open(path)
    with stages(4 + len(mechanisms or MECHANISMS), quiet=quiet) as progress:
        write_report(opened, out, analyst=analyst, mechanisms=mechanisms, progress=progress)
    click.echo(out)


class _ShowByDefault(click.Group):
    """A group whose first word may also be a path, which is then shown."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in {*self.commands, *self.get_help_option_names(ctx)}:
            args = ["show", *args]
        return super().parse_args(ctx, args)


LEDGER = click.argument("path", metavar="PLAN_OR_LEDGER", type=click.Path(path_type=Path))


@main.group(cls=_ShowByDefault, options_metavar="", subcommand_metavar="[show|verify] PATH")
def ledger() -> None:
    """Show what was spent, by release, or verify a ledger.

    'sqlmadp ledger PATH' shows the ledger of a plan (.toml), or the ledger file itself.
    """


@ledger.command()
@LEDGER
@JSON
def show(path: Path, as_json: bool) -> None:
    """Show the budget, what was spent and left, and every charge."""
    from sqlmadp.display import show_ledger  # noqa: PLC0415
    from sqlmadp.figures import ledger_figures  # noqa: PLC0415

    with _ledger_of(path) as opened:
        if as_json:
            _print_json(ledger_figures(opened))
        else:
            show_ledger(opened)


@ledger.command()
@LEDGER
@JSON
def verify(path: Path, as_json: bool) -> None:
    """Check that a ledger is whole: file, chain, measurements, budget.

    With a plan, also that the ledger has the plan's budget and the head that it pins. What a
    ledger cannot show by itself is that an older copy was restored: compare the head with one
    that was noted before, or pin it in the plan.
    """
    with _ledger_of(path) as opened:  # Verified when it was opened.
        charges, spent, left, head = opened.charges, opened.spent, opened.left, opened.head
        if as_json:
            _print_json({"ok": True, "charges": len(charges), "head": head})
        else:
            click.echo(
                f"{opened.path}: sound; charges: {len(charges)}, spent {spent} of "
                f"{opened.budget}, left {left}\nhead {head}"
            )


def _ledger_of(path: Path) -> Ledger:
    from sqlmadp.private import Ledger  # noqa: PLC0415

    if path.suffix != ".toml":
        return Ledger.read(path)
    plan = Plan.open(path)
    return Ledger.read(plan.ledger_path, budget=plan.budget, head=plan.head)


@main.command()
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
    """Try to see a record through the noise; fails if it can be seen.

    Measures neighbouring tables, made up on the spot, very many times through the code that
    releases use, and works out a lower bound on epsilon that the results prove. No plan, no
    private table and no ledger of yours is touched. Takes some minutes.
    """
    from sqlmadp.audit.report import audit as run  # noqa: PLC0415
    from sqlmadp.audit.show import audit_figures, bar, show_audit  # noqa: PLC0415

    with bar(quiet=quiet) as progress:
        report = run(measurements, progress=progress)
    if as_json:
        _print_json(audit_figures(report))
    else:
        show_audit(report)
    for problem in report.problems:
        click.echo(problem, err=True)
    sys.exit(1 if report.problems else 0)


main.add_command(experiment)


@main.group()
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
def draft(source: str, table: str, trusted_values: bool) -> None:
    """Print a first schema file for a table: names and types.

    SOURCE is what a plan names: a file, postgresql://..., spark://...; TABLE is the table's name.
    Reads the catalogue alone, and no value. What only the curator can say is left as comments.
    """
    from sqlmadp.drafting import draft as write  # noqa: PLC0415
    from sqlmadp.private.engines import Source  # noqa: PLC0415

    where = Source(location=source, folder=Path())
    click.echo(write(where, table, trusted_values=trusted_values), nl=False)


@schema.command("check")
@click.argument("path", metavar="SCHEMA", type=click.Path(path_type=Path))
@click.option("--source", help="Compare with the catalogue of this source; reads no record.")
@JSON
def check_schema_file(path: Path, source: str | None, as_json: bool) -> None:
    """Check a schema file, alone or beside a table's catalogue.

    Reports every mistake at once; reads no record.
    """
    from sqlmadp.drafting import check_schema  # noqa: PLC0415

    domain, problems = check_schema(path, source)
    if as_json:
        from sqlmadp.figures import check_figures  # noqa: PLC0415

        _print_json(check_figures(problems, None))
    elif problems or domain is None:
        click.echo(str(InputError(problems)), err=True)
    else:
        click.echo(
            f"{path}: {len(domain.columns)} columns with {domain.cells:,} cells are in order; "
            f"protects against {domain.protection}; no record was read"
        )
    sys.exit(1 if problems else 0)


def _print_json(value: Any) -> None:
    from sqlmadp.answer.files import encode  # noqa: PLC0415
    from sqlmadp.figures import versioned  # noqa: PLC0415

    click.echo(encode(versioned(value)))
