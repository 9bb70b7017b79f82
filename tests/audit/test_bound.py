"""A bound is exact, chosen on one half and proven on the other."""

import math

import numpy as np
import pytest
from scipy import stats

from sqlmadp.audit.bound import clopper_pearson, lower_bound


def test_no_success_in_n_trials_bounds_the_probability_by_the_rule_of_powers():
    low, high = clopper_pearson(np.array([0, 50]), 50, confidence=0.999)
    assert low[0] == 0
    assert high[1] == 1
    assert high[0] == pytest.approx(1 - 0.001 ** (1 / 50))
    assert low[1] == pytest.approx(0.001 ** (1 / 50))


@pytest.mark.parametrize("probability", [0.01, 0.3, 0.5, 0.97])
def test_each_end_misses_the_truth_no_more_often_than_stated(probability):
    size = 200
    counts = np.arange(size + 1)
    low, high = clopper_pearson(counts, size, confidence=0.99)
    weights = stats.binom(size, probability).pmf(counts)
    assert weights[low > probability].sum() <= 0.01
    assert weights[high < probability].sum() <= 0.01


def test_an_event_that_only_one_half_shows_proves_nothing():
    # The first halves are told apart perfectly, the second halves are alike.
    mine = np.array([[1]] * 500 + [[0]] * 500)
    theirs = np.array([[0]] * 1000)
    bound = lower_bound(mine, theirs, np.array([1.0]), np.array([0.0]), confidence=0.999)
    assert bound.epsilon == 0


def test_tables_that_are_told_apart_for_certain_prove_as_much_as_the_samples_allow():
    mine, theirs = np.ones((2000, 1), dtype=np.int64), np.zeros((2000, 1), dtype=np.int64)
    bound = lower_bound(mine, theirs, np.array([1.0]), np.array([0.0]), confidence=0.999)
    miss = 0.0005 ** (1 / 1000)
    assert bound.epsilon == pytest.approx(math.log(miss / (1 - miss)), rel=1e-6)


def test_the_same_samples_prove_nothing():
    samples = np.arange(2000).reshape(-1, 2) % 7
    exact = np.array([1.0, 2.0]), np.array([1.0, 3.0])
    assert lower_bound(samples, samples, *exact, confidence=0.999).epsilon == 0
