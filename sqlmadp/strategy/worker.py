"""A process that selects strategies for others: reads workloads, writes into a cache.

    python -m sqlmadp.strategy.worker CACHE

Each line of standard input has the number of a search and the name of a file with a workload; each
is answered with a line when the strategy is in the cache, or when there is none.  The number -1
means all searches, and the best of what they find.  The process ends with its input, in the
middle of a search too: whoever asked for it is gone.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

import numpy as np

from sqlmadp.errors import Error
from sqlmadp.strategy.cache import StrategyCache, unpacked
from sqlmadp.strategy.select import search_start, select
from sqlmadp.workload.workload import Workload

ALL = "-1"
"""Stands for all searches of a workload."""


def main(cache: StrategyCache) -> None:
    """Select a strategy for every workload that is named."""
    tasks: SimpleQueue[str] = SimpleQueue()
    Thread(target=_read, args=(tasks,), daemon=True).start()
    while True:
        number, _, name = tasks.get().strip().partition(" ")
        with np.load(name, allow_pickle=False) as file:
            workload = Workload(tuple(unpacked(file)))
        try:
            if number == ALL:
                select(workload, cache=cache)
            else:
                search_start(workload, int(number), cache)
        except Error:
            answer = "none"  # Whoever needs it will try, and say why.
        else:
            answer = "done"
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


def _read(tasks: SimpleQueue[str]) -> None:
    """Hand on every line, and end the process with the last one."""
    for line in sys.stdin:
        tasks.put(line)
    os._exit(0)


if __name__ == "__main__":
    main(StrategyCache(Path(sys.argv[1])))
