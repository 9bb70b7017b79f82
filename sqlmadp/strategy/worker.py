"""A process that selects strategies for others: reads workloads, writes into a cache.

    python -m sqlmadp.strategy.worker CACHE

Each line of standard input names a file with a workload; each is answered with a line when its
strategy is in the cache, or when there is none.  The process ends with its input.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from sqlmadp.errors import Error
from sqlmadp.strategy.cache import StrategyCache, unpacked
from sqlmadp.strategy.select import select
from sqlmadp.workload.workload import Workload


def main(cache: StrategyCache) -> None:
    """Select a strategy for every workload that is named."""
    for line in sys.stdin:
        with np.load(line.strip(), allow_pickle=False) as file:
            workload = Workload(tuple(unpacked(file)))
        try:
            select(workload, cache=cache)
        except Error:
            answer = "none"  # Whoever needs it will try, and say why.
        else:
            answer = "done"
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(StrategyCache(Path(sys.argv[1])))
