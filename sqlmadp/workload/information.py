"""What blocks tell of coordinates: ``A^T A``, written out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.schema.marginal import Block, CellBlock, Labels
from sqlmadp.workload.coordinates import Coordinates
from sqlmadp.workload.gram import cells_gram

Matrix = NDArray[np.float64]


def information(blocks: Sequence[Block], coordinates: Coordinates, places: Labels) -> Matrix:
    """Return ``A^T A`` over some coordinates that hold all rows of the blocks."""
    number = np.full(coordinates.size, -1, dtype=np.int64)
    number[places] = np.arange(len(places))
    found = np.zeros((len(places), len(places)))
    for block in blocks:
        if isinstance(block, CellBlock):
            entries = sparse.coo_array(cells_gram(block.marginal, coordinates))
            rows, columns = (number[each] for each in entries.coords)
            found[rows, columns] += block.weight**2 * entries.data
            continue
        if _holds_every_cell(block):
            inside = np.asarray((block.matrix.T @ block.matrix).todense(), dtype=np.float64)
            gram, box = coordinates.square(inside, block.marginal)
        else:  # Only rows themselves show that something is not measured at all.
            coefficients, box = coordinates.cells(block.marginal)
            written = np.asarray(block.matrix @ coefficients)
            gram = written.T @ written
        found[np.ix_(number[box], number[box])] += gram
    return found


def _holds_every_cell(block: Block) -> bool:
    """Tell whether every cell is measured alone by some row, beside whatever else is."""
    matrix = block.matrix
    single = matrix.indptr[:-1][np.diff(matrix.indptr) == 1]
    return len(np.unique(matrix.indices[single])) == block.marginal.size
