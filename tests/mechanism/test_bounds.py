"""Totals that a mechanism's total error is compared with."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from sqlmadp.mechanism.bounds import bounds, singular_values
from sqlmadp.mechanism.fairness import outcome
from sqlmadp.mechanism.utilitarian import Utilitarian
from sqlmadp.mechanism.waterfilling import Waterfilling
from sqlmadp.schema.marginal import Block, Marginal, Partition
from sqlmadp.workload.workload import Workload


def workload(matrix):
    cells = Marginal(("cell",), (Partition.finest(len(matrix[0])),))
    return Workload.of([Block(cells, sparse.csr_array(np.array(matrix, dtype=np.float64)))])


rows = st.lists(st.integers(0, 2), min_size=5, max_size=5).filter(any)
workloads = st.lists(st.lists(rows, min_size=1, max_size=4).map(workload), min_size=1, max_size=3)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(workloads)
def test_no_mechanism_has_less_error_than_the_lower_bound(asked):
    limit = bounds(asked, Fraction(1, 2))
    shares = [Fraction(1, len(asked))] * len(asked)
    for mechanism in (Utilitarian(), Waterfilling()):
        total = outcome(mechanism, asked, shares, Fraction(1, 2)).total_error
        assert total >= limit.lowest * (1 - 1e-9)


def test_the_utilitarian_total_is_that_of_the_mechanism():
    asked = [workload(np.tril(np.ones((8, 8)))), workload([[1] * 8])]
    total = outcome(Utilitarian(), asked, [Fraction(1, 2)] * 2, Fraction(3)).total_error
    assert bounds(asked, Fraction(3)).utilitarian == pytest.approx(total)


def test_singular_values_in_coordinates_are_those_over_cells_by_the_root_of_their_number():
    prefix = np.tril(np.ones((6, 6)))
    expected = np.linalg.svd(prefix, compute_uv=False) / np.sqrt(6)
    np.testing.assert_allclose(np.sort(singular_values(workload(prefix))), np.sort(expected))


def test_the_identity_alone_meets_the_bound():
    asked = [workload(np.eye(4))]
    limit = bounds(asked, Fraction(1))
    assert limit.lowest == pytest.approx(limit.utilitarian)


def test_without_singular_values_there_is_no_bound(monkeypatch):
    monkeypatch.setattr("sqlmadp.mechanism.bounds.MOST_COORDINATES", 3)
    assert bounds([workload(np.eye(4))], Fraction(1)).lowest is None
