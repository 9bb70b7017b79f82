"""Gram matrices in coordinates, kept sparse: ``W^T W`` as a sum of Kronecker products.

Most queries are products of one set a column (`product_rows`).  Rows that differ in one column
only have a Gram matrix that is a Kronecker product, and so is its image in coordinates, since
those are products of functions of single columns:

    sum over rows of  w w^T  =  (s_1 s_1^T) x ... x (sum over rows of v^2 s s^T) x ... x (s_d s_d^T)
    in coordinates:             (C_1^T s_1 s_1^T C_1) x ...

with C_c the coefficients of column c's groups.  Terms that are equal in all columns but one are
added up there: who asks for the same ages of every sex, and of every race, has one term.
Functions that a query treats alike have no coefficients in common, so the sum has few entries.
Rows that are no products are worked out over all pairs of their cells.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.errors import NotSupportedError
from sqlmadp.schema.marginal import Block, CellBlock, Labels, Marginal
from sqlmadp.workload.coordinates import Coordinates
from sqlmadp.workload.product_rows import ProductRows

Matrix = NDArray[np.float64]

ROUNDING = 1e-12
"""Relative size below which an entry is what rounding left of zero."""

MOST_PAIRS = 1 << 24
"""Pairs of cells that a block which is no product may have."""

VALUES = 4
"""Values of rows that are kept apart at first, for every choice of sets: where each query has a
value of its own, there is no use in looking for terms that differ by a factor."""


@dataclass(frozen=True, eq=False)
class Entries:
    """A sparse matrix as it is added up: entries of one place may come several times."""

    rows: Labels
    columns: Labels
    data: Matrix

    @classmethod
    def of(cls, matrix: sparse.csr_array) -> Entries:
        """Return the entries of a matrix."""
        entries = sparse.coo_array(matrix)
        rows, columns = (each.astype(np.int64) for each in entries.coords)
        return cls(rows, columns, entries.data.astype(np.float64))

    def times(self, other: Entries, size: int) -> Entries:
        """Return the Kronecker product with a square matrix of ``size`` rows."""
        return Entries(
            np.add.outer(self.rows * size, other.rows).reshape(-1),
            np.add.outer(self.columns * size, other.columns).reshape(-1),
            np.multiply.outer(self.data, other.data).reshape(-1),
        )

    def placed(self, box: Labels, parts: Labels | None = None) -> Entries:
        """Return the entries over the tuples of a box as those over all coordinates, or inside."""
        rows, columns = box[self.rows], box[self.columns]
        used = (rows >= 0) & (columns >= 0)  # What has no place is zero, up to rounding.
        if parts is not None:
            used &= parts[rows] == parts[columns]
        return Entries(rows[used], columns[used], self.data[used])


@dataclass(frozen=True, eq=False)
class _Term:
    """One matrix a column in coordinates, of which the Kronecker product is taken; and a factor."""

    scale: float
    images: tuple[sparse.csr_array, ...]
    names: tuple[Hashable, ...]
    """Equal for equal matrices, column by column."""


def gram_of(
    blocks: Iterable[Block],
    coordinates: Coordinates,
    most: float = math.inf,
    *,
    parts: Labels | None = None,
) -> sparse.csr_array:
    """Return ``W^T W`` in coordinates for the rows of all ``blocks``.

    NotSupportedError if it would be added up from more than ``most`` entries.  If ``parts`` tells
    the part that every coordinate belongs to, entries between two parts are left out.
    """
    found: list[Entries] = []
    for block in blocks:
        box = coordinates.box(block.marginal)
        for entries in _over_box(block, coordinates, most):
            most -= len(entries.data)
            found.append(entries.placed(box, parts))
    return without_rounding(_summed(found, coordinates.size))


def cells_gram(marginal: Marginal, coordinates: Coordinates) -> sparse.csr_array:
    """Return the Gram matrix, in coordinates, of every cell of a marginal measured alone."""
    entries = _product(_cells(marginal, coordinates), marginal)
    return _summed([entries.placed(coordinates.box(marginal))], coordinates.size)


def without_rounding(matrix: sparse.csr_array) -> sparse.csr_array:
    """Return a positive semidefinite matrix without what rounding left of zeros."""
    entries = sparse.coo_array(matrix)
    rows, columns = entries.coords
    lengths = np.sqrt(np.maximum(matrix.diagonal(), 0))
    kept = np.abs(entries.data) > ROUNDING * lengths[rows] * lengths[columns]
    parts = (entries.data[kept], (rows[kept], columns[kept]))
    return sparse.csr_array(parts, shape=matrix.shape)


def _summed(parts: list[Entries], size: int) -> sparse.csr_array:
    """Return the matrix that the entries add up to."""
    rows = np.concatenate([np.zeros(0, dtype=np.int64), *(part.rows for part in parts)])
    columns = np.concatenate([np.zeros(0, dtype=np.int64), *(part.columns for part in parts)])
    data = np.concatenate([np.zeros(0), *(part.data for part in parts)])
    return sparse.csr_array((data, (rows, columns)), shape=(size, size))


def _over_box(block: Block, coordinates: Coordinates, most: float) -> Iterator[Entries]:
    """Yield matrices over the tuples of a block's box that add up to its Gram matrix."""
    marginal = block.marginal
    if isinstance(block, CellBlock):
        yield _product(_cells(marginal, coordinates), marginal, block.weight**2)
        return
    if not marginal.scope:
        yield Entries.of(sparse.csr_array(block.matrix.T @ block.matrix))
        return
    products = ProductRows.of(block)
    for term in _merged(list(_terms(products, marginal, coordinates))):
        entries = _product(term.images, marginal, term.scale, most)
        most -= len(entries.data)
        yield entries
    if len(products.others):
        others = Block(marginal, block.matrix[products.others])
        yield Entries.of(_over_pairs(others, coordinates))


def _terms(products: ProductRows, marginal: Marginal, coordinates: Coordinates) -> Iterator[_Term]:
    """Yield a term for rows that have equal sets in every column but one, and mostly one value."""
    varied = max(range(len(products.sets)), key=lambda column: len(products.members[column]))
    known: dict[Hashable, sparse.csr_array] = {}
    for rows in _alike(products, varied):
        values = products.values[rows]
        names: list[Hashable] = []
        for column, (sets, members) in enumerate(zip(products.sets, products.members, strict=True)):
            name: Hashable = (column, int(sets[rows[0]]))
            chosen = members[sets[rows[:1]]]
            if column == varied:
                chosen = members[sets[rows]] * (values / values[0])[:, None]
            factor = chosen.T @ chosen
            if column == varied:
                name = (column, hashlib.sha256(factor.tobytes()).digest())
            if name not in known:
                known[name] = _image(factor, marginal, column, coordinates)
            names.append(name)
        yield _Term(float(values[0]) ** 2, tuple(map(known.__getitem__, names)), tuple(names))


def _alike(products: ProductRows, varied: int) -> Iterator[Labels]:
    """Yield the numbers of rows with equal sets in every column but one, and mostly one value."""
    if not len(products.rows):
        return
    fixed = [sets for column, sets in enumerate(products.sets) if column != varied]
    sets = np.column_stack([*fixed, np.zeros(len(products.rows), dtype=np.int64)])
    values = np.column_stack([sets, np.abs(products.values)])
    coarse, fine = (np.unique(keys, axis=0, return_inverse=True)[1] for keys in (sets, values))
    group = (fine if fine.max() < VALUES * (coarse.max() + 1) else coarse).reshape(-1)
    order = np.argsort(group, kind="stable")
    yield from np.split(order, np.cumsum(np.bincount(group))[:-1])


def _merged(terms: list[_Term]) -> list[_Term]:
    """Return fewer terms with the same sum: those equal in all columns but one, added up there."""
    for column in range(len(terms[0].images) if terms else 0):
        alike: dict[Hashable, list[_Term]] = {}
        for term in terms:
            alike.setdefault((*term.names[:column], *term.names[column + 1 :]), []).append(term)
        terms = [_added(group, column) if len(group) > 1 else group[0] for group in alike.values()]
    return terms


def _added(terms: list[_Term], column: int) -> _Term:
    """Return the sum of terms that differ in one column."""
    first = terms[0]
    image = sum(term.scale / first.scale * term.images[column] for term in terms)
    images, names = list(first.images), list(first.names)
    images[column] = without_rounding(sparse.csr_array(image))
    names[column] = tuple((term.scale / first.scale, term.names[column]) for term in terms)
    return _Term(first.scale, tuple(images), tuple(names))


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


def _cells(marginal: Marginal, coordinates: Coordinates) -> tuple[sparse.csr_array, ...]:
    """Return, column by column, the image of every group measured alone."""
    return tuple(
        _image(np.eye(size), marginal, column, coordinates)
        for column, size in enumerate(marginal.shape)
    )


def _image(
    factor: Matrix, marginal: Marginal, column: int, coordinates: Coordinates
) -> sparse.csr_array:
    """Return a matrix over the groups of one column as one over its functions."""
    basis, partition = coordinates.bases[marginal.scope[column]], marginal.partitions[column]
    coefficients = basis.coefficients(partition, basis.level(partition))
    return without_rounding(sparse.csr_array(coefficients.T @ factor @ coefficients))


def _product(
    images: Iterable[sparse.csr_array],
    marginal: Marginal,
    scale: float = 1.0,
    most: float = math.inf,
) -> Entries:
    """Return a Kronecker product, over the tuples of a marginal's box."""
    images = list(images)
    if math.prod(int(image.nnz) for image in images) > most:
        raise NotSupportedError(
            f"queries over {', '.join(marginal.scope)} overlap in too many ways to be weighed "
            "against each other"
        )
    place = np.zeros(1, dtype=np.int64)
    product = Entries(place, place, np.array([scale], dtype=np.float64))
    for image in images:
        product = product.times(Entries.of(image), image.shape[0])
    return product
