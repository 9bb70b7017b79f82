"""compare(): mechanisms on plain matrices."""

from fractions import Fraction

import numpy as np
import pytest

from sqlmadp import compare
from sqlmadp.errors import ProgrammingError
from sqlmadp.mechanism import MECHANISMS

HISTOGRAM, TOTAL = np.eye(11), np.ones((1, 11))


def test_the_papers_example_has_the_papers_errors():
    results = compare([HISTOGRAM, HISTOGRAM, TOTAL], epsilon=1)
    for name in ("independent", "waterfilling", "utilitarian"):
        assert results[name].alone == pytest.approx([198, 198, 18], rel=1e-3)
    assert results["independent"].errors == pytest.approx([198, 198, 18], rel=1e-3)
    assert results["identity"].errors == pytest.approx([22, 22, 22], rel=1e-3)
    assert results["waterfilling"].errors == pytest.approx([46.2, 46.2, 13.2], rel=1e-3)
    assert results["waterfilling"].total_error == pytest.approx(105.6, rel=1e-3)


def test_unequal_shares_are_taken_in_proportion():
    halves = compare([HISTOGRAM, TOTAL], epsilon=1, shares=["3/4", "1/4"])["independent"]
    assert halves.errors == pytest.approx([22 / (3 / 4) ** 2, 2 / (1 / 4) ** 2])
    for shares in ([3, 1], [0.75, 0.25], np.array([6.0, 2.0]), [Fraction(3, 8), Fraction(1, 8)]):
        again = compare([HISTOGRAM, TOTAL], epsilon=1, shares=shares)
        assert again["independent"].errors == halves.errors
        assert again["waterfilling"].sharing_ratio <= 1 + 1e-9


def test_shares_without_a_small_common_denominator_are_taken_to_the_nearest_part():
    shares = [0.123456789, 0.3, 1 - 0.423456789]
    results = compare([HISTOGRAM, TOTAL, np.tri(11)], epsilon=1, shares=shares)
    assert results["independent"].errors[1] == pytest.approx(2 / 0.3**2, rel=1e-3)
    assert results["waterfilling"].sharing_ratio <= 1 + 1e-9
    assert results["waterfilling"].worst_interference <= 1 + 1e-9


def test_errors_grow_with_the_inverse_square_of_epsilon():
    for epsilon in (0.1, "1/10", Fraction(1, 10)):
        results = compare([HISTOGRAM, TOTAL], epsilon=epsilon, mechanisms=["identity"])
        assert results["identity"].errors == pytest.approx([2200, 2200])


def test_only_the_mechanisms_asked_for_come_back_in_their_order():
    asked = ["waterfilling", "identity"]
    assert list(compare([TOTAL], epsilon=1, mechanisms=asked)) == asked
    assert list(compare([TOTAL], epsilon=1)) == list(MECHANISMS)


def test_lists_of_numbers_are_matrices_too():
    results = compare([[[1, 0], [0, 1]], [[1, 1]]], epsilon=1)
    assert results["identity"].errors == pytest.approx([4, 4])


@pytest.mark.parametrize(
    ("workloads", "options", "message"),
    [
        ([], {}, "at least one workload"),
        ([np.eye(2), np.eye(3)], {}, "same number of columns"),
        ([np.ones(3)], {}, "workload 0 must be a matrix of finite numbers"),
        ([np.eye(2), np.zeros((0, 2))], {}, "workload 1 must be a matrix"),
        ([np.zeros((2, 0))], {}, "workload 0 must be a matrix"),
        ([[[1, 2], [3]]], {}, "workload 0 must be a matrix"),
        ([[["a", "b"]]], {}, "workload 0 must be a matrix"),
        ([np.array([[1.0, np.nan]])], {}, "finite numbers"),
        ([np.array([[1.0, np.inf]])], {}, "finite numbers"),
        ([np.zeros((2, 3))], {}, "workload 0 asks nothing"),
        ([np.eye(2)], {"epsilon": 0}, "epsilon must be a number above 0, not 0"),
        ([np.eye(2)], {"epsilon": -1}, "epsilon must be a number above 0, not -1"),
        ([np.eye(2)], {"epsilon": float("nan")}, "epsilon must be a number above 0, not nan"),
        ([np.eye(2)], {"epsilon": float("inf")}, "epsilon must be a number above 0"),
        ([np.eye(2)], {"epsilon": "much"}, "epsilon must be a number above 0, not 'much'"),
        ([np.eye(2)], {"epsilon": None}, "epsilon must be a number above 0, not None"),
        ([np.eye(2)], {"epsilon": "1/0"}, "epsilon must be a number above 0"),
        ([np.eye(2)], {"shares": [1, 1]}, "1 workloads need as many shares, not 2"),
        ([np.eye(2)], {"shares": []}, "1 workloads need as many shares, not 0"),
        ([np.eye(2)] * 2, {"shares": [1, 0]}, "a share must be a number above 0, not 0"),
        ([np.eye(2)] * 2, {"shares": [1, "x"]}, "a share must be a number above 0, not 'x'"),
        ([np.eye(2)], {"mechanisms": ["magic"]}, "unknown mechanism 'magic'; known: independent"),
    ],
)
def test_bad_input_is_refused_with_what_is_wrong(workloads, options, message):
    with pytest.raises(ProgrammingError, match=message):
        compare(workloads, **({"epsilon": 1} | options))
