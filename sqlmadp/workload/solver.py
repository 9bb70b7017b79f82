"""Least squares in coordinates: from strategy rows to expected errors and answers.

With independent noise of equal variance on every strategy row, the best unbiased answer to
a query w in the row space of A is ``w X^- A^T y`` with ``X = A^T A``; its variance, in units of
the noise variance, is ``w X^- w^T``.  X may be singular: any generalised inverse gives the same
numbers for a w in its range.

One interface, chosen by the form and size of the strategy:
    IdentitySolver   one block that measures each cell of its marginal: X is a multiple of I
    KroneckerSolver  products of rows of single columns, over one scope that holds all others: X is
                     a sum of products and little else
    ToppedSolver     every cell of one marginal measured alone, with few rows on top: X is a
                     diagonal and little else
    DenseSolver      a triangular factor of X, while there are few coordinates, or where scopes
                     share few of them
    DiagonalSolver   plain marginals, any number of them: X is diagonal
    ApartSolver      parts that share no column, and meet in the total alone: X is one matrix a part
    RowSpaceSolver   few rows over many cells: solved in coordinates of the rows
    IterativeSolver  anything else: X is applied, never formed
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.errors import NotCoveredError
from sqlmadp.schema.kronecker import contents, products_of_one_scope
from sqlmadp.schema.marginal import Block, Labels, cell_weight
from sqlmadp.workload.apart import ApartSolver
from sqlmadp.workload.arrow import ArrowFactor
from sqlmadp.workload.cells import IdentitySolver
from sqlmadp.workload.coordinates import Coordinates
from sqlmadp.workload.diagonal import DiagonalSolver, is_plain
from sqlmadp.workload.factor import COVERED, Factor
from sqlmadp.workload.gram import gram_of
from sqlmadp.workload.information import information
from sqlmadp.workload.iterative import IterativeSolver
from sqlmadp.workload.kronecker import KroneckerSolver
from sqlmadp.workload.row_space import RowSpaceSolver, has_few_numbers, has_few_rows
from sqlmadp.workload.topped import ToppedSolver

Matrix = NDArray[np.float64]

MOST_COORDINATES = 8_192
"""Coordinates up to which a triangular factor fits into memory and a minute."""

FEW_COORDINATES = 2_048
"""Coordinates up to which even plain marginals are factored, which is as fast."""

FEW_ROWS = 600
"""Coordinates up to which variances are worked out row by row, which is faster then."""

REFINEMENTS = 2
"""Times that an estimate is solved for again, for what rounding left over of it: counts may be in
the millions, and rows of weight 1 beside rows of weight 10^8."""

FEW_OF_ALL = 8
"""Coordinates, a row, from which on a block's variances are worked out row by row in any case."""

KEPT = 2
"""Solvers of large strategies that are kept for whoever asks for the same."""

CHUNK = 1 << 24
"""Numbers that one dense slice of a query block may hold."""


class Solver(Protocol):
    """Answers queries from noisy strategy rows, and tells how noisy the answers are."""

    def variances(self, block: Block) -> Matrix:
        """Return each row's variance in units of the noise variance."""

    def total(self, blocks: Sequence[Block]) -> float:
        """Return the sum of the variances of all rows of ``blocks``."""

    def noise(self, block: Block) -> Matrix | sparse.csr_array:
        """Return each answer's noise over independent ones of unit variance, one a column.

        So the product of two rows, of this block or another, is the covariance of their answers.
        """

    def fit(self, values: Sequence[Matrix]) -> Answers:
        """Return what answers blocks, given the noisy ``values`` of every strategy block."""

    def estimate(self, values: Sequence[Matrix]) -> Matrix:
        """Return the least-squares estimate, given the noisy ``values`` of every strategy block."""

    def fitted(self, estimate: Matrix) -> tuple[Matrix, ...]:
        """Return the values of every strategy block that an estimate stands for."""

    def answers(self, estimate: Matrix) -> Answers:
        """Return what answers blocks from an estimate; one column each, if it has columns."""


Answers = Callable[[Block], Matrix]
"""Gives each row of a block its best answer; one a column, if the values have columns."""


def solver_for(blocks: Sequence[Block]) -> Solver:
    """Return the solver that fits a strategy."""
    if len(blocks) == 1 and cell_weight(blocks[0]) is not None:
        return IdentitySolver(blocks[0])
    if products_of_one_scope(blocks):
        return _kept(blocks) or _keep(blocks, KroneckerSolver(blocks))
    bound = sum(block.marginal.size for block in blocks)  # As many coordinates at most.
    if bound > FEW_COORDINATES and is_plain(blocks):
        return DiagonalSolver(blocks)
    topped = ToppedSolver.of(blocks)
    if topped is not None:
        return topped
    if bound > MOST_COORDINATES:
        coordinates = Coordinates(block.marginal for block in blocks)
        if coordinates.size > MOST_COORDINATES:
            return _kept(blocks) or _keep(blocks, _large(blocks, coordinates))
    if bound <= FEW_COORDINATES:
        return DenseSolver(blocks)
    return _kept(blocks) or _keep(blocks, DenseSolver(blocks))


def _large(blocks: Sequence[Block], coordinates: Coordinates) -> Solver:
    """Return the solver of a strategy with too many coordinates to factor."""
    found: Solver | None = ApartSolver.of(blocks, solver_for) or KroneckerSolver.of(blocks)
    if found is None and (factor := ArrowFactor.of(blocks, coordinates)) is not None:
        found = DenseSolver(blocks, coordinates, factor)
    if found is None and has_few_rows(blocks):
        found = RowSpaceSolver.of(blocks, solver_for)
    if found is None and has_few_numbers(blocks, coordinates):
        found = RowSpaceSolver.over(coordinates, blocks, solver_for)
    return found or IterativeSolver(blocks)


_known: dict[bytes, Solver] = {}


def _kept(blocks: Sequence[Block]) -> Solver | None:
    """Return the solver of an equal strategy, if one was made a moment ago.

    What is selected, checked, certified and answered from is one strategy, and what a solver of
    many cells has worked out once takes long.
    """
    return _known.get(contents(blocks))


def _keep(blocks: Sequence[Block], solver: Solver) -> Solver:
    if len(_known) >= KEPT:
        del _known[next(iter(_known))]
    _known[contents(blocks)] = solver
    return solver


class DenseSolver:
    """Solve with a triangular factor of ``A^T A`` in coordinates."""

    def __init__(
        self,
        blocks: Sequence[Block],
        coordinates: Coordinates | None = None,
        factor: ArrowFactor | None = None,
    ) -> None:
        """Factor the strategy, unless a factor over its coordinates is given."""
        self.blocks = tuple(blocks)
        self.coordinates = coordinates or Coordinates(block.marginal for block in blocks)
        self._factor: Factor | ArrowFactor
        if factor is None:
            self.coordinates.require(MOST_COORDINATES)
            self._factor = Factor.of_gram(self.information, self._rows)
        else:
            self._factor = factor

    def _rows(self) -> list[tuple[Matrix, Labels]]:
        """Return the rows of every block in coordinates, and the places of those."""
        parts = []
        for block in self.blocks:
            coefficients, box = self.coordinates.cells(block.marginal)
            parts.append((np.asarray(block.matrix @ coefficients), box))
        return parts

    @cached_property
    def _inverse(self) -> Matrix:
        if isinstance(self._factor, ArrowFactor):
            raise ValueError("the inverse of an arrow is never written out")
        return self._factor.inverse()

    def variances(self, block: Block) -> Matrix:
        """Return each row's variance in units of the noise variance."""
        parts = [(half * half).sum(axis=0) for _, half in self._covered(block)]
        return np.concatenate(parts) if parts else np.zeros(0)

    def total(self, blocks: Sequence[Block]) -> float:
        """Return the sum of the variances of all rows of ``blocks``."""
        few = self.coordinates.size <= FEW_ROWS or self._factor.apart
        if few or not self._factor.regular:
            return math.fsum(float(self.variances(block).sum()) for block in blocks)
        many = [block for block in blocks if block.rows * FEW_OF_ALL > self.coordinates.size]
        inside = [block for block in many if self.coordinates.holds(block.marginal)]
        others = [block for block in blocks if block not in inside]
        variances = math.fsum(float(self.variances(block).sum()) for block in others)
        if not inside:
            return variances
        gram = sparse.coo_array(gram_of(inside, self.coordinates))
        return variances + float(gram.data @ self._inverse[gram.coords])

    def noise(self, block: Block) -> Matrix:
        """Return each answer's noise over independent ones of unit variance, one a column."""
        parts = [half.T for _, half in self._covered(block)]
        return np.concatenate(parts) if parts else np.zeros((0, self.coordinates.size))

    def fit(self, values: Sequence[Matrix]) -> Answers:
        """Return what answers blocks, given the noisy ``values`` of every strategy block."""
        return self.answers(self.estimate(values))

    def estimate(self, values: Sequence[Matrix]) -> Matrix:
        """Return the least-squares estimate in coordinates."""
        estimate = self._factor.solve(self.moments(values))
        for _ in range(REFINEMENTS):
            rest = [v - e for v, e in zip(values, self.fitted(estimate), strict=True)]
            estimate += self._factor.solve(self.moments(rest))
        return estimate

    def answers(self, estimate: Matrix) -> Answers:
        """Return what answers blocks from an estimate in coordinates."""

        def answers(block: Block) -> Matrix:
            parts = [rows @ estimate for rows, _ in self._covered(block)]
            return np.concatenate(parts) if parts else np.zeros(0)

        return answers

    def moments(self, values: Sequence[Matrix]) -> Matrix:
        """Return ``A^T y``."""
        moments = np.zeros((self.coordinates.size, *values[0].shape[1:]))
        for block, value in zip(self.blocks, values, strict=True):
            coefficients, box = self.coordinates.cells(block.marginal)
            moments[box] += coefficients.T @ np.asarray(block.matrix.T @ value)
        return moments

    @property
    def information(self) -> Matrix:
        """Return ``A^T A``."""
        return information(self.blocks, self.coordinates, np.arange(self.coordinates.size))

    def fitted(self, estimate: Matrix) -> tuple[Matrix, ...]:
        """Return ``A x`` block by block."""
        values = []
        for block in self.blocks:
            coefficients, box = self.coordinates.cells(block.marginal)
            values.append(np.asarray(block.matrix @ (coefficients @ estimate[box])))
        return tuple(values)

    def _covered(self, block: Block) -> Iterator[tuple[Matrix, Matrix]]:
        """Yield rows in coordinates and their halves, or raise if one is not in the row space."""
        for part in self._slices(self.coordinates.resolved(block)):
            rows, displaced = self.coordinates.rows(part)
            half = self._factor.half(rows)
            outside = np.maximum(displaced, self._factor.outside(rows, half))
            largest = np.maximum(displaced, np.abs(rows).max(axis=1, initial=0.0))
            if (outside > COVERED * largest).any():
                raise NotCoveredError("the query is not a combination of what the release measured")
            yield rows, half

    def _slices(self, block: Block) -> Iterator[Block]:
        """Cut a block so that no slice of it is too large when dense."""
        step = max(1, CHUNK // max(self.coordinates.size, block.marginal.size))
        for start in range(0, block.rows, step):
            yield Block(block.marginal, block.matrix[start : start + step])
