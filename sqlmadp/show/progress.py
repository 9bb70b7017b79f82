"""Progress: what is under way and how much is left, on a terminal or in a notebook.

A long task calls back with the name of a stage as it begins.  ``"selecting: 2 of 5 analysts"``
says how far the stage itself is: two fifths of it are done.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

Report = Callable[[str], None]

_PART = re.compile(r"([0-9]+) of ([0-9]+)")


class Stages:
    """A callback for the name of each stage as it begins; shows it where there is a bar."""

    def __init__(self, bar: Progress | None = None, total: int | None = None) -> None:
        self._bar = bar
        self._task = None if bar is None else bar.add_task("starting", total=total)
        self._begun: list[str] = []

    def __call__(self, stage: str) -> None:
        """Show the stage that begins, or how far it is."""
        name, _, details = stage.partition(":")
        if name not in self._begun[-1:]:
            self._begun.append(name)
        found = _PART.search(details)
        part = int(found[1]) / max(int(found[2]), 1) if found else 0.0
        self._show(stage, len(self._begun) - 1 + part)

    def _show(self, stage: str, done: float) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=stage, completed=done, refresh=True)

    def part(self, stage: str) -> Callable[[int, int], None]:
        """Return a callback that shows how much of one stage is done."""
        return lambda done, total: self(f"{stage}: {done} of {total}")

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


class NotebookStages(Stages):
    """Stages below the cell of a notebook, in one line that changes."""

    def __init__(self, display: Callable[..., Any], total: int) -> None:
        super().__init__()
        self._total = total
        self._handle = display({"text/plain": "starting"}, raw=True, display_id=True)

    def _show(self, stage: str, done: float) -> None:
        bar = f'<progress value="{done:.2f}" max="{self._total}"></progress> {escape(stage)}'
        self._handle.update({"text/html": bar, "text/plain": stage}, raw=True)


@contextmanager
def shown_progress(progress: Report | bool, total: int) -> Iterator[Report]:
    """Return the callback for ``progress``: itself; a bar if it is True; silence if it is False."""
    if not isinstance(progress, bool):
        yield progress
    elif progress and (display := _notebook()) is not None:
        shown = NotebookStages(display, total)
        yield shown
        shown._show("done", total)
    else:
        with stages(total, quiet=not progress) as bar:
            yield bar


def _notebook() -> Callable[..., Any] | None:
    """Return how to display something in the notebook that this runs in, if it does."""
    python = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if python is None or not hasattr(python, "kernel"):
        return None
    from IPython.display import display  # noqa: PLC0415 - It is there already.

    return display


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
