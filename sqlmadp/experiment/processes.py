"""Processes that share work out, and that Ctrl-C ends without a word.

They are spawned, since other threads of this process may hold locks that a fork would copy.  An
interrupt from the keyboard reaches every process.  There it ends the work, at once and silently,
and what there is to say is left to the caller.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import resource_tracker


@contextmanager
def pool(processes: int | None) -> Iterator[ProcessPoolExecutor]:
    """Give a pool that ends with the block; what was not begun by then is dropped.

    Work is submitted inside ``starting``.
    """
    context = multiprocessing.get_context("spawn")
    made = ProcessPoolExecutor(processes, mp_context=context, initializer=_die_silently)
    try:
        yield made
    finally:
        made.shutdown(cancel_futures=True)


@contextmanager
def starting() -> Iterator[None]:
    """Let interrupts wait for a moment; a process that is started meanwhile lets them wait too.

    Otherwise one that arrives while it imports its modules would be told as a traceback.
    """
    resource_tracker.ensure_running()  # Starting it would let them through again.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _die_silently() -> None:
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # As under nohup: then go on.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
