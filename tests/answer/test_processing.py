"""Counts that are not negative and add up, whatever was measured."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import nnls

from sqlmadp.answer.processing import Processed, Processing
from sqlmadp.answer.reconstruct import Estimate
from sqlmadp.answer.sizes import MAX_CELLS
from sqlmadp.errors import NotSupportedError
from sqlmadp.table.domain import Column, Domain
from sqlmadp.table.partition import Partition
from sqlmadp.table.products import Products
from sqlmadp.table.rows import Rows, lifting

SIZES = {"a": 6, "b": 3, "c": 4}
FULL = tuple(Partition.finest(size) for size in SIZES.values())
SCOPES = [("a",), ("a", "b"), ("b", "c"), ("a", "c"), ("c",), ("a", "b", "c")]
TOTAL = Rows((), (), 1.0)

NONNEGATIVE = Processing(nonnegative=True)
CONSISTENT = Processing(consistent=True)
BOTH = Processing(nonnegative=True, consistent=True)


def finest(*scope, weight=1):
    return Rows(scope, tuple(Partition.finest(SIZES[name]) for name in scope), weight)


def over_cells(rows):
    return np.asarray(rows.matrix @ lifting(rows.scope, rows.parts, tuple(SIZES), FULL).toarray())


def counted(table, rows):
    """Return the records at every vertex."""
    return over_cells(Rows(rows.scope, rows.parts, 1.0)) @ table


@st.composite
def measured(draw):
    """Return blocks that cut their columns anywhere, and noisy values of a skewed table."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    table = np.floor(random.pareto(1.0, 72))
    blocks, values = [], []
    for scope in draw(st.lists(st.sampled_from(SCOPES), min_size=1, max_size=4)):
        parts = {n: Partition.flat(random.integers(0, SIZES[n], SIZES[n])) for n in scope}
        kept = [name for name in scope if parts[name].size > 1]
        size = int(np.prod([parts[name].size for name in kept]))
        across = random.integers(0, 3, (random.integers(1, 4), size))
        matrix = np.vstack([np.diag(random.integers(1, 9, size)), across])
        block = Rows.of(tuple(kept), [parts[n] for n in kept], sparse.csr_array(matrix))
        blocks.append(block)
        values.append(over_cells(block) @ table + random.laplace(scale=10, size=len(matrix)))
    return blocks, values, table


def every_cell(blocks, values, processing):
    """Return the answers to every vertex of every measured block, and to the total."""
    found = Processed(processing, blocks).estimate(values)
    return [found.answers(Rows(b.scope, b.parts, 1.0)) for b in (*blocks, TOTAL)]


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
                agree(block, rounded, other, others)


def agree(one, counts, other, others):
    """Check that two scopes agree on the columns whose partitions they share."""
    for axis, name in enumerate(one.scope):
        if name in other.scope:
            place = other.scope.index(name)
            if one.parts[axis] == other.parts[place]:
                np.testing.assert_array_equal(along(counts, one, axis), along(others, other, place))


def along(counts, rows, axis):
    rest = tuple(k for k in range(len(rows.shape)) if k != axis)
    return counts.reshape(rows.shape).sum(axis=rest)


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
    blocks = [finest("a", "b", weight=3), finest("b", "c", weight=3)]
    values = [random.laplace(scale=10, size=block.count) for block in blocks]
    over_all = np.vstack([over_cells(block) for block in blocks])
    table, _ = nnls(over_all, np.concatenate(values))
    for found, block in zip(every_cell(blocks, values, NONNEGATIVE), blocks, strict=False):
        np.testing.assert_allclose(found, counted(table, block), atol=1e-2)


@settings(deadline=None, max_examples=30)
@given(measured())
def test_what_is_not_negative_anyway_stays_as_it_is(drawn):
    blocks, _, table = drawn
    exact = [over_cells(block) @ (1 + table) for block in blocks]
    best = every_cell(blocks, exact, Processing())
    for found, known in zip(every_cell(blocks, exact, NONNEGATIVE), best, strict=True):
        np.testing.assert_allclose(found, known, atol=0.05)


@settings(deadline=None, max_examples=30)
@given(measured())
def test_what_is_whole_anyway_stays_as_it_is(drawn):
    _, _, table = drawn
    blocks = [finest(*scope, weight=3) for scope in SCOPES]
    exact = [3 * counted(table, block) for block in blocks]
    for processing in (CONSISTENT, BOTH):
        found = every_cell(blocks, exact, processing)
        for cells, block in zip(found, [*blocks, TOTAL], strict=True):
            np.testing.assert_allclose(cells, counted(table, block), rtol=1e-9, atol=1e-6)


def test_a_strategy_of_single_cells_is_cut_off_at_zero_and_rounded():
    cells, total = every_cell([finest("c", weight=2)], [np.array([-3.0, 1.2, 5.0, 8.2])], BOTH)
    np.testing.assert_array_equal(cells, [0, 1, 2, 4])
    np.testing.assert_array_equal(total, [7])


@pytest.mark.parametrize("processing", [NONNEGATIVE, CONSISTENT, BOTH])
def test_several_estimates_are_processed_like_each_of_them(processing):
    random = np.random.default_rng(5)
    blocks = [finest("a", "b", weight=2), finest("b", "c", weight=3)]
    values = [random.laplace(scale=10, size=(block.count, 3)) for block in blocks]
    together = every_cell(blocks, values, processing)
    for column in range(3):
        alone = every_cell(blocks, [value[:, column] for value in values], processing)
        for one, other in zip(together, alone, strict=True):
            np.testing.assert_allclose(one[:, column], other, atol=1e-2)


def ramped():
    """Return a table by group of which records and sums are measured, and noisy values."""
    random = np.random.default_rng(8)
    amount = Partition.of_functions(np.arange(101.0)[None])
    assert amount.degrees.tolist() == [1]
    group = Partition.finest(40)
    blocks = [
        Rows(("amount", "group"), (amount, group), 5),
        Rows(("group",), (group,), 3),
        Rows(("amount",), (amount,), 4),
        Rows(("day", "group"), (Partition.finest(2), group), 6),
    ]
    values = [random.laplace(scale=20, size=block.count) + 4 for block in blocks]
    return blocks, values


def test_sums_along_a_wide_column_fit_whole_counts_of_records_that_are_not_negative():
    blocks, values = ramped()
    plain = every_cell(blocks, values, Processing())
    assert min(cells.min() for cells in plain) < -1
    ends, groups, amounts, days, total = every_cell(blocks, values, BOTH)
    for found in (groups, days, total):
        np.testing.assert_allclose(found, np.rint(found), atol=1e-4)
    np.testing.assert_allclose(ends.reshape(2, 40).sum(axis=0), groups, atol=1e-6)
    np.testing.assert_allclose(days.reshape(2, 40).sum(axis=0), groups, atol=1e-6)
    np.testing.assert_allclose(ends.reshape(2, 40).sum(axis=1), amounts, atol=1e-6)
    assert min(found.min() for found in (ends, groups, amounts, days)) >= -1e-9


def test_what_is_too_large_to_be_processed_is_refused_before_it_is_measured():
    size = MAX_CELLS // 2 + 1
    blocks = [Rows((name,), (Partition.finest(size),), 1) for name in "ab"]
    for processing in (NONNEGATIVE, CONSISTENT):
        with pytest.raises(NotSupportedError, match="they change no release"):
            processing.check(blocks)
        processing.check(blocks[:1])
    Processing().check(blocks)


def test_products_that_could_not_be_written_out_are_refused_without_that():
    size = 100_000
    rows = sparse.eye_array(size, format="csr", dtype=np.int64)
    heights = np.ones((size, 1), dtype=np.int64)
    heights[0] = 2
    everything = sparse.csr_array(np.ones((1, size), dtype=np.int64))
    parts = (Partition.finest(size), Partition.finest(size))
    block = Products(("a", "b"), parts, 0, None, (rows, everything), heights)
    with pytest.raises(NotSupportedError, match=r"10,000,000,000 cells .* measured alone"):
        NONNEGATIVE.check([block])


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
    block = finest("c")
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


@pytest.mark.parametrize("processing", [CONSISTENT, BOTH])
def test_a_total_that_is_measured_twice_is_made_whole(processing):
    weighed = Rows((), (), 0, sparse.csr_array(np.array([[2.0]])))
    (cells, _, total) = every_cell(
        [TOTAL, weighed], [np.array([41.2]), np.array([82.8])], processing
    )
    assert cells == total == [41]


@pytest.mark.parametrize("processing", [NONNEGATIVE, BOTH])
@pytest.mark.parametrize("light", [1, 2**10, 2**14])
def test_blocks_of_very_different_weights_are_processed(processing, light):
    table = np.floor(np.random.default_rng(3).pareto(1.0, 72) * 20)
    cuts = [Partition.flat(np.arange(6) >= cut) for cut in (2, 4)]
    blocks = [
        Rows(("a", "b"), (cuts[0], Partition.finest(3)), 2**24),
        Rows(("a", "c"), (cuts[1], Partition.finest(4)), 2**23),
        finest("b", weight=light),  # The first block measures this with more weight.
    ]
    values = [over_cells(block) @ table for block in blocks]
    found = Processed(processing, blocks).estimate(values)
    for block in blocks:
        np.testing.assert_allclose(
            found.answers(Rows(block.scope, block.parts, 1.0)), counted(table, block), atol=1e-3
        )
