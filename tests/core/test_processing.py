"""Counts that are not negative and add up, whatever was measured."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import nnls

from sqlmadp.core.answer.processing import Processing
from sqlmadp.solve.solution import Solution
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows

SIZES = {"a": 6, "b": 3, "c": 4}
SCOPES = [("a",), ("a", "b"), ("b", "c"), ("a", "c"), ("c",), ("a", "b", "c")]
SCALE = 14.0

NONNEGATIVE = Processing(nonnegative=True)
CONSISTENT = Processing(consistent=True)
BOTH = Processing(nonnegative=True, consistent=True)


def over_cells(rows):
    parts, lift = dict(zip(rows.scope, rows.parts, strict=True)), np.ones((1, 1))
    for column, size in SIZES.items():
        own = parts[column].functions.toarray() if column in parts else np.ones((1, size))
        lift = np.kron(lift, own)
    return rows.matrix.toarray() @ lift


@st.composite
def measured(draw):
    """Return blocks that cut their columns anywhere, and noisy values of a skewed table."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    table = np.floor(random.pareto(1.0, 72))
    blocks, values = [], []
    for scope in draw(st.lists(st.sampled_from(SCOPES), min_size=1, max_size=3)):
        parts = {
            name: Partition.flat(random.integers(0, SIZES[name], SIZES[name])) for name in scope
        }
        kept = [name for name in scope if parts[name].size > 1]
        size = int(np.prod([parts[name].size for name in kept]))
        across = random.integers(0, 3, (random.integers(1, 4), size))
        matrix = np.vstack([np.diag(random.integers(1, 9, size)), across])
        block = Rows.of(tuple(kept), [parts[n] for n in kept], sparse.csr_array(matrix / SCALE))
        noise = random.laplace(scale=10, size=len(matrix)) / SCALE
        blocks.append(block)
        values.append(over_cells(block) @ table + noise)
    return blocks, values


def every_cell(blocks, values, processing):
    found = processing.apply(Solution(blocks), values)
    return [found.answers(Rows(b.scope, b.parts, 1.0)) for b in blocks]


@settings(deadline=None, max_examples=10)
@given(measured())
def test_no_cell_of_any_scope_is_negative(drawn):
    for processing in (NONNEGATIVE, BOTH):
        for cells in every_cell(*drawn, processing):
            assert cells.min() >= -1e-6


@settings(deadline=None, max_examples=15)
@given(measured())
def test_whole_counts_are_integers_with_one_total(drawn):
    for processing in (CONSISTENT, BOTH):
        totals = set()
        for cells in every_cell(*drawn, processing):
            np.testing.assert_allclose(cells, np.rint(cells), atol=1e-4)
            totals.add(int(np.rint(cells).sum()))
        assert len(totals) == 1


@settings(deadline=None, max_examples=15)
@given(measured())
def test_whole_counts_stay_near_the_best_ones(drawn):
    best = np.concatenate(every_cell(*drawn, Processing()))
    whole = np.concatenate(every_cell(*drawn, CONSISTENT))
    assert np.sqrt(np.mean((best - whole) ** 2)) < 1


@settings(deadline=None, max_examples=15)
@given(measured())
def test_non_negative_least_squares_over_one_scope_is_the_best_table_there_is(drawn):
    blocks, values = drawn[0][:1], drawn[1][:1]
    known, _ = nnls(blocks[0].matrix.toarray(), values[0])
    found = every_cell(blocks, values, NONNEGATIVE)[0]
    np.testing.assert_allclose(found, known, atol=5e-2)
