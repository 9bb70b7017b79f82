"""Many searches at once: one process a core, each with one thread for linear algebra.

Each workload is a search, and a long one is several: one for every choice of scopes to measure.

Processes are started as programs of their own (`worker`), so nothing of the caller is copied or run
again in them, and they hand strategies over through the cache on disk.  Files appear there whole or
not at all; whoever is interrupted finds what was finished in the meantime, and no half of a file.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

import numpy as np

from sqlmadp.errors import NotSupportedError
from sqlmadp.strategy.cache import StrategyCache, packed
from sqlmadp.strategy.select import is_known, select, starts
from sqlmadp.strategy.worker import ALL
from sqlmadp.workload.workload import Workload

FEW = 8
"""Workloads up to which starting processes takes longer than selecting."""

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""What linear algebra libraries read the number of their threads from."""

Progress = Callable[[int, int], None]
"""Told how many strategies are selected, and of how many."""


def select_all(
    workloads: Sequence[Workload],
    cache: StrategyCache | None,
    *,
    processes: int | None = None,
    progress: Progress = lambda done, total: None,
) -> None:
    """Select a strategy for each workload, so that `select` finds it; equal ones are one."""
    missing = {
        workload.fingerprint: workload
        for workload in workloads
        if not is_known(workload, cache=cache)
    }
    searches = {fingerprint: starts(workload) for fingerprint, workload in missing.items()}
    worth = sum(FEW * many if many > 1 else 1 for many in searches.values())
    count = processes or min(len(os.sched_getaffinity(0)), worth // FEW)
    if count < 2:
        for done, workload in enumerate(missing.values()):
            progress(done, len(missing))
            with suppress(NotSupportedError):  # Whoever needs it will say why.
                select(workload, cache=cache)
        return
    with tempfile.TemporaryDirectory() as folder:
        shared = cache or StrategyCache(Path(folder) / "strategies")
        tasks: SimpleQueue[str] = SimpleQueue()
        for place, (fingerprint, workload) in enumerate(missing.items()):
            file = Path(folder) / f"{place}.npz"
            np.savez(file, **packed(workload.by_scope))
            many = searches[fingerprint]
            for number in range(many) if many > 1 else (ALL,):
                tasks.put(f"{number} {file}")
        _run(tasks, shared, count, sum(searches.values()), progress)
        for workload in missing.values():
            with suppress(NotSupportedError):
                select(workload, cache=shared)  # From the cache, or anew if there is none.


def _run(
    tasks: SimpleQueue[str], cache: StrategyCache, count: int, total: int, progress: Progress
) -> None:
    """Let ``count`` processes work through the tasks; whatever happens, none outlives the call."""
    answers: SimpleQueue[bool] = SimpleQueue()
    with ExitStack() as ends:
        for _ in range(count):
            worker = ends.enter_context(_started(cache))
            feeding = Thread(target=_feed, args=(worker, tasks, answers), daemon=True)
            feeding.start()
            ends.callback(feeding.join)
            ends.callback(worker.kill)  # The last to be called back is the first to happen.
        done, running = 0, count
        while running:
            progress(done, total)
            finished = answers.get()
            done, running = (done + 1, running) if finished else (done, running - 1)


def _started(cache: StrategyCache) -> subprocess.Popen[str]:
    importable = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen(
        # -P: never a module that happens to lie in the folder that the command runs in.
        [sys.executable, "-P", "-m", "sqlmadp.strategy.worker", str(cache.directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | dict.fromkeys(THREADS, "1") | {"PYTHONPATH": importable},
        start_new_session=True,  # Ctrl-C reaches the caller alone, who then ends the processes.
    )


def _feed(
    worker: subprocess.Popen[str], tasks: SimpleQueue[str], answers: SimpleQueue[bool]
) -> None:
    """Hand tasks to one process, one at a time; False means that it takes no more."""
    if worker.stdin is None or worker.stdout is None:
        raise ValueError("a worker is started with pipes")
    try:
        while True:
            worker.stdin.write(f"{tasks.get_nowait()}\n")
            worker.stdin.flush()
            if not worker.stdout.readline():
                break  # The process died; what it left undone is selected by the caller.
            answers.put(True)
    except (Empty, OSError):
        pass
    answers.put(False)
