"""Least squares for Kronecker blocks of one scope, column by column, and few rows beside them.

    A_b = diag(t_b) (F_b1 x ... x F_bd),     X = sum_b A_b^T A_b + T^T T

T holds the rows of all blocks that are no products, such as those of a strategy for a few ranges
that an earlier release measured, and of products over fewer columns that have few.  If T is empty,
all t_b are products and blocks differ in one column at most, then ``X = X_1 x ... x X_d`` is a
product too, and a query that is a product ``w_1 x ... x w_d`` has the variance
``prod_c w_c X_c^-1 w_c^T``.  Otherwise X is only ever applied, and solved with by conjugate
gradients; the preconditioner is the inverse of the product nearest to all A_b, with T beside it
(`near_product`).  Where one product was measured that is X itself, and one step is enough.

X may be singular.  A right side that cannot be reached is no combination of what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.errors import NotCoveredError
from sqlmadp.schema.kronecker import KroneckerBlock, lifted, read_as_products
from sqlmadp.schema.marginal import Block, Marginal, expand
from sqlmadp.workload.along import Along, along_each
from sqlmadp.workload.cells import CellsSolver
from sqlmadp.workload.near_product import Beside, NearProduct
from sqlmadp.workload.product_rows import ProductRows
from sqlmadp.workload.workload import crossed

Matrix = NDArray[np.float64]

CHUNK, MANY = 1 << 16, 1 << 21
"""Numbers that right sides solved at once may hold: as many as stay close to the processor, unless
a large triangular factor has to be read for them."""

CLOSE, CLOSEST = 1e-6, 1e-13
"""Relative residual at which a right side counts as solved: for variances, and for answers.

An error of a solution enters a variance by its square.
"""

FLAT = 1e-14
"""Curvature of X along a direction that it does not see but for rounding, against its mean."""

MOST_STEPS = 1000
"""Steps after which a right side that has not been reached counts as out of reach."""

FEW_ROWS = 1024
"""Rows of a product over fewer columns than another up to which it is one of T."""

MOST_ROWS, MOST_NUMBERS = 8_192, 1 << 29
"""Rows of T, and those times all cells, up to which they are part of the preconditioner."""


OUT_OF_REACH = "the query is not a combination of what the release measured"


class _Information:
    """``A_b^T A_b`` of one block, to be multiplied by."""

    def __init__(self, block: KroneckerBlock) -> None:
        self._shape = block.marginal.shape
        self._factors = [Along(factor) for factor in block.factors]
        heights = block.heights[np.ix_(*(factor.order for factor in self._factors))]
        self._squares = heights.astype(np.float64) ** 2

    def times(self, tables: Matrix) -> Matrix:
        """Return tables of all cells, one a row, multiplied by it."""
        rows = along_each(tables, self._shape, [factor.times for factor in self._factors])
        rows *= self._squares.reshape(-1)
        back = [factor.transposed_times for factor in self._factors]
        return along_each(rows, self._squares.shape, back)


class KroneckerSolver(CellsSolver):
    """Solve for Kronecker blocks of one scope, and blocks inside it."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        """Take the product nearest to X, and see whether it is X; the widest block is one."""
        super().__init__(crossed(block.marginal for block in blocks))
        self._blocks = [_over(block, self.marginal) for block in blocks]
        products = [block for block in self._blocks if isinstance(block, KroneckerBlock)]
        others = [block.matrix for block in self._blocks if not isinstance(block, KroneckerBlock)]
        self._information = [_Information(block) for block in products]
        self._near = NearProduct.of(products, alone=not others)
        self._top = None
        if others:
            self._top = sparse.csr_array(sparse.vstack(others), dtype=np.float64)
        self.separable = self._near.exact and self._top is None
        self._mean = sum(block.square for block in self._blocks) / self.marginal.size
        self._every_cell = any(map(_measures_cells, products))
        self._known: dict[bytes, float] = {}

    @classmethod
    def of(cls, blocks: Sequence[Block]) -> KroneckerSolver | None:
        """Return the solver of a strategy; None if no Kronecker block has all its columns."""
        widest = {name for block in blocks for name in block.marginal.scope}
        holding = [b for b in blocks if isinstance(b, KroneckerBlock)]
        if not any(set(block.marginal.scope) == widest for block in holding):
            return None
        return cls(blocks)

    def variances(self, block: Block) -> Matrix:
        """Return each row's variance in units of the noise variance."""
        fine = self._over_cells(block)
        variances = np.zeros(fine.rows)
        others = np.arange(fine.rows)
        if self.separable:
            found = ProductRows.of(fine)
            products, others = found.values**2, found.others
            parts = zip(self._near.inverses, found.sets, found.members, strict=True)
            for inverse, sets, members in parts:
                products = products * inverse.variances(members)[sets]
            if not np.isfinite(products).all():
                raise NotCoveredError(OUT_OF_REACH)
            variances[found.rows] = products
        if len(others):
            variances[others] = self._solved_variances(sparse.csr_array(fine.matrix[others]))
        return variances

    def _solved_variances(self, queries: sparse.csr_array) -> Matrix:
        """Return ``2 w z - z X z`` for every row w; an error of z enters it by its square.

        Each row is solved for once, whatever it is multiplied by and whoever asks for it again.
        """
        keys, scales = _directions(queries)
        new = {key: place for place, key in enumerate(keys) if key not in self._known}
        for some, rows in self._slices(queries[list(new.values())]):
            solution = self._solved(rows, CLOSE)
            found = _products(solution, 2 * rows - self._times(solution))
            names = list(new)[some]
            for key, variance in zip(names, found.tolist(), strict=True):
                self._known[key] = variance / scales[new[key]] ** 2
        return np.array([self._known[key] for key in keys]) * scales**2

    def total(self, blocks: Sequence[Block]) -> float:
        """Return the sum of the variances of all rows of ``blocks``."""
        return math.fsum(float(self.variances(block).sum()) for block in blocks)

    def noise(self, block: Block) -> Matrix:
        """Return each answer's noise over that of every strategy row."""
        width = sum(block.rows for block in self._blocks)
        parts = [
            np.concatenate(self.fitted(self._solved(rows, CLOSEST).T)).T
            for _, rows in self._slices(self._over_cells(block).matrix)
        ]
        return np.concatenate([np.zeros((0, width)), *parts])

    def estimate(self, values: Sequence[Matrix]) -> Matrix:
        """Return the estimate of every cell of the marginal."""
        pairs = zip(self._blocks, values, strict=True)
        moments = np.asarray(sum(block.transposed_times(value) for block, value in pairs))
        rows = np.ascontiguousarray(moments.reshape(self.marginal.size, -1).T)
        return self._solved(rows, CLOSEST).T.reshape(moments.shape)

    def fitted(self, estimate: Matrix) -> tuple[Matrix, ...]:
        """Return the values of every block that an estimate of every cell stands for."""
        return tuple(block.times(estimate) for block in self._blocks)

    def answers(self, estimate: Matrix) -> Callable[[Block], Matrix]:
        """Return what answers blocks from an estimate of every cell."""
        answers = super().answers(estimate)
        if self._every_cell:
            return answers

        def covered(block: Block) -> Matrix:
            self.variances(block)  # Raises if a row is out of reach.
            return answers(block)

        return covered

    def _over_cells(self, block: Block) -> Block:
        """Return a block over the measured cells."""
        block = self.checked(block)
        if block.marginal == self.marginal:
            return block
        return Block(self.marginal, expand(block.matrix, block.marginal, self.marginal))

    def _slices(self, queries: sparse.csr_array) -> Iterator[tuple[slice, Matrix]]:
        """Yield rows, a few at a time, and which they are."""
        step = max(1, (CHUNK if self._beside is None else MANY) // self.marginal.size)
        for start in range(0, queries.shape[0], step):
            some = slice(start, start + step)
            yield some, queries[some].toarray().astype(np.float64)

    def _solved(self, right: Matrix, close: float) -> Matrix:
        """Return the solutions of ``X z = right``, one a row."""
        if self.separable and not self._near.covers(right):
            raise NotCoveredError(OUT_OF_REACH)
        residual, solution = right.copy(), np.zeros_like(right)
        scaled = self._preconditioned(residual)
        direction, squares = scaled.copy(), _products(residual, scaled)
        goals = close * np.sqrt(squares)
        for _ in range(MOST_STEPS):
            if (np.sqrt(squares) <= goals).all():
                return solution
            image = self._times(direction)
            curvature = _products(direction, image)
            unseen = curvature <= FLAT * self._mean * _products(direction, direction)
            if (unseen & (np.sqrt(squares) > goals)).any():
                break
            step = np.divide(squares, curvature, out=np.zeros_like(squares), where=curvature > 0)
            solution += step[:, None] * direction
            residual -= step[:, None] * image
            scaled = self._preconditioned(residual)
            before, squares = squares, _products(residual, scaled)
            turn = np.divide(squares, before, out=np.zeros_like(squares), where=before > 0)
            direction *= turn[:, None]
            direction += scaled
        raise NotCoveredError(OUT_OF_REACH)

    def _times(self, tables: Matrix) -> Matrix:
        """Return ``X z`` for every row z."""
        image = self._information[0].times(tables)
        for part in self._information[1:]:
            image += part.times(tables)
        if self._top is not None:
            image += (self._back @ (self._top @ tables.T)).T
        return image

    @cached_property
    def _back(self) -> sparse.csr_array | None:
        return None if self._top is None else sparse.csr_array(self._top.T)

    @cached_property
    def _beside(self) -> Beside | None:
        """Return the nearest product with T beside it, if that is not too much."""
        if self._top is None:
            return None
        rows, cells = self._top.shape
        few = rows <= MOST_ROWS and rows * cells <= MOST_NUMBERS
        return Beside(self._near, self._top) if few else None

    def _preconditioned(self, right: Matrix) -> Matrix:
        return (self._beside or self._near).times(right)


def _products(one: Matrix, other: Matrix) -> Matrix:
    """Return the product of every two rows."""
    return np.asarray(np.einsum("rc,rc->r", one, other))


def _directions(rows: sparse.csr_array) -> tuple[list[bytes], Matrix]:
    """Return what only parallel rows share, and the first entry of every row."""
    rows = rows.astype(np.float64)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    ends, places = rows.indptr, rows.indices.astype(np.int64)
    scales = np.ones(rows.shape[0])
    filled = np.diff(ends) > 0
    scales[filled] = rows.data[ends[:-1][filled]]
    keys = []
    for start, end, scale in zip(ends[:-1], ends[1:], scales, strict=True):
        digest = blake2b(places[start:end].tobytes(), digest_size=16)
        digest.update((rows.data[start:end] / scale).tobytes())
        keys.append(digest.digest())
    return keys, scales


def _measures_cells(block: KroneckerBlock) -> bool:
    """Tell whether every cell is measured by some row alone."""
    singles = [np.flatnonzero(np.diff(factor.indptr) == 1) for factor in block.factors]
    groups = [np.unique(f[rows].indices) for f, rows in zip(block.factors, singles, strict=True)]
    everywhere = all(map(np.array_equal, groups, map(np.arange, block.marginal.shape)))
    return everywhere and bool(block.heights[np.ix_(*singles)].all())


def _over(block: Block, marginal: Marginal) -> Block:
    """Return a block over finer cells: a product as one, unless it has few rows and columns."""
    products = read_as_products(block)
    fewer = len(block.marginal.scope) < len(marginal.scope)
    if products is not None and not (fewer and block.rows <= FEW_ROWS):
        return lifted(products, marginal)
    matrix = sparse.csr_array(block.matrix, dtype=np.float64)
    return Block(marginal, sparse.csr_array(expand(matrix, block.marginal, marginal)))
