"""p-Identity: every group measured alone, and p more rows on top, for one scope.

    A = [I; B] diag(1/s),   s = 1 + column sums of B,   B >= 0 with p rows

Every column of A sums to 1.  With M the workload's Gram matrix the loss is

    f(B) = trace(M (A^T A)^-1) = s^T (M * K) s,    K = (I + B^T B)^-1 = I - B^T R B,
    R = (I + B B^T)^-1,

and ``(M * K) s = diag(M) s - column sums of B * (R B diag(s) M)``, so one evaluation costs p n^2
and writes no matrix of n^2.  Its gradient, with N = diag(s) M diag(s), is

    df/dB = -2 R B N K  +  2 (M * K) s   (the same vector added to every row).

For few groups the rows are grown one at a time: a good B with p rows and one fresh row start
the search for p + 1.  For many they start from stretches of neighbouring groups and chance, and
are searched for in `multigrid`.

B is bounded: far out the loss is a difference of huge numbers, and an
optimiser follows the rounding below the true optimum.  [MMHM18] McKenna, Miklau, Hay,
Machanavajjhala, "Optimizing error of high-dimensional statistical queries under
differential privacy", doi:10.14778/3231751.3231769.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv

from sqlmadp.strategy.descent import descend

Matrix = NDArray[np.float64]

LARGEST = 63.0
"""Bound on the entries of B; a row of B weighs at most this much against the identity."""

SEED = 2021
"""Public: strategies are not secret, and the same workload must select the same one."""

GAIN = 1e-3
"""Relative gain for which another row is worth adding."""

STRETCHES = 32
"""Groups from which on a start from stretches of neighbours is tried beside growing."""


def loss_and_gradient(rows: Matrix, gram: Matrix) -> tuple[float, Matrix]:
    """Return ``trace(gram (A^T A)^-1)`` for B = ``rows``, and its gradient in B."""
    solved = solved_rows(rows)
    sums = 1 + rows.sum(axis=0)
    weighted = (solved * sums) @ gram
    pull = np.diag(gram) * sums - (rows * weighted).sum(axis=0)
    weighted *= sums
    gradient = 2 * (pull - weighted + (weighted @ rows.T) @ solved)
    return float(sums @ pull), gradient


def solved_rows(rows: Matrix) -> Matrix:
    """Return ``R B = (I + B B^T)^-1 B`` for B = ``rows``."""
    if not len(rows):
        return rows
    inner = rows @ rows.T
    inner[np.diag_indices(len(rows))] += 1
    _, solved, _ = dposv(inner, rows)
    return np.asarray(solved)


def descended(
    start: Matrix,
    loss: Callable[[Matrix], tuple[float, Matrix]],
    frozen: NDArray[np.bool_],
    *,
    steps: int = 150,
    tolerance: float = 1e-6,
) -> tuple[float, Matrix]:
    """Return the local optimum that is reached from ``start``; frozen columns stay 0.

    ``loss`` returns a loss near 1 and its gradient, as a function of B.
    """
    high = np.broadcast_to(np.where(frozen, 0.0, LARGEST), start.shape).reshape(-1)
    bounds = np.column_stack([np.zeros_like(high), high])

    def flat(place: Matrix) -> tuple[float, Matrix]:
        value, gradient = loss(place.reshape(start.shape))
        return value, gradient.reshape(-1)

    value, place = descend(flat, start.reshape(-1), bounds, steps=steps, tolerance=tolerance)
    return value, place.reshape(start.shape)


def grow(gram: Matrix, frozen: NDArray[np.bool_], most: int) -> Matrix:
    """Return the rows B of a good p-Identity strategy, at most ``most`` of them.

    ``frozen`` marks groups that nobody asked about: their columns of B stay 0.
    """
    groups = len(gram)
    random = np.random.default_rng(SEED)
    gram = gram / np.trace(gram)

    def loss(rows: Matrix) -> tuple[float, Matrix]:
        return loss_and_gradient(rows, gram)

    best, rows = 1.0, np.zeros((0, groups))
    for _ in range(most):
        fresh = np.vstack([rows, random.random(groups)])
        value, grown = descended(fresh, loss, frozen, steps=40, tolerance=1e-4)
        if value > best * (1 - GAIN):
            break
        best, rows = value, grown
    found = [(1.0, np.zeros((0, groups)))]
    if len(rows):
        found.append(descended(rows, loss, frozen))
    if groups >= STRETCHES:
        start = stretches(round(np.sqrt(groups) / 2), groups)
        found.append(descended(start, loss, frozen, tolerance=1e-5))
    return min(found, key=lambda pair: pair[0])[1]


def stretches(count: int, groups: int) -> Matrix:
    """Return rows to start from: a stretch of neighbouring groups each, and chance."""
    places = np.arange(groups)
    # With many rows, less chance in each: together they should not drown the stretches.
    rows = min(0.5, 8 / count) * np.random.default_rng(SEED).random((count, groups))
    rows[places * count // groups, places] += 0.5
    return rows
