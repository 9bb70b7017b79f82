"""Least squares by conjugate gradients, for strategies with too many coordinates to factor.

``X = A^T A`` is only ever applied: the coefficients of a block are products of one small matrix a
column, so going from coordinates to cells and back takes one pass a column.  Each right side is
solved until the residual is below `TOLERANCE` of it, in the norm that the diagonal of X scales;
variances and answers are then good to about that times the spread of the scaled eigenvalues of X.
A right side that cannot be reached is no combination of what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from sqlmadp.errors import NotCoveredError
from sqlmadp.schema.marginal import Block
from sqlmadp.workload.coordinates import Coordinates
from sqlmadp.workload.factor import COVERED

Matrix = NDArray[np.float64]

MOST_COORDINATES = 1_000_000
"""Coordinates up to which a solution is looked for."""

TOLERANCE = 1e-12
"""Relative residual at which a right side counts as solved."""

MOST_STEPS = 3000
"""Steps after which a right side that has not been reached counts as out of reach."""

FLAT = 1e-14
"""Curvature of X, scaled, along a direction that it does not see but for rounding."""

CHUNK = 1 << 23
"""Numbers that the right sides solved at once may hold."""


class IterativeSolver:
    """Solve with ``A^T A`` without forming it."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        """Take the coordinates of all blocks, and about the diagonal of X."""
        self._blocks = tuple(blocks)
        self.coordinates = Coordinates(block.marginal for block in blocks)
        self.coordinates.require(MOST_COORDINATES)
        self._places = [self.coordinates.box(block.marginal) for block in blocks]
        self._factors = [self._coefficients(block) for block in blocks]
        self._scale = 1 / np.sqrt(self._diagonal())

    def total(self, blocks: Sequence[Block]) -> float:
        """Return the sum of the variances of all rows."""
        return math.fsum(float(self.variances(block).sum()) for block in blocks)

    def variances(self, block: Block) -> Matrix:
        """Return each row's variance in units of the noise variance."""
        parts = []
        for rows in self._covered(block):
            solution = self._solved(rows)
            # So the error of a solution enters by its square.
            image = self._moments(self.fitted(solution))
            parts.append((solution * (2 * rows - image)).sum(axis=0))
        return np.concatenate([np.zeros(0), *parts])

    def noise(self, block: Block) -> Matrix:
        """Return each answer's noise over that of every strategy row."""
        width = sum(block.rows for block in self._blocks)
        parts = [np.concatenate(self.fitted(self._solved(rows))).T for rows in self._covered(block)]
        return np.concatenate([np.zeros((0, width)), *parts])

    def fit(self, values: Sequence[Matrix]) -> Callable[[Block], Matrix]:
        """Return what answers blocks, given the noisy ``values`` of every strategy block."""
        return self.answers(self.estimate(values))

    def estimate(self, values: Sequence[Matrix]) -> Matrix:
        """Return the least-squares estimate in coordinates."""
        moments = self._moments(values)
        flat = self._solved(moments.reshape(self.coordinates.size, -1))
        return flat.reshape(moments.shape)

    def fitted(self, estimate: Matrix) -> tuple[Matrix, ...]:
        """Return ``A x`` block by block."""
        values = []
        for block, places, factors in zip(self._blocks, self._places, self._factors, strict=True):
            table = estimate[places].reshape((*(f.shape[1] for f in factors), *estimate.shape[1:]))
            for axis, factor in enumerate(factors):
                table = np.moveaxis(np.tensordot(factor, table, (1, axis)), 0, axis)
            cells = table.reshape(block.marginal.size, *estimate.shape[1:])
            values.append(block.times(cells))
        return tuple(values)

    def answers(self, estimate: Matrix) -> Callable[[Block], Matrix]:
        """Return what answers blocks from an estimate in coordinates."""

        def answers(block: Block) -> Matrix:
            parts = []
            for rows in self._covered(block):
                self._solved(rows)  # Raises if one is out of reach.
                parts.append(np.tensordot(rows, estimate, (0, 0)))
            return np.concatenate([np.zeros((0, *estimate.shape[1:])), *parts])

        return answers

    def _coefficients(self, block: Block) -> list[Matrix]:
        """Return the coefficients of every column's groups, one row a group."""
        marginal = block.marginal
        depths = self.coordinates.depths(marginal)
        triples = zip(marginal.scope, marginal.partitions, depths, strict=True)
        return [self.coordinates.bases[n].coefficients(p, depth) for n, p, depth in triples]

    def _moments(self, values: Sequence[Matrix]) -> Matrix:
        """Return ``A^T y``."""
        moments = np.zeros((self.coordinates.size, *values[0].shape[1:]))
        parts = zip(self._blocks, self._places, self._factors, values, strict=True)
        for block, places, factors, value in parts:
            table = block.transposed_times(value)
            table = table.reshape((*block.marginal.shape, *value.shape[1:]))
            for axis, factor in enumerate(factors):
                table = np.moveaxis(np.tensordot(factor, table, (0, axis)), 0, axis)
            moments[places] += table.reshape(len(places), *value.shape[1:])
        return moments

    def _diagonal(self) -> Matrix:
        """Return about the diagonal of X: as if each block weighed all its cells alike."""
        diagonal = np.zeros(self.coordinates.size)
        for block, places, factors in zip(self._blocks, self._places, self._factors, strict=True):
            heights = np.ones(1)
            for factor in factors:
                heights = np.multiply.outer(heights, (factor**2).sum(axis=0)).reshape(-1)
            mean = block.square / block.marginal.size
            diagonal[places] += mean * heights
        return np.where(diagonal > 0, diagonal, 1.0)

    def _covered(self, block: Block) -> Iterator[Matrix]:
        """Yield rows in coordinates, one a column, a few at a time."""
        block = self.coordinates.resolved(block)
        matrix, step = block.matrix, max(1, CHUNK // self.coordinates.size)
        factors, box = self._coefficients(block), self.coordinates.box(block.marginal)
        for start in range(0, block.rows, step):
            table = matrix[start : start + step].toarray().T.astype(np.float64)
            count = table.shape[1]
            table = table.reshape(*block.marginal.shape, count)
            for axis, factor in enumerate(factors):
                table = np.moveaxis(np.tensordot(factor, table, (0, axis)), 0, axis)
            table = table.reshape(len(box), count)
            outside = np.abs(table[box < 0]).max(axis=0, initial=0.0)
            if (outside > COVERED * np.abs(table).max(axis=0)).any():
                raise NotCoveredError("the query is not a combination of what the release measured")
            rows = np.zeros((self.coordinates.size, count))
            rows[box[box >= 0]] = table[box >= 0]
            yield rows

    def _solved(self, right: Matrix) -> Matrix:
        """Return the solutions of ``X z = right``, one a column, by conjugate gradients."""
        scale = self._scale[:, None]
        residual = right * scale
        goals = TOLERANCE * np.linalg.norm(residual, axis=0)
        solution, direction = np.zeros_like(residual), residual.copy()
        squares = (residual**2).sum(axis=0)
        for _ in range(MOST_STEPS):
            # One that is solved stays as it is: what rounding left of it would lead anywhere.
            unsolved = np.sqrt(squares) > goals
            if not unsolved.any():
                return solution * scale
            image = scale * self._moments(self.fitted(scale * direction))
            curvature = (direction * image).sum(axis=0)
            unseen = curvature <= FLAT * (direction**2).sum(axis=0)
            if (unseen & unsolved).any():
                break  # Along it no step is long enough, and a long one overflows.
            step = np.divide(squares, curvature, out=np.zeros_like(squares), where=unsolved)
            solution += step * direction
            residual -= step * image
            before, squares = squares, (residual**2).sum(axis=0)
            turn = np.divide(squares, before, out=np.zeros_like(squares), where=unsolved)
            direction = residual + turn * direction
        raise NotCoveredError("the query is not a combination of what the release measured")
