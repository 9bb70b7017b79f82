"""p-Identity and the joint search: gradients, and the bounds on B."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import approx_fprime
from small_tables import block, finest, histogram, total

from sqlmadp.strategy.joint import _Rows, _Weights, balance
from sqlmadp.strategy.layout import layouts
from sqlmadp.strategy.p_identity import LARGEST, descended, grow, loss_and_gradient
from sqlmadp.workload.workload import Workload

entries = st.floats(0, 5).map(lambda each: round(each, 3))


@st.composite
def rows_and_workload(draw):
    rows, groups = draw(st.integers(1, 3)), draw(st.integers(1, 5))
    queries = draw(hnp.arrays(float, (4, groups), elements=st.integers(-1, 3)))
    return draw(hnp.arrays(float, (rows, groups), elements=entries)), queries


def p_identity(rows):
    matrix = np.vstack([np.eye(rows.shape[1]), rows])
    return matrix / matrix.sum(axis=0)


@settings(deadline=None)
@given(rows_and_workload())
def test_the_loss_is_the_error_of_the_strategy_and_the_gradient_its_slope(drawn):
    rows, queries = drawn
    gram = queries.T @ queries
    loss, gradient = loss_and_gradient(rows, gram)
    assert loss == pytest.approx(np.sum((queries @ np.linalg.pinv(p_identity(rows))) ** 2))
    for place in np.ndindex(rows.shape):
        step = np.zeros_like(rows)
        step[place] = 1e-5
        up, down = (loss_and_gradient(rows + sign * step, gram)[0] for sign in (1, -1))
        assert gradient[place] == pytest.approx((up - down) / 2e-5, rel=1e-4, abs=1e-4)


SEVERAL_SCOPES = Workload.of(
    [
        histogram("a"),
        total(),
        block(finest("a", "c"), np.tril(np.ones((10, 10)))),
        block(finest("b"), [[1, 1, 0]]),
    ]
)

PLAIN_MARGINALS = Workload.of([histogram("a", "b"), histogram("b", "c"), total()])


@pytest.mark.parametrize("make", [_Weights, _Rows])
@pytest.mark.parametrize("count", [0, 2])
@pytest.mark.parametrize("asked", [SEVERAL_SCOPES, PLAIN_MARGINALS])
def test_the_joint_gradient_is_the_slope_of_the_joint_loss(asked, count, make):
    layout = layouts(asked)[0]
    random = np.random.default_rng(1)
    rows = tuple(random.random((count, scope.groups)) for scope in layout.scopes)
    problem = make(layout, rows)
    point = problem.start + 0.1 * random.random(len(problem.start))
    slope = approx_fprime(point, lambda flat: problem.loss_and_gradient(flat)[0], 1e-7)
    np.testing.assert_allclose(problem.loss_and_gradient(point)[1], slope, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make", [_Weights, _Rows])
@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize("asked", [SEVERAL_SCOPES, PLAIN_MARGINALS])
def test_the_joint_loss_is_the_error_of_the_weighted_blocks(asked, count, make):
    layout = layouts(asked)[0]
    rows = tuple(np.full((count, scope.groups), 0.5) for scope in layout.scopes)
    problem = make(layout, rows)
    draft = problem.draft(problem.start)
    error = layout.error(
        [weight * p_identity(each) for weight, each in zip(draft.weights, draft.rows, strict=True)]
    )
    # The loss is in units of the error at the start.
    assert problem.loss_and_gradient(problem.start)[0] == pytest.approx(1)
    assert problem._unit == pytest.approx(error)


@pytest.mark.parametrize("gram", [np.ones((6, 6)), np.eye(6), np.tri(6).T @ np.tri(6)])
def test_the_rows_of_b_stay_within_their_bounds_and_leave_frozen_groups_alone(gram):
    frozen = np.arange(6) == 2
    start = np.random.default_rng(0).random((2, 6)) * 100
    by_descent = descended(start, lambda rows: loss_and_gradient(rows, gram), frozen)[1]
    for rows in (by_descent, grow(gram, frozen, 4)):
        assert (rows >= 0).all()
        assert (rows <= LARGEST).all()
        assert not rows[:, frozen].any()
    # A total asked a million times would pull B to infinity.
    assert grow(gram + 1e6, frozen, 2).max() <= LARGEST


def test_a_search_never_ends_above_the_identity_it_starts_from():
    for gram in (np.eye(5), np.tri(5).T @ np.tri(5), np.diag([1.0, 100, 1, 1, 1])):
        rows = grow(gram, np.zeros(5, dtype=bool), 8)
        assert loss_and_gradient(rows, gram)[0] <= np.trace(gram) * (1 + 1e-12)


def test_balanced_weights_are_positive_and_sum_to_one():
    for layout in layouts(SEVERAL_SCOPES):
        if len(layout.scopes) > 1:
            plain = [np.zeros((0, scope.groups)) for scope in layout.scopes]
            draft = balance(layout, plain, move_rows=False)
            assert min(draft.weights) > 0
            assert sum(draft.weights) == pytest.approx(1)
