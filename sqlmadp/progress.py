"""Progress: what is under way, on standard error and only on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


@contextmanager
def stages(total: int | None = None, *, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Show the stage that is under way of ``total``."""
    screen = Console(stderr=True)
    if quiet or not screen.is_terminal:
        yield lambda _: None
        return
    columns = (
        SpinnerColumn(),
        BarColumn(bar_width=20),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task("starting", total=total)
        begun: list[str] = []

        def begin(stage: str) -> None:
            name = stage.partition(":")[0]  # What follows tells how far the stage itself is.
            if name not in begun[-1:]:
                begun.append(name)
            bar.update(task, description=stage, completed=len(begun) - 1, refresh=True)

        yield begin


@contextmanager
def counted(what: str, *, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Show how many of all are done."""
    screen = Console(stderr=True)
    if quiet or not screen.is_terminal:
        yield lambda done, total: None
        return
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen) as bar:
        task = bar.add_task(what)
        yield lambda done, total: bar.update(task, completed=done, total=total)
