"""The command line: arguments in, text out; no logic of its own.

Results go to standard output and all else to standard error.  Exit code 0 is done, 1 is a
refusal with a message, 2 is bad usage.  The parts are imported inside the commands, so that
``--help`` is quick.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sqlmadp.errors import Error, InputError, NotSupportedError
from sqlmadp.plan import MECHANISMS, Plan

if TYPE_CHECKING:
    from sqlmadp.preview import Preview

PLAN = click.argument("path", metavar="PLAN", type=click.Path(path_type=Path))
JSON = click.option("--json", "as_json", is_flag=True, help="Print figures as JSON for machines.")


class _Refusing(click.Group):
    """Turns a refusal into its message and exit code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except Error as error:
            click.echo(str(error), err=True)
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
@PLAN
@JSON
def check(path: Path, as_json: bool) -> None:
    """Parse and bind everything; report every mistake at once.

    Reads the plan, the schema, the SQL files and the names and types of the table's columns,
    never a record.
    """
    from sqlmadp.checking import check_plan  # noqa: PLC0415

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
@JSON
def plan(path: Path, mechanisms: tuple[str, ...], as_json: bool) -> None:
    """Show expected errors before anything is spent.

    For every mechanism: what each analyst's error would be alone with their own share and in
    the collective, the error of every query, and both fairness measures (above 1 is a
    violation). Reads no record.
    """
    from sqlmadp.asked import Asked  # noqa: PLC0415
    from sqlmadp.display import show_previews, stages  # noqa: PLC0415
    from sqlmadp.figures import plan_figures  # noqa: PLC0415
    from sqlmadp.preview import preview  # noqa: PLC0415
    from sqlmadp.strategy.cache import StrategyCache, default_directory  # noqa: PLC0415

    with stages() as progress:
        progress("binding statements")
        asked = Asked.bind(Plan.open(path))
        cache = StrategyCache(default_directory())
        previews: dict[str, Preview | NotSupportedError] = {}
        for name in mechanisms or MECHANISMS:
            progress(f"mechanism {name}")
            previews |= preview(asked, [name], cache)
    if as_json:
        _print_json(plan_figures(asked, previews))
    else:
        show_previews(asked, previews)


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
@JSON
def release(path: Path, out: Path | None, form: str, as_json: bool) -> None:
    """Spend the plan's epsilon once and print every query's rows.

    Charge and measurement are stored together in the ledger before anything is shown. A
    completed plan returns the same rows again and spends nothing.
    """
    from sqlmadp import release as releasing  # noqa: PLC0415
    from sqlmadp.display import show_budget, show_release, stages  # noqa: PLC0415
    from sqlmadp.figures import release_figures  # noqa: PLC0415
    from sqlmadp.strategy.cache import StrategyCache, default_directory  # noqa: PLC0415

    opened = Plan.open(path)
    with stages() as progress:
        done = releasing.release(opened, StrategyCache(default_directory()), progress)
    if out is not None:
        from sqlmadp.answer.files import write_result  # noqa: PLC0415

        for analyst, results in done.results().items():
            for name, result in results.items():
                write_result(result, out / analyst / f"{name}.{form}")
    if as_json:
        _print_json(release_figures(done))
    elif out is None:
        show_release(done)
    else:
        show_budget(done)


@main.command()
@PLAN
@click.argument("sql", metavar="SQL")
@click.option("--analyst", help="Answer from what this analyst reads; from everything otherwise.")
@JSON
def query(path: Path, sql: str, analyst: str | None, as_json: bool) -> None:
    """Answer one more SELECT from the stored release, free.

    Any query in the span of what was measured is answered, with its expected error; another is
    refused with the columns or values that the release does not cover. Reads no record.
    """
    from sqlmadp.display import show_result  # noqa: PLC0415
    from sqlmadp.figures import query_figures  # noqa: PLC0415
    from sqlmadp.release import released  # noqa: PLC0415

    done = released(Plan.open(path))
    result = done.query(sql, analyst)
    if as_json:
        _print_json(query_figures(done, result))
    else:
        show_result(result)


@main.command()
@click.argument("path", metavar="PLAN_OR_LEDGER", type=click.Path(path_type=Path))
@JSON
def ledger(path: Path, as_json: bool) -> None:
    """Show the budget, what was spent and left, and every charge."""
    from sqlmadp.display import show_ledger  # noqa: PLC0415
    from sqlmadp.figures import ledger_figures  # noqa: PLC0415
    from sqlmadp.private import Ledger  # noqa: PLC0415

    file = Plan.open(path).ledger_path if path.suffix == ".toml" else path
    with Ledger.read(file) as opened:
        if as_json:
            _print_json(ledger_figures(opened))
        else:
            show_ledger(opened)


def _print_json(value: Any) -> None:
    from sqlmadp.answer.files import encode  # noqa: PLC0415

    click.echo(encode(value))
