"""Sharing incentive and non-interference: never violated where proved, and able to fail."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_tables import (
    SIZES,
    block,
    collectives,
    finest,
    histogram,
    total,
    variances,
    written_out,
)

from sqlmadp import compare
from sqlmadp.mechanism.catalogue import MECHANISMS
from sqlmadp.mechanism.fairness import Outcome, noise_variance, outcome
from sqlmadp.mechanism.waterfilling import Waterfilling
from sqlmadp.strategy.integer import S
from sqlmadp.strategy.select import select
from sqlmadp.workload.workload import Workload

NOT_ABOVE_ONE = 1 + 1e-9
FAIR = ["independent", "identity", "waterfilling"]


def assert_fair(workloads, shares, names=FAIR, sizes=SIZES):
    for name in names:
        result = outcome(
            MECHANISMS[name](list(sizes.items()), None), workloads, shares, Fraction(1)
        )
        assert result.sharing_ratio <= NOT_ABOVE_ONE, name
        assert result.worst_interference <= NOT_ABOVE_ONE, name
        assert np.isfinite(result.interference).all()


@settings(deadline=None, max_examples=50)
@given(collectives())
def test_nobody_does_worse_than_alone_or_because_somebody_joined(collective):
    assert_fair(*collective)


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_nor_over_one_column_for_workloads_of_every_kind(data):
    cells = data.draw(st.integers(2, 8))
    kinds = {
        "cells": np.eye(cells),
        "total": np.ones((1, cells)),
        "prefix": np.tri(cells),
        "first": np.eye(cells)[: cells // 2 or 1],
        "last": np.eye(cells)[cells // 2 :],
        "half": (np.arange(cells) < cells / 2)[None, :],
        "differences": np.eye(cells)[1:] - np.eye(cells)[:-1],
        "weights": np.arange(1.0, cells + 1)[None, :],
        "thirds": np.arange(cells)[None, :] % 3 == np.arange(3)[:, None],
    }
    kinds = {name: rows * 1.0 for name, rows in kinds.items() if np.any(rows)}
    chosen = data.draw(st.lists(st.sampled_from(sorted(kinds)), min_size=1, max_size=5))
    shares = data.draw(st.lists(st.integers(1, 50), min_size=len(chosen), max_size=len(chosen)))
    results = compare([kinds[name] for name in chosen], epsilon=1, shares=shares, mechanisms=FAIR)
    for result in results.values():
        assert result.sharing_ratio <= NOT_ABOVE_ONE
        assert result.worst_interference <= NOT_ABOVE_ONE


def test_disjoint_workloads_leave_no_slack_that_a_third_could_take():
    # Without rows for unasked cells the first two would pay for a sensitivity of a half.
    half = np.eye(6)
    first, second, third = half[:3], half[3:], np.ones((1, 6))
    result = compare([first, second, third], epsilon=1, mechanisms=["waterfilling"])["waterfilling"]
    assert result.sharing_ratio <= NOT_ABOVE_ONE
    assert result.worst_interference <= NOT_ABOVE_ONE
    pair = compare([first, second], epsilon=1, mechanisms=["waterfilling"])["waterfilling"]
    assert result.errors[0] <= pair.errors[0] * (3 / 2) ** 2 * NOT_ABOVE_ONE


def test_rank_deficient_workloads_share_with_one_that_needs_every_cell():
    crossed = np.array([[1.0, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1]])
    for shares in (None, [1, 999], [999, 1]):
        results = compare([crossed, np.eye(4)], epsilon=1, shares=shares, mechanisms=FAIR)
        for result in results.values():
            assert result.sharing_ratio <= NOT_ABOVE_ONE
            assert result.worst_interference <= NOT_ABOVE_ONE


def test_columns_that_sum_to_thirds_leave_slack_of_one_part_in_s_and_stay_fair():
    triangles = np.kron(np.eye(2), np.array([[1.0, 1, 0], [0, 1, 1], [1, 1, 1], [1, 0, 0]]))
    workloads = [triangles, np.vstack([triangles, np.ones((1, 6))]), np.tri(6)]
    for shares in ([1, 1, 1], [1, 1000, 1], [1000, 1, 2]):
        results = compare(workloads, epsilon=1, shares=shares, mechanisms=FAIR)
        assert results["waterfilling"].sharing_ratio <= NOT_ABOVE_ONE
        assert results["waterfilling"].worst_interference <= NOT_ABOVE_ONE


def test_totals_asked_in_different_scopes_help_each_other():
    by_age = Workload.of([histogram("a"), total()])
    by_state = Workload.of([histogram("b"), total()])
    crossed = Workload.of([histogram("a", "c")])
    assert_fair([by_age, by_state, crossed], [Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)])


def test_utilitarian_violates_the_sharing_incentive_when_few_ask_for_a_total():
    # k analysts, all but one ask for the histogram of n cells: violated when k^2 < n.
    for analysts, cells, violated in ((3, 11, True), (3, 16, True), (4, 11, False)):
        workloads = [np.eye(cells)] * (analysts - 1) + [np.ones((1, cells))]
        result = compare(workloads, epsilon=1, mechanisms=["utilitarian"])["utilitarian"]
        assert (result.sharing_ratio > 1) == violated
        assert np.argmax(result.ratios) == analysts - 1 or not violated


def test_utilitarian_violates_non_interference_when_one_asks_for_a_histogram():
    # All but the last ask for the total; when the last joins, each of them does worse.
    workloads = [np.ones((1, 40))] * 2 + [np.eye(40)]
    result = compare(workloads, epsilon=1, mechanisms=["utilitarian"])["utilitarian"]
    assert result.interference[2, 0] > 1
    assert result.interference[2, 1] > 1
    assert result.worst_interference == result.interference[2, 0]
    assert result.interference[0, 1] <= NOT_ABOVE_ONE


def test_the_measures_are_the_ratios_they_are_defined_by():
    cells, shares = 7, [Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)]
    rows = [np.tri(cells), np.eye(cells), np.ones((1, cells))]
    workloads = [Workload.of([block(finest("x", sizes={"x": cells}), each)]) for each in rows]
    result = outcome(Waterfilling(), workloads, shares, Fraction(3))

    def error(j, members):
        # Rows of all members poured: each direction once, with the sum of its weights.
        parts = [
            float(shares[m]) / S * written_out(select(workloads[m]).blocks, {"x": cells})
            for m in members
        ]
        poured = {}
        for row in np.vstack(parts):
            direction = tuple(np.round(row / np.abs(row).max(), 9))
            poured[direction] = poured.get(direction, 0) + row
        epsilon = 3 * float(sum(shares[m] for m in members))
        total_share = float(sum(shares[m] for m in members))
        noise = 2 * (total_share / epsilon) ** 2
        return noise * variances(np.array(list(poured.values())), rows[j]).sum()

    for j in range(3):
        assert result.errors[j] == pytest.approx(error(j, [0, 1, 2]))
        assert result.alone[j] == pytest.approx(error(j, [j]))
        assert result.ratios[j] == pytest.approx(error(j, [0, 1, 2]) / error(j, [j]))
        for i in {0, 1, 2} - {j}:
            without = error(j, sorted({0, 1, 2} - {i}))
            assert result.interference[i, j] == pytest.approx(error(j, [0, 1, 2]) / without)
    assert result.sharing_ratio == max(result.ratios)
    assert result.total_error == sum(result.errors)


def test_ratios_are_not_clipped_and_two_errors_of_zero_are_equal():
    result = Outcome(
        None, (4.0, 0.0, 1.0), (2.0, 0.0, 0.0), np.array([[1, 3.0, 1], [0.5, 1, 1], [1, 1, 1]])
    )
    assert result.ratios == (2.0, 1.0, float("inf"))
    assert result.worst_interference == 3.0
    assert noise_variance(3, Fraction(1, 2)) == 2 * 6**2
