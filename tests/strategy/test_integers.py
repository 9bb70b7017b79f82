"""Strategies of whole numbers: every column sums to the total, and no weight is negative."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlmadp.strategy.integers import grain_of, rounded
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows


def parabola(values):
    """Return the partition of a column whose squares are summed."""
    pieces = np.zeros(values, np.int64)
    return Partition(pieces, np.arange(values), np.array([2]), values - 1)


@pytest.mark.parametrize("weight", [0.4, 0.5, 0.01, 1e-6])
def test_blocks_of_huge_units_take_no_more_than_their_weight(weight):
    wide = Rows(("a", "d"), (parabola(106), parabola(3601)), 1.0)
    other = Rows(("e",), (Partition.finest(3),), 1.0)
    blocks, total = rounded([wide, other], np.array([weight, 1 - weight]), [None, None])
    whole = [int(block.weight) for block in blocks]
    assert min(whole) > 0
    assert sum(whole) == total
    step = grain_of(wide, total)
    assert whole[0] % step == 0
    assert abs(whole[0] - weight * total) <= step


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 2**32), st.integers(1, 80))
def test_weights_are_multiples_of_their_grain_above_0_and_sum_to_the_total(seed, count):
    random = np.random.default_rng(seed)
    parts = [Partition.finest(3), *(parabola(size) for size in (3, 10, 106, 3601))]
    blocks = [
        Rows(("a", "d"), tuple(parts[n] for n in random.integers(len(parts), size=2)), 1.0)
        for _ in range(count)
    ]
    weights = 10.0 ** random.uniform(-9, 0, count)
    tops = [
        None
        if random.random() < 0.5
        else random.random((2, block.size)) * 10 ** random.uniform(-3, 3)
        for block in blocks
    ]
    found, total = rounded(blocks, weights, tops)
    columns = [np.asarray(block.matrix.sum(axis=0)).reshape(-1) for block in found]
    assert all((column == column[0]).all() for column in columns)
    assert sum(int(column[0]) for column in columns) == total
    for before, block, column in zip(blocks, found, columns, strict=True):
        assert column[0] > 0
        assert block.matrix.data.min() > 0
        assert not (block.matrix.data % grain_of(before, total)).any()


def test_two_heavy_blocks_give_way_to_many_light_ones():
    blocks = [Rows(("a", "d"), (parabola(106), parabola(3601)), 1.0)] * 302
    found, total = rounded(blocks, np.array([1.0, 1.0, *[1e-9] * 300]), [None] * 302)
    whole = [int(block.weight) for block in found]
    assert min(whole) > 0
    assert sum(whole) == total
