"""A generalised inverse of one Gram matrix, by a Cholesky factor of its independent rows.

With X = A^T A, ``w X^- w^T`` is the same for every generalised inverse as long as w is a
combination of the rows of A; whether it is, the null space of X tells.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack, solve_triangular

from sqlmadp.table.runs import Floats, Integers

UNMEASURED = 1e-13
"""Take a coordinate to be unmeasured if no row has this part of the largest coefficient there: it
is rounding.  Weights from 1 to 2^30 differ by 1e9."""

DEPENDENT = 1e-10
"""Take a coordinate to depend on others if less than this part of its information is its own."""

WELL_CONDITIONED = 1e-5
"""Look for dependent coordinates only if a pivot of the scaled factor is below this."""

OUTSIDE = 1e-8
"""Take a query to be answered if at most this part of its square lies in the null space."""


class Inverse:
    """The inverse of a positive semidefinite matrix on its range."""

    def __init__(self, matrix: Floats, largest: float | None = None) -> None:
        """Factor the matrix, scaled to a diagonal of ones; pivot where that is nearly singular.

        ``largest``: the largest entry of all matrices that belong together, if there are others.
        """
        diagonal = np.diag(matrix)
        if largest is None:
            largest = float(diagonal.max(initial=0.0))
        present = np.flatnonzero(diagonal > UNMEASURED**2 * largest)
        scale = 1 / np.sqrt(diagonal[present])
        scaled = matrix[np.ix_(present, present)] * np.outer(scale, scale)
        lower, failed = lapack.dpotrf(scaled, lower=1, clean=1)
        order = np.arange(len(present))
        if failed or np.diag(lower).min(initial=1.0) < WELL_CONDITIONED:
            lower, pivots, rank, _ = lapack.dpstrf(scaled, tol=DEPENDENT, lower=1)
            order, lower = pivots[:rank] - 1, np.tril(lower[:rank, :rank])
        self.size = len(matrix)
        self.kept: Integers = present[order]
        self._lower, self._scale = lower, scale[order]
        self._null = self._null_space(matrix)
        self._dense: Floats | None = None

    def _null_space(self, matrix: Floats) -> Floats:
        lost = np.setdiff1d(np.arange(self.size), self.kept)
        null = np.zeros((self.size, len(lost)))
        null[lost, np.arange(len(lost))] = 1
        if len(lost):
            null[self.kept] = -self._solved(matrix[np.ix_(self.kept, lost)])
        return null

    def _solved(self, right: Floats) -> Floats:
        scale: Floats = self._scale.reshape(-1, *([1] * (right.ndim - 1)))
        if not len(self._lower):
            return right
        half = solve_triangular(self._lower, right * scale, lower=True, check_finite=False)
        back = solve_triangular(self._lower, half, lower=True, trans=1, check_finite=False)
        return np.asarray(scale * back, dtype=np.float64)

    @property
    def regular(self) -> bool:
        """Whether every coordinate is measured."""
        return bool(self._null.shape[1] == 0)

    @property
    def dense(self) -> Floats:
        """The inverse, written out."""
        if self._dense is None:
            inverse = lapack.dpotri(self._lower, lower=1)[0] if len(self._lower) else self._lower
            inverse = np.tril(inverse) + np.tril(inverse, -1).T
            self._dense = np.zeros((self.size, self.size))
            self._dense[np.ix_(self.kept, self.kept)] = inverse * np.outer(self._scale, self._scale)
        return self._dense

    def solve(self, right: Floats) -> Floats:
        """Return x with ``X x = right``; ``right``, in the range of X, may have columns."""
        found = np.zeros_like(right, dtype=np.float64)
        found[self.kept] = self._solved(right[self.kept])
        return found

    def half(self, rows: Floats) -> Floats:
        """Return each row over independent noises of variance 1, one column per noise."""
        part = rows[:, self.kept] * self._scale
        if not len(self._lower):
            return part
        return np.asarray(solve_triangular(self._lower, part.T, lower=True, check_finite=False)).T

    def outside(self, rows: Floats) -> Floats:
        """Return the square of each row's part in the null space."""
        return np.asarray(((rows @ self._null) ** 2).sum(axis=1))

    def missed(self, place: Integers, gram: Floats) -> float:
        """Return the part of a Gram matrix's trace that lies in the null space."""
        if self.regular:
            return 0.0
        away = self._null[place]
        return float(np.vdot(away, gram @ away))

    def trace(self, place: Integers, gram: Floats) -> float:
        """Return ``trace(gram X^-1)``."""
        return float(np.vdot(gram, self.dense[np.ix_(place, place)]))
