"""Partitions: numbering of labels."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sqlmadp.table.partition import renumbered


@given(st.lists(st.integers(-3, 8)) | st.lists(st.integers(-(2**60), 2**60)))
def test_labels_are_numbered_by_their_first_place(labels):
    first = list(dict.fromkeys(labels))
    expected = [first.index(label) for label in labels]
    np.testing.assert_array_equal(renumbered(np.array(labels, dtype=np.int64)), expected)
