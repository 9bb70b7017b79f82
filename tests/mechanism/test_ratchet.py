"""Ratchet and complements: nobody's error rises when somebody joins, before or after a release."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_tables import SIZES, block, collectives, finest, histogram, total

from sqlmadp.mechanism import ratchet
from sqlmadp.mechanism.base import JointStrategy
from sqlmadp.mechanism.catalogue import MECHANISMS
from sqlmadp.mechanism.complement import Complement
from sqlmadp.mechanism.fairness import expected_errors, noise_variance, outcome
from sqlmadp.mechanism.ratchet import Ratchet
from sqlmadp.schema.marginal import Block
from sqlmadp.strategy.integer import S
from sqlmadp.strategy.select import select
from sqlmadp.workload.workload import Workload

NOT_ABOVE_ONE = 1 + 1e-9


def errors_by_join(workloads, shares):
    """Return everybody's error after each join, with the shares of those who are in."""
    joined = Ratchet().joins(workloads, shares)
    return [
        expected_errors(strategy, workloads[: k + 1], sum(shares[: k + 1]))
        for k, strategy in enumerate(joined)
    ]


@settings(deadline=None, max_examples=12)
@given(collectives())
def test_nobody_is_ever_worse_off_for_a_join_or_than_alone(collective):
    workloads, shares = collective
    errors = errors_by_join(workloads, shares)
    for workload, share, now in zip(workloads, shares, errors[-1], strict=True):
        assert now <= NOT_ABOVE_ONE * alone(workload, share)
    for before, after in itertools.pairwise(errors):
        for was, now in zip(before, after, strict=False):
            assert now <= NOT_ABOVE_ONE * was


@settings(deadline=None, max_examples=6)
@given(collectives())
def test_who_joins_later_changes_nothing_of_what_came_before(collective):
    workloads, shares = collective
    joined = Ratchet().joins(workloads, shares)
    for count in range(1, len(workloads)):
        alike(joined[count - 1], Ratchet().select(workloads[:count], shares[:count]))


def alone(workload, share):
    own = select(workload)
    strategy = JointStrategy(own.blocks, S, (tuple(range(len(own.blocks))),))
    return expected_errors(strategy, [workload], share)[0]


def alike(one, other):
    assert one.sensitivity == other.sensitivity
    for mine, yours in zip(one.blocks, other.blocks, strict=True):
        assert mine.marginal == yours.marginal
        assert (mine.matrix != yours.matrix).nnz == 0


def test_the_first_analyst_measures_what_they_would_alone():
    workload = Workload.of([histogram("a"), total()])
    strategy = Ratchet().select([workload], [Fraction(1, 3)])
    own = select(workload)
    assert S % strategy.sensitivity == 0
    for mine, alone in zip(strategy.blocks, own.blocks, strict=True):
        assert (mine.matrix * (S // strategy.sensitivity) != alone.matrix).nnz == 0


def test_a_newcomer_who_asks_what_somebody_else_asks_does_no_worse_than_alone_either():
    # The other one brings next to nothing, so their error before is no cap worth having.
    every, other = Workload.of([histogram("a")]), Workload.of([histogram("b")])
    shares = [Fraction(1, 1000), Fraction(1, 1000), Fraction(998, 1000)]
    errors = errors_by_join([every, other, every], shares)
    assert errors[-1][2] <= NOT_ABOVE_ONE * alone(every, shares[2])


def test_the_total_error_is_lower_than_pouring_in_alone_would_make_it():
    cells = finest("a")
    prefix = Workload.of([block(cells, np.tri(SIZES["a"]))])
    every = Workload.of([histogram("a")])
    whole = Workload.of([total()])
    asking, shares = [whole, every, prefix], [Fraction(1, 3)] * 3
    ratchet, poured = (
        sum(expected_errors(MECHANISMS[name]([], None).select(asking, shares), asking, Fraction(1)))
        for name in ("ratchet", "waterfilling")
    )
    assert ratchet < 0.95 * poured


def test_the_order_of_joining_matters_to_interference_too():
    # Whoever of two alike analysts leaves, the one that is left stands where they stood.
    every, whole = Workload.of([histogram("a")]), Workload.of([total()])
    asking, shares = [every, whole, every], [Fraction(1, 4), Fraction(1, 2), Fraction(1, 4)]
    result = outcome(Ratchet(), asking, shares, Fraction(1))
    for left_out in (0, 2):
        rest = [n for n in range(3) if n != left_out]
        members, budget = [asking[n] for n in rest], [shares[n] for n in rest]
        without = expected_errors(Ratchet().select(members, budget), members, sum(budget))
        found = result.interference[left_out, 1]
        assert found == pytest.approx(result.errors[1] / without[rest.index(1)])


@pytest.mark.parametrize(("work", "searched"), [(1, 1), (10, 2), (20, 3), (40, 4)])
def test_whoever_is_poured_in_after_the_last_search_is_left_out_by_an_update(
    work, searched, monkeypatch
):
    prefix = Workload.of([block(finest("a"), np.tri(SIZES["a"]))])
    asking = [
        Workload.of([histogram("a")]),
        Workload.of([total()]),
        prefix,
        Workload.of([histogram("b"), total()]),
        Workload.of([histogram("a", "b")]),
    ]
    shares = [Fraction(1, 4), Fraction(1, 8), Fraction(1, 8), Fraction(1, 4), Fraction(1, 4)]
    monkeypatch.setattr(ratchet, "WORK", work)
    found = outcome(Ratchet(), asking, shares, Fraction(1)).interference
    known = Ratchet().interference(asking, shares)
    monkeypatch.setattr(Ratchet, "interference", lambda *_: None)
    expected = outcome(Ratchet(), asking, shares, Fraction(1)).interference
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert np.isnan(known).any(axis=1).tolist() == [n < searched for n in range(len(asking))]


def test_what_is_too_large_to_search_in_is_poured_all_the_same(monkeypatch):
    asking = [Workload.of([histogram("a")]), Workload.of([total()]), Workload.of([histogram("b")])]
    shares = [Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)]
    monkeypatch.setattr(ratchet, "WORK", 1)
    poured = MECHANISMS["waterfilling"]([], None)
    for count, joined in enumerate(Ratchet().joins(asking, shares), start=1):
        expected = poured.select(asking[:count], shares[:count])
        errors = (
            expected_errors(strategy, asking[:count], Fraction(1))
            for strategy in (joined, expected)
        )
        np.testing.assert_allclose(*errors, rtol=1e-9)


def known(strategy, epsilon):
    """Return a strategy's rows scaled to noise of variance 1."""
    weight = noise_variance(strategy.sensitivity, epsilon) ** -0.5
    return tuple(Block(each.marginal, each.matrix * weight) for each in strategy.blocks)


@settings(deadline=None, max_examples=12)
@given(collectives(), st.sampled_from(["waterfilling", "utilitarian", "identity"]), st.data())
def test_newcomers_after_a_release_raise_nobodys_error(collective, mechanism, data):
    workloads, shares = collective
    there = data.draw(st.integers(1, max(1, len(workloads) - 1)))
    before = MECHANISMS[mechanism](list(SIZES.items()), None).select(
        workloads[:there], shares[:there]
    )
    choice = Complement(known=known(before, sum(shares[:there])))
    new = shares[there:]
    if not new:
        return
    added = choice.select(workloads, [None] * there + new).strategy
    was = choice.errors(None, workloads[:there], sum(new))
    now = choice.errors(added, workloads, sum(new))
    assert all(n <= NOT_ABOVE_ONE * w for n, w in zip(now, was, strict=False))
    for n in range(there, len(workloads)):
        assert now[n] <= NOT_ABOVE_ONE * alone(workloads[n], shares[n])


def test_a_complement_measures_what_is_not_known_yet():
    # The histogram is known well, so a newcomer who asks for it and for another column leaves
    # more of what they bring to the other column than they would alone.
    every, other = Workload.of([histogram("a")]), Workload.of([histogram("a"), histogram("b")])
    before = MECHANISMS["utilitarian"]([], None).select([every], [Fraction(1)])
    choice = Complement(known=known(before, Fraction(100)))
    added = choice.select([every, other], [None, Fraction(1)]).strategy
    alone = MECHANISMS["utilitarian"]([], None).select([other], [Fraction(1)])
    now = choice.errors(added, [other], Fraction(1))
    plain = choice.errors(
        JointStrategy(alone.blocks, alone.sensitivity, alone.reads), [other], Fraction(1)
    )
    assert now[0] <= plain[0]
    assert now[0] < expected_errors(alone, [other], Fraction(1))[0]
