"""A triangular factor of ``A^T A``, for strategies of any rank and any range of weights.

Scale the coordinates so that every column of A has length 1, and order them so that a
maximal independent set comes first:

    A diag(scale) = Q [R T],    Q orthonormal, R triangular and regular

A query w, scaled and split into (w_i, w_d) in the same way, is a combination of the rows of A
just when ``w_d = z^T T`` for ``z = R^-T w_i``, and then ``w (A^T A)^- w^T = |z|^2``.

The Cholesky factor of ``A^T A`` is R, but forming that product squares the condition number: a
row of weight 1 beside one of weight 10^8 leaves nothing of itself.  So Cholesky serves while its
pivots are large; with pivoting, also where A itself, not the product, shows that whatever has none
depends on the rest.  Otherwise R comes from A by Householder reflections with pivoting, heavy
rows first, which is accurate row by row, and takes many times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, solve_triangular
from scipy.linalg.lapack import dpstrf

from sqlmadp.schema.marginal import Labels
from sqlmadp.workload.triangle import Triangle

Matrix = NDArray[np.float64]
Parts = Sequence[tuple[Matrix, Labels]]

LARGE_PIVOT = 1e-5
"""Squared pivot, after scaling, down to which the Cholesky factor is good enough."""

DEPENDENT = 1e-11
"""Pivot, after scaling, below which a coordinate depends on those before it."""

COMBINATIONS = 8
"""Combinations of dependent coordinates by which all of them are checked."""

COVERED = 1e-6
"""Distance from the row space, relative to its largest coefficient, at which a query is inside."""

UNUSED = 1e-12
"""Relative length below which a column of A is what rounding left of zero."""


class Factor:
    """Solves with ``A^T A``, given the rows of A in parts."""

    def __init__(self, parts: Parts, size: int) -> None:
        """Factor the stacked rows; a part holds rows over some of the ``size`` coordinates."""
        gram = np.zeros((size, size))
        for rows, places in parts:
            gram[np.ix_(places, places)] += rows.T @ rows
        self._decompose(gram, lambda: parts)

    @classmethod
    def of_gram(cls, gram: Matrix, parts: Callable[[], Parts]) -> Factor:
        """Factor ``A^T A`` itself; ``parts`` makes the rows, which only hard cases need."""
        factor = cls.__new__(cls)
        factor._decompose(gram, parts)
        return factor

    def _decompose(self, gram: Matrix, parts: Callable[[], Parts]) -> None:
        size = len(gram)
        lengths = np.sqrt(np.diag(gram))
        unused = lengths <= UNUSED * lengths.max(initial=0.0)
        self._scale = 1 / np.where(unused, 1.0, lengths)
        order = np.argsort(unused, kind="stable")
        used = order[: size - int(unused.sum())]
        scaled = gram[np.ix_(used, used)] * np.outer(*[self._scale[used]] * 2)
        found = _cholesky(scaled)
        self.regular = found is not None and len(used) == size
        """Whether the inverse exists and is as good as the factor."""
        if found is not None:
            self._triangle, places = found
            rank = len(used)
            order = np.concatenate([used[places], order[rank:]])
            self._rest = np.zeros((rank, size - rank))
        else:
            rows = _stacked(parts(), size) * np.where(unused, 0, self._scale)
            whole = np.zeros((size, size))
            whole[np.ix_(used, used)] = scaled
            factor, order = _pivoted_cholesky(whole, rows) or _pivoted_qr(rows)
            rank = len(factor)
            self._triangle = Triangle((factor[None, :, :rank],))
            self._rest = factor[:, rank:]
        self._independent, self._dependent = order[:rank], order[rank:]

    @property
    def apart(self) -> bool:
        """Tell whether the triangle falls apart, so that rows are cheap to solve for."""
        return self._triangle.apart

    def half(self, rows: Matrix) -> Matrix:
        """Return z of every row, one column a row; its squared length is the row's variance."""
        scaled = (rows * self._scale)[:, self._independent]
        return self._triangle.solved(scaled.T, transposed=True)

    def outside(self, rows: Matrix, half: Matrix) -> Matrix:
        """Return, row by row, the largest coefficient that no combination of A's rows gives."""
        rebuilt = (half.T @ self._rest) / self._scale[self._dependent]
        return np.asarray(np.abs(rows[:, self._dependent] - rebuilt).max(axis=1, initial=0.0))

    def solve(self, moments: Matrix) -> Matrix:
        """Return a solution x of ``A^T A x = moments``, zero in dependent coordinates.

        ``moments`` may have columns, each of which is solved for.
        """
        solution = np.zeros_like(moments)
        scale = self._scale[self._independent].reshape(-1, *(1,) * (moments.ndim - 1))
        scaled = moments[self._independent] * scale
        half = self._triangle.solved(scaled, transposed=True)
        inner = self._triangle.solved(half, transposed=False)
        solution[self._independent] = inner * scale
        return solution

    def inverse(self) -> Matrix:
        """Return ``(A^T A)^-1``; only if it is regular."""
        scale = self._scale[self._independent]
        inner = self._triangle.inverse() * np.outer(scale, scale)
        inverse = np.empty_like(inner)
        inverse[np.ix_(self._independent, self._independent)] = inner
        return np.asarray(inverse)


def _cholesky(gram: Matrix) -> tuple[Triangle, Labels] | None:
    """Return the upper factor of a matrix with unit diagonal; None if a pivot is small."""
    try:
        triangle, order = Triangle.of(gram)
    except np.linalg.LinAlgError:
        return None
    return None if triangle.smallest**2 < LARGE_PIVOT else (triangle, order)


def _pivoted_cholesky(gram: Matrix, rows: Matrix) -> tuple[Matrix, Labels] | None:
    """Return the rows of ``[R T]`` and the order of the columns in it; None if a pivot is small.

    Columns without a pivot must be combinations of the others, for the rows themselves: a few
    sums of all these combinations are multiplied out.
    """
    size = len(gram)
    upper, order, rank, _ = dpstrf(gram, tol=LARGE_PIVOT)
    order, factor = np.asarray(order, dtype=np.int64) - 1, np.triu(upper)[:rank]
    # Any numbers without a pattern do.
    chosen = np.modf(np.sqrt(2.0 + np.arange((size - rank) * COMBINATIONS)) * 997)[0] - 0.5
    chosen = chosen.reshape(size - rank, COMBINATIONS)
    inside = solve_triangular(factor[:, :rank], factor[:, rank:] @ chosen, check_finite=False)
    rest = rows[:, order[:rank]] @ inside - rows[:, order[rank:]] @ chosen
    largest = max(np.abs(inside).max(initial=0.0), 1.0)
    return None if np.abs(rest).max(initial=0.0) > DEPENDENT * largest else (factor, order)


def _pivoted_qr(rows: Matrix) -> tuple[Matrix, Labels]:
    """Return the rows of ``[R T]`` and the order of the columns in it."""
    heavy_first = np.argsort(-np.abs(rows).max(axis=1), kind="stable")
    factor, order = qr(rows[heavy_first], mode="r", pivoting=True, check_finite=False)
    rank = int((np.abs(np.diag(factor)) > DEPENDENT).sum())
    return np.asarray(factor[:rank]), np.asarray(order, dtype=np.int64)


def _stacked(parts: Parts, size: int) -> Matrix:
    stack = np.zeros((sum(len(rows) for rows, _ in parts), size))
    start = 0
    for rows, places in parts:
        stack[start : start + len(rows), places] = rows
        start += len(rows)
    return stack
