"""What blocks have in common that measure the same rows, in memory and once they are stored."""

import numpy as np
import pytest
from scipy import sparse
from small_tables import block, finest, histogram

from sqlmadp.schema.kronecker import KroneckerBlock, contents
from sqlmadp.schema.marginal import Block, CellBlock

SIZES = {"a": 3, "b": 4}
CELLS = finest("a", "b", sizes=SIZES)
ROWS = np.arange(24).reshape(2, 12)


def kronecker(heights):
    factors = [sparse.csr_array(np.tri(size, dtype=np.int64)) for size in CELLS.shape]
    return KroneckerBlock(CELLS, factors, heights)


def test_cells_have_the_same_contents_written_out_or_not():
    written = Block(CELLS, 3 * sparse.eye_array(12, format="csr", dtype=np.int64))
    assert contents([CellBlock(CELLS, 3)]) == contents([written])
    assert contents([CellBlock(CELLS, 3.0)]) == contents([written])


def test_the_type_of_numbers_does_not_matter():
    wide, narrow = (sparse.csr_array(ROWS.astype(kind)) for kind in (np.int64, np.int32))
    assert contents([Block(CELLS, wide)]) == contents([Block(CELLS, narrow)])


@pytest.mark.parametrize(
    "other",
    [
        [block(CELLS, ROWS + 1)],
        [block(finest("a", "c", sizes={"a": 3, "c": 4}), ROWS)],
        [block(CELLS, ROWS), histogram("a", sizes=SIZES)],
        [CellBlock(CELLS, 1)],
        [kronecker(np.ones((3, 4), dtype=np.int64))],
    ],
    ids=["numbers", "columns", "more", "cells", "products"],
)
def test_other_rows_have_other_contents(other):
    assert contents(other) != contents([block(CELLS, ROWS)])


def test_products_of_other_heights_have_other_contents():
    ones = np.ones((3, 4), dtype=np.int64)
    assert contents([kronecker(ones)]) == contents([kronecker(ones.copy())])
    assert contents([kronecker(ones)]) != contents([kronecker(2 * ones)])
