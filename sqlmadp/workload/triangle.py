"""Triangular factors that fall apart: blocks along the diagonal, solved by themselves.

Where a strategy measures whole products of partitions, few coordinates meet in ``A^T A``, and its
Cholesky factor is made of many small triangles.  Those of one size are factored and solved at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.lapack import dpotri
from scipy.sparse.csgraph import connected_components

from sqlmadp.schema.marginal import Labels

Matrix = NDArray[np.float64]

MANY = 512
"""Coordinates from which on it is worth looking for parts."""

LARGE = 64
"""Size from which on triangles are solved one by one."""


@dataclass(frozen=True, eq=False)
class Triangle:
    """Upper triangles R along a diagonal, those of one size together."""

    parts: tuple[Matrix, ...]
    """One array a size: one upper triangle after the other."""

    @classmethod
    def of(cls, gram: Matrix) -> tuple[Triangle, Labels]:
        """Return R with ``R^T R = gram`` in some order of the coordinates, and the order.

        LinAlgError if the matrix is not positive definite.
        """
        labels = np.zeros(len(gram), dtype=np.int64)
        if len(gram) >= MANY and not _hangs_together(gram):
            labels = connected_components(sparse.csr_array(gram), directed=False)[1]
        sizes = np.bincount(labels)
        if len(sizes) == 1:
            whole = np.asarray(cholesky(gram, check_finite=False))
            return cls((whole[None],)), np.arange(len(gram))
        order = np.lexsort((labels, sizes[labels]))
        parts, at = [], 0
        for size, count in zip(*np.unique(sizes, return_counts=True), strict=True):
            places = order[at : at + size * count].reshape(count, size)
            inside = gram[places[:, :, None], places[:, None, :]]
            lower = np.asarray(np.linalg.cholesky(inside), dtype=np.float64)
            parts.append(lower.transpose(0, 2, 1))
            at += size * count
        return cls(tuple(parts)), order

    @property
    def apart(self) -> bool:
        """Tell whether there is more than one triangle."""
        return len(self.parts) > 1 or len(self.parts[0]) > 1

    @property
    def smallest(self) -> float:
        """Return the smallest pivot."""
        return min(float(np.diagonal(p, axis1=1, axis2=2).min(initial=1.0)) for p in self.parts)

    def solved(self, right: Matrix, *, transposed: bool) -> Matrix:
        """Return ``R^-1 right``, or ``R^-T right``."""
        trans, found, at = "T" if transposed else "N", np.empty_like(right), 0
        for part in self.parts:
            count, size, _ = part.shape
            rows = slice(at, at + count * size)
            at += count * size
            inside = right[rows].reshape(count, size, -1)
            if size < LARGE:
                upper = part.transpose(0, 2, 1) if transposed else part
                solved = inside / upper if size == 1 else np.linalg.solve(upper, inside)
            else:
                pairs = zip(part, inside, strict=True)
                solved = np.stack(
                    [solve_triangular(r, b, trans=trans, check_finite=False) for r, b in pairs]
                )
            found[rows] = np.asarray(solved).reshape(right[rows].shape)
        return found

    def inverse(self) -> Matrix:
        """Return ``(R^T R)^-1``, in the same order."""
        size = sum(part.shape[0] * part.shape[1] for part in self.parts)
        inverse, at = np.zeros((size, size)), 0
        for part in self.parts:
            for triangle in part:
                upper = np.triu(dpotri(triangle)[0])
                rows = slice(at, at + len(triangle))
                inverse[rows, rows] = upper + np.triu(upper, 1).T
                at += len(triangle)
        return inverse


def _hangs_together(matrix: Matrix) -> bool:
    """Tell whether steps along entries of a symmetric matrix lead from the first place to all."""
    reached = np.zeros(len(matrix), dtype=np.bool_)
    new = np.arange(len(matrix)) == 0
    while new.any():
        reached |= new
        new = (matrix[new] != 0).any(axis=0) & ~reached
    return bool(reached.all())
