"""One suite, run against every mechanism: what measurement and reconstruction rely on."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from small_tables import (
    SIZES,
    block,
    collectives,
    finest,
    histogram,
    spans,
    total,
    variances,
    written_out,
)

from sqlmadp.errors import NotSupportedError, ProgrammingError
from sqlmadp.mechanism.base import MOST_PARTS
from sqlmadp.mechanism.catalogue import MECHANISMS, PROMISED
from sqlmadp.mechanism.fairness import expected_errors, outcome
from sqlmadp.private.blocks import checked_blocks
from sqlmadp.private.sensitivity import l1_sensitivity
from sqlmadp.schema.domain import Column, Domain
from sqlmadp.strategy import select as selection
from sqlmadp.strategy.cache import StrategyCache
from sqlmadp.workload.workload import Workload

DOMAIN = Domain(
    table="small",
    columns=tuple(
        Column(name=name, type="integer", minimum=0, maximum=size - 1, complete=True)
        for name, size in SIZES.items()
    ),
)

every_mechanism = pytest.mark.parametrize("name", MECHANISMS)
few = settings(deadline=None, max_examples=12)


def made(name, cache=None):
    return MECHANISMS[name](list(SIZES.items()), cache)


@every_mechanism
@few
@given(collectives())
def test_a_joint_strategy_holds_integers_that_a_measurement_accepts(name, collective):
    strategy = made(name).select(*collective)
    assert all(part.matrix.dtype == np.int64 for part in strategy.blocks)
    assert len(checked_blocks(strategy.blocks, DOMAIN)) == len(strategy.blocks)


@every_mechanism
@few
@given(collectives())
def test_the_claimed_sensitivity_is_the_largest_column_sum(name, collective):
    strategy = made(name).select(*collective)
    sums = np.abs(written_out(strategy.blocks)).sum(axis=0)
    assert strategy.sensitivity == sums.max()
    assert l1_sensitivity(checked_blocks(strategy.blocks, DOMAIN), DOMAIN) == sums.max()


@every_mechanism
@few
@given(collectives())
def test_everyone_can_answer_their_workload_from_what_they_read(name, collective):
    workloads, shares = collective
    strategy = made(name).select(workloads, shares)
    assert len(strategy.reads) == len(workloads)
    for analyst, workload in enumerate(workloads):
        rows = written_out(strategy.read_by(analyst)).astype(float)
        assert spans(rows, written_out(workload.blocks)).all()


@every_mechanism
@few
@given(collectives())
def test_expected_errors_are_those_of_the_paper_over_all_cells(name, collective):
    workloads, shares = collective
    strategy = made(name).select(workloads, shares)
    epsilon = Fraction(2, 3)
    everything = written_out(strategy.blocks)
    noise = 2 * (np.abs(everything).sum(axis=0).max() / float(epsilon)) ** 2
    for analyst, error in enumerate(expected_errors(strategy, workloads, epsilon)):
        rows = written_out(strategy.read_by(analyst)).astype(float)
        expected = noise * variances(rows, written_out(workloads[analyst].blocks)).sum()
        assert error == pytest.approx(expected, rel=1e-6)


@every_mechanism
@few
@given(collectives())
def test_only_the_proportions_of_shares_matter(name, collective):
    workloads, shares = collective
    halved = [share / 2 for share in shares]
    one, other = made(name).select(workloads, shares), made(name).select(workloads, halved)
    assert one.sensitivity == other.sensitivity
    np.testing.assert_array_equal(written_out(one.blocks), written_out(other.blocks))


AWKWARD = [
    [Fraction(1, 3), Fraction(2, 7), Fraction(8, 21)],
    [Fraction(1, 1000), Fraction(998, 1000), Fraction(1, 1000)],
    [Fraction(1, 11), Fraction(1, 13), Fraction(119, 143)],
]


@every_mechanism
@pytest.mark.parametrize("shares", AWKWARD)
def test_awkward_shares_are_kept_exactly(name, shares):
    workloads = [
        Workload.of([histogram("a")]),
        Workload.of([histogram("b", "c"), total()]),
        Workload.of([total()]),
    ]
    result = outcome(made(name), workloads, shares, Fraction(1))
    strategy = result.strategy
    assert strategy.sensitivity == np.abs(written_out(strategy.blocks)).sum(axis=0).max()
    if name == "independent":
        # The total of the third analyst is measured with just that analyst's share.
        third = np.abs(written_out(strategy.read_by(2))).sum(axis=0)
        assert Fraction(int(third.max()), strategy.sensitivity) == shares[2]
        assert result.errors[2] == pytest.approx(2 / float(shares[2]) ** 2)


@pytest.mark.parametrize("name", ["independent", "waterfilling"])
def test_shares_too_fine_for_a_measurement_are_refused_with_the_reason(name):
    workloads = [Workload.of([total()])] * 2
    fine = Fraction(1, MOST_PARTS + 1)
    with pytest.raises(ProgrammingError, match="smaller common denominator"):
        made(name).select(workloads, [fine, 1 - fine])
    coarse = Fraction(1, MOST_PARTS)
    checked_blocks(made(name).select(workloads, [coarse, 1 - coarse]).blocks, DOMAIN)


@every_mechanism
def test_a_single_analyst_gets_all_of_the_budget(name):
    workload = Workload.of([histogram("a")])
    result = outcome(made(name), [workload], [Fraction(1)], Fraction(1))
    assert result.errors == result.alone
    assert result.sharing_ratio == result.worst_interference == 1
    # Identity measures the cells of all three columns: six of them for every value of a.
    assert result.total_error == pytest.approx(10 * (6 if name == "identity" else 1))


@every_mechanism
def test_an_analyst_who_asks_nothing_has_no_error_and_harms_nobody(name):
    nothing = Workload.of([block(finest("a"), np.zeros((2, 5)))])
    asked = Workload.of([histogram("a")])
    result = outcome(made(name), [nothing, asked], [Fraction(1, 2)] * 2, Fraction(1))
    assert result.errors[0] == 0
    assert result.sharing_ratio <= 1 + 1e-9


@every_mechanism
def test_strategies_come_from_the_cache_it_is_given(name, tmp_path):
    selection._known.clear()
    cache = StrategyCache(tmp_path)
    made(name, cache).select([Workload.of([histogram("a")])], [Fraction(1)])
    assert len(list(tmp_path.iterdir())) == (0 if name == "identity" else 1)


def test_identity_refuses_a_domain_with_too_many_cells():
    mechanism = MECHANISMS["identity"]([("a", 2000), ("b", 2000)], None)
    with pytest.raises(NotSupportedError, match="4,000,000 cells of a, b"):
        mechanism.select([Workload.of([total()])], [Fraction(1)])


def test_the_five_mechanisms_of_the_paper_are_known_by_name():
    assert list(MECHANISMS)[:5] == [
        "independent",
        "identity",
        "utilitarian",
        "weighted_utilitarian",
        "waterfilling",
    ]


def test_every_mechanism_says_what_it_promises():
    assert list(PROMISED) == list(MECHANISMS)
