"""Pareto where rows are too many to be searched for: one strategy for whoever takes part."""

from fractions import Fraction

import numpy as np
import pytest
from small_tables import block, finest, histogram, total

from sqlmadp.errors import NotSupportedError
from sqlmadp.mechanism import agreement, constant, pareto
from sqlmadp.mechanism.constant import Constant
from sqlmadp.mechanism.fairness import expected_errors, outcome
from sqlmadp.mechanism.pareto import Pareto
from sqlmadp.mechanism.utilitarian import Utilitarian
from sqlmadp.mechanism.waterfilling import Waterfilling
from sqlmadp.schema.marginal import CellBlock
from sqlmadp.strategy.capped_products import _Weights, capped_products
from sqlmadp.strategy.products import Products
from sqlmadp.workload.components import Components
from sqlmadp.workload.workload import Workload, stacked

ASKED = [
    Workload.of([total()]),
    Workload.of([histogram("a"), total()]),
    Workload.of([histogram("a", "b")]),
    Workload.of([histogram("b", "c"), block(finest("b"), [[1.0, 1.0, 0.0]])]),
]
SHARES = [Fraction(1, 8), Fraction(3, 8), Fraction(1, 4), Fraction(1, 4)]


@pytest.fixture
def large(monkeypatch):
    """Let no collective be small enough to search for rows in."""
    monkeypatch.setattr(agreement, "MOVE_ROWS", 1)
    monkeypatch.setattr(pareto, "_settled", {})


def errors_of(mechanism, asked, shares):
    spent = sum(shares, Fraction(0))
    return np.array(expected_errors(mechanism.select(asked, shares), asked, spent))


def test_nobody_is_worse_off_than_under_waterfilling_and_the_total_is_less(large):
    mechanism = Pareto().settle(ASKED, SHARES)
    assert isinstance(mechanism.agreement, Constant)
    strategy = mechanism.select(ASKED, SHARES)
    assert all(isinstance(each, CellBlock) for each in strategy.blocks)
    assert sum(each.weight for each in strategy.blocks) == strategy.sensitivity
    ours = errors_of(mechanism, ASKED, SHARES)
    poured = errors_of(Waterfilling(), ASKED, SHARES)
    assert (ours <= poured).all()
    assert ours.sum() < 0.9 * poured.sum()


def test_nobody_would_be_better_off_with_one_analyst_less(large):
    mechanism = Pareto().settle(ASKED, SHARES)
    now = errors_of(mechanism, ASKED, SHARES)
    found = outcome(Pareto(), ASKED, SHARES, Fraction(1))
    assert found.sharing_ratio <= 1
    assert found.worst_interference <= 1
    for i in range(len(ASKED)):
        left = [j for j in range(len(ASKED)) if j != i]
        without = errors_of(mechanism, [ASKED[j] for j in left], [SHARES[j] for j in left])
        # What is worked out for all at once is what selecting anew gives.
        np.testing.assert_allclose(found.interference[i, left], now[left] / without, rtol=1e-6)


def test_a_single_analyst_gets_what_they_would_select_alone(large):
    alone = errors_of(Pareto(), ASKED[2:3], SHARES[2:3])
    assert alone == pytest.approx(errors_of(Waterfilling(), ASKED[2:3], SHARES[2:3]))


def test_a_strategy_that_harms_one_of_those_left_gives_way_to_waterfilling(large):
    settled = Pareto().settle(ASKED, SHARES)
    fewer, parts = ASKED[:2], SHARES[:2]  # Nobody who is left asks about b or c.
    ours, poured = errors_of(settled, fewer, parts), errors_of(Waterfilling(), fewer, parts)
    assert (ours <= poured * (1 + 1e-12)).all()


def test_what_is_too_large_for_products_too_is_poured(large, monkeypatch):
    def refuse(*_):
        raise NotSupportedError("too many coordinates")

    monkeypatch.setattr(constant, "capped_products", refuse)
    ours = errors_of(Pareto(), ASKED, SHARES)
    np.testing.assert_allclose(ours, errors_of(Waterfilling(), ASKED, SHARES))


def test_weights_meet_their_limits_where_that_is_possible():
    free = capped_products(ASKED, np.ones(4), np.full(4, np.inf), 1 << 20)
    assert sum(each.weight for each in free) == 1 << 20
    errors = [2 * e for e in _errors(free)]
    limits = np.array([errors[0] / 1.5, 2 * errors[1], 2 * errors[2], 2 * errors[3]]) / 2
    capped = _errors(capped_products(ASKED, np.ones(4), limits, 1 << 20))
    assert (capped <= limits * (1 + 1e-3)).all()
    assert sum(capped) > sum(_errors(free)) * (1 - 1e-9)


def _errors(blocks):
    whole = sum(each.weight for each in blocks)
    strategy = Waterfilling().select(ASKED, SHARES)
    joint = type(strategy)(tuple(blocks), whole, (tuple(range(len(blocks))),) * len(ASKED))
    return np.array(expected_errors(joint, ASKED, Fraction(1))) / 2


def test_the_gradient_of_capped_weights_is_that_of_their_errors():
    products = Products.of(stacked(ASKED))
    split = Components([products.gram(each) for each in ASKED], products.grams)
    problem = _Weights(split, np.ones(len(products.candidates)))
    random = np.random.default_rng(2)
    flat, factors = random.normal(size=len(problem.start)), random.random(len(ASKED))
    gradient = problem.gradient(flat, problem.errors(flat)[1], factors)
    for place, step in enumerate(1e-6 * np.eye(len(flat))):
        above, below = (factors @ problem.errors(flat + sign * step)[0] for sign in (1, -1))
        assert (above - below) / 2e-6 == pytest.approx(gradient[place], rel=1e-4, abs=1e-4)


def test_what_utilitarian_selects_is_measured_if_nobody_is_worse_off_for_it(large):
    """Ranges of one column, whose rows no products of partitions come near to."""
    random = np.random.default_rng(3)
    cells = finest("x", sizes={"x": 40})
    asked = []
    for _ in range(3):
        ends = np.sort(random.integers(0, 41, (30, 2)), axis=1)
        places = np.arange(40)
        asked.append(Workload.of([block(cells, (ends[:, :1] <= places) & (places <= ends[:, 1:]))]))
    shares = [Fraction(1, 3)] * 3
    ours, best, poured = (
        errors_of(mechanism, asked, shares)
        for mechanism in (Pareto(), Utilitarian(), Waterfilling())
    )
    assert (best <= poured).all()
    np.testing.assert_allclose(ours, best)
    assert outcome(Pareto(), asked, shares, Fraction(1)).worst_interference <= 1
