"""A triangular factor of ``A^T A`` in the form of an arrow: scopes that overlap in few columns.

Histograms by ``a, b`` and by ``b, c`` meet in the coordinates of ``b`` alone.  Let P_i be those of
the i-th maximal scope that it shares with no other, and S all shared ones.  Then

    X = [ X_P1         C_1 ]      L_i L_i^T = X_Pi,   D_i = L_i^-1 C_i
        [       X_P2   C_2 ]
        [ C_1^T C_2^T  X_S ]      L_S L_S^T = X_S - sum_i D_i^T D_i

so what is factored is as large as one scope, however many there are.  The pivots are those of the
whole matrix in another order: where one is small (see `factor`), there is no such factor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sqlmadp.schema.marginal import Block, Labels
from sqlmadp.workload.coordinates import Coordinates
from sqlmadp.workload.factor import LARGE_PIVOT
from sqlmadp.workload.information import information
from sqlmadp.workload.triangle import Triangle

Matrix = NDArray[np.float64]

MOST_SHARED = 4096
"""Coordinates that scopes may share."""

MOST_OF_ONE = 8192
"""Coordinates that one scope may have."""

MOST_NUMBERS = 1 << 28
"""Numbers that the matrices of all scopes may hold."""


@dataclass(frozen=True, eq=False)
class _Side:
    """The coordinates that one scope has for itself."""

    places: Labels
    triangle: Triangle
    shared: Labels
    """Which of the shared coordinates the scope has."""
    beside: Matrix
    """``D_i``."""


class ArrowFactor:
    """Solves with ``A^T A`` like `Factor`; all coordinates are measured."""

    regular = False
    """There is no inverse that is written out."""
    apart = False

    def __init__(self, scale: Matrix, sides: Sequence[_Side], shared: Labels, top: Triangle):
        """Keep the factors of all sides, and of what they share."""
        self._scale, self._sides, self._shared, self._top = scale, sides, shared, top

    @classmethod
    def of(cls, blocks: Sequence[Block], coordinates: Coordinates) -> ArrowFactor | None:
        """Return the factor; None if scopes share too much, rows are too few, or a pivot small."""
        groups = _by_maximal_scope(blocks)
        places = [coordinates.inside(scope) for scope in groups]
        often = np.bincount(np.concatenate(places), minlength=coordinates.size)
        sizes = [len(each) for each in places]
        small = max(sizes) <= MOST_OF_ONE and sum(size**2 for size in sizes) <= MOST_NUMBERS
        shared = np.flatnonzero(often > 1)
        enough = sum(block.rows for block in blocks) >= coordinates.size
        if len(groups) < 2 or not small or not enough or len(shared) > MOST_SHARED:
            return None
        grams = [
            information(group, coordinates, own)
            for group, own in zip(groups.values(), places, strict=True)
        ]
        squares = np.zeros(coordinates.size)
        for gram, own in zip(grams, places, strict=True):
            squares[own] += np.diag(gram)
        if squares.min() <= 0:
            return None
        scale = 1 / np.sqrt(squares)
        number = np.full(coordinates.size, -1, dtype=np.int64)
        number[shared] = np.arange(len(shared))
        whole, sides = np.zeros((len(shared), len(shared))), []
        for unscaled, own in zip(grams, places, strict=True):
            gram = unscaled * scale[own][:, None] * scale[own]
            both = number[own] >= 0
            found = _triangle(gram[np.ix_(~both, ~both)])
            if found is None:
                return None
            triangle, order = found
            beside = triangle.solved(gram[np.ix_(~both, both)][order], transposed=True)
            inside = number[own[both]]
            whole[np.ix_(inside, inside)] += gram[np.ix_(both, both)] - beside.T @ beside
            sides.append(_Side(own[~both][order], triangle, inside, beside))
        last = _triangle(whole)
        if last is None:
            return None
        # In the order of the last triangle from here on.
        top, order = last
        place = np.argsort(order)
        sides = [_Side(s.places, s.triangle, place[s.shared], s.beside) for s in sides]
        return cls(scale, sides, shared[order], top)

    def half(self, rows: Matrix) -> Matrix:
        """Return z of every row, one column a row; its squared length is the row's variance."""
        return np.vstack(self._halves((rows * self._scale).T))

    def outside(self, rows: Matrix, half: Matrix) -> Matrix:
        """Return how far each row is from the row space: there is nothing outside."""
        return np.zeros(len(rows))

    def solve(self, moments: Matrix) -> Matrix:
        """Return the solution x of ``A^T A x = moments``, which may have columns."""
        scale = self._scale.reshape(-1, *(1,) * (moments.ndim - 1))
        *halves, last = self._halves(moments * scale)
        solution = np.empty_like(moments)
        shared = self._top.solved(last, transposed=False)
        solution[self._shared] = shared
        for side, half in zip(self._sides, halves, strict=True):
            rest = half - side.beside @ shared[side.shared]
            solution[side.places] = side.triangle.solved(rest, transposed=False)
        return np.asarray(solution * scale)

    def _halves(self, right: Matrix) -> list[Matrix]:
        """Return what is left of the right sides after every triangle, the shared one last."""
        found, shared = [], right[self._shared]
        for side in self._sides:
            own = right[side.places]
            if own.any():  # Most queries are of one scope.
                own = side.triangle.solved(own, transposed=True)
                shared[side.shared] -= side.beside.T @ own
            found.append(own)
        return [*found, self._top.solved(shared, transposed=True)]


def _by_maximal_scope(blocks: Sequence[Block]) -> dict[tuple[str, ...], list[Block]]:
    """Return the blocks by the largest scopes, each with the first that holds it."""
    scopes = sorted({block.marginal.scope for block in blocks}, key=lambda s: (-len(s), s))
    groups: dict[tuple[str, ...], list[Block]] = {}
    for scope in scopes:
        if not any(set(scope) <= set(larger) for larger in groups):
            groups[scope] = []
    for block in blocks:
        holding = (scope for scope in groups if set(block.marginal.scope) <= set(scope))
        groups[next(holding)].append(block)
    return groups


def _triangle(gram: Matrix) -> tuple[Triangle, Labels] | None:
    """Return the factor of a part of a matrix of unit diagonal; None if a pivot is small."""
    if not len(gram):
        return None
    try:
        triangle, order = Triangle.of(gram)
    except np.linalg.LinAlgError:
        return None
    return None if triangle.smallest**2 < LARGE_PIVOT else (triangle, order)
