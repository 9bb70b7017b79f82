"""Lossless reduction: merge the cells that no row of a block tells apart.

Two groups of a column with identical slices in every row are merged, and a column whose groups
all merge is dropped from the scope: the rows do not depend on it.  The rows stay the same
functions on the table, over fewer cells.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from sqlmadp.schema.marginal import (
    Block,
    CellBlock,
    Labels,
    Marginal,
    Partition,
    cell_weight,
    row_major_strides,
)


def reduced(block: Block) -> Block:
    """Return the same functions over the coarsest partitions that express them."""
    weight = cell_weight(block)
    if weight is not None and all(size > 1 for size in block.marginal.shape):
        return CellBlock(block.marginal, weight)  # Every cell is told apart.
    matrix = sparse.coo_array(block.matrix)
    # Row and cell become one number below, which may not fit the matrix's own 32 bits.
    rows, cells = (coordinates.astype(np.int64) for coordinates in matrix.coords)
    size, shape = block.marginal.size, block.marginal.shape
    scope, partitions = [], []
    chosen = np.zeros((), dtype=np.int64)
    for name, partition, stride in zip(
        block.marginal.scope, block.marginal.partitions, row_major_strides(shape), strict=True
    ):
        groups = cells // stride % partition.size
        rest = rows * size + cells - groups * stride
        unfolded = (matrix.data, (rest, groups))
        labels, first = distinct_columns(
            sparse.csc_array(unfolded, shape=(block.rows * size, partition.size))
        )
        chosen = np.add.outer(chosen, first * stride)
        if len(first) > 1:
            scope.append(name)
            partitions.append(Partition.of(labels[partition.labels]))
    marginal = Marginal(tuple(scope), tuple(partitions))
    return Block(marginal, block.matrix[:, chosen.reshape(-1)])


def distinct_columns(matrix: sparse.csc_array) -> tuple[Labels, Labels]:
    """Return the group of every column (equal columns share one), and each group's first column."""
    matrix = matrix.copy()
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    matrix.sort_indices()
    groups: dict[tuple[bytes, bytes], int] = {}
    labels = np.empty(matrix.shape[1], dtype=np.int64)
    first: list[int] = []
    for column in range(matrix.shape[1]):
        part = slice(matrix.indptr[column], matrix.indptr[column + 1])
        key = (matrix.indices[part].tobytes(), matrix.data[part].tobytes())
        group = groups.setdefault(key, len(groups))
        if group == len(first):
            first.append(column)
        labels[column] = group
    return labels, np.array(first, dtype=np.int64)
