"""Weights of blocks: the search for them keeps to finite errors."""

import numpy as np
import pytest

from sqlmadp.strategy.weights import error_of, few_weights


class Seen:
    """Directions, each seen by some blocks and asked about so much."""

    def __init__(self, seen, asked):
        self._seen, self._asked = np.array(seen, dtype=float), np.array(asked)
        self.count = self._seen.shape[1]

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
