"""The noise has the scale it claims, and the scale keeps the promise."""

import math
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sqlmadp.errors import StrategyError
from sqlmadp.private import noise
from sqlmadp.private.noise import add_discrete_laplace, noise_scale

DRAWS = 40_000


def p_value_of_scale(draws, scale):
    """Return the chi-square p-value of discrete Laplace noise of ``scale``, tails pooled."""
    p = math.exp(-1 / scale)
    reach = int(4 * scale)
    inner = [(1 - p) / (1 + p) * p ** abs(k) for k in range(-reach, reach + 1)]
    tail = (1 - sum(inner)) / 2
    expected = len(draws) * np.array([tail, *inner, tail])
    observed = np.bincount(
        np.clip(draws, -reach - 1, reach + 1) + reach + 1, minlength=len(expected)
    )
    return stats.chisquare(observed, expected, sum_check=False).pvalue


@pytest.mark.statistical
def test_noise_has_the_scale_it_claims_and_no_other():
    draws = add_discrete_laplace(np.zeros(DRAWS, dtype=np.int64), 5.0)
    assert p_value_of_scale(draws, 5.0) > 1e-12
    assert p_value_of_scale(draws, 4.5) < 1e-12
    assert p_value_of_scale(draws, 5.5) < 1e-12


@pytest.mark.statistical
def test_noise_is_not_the_same_twice_and_differs_from_value_to_value():
    first, second = (add_discrete_laplace(np.zeros(200, dtype=np.int64), 1e6) for _ in range(2))
    assert not np.array_equal(first, second)
    assert len(set(first.tolist())) > 190


SPACING = 2**40
"""Between values, so much more than the noise that each can be told from its neighbours."""


@pytest.fixture(scope="module")
def drawn_in_parts():
    """Noise on so many values that two threads draw it."""
    values = np.arange(2 * noise.PART) * SPACING
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.cpu_count", lambda: 2)
        return add_discrete_laplace(values, 5.0)


def test_several_threads_keep_the_order_of_values(drawn_in_parts):
    places = np.round(drawn_in_parts / SPACING).astype(np.int64)
    np.testing.assert_array_equal(places, np.arange(2 * noise.PART))


@pytest.mark.statistical
def test_several_threads_draw_the_same_noise_as_one_but_never_each_others(drawn_in_parts):
    first, second = np.split(drawn_in_parts - np.arange(2 * noise.PART) * SPACING, 2)
    for draws in (first[:DRAWS], second[:DRAWS]):
        assert p_value_of_scale(draws, 5.0) > 1e-12
        assert p_value_of_scale(draws, 4.5) < 1e-12
    assert not np.array_equal(first, second)


@given(
    st.integers(1, 2**40),
    st.fractions(Fraction(1, 10**6), 10**6),
)
@settings(max_examples=50, deadline=None)
def test_the_scale_errs_upwards_by_almost_nothing(sensitivity, epsilon):
    scale = noise_scale(sensitivity, epsilon)
    assert Fraction(scale) >= sensitivity / epsilon
    assert Fraction(scale) <= sensitivity / epsilon * (1 + Fraction(1, 2**48))
    dp.enable_features("contrib")
    laplace = dp.m.make_laplace(dp.atom_domain(T="i64"), dp.absolute_distance(T="i64"), scale=scale)
    assert Fraction(laplace.map(sensitivity)) <= epsilon


def test_one_third_is_not_taken_for_the_float_next_to_it():
    # 3.0 itself has a loss of 1/3 rounded up, which is more than 1/3.
    assert noise_scale(1, Fraction(1, 3)) > 3.0


def test_noise_of_a_huge_epsilon_is_zero():
    values = np.array([0, -5, 2**62], dtype=np.int64)
    noisy = add_discrete_laplace(values, noise_scale(2**16, Fraction(10**9)))
    np.testing.assert_array_equal(noisy, values)


def test_values_at_the_ends_of_64_bits_do_not_wrap_around():
    ends = np.array([2**63 - 1] * 50 + [-(2**63)] * 50, dtype=np.int64)
    noisy = add_discrete_laplace(ends, 100.0)
    assert (noisy[:50] > 2**62).all()
    assert (noisy[50:] < -(2**62)).all()


@pytest.mark.parametrize(
    ("sensitivity", "epsilon"),
    [
        (0, Fraction(1)),
        (-1, Fraction(1)),
        (1, Fraction(0)),
        (1, Fraction(-1)),
        (1, Fraction(1, 10**99)),
        (2**63, Fraction(1)),
    ],
)
def test_a_scale_that_means_nothing_is_refused(sensitivity, epsilon):
    with pytest.raises(StrategyError):
        noise_scale(sensitivity, epsilon)
