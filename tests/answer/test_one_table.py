"""One large table: the best non-negative counts, whole numbers that add up, and who is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import nnls

from sqlmadp.answer.integer_rounding import running_sums_rounded
from sqlmadp.answer.nonnegative import NonNegative, OneTable
from sqlmadp.answer.processing import Processed, Processing
from sqlmadp.answer.sizes import MAX_CELLS, MAX_OF_ONE
from sqlmadp.errors import NotSupportedError
from sqlmadp.table.partition import Partition
from sqlmadp.table.products import Products
from sqlmadp.table.rows import Rows

TOTAL = Rows((), (), 1)


def cells_of(weight=1, **sizes):
    scope = tuple(sorted(sizes))
    return Rows(scope, tuple(Partition.finest(sizes[name]) for name in scope), weight)


def drawn_from(seed, sums, rows=6, columns=5, noise=20.0):
    """Return a table of two columns with some of its sums, and noisy values of a skewed table."""
    random = np.random.default_rng(seed)
    table = cells_of(a=rows, b=columns)
    own = np.diag(random.integers(1, 9, table.size))
    common = random.integers(0, 3, (3, table.size))
    blocks = [Rows(table.scope, table.parts, 0, sparse.csr_array(np.vstack([own, common])))]
    blocks += [cells_of(a=rows, weight=2), TOTAL.times(3)][:sums]
    true = np.floor(random.pareto(1.0, table.size))
    over = [block.over(table.scope, table.parts).matrix.toarray() for block in blocks]
    values = [each @ true + random.laplace(scale=noise, size=len(each)) for each in over]
    return blocks, values, np.vstack(over)


def measured():
    """Return possible results of `drawn_from`."""
    return st.builds(drawn_from, st.integers(0, 2**32), st.integers(0, 2))


@settings(deadline=None, max_examples=40)
@given(measured())
def test_it_is_non_negative_least_squares(drawn):
    blocks, values, rows = drawn
    known, _ = nnls(rows.astype(float), np.concatenate(values))
    found = OneTable(blocks, cells_of(a=6, b=5)).nonnegative(values).cells
    np.testing.assert_allclose(found, known, atol=1e-6)


@settings(deadline=None, max_examples=20)
@given(measured())
def test_one_table_and_several_are_made_non_negative_alike(drawn):
    blocks, values, _ = drawn
    table = cells_of(a=6, b=5)
    several = NonNegative(blocks, [table]).nonnegative(values).answers(table)
    one = OneTable(blocks, table).nonnegative(values).cells
    np.testing.assert_allclose(several, one, atol=1e-2)


@settings(deadline=None, max_examples=20)
@given(measured())
def test_without_options_it_is_least_squares(drawn):
    blocks, values, rows = drawn
    known = np.linalg.lstsq(rows.astype(float), np.concatenate(values))[0]
    found = OneTable(blocks, cells_of(a=6, b=5)).least_squares(values)
    np.testing.assert_allclose(found.cells, known, atol=1e-6)
    by_b = found.answers(cells_of(b=5))
    np.testing.assert_allclose(by_b, known.reshape(6, 5).sum(axis=0), atol=1e-6)


def large(columns=0):
    """Return a plan's blocks over 6,000 cells, and values; in several columns, if asked for."""
    random = np.random.default_rng(5)
    blocks = [cells_of(age=60, area=100, weight=3), cells_of(age=60, weight=2), TOTAL.times(4)]
    counts = np.floor(random.pareto(1.0, 6000))
    exact = [3 * counts, 2 * counts.reshape(60, 100).sum(axis=1), np.array([4 * counts.sum()])]
    shape = (columns,) if columns else ()
    values = [
        each.reshape(-1, *(1,) * len(shape)) + random.laplace(scale=20, size=(len(each), *shape))
        for each in exact
    ]
    return blocks, values


def test_what_is_found_in_thousands_of_cells_meets_the_conditions_of_the_best():
    blocks, values = large()
    processed = Processed(Processing(nonnegative=True), blocks)
    assert isinstance(processed.solver, OneTable)
    found = processed.estimate(values)
    rest = [found.answers(block) - value for block, value in zip(blocks, values, strict=True)]
    table = blocks[0]
    rows = sparse.vstack([block.over(table.scope, table.parts).matrix for block in blocks])
    slope = rows.T @ np.concatenate(rest) / np.sqrt((rows.multiply(rows)).sum(axis=0))
    assert found.cells.min() == 0
    assert (found.cells == 0).mean() > 0.3
    assert slope[found.cells == 0].min() >= -1e-4  # The noise has scale 20.
    assert np.abs(slope[found.cells > 0]).max() <= 1e-4


@pytest.mark.parametrize("options", [{}, {"nonnegative": True}])
def test_whole_numbers_of_a_large_table_add_up_over_all_scopes(options):
    blocks, values = large()
    found = Processed(Processing(**options, consistent=True), blocks).estimate(values)
    np.testing.assert_array_equal(found.cells, np.rint(found.cells))
    by_age, (total,) = found.answers(cells_of(age=60)), found.answers(TOTAL)
    np.testing.assert_array_equal(by_age, found.cells.reshape(60, 100).sum(axis=1))
    assert by_age.sum() == total
    wanted = Processed(Processing(nonnegative=bool(options)), blocks).estimate(values)
    assert abs(total - wanted.answers(TOTAL)[0]) <= 0.5 + 1e-6
    assert not options or found.cells.min() >= 0


@settings(deadline=None)
@given(st.lists(st.floats(-50, 50), min_size=1, max_size=40))
def test_running_sums_are_within_half_a_record_and_nothing_falls_below_zero(cells):
    wanted = np.array(cells)
    whole = running_sums_rounded(wanted)
    np.testing.assert_array_equal(whole, np.rint(whole))
    assert np.abs(np.cumsum(whole) - np.cumsum(wanted)).max() <= 0.5 + 1e-9
    assert np.abs(whole - wanted).max() <= 1 + 1e-9
    assert running_sums_rounded(np.abs(wanted)).min() >= 0


def test_several_columns_are_processed_one_by_one():
    blocks, values = large(columns=2)
    processed = Processed(Processing(nonnegative=True, consistent=True), blocks)
    both = processed.estimate(values).cells
    for column in range(2):
        one = processed.estimate([value[:, column] for value in values]).cells
        np.testing.assert_array_equal(both[:, column], one)


def test_a_grid_of_products_over_thousands_of_cells_is_processed():
    random = np.random.default_rng(2)
    factor = sparse.csr_array(
        np.vstack([np.eye(60, dtype=np.int64), np.tri(60, dtype=np.int64)[::9]])
    )
    heights = random.integers(1, 4, (factor.shape[0],) * 2)
    parts = (Partition.finest(60), Partition.finest(60))
    grid = Products(("a", "b"), parts, 0, None, (factor, factor), heights)
    processing = Processing(nonnegative=True, consistent=True)
    processing.check([grid])
    cells = processing_of(processing, grid, random.laplace(scale=9, size=grid.count)).cells
    np.testing.assert_array_equal(cells, np.maximum(np.rint(cells), 0))


def processing_of(processing, block, values):
    return Processed(processing, [block]).estimate([values])


@pytest.mark.parametrize(
    "blocks",
    [
        [cells_of(age=60, area=100), cells_of(age=60, sex=2)],
        [cells_of(age=1000, area=100), cells_of(age=1000)],
        [
            Rows(
                ("a",),
                (Partition.finest(MAX_CELLS + 1),),
                0,
                sparse.csr_array(np.ones((1, MAX_CELLS + 1))),
            )
        ],
    ],
)
def test_several_large_tables_and_cells_that_were_not_measured_alone_are_refused(blocks):
    with pytest.raises(NotSupportedError, match=f"at most {MAX_CELLS:,} are supported, or"):
        Processing(nonnegative=True).check(blocks)
    assert MAX_OF_ONE < 1000 * 100
