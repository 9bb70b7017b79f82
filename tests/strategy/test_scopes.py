"""Rows moved to the fewest columns, so that equal questions of different scopes meet."""

import numpy as np
from hypothesis import given, settings
from small_tables import block, finest, query_blocks, written_out

from sqlmadp.strategy.scopes import split_by_scope


@settings(deadline=None)
@given(query_blocks())
def test_splitting_keeps_every_row_as_the_same_function(asked):
    parts = list(split_by_scope(asked))
    assert sum(part.rows for part in parts) == asked.rows
    ours, theirs = written_out(parts), written_out([asked])
    assert sorted(map(tuple, ours)) == sorted(map(tuple, theirs))


def test_rows_of_one_block_go_to_the_columns_they_depend_on():
    table = np.zeros((4, 5, 3))
    table[0] = 1
    table[1] = np.arange(5)[:, None]
    table[2, :, 1] = 7
    table[3, 4, 2] = 1
    parts = list(split_by_scope(block(finest("a", "b"), table.reshape(4, 15))))
    assert [part.marginal.scope for part in parts] == [(), ("a",), ("b",), ("a", "b")]
    assert [part.matrix.toarray().tolist() for part in parts[:3]] == [
        [[1]],
        [[0, 1, 2, 3, 4]],
        [[0, 7, 0]],
    ]
