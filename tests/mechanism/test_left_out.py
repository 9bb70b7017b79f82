"""Interference by updates equals interference by selecting and factoring anew."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from small_tables import SIZES, block, collectives, finest, histogram, total

from sqlmadp.mechanism import left_out
from sqlmadp.mechanism.fairness import outcome
from sqlmadp.mechanism.identity import Identity
from sqlmadp.mechanism.independent import Independent
from sqlmadp.mechanism.waterfilling import Waterfilling
from sqlmadp.workload import topped
from sqlmadp.workload.workload import Workload

MECHANISMS = {
    "waterfilling": Waterfilling(),
    "independent": Independent(),
    "identity": Identity(columns=tuple(SIZES.items())),
}


def one_by_one(mechanism, workloads, shares):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(left_out, "interference", lambda *_: None)
        return outcome(mechanism, workloads, shares, Fraction(1)).interference


@pytest.mark.parametrize("name", MECHANISMS)
@settings(deadline=None, max_examples=15)
@given(collective=collectives())
def test_interference_at_once_equals_everyone_left_out_one_by_one(name, collective):
    workloads, shares = collective
    expected = one_by_one(MECHANISMS[name], workloads, shares)
    found = left_out.interference(MECHANISMS[name], workloads, shares)
    np.testing.assert_allclose(found, expected, rtol=1e-7)


def test_what_only_one_analyst_measures_is_lost_without_harm_to_others():
    asked = [Workload.of([histogram("a")]), Workload.of([histogram("b")]), Workload.of([total()])]
    shares = [Fraction(1, 3)] * 3
    found = left_out.interference(Waterfilling(), asked, shares)
    np.testing.assert_allclose(found, one_by_one(Waterfilling(), asked, shares), rtol=1e-9)
    assert (found <= 1 + 1e-9).all()


@settings(deadline=None, max_examples=15)
@given(collective=collectives())
def test_updates_over_cells_with_few_rows_on_top_equal_those_by_a_triangular_factor(collective):
    workloads, shares = collective
    workloads = [Workload.of([histogram(*SIZES)]), *workloads]
    shares = [Fraction(1, 2), *(share / 2 for share in shares)]
    expected = left_out.interference(Waterfilling(), workloads, shares)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topped, "FEW_CELLS", 0)
        patch.setattr(topped, "CELLS_A_ROW", 0.1)
        patch.setattr(left_out, "_Dense", None)
        found = left_out.interference(Waterfilling(), workloads, shares)
    np.testing.assert_allclose(found, expected, rtol=1e-7)


def test_who_asks_for_every_cell_is_left_out_by_a_factor_of_what_is_left(monkeypatch):
    asked = [Workload.of([histogram("a", "b")]), Workload.of([histogram("a")])]
    shares = [Fraction(1, 2)] * 2
    expected = one_by_one(Waterfilling(), asked, shares)
    monkeypatch.setattr(left_out, "FEW_BUCKETS", 0)
    called, anew = [], left_out._anew
    monkeypatch.setattr(left_out, "_anew", lambda *given: called.append(given[2]) or anew(*given))
    np.testing.assert_allclose(
        left_out.interference(Waterfilling(), asked, shares), expected, rtol=1e-9
    )
    assert called == [0]


def test_a_nearly_lost_direction_is_worked_out_anew(monkeypatch):
    asked = [Workload.of([histogram("a")]), Workload.of([histogram("a"), total()])]
    shares = [Fraction(30_000, 30_001), Fraction(1, 30_001)]
    expected = one_by_one(Waterfilling(), asked, shares)
    called, anew = [], left_out._anew
    monkeypatch.setattr(left_out, "_anew", lambda *given: called.append(given) or anew(*given))
    found = left_out.interference(Waterfilling(), asked, shares)
    assert called
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_too_large_strategies_and_close_pouring_are_left_to_the_plain_way(monkeypatch):
    asked = [Workload.of([histogram("a")]), Workload.of([block(finest("b"), np.ones((1, 3)))])]
    shares = [Fraction(1, 2)] * 2
    assert left_out.interference(Waterfilling(tolerance=0.1), asked, shares) is None
    monkeypatch.setattr(left_out, "MOST_NUMBERS", 1)
    assert left_out.interference(Waterfilling(), asked, shares) is None
