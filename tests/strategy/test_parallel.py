"""Strategies that several processes select are those that one would."""

import subprocess

import numpy as np
import pytest
from small_tables import block, finest, histogram

from sqlmadp.strategy import parallel
from sqlmadp.strategy import select as selecting
from sqlmadp.strategy.cache import StrategyCache
from sqlmadp.strategy.parallel import select_all
from sqlmadp.strategy.select import select
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
    assert not [path for path in tmp_path.iterdir() if path.suffix != ".npz"]


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
    kept = [cache.load(workload.fingerprint) for workload in WORKLOADS]
    assert any(strategy is not None for strategy in kept)
    monkeypatch.setattr(selecting, "_known", {})
    for workload in WORKLOADS:
        assert select(workload, cache=cache).error > 0


def test_a_plan_run_again_takes_its_strategies_from_the_cache(tmp_path, forgetful, monkeypatch):
    cache = StrategyCache(tmp_path)
    select_all(WORKLOADS, cache)
    monkeypatch.setattr(selecting, "_known", {})
    monkeypatch.setattr(selecting, "_search", lambda _: pytest.fail("searched again"))
    told = []
    select_all(WORKLOADS, cache, processes=2, progress=lambda *given: told.append(given))
    assert [select(workload, cache=cache).error > 0 for workload in WORKLOADS] == [True] * 5


def test_what_a_process_cannot_select_is_selected_by_the_caller(tmp_path, forgetful, monkeypatch):
    monkeypatch.setattr(parallel, "_feed", lambda worker, files, answers: answers.put(False))
    select_all(WORKLOADS, None, processes=2)
    assert all(selecting.is_known(workload) for workload in WORKLOADS)
