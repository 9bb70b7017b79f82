"""Variances under strategies of cells of products, worked out once for many weights."""

from fractions import Fraction

import numpy as np
import pytest
from small_tables import SIZES, block, finest, histogram, total

from sqlmadp.mechanism import cell_totals
from sqlmadp.mechanism.base import JointStrategy, read_by_all
from sqlmadp.mechanism.cell_totals import CellTotals
from sqlmadp.mechanism.fairness import expected_errors, noise_variance
from sqlmadp.schema.marginal import CellBlock, Marginal, Partition
from sqlmadp.workload.workload import Workload

ASKING = [
    Workload.of([histogram("a"), total()]),
    Workload.of([histogram("b", "c")]),
    Workload.of([block(finest("a"), np.tri(SIZES["a"]))]),
]
HALVES = Marginal(("a",), (Partition.of(np.array([0, 0, 1, 1, 1])),))


@pytest.fixture(autouse=True)
def large(monkeypatch):
    """Let few coordinates count as many."""
    monkeypatch.setattr(cell_totals, "FEW_COORDINATES", 3)


def products(*weights):
    marginals = (finest("a", "b"), HALVES, finest("b", "c"))
    blocks = [CellBlock(m, w) for m, w in zip(marginals, weights, strict=True)]
    return read_by_all(blocks, sum(weights), len(ASKING))


def test_everybodys_errors_are_those_of_a_factor_for_all_weights():
    many = CellTotals(ASKING)
    for weights in ((5, 3, 2), (1, 7, 4), (1, 1, 900)):
        strategy = products(*weights)
        variance = noise_variance(strategy.sensitivity, Fraction(1))
        found = [variance * each for each in many.of(strategy, ASKING)]
        expected = expected_errors(strategy, ASKING, Fraction(1))
        np.testing.assert_allclose(found, expected, rtol=1e-9)
        assert many.of(strategy, ASKING[1:]) == many.of(strategy, ASKING)[1:]


def test_the_parts_are_found_once_for_the_same_products(monkeypatch):
    made = []
    components = cell_totals.Components
    monkeypatch.setattr(
        cell_totals, "Components", lambda *given: made.append(given) or components(*given)
    )
    many = CellTotals(ASKING)
    assert all(many.of(products(*weights), ASKING) for weights in ((5, 3, 2), (1, 7, 4)))
    assert len(made) == 1


def test_strategies_of_another_form_are_left_to_others():
    many = CellTotals(ASKING)
    strategy = products(5, 3, 2)
    cells = CellBlock(finest("a", "b"), 5)
    assert many.of(read_by_all([cells], 5, 3), ASKING) is None
    written_out = block(HALVES, 3 * np.eye(2), np.int64)
    assert many.of(read_by_all([cells, written_out], 8, 3), ASKING) is None
    some = JointStrategy(strategy.blocks, strategy.sensitivity, ((0,), (2,), (0,)))
    assert many.of(some, ASKING) is None
    assert many.of(read_by_all([cells, CellBlock(HALVES, 3)], 8, 3), ASKING) is None
