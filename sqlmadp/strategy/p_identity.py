"""p-Identity: every group measured alone, and p more rows on top, for one scope.

    A = [I; B] diag(1/s),   s = 1 + column sums of B,   B >= 0 with p rows

Every column of A sums to 1.  With M the workload's Gram matrix the loss is

    f(B) = trace(M (A^T A)^-1) = s^T (M * K) s,    K = (I + B^T B)^-1 = I - B^T R B,
    R = (I + B B^T)^-1,

so one evaluation costs p n^2.  Its gradient, with N = diag(s) M diag(s), is

    df/dB = -2 R B N K  +  2 (M * K) s   (the same vector added to every row).

The rows are grown one at a time: the best B with p rows and one fresh row start the search
for p + 1.  B is bounded: far out the loss is a difference of huge numbers, and an
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


def descend(start: Matrix, gram: Matrix, frozen: NDArray[np.bool_]) -> tuple[float, Matrix]:
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
        options={"maxiter": 150, "ftol": 1e-5},
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
