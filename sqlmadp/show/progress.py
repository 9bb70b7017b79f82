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


class Stages:
    """Told the name of each stage as it begins; shows it where there is a bar."""

    def __init__(self, bar: Progress | None = None, total: int | None = None) -> None:
        self._bar = bar
        self._task = None if bar is None else bar.add_task("starting", total=total)
        self._begun: list[str] = []

    def __call__(self, stage: str) -> None:
        """Show the stage that begins."""
        if self._bar is None or self._task is None:
            return
        name = stage.partition(":")[0]  # What follows tells how far the stage itself is.
        if name not in self._begun[-1:]:
            self._begun.append(name)
        done = len(self._begun) - 1
        self._bar.update(self._task, description=stage, completed=done, refresh=True)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Take the bar away while a question is asked."""
        if self._bar is None:
            yield
            return
        self._bar.stop()
        try:
            yield
        finally:
            self._bar.start()


@contextmanager
def stages(total: int | None = None, *, quiet: bool = False) -> Iterator[Stages]:
    """Show the stage that is under way of ``total``."""
    screen = Console(stderr=True)
    if quiet or not screen.is_terminal:
        yield Stages()
        return
    columns = (
        SpinnerColumn(),
        BarColumn(bar_width=20),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=screen, transient=True) as bar:
        yield Stages(bar, total)


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
