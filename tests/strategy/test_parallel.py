"""Strategies that several processes select are those that one would."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from interrupts import started
from small_tables import block, finest, histogram

from sqlmadp.strategy import parallel
from sqlmadp.strategy import select as selecting
from sqlmadp.strategy.cache import StrategyCache, packed
from sqlmadp.strategy.parallel import select_all
from sqlmadp.strategy.select import select
from sqlmadp.strategy.worker import ALL
from sqlmadp.workload.workload import Workload

RANGES = np.tril(np.ones((5, 5)))
WORKLOADS = [
    Workload.of([block(finest("a"), RANGES[: 2 + number % 4]), histogram("b")])
    for number in range(5)
]


@pytest.fixture
def forgetful(monkeypatch):
    monkeypatch.setattr(selecting, "_known", {})


def matrices(workload, cache=None):
    return [each.matrix.toarray().tolist() for each in select(workload, cache=cache).blocks]


def test_processes_select_what_one_would_and_tell_how_far_they_are(
    tmp_path, forgetful, monkeypatch
):
    expected = [matrices(workload) for workload in WORKLOADS]
    monkeypatch.setattr(selecting, "_known", {})
    told = []
    cache = StrategyCache(tmp_path)
    select_all(WORKLOADS, cache, processes=2, progress=lambda *given: told.append(given))
    assert told[0] == (0, 4)
    assert told[-1] == (4, 4)  # The fifth asks the same as the first.
    assert [matrices(workload, cache) for workload in WORKLOADS] == expected
    assert all(path.name.startswith("strategy-") for path in tmp_path.iterdir())


def test_processes_import_nothing_from_the_folder_they_run_in(tmp_path, forgetful, monkeypatch):
    (tmp_path / "numpy.py").write_text("raise SystemExit('the wrong numpy')")
    monkeypatch.chdir(tmp_path)
    cache = StrategyCache(tmp_path / "cache")
    told = []
    select_all(WORKLOADS, cache, processes=2, progress=lambda *given: told.append(given))
    assert told[-1] == (4, 4)


def test_an_interrupt_ends_the_processes_and_leaves_the_cache_valid(
    tmp_path, forgetful, monkeypatch
):
    started, start = [], parallel._started
    monkeypatch.setattr(
        parallel, "_started", lambda cache: started.append(start(cache)) or started[-1]
    )

    def interrupt(done, total):
        if done:
            raise KeyboardInterrupt

    cache = StrategyCache(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        select_all(WORKLOADS, cache, processes=2, progress=interrupt)
    assert all(
        isinstance(worker, subprocess.Popen) and worker.poll() is not None for worker in started
    )
    kept = [cache.load(workload.fingerprint, workload) for workload in WORKLOADS]
    assert any(strategy is not None for strategy in kept)
    monkeypatch.setattr(selecting, "_known", {})
    for workload in WORKLOADS:
        assert select(workload, cache=cache).error > 0


SELECTING = """
import sys
from pathlib import Path

sys.path[:0] = [{tests!r}, {here!r}]
from test_parallel import many
from sqlmadp.strategy.cache import StrategyCache, packed
from sqlmadp.strategy.parallel import select_all

told = lambda done, total: print(done, total, flush=True)
select_all(many(), StrategyCache(Path(sys.argv[1])), processes=2, progress=told)
"""


def many():
    """Workloads that take a while, all different."""
    random = np.random.default_rng(7)
    rows = [random.integers(0, 2, (4, 30)) for _ in range(60)]
    return [Workload.of([block(finest("a", "b", "c"), each), histogram("a")]) for each in rows]


def children(pid):
    """The processes that one process has started and that are alive."""
    found = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in found.read_text().split()] if found.exists() else []


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks into /proc")
def test_ctrl_c_ends_all_processes_and_what_is_in_the_cache_is_whole(tmp_path, forgetful):
    here = Path(__file__).parent
    program = SELECTING.format(tests=str(here.parent), here=str(here))
    running = started(
        [sys.executable, "-c", program, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    while int(running.stdout.readline().split()[0]) < 3:
        pass
    workers = children(running.pid)
    os.kill(running.pid, signal.SIGINT)
    running.stdout.close()
    assert running.wait(timeout=30) != 0
    assert len(workers) == 2
    assert not any(Path(f"/proc/{worker}/cmdline").exists() for worker in workers)
    cache = StrategyCache(tmp_path)
    kept = [cache.load(workload.fingerprint, workload) for workload in many()]
    assert 3 <= sum(strategy is not None for strategy in kept) < len(kept)
    files = [path for path in tmp_path.iterdir() if path.is_file()]
    assert len(files) == sum(strategy is not None for strategy in kept)  # No half of a file.
    for workload, strategy in zip(many(), kept, strict=True):
        if strategy is not None:
            assert select(workload, cache=cache).error == strategy[1]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks into /proc")
def test_processes_end_in_the_middle_of_a_search_when_their_caller_is_killed(tmp_path):
    file = tmp_path / "long.npz"
    rows = np.random.default_rng(5).integers(0, 2, (3000, 3000))
    asked = Workload.of([block(finest("x", sizes={"x": 3000}), rows)])
    np.savez(file, **packed(asked.by_scope))
    worker = parallel._started(StrategyCache(tmp_path / "cache"))
    worker.stdin.write(f"{ALL} {file}\n")
    worker.stdin.flush()
    with pytest.raises(subprocess.TimeoutExpired):
        worker.wait(timeout=3)  # It is searching.
    worker.stdin.close()
    worker.stdout.close()
    assert worker.wait(timeout=10) == 0


def test_the_searches_of_one_long_workload_run_side_by_side(tmp_path, forgetful, monkeypatch):
    monkeypatch.setattr(selecting, "LONG", 3)
    asked = Workload.of(
        [block(finest("a", "b"), np.tri(15)), block(finest("b", "c"), np.tri(6)), histogram("c")]
    )
    expected = matrices(asked)
    assert selecting.starts(asked) > 2
    monkeypatch.setattr(selecting, "_known", {})
    told = []
    cache = StrategyCache(tmp_path)
    monkeypatch.setattr(selecting, "_by_layout", lambda _: pytest.fail("searched by the caller"))
    select_all([asked], cache, processes=2, progress=lambda *given: told.append(given))
    assert told[-1] == (selecting.starts(asked),) * 2
    assert matrices(asked, cache) == expected
    assert len(list(tmp_path.iterdir())) == 1  # What single searches left is gone.


def test_a_plan_run_again_takes_its_strategies_from_the_cache(tmp_path, forgetful, monkeypatch):
    cache = StrategyCache(tmp_path)
    select_all(WORKLOADS, cache)
    monkeypatch.setattr(selecting, "_known", {})
    monkeypatch.setattr(selecting, "_search", lambda *_: pytest.fail("searched again"))
    told = []
    select_all(WORKLOADS, cache, processes=2, progress=lambda *given: told.append(given))
    assert [select(workload, cache=cache).error > 0 for workload in WORKLOADS] == [True] * 5


def test_what_a_process_cannot_select_is_selected_by_the_caller(tmp_path, forgetful, monkeypatch):
    monkeypatch.setattr(parallel, "_feed", lambda worker, tasks, answers: answers.put(False))
    select_all(WORKLOADS, None, processes=2)
    assert all(selecting.is_known(workload) for workload in WORKLOADS)
