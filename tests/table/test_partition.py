"""Partitions of wide columns, kept as runs, are what looking at every value gives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlmadp.table import partition
from sqlmadp.table.partition import Partition, common
from sqlmadp.table.runs import Runs, renumbered


def function(random, count):
    """Return a ramp, a parabola, a threshold, a bent ramp, bins, or a ramp in cents."""
    values, at = np.arange(count, dtype=np.float64), random.integers(count)
    kinds = (
        values,
        (values - at) ** 2 + values,
        (values >= at) * 1.0,
        np.minimum(values, at),
        np.maximum(values - at, 0) * 3,
        values // max(1, at),
        values * 0.01,
    )
    return kinds[random.integers(len(kinds))]


def grouping(random, count):
    """Return one group, stretches, a group in the middle, or every third value."""
    values = np.arange(count)
    kinds = (
        np.zeros(count, dtype=np.int64),
        np.sort(random.integers(0, 4, count)),
        ((values > count // 3) & (values < 2 * count // 3)).astype(np.int64),
        values % 3,
    )
    return kinds[random.integers(len(kinds))]


def made(seed):
    """Return partitions of one column, and their common refinement."""
    random = np.random.default_rng(seed)
    partition._KEPT.clear()
    count = int(random.integers(70, 1500))
    parts = [
        Partition.of_functions(
            np.array([function(random, count) for _ in range(random.integers(1, 4))]),
            grouping(random, count),
        )
        for _ in range(3)
    ]
    return [*parts, common(parts)]


@pytest.mark.parametrize("seed", range(40))
def test_runs_give_the_partition_that_every_value_gives(seed, monkeypatch):
    by_value = made(seed)
    monkeypatch.setattr(partition, "WIDE", 16)
    by_run = made(seed)
    assert [part.key for part in by_run] == [part.key for part in by_value]
    for one, two in zip(by_run, by_value, strict=True):
        assert one == two
        assert one.refines(by_run[0]) == two.refines(by_value[0])
        assert np.array_equal(one.first_values, two.first_values)
        assert abs(one.over(by_run[-1]) - two.over(by_value[-1])).sum() < 1e-9


@pytest.mark.parametrize("seed", range(20))
def test_runs_hold_every_piece_and_step(seed):
    random = np.random.default_rng(seed)
    pieces = Partition.flat(np.sort(random.integers(0, 5, 60))).pieces
    steps = np.cumsum(random.integers(0, 2, 60) * random.integers(0, 3))
    runs = Runs.of(np.arange(60), pieces, steps, 60)
    found = runs.at(np.arange(60))
    assert np.array_equal(found[0], pieces)
    assert np.array_equal(found[1], steps)
    assert all(map(np.array_equal, runs.longest.arrays, runs.arrays))


def test_a_sum_over_ten_million_values_is_kept_as_one_run():
    ramp = Partition.of_functions(np.arange(10_000_001.0)[None])
    dear = Partition.flat((np.arange(10_000_001) >= 100_000).astype(np.int64))
    both = common([ramp, dear])
    assert [len(part.runs.starts) for part in (ramp, dear, both)] == [1, 2, 2]
    assert both.size == 4
    assert both.refines(ramp)
    assert both.refines(dear)


@given(st.lists(st.integers(-3, 8)) | st.lists(st.integers(-(2**60), 2**60)))
def test_labels_are_numbered_by_their_first_place(labels):
    first = list(dict.fromkeys(labels))
    expected = [first.index(label) for label in labels]
    np.testing.assert_array_equal(renumbered(np.array(labels, dtype=np.int64)), expected)
