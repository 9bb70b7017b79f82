"""Derived aggregates with noise: they stay within what the domain allows."""

from datetime import date

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sqlmadp.answer.derived import derive, running_counts
from sqlmadp.bind.bind import bind
from sqlmadp.bind.evaluate import Evaluator
from sqlmadp.sql.statements import split
from sqlmadp.table.domain import Column, Domain

DOMAIN = Domain(
    table="people",
    columns=(
        Column(name="age", type="integer", minimum=0, maximum=9),
        Column(name="sex", type="category", values=("m", "f")),
        Column(name="day", type="date", minimum=date(2020, 1, 1), maximum=date(2020, 3, 31)),
    ),
)
EVALUATOR = Evaluator(DOMAIN)


def derived(sql: str, *answers: list[float]) -> list:
    """Return the columns of the first block's aggregates, given the answers to its pieces."""
    (statement,) = split(sql, file="a.sql")
    block = bind(statement, EVALUATOR).blocks[0]
    return derive(block, [np.array(values, dtype=float) for values in answers])


def test_a_mean_is_within_the_declared_bounds():
    sql = "SELECT sex, AVG(age) FROM people GROUP BY sex"
    assert derived(sql, [500, -3], [10, 10]) == [[9.0, 0.0]]
    assert derived(sql, [45, 45], [10, 9.4]) == [[4.5, 45 / 9.4]]


@pytest.mark.parametrize("name", ["AVG", "STDDEV_POP", "VAR_POP", "MEDIAN", "MODE"])
def test_an_estimated_count_of_nothing_has_no_value(name):
    histogram = name in ("MEDIAN", "MODE")
    pieces = 1 if histogram else 2 if name == "AVG" else 3
    answers = [[0.2] + [0.0] * 9] if histogram else [[0.4]] * pieces
    assert derived(f"SELECT {name}(age) FROM people", *answers) == [[None]]


def test_a_variance_is_neither_negative_nor_larger_than_the_bounds_allow():
    sql = "SELECT sex, VAR_POP(age) FROM people GROUP BY sex"
    assert derived(sql, [50, 50], [10, 10], [100, 9000]) == [[0.0, 9**2 / 4]]


def test_the_error_of_least_squares_breaks_no_tie_and_leaves_no_variance():
    below, above = 1 - 1e-15, 1 + 1e-15
    histogram = [0.0, 3 * below, 3 * above, 1] + [0.0] * 6
    assert derived("SELECT MODE(age) FROM people", histogram) == [["1"]]
    sql = "SELECT sex, SUM(age / 2) FROM people GROUP BY sex"
    assert derived(sql, [2.5 * below, 2.5 * above]) == [[2.5, 2.5]]
    sql = "SELECT sex, STDDEV_POP(age / 10) FROM people GROUP BY sex"
    answers = [0.3 * above, 0.9 * below], [3, 9 * above], [0.03 * above, 0.09 * above]
    assert derived(sql, *answers) == [[0.0, 0.0]]
    sql = "SELECT REGR_SLOPE(age, age / 10) FROM people"
    ((slope,),) = derived(sql, [3], [0.3 * above], [3], [0.03 * above], [3], [0.3])
    assert np.isnan(slope)


def test_a_correlation_is_between_minus_one_and_one():
    sql = "SELECT CORR(age, length(sex) + age) FROM people"
    ((value,),) = derived(sql, [10], [50], [50], [300], [300], [400])
    assert value == 1.0


@given(arrays(np.float64, (3, 8), elements=st.floats(-20, 20)))
def test_running_counts_are_monotone_whole_and_not_negative(histogram):
    running = running_counts(histogram)
    assert (np.diff(running, axis=1) >= 0).all()
    assert (running >= 0).all()


@given(arrays(np.float64, (2, 6), elements=st.integers(0, 50).map(float)))
def test_running_counts_without_noise_are_the_counts_themselves(histogram):
    np.testing.assert_array_equal(running_counts(histogram), histogram.cumsum(axis=1))


@given(arrays(np.float64, 10, elements=st.floats(-50, 50)))
def test_quantiles_ascend_with_their_fraction(histogram):
    sql = "SELECT QUANTILE_CONT(age, [0.1, 0.5, 0.9]) FROM people"
    ((value,),) = derived(sql, list(histogram))
    if value is not None:
        low, middle, high = (float(part) for part in value.strip("[]").split(", "))
        assert 0 <= low <= middle <= high <= 9


@given(
    st.lists(st.integers(0, 90), min_size=1, max_size=9),
    st.sampled_from([0.1, 0.25, 0.3, 0.7, 0.9]),
)
def test_quantiles_between_two_days_are_duckdbs_to_the_microsecond(days, fraction):
    histogram = np.bincount(days, minlength=91)
    ((value,),) = derived(f"SELECT QUANTILE_CONT(day, {fraction}) FROM people", histogram)
    days_of_duckdb = f"SELECT DATE '2020-01-01' + unnest({days}) AS day"
    ((exact,),) = duckdb.sql(
        f"SELECT QUANTILE_CONT(day, {fraction}) FROM ({days_of_duckdb})"
    ).fetchall()
    assert np.datetime64(value) == np.datetime64(exact)
