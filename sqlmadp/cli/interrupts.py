"""Ctrl-C that is not lost: whoever pressed it does not want anything to be spent.

A library may swallow an interrupt, while it is imported say, and the work would go on to the end.
So the signal is remembered too, and heeded before the next stage begins.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

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


def heeding(progress: Callable[[str], None]) -> Callable[[str], None]:
    """Return what tells of a stage, unless there was an interrupt: then no stage begins."""

    def told(stage: str) -> None:
        if _pressed.is_set():
            raise KeyboardInterrupt
        progress(stage)

    return told
