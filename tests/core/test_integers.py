"""Strategies of whole numbers: every column sums to the total, and no weight is negative."""

import numpy as np
import pytest

from sqlmadp.core.integers import rounded
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
    assert whole[0] / total == pytest.approx(weight, rel=1e-3, abs=1 / total)
