"""``sqlmadp ledger``: what was spent, and whether its record is whole."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sqlmadp.cli.options import JSON, QUIET, print_json
from sqlmadp.errors import SourceError
from sqlmadp.files.plan import Plan

if TYPE_CHECKING:
    from sqlmadp.private import Ledger


class _ShowByDefault(click.Group):
    """A group whose first word may also be a path, which is then shown."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in {*self.commands, *self.get_help_option_names(ctx)}:
            args = ["show", *args]
        return super().parse_args(ctx, args)


LEDGER = click.argument("path", metavar="PLAN_OR_LEDGER", type=click.Path(path_type=Path))


@click.group(cls=_ShowByDefault, options_metavar="", subcommand_metavar="[show|verify] PATH")
def ledger() -> None:
    """Show what was spent, by release, or verify a ledger.

    'sqlmadp ledger PATH' shows the ledger of a plan (.toml), or the ledger file itself.
    """


@ledger.command()
@LEDGER
@JSON
@QUIET
def show(path: Path, as_json: bool, quiet: bool) -> None:
    """Show the budget, what was spent and left, and every charge."""
    from sqlmadp.show.json import ledger_figures  # noqa: PLC0415
    from sqlmadp.show.text import show_ledger  # noqa: PLC0415

    with _ledger_of(path, quiet=quiet) as opened:
        if as_json:
            print_json(ledger_figures(opened))
        else:
            show_ledger(opened)


@ledger.command()
@LEDGER
@JSON
@QUIET
def verify(path: Path, as_json: bool, quiet: bool) -> None:
    """Check that a ledger is whole: file, chain, measurements, budget.

    With a plan, also that the ledger has the plan's budget and the head that it pins, and is the
    one that the table is charged to. What a ledger cannot show by itself is that an older copy
    was restored: compare the head with one that was noted before, or pin it in the plan.
    """
    with _ledger_of(path, quiet=quiet) as opened:  # Verified when it was opened.
        if path.suffix == ".toml":
            _check_note(Plan.open(path), opened)
        charges, spent, left, head = opened.charges, opened.spent, opened.left, opened.head
        if as_json:
            print_json({"ok": True, "charges": len(charges), "head": head})
        else:
            click.echo(
                f"{opened.path}: sound; charges: {len(charges)}, spent {spent} of "
                f"{opened.budget}, left {left}\nhead {head}"
            )


def _check_note(plan: Plan, ledger: Ledger) -> None:
    """Raise LedgerError if the plan's table is charged to another ledger, or to a later one."""
    from sqlmadp.private.ledger_binding import check_binding  # noqa: PLC0415
    from sqlmadp.release.bound_plan import source_identity  # noqa: PLC0415

    try:
        identity = source_identity(plan)
    except SourceError as error:
        click.echo(f"note: not compared with the note of the table's ledger: {error}\n", err=True)
        return
    check_binding(identity, ledger)


def _ledger_of(path: Path, *, quiet: bool) -> Ledger:
    from sqlmadp.private import Ledger  # noqa: PLC0415
    from sqlmadp.show.progress import stages  # noqa: PLC0415

    with stages(quiet=quiet) as progress:
        progress("verifying the ledger")
        if path.suffix != ".toml":
            return Ledger.read(path)
        plan = Plan.open(path)
        return Ledger.read(plan.ledger_path, budget=plan.budget, head=plan.head)
