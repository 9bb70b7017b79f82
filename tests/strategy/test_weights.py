"""Weights of blocks: the search for them keeps to finite errors."""

import numpy as np
import pytest

from sqlmadp.strategy.weights import TRIED_WEIGHT, _with_one_more, error_of, few_weights


class Seen:
    """Directions, each seen by some blocks and asked about so much."""

    def __init__(self, seen, asked):
        self._seen, self._asked = np.array(seen, dtype=float), np.array(asked)
        self.count = self._seen.shape[1]

    def trace(self, squares):
        return float((self._asked / (self._seen @ squares)).sum())

    def trace_and_slopes(self, squares):
        information = self._seen @ squares
        parts = self._asked / information
        return float(parts.sum()), -(self._seen.T @ (parts / information))


@pytest.mark.parametrize("little", [1.0, 1e-3, 1e-6])
def test_a_search_that_steps_to_no_weights_at_all_goes_on(little):
    seen = [[1, 1, 1, 1], [0, 1, 0, 1], [0, 1, 1, 0], [0, 1, 0, 1], [1, 0, 0, 0]]
    problem = Seen(seen, [1e-5, 1e6, 1e5, 0.01, little])
    error, weights = few_weights(problem, [np.full(4, 0.25)])
    assert weights.sum() == pytest.approx(1)
    assert np.isfinite(error)
    assert error == pytest.approx(error_of(problem, weights))
    assert error < error_of(problem, np.full(4, 0.25))


@pytest.mark.parametrize("seed", range(8))
def test_the_block_that_joins_is_the_best_of_all_though_few_are_tried(seed):
    random = np.random.default_rng(seed)
    problem = Seen(random.random((30, 25)) ** 6, random.random(30))
    weights = np.where(np.arange(25) < 3, 1 / 3, 0.0)
    tried = weights[:, None] * (1 - TRIED_WEIGHT) + TRIED_WEIGHT * np.eye(25)[:, 3:]
    expected = min(tried.T, key=lambda each: error_of(problem, each))
    np.testing.assert_allclose(_with_one_more(problem, weights), expected)
    evaluated = []
    trace = problem.trace
    problem.trace = lambda squares: evaluated.append(squares) or trace(squares)
    _with_one_more(problem, weights)
    assert len(evaluated) < 22
