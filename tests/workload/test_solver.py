"""Coordinates and solvers, against numpy's pseudo-inverse over all cells of a small table."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse
from small_tables import (
    CELLS,
    SIZES,
    block,
    finest,
    histogram,
    marginals,
    partitions,
    query_blocks,
    spans,
    total,
    variances,
    written_out,
)

from sqlmadp.errors import NotCoveredError, NotSupportedError
from sqlmadp.schema.marginal import TOTAL, Block, Marginal, Partition
from sqlmadp.workload.cells import IdentitySolver
from sqlmadp.workload.coordinates import Basis, Coordinates
from sqlmadp.workload.reduce import reduced
from sqlmadp.workload.solver import DenseSolver, solver_for

fast = settings(deadline=None, max_examples=60)

# Weights as far apart as in a strategy: one part of 2^16, times a small and a large share.
WEIGHTS = [1, 2, 130, 65_536, 65_536 * 1_000]


@st.composite
def strategy_blocks(draw):
    """Integer rows over one marginal, some cells alone and some together, often rank-deficient."""
    marginal = draw(marginals())
    entries = st.lists(st.integers(-1, 2), min_size=marginal.size, max_size=marginal.size)
    rows = np.array(draw(st.lists(entries, max_size=3)), dtype=np.int64).reshape(-1, marginal.size)
    cells = draw(st.sampled_from(["all", "some", "none"]))
    own = np.eye(marginal.size, dtype=np.int64)[: {"all": None, "some": 2, "none": 0}[cells]]
    heavy, light = (draw(st.sampled_from(WEIGHTS)) for _ in range(2))
    return block(marginal, np.vstack([heavy * rows, light * own]), np.int64)


strategies = st.lists(strategy_blocks(), min_size=1, max_size=3).filter(
    lambda blocks: any(b.matrix.nnz for b in blocks)
)


@fast
@given(strategies, st.data())
def test_variances_equal_the_pseudo_inverse_over_all_cells(blocks, data):
    strategy = written_out(blocks).astype(float)
    mix = data.draw(st.lists(st.integers(-1, 1), min_size=len(strategy), max_size=len(strategy)))
    combined = np.array(mix) @ strategy
    assume(combined.any())
    query = reduced(block(finest(*SIZES), combined[None, :]))
    expected = variances(strategy, combined[None, :])
    np.testing.assert_allclose(DenseSolver(blocks).variances(query), expected, rtol=1e-6)


@fast
@given(strategies, query_blocks())
def test_a_query_is_answered_just_when_it_is_a_combination_of_what_was_measured(blocks, asked):
    strategy, queries = written_out(blocks).astype(float), written_out([asked])
    inside = spans(strategy, queries)
    solver = solver_for(blocks)
    for row, covered in enumerate(inside):
        query = Block(asked.marginal, asked.matrix[[row]])
        if covered:
            expected = variances(strategy, queries[[row]])
            np.testing.assert_allclose(solver.variances(query), expected, rtol=1e-6)
        else:
            with pytest.raises(NotCoveredError):
                solver.variances(query)
            with pytest.raises(NotCoveredError):
                solver.fit([np.zeros(b.rows) for b in blocks])(query)


@fast
@given(strategies, st.integers(0, 2**32))
def test_noisy_values_give_the_least_squares_answers(blocks, seed):
    strategy = written_out(blocks).astype(float)
    noise = np.random.default_rng(seed).normal(size=len(strategy))
    best = strategy @ np.linalg.pinv(strategy) @ noise
    ends = np.cumsum([b.rows for b in blocks])[:-1]
    answers = DenseSolver(blocks).fit(np.split(noise, ends))
    found = np.concatenate([answers(Block(b.marginal, b.matrix.astype(float))) for b in blocks])
    # Every row is rebuilt: its answer is its share of the projection of the noise.
    np.testing.assert_allclose(found, best, atol=1e-6)


@settings(deadline=None, max_examples=40)
@given(strategies, st.sampled_from([3, 1_000_000]), st.integers(0, 2**32), query_blocks())
def test_answers_without_noise_are_the_exact_counts(blocks, most, seed, asked):
    table = np.random.default_rng(seed).integers(0, most, CELLS)
    strategy, queries = written_out(blocks), written_out([asked])
    inside = spans(strategy.astype(float), queries)
    values = [written_out([b]) @ table.astype(float) for b in blocks]
    answers = solver_for(blocks).fit(values)
    for row in np.flatnonzero(inside):
        [answer] = answers(Block(asked.marginal, asked.matrix[[row]]))
        assert answer == pytest.approx(queries[row] @ table, rel=1e-9, abs=1e-3)


@fast
@given(marginals(), st.sampled_from(WEIGHTS), query_blocks(), st.integers(0, 2**32))
def test_the_identity_solver_equals_the_dense_one(marginal, weight, asked, seed):
    blocks = [block(marginal, weight * np.eye(marginal.size), np.int64)]
    identity, dense = solver_for(blocks), DenseSolver(blocks)
    assert isinstance(identity, IdentitySolver)
    values = [np.random.default_rng(seed).normal(size=marginal.size)]
    query = reduced(asked)
    try:
        expected = dense.variances(query)
    except NotCoveredError:
        with pytest.raises(NotCoveredError):
            identity.variances(query)
        with pytest.raises(NotCoveredError):
            identity.fit(values)(query)
        return
    np.testing.assert_allclose(identity.variances(query), expected, rtol=1e-9)
    found = identity.fit(values)(query)
    np.testing.assert_allclose(found, dense.fit(values)(query), rtol=1e-9, atol=1e-12)


def test_only_one_block_with_one_weight_on_every_cell_is_solved_as_an_identity():
    eye = np.eye(5)
    for other in (eye[:4], eye[::-1], eye + 1, np.diag([1, 1, 1, 1, 2]), np.vstack([eye, eye])):
        assert isinstance(solver_for([block(finest("a"), other, np.int64)]), DenseSolver)
    assert isinstance(solver_for([histogram("a"), histogram("b")]), DenseSolver)


def test_a_query_finer_than_what_was_measured_is_not_covered():
    halves = Marginal(("a",), (Partition(np.array([0, 0, 1, 1, 1])),))
    for measured in ([block(halves, np.eye(2))], [block(halves, np.eye(2)), histogram("b")]):
        for query in (histogram("a"), histogram("c")):
            with pytest.raises(NotCoveredError, match="does not tell apart"):
                solver_for(measured).variances(query)


def test_a_query_that_only_partitions_of_two_blocks_together_tell_apart_is_not_covered():
    first = Marginal(("a",), (Partition(np.array([0, 0, 0, 1, 1])),))
    second = Marginal(("a", "b"), (Partition(np.array([0, 0, 1, 0, 1])), Partition.finest(3)))
    solver = solver_for([block(first, np.eye(2)), block(second, np.eye(6))])
    for row in np.eye(5)[[2, 3, 4]]:  # Cells that the two partitions cross out together.
        with pytest.raises(NotCoveredError):
            solver.variances(block(finest("a"), [row]))
    [variance] = solver.variances(block(finest("a"), [[0, 0, 1, -1, 0]]))
    # Two ways to get it, each a cell of the first and three of the second.
    assert variance == pytest.approx((1 + 3) / 2)


def test_how_large_a_query_is_does_not_decide_whether_it_is_covered():
    measured = [histogram("a"), histogram("b")]
    solver = solver_for(measured)
    for size in (1e-9, 1.0, 1e9):
        crossed = size * histogram("a", "b").matrix.toarray()[:1]
        with pytest.raises(NotCoveredError):
            solver.variances(block(finest("a", "b"), crossed))
        [variance] = solver.variances(block(finest("a"), size * np.ones((1, 5))))
        assert variance == pytest.approx(size**2 / (1 / 5 + 1 / 3))
        # A large covered row beside it does not make an uncovered one pass either.
        with pytest.raises(NotCoveredError):
            solver.variances(block(finest("a", "b"), np.vstack([crossed, np.full(15, 1e9)])))


def test_a_row_of_one_part_in_a_hundred_million_still_counts():
    half = np.array([[1, 1, 0, 1, 0]])
    rows = np.vstack([100_000_000 * half, np.eye(5, dtype=np.int64)])
    [variance] = solver_for([block(finest("a"), rows, np.int64)]).variances(
        block(finest("a"), [[1, -1, 0, 0, 0]])
    )
    assert variance == pytest.approx(2, rel=1e-9)


def test_the_number_of_coordinates_is_far_below_the_number_of_cells():
    sizes = {"age": 100, "sex": 2, "race": 7, "state": 51}
    asked = [finest(*names, sizes=sizes) for names in (["age"], ["sex", "race"], ["state"], [])]
    assert Coordinates(asked).size == 163


@fast
@given(st.lists(marginals(), min_size=1, max_size=4))
def test_functions_have_the_same_linear_relations_in_coordinates_as_over_all_cells(used):
    coordinates = Coordinates(used)
    blocks = [block(marginal, np.eye(marginal.size)) for marginal in used]
    rows = np.vstack([coordinates.rows(each)[0] for each in blocks])
    cells = written_out(blocks)
    np.testing.assert_allclose(
        rows @ np.linalg.pinv(rows, rcond=1e-9), cells @ np.linalg.pinv(cells), atol=1e-9
    )


@fast
@given(st.lists(partitions(7), min_size=1, max_size=4))
def test_basis_functions_are_orthogonal_and_the_first_of_them_span_the_coarse_partitions(used):
    basis = Basis.of(dict.fromkeys(used, 1))
    groups = basis.refinement.size
    inner = basis.functions.T @ basis.functions / groups
    np.testing.assert_allclose(inner, np.eye(groups), atol=1e-12)
    for partition, level in basis.levels.items():
        indicators = np.eye(partition.size)[partition.coarsen(basis.refinement)]
        first = basis.functions[:, :level]
        np.testing.assert_allclose(first @ first.T @ indicators / groups, indicators, atol=1e-12)
    coarse = min(basis.levels, key=lambda each: (each.size, each.key))
    assert basis.levels[coarse] == coarse.size


def test_no_queries_have_no_variances():
    none = block(finest("a"), np.zeros((0, 5)))
    for measured in ([histogram("a")], [histogram("a"), total()]):
        solver = solver_for(measured)
        assert solver.variances(none).shape == (0,)
        assert solver.fit([np.zeros(b.rows) for b in measured])(none).shape == (0,)


def test_too_many_coordinates_are_refused_before_they_are_multiplied_out():
    many = Marginal(("a", "b"), (Partition.finest(101), Partition.finest(101)))
    cells = Block(many, sparse.eye_array(many.size, dtype=np.int64, format="csr"))
    whole = Block(TOTAL, sparse.csr_array(np.ones((1, 1), dtype=np.int64)))
    with pytest.raises(NotSupportedError, match="10,201 coordinates"):
        DenseSolver([cells, whole])
