"""The command line: arguments in, text out; no logic of its own.

Results go to standard output and all else to standard error.  Exit code 0 is done, 1 is a
refusal with a message, 2 is bad usage, 3 is a release that is made and stored, of which some rows
could not be made from what was measured.  The parts are imported inside the commands, so that
``--help`` is quick.
"""

from __future__ import annotations

import errno
import traceback
from typing import Any, NoReturn

import click

from sqlmadp.cli import experiment, files, ledger, plan, query, release
from sqlmadp.cli.options import INTERRUPTED, remember
from sqlmadp.errors import Error, unforeseen

DEBUG = "sqlmadp.debug"
AGAIN = "; if a release was recorded, running it again returns the same answers and spends nothing"


class _Refusing(click.Group):
    """Turns a refusal into its message and exit code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        remember()
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.Abort, click.ClickException):
            raise
        except Error as error:
            _debug(ctx)
            click.echo(str(error), err=True)
            ctx.exit(1)
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise  # The reader of the results has gone; click ends quietly.
            what = error.filename or "standard output"
            click.echo(f"{what} could not be used ({error.strerror}){_again(ctx)}", err=True)
            ctx.exit(1)
        except RecursionError:
            click.echo("a file nests too deeply to be read; nothing was spent", err=True)
            ctx.exit(1)
        except MemoryError:
            click.echo(f"there is not enough memory for this{_again(ctx)}", err=True)
            ctx.exit(1)
        except KeyboardInterrupt:
            _interrupted(ctx)
        except Exception as error:
            if str(error) == "Query interrupted":  # What DuckDB makes of an interrupt.
                _interrupted(ctx)
            _debug(ctx)
            click.echo(str(unforeseen(error)), err=True)
            ctx.exit(1)


def _debug(ctx: click.Context) -> None:
    """Show the traceback of the error that is being handled, if that is asked for."""
    if ctx.meta.get(DEBUG):
        click.echo(traceback.format_exc(), err=True)


def _again(ctx: click.Context) -> str:
    """Return advice for a release that did not end; no other command can have spent."""
    return AGAIN if ctx.invoked_subcommand == "release" else ""


def _interrupted(ctx: click.Context) -> NoReturn:
    click.echo(f"\ninterrupted{_again(ctx)}", err=True)
    ctx.exit(INTERRUPTED)


@click.group(cls=_Refusing, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="sqlmadp")
def main() -> None:
    """Answer every analyst's SQL in one differentially private release.

    A plan (TOML) names a schema, a private table, a ledger with its budget, and the analysts
    with their SQL files and shares. Start with 'sqlmadp check PLAN' and 'sqlmadp plan PLAN': they
    read no record and cost nothing.
    """


def _debug_option() -> click.Option:
    """Return an option that every command has, and that no command sees."""

    def note(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            ctx.meta[DEBUG] = True  # Contexts of commands within commands share it.

    return click.Option(
        ["--debug"],
        is_flag=True,
        expose_value=False,
        callback=note,
        help="Show the traceback of an error.",
    )


def _with_debug(command: click.Command) -> None:
    if isinstance(command, click.Group):
        for each in command.commands.values():
            _with_debug(each)
    else:
        command.params.append(_debug_option())


_COMMANDS: tuple[click.Command, ...] = (
    *(files.init, plan.check, plan.plan, query.staged, release.release, query.query),
    *(release.report, ledger.ledger, experiment.audit, experiment.experiment, files.schema),
)
for _command in _COMMANDS:
    _with_debug(_command)
    main.add_command(_command)
