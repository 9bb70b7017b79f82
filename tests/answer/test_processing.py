"""Counts that are not negative and add up, whatever was measured."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import nnls

from sqlmadp.answer.processing import MOST_CELLS, Processing
from sqlmadp.answer.reconstruct import Estimate
from sqlmadp.errors import NotSupportedError
from sqlmadp.schema.domain import Column, Domain
from sqlmadp.schema.kronecker import KroneckerBlock
from sqlmadp.schema.marginal import TOTAL, Block, Marginal, Partition, cell_map

SIZES = {"a": 6, "b": 3, "c": 4}
SCOPES = [("a",), ("a", "b"), ("b", "c"), ("a", "c"), ("c",), ("a", "b", "c")]
FULL = Marginal(tuple(SIZES), tuple(Partition.finest(size) for size in SIZES.values()))

NONNEGATIVE = Processing(nonnegative=True)
CONSISTENT = Processing(consistent=True)
BOTH = Processing(nonnegative=True, consistent=True)


@st.composite
def measured(draw):
    """Return blocks that cut their columns anywhere, and noisy values of a skewed table."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    blocks = []
    for scope in draw(st.lists(st.sampled_from(SCOPES), min_size=1, max_size=4)):
        parts = [Partition.of(random.integers(0, SIZES[n], SIZES[n])) for n in scope]
        marginal = Marginal(scope, tuple(parts))
        common = random.integers(0, 3, (random.integers(1, 4), marginal.size))
        own = np.diag(random.integers(1, 9, marginal.size))
        blocks.append(Block(marginal, sparse.csr_array(np.vstack([own, common]))))
    table = np.floor(random.pareto(1.0, FULL.size))
    exact = [block.matrix @ summed(table, block.marginal) for block in blocks]
    return blocks, [each + random.laplace(scale=10, size=len(each)) for each in exact], table


def summed(table, marginal):
    counts = np.zeros(marginal.size)
    np.add.at(counts, cell_map(marginal, FULL), table)
    return counts


def every_cell(blocks, values, processing):
    """Return the answers to every cell of every measured marginal, and to the total."""
    solver = processing.solver(blocks)
    answers = solver.answers(processing.apply(solver, values))
    marginals = [*(block.marginal for block in blocks), TOTAL]
    return [answers(Block(m, sparse.eye_array(m.size, format="csr"))) for m in marginals]


@settings(deadline=None, max_examples=25)
@given(measured())
def test_no_cell_of_any_scope_is_negative(drawn):
    blocks, values, _ = drawn
    for processing in (NONNEGATIVE, BOTH):
        for cells in every_cell(blocks, values, processing):
            assert cells.min() >= -1e-9


@settings(deadline=None, max_examples=25)
@given(measured())
def test_whole_counts_add_up_over_all_scopes(drawn):
    blocks, values, _ = drawn
    for processing in (CONSISTENT, BOTH):
        *scopes, total = every_cell(blocks, values, processing)
        whole = [np.rint(cells) for cells in scopes]
        for cells, rounded in zip(scopes, whole, strict=True):
            np.testing.assert_allclose(cells, rounded, atol=1e-6)
            assert rounded.sum() == np.rint(total[0])
        for block, rounded in zip(blocks, whole, strict=True):
            for other, others in zip(blocks, whole, strict=True):
                agree(block.marginal, rounded, other.marginal, others)


def agree(one, counts, other, others):
    """Check that two scopes agree on the columns whose partitions they share."""
    for axis, name in enumerate(one.scope):
        if name in other.scope:
            place = other.scope.index(name)
            if one.partitions[axis] == other.partitions[place]:
                np.testing.assert_array_equal(along(counts, one, axis), along(others, other, place))


def along(counts, marginal, axis):
    rest = tuple(k for k in range(len(marginal.shape)) if k != axis)
    return counts.reshape(marginal.shape).sum(axis=rest)


@settings(deadline=None, max_examples=30)
@given(measured())
def test_whole_counts_stay_near_the_best_ones(drawn):
    blocks, values, _ = drawn
    best = np.concatenate(every_cell(blocks, values, Processing()))
    whole = np.concatenate(every_cell(blocks, values, CONSISTENT))
    assert np.sqrt(np.mean((best - whole) ** 2)) < 1
    assert abs(best[-1] - whole[-1]) <= 0.5 + 1e-6


@settings(deadline=None, max_examples=30)
@given(measured())
def test_non_negative_least_squares_over_one_scope_is_the_best_table_there_is(drawn):
    blocks, values, _ = drawn
    blocks, values = blocks[:1], values[:1]
    known, _ = nnls(blocks[0].matrix.toarray().astype(float), values[0])
    found = every_cell(blocks, values, NONNEGATIVE)[0]
    np.testing.assert_allclose(found, known, atol=1e-2)


def test_non_negative_least_squares_over_a_chain_of_scopes_is_that_of_the_whole_table():
    # Scopes that form a tree: non-negative tables that agree always come from one whole table.
    random = np.random.default_rng(3)
    marginals = [Marginal(s, tuple(Partition.finest(SIZES[n]) for n in s)) for s in SCOPES[1:3]]
    blocks = [Block(m, sparse.csr_array(3 * np.eye(m.size))) for m in marginals]
    values = [random.laplace(scale=10, size=m.size) for m in marginals]
    over_all = np.vstack([b.matrix.toarray()[:, cell_map(b.marginal, FULL)] for b in blocks])
    table, _ = nnls(over_all, np.concatenate(values))
    for found, marginal in zip(every_cell(blocks, values, NONNEGATIVE), marginals, strict=False):
        np.testing.assert_allclose(found, summed(table, marginal), atol=1e-2)


@settings(deadline=None, max_examples=30)
@given(measured())
def test_what_is_not_negative_anyway_stays_as_it_is(drawn):
    blocks, _, table = drawn
    exact = [block.matrix @ summed(1 + table, block.marginal) for block in blocks]
    best = every_cell(blocks, exact, Processing())
    for found, known in zip(every_cell(blocks, exact, NONNEGATIVE), best, strict=True):
        np.testing.assert_allclose(found, known, atol=0.05)


@settings(deadline=None, max_examples=30)
@given(measured())
def test_what_is_whole_anyway_stays_as_it_is(drawn):
    _, _, table = drawn
    finest = [Marginal(s, tuple(Partition.finest(SIZES[n]) for n in s)) for s in SCOPES]
    blocks = [Block(m, sparse.csr_array(3 * np.eye(m.size))) for m in finest]
    exact = [3 * summed(table, marginal) for marginal in finest]
    for processing in (CONSISTENT, BOTH):
        found = every_cell(blocks, exact, processing)
        for cells, marginal in zip(found, [*finest, TOTAL], strict=True):
            np.testing.assert_allclose(cells, summed(table, marginal), rtol=1e-9, atol=1e-6)


def test_a_strategy_of_single_cells_is_cut_off_at_zero_and_rounded():
    block = Block(Marginal(("c",), (Partition.finest(4),)), 2 * sparse.eye_array(4, format="csr"))
    values = [np.array([-3.0, 1.2, 5.0, 8.8])]
    cells, total = every_cell([block], values, BOTH)
    np.testing.assert_array_equal(cells, [0, 1, 2, 4])
    np.testing.assert_array_equal(total, [7])


def test_several_estimates_are_processed_like_each_of_them():
    random = np.random.default_rng(5)
    marginals = [Marginal(s, tuple(Partition.finest(SIZES[n]) for n in s)) for s in SCOPES[1:3]]
    blocks = [Block(m, sparse.csr_array(np.eye(m.size) * (2 + k))) for k, m in enumerate(marginals)]
    values = [random.laplace(scale=10, size=(m.size, 3)) for m in marginals]
    for processing in (NONNEGATIVE, CONSISTENT, BOTH):
        together = every_cell(blocks, values, processing)
        for column in range(3):
            alone = every_cell(blocks, [value[:, column] for value in values], processing)
            for one, other in zip(together, alone, strict=True):
                np.testing.assert_allclose(one[:, column], other, atol=1e-2)


def test_what_is_too_large_to_be_processed_is_refused_before_it_is_measured():
    size = MOST_CELLS // 2 + 1
    sides = [Marginal((name,), (Partition.finest(size),)) for name in "ab"]
    blocks = [Block(side, sparse.eye_array(size, format="csr")) for side in sides]
    with pytest.raises(NotSupportedError, match="they change no release"):
        NONNEGATIVE.check(blocks)
    Processing().check(blocks)
    NONNEGATIVE.check(blocks[:1])


def test_products_that_could_not_be_written_out_are_refused_without_that():
    groups = Partition.finest(100_000)
    rows = sparse.eye_array(100_000, format="csr", dtype=np.int64)
    heights = np.ones((100_000, 1), dtype=np.int64)
    heights[0] = 2
    marginal = Marginal(("a", "b"), (groups, Partition.finest(100_000)))
    everything = sparse.csr_array(np.ones((1, 100_000), dtype=np.int64))
    with pytest.raises(NotSupportedError, match=r"10,000,000,000 cells .* measured alone"):
        Processing(nonnegative=True).check([KroneckerBlock(marginal, [rows, everything], heights)])


def test_errors_are_explained_only_where_answers_were_processed():
    assert Processing().meaning is None
    assert "before rounding" in CONSISTENT.meaning
    assert "biased upwards" in NONNEGATIVE.meaning
    assert all(text in BOTH.meaning for text in (CONSISTENT.meaning, NONNEGATIVE.meaning))


def test_stated_errors_are_those_of_non_negative_answers_bias_included():
    # An empty cell far below zero: its answer is 0 and the error of an answer that is cut off at
    # zero is that of half a Laplace distribution, 1 / sqrt(2) of the whole.
    domain = Domain(
        table="t", columns=(Column(name="c", type="integer", minimum=0, maximum=3, complete=True),)
    )
    block = Block(Marginal(("c",), (Partition.finest(4),)), sparse.eye_array(4, format="csr"))
    values = (np.array([-500.0, 1e6, 1e6, 1e6]),)
    variance = 2 * 10.0**2
    plain = Estimate(domain, (block,), values, variance).rmse(block)
    stated = Estimate(domain, (block,), values, variance, NONNEGATIVE).rmse(block)
    np.testing.assert_allclose(plain, np.sqrt(variance))
    np.testing.assert_allclose(
        stated[0], plain[0] / np.sqrt(2), rtol=0.5
    )  # Few heavy-tailed draws.
    np.testing.assert_allclose(stated[1:], plain[1:], rtol=0.5)
    assert stated[0] < 0.8 * stated[1:].min()
