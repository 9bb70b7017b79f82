"""Weighted Utilitarian: the weight multiplies an error, so rows take its square root."""

from fractions import Fraction

import numpy as np
import pytest
from small_tables import block, finest, written_out

from sqlmadp.mechanism.base import read_by_all
from sqlmadp.mechanism.fairness import outcome
from sqlmadp.mechanism.utilitarian import Utilitarian
from sqlmadp.mechanism.weighted_utilitarian import WeightedUtilitarian
from sqlmadp.strategy.integer import S
from sqlmadp.strategy.select import select
from sqlmadp.workload.workload import Workload, stacked

SIZES = {"x": 9}
CELLS = Workload.of([block(finest("x", sizes=SIZES), np.eye(9))])
TOTAL = Workload.of([block(finest("x", sizes=SIZES), np.ones((1, 9)))])


def rows_of(strategy):
    rows = written_out(strategy.blocks, SIZES)
    return rows // np.gcd.reduce(rows, axis=None)


@pytest.mark.parametrize("shares", [(1, 1), (1, 3), (3, 2)])
def test_rows_are_scaled_by_the_square_root_of_the_weight(shares):
    shares = [Fraction(share, sum(shares)) for share in shares]
    # Alone: n / s^2 for the histogram, 1 / s^2 for the total, times 2 / epsilon^2.
    weights = [float(shares[0]) ** 2 / 9, float(shares[1]) ** 2]
    found = rows_of(WeightedUtilitarian().select([CELLS, TOTAL], shares))

    def selected(power):
        scaled = [
            w.scaled(weight**power) for w, weight in zip([CELLS, TOTAL], weights, strict=True)
        ]
        return rows_of(select(stacked(scaled)))

    assert found.shape == selected(1 / 2).shape
    np.testing.assert_allclose(found, selected(1 / 2), rtol=1e-2)
    wrong = selected(1)
    assert found.shape != wrong.shape or not np.allclose(found, wrong, rtol=1e-2)


def test_the_sum_of_ratios_is_less_than_with_other_weights():
    workloads, shares = [CELLS, TOTAL], [Fraction(1, 2)] * 2
    ratios = outcome(WeightedUtilitarian(), workloads, shares, Fraction(1)).ratios
    others = outcome(Utilitarian(), workloads, shares, Fraction(1)).ratios
    squared = [CELLS.scaled(1 / 9), TOTAL]
    traps = outcome(_Fixed(select(stacked(squared)).blocks), workloads, shares, Fraction(1)).errors
    alone = [72.0, 8.0]
    assert sum(ratios) < sum(others)
    assert sum(ratios) < sum(trap / each for trap, each in zip(traps, alone, strict=True))


class _Fixed:
    """A mechanism that measures given blocks whatever is asked."""

    def __init__(self, blocks):
        self._blocks = blocks

    def select(self, workloads, shares):
        return read_by_all(self._blocks, S, len(workloads))


def test_analysts_alike_in_all_are_weighted_alike():
    shares = [Fraction(1, 2)] * 2
    weighted = WeightedUtilitarian().select([CELLS, CELLS], shares)
    plain = Utilitarian().select([CELLS, CELLS], shares)
    np.testing.assert_array_equal(rows_of(weighted), rows_of(plain))
