"""Sizes of stacked queries, known before they are stacked."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from small_tables import query_blocks

from sqlmadp.workload.sizes import scope_sizes
from sqlmadp.workload.workload import ScopeWorkload


@settings(deadline=None, max_examples=40)
@given(st.lists(query_blocks(), min_size=1, max_size=5))
def test_the_cells_of_a_scope_are_those_of_its_queries_stacked(blocks):
    for size in scope_sizes(blocks):
        inside = [b for b in blocks if b.marginal.scope == size.scope]
        stacked = ScopeWorkload.of(inside)
        assert size.cells == stacked.marginal.size
        assert blocks[size.largest].marginal.size == max(b.marginal.size for b in inside)
        if all(len(np.unique(b.matrix.toarray())) == 1 for b in inside):  # Nothing but one value.
            assert size.entries == sum(b.rows * size.cells for b in inside if b.matrix.nnz)
