"""Least squares in the row space of a strategy: few rows, however many cells they are made of.

A strategy for a few dozen ranges of two columns has one row for each of the areas that these cut
out of the plane: no products of sets of values, so that their coordinates are as many as the cells,
yet only a thousand rows.  Cells with equal columns of A are merged into groups first.  If these are
no more than the rows, the counts in them are the coordinates.  Otherwise, with every row
divided by its length, take a maximal independent set I of them, found by a Cholesky factor with
pivoting,

    K = A_I A_I^T = U^T U,    c(w) = K^-1 A_I w^T,    w = c(w)^T A_I  if w is in the row space

and their values ``A_I x`` are the coordinates: each is measured alone, with the few rows outside I
on top.  Either way what is left is a strategy over the cells of one column, numbered, for which
there are solvers.

A strategy for some hundred conditions, each on other columns, has too many cells to cross them all,
and thousands of `Coordinates`.  Rows are written in these then, instead of in groups of cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_solve
from scipy.linalg.lapack import dpstrf

from sqlmadp.errors import NotCoveredError
from sqlmadp.schema.marginal import Block, Labels, Marginal, Partition, cell_map, expand
from sqlmadp.workload.cells import resolved
from sqlmadp.workload.coordinates import Coordinates
from sqlmadp.workload.factor import COVERED, LARGE_PIVOT
from sqlmadp.workload.reduce import distinct_columns
from sqlmadp.workload.workload import crossed

if TYPE_CHECKING:
    from sqlmadp.workload.solver import Solver

Matrix = NDArray[np.float64]

MOST_ROWS = 10_000
"""Rows of a strategy up to which a triangular factor fits into memory and a minute."""

MOST_CELLS = 1 << 20
"""Cells of all columns in use, crossed, up to which groups are looked for."""

MOST_ENTRIES = 1 << 25
"""Numbers that the rows may be made of over those cells."""

MOST_NUMBERS = 1 << 26
"""Numbers that the rows may be made of in coordinates."""

DEPENDENT = 1e-9
"""Distance of a row of length 1 from the span of the independent ones at which it is inside."""

CHUNK = 1 << 24
"""Numbers that one dense slice of a query block may hold."""


def has_few_rows(blocks: Sequence[Block]) -> bool:
    """Tell whether a strategy has few rows over not too many cells."""
    if sum(block.rows for block in blocks) > MOST_ROWS:
        return False
    cells = crossed(block.marginal for block in blocks).size
    entries = sum(block.entries * cells // max(1, block.marginal.size) for block in blocks)
    return cells <= MOST_CELLS and entries <= MOST_ENTRIES


def has_few_numbers(blocks: Sequence[Block], coordinates: Coordinates) -> bool:
    """Tell whether a strategy has fewer rows than coordinates, and can be written out in these."""
    rows = sum(block.rows for block in blocks)
    fewer = rows < coordinates.size and rows <= MOST_ROWS
    return fewer and rows * coordinates.size <= MOST_NUMBERS


@dataclass(frozen=True, eq=False)
class _Independent:
    """A maximal independent set of rows of length 1, and the factor U of their products K."""

    rows: sparse.csr_array
    order: Labels
    """The numbers of these rows among all, and then those of the others."""
    factor: Matrix

    @classmethod
    def of(cls, rows: sparse.csr_array) -> _Independent | None:
        """Return such a set; None if rounding cannot tell what depends on what."""
        products = (rows @ rows.T).toarray(order="F")
        factor, order, rank, _ = dpstrf(products, tol=LARGE_PIVOT, overwrite_a=1)
        order = np.asarray(order, dtype=np.int64) - 1
        # What is below the diagonal is never read.
        found = cls(rows[order[:rank]], order, np.asfortranarray(factor[:rank, :rank]))
        others = rows[order[rank:]].toarray().T
        away = others - found.rows.T @ found.coefficients(others)
        return None if (np.linalg.norm(away, axis=0) > DEPENDENT).any() else found

    def coefficients(self, columns: Matrix) -> Matrix:
        """Return ``c(w)`` for every column w."""
        return np.asarray(cho_solve((self.factor, False), self.rows @ columns, check_finite=False))

    def over_themselves(self, rows: sparse.csr_array, lengths: Matrix) -> sparse.csr_array:
        """Return all ``rows``, of some lengths, as combinations of the independent ones."""
        rank = len(self.factor)
        alone = sparse.diags_array(lengths[self.order[:rank]])
        others = self.coefficients(rows[self.order[rank:]].toarray().T).T
        ordered = sparse.csr_array(sparse.vstack([alone, sparse.csr_array(others)]))
        return ordered[np.argsort(self.order)]


class _Space(Protocol):
    """What rows are written in."""

    def written(self, block: Block) -> Iterator[tuple[Matrix, Matrix, Matrix]]:
        """Yield some rows, how far each is from what can be written, and its largest number."""


@dataclass(frozen=True, eq=False)
class _Groups:
    """Groups of the cells of a marginal."""

    marginal: Marginal
    labels: Labels
    """The group of every cell."""

    def written(self, block: Block) -> Iterator[tuple[Matrix, Matrix, Matrix]]:
        block = resolved(block, self.marginal)
        inside = cell_map(block.marginal, self.marginal)
        first = np.zeros(int(self.labels.max()) + 1, dtype=np.int64)
        first[self.labels[::-1]] = inside[::-1]
        one, other = _merged_cells(inside, first[self.labels])
        step = max(1, CHUNK // max(len(first), block.marginal.size))
        for start in range(0, max(1, block.rows), step):
            cells = block.matrix[start : start + step].toarray().astype(np.float64)
            outside = np.abs(cells[:, one] - cells[:, other]).max(axis=1, initial=0.0)
            yield cells[:, first], outside, np.abs(cells).max(axis=1, initial=0.0)


@dataclass(frozen=True, eq=False)
class _Written:
    """Coordinates, written out."""

    coordinates: Coordinates

    def written(self, block: Block) -> Iterator[tuple[Matrix, Matrix, Matrix]]:
        block = self.coordinates.resolved(block)
        step = max(1, CHUNK // max(self.coordinates.size, block.marginal.size))
        for start in range(0, max(1, block.rows), step):
            part = Block(block.marginal, block.matrix[start : start + step])
            rows, displaced = self.coordinates.rows(part)
            yield rows, displaced, np.maximum(displaced, np.abs(rows).max(axis=1, initial=0.0))


class RowSpaceSolver:
    """Solve for a strategy of few rows over very many cells."""

    def __init__(self, space: _Space, inner: Solver, independent: _Independent | None) -> None:
        """Keep what writes rows down, and what solves in coordinates."""
        self._space, self._inner, self._independent = space, inner, independent

    @classmethod
    def of(
        cls, blocks: Sequence[Block], solver_for: Callable[[Sequence[Block]], Solver]
    ) -> RowSpaceSolver | None:
        """Return the solver over groups of cells, given what solves in coordinates.

        None if coordinates would be as many as cells, or if rounding cannot tell which rows depend
        on which.
        """
        marginal = crossed(block.marginal for block in blocks)
        cells = [expand(block.matrix, block.marginal, marginal) for block in blocks]
        stack = sparse.csc_array(sparse.vstack(cells), dtype=np.float64)
        labels, first = distinct_columns(stack)
        if len(first) == marginal.size <= stack.shape[0]:
            return None
        rows = sparse.csr_array(stack[:, first])
        return cls._of_rows(blocks, rows, _Groups(marginal, labels), solver_for)

    @classmethod
    def over(
        cls,
        coordinates: Coordinates,
        blocks: Sequence[Block],
        solver_for: Callable[[Sequence[Block]], Solver],
    ) -> RowSpaceSolver | None:
        """Return the solver over ``coordinates``; None if rounding cannot tell what depends."""
        written = [sparse.csr_array(coordinates.rows(block)[0]) for block in blocks]
        rows = sparse.csr_array(sparse.vstack(written))
        return cls._of_rows(blocks, rows, _Written(coordinates), solver_for)

    @classmethod
    def _of_rows(
        cls,
        blocks: Sequence[Block],
        rows: sparse.csr_array,
        space: _Space,
        solver_for: Callable[[Sequence[Block]], Solver],
    ) -> RowSpaceSolver | None:
        independent = None
        if rows.shape[1] > rows.shape[0]:
            lengths = _lengths(rows)
            independent = _Independent.of(sparse.csr_array(sparse.diags_array(1 / lengths) @ rows))
            if independent is None:
                return None
            rows = independent.over_themselves(rows, lengths)
        ends = np.cumsum([block.rows for block in blocks])
        parts = [rows[end - block.rows : end] for block, end in zip(blocks, ends, strict=True)]
        numbered = _numbered(rows.shape[1])
        inner = solver_for([Block(numbered, sparse.csr_array(part)) for part in parts])
        return cls(space, inner, independent)

    def variances(self, block: Block) -> Matrix:
        """Return each row's variance in units of the noise variance."""
        parts = [self._inner.variances(part) for part in self._covered(block)]
        return np.concatenate([np.zeros(0), *parts])

    def total(self, blocks: Sequence[Block]) -> float:
        """Return the sum of the variances of all rows of ``blocks``."""
        return math.fsum(float(self.variances(block).sum()) for block in blocks)

    def noise(self, block: Block) -> Matrix | sparse.csr_array:
        """Return each answer's noise over independent ones of unit variance, one a column."""
        return np.concatenate([_dense(self._inner.noise(part)) for part in self._covered(block)])

    def fit(self, values: Sequence[Matrix]) -> Callable[[Block], Matrix]:
        """Return what answers blocks, given the noisy ``values`` of every strategy block."""
        return self.answers(self.estimate(values))

    def estimate(self, values: Sequence[Matrix]) -> Matrix:
        """Return the least-squares estimate in coordinates."""
        return self._inner.estimate(values)

    def fitted(self, estimate: Matrix) -> tuple[Matrix, ...]:
        """Return ``A x`` block by block."""
        return self._inner.fitted(estimate)

    def answers(self, estimate: Matrix) -> Callable[[Block], Matrix]:
        """Return what answers blocks from an estimate in coordinates."""
        inner = self._inner.answers(estimate)
        return lambda block: np.concatenate([inner(part) for part in self._covered(block)])

    def _covered(self, block: Block) -> Iterator[Block]:
        """Yield rows in coordinates, or raise if one is not in the row space."""
        for written, displaced, largest in self._space.written(block):
            rows, outside = written, displaced
            if self._independent is not None:
                coefficients = self._independent.coefficients(rows.T)
                away = np.abs(self._independent.rows.T @ coefficients - rows.T)
                outside = np.maximum(displaced, away.max(axis=0, initial=0.0))
                rows = coefficients.T
            if (outside > COVERED * largest).any():
                raise NotCoveredError("the query is not a combination of what the release measured")
            yield Block(_numbered(rows.shape[1]), sparse.csr_array(rows))


def _numbered(size: int) -> Marginal:
    """Return coordinates as the cells of one column."""
    return Marginal(("coordinate",), (Partition.finest(size),))


def _dense(matrix: Matrix | sparse.csr_array) -> Matrix:
    return matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix.toarray())


def _lengths(rows: sparse.csr_array) -> Matrix:
    """Return the length of every row, and 1 for a row of zeros."""
    lengths = np.sqrt(np.asarray(rows.power(2).sum(axis=1)))
    return np.where(lengths > 0, lengths, 1.0)


def _merged_cells(cells: Labels, others: Labels) -> Labels:
    """Return the different pairs of a query's cells that lie in one group of the strategy's."""
    pairs = np.stack([cells, others])
    return np.unique(pairs[:, cells != others], axis=1)
