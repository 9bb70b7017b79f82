"""What commands share: options, JSON, and a Ctrl-C that is not lost.

A library may swallow an interrupt, while it is imported say, and the work would go on to the end
and spend.  So the signal is remembered too, and no stage begins after it.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.shell_completion import CompletionItem

from sqlmadp.errors import Error, Problem
from sqlmadp.files.plan import Plan
from sqlmadp.files.toml import exact

if TYPE_CHECKING:
    from sqlmadp.release.bound_plan import Refused

INTERRUPTED = 130
"""The exit code that shells give to what Ctrl-C has ended."""

ERROR = click.option(
    "--error", is_flag=True, help="Add columns: standard error and 95% interval of every answer."
)
PLAN = click.argument("path", metavar="PLAN", type=click.Path(path_type=Path))
JSON = click.option("--json", "as_json", is_flag=True, help="Output JSON.")
QUIET = click.option(
    "--quiet",
    "-q",
    is_flag=True,
    help="Hide progress and notes.",
)

SKIP_REFUSED = click.option(
    "--skip-refused",
    is_flag=True,
    help="Go on without statements that are refused; analysts left with none are not charged.",
)


class MechanismName(click.ParamType[str]):
    """The name of a mechanism; they are loaded only to look one up, since that is slow."""

    name = "mechanism"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name, or fail with a list of those that there are."""
        from sqlmadp.mechanism import MECHANISMS  # noqa: PLC0415

        if value not in MECHANISMS:
            self.fail(f"{value!r} is not one of {', '.join(MECHANISMS)}.", param, ctx)
        return value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the names that a shell offers."""
        from sqlmadp.mechanism import MECHANISMS  # noqa: PLC0415

        return [CompletionItem(name) for name in MECHANISMS if name.startswith(incomplete)]


def analysts_of_the_plan(ctx: click.Context, option: click.Parameter, incomplete: str) -> list[str]:
    """Return the analysts of the plan that was named before, for a shell to offer."""
    # An option whose value is not there yet ends click's reading before it comes to arguments.
    path = ctx.params.get("path") or next(iter(ctx.args), None)
    try:
        plan = Plan.open(path) if path else None
    except Error:
        plan = None
    names = [] if plan is None else [each.name for each in plan.analysts]
    return [name for name in names if name.startswith(incomplete)]


def positive_number(text: str) -> Fraction:
    """Return an exact number above 0."""
    number = exact(text)
    if number is None or number <= 0:
        raise click.BadParameter(f"{text!r} is not a number above 0, such as 1, 0.5 or 1/3")
    return number


def skipping(plan: Plan, *, skip_refused: bool) -> Plan:
    """Return a plan that goes on without refused statements, if it or the command line says so."""
    return replace(plan, skip_refused=plan.skip_refused or skip_refused)


def print_notes(notes: Iterable[Problem], skipped: Iterable[Refused] = (), *, quiet: bool) -> None:
    """Print on standard error what is most likely a slip, and what is refused and skipped."""
    for note in () if quiet else notes:
        click.echo(f"note: {note}\n", err=True)
    for each in () if quiet else skipped:
        click.echo(f"skipped: {each.problem}\n", err=True)


def notices(*, quiet: bool) -> Callable[[str], None]:
    """Return a function that writes a note to standard error; only warnings if ``quiet``."""

    def write(note: str) -> None:
        if not quiet or note.startswith("warning:"):
            sys.stderr.write(f"{note}\n")  # Unlike click.echo, this is put above a progress bar.
            sys.stderr.flush()

    return write


def print_json(value: Any) -> None:
    """Print figures for machines, with the version of their form."""
    from sqlmadp.answer.result import encode  # noqa: PLC0415
    from sqlmadp.show.json import versioned  # noqa: PLC0415

    click.echo(encode(versioned(value)))


_pressed = threading.Event()


def remember() -> None:
    """Remember interrupts from now on, besides raising them."""
    _pressed.clear()
    if (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ):
        signal.signal(signal.SIGINT, _press)


def _press(number: int, frame: FrameType | None) -> NoReturn:
    _pressed.set()
    raise KeyboardInterrupt


def stop_on_interrupt(progress: Callable[[str], None]) -> Callable[[str], None]:
    """Wrap a progress callback so that no new stage starts after Ctrl-C."""

    def report(stage: str) -> None:
        if _pressed.is_set():
            raise KeyboardInterrupt
        progress(stage)

    return report
