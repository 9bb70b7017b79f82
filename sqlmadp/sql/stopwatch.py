"""A stopwatch: interrupts what runs in DuckDB after some seconds of CPU time.

CPU time of the thread that asked, not time on the clock, so that a busy machine refuses nothing
that an idle one accepts.  DuckDB notices an interruption between batches of rows; that a single
call is short is seen to before (see ``growth``).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import duckdb

from sqlmadp.errors import OperationalError


class TooSlowError(Exception):
    """Something took longer than the limits allow."""


@contextmanager
def interrupted(connection: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    """Interrupt what runs on a connection after ``seconds`` of CPU time, as TooSlowError."""
    done, clock = threading.Event(), _clock()
    end = clock() + seconds

    def watch() -> None:
        while (left := end - clock()) > 0:
            if done.wait(max(left, 0.01)):
                return
        connection.interrupt()

    watcher = threading.Thread(target=watch, daemon=True)
    try:
        watcher.start()
    except RuntimeError:
        raise OperationalError(
            "this machine starts no more threads, and one is needed to end what takes too long. "
            "Run it again when less is running: a release that was recorded returns the same "
            "answers and spends nothing"
        ) from None
    try:
        yield
    except duckdb.InterruptException:
        raise TooSlowError from None
    finally:
        done.set()
        watcher.join()


def _clock() -> Callable[[], float]:
    """Return what tells the CPU time of this thread to any other; of the process if it cannot."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.process_time
    number = time.pthread_getcpuclockid(threading.get_ident())
    return lambda: time.clock_gettime(number)
