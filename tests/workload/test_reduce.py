"""Lossless reduction, against the same rows written out over all cells."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from small_tables import SIZES, block, finest, query_blocks, written_out

from sqlmadp.schema.marginal import TOTAL, Block, Marginal, Partition
from sqlmadp.workload.reduce import distinct_columns, reduced

fast = settings(deadline=None, max_examples=60)


@fast
@given(query_blocks())
def test_reduced_rows_are_the_same_functions_on_the_table(asked):
    np.testing.assert_array_equal(written_out([reduced(asked)]), written_out([asked]))


@fast
@given(query_blocks())
def test_a_reduced_column_merges_just_the_values_that_no_row_tells_apart(asked):
    table = written_out([asked]).reshape(-1, *SIZES.values())
    found = dict(
        zip(reduced(asked).marginal.scope, reduced(asked).marginal.partitions, strict=True)
    )
    for axis, (name, size) in enumerate(SIZES.items(), start=1):
        slices = [table.take(value, axis=axis).tobytes() for value in range(size)]
        coarsest = [slices.index(each) for each in slices]
        if len(set(coarsest)) == 1:
            assert name not in found
        else:
            assert found[name] == Partition.of(np.array(coarsest))


@fast
@given(query_blocks())
def test_reducing_twice_changes_nothing_more(asked):
    once = reduced(asked)
    twice = reduced(once)
    assert twice.marginal == once.marginal
    np.testing.assert_array_equal(twice.matrix.toarray(), once.matrix.toarray())


def test_a_row_of_zeros_and_a_total_depend_on_no_column():
    for entry in (0, 1):
        assert reduced(block(finest("a", "b"), np.full((2, 15), entry))).marginal == TOTAL


def test_zeros_that_are_stored_tell_nothing_apart():
    stored = sparse.csr_array((np.array([1.0, 0.0]), np.array([0, 3]), np.array([0, 2])), (1, 5))
    assert reduced(Block(finest("a"), stored)).marginal.shape == (2,)


def test_many_rows_over_many_cells_do_not_overflow_the_matrix_indices():
    # 70,000 rows times 70,000 cells is beyond 32 bits, in which scipy keeps its indices.
    cells = 70_000
    marginal = Marginal(("x", "y"), (Partition.finest(cells // 2), Partition.finest(2)))
    asked = reduced(Block(marginal, sparse.eye_array(cells, format="csr")))
    assert asked.marginal == marginal
    assert (asked.matrix != sparse.eye_array(cells, format="csr")).nnz == 0


@fast
@given(st.lists(st.lists(st.integers(0, 1), min_size=3, max_size=3), min_size=1, max_size=8))
def test_equal_columns_share_a_group_numbered_by_its_first_column(columns):
    labels, first = distinct_columns(sparse.csc_array(np.array(columns, dtype=np.float64).T))
    seen = [columns.index(column) for column in columns]
    assert first.tolist() == sorted(set(seen))
    assert labels.tolist() == [first.tolist().index(each) for each in seen]
