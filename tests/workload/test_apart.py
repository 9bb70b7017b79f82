"""Parts of a strategy that share no column are solved apart as they would be together."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_tables import block, finest, histogram, total
from solvers_alike import assert_agree

from sqlmadp.errors import NotCoveredError
from sqlmadp.schema.marginal import CellBlock
from sqlmadp.workload import solver as solving
from sqlmadp.workload.apart import ApartSolver
from sqlmadp.workload.solver import DenseSolver, solver_for


def measured(seed, *, whole):
    """Blocks over ``a, b`` and over ``c``; what is over c tells the total or does not."""
    random = np.random.default_rng(seed)
    few = np.array([[0.0, 2.0]])
    return [
        block(finest("a", "b"), random.integers(0, 4, (20, 15))),
        block(finest("c"), random.integers(1, 4, (6, 2)) if whole else few),
        CellBlock(finest("a"), 3.0),
        total(),
    ]


ASKED = [
    histogram("a"),
    total(),
    block(finest("c"), [[0.0, 1.0], [1, 1]]),
    block(finest("a", "b"), np.random.default_rng(3).integers(0, 2, (4, 15))),
    block(finest("a", "c"), np.kron(np.tri(5), np.ones((1, 2)))),
    histogram("c"),
]


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32), st.booleans())
def test_parts_agree_with_the_whole(seed, whole):
    blocks = measured(seed, whole=whole)
    apart = ApartSolver.of(blocks, solver_for)
    assert apart is not None
    dense = DenseSolver(blocks)
    for asked in ASKED:
        assert_agree(apart, dense, blocks, asked, seed)


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 2**32))
def test_answers_of_different_parts_have_the_covariance_that_they_have(seed):
    blocks = measured(seed, whole=True)
    apart, dense = ApartSolver.of(blocks, solver_for), DenseSolver(blocks)
    one, other = histogram("a"), histogram("c")
    found = apart.noise(one) @ apart.noise(other).T
    expected = dense.noise(one) @ dense.noise(other).T
    np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())
    assert np.abs(expected).max() > 0


def test_several_draws_are_estimated_at_once():
    blocks = measured(1, whole=True)
    values = [np.random.default_rng(2).normal(size=(each.rows, 3)) for each in blocks]
    apart, dense = ApartSolver.of(blocks, solver_for), DenseSolver(blocks)
    for asked in ASKED[:4]:
        np.testing.assert_allclose(apart.fit(values)(asked), dense.fit(values)(asked), atol=1e-9)


def test_what_hangs_together_is_not_taken_apart_and_what_spans_parts_is_refused(monkeypatch):
    blocks = measured(1, whole=True)
    assert ApartSolver.of([*blocks, CellBlock(finest("b", "c"), 1)], solver_for) is None
    assert ApartSolver.of([blocks[0], total()], solver_for) is None
    apart = ApartSolver.of(blocks, solver_for)
    with pytest.raises(NotCoveredError):
        apart.variances(block(finest("a", "c"), np.eye(10)))
    assert isinstance(solver_for(blocks), DenseSolver)
    monkeypatch.setattr(solving, "MOST_COORDINATES", 10)
    assert isinstance(solver_for(blocks[:2]), ApartSolver)
