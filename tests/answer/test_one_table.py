"""One large table: the best non-negative counts, whole numbers that add up, and who is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import nnls

from sqlmadp.answer.nonnegative import nonnegative
from sqlmadp.answer.one_table import TableSolver, whole_cells
from sqlmadp.answer.processing import MOST_CELLS, MOST_OF_ONE, Processing
from sqlmadp.answer.tables import cell_rows
from sqlmadp.errors import NotCoveredError, NotSupportedError
from sqlmadp.schema.marginal import TOTAL, Block, Marginal, Partition, cell_map
from sqlmadp.workload.solver import DenseSolver


def finest(**sizes):
    return Marginal(tuple(sorted(sizes)), tuple(Partition.finest(sizes[n]) for n in sorted(sizes)))


def cells_of(marginal, weight):
    return Block(marginal, weight * sparse.eye_array(marginal.size, dtype=np.int64, format="csr"))


def drawn_from(seed, sums, rows=6, columns=5, noise=20.0):
    """Return a table of two columns with some of its sums, and noisy values of a skewed table."""
    random = np.random.default_rng(seed)
    table = finest(a=rows, b=columns)
    own = np.diag(random.integers(1, 9, table.size))
    common = random.integers(0, 3, (3, table.size))
    blocks = [Block(table, sparse.csr_array(np.vstack([own, common])))]
    blocks += [cells_of(finest(a=rows), 2), cells_of(TOTAL, 3)][:sums]
    true = np.floor(random.pareto(1.0, table.size))
    rows_over = [b.matrix.toarray()[:, cell_map(b.marginal, table)] for b in blocks]
    values = [each @ true + random.laplace(scale=noise, size=len(each)) for each in rows_over]
    return blocks, values, np.vstack(rows_over)


def measured():
    """Return what `drawn_from` may return."""
    return st.builds(drawn_from, st.integers(0, 2**32), st.integers(0, 2))


@settings(deadline=None, max_examples=40)
@given(measured())
def test_it_is_non_negative_least_squares(drawn):
    blocks, values, rows = drawn
    known, _ = nnls(rows.astype(float), np.concatenate(values))
    found = TableSolver(blocks, blocks[0].marginal).nonnegative(values)
    np.testing.assert_allclose(found, known, atol=1e-6)


@settings(deadline=None, max_examples=20)
@given(measured())
def test_small_and_large_tables_are_made_non_negative_alike(drawn):
    blocks, values, _ = drawn
    table = blocks[0].marginal
    dense = DenseSolver(blocks)
    cells = cell_rows([table], dense.coordinates)
    small = cells @ nonnegative(dense.information, dense.moments(values), cells)
    large = TableSolver(blocks, table).nonnegative(values)
    np.testing.assert_allclose(large, small, atol=1e-2)


@settings(deadline=None, max_examples=20)
@given(measured())
def test_without_options_it_is_least_squares(drawn):
    blocks, values, rows = drawn
    solver = TableSolver(blocks, blocks[0].marginal)
    known = np.linalg.lstsq(rows.astype(float), np.concatenate(values))[0]
    np.testing.assert_allclose(solver.estimate(values), known, atol=1e-6)
    fitted = np.concatenate(solver.fitted(known))
    np.testing.assert_allclose(fitted, rows @ known)
    block = cells_of(finest(b=5), 1)
    np.testing.assert_allclose(solver.variances(block), DenseSolver(blocks).variances(block))


def test_conjugate_gradients_take_as_many_steps_as_rounding_asks_for():
    for seed in range(300):
        blocks, values, rows = drawn_from(seed, seed % 3)
        known = np.linalg.lstsq(rows.astype(float), np.concatenate(values))[0]
        found = TableSolver(blocks, blocks[0].marginal).estimate(values)
        np.testing.assert_allclose(found, known, atol=1e-6)


def large(columns=0):
    """Return a plan's blocks over 6,000 cells, and values; in several columns, if asked for."""
    random = np.random.default_rng(5)
    table = finest(age=60, area=100)
    blocks = [cells_of(table, 3), cells_of(finest(age=60), 2), cells_of(TOTAL, 4)]
    counts = np.floor(random.pareto(1.0, table.size))
    exact = [3 * counts, 2 * counts.reshape(60, 100).sum(axis=1), np.array([4 * counts.sum()])]
    shape = (columns,) if columns else ()
    values = [
        each.reshape(-1, *(1,) * len(shape)) + random.laplace(scale=20, size=(len(each), *shape))
        for each in exact
    ]
    return blocks, values


def test_what_is_found_in_thousands_of_cells_meets_the_conditions_of_the_best():
    blocks, values = large()
    solver = Processing(nonnegative=True).solver(blocks)
    assert isinstance(solver, TableSolver)
    cells = Processing(nonnegative=True).apply(solver, values)
    rest = [fitted - value for fitted, value in zip(solver.fitted(cells), values, strict=True)]
    rows = sparse.vstack([b.matrix[:, cell_map(b.marginal, blocks[0].marginal)] for b in blocks])
    slope = rows.T @ np.concatenate(rest) / np.sqrt((rows.multiply(rows)).sum(axis=0))
    assert cells.min() == 0
    assert (cells == 0).mean() > 0.3
    assert slope[cells == 0].min() >= -1e-4  # The noise has scale 20.
    assert np.abs(slope[cells > 0]).max() <= 1e-4


@pytest.mark.parametrize("options", [{}, {"nonnegative": True}])
def test_whole_numbers_of_a_large_table_add_up_over_all_scopes(options):
    blocks, values = large()
    after = Processing(**options, consistent=True)
    solver = after.solver(blocks)
    wanted = TableSolver.nonnegative if options else TableSolver.estimate
    cells = after.apply(solver, values)
    np.testing.assert_array_equal(cells, np.rint(cells))
    answers = solver.answers(cells)
    by_age, (total,) = answers(cells_of(finest(age=60), 1)), answers(cells_of(TOTAL, 1))
    np.testing.assert_array_equal(by_age, cells.reshape(60, 100).sum(axis=1))
    assert by_age.sum() == total
    assert abs(total - wanted(solver, values).sum()) <= 0.5
    assert not options or cells.min() >= 0


@settings(deadline=None)
@given(st.lists(st.floats(-50, 50), min_size=1, max_size=40))
def test_running_sums_are_within_half_a_record_and_nothing_falls_below_zero(cells):
    wanted = np.array(cells)
    whole = whole_cells(wanted)
    np.testing.assert_array_equal(whole, np.rint(whole))
    assert np.abs(np.cumsum(whole) - np.cumsum(wanted)).max() <= 0.5 + 1e-9
    assert np.abs(whole - wanted).max() <= 1 + 1e-9
    assert whole_cells(np.abs(wanted)).min() >= 0


def test_several_columns_are_processed_one_by_one():
    blocks, values = large(columns=2)
    processing = Processing(nonnegative=True, consistent=True)
    solver = processing.solver(blocks)
    both = processing.apply(solver, values)
    for column in range(2):
        one = processing.apply(solver, [value[:, column] for value in values])
        np.testing.assert_array_equal(both[:, column], one)


def test_a_query_about_another_column_is_not_covered():
    blocks, values = large()
    answers = TableSolver(blocks, blocks[0].marginal).fit(values)
    with pytest.raises(NotCoveredError):
        answers(cells_of(finest(sex=2), 1))


@pytest.mark.parametrize(
    "blocks",
    [
        [cells_of(finest(age=60, area=100), 1), cells_of(finest(age=60, sex=2), 1)],
        [cells_of(finest(age=1000, area=100), 1), cells_of(finest(age=1000), 1)],
        [Block(finest(a=MOST_CELLS + 1), sparse.csr_array(np.ones((1, MOST_CELLS + 1))))],
    ],
)
def test_several_large_tables_and_cells_that_were_not_measured_alone_are_refused(blocks):
    with pytest.raises(NotSupportedError, match=f"at most {MOST_CELLS:,} are supported, or"):
        Processing(nonnegative=True).check(blocks)
    assert MOST_OF_ONE < 1000 * 100
