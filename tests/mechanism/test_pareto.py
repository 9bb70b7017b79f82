"""Pareto: nobody worse off than under Waterfilling, at less error in all."""

from fractions import Fraction

import numpy as np
import pytest
import small_tables
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from sqlmadp.mechanism import pareto
from sqlmadp.mechanism.agreement import FINE, Agreement
from sqlmadp.mechanism.collective import Collective
from sqlmadp.mechanism.fairness import expected_errors, outcome
from sqlmadp.mechanism.pareto import Pareto
from sqlmadp.mechanism.waterfilling import Waterfilling
from sqlmadp.schema.marginal import Block, Marginal, Partition
from sqlmadp.strategy.capped import _Capped, draft_of
from sqlmadp.strategy.lagrangian import Lagrangian
from sqlmadp.strategy.layout import laid_over
from sqlmadp.strategy.select import select
from sqlmadp.workload.workload import Workload, stacked

CELLS = 6


def workload(matrix):
    cells = Marginal(("cell",), (Partition.finest(len(matrix[0])),))
    return Workload.of([Block(cells, sparse.csr_array(np.array(matrix, dtype=np.float64)))])


def marginal(name, size=2):
    column = Marginal((name,), (Partition.finest(size),))
    return Workload.of([Block(column, sparse.eye_array(size, format="csr"))])


PREFIX = workload(np.tril(np.ones((CELLS, CELLS))))
IDENTITY = workload(np.eye(CELLS))
TOTAL = workload(np.ones((1, CELLS)))
WIDE = [workload(np.tril(np.ones((24, 24)))), workload(np.eye(24)), workload([[1] * 24])]
COLUMNS = [marginal(name) for name in "abcdef"]

rows = st.lists(st.integers(0, 1), min_size=CELLS, max_size=CELLS).filter(any)
workloads = st.lists(rows, min_size=1, max_size=4).map(workload) | st.sampled_from(
    [PREFIX, IDENTITY, TOTAL]
)
collectives = st.lists(st.tuples(workloads, st.integers(1, 3)), min_size=1, max_size=4)
several_scopes = st.lists(
    st.tuples(st.sampled_from(COLUMNS), st.integers(1, 3)), min_size=1, max_size=4
)
few = settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


def errors_of(mechanism, asked, shares):
    return np.array(expected_errors(mechanism.select(asked, shares), asked, Fraction(1)))


@few
@given(collectives | several_scopes)
def test_nobody_is_worse_off_than_alone_or_with_one_analyst_less(collective):
    asked, shares = [w for w, _ in collective], [Fraction(s) for _, s in collective]
    result = outcome(Pareto(), asked, shares, Fraction(1))
    assert result.sharing_ratio <= 1 + 1e-9
    assert result.worst_interference <= 1 + 1e-9


@settings(deadline=None, max_examples=8, derandomize=True)
@given(small_tables.collectives())
def test_nor_over_tables_of_several_columns(collective):
    asked, shares = collective
    result = outcome(Pareto(), asked, shares, Fraction(1))
    assert result.sharing_ratio <= 1 + 1e-9
    assert result.worst_interference <= 1 + 1e-9
    poured = expected_errors(Waterfilling().select(asked, shares), asked, Fraction(1))
    assert (np.array(result.errors) <= np.array(poured) * (1 + 1e-9)).all()


@few
@given(collectives | several_scopes)
def test_nobody_is_worse_off_than_under_waterfilling_with_or_without_another(collective):
    asked, shares = [w for w, _ in collective], [Fraction(s) for _, s in collective]
    ours = expected_errors(Pareto().select(asked, shares), asked, sum(shares))
    poured = expected_errors(Waterfilling().select(asked, shares), asked, sum(shares))
    assert (np.array(ours) <= np.array(poured) * (1 + 1e-9)).all()
    for i in range(len(asked) if len(asked) > 1 else 0):
        rest = [j for j in range(len(asked)) if j != i]
        others, budget = [asked[j] for j in rest], [shares[j] for j in rest]
        before = expected_errors(Waterfilling().select(others, budget), others, sum(budget))
        assert all(ours[j] <= b * (1 + 1e-9) for j, b in zip(rest, before, strict=True))


@few
@given(collectives | several_scopes)
def test_every_cell_sums_to_exactly_the_sensitivity(collective):
    asked, shares = [w for w, _ in collective], [Fraction(s) for _, s in collective]
    strategy = Pareto().select(asked, shares)
    lowest = highest = 0
    for block in strategy.blocks:
        sums = abs(block.matrix).sum(axis=0)
        lowest, highest = lowest + sums.min(), highest + sums.max()
        assert block.matrix.dtype == np.int64
    assert lowest <= strategy.sensitivity <= highest
    assert strategy.sensitivity <= FINE * sum(s for _, s in collective)


def test_fewer_analysts_keep_to_what_everyone_agreed_on():
    # Everyone agrees that a and b pool; without b, a does not turn to c.
    asked = [COLUMNS[0], COLUMNS[1], COLUMNS[2], COLUMNS[2]]
    shares = [Fraction(1, 4)] * 4
    settled = Pareto().settle(asked, shares)
    assert settled.agreement.scopes == (("a", "b"), ("c",))
    without = settled.select([asked[0], *asked[2:]], shares[1:])
    assert {block.marginal.scope for block in without.blocks} <= {(), ("a",), ("c",)}
    apart = Pareto().select([asked[0], *asked[2:]], shares[1:])
    assert ("a", "c") in {block.marginal.scope for block in apart.blocks}


def test_if_no_strategy_meets_the_caps_everyone_gets_waterfilling(monkeypatch):
    asked, shares = [COLUMNS[0], COLUMNS[1], PREFIX], [Fraction(1, 3)] * 3
    monkeypatch.setattr(pareto, "_settled", {})
    monkeypatch.setattr(pareto, "_capped", lambda *_: None)
    result = outcome(Pareto(), asked, shares, Fraction(1))
    poured = outcome(Waterfilling(), asked, shares, Fraction(1))
    assert result.errors == pytest.approx(poured.errors)
    np.testing.assert_allclose(result.interference, poured.interference)


def test_a_cap_from_a_smaller_collective_is_met_at_a_price():
    everyone = Collective.of(WIDE, [Fraction(1, 3)] * 3)
    agreement = Agreement(scopes=(("cell",),))
    free = agreement.free(everyone)
    limits = np.where(np.arange(3) == np.argmin(free.errors), 0.95 * free.errors, np.inf)
    capped = agreement.best(everyone, limits, [])
    assert (capped.errors <= limits).all()
    assert capped.errors.sum() > free.errors.sum()


def test_a_single_analyst_gets_their_own_selection():
    alone = errors_of(Pareto(), [PREFIX], [Fraction(1)])
    assert alone == pytest.approx(2 * select(PREFIX).error)


def test_the_total_error_falls_well_below_waterfillings():
    shares = [Fraction(1, 3)] * 3
    ours = errors_of(Pareto(), WIDE, shares).sum()
    assert ours < 0.9 * errors_of(Waterfilling(), WIDE, shares).sum()


def test_over_several_small_columns_the_error_nearly_halves():
    shares = [Fraction(1, 6)] * 6
    ours = errors_of(Pareto(), COLUMNS, shares).sum()
    assert ours < 0.65 * errors_of(Waterfilling(), COLUMNS, shares).sum()


def test_the_order_of_analysts_does_not_matter():
    asked, shares = [PREFIX, TOTAL, IDENTITY], [Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)]
    there = errors_of(Pareto(), asked, shares)
    back = errors_of(Pareto(), asked[::-1], shares[::-1])
    np.testing.assert_array_equal(there, back[::-1])


@pytest.mark.parametrize("asked", [[PREFIX, TOTAL], COLUMNS[:3]])
def test_the_gradient_of_the_capped_search_is_that_of_its_loss(asked):
    together = stacked(asked)
    scopes = {b.marginal.scope for w in (*asked, together) for b in select(w).blocks}
    layout = laid_over(together, scopes)
    start = draft_of(select(together).blocks, layout)
    grams = np.array([layout.gram_of(w) for w in asked])
    problem = _Capped(start, grams)
    lagrangian = Lagrangian(problem, np.ones(len(asked)), np.full(len(asked), 0.5))
    random = np.random.default_rng(1)
    flat = problem.start + 0.1 * random.random(len(problem.start))
    _, gradient = lagrangian.loss_and_gradient(flat, 10.0)
    for place in range(len(flat)):
        step = np.zeros_like(flat)
        step[place] = 1e-6
        ends = (lagrangian.loss_and_gradient(flat + sign * step, 10.0) for sign in (1, -1))
        above, below = (loss for loss, _ in ends)
        assert (above - below) / 2e-6 == pytest.approx(gradient[place], rel=1e-4, abs=1e-5)
