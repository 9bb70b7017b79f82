"""Least squares where every cell of one marginal is measured alone, with few rows on top.

Let o_g be the weight of cell g's own row, and R the other rows, far fewer than cells.  With
``V = R diag(1/o)`` and an orthogonal factor ``V^T = Q T`` of it,

    A^T A = diag(o) (I + V^T V) diag(o),    (I + V^T V)^-1 = (I - Q Q^T) + Q (I + T T^T)^-1 Q^T,

so what takes time is Q, with the square of the number of rows on top, and nothing is factored that
grows with the square of the cells.  A query w, as ``w / o``, has the variance

    |w/o - Q Q^T w/o|^2 + |F^-T Q^T w/o|^2,     F^T F = I + T T^T,

a sum of two squares: nothing cancels, however heavy the rows on top are.  F comes from T itself and
not from ``T T^T``, which would square the range of the weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence, Set

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import qr, solve_triangular

from sqlmadp.schema.kronecker import KroneckerBlock
from sqlmadp.schema.marginal import Block, Marginal, cell_map, expand
from sqlmadp.workload.cells import CellsSolver

Matrix = NDArray[np.float64]

FEW_CELLS = 600
"""Cells up to which a triangular factor is as fast."""

CELLS_A_ROW = 4
"""Cells, a row on top, from which on this is faster than a triangular factor."""

MOST_NUMBERS = 1 << 25
"""Numbers that all rows on top may hold, and those of one slice of a query block."""

WIDEST = 1e6
"""Length of a row on top, in units of its cells' own rows, up to which digits suffice."""

CANCELS = 1e-3
"""Part of a square that may be left of it for a difference of squares to be good enough."""

REFINEMENTS = 2
"""Times that an estimate is solved for again, for what rounding left over of it."""


class ToppedSolver(CellsSolver):
    """Solve for every cell measured alone, and rows on top."""

    def __init__(
        self, marginal: Marginal, rows: Sequence[sparse.csr_array], own: Matrix, top: Matrix
    ) -> None:
        """Factor the rows on ``top``; ``rows`` are those of every block, over the marginal."""
        super().__init__(marginal)
        self._rows = tuple(rows)
        self._own = own
        orthogonal, triangle = qr(top.T / own[:, None], mode="economic", check_finite=False)
        self._inside: Matrix = np.asarray(orthogonal)
        stack = np.vstack([np.eye(len(triangle)), triangle.T])
        self._factor = np.asarray(qr(stack, mode="r", check_finite=False)[0])[: len(triangle)]

    @classmethod
    def of(cls, blocks: Sequence[Block]) -> ToppedSolver | None:
        """Return the solver of a strategy; None if it is of another form, or too large."""
        marginal = _holds_all({block.marginal for block in blocks})
        if marginal is None or any(isinstance(block, KroneckerBlock) for block in blocks):
            return None
        cells = marginal.size
        if not FEW_CELLS < cells <= MOST_NUMBERS:
            return None
        coarser = sum(b.rows for b in blocks if b.marginal != marginal)
        if coarser > min(cells // CELLS_A_ROW, MOST_NUMBERS // cells):
            return None
        rows = [sparse.csr_array(expand(b.matrix, b.marginal, marginal)) for b in blocks]
        stack = sparse.csr_array(sparse.vstack(rows), dtype=np.float64)
        alone = np.diff(stack.indptr) == 1
        single = stack[alone]
        own = np.sqrt(np.bincount(single.indices, single.data**2, cells))
        count = stack.shape[0] - int(alone.sum())
        if not own.all() or count > min(cells // CELLS_A_ROW, MOST_NUMBERS // cells):
            return None
        top = stack[~alone].toarray()
        if len(top) and ((top / own) ** 2).sum(axis=1).max() > WIDEST**2:
            return None
        return cls(marginal, rows, own, top)

    def variances(self, block: Block) -> Matrix:
        """Return each row's variance in units of the noise variance."""
        parts = []
        for rows, inside, half in self.parts(block):
            squares = np.asarray(rows.multiply(rows).sum(axis=1)).reshape(-1)
            apart = squares - (inside**2).sum(axis=1)
            lost = np.flatnonzero(apart < CANCELS * squares)
            for few in np.array_split(lost, -(-len(lost) * len(self._own) // MOST_NUMBERS) or 1):
                apart[few] = (self._apart(rows[few], inside[few]) ** 2).sum(axis=1)
            parts.append(apart + (half**2).sum(axis=1))
        return np.concatenate(parts) if parts else np.zeros(0)

    def total(self, blocks: Sequence[Block]) -> float:
        """Return the sum of the variances of all rows of ``blocks``."""
        return math.fsum(float(self.variances(block).sum()) for block in blocks)

    def noise(self, block: Block) -> Matrix:
        """Return each answer's noise over independent ones: apart from the rows on top, inside."""
        parts = [
            np.hstack([self._apart(rows, inside), half]) for rows, inside, half in self.parts(block)
        ]
        return np.concatenate(parts) if parts else np.zeros((0, sum(self._inside.shape)))

    def parts(self, block: Block) -> Iterator[tuple[sparse.csr_array, Matrix, Matrix]]:
        """Yield slices of a block's rows as ``w / o``, ``Q^T w / o`` and ``F^-T Q^T w / o``."""
        block = self.checked(block)
        matrix = block.matrix
        if block.marginal != self.marginal:
            matrix = matrix[:, cell_map(block.marginal, self.marginal)]
        scaled = sparse.csr_array(matrix / self._own)
        step = max(1, MOST_NUMBERS // max(1, 2 * self._inside.shape[1]))
        for start in range(0, block.rows, step):
            rows = scaled[start : start + step]
            inside = np.asarray(rows @ self._inside)
            yield rows, inside, self._solved(inside.T, transposed=True).T

    def estimate(self, values: Sequence[Matrix]) -> Matrix:
        """Return the least-squares estimate of every cell."""
        estimate = self._from_moments(values)
        for _ in range(REFINEMENTS):
            rest = [v - e for v, e in zip(values, self.fitted(estimate), strict=True)]
            estimate += self._from_moments(rest)
        return estimate

    def fitted(self, estimate: Matrix) -> tuple[Matrix, ...]:
        """Return the values of every strategy block that an estimate of every cell stands for."""
        return tuple(np.asarray(rows @ estimate) for rows in self._rows)

    def _from_moments(self, values: Sequence[Matrix]) -> Matrix:
        """Return ``(A^T A)^-1 A^T y``."""
        moments = sum(np.asarray(r.T @ value) for r, value in zip(self._rows, values, strict=True))
        own = self._own.reshape(-1, *(1,) * (values[0].ndim - 1))
        scaled = moments / own
        inside = self._inside.T @ scaled
        half = self._solved(inside, transposed=True)
        change = self._solved(half, transposed=False) - inside
        return np.asarray((scaled + self._inside @ change) / own)

    def _apart(self, rows: sparse.csr_array, inside: Matrix) -> Matrix:
        """Return ``w/o - Q Q^T w/o``, one row each."""
        return np.asarray(rows.toarray() - inside @ self._inside.T)

    def _solved(self, right: Matrix, *, transposed: bool) -> Matrix:
        """Return ``F^-1 right``, or ``F^-T right``."""
        if not len(self._factor):
            return right
        trans = "T" if transposed else "N"
        return np.asarray(solve_triangular(self._factor, right, trans=trans, check_finite=False))


def _holds_all(marginals: Set[Marginal]) -> Marginal | None:
    """Return the marginal that tells apart whatever any of the others does; None if none does."""
    widest = max(marginals, key=lambda marginal: (len(marginal.scope), marginal.size))
    return widest if all(map(widest.resolves, marginals)) else None
