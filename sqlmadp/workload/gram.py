"""Gram matrices in coordinates, kept sparse: ``W^T W`` as a sum of Kronecker products.

Most queries are products of one set a column (`product_rows`).  Rows that differ in one column
only have a Gram matrix that is a Kronecker product, and so is its image in coordinates, since
those are products of functions of single columns:

    sum over rows of  w w^T  =  (s_1 s_1^T) x ... x (sum over rows of v^2 s s^T) x ... x (s_d s_d^T)
    in coordinates:             (C_1^T s_1 s_1^T C_1) x ...

with C_c the coefficients of column c's groups.  Functions that a query treats alike have no
coefficients in common, so the sum has few entries.  Rows that are no products are worked out over
all pairs of their cells.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.errors import NotSupportedError
from sqlmadp.schema.marginal import Block, CellBlock, Marginal
from sqlmadp.workload.coordinates import Coordinates
from sqlmadp.workload.product_rows import ProductRows

Matrix = NDArray[np.float64]

ROUNDING = 1e-12
"""Relative size below which an entry is what rounding left of zero."""

MOST_PAIRS = 1 << 24
"""Pairs of cells that a block which is no product may have."""


def gram_of(
    blocks: Iterable[Block], coordinates: Coordinates, most: float = math.inf
) -> sparse.csr_array:
    """Return ``W^T W`` in coordinates for the rows of all ``blocks``.

    NotSupportedError if it would be added up from more than ``most`` entries.
    """
    size = coordinates.size
    rows, columns, data = (
        [np.zeros(0, dtype=np.int64)],
        [np.zeros(0, dtype=np.int64)],
        [np.zeros(0)],
    )
    for block in blocks:
        box = coordinates.box(block.marginal)
        for gram in _over_box(block, coordinates, most):
            most -= gram.nnz
            entries = sparse.coo_array(gram)
            places = [box[each] for each in entries.coords]
            used = (places[0] >= 0) & (places[1] >= 0)  # What has no place is zero, or rounding.
            rows.append(places[0][used])
            columns.append(places[1][used])
            data.append(entries.data[used])
    parts = (np.concatenate(data), (np.concatenate(rows), np.concatenate(columns)))
    return without_rounding(sparse.csr_array(parts, shape=(size, size)))


def cells_gram(marginal: Marginal, coordinates: Coordinates) -> sparse.csr_array:
    """Return the Gram matrix, in coordinates, of every cell of a marginal measured alone."""
    factors = [np.eye(size) for size in marginal.shape]
    return _placed(_transformed(factors, marginal, coordinates), marginal, coordinates)


def without_rounding(matrix: sparse.csr_array) -> sparse.csr_array:
    """Return a positive semidefinite matrix without what rounding left of zeros."""
    entries = sparse.coo_array(matrix)
    rows, columns = entries.coords
    lengths = np.sqrt(np.maximum(matrix.diagonal(), 0))
    kept = np.abs(entries.data) > ROUNDING * lengths[rows] * lengths[columns]
    parts = (entries.data[kept], (rows[kept], columns[kept]))
    return sparse.csr_array(parts, shape=matrix.shape)


def _over_box(block: Block, coordinates: Coordinates, most: float) -> Iterator[sparse.csr_array]:
    """Yield matrices over the tuples of a block's box that add up to its Gram matrix."""
    marginal = block.marginal
    if isinstance(block, CellBlock):
        factors = [np.eye(size) for size in marginal.shape]
        yield block.weight**2 * _transformed(factors, marginal, coordinates)
        return
    if not marginal.scope:
        yield sparse.csr_array(block.matrix.T @ block.matrix)
        return
    products = ProductRows.of(block)
    for factors in _factors(products):
        gram = _transformed(factors, marginal, coordinates, most)
        most -= gram.nnz
        yield gram
    if len(products.others):
        yield _over_pairs(Block(marginal, block.matrix[products.others]), coordinates)


def _factors(products: ProductRows) -> Iterator[list[Matrix]]:
    """Yield one matrix a column for rows that have equal sets in every column but one."""
    varied = max(range(len(products.sets)), key=lambda column: len(products.members[column]))
    fixed = [sets for column, sets in enumerate(products.sets) if column != varied]
    keys = np.column_stack([*fixed, np.zeros(len(products.rows), dtype=np.int64)])
    _, group = np.unique(keys, axis=0, return_inverse=True)
    order = np.argsort(group.reshape(-1), kind="stable")
    for rows in np.split(order, np.cumsum(np.bincount(group.reshape(-1)))[:-1]):
        factors = []
        for column, (sets, members) in enumerate(zip(products.sets, products.members, strict=True)):
            chosen = members[sets[rows]] if column == varied else members[sets[rows[:1]]]
            weights = products.values[rows, None] if column == varied else 1.0
            factors.append((chosen * weights).T @ (chosen * weights))
        yield factors


def _over_pairs(block: Block, coordinates: Coordinates) -> sparse.csr_array:
    """Return the Gram matrix over a box of rows that are no products."""
    marginal = block.marginal
    depth = math.prod(coordinates.depths(marginal))
    if max(depth, marginal.size) * marginal.size > MOST_PAIRS:
        raise NotSupportedError(
            f"queries over {', '.join(marginal.scope)} tell {marginal.size:,} cells apart and "
            "are no product of what they ask of each column"
        )
    coefficients, _ = coordinates.cells(marginal)
    rows = np.asarray(block.matrix @ coefficients)
    return sparse.csr_array(rows.T @ rows)


def _transformed(
    factors: list[Matrix], marginal: Marginal, coordinates: Coordinates, most: float = math.inf
) -> sparse.csr_array:
    """Return a Kronecker product over cells as one over the tuples of the marginal's box."""
    images = []
    for name, partition, depth, factor in zip(
        marginal.scope, marginal.partitions, coordinates.depths(marginal), factors, strict=True
    ):
        coefficients = coordinates.bases[name].coefficients(partition, depth)
        image = coefficients.T @ factor @ coefficients
        images.append(without_rounding(sparse.csr_array(image)))
    if math.prod(int(image.nnz) for image in images) > most:
        raise NotSupportedError(
            f"queries over {', '.join(marginal.scope)} overlap in too many ways to be weighed "
            "against each other"
        )
    return _kronecker(images)


def _kronecker(factors: list[sparse.csr_array]) -> sparse.csr_array:
    product = sparse.csr_array(np.ones((1, 1)))
    for factor in factors:
        product = sparse.kron(product, factor, format="csr")
    return sparse.csr_array(product)


def _placed(
    gram: sparse.csr_array, marginal: Marginal, coordinates: Coordinates
) -> sparse.csr_array:
    """Return a matrix over the tuples of a box as one over all coordinates."""
    box = coordinates.box(marginal)
    entries = sparse.coo_array(gram)
    rows, columns = (box[places] for places in entries.coords)
    used = (rows >= 0) & (columns >= 0)  # What has no place is zero, up to rounding.
    parts = (entries.data[used], (rows[used], columns[used]))
    return sparse.csr_array(parts, shape=(coordinates.size, coordinates.size))
