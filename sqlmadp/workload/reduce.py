"""Lossless reduction: merge the cells that no row of a block tells apart.

Two groups of a column with identical slices in every row are merged, and a column whose groups
all merge is dropped from the scope: the rows do not depend on it.  The rows stay the same
functions on the table, over fewer cells.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from sqlmadp.schema.marginal import Block, Labels, Marginal, Partition


def reduced(block: Block) -> Block:
    """Return the same functions over the coarsest partitions that express them."""
    matrix = sparse.coo_array(block.matrix)
    shape = block.marginal.shape
    scope, partitions, kept = [], [], []
    places = np.unravel_index(matrix.coords[1], shape) if shape else ()
    for axis, (name, partition) in enumerate(
        zip(block.marginal.scope, block.marginal.partitions, strict=True)
    ):
        rest = matrix.coords[1] - places[axis] * int(np.prod(shape[axis + 1 :]))
        unfolded = sparse.csc_array(
            (matrix.data, (matrix.coords[0] * block.marginal.size + rest, places[axis])),
            shape=(block.rows * block.marginal.size, shape[axis]),
        )
        labels, first = distinct_columns(unfolded)
        kept.append(first if len(first) > 1 else first[:1])
        if len(first) > 1:
            scope.append(name)
            partitions.append(Partition.of(labels[partition.labels]))
    cells = np.arange(block.marginal.size).reshape(shape)
    chosen = cells[np.ix_(*kept)].reshape(-1) if shape else cells.reshape(-1)
    return Block(Marginal(tuple(scope), tuple(partitions)), block.matrix[:, chosen])


def distinct_columns(matrix: sparse.csc_array) -> tuple[Labels, Labels]:
    """Return the group of every column (equal columns share one), and each group's first column."""
    matrix = sparse.csc_array(matrix)
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
