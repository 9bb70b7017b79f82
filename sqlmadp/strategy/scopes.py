"""Rows on the fewest columns: the form in which equal questions of different scopes meet.

A row of a block that is constant along a column is a function of the other columns alone;
a total asked inside a block by age is the same question as a total asked by state.  Moving
each row to the columns it depends on makes parallel rows equal, entry by entry.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import sparse

from sqlmadp.schema.marginal import Block, Marginal


def split_by_scope(block: Block) -> Iterator[Block]:
    """Split a block by the columns its rows depend on, keeping the order of rows."""
    shape = block.marginal.shape
    counts = np.diff(block.matrix.indptr)
    # A row that is constant along a column has a multiple of its groups as non-zero entries.
    suspects = np.flatnonzero((counts[:, None] % np.array(shape or (1,)) == 0).any(axis=1))
    every = tuple(range(len(shape)))
    axes = dict.fromkeys(range(block.rows), every)
    axes.update({int(row): _depends_on(block.matrix[[row]], shape) for row in suspects})
    places: dict[tuple[int, ...], list[int]] = {}
    for row, depends in axes.items():
        places.setdefault(depends, []).append(row)
    for depends, rows in places.items():
        yield _restricted(block, depends, rows)


def _depends_on(row: sparse.csr_array, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes along which a row varies."""
    cells = row.toarray().reshape(shape)
    return tuple(
        axis for axis in range(len(shape)) if not (cells == cells.take([0], axis=axis)).all()
    )


def _restricted(block: Block, axes: tuple[int, ...], rows: list[int]) -> Block:
    """Return some rows over some axes; along the others their first cell stands for all."""
    shape = block.marginal.shape
    if len(axes) == len(shape):
        return Block(block.marginal, block.matrix[rows])
    scope = tuple(block.marginal.scope[axis] for axis in axes)
    partitions = tuple(block.marginal.partitions[axis] for axis in axes)
    cells = np.arange(block.marginal.size).reshape(shape)
    kept = cells[tuple(slice(None) if a in axes else 0 for a in range(len(shape)))].reshape(-1)
    return Block(Marginal(scope, partitions), block.matrix[rows][:, kept])
