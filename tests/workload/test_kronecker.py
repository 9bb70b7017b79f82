"""Kronecker blocks are solved column by column as they would be written out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from small_tables import block, finest, histogram, total
from solvers_alike import assert_agree

from sqlmadp.errors import NotCoveredError
from sqlmadp.schema.kronecker import KroneckerBlock, as_products, relabelled, scaled
from sqlmadp.schema.marginal import Block, CellBlock, Marginal, Partition
from sqlmadp.workload import solver as solving
from sqlmadp.workload.iterative import IterativeSolver
from sqlmadp.workload.kronecker import KroneckerSolver
from sqlmadp.workload.product_rows import ProductRows
from sqlmadp.workload.solver import DenseSolver, solver_for

SHAPE = (5, 3)
ASKED = [
    histogram("a"),
    total(),
    block(finest("a", "b"), np.kron(np.tri(5), np.tri(3))),
    block(finest("a", "b"), np.random.default_rng(3).integers(0, 2, (4, 15))),
    CellBlock(finest("a", "b"), 2.0),
]


def factor(size, more, random):
    rows = random.integers(0, 5, (more, size))
    return sparse.csr_array(np.vstack([rows, 7 * np.eye(size)]).astype(np.int64))


def strategy(seed, *, separable):
    random = np.random.default_rng(seed)
    factors = [factor(size, 2, random) for size in SHAPE]
    shape = tuple(each.shape[0] for each in factors)
    if separable:
        heights = np.multiply.outer(*(random.integers(1, 9, size) for size in shape))
    else:
        heights = random.integers(1, 9, shape)
        heights[0, 0] = 0
    return KroneckerBlock(finest("a", "b"), factors, heights)


@settings(deadline=None, max_examples=12)
@given(st.integers(0, 2**32), st.booleans())
def test_the_solver_agrees_with_the_dense_and_the_iterative_one(seed, separable):
    kept = strategy(seed, separable=separable)
    solver = solver_for([kept])
    assert isinstance(solver, KroneckerSolver)
    assert solver.separable or not separable
    values = [np.random.default_rng(seed).normal(size=kept.rows)]
    dense = DenseSolver([Block(kept.marginal, kept.matrix)])
    for other, few in ((dense, ASKED), (IterativeSolver([kept]), ASKED[:2])):
        for asked in few:
            variances = other.variances(asked)
            np.testing.assert_allclose(solver.variances(asked), variances, rtol=1e-9)
            assert solver.total([asked]) == pytest.approx(variances.sum(), rel=1e-9)
            answers = other.fit(values)(asked)
            np.testing.assert_allclose(solver.fit(values)(asked), answers, rtol=1e-9, atol=1e-11)
            noise = solver.noise(asked)
            np.testing.assert_allclose((noise @ noise.T).diagonal(), variances, rtol=1e-9)


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 2**32), st.floats(0.1, 10))
def test_blocks_of_several_releases_are_solved_together(seed, weight):
    halves = Marginal(("a", "b"), (Partition.of(np.array([0, 0, 1, 1, 1])), Partition.finest(3)))
    coarse = KroneckerBlock(
        halves,
        [factor(2, 1, np.random.default_rng(seed)), factor(3, 1, np.random.default_rng(1))],
        np.arange(1, 13).reshape(3, 4),
    )
    measured = [
        strategy(seed, separable=True),
        scaled(coarse, weight),
        CellBlock(finest("a", "b"), 2),
    ]
    solver = solver_for(measured)
    assert isinstance(solver, KroneckerSolver)
    dense = DenseSolver([Block(each.marginal, each.matrix) for each in measured])
    for asked in ASKED:
        assert_agree(solver, dense, measured, asked, seed)


def test_groups_that_no_row_holds_alone_are_no_obstacle_unless_they_are_asked_for():
    coarse = sparse.csr_array(np.array([[1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 1]]))
    factors = [coarse.astype(np.int64), sparse.eye_array(3, format="csr", dtype=np.int64)]
    uneven = np.full((3, 3), 2)
    uneven[0, 1] = 3
    asked = np.kron(coarse.toarray(), np.tri(3))
    for heights, separable in ((np.full((3, 3), 2), True), (uneven, False)):
        kept = KroneckerBlock(finest("a", "b"), factors, heights)
        solver, dense = KroneckerSolver([kept]), DenseSolver([Block(kept.marginal, kept.matrix)])
        assert solver.separable == separable
        # Products, and one that is none.
        covered = block(finest("a", "b"), np.vstack([asked, asked[0] + asked[-1] + asked[4]]))
        assert_agree(solver, dense, [kept], covered, 1)
        outside = asked[-1] + np.eye(15)[0]
        for other in (histogram("a"), histogram("c"), block(finest("a", "b"), [outside])):
            with pytest.raises(NotCoveredError):
                solver.variances(other)
            with pytest.raises(NotCoveredError):
                solver.fit([np.zeros(kept.rows)])(other)


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 2**32), st.floats(0.1, 10))
def test_products_that_differ_in_one_column_are_one_product(seed, weight):
    random = np.random.default_rng(seed)
    eye = sparse.eye_array(5, format="csr", dtype=np.int64)
    two = Marginal(("a", "b"), (Partition.finest(5), Partition.of(np.array([0, 0, 1]))))
    measured = [
        KroneckerBlock(finest("a", "b"), [eye, factor(3, 2, random)], np.full((5, 5), 2)),
        scaled(KroneckerBlock(two, [eye * 3, factor(2, 1, random)], np.ones((5, 3))), weight),
    ]
    solver = solver_for(measured)
    assert solver.separable
    dense = DenseSolver([Block(each.marginal, each.matrix) for each in measured])
    for asked in ASKED:
        assert_agree(solver, dense, measured, asked, seed)
    assert not solver_for([*measured, strategy(seed, separable=True)]).separable


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32))
def test_a_kronecker_block_is_multiplied_as_its_matrix(seed):
    kept = strategy(seed, separable=False)
    matrix = kept.matrix.toarray()
    random = np.random.default_rng(seed)
    cells, values = random.normal(size=(15, 2)), random.normal(size=(kept.rows, 2))
    np.testing.assert_allclose(kept.times(cells), matrix @ cells, atol=1e-9)
    np.testing.assert_allclose(kept.transposed_times(values), matrix.T @ values, atol=1e-9)
    assert kept.square == pytest.approx((matrix**2).sum())
    assert (scaled(kept, 3).matrix.toarray() == 3 * matrix).all()
    other = Marginal(("a", "b"), (Partition.finest(5), Partition.finest(3)))
    assert (relabelled(kept, other).matrix.toarray() == matrix).all()


def test_cells_are_products_of_groups():
    cells = as_products(CellBlock(finest("a", "b"), 3))
    assert (cells.matrix.toarray() == 3 * np.eye(15)).all()


def test_products_lift_to_more_columns_and_finer_groups():
    halves = Partition.of(np.array([0, 0, 1, 1, 1]))
    coarse = Marginal(("a",), (halves,))
    rows = ProductRows.of(block(coarse, [[1.0, 2.0], [0.0, 3.0]]))
    both = ProductRows.joined(
        [
            rows.lifted(coarse, finest("a", "b")),
            ProductRows.of(CellBlock(finest("a", "b"), 2.0)),
            ProductRows.of(block(Marginal((), ()), [[4.0]])).lifted(
                Marginal((), ()), finest("a", "b")
            ),
        ]
    )
    written = [
        value * np.kron(both.members[0][i], both.members[1][j])
        for value, i, j in zip(both.values, *both.sets, strict=True)
    ]
    expected = [
        np.kron(np.array([1, 1, 2, 2, 2]), np.ones(3)),
        np.kron(np.array([0, 0, 3, 3, 3]), np.ones(3)),
        *(2 * np.eye(15)),
        4 * np.ones(15),
    ]
    np.testing.assert_allclose(written, expected)


def test_what_is_in_factors_or_in_heights_makes_no_difference_to_how_soon_a_solver_is_done(
    monkeypatch,
):
    one, other = strategy(1, separable=False), strategy(2, separable=False)
    moved = KroneckerBlock(other.marginal, [f * 1000.0 for f in other.factors], other.heights / 1e6)
    steps = {}
    times = KroneckerSolver._times
    for name, second in (("as it is", other), ("moved", moved)):
        taken = []
        monkeypatch.setattr(
            KroneckerSolver,
            "_times",
            lambda self, columns, taken=taken: taken.append(1) or times(self, columns),
        )
        for asked in ASKED:
            KroneckerSolver([one, second]).variances(asked)
        steps[name] = len(taken)
    assert steps["moved"] == pytest.approx(steps["as it is"], abs=2)


def ranges(random, count):
    """Rows of a strategy that are no products: areas of the plane."""
    return Block(finest("a", "b"), sparse.csr_array(random.integers(0, 3, (count, 15)) * 1.0))


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 2**32), st.floats(0.01, 100), st.booleans())
def test_few_rows_of_any_form_are_solved_for_beside_products(seed, weight, separable):
    random = np.random.default_rng(seed)
    measured = [
        scaled(ranges(random, 4), weight),
        strategy(seed, separable=separable),
        CellBlock(finest("a"), 3.0),
        Block(Marginal((), ()), sparse.csr_array([[2.0]])),
    ]
    solver = KroneckerSolver(measured)
    assert not solver.separable
    dense = DenseSolver([Block(each.marginal, each.matrix) for each in measured])
    for asked in ASKED:
        assert_agree(solver, dense, measured, asked, seed)


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 2**32), st.floats(0.1, 10))
def test_rows_beside_products_may_tell_apart_what_products_do_not(seed, weight):
    random = np.random.default_rng(seed)
    halves = Marginal(("a", "b"), (Partition.of(np.array([0, 0, 1, 1, 1])), Partition.finest(3)))
    coarse = KroneckerBlock(halves, [factor(2, 1, random), factor(3, 1, random)], np.ones((3, 4)))
    finer = scaled(ranges(random, 3), weight)
    measured = [coarse, finer]
    solver = KroneckerSolver(measured)
    dense = DenseSolver([Block(each.marginal, each.matrix) for each in measured])
    mixed = Block(finest("a", "b"), sparse.csr_array(finer.matrix[:2] + finer.matrix[1:]))
    for asked in (finer, mixed, total(), histogram("b"), histogram("a")):
        assert_agree(solver, dense, measured, asked, seed)


def test_one_product_and_few_rows_take_one_step(monkeypatch):
    measured = [strategy(1, separable=True), ranges(np.random.default_rng(1), 4)]
    multiplied = []
    times = KroneckerSolver._times
    monkeypatch.setattr(
        KroneckerSolver,
        "_times",
        lambda self, columns: multiplied.append(columns) or times(self, columns),
    )
    KroneckerSolver(measured).variances(histogram("a"))
    assert len(multiplied) == 2  # A step, and what is left after it.


def test_a_large_strategy_of_a_product_and_rows_is_solved_column_by_column(monkeypatch):
    monkeypatch.setattr(solving, "MOST_COORDINATES", 10)
    measured = [strategy(1, separable=True), ranges(np.random.default_rng(1), 4)]
    assert isinstance(solver_for(measured), KroneckerSolver)
    apart = [*measured, histogram("c")]
    assert not isinstance(solver_for(apart), KroneckerSolver)


def test_what_a_large_strategy_was_solved_for_is_known_to_whoever_asks_next(monkeypatch):
    monkeypatch.setattr(solving, "_known", {})
    first, second = (
        solver_for([strategy(4, separable=False), CellBlock(finest("a", "b"), 2)]) for _ in range(2)
    )
    assert first is second
    others = [solver_for([strategy(seed, separable=False)]) for seed in range(5, 8)]
    assert len(solving._known) == solving.KEPT < len(others)
    assert len({id(each) for each in others}) == len(others)


def test_parallel_queries_are_solved_for_once(monkeypatch):
    solver = KroneckerSolver([strategy(4, separable=False)])
    solved = []
    work = KroneckerSolver._solved
    monkeypatch.setattr(
        KroneckerSolver,
        "_solved",
        lambda self, right, close: solved.append(len(right)) or work(self, right, close),
    )
    rows = np.kron(np.tri(5), np.tri(3))
    asked = block(finest("a", "b"), np.vstack([rows, 3 * rows]))
    variances = solver.variances(asked)
    np.testing.assert_allclose(variances[15:], 9 * variances[:15])
    solver.variances(block(finest("a", "b"), -rows[:4]))
    assert sum(solved) == len(rows)
