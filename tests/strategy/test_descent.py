"""Descent within bounds: it finds what a general optimiser finds, and never leaves the bounds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from sqlmadp.strategy.descent import descend


def quadratic(seed, size):
    random = np.random.default_rng(seed)
    root = random.standard_normal((size, size))
    curvature = root @ root.T / size + 0.05 * np.eye(size)
    centre = 2 * random.standard_normal(size)

    def loss(place):
        pull = curvature @ (place - centre)
        return 1 + float((place - centre) @ pull) / 2, pull

    return loss


@settings(deadline=None, max_examples=40, derandomize=True)
@given(st.integers(0, 10_000), st.integers(1, 30))
def test_the_least_value_within_bounds_is_that_of_a_general_optimiser(seed, size):
    loss = quadratic(seed, size)
    bounds = np.column_stack([np.full(size, -0.5), np.full(size, 1.0)])
    bounds[::3] = 0.25  # Some variables have no choice.
    value, place = descend(loss, np.ones(size), bounds, steps=500, tolerance=1e-14)
    known = minimize(
        loss, np.ones(size), jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-15}
    )
    assert value == pytest.approx(known.fun, rel=1e-6)
    assert value == loss(place)[0]
    assert ((bounds[:, 0] <= place) & (place <= bounds[:, 1])).all()


def test_a_curved_valley_is_followed_to_its_end():
    def loss(place):
        first, second = place
        value = 100 * (second - first**2) ** 2 + (1 - first) ** 2
        slope = -400 * first * (second - first**2) - 2 * (1 - first), 200 * (second - first**2)
        return value, np.array(slope)

    bounds = np.array([[-2.0, 2.0], [-2.0, 2.0]])
    value, place = descend(loss, np.array([-1.2, 1.0]), bounds, steps=300, tolerance=1e-16)
    np.testing.assert_allclose(place, [1, 1], atol=1e-4)
    assert value < 1e-8


def test_a_search_ends_where_it_starts_if_nothing_pays():
    loss = quadratic(1, 4)
    held = np.column_stack([np.zeros(4), np.zeros(4)])
    value, place = descend(loss, np.ones(4), held, steps=10, tolerance=0)
    assert not place.any()
    assert value == loss(np.zeros(4))[0]


def test_every_further_step_is_a_gain():
    loss = quadratic(2, 20)
    bounds = np.column_stack([np.zeros(20), np.full(20, 5.0)])
    values = [descend(loss, np.ones(20), bounds, steps=steps, tolerance=0)[0] for steps in range(6)]
    assert values == sorted(values, reverse=True)
    assert values[0] == loss(np.ones(20))[0]
    assert values[5] < values[0]
