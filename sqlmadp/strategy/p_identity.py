"""p-Identity: every group measured alone, and p more rows on top, for one scope.

    A = [I; B] diag(1/s),   s = 1 + column sums of B,   B >= 0 with p rows

Every column of A sums to 1.  With M the workload's Gram matrix the loss is

    f(B) = trace(M (A^T A)^-1) = s^T (M * K) s,    K = (I + B^T B)^-1 = I - B^T R B,
    R = (I + B B^T)^-1,

so one evaluation costs p n^2.  Its gradient, with N = diag(s) M diag(s), is

    df/dB = -2 R B N K  +  2 (M * K) s   (the same vector added to every row).

For few groups the rows are grown one at a time: the best B with p rows and one fresh row start
the search for p + 1.  For many they start as stretches of neighbouring groups, about as many as
the root of their number, since that is the shape that good rows for ranges take; with very many
groups neighbours are merged first, and the rows found that way start the search over all.

B is bounded: far out the loss is a difference of huge numbers, and an
optimiser follows the rounding below the true optimum.  [MMHM18] McKenna, Miklau, Hay,
Machanavajjhala, "Optimizing error of high-dimensional statistical queries under
differential privacy", doi:10.14778/3231751.3231769.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Matrix = NDArray[np.float64]

LARGEST = 63.0
"""Bound on the entries of B; a row of B weighs at most this much against the identity."""

SEED = 2021
"""Public: strategies are not secret, and the same workload must select the same one."""

GAIN = 1e-3
"""Relative gain for which another row is worth adding."""

STRETCHED = 128
"""Groups from which on rows start as stretches of neighbours."""

COARSE = 256
"""Groups that neighbours are merged into first, if there are at least twice as many."""


def loss_and_gradient(rows: Matrix, gram: Matrix) -> tuple[float, Matrix]:
    """Return ``trace(gram (A^T A)^-1)`` for B = ``rows``, and its gradient in B."""
    count, groups = rows.shape
    solved = np.linalg.solve(np.eye(count) + rows @ rows.T, rows)
    kernel = -(rows.T @ solved)
    kernel[np.diag_indices(groups)] += 1
    sums = 1 + rows.sum(axis=0)
    pull = (gram * kernel) @ sums
    weighted = ((solved * sums) @ gram) * sums
    gradient = 2 * (pull - weighted + (weighted @ rows.T) @ solved)
    return float(sums @ pull), gradient


def descend(
    start: Matrix,
    gram: Matrix,
    frozen: NDArray[np.bool_],
    *,
    steps: int = 150,
    tolerance: float = 1e-5,
) -> tuple[float, Matrix]:
    """Return the local optimum that L-BFGS-B reaches from ``start``; frozen columns stay 0."""
    upper = np.where(frozen, 0.0, LARGEST)
    upper = np.broadcast_to(upper, start.shape).reshape(-1)

    def objective(flat: Matrix) -> tuple[float, Matrix]:
        loss, gradient = loss_and_gradient(flat.reshape(start.shape), gram)
        return loss, gradient.reshape(-1)

    found = minimize(
        objective,
        np.minimum(start.reshape(-1), upper),
        jac=True,
        method="L-BFGS-B",
        bounds=np.column_stack([np.zeros_like(upper), upper]),
        options={"maxiter": steps, "ftol": tolerance},
    )
    return float(found.fun), np.asarray(found.x.reshape(start.shape))


def grow(gram: Matrix, frozen: NDArray[np.bool_], most: int) -> Matrix:
    """Return the rows B of a good p-Identity strategy, at most ``most`` of them.

    ``frozen`` marks groups that nobody asked about: their columns of B stay 0.
    """
    groups = len(gram)
    random = np.random.default_rng(SEED)
    scale = np.trace(gram)
    gram = gram / scale
    best, rows = 1.0, np.zeros((0, groups))
    for count in range(most):
        fresh = [random.random(groups), 0.3 * random.random(groups)]
        if count == 0:
            fresh[1] = np.full(groups, 0.5)
        tried = [descend(np.vstack([rows, row]), gram, frozen) for row in fresh]
        loss, grown = min(tried, key=lambda pair: pair[0])
        if loss > best * (1 - GAIN):
            break
        best, rows = loss, grown
    return rows


def stretch(gram: Matrix, frozen: NDArray[np.bool_]) -> Matrix:
    """Return the rows B of a good p-Identity strategy for many groups."""
    groups = len(gram)
    gram = gram / np.trace(gram)
    merged = np.arange(groups) // max(1, groups // COARSE)
    if groups < 2 * COARSE:
        return min(
            (
                descend(start, gram, frozen, steps=300, tolerance=1e-6)
                for start in _starts(groups, groups)
            ),
            key=lambda pair: pair[0],
        )[1]
    members = np.zeros((groups, merged[-1] + 1))
    members[np.arange(groups), merged] = 1
    coarse = members.T @ gram @ members
    free = np.zeros(len(coarse), dtype=np.bool_)
    tried = []
    for start in _starts(len(coarse), groups):
        found = descend(start, coarse, free, steps=200, tolerance=1e-6)[1]
        # Over single groups the identity is weaker than over merged ones, so rows count for more.
        fine = np.minimum(1.5 * found[:, merged], LARGEST) * ~frozen
        tried.append((loss_and_gradient(fine, gram)[0], fine))
    best = min(tried, key=lambda pair: pair[0])[1]
    return descend(best, gram, frozen, steps=100, tolerance=1e-6)[1]


def _starts(groups: int, declared: int) -> list[Matrix]:
    """Return two starts: distinct stretches, and rows that are mostly chance."""
    random = np.random.default_rng(SEED)
    count = max(2, round(0.875 * np.sqrt(declared)))
    places = np.arange(groups)
    rows = np.zeros((count, groups))
    rows[places * count // groups, places] = 1
    few = rows[: max(2, count * 4 // 7)]
    return [
        2 * rows + 0.05 * random.random(rows.shape),
        0.5 * few + 0.5 * random.random(few.shape),
    ]
