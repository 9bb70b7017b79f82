"""One scope: the best template wins, and its error is that of its integers."""

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import sparse
from small_tables import rows_over

from sqlmadp.schema.marginal import Block, Marginal, Partition
from sqlmadp.strategy.integer import S, workload_block
from sqlmadp.strategy.layout import layouts
from sqlmadp.strategy.single import (
    DENSE_GROUPS,
    _certified,
    _error,
    _templates,
    best_block,
    own_rows,
)
from sqlmadp.workload.workload import Workload


def layout_of(matrix):
    matrix = sparse.csr_array(np.asarray(matrix, dtype=np.float64))
    cells = Marginal(("cell",), (Partition.finest(matrix.shape[1]),))
    return layouts(Workload.of([Block(cells, matrix)]))[0]


@settings(deadline=None, max_examples=30, derandomize=True)
@given(rows_over(7))
def test_templates_are_compared_by_the_error_of_their_integers(matrix):
    layout = layout_of(matrix)
    for block in _templates(layout):
        true = layout.error([block.matrix])
        assert _certified(layout, block) == pytest.approx(true, rel=1e-9)
        assert _error(layout, block) == pytest.approx(true, rel=1e-9)


@settings(deadline=None, max_examples=30, derandomize=True)
@given(rows_over(7))
def test_the_best_block_is_no_worse_than_any_template_and_its_columns_sum_to_s(matrix):
    layout = layout_of(matrix)
    error, block = best_block(layout)
    assert error == pytest.approx(S**2 * layout.error([block.matrix]), rel=1e-9)
    others = [*_templates(layout)]
    if layout.scopes[0].queries.nnz:
        others.append(workload_block(layout.scopes[0], S))
    for other in others:
        assert error <= S**2 * layout.error([other.matrix]) * (1 + 1e-9)
    assert (np.abs(block.rows).sum(axis=0) + block.own == S).all()


def test_the_queries_themselves_are_taken_where_they_are_best():
    difference = layout_of([[1, -1, 0, 0, 0]])
    error, block = best_block(difference)
    np.testing.assert_array_equal(block.rows, workload_block(difference.scopes[0], S).rows)
    assert error == pytest.approx(1)  # Cell by cell it would be 2.


@settings(deadline=None, max_examples=30, derandomize=True)
@given(rows_over(7))
def test_a_query_asked_twice_is_one_strategy_query(matrix):
    once, twice = layout_of(matrix).scopes[0], layout_of(np.vstack([matrix, matrix])).scopes[0]
    if once.queries.nnz:
        np.testing.assert_array_equal(
            workload_block(once, S).matrix, workload_block(twice, S).matrix
        )


def test_queries_that_treat_all_groups_alike_need_no_rows_that_favour_some():
    histogram_and_total = np.vstack([np.eye(40), np.ones((1, 40))])
    layout = layout_of(histogram_and_total)
    assert len(own_rows(layout.scopes[0])) == 0
    assert len(best_block(layout)[1].rows) == 1  # The total.


def test_with_very_many_groups_the_total_is_still_weighed_against_the_cells():
    groups = DENSE_GROUPS + 76
    total_often = sparse.vstack([sparse.eye_array(groups), np.ones((50, groups))])
    layout = layout_of(sparse.csr_array(total_often).toarray())
    plain = float((layout.scopes[0].queries.data ** 2).sum())
    error, block = best_block(layout)
    assert len(block.rows) == 1
    assert error < plain / 2
    assert error == pytest.approx(S**2 * layout.error([block.matrix]))
