"""All solvers give the same answers wherever two of them apply."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_tables import SIZES, block, finest, histogram, query_blocks, total
from solvers_alike import assert_agree

from sqlmadp.errors import NotSupportedError
from sqlmadp.schema.marginal import CellBlock, Marginal, Partition
from sqlmadp.workload import arrow, iterative, row_space, solver, topped
from sqlmadp.workload.cells import IdentitySolver
from sqlmadp.workload.diagonal import DiagonalSolver, is_plain
from sqlmadp.workload.iterative import IterativeSolver
from sqlmadp.workload.solver import DenseSolver, solver_for
from sqlmadp.workload.topped import ToppedSolver

SCOPES = [(), ("a",), ("b",), ("a", "b"), ("b", "c"), ("a", "b", "c")]

plain = st.lists(
    st.tuples(st.sampled_from(SCOPES), st.sampled_from([1, 7, 65_536])), min_size=1, max_size=4
).map(lambda pairs: [CellBlock(finest(*scope), weight) for scope, weight in pairs])


@settings(deadline=None, max_examples=50)
@given(plain, query_blocks(), st.integers(0, 2**32))
def test_the_diagonal_solver_agrees_with_the_dense_one(blocks, asked, seed):
    assert_agree(DiagonalSolver(blocks), DenseSolver(blocks), blocks, asked, seed)


@settings(deadline=None, max_examples=40)
@given(st.lists(query_blocks(), max_size=2), query_blocks(), st.integers(0, 2**32))
def test_the_iterative_solver_agrees_with_the_dense_one(others, asked, seed):
    measured = [block(histogram("a", "b").marginal, 3 * np.eye(15)), *others]
    measured = [b for b in measured if np.abs(b.matrix).max() < 100]
    assert_agree(IterativeSolver(measured), DenseSolver(measured), measured, asked, seed)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(query_blocks(), max_size=3),
    st.sampled_from([1, 7, 65_536]),
    query_blocks(),
    st.integers(0, 2**32),
)
def test_the_solver_of_cells_with_few_rows_on_top_agrees_with_the_dense_one(
    others, weight, asked, seed
):
    measured = [CellBlock(finest(*SIZES), weight), *others]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topped, "FEW_CELLS", 0)
        patch.setattr(topped, "CELLS_A_ROW", 0.1)
        found = ToppedSolver.of(measured)
    assert found is not None
    assert_agree(found, DenseSolver(measured), measured, asked, seed)


def test_rows_far_heavier_than_the_cells_below_them_lose_no_digits():
    whole = finest(*SIZES)
    measured = [CellBlock(whole, 1), block(finest("a"), 4000 * np.tril(np.ones((5, 5))))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topped, "FEW_CELLS", 0)
        found = ToppedSolver.of(measured)
    # What is on top is known from there alone, but for one part in 10^7 or so.
    [variance] = found.variances(block(finest("a"), [[1, 0, 0, 0, 0]]))
    dense = DenseSolver(measured).variances(block(finest("a"), [[1, 0, 0, 0, 0]]))
    assert variance == pytest.approx(dense[0], rel=1e-9)
    assert variance == pytest.approx(4000**-2, rel=1e-4)


def test_several_draws_are_fitted_at_once():
    blocks = [CellBlock(finest("a", "b"), 3), CellBlock(finest("b", "c"), 2)]
    values = [np.random.default_rng(1).normal(size=(b.rows, 4)) for b in blocks]
    asked = histogram("b")
    expected = DenseSolver(blocks).fit(values)(asked)
    for other in (DiagonalSolver(blocks), IterativeSolver(blocks)):
        np.testing.assert_allclose(other.fit(values)(asked), expected, rtol=1e-9)


def test_cells_of_different_partitions_of_one_column_are_no_plain_marginals():
    halves = Marginal(("a",), (Partition.of(np.array([0, 0, 1, 1, 1])),))
    assert is_plain([histogram("a"), histogram("a", "b")])
    assert not is_plain([histogram("a"), CellBlock(halves, 2)])
    assert not is_plain([histogram("a"), block(finest("b"), np.tril(np.ones((3, 3))))])


def test_the_solver_is_chosen_by_form_and_size(monkeypatch):
    marginals = [CellBlock(finest("a", "b"), 3), CellBlock(finest("b", "c"), 2)]
    ranges = [*marginals, block(finest("a"), np.tril(np.ones((5, 5))))]
    assert isinstance(solver_for(marginals[:1]), IdentitySolver)
    assert isinstance(solver_for(marginals), DenseSolver)
    monkeypatch.setattr(solver, "FEW_COORDINATES", 10)
    assert isinstance(solver_for(marginals), DiagonalSolver)
    assert isinstance(solver_for(ranges), DenseSolver)
    assert solver_for(ranges) is solver_for(list(ranges))  # It was made a moment ago.
    monkeypatch.setattr(solver, "MOST_COORDINATES", 10)
    monkeypatch.setattr(row_space, "MOST_ROWS", 10)
    monkeypatch.setattr(arrow, "MOST_OF_ONE", 10)
    monkeypatch.setattr(solver, "_known", {})
    assert isinstance(solver_for(ranges), IterativeSolver)
    monkeypatch.setattr(iterative, "MOST_COORDINATES", 10)
    monkeypatch.setattr(solver, "_known", {})
    with pytest.raises(NotSupportedError, match="coordinates; at most 10 are supported"):
        solver_for(ranges)


def test_marginals_with_more_cells_than_memory_are_solved_in_their_own_supports():
    sizes = {f"c{number:02}": 10 for number in range(40)}
    names = sorted(sizes)
    scopes = [(names[i], names[i + 1], names[i + 2]) for i in range(38)]
    measured = [CellBlock(finest(*scope, sizes=sizes), 5) for scope in scopes]
    solved = solver_for(measured)
    assert isinstance(solved, DiagonalSolver)
    # A total is measured by every block; the best answer takes the mean of their estimates.
    [variance] = solved.variances(total())
    assert variance == pytest.approx(1000 / 25 / 38)


@settings(deadline=None, max_examples=30)
@given(plain, query_blocks())
def test_a_sum_of_variances_needs_no_single_ones(blocks, asked):
    dense = DenseSolver([*blocks, CellBlock(finest(*SIZES), 2)])
    expected = dense.variances(asked).sum()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solver, "FEW_ROWS", 0)
        assert dense.total([asked]) == pytest.approx(expected, rel=1e-9)


def test_many_cells_with_few_rows_on_top_need_no_triangular_factor():
    sizes = {"a": 70, "b": 10}
    ranges = block(finest("a", sizes=sizes), np.tri(70)[[9, 30]])
    cells = CellBlock(finest("a", "b", sizes=sizes), 3)
    assert isinstance(solver_for([cells, ranges]), ToppedSolver)
    many = block(finest("a", "b", sizes=sizes), np.tri(700))
    assert isinstance(solver_for([cells, many]), DenseSolver)


def test_a_query_that_is_solved_early_waits_for_the_others():
    cells = Marginal(
        ("a", "b", "c"),
        tuple(Partition(np.array(labels)) for labels in ([0, 1, 2, 0, 3], [0, 1, 2], [0, 1])),
    )
    one = np.zeros((1, 24))
    one[0, [5, 23]] = 1
    measured = [block(histogram("a", "b").marginal, 3 * np.eye(15)), block(cells, one)]
    coarse = Marginal(
        ("a", "b"), (Partition(np.array([0, 0, 0, 1, 0])), Partition(np.array([0, 1, 2])))
    )
    asked = block(coarse, np.tri(6))
    assert_agree(IterativeSolver(measured), DenseSolver(measured), measured, asked, 0)
