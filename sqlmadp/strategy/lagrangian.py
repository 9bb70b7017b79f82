"""Least weighted error under caps: what searches for rows and for weights have in common.

    minimise  sum_j w_j e_j   subject to  e_j <= c_j

An augmented Lagrangian turns that into a few searches without caps: with multipliers l_j >= 0 and
a stiffness m, each minimises

    sum_j w_j e_j  +  (1 / 2m) sum_j max(0, l_j + m (e_j / c_j - 1))^2,

whose gradient is that of one weighted workload, with ``w_j + max(0, ...) / c_j`` as its weights;
after each, ``l_j`` becomes the maximum in it.  Errors are in units of their weighted sum at the
start.  Nothing here is promised: whoever asked recomputes the errors from the integers.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Matrix = NDArray[np.float64]

SEARCHES = 8
"""Searches at most, each with the multipliers that the one before left."""

CLOSE = 1e-4
"""How far above its cap an error may be for the search to be over."""

STIFFNESS, STIFFER = 10.0, 3.0
"""The first stiffness, and by what it grows while a cap is not met."""


class Errors(Protocol):
    """Everybody's error as a function of one flat vector."""

    start: Matrix
    bounds: Matrix

    def errors(self, flat: Matrix) -> tuple[Matrix, Any]:
        """Return the errors, and what their gradient is worked out from."""

    def gradient(self, flat: Matrix, worked_out: Any, factors: Matrix) -> Matrix:
        """Return the gradient of ``sum_j factors_j e_j``."""


class Penalised(Protocol):
    """A loss with a penalty for every cap that is exceeded."""

    def loss_and_gradient(self, flat: Matrix, stiffness: float) -> tuple[float, Matrix]:
        """Return the loss, near 1 at the start, and its gradient."""


class Lagrangian:
    """The augmented Lagrangian of errors, weights and caps."""

    def __init__(self, problem: Errors, weights: Matrix, limits: Matrix) -> None:
        """Start with multipliers of 0."""
        self._problem, self._weights, self._limits = problem, weights, limits
        self._multipliers = np.zeros(len(limits))
        self._unit = float(weights @ problem.errors(problem.start)[0])

    def loss_and_gradient(self, flat: Matrix, stiffness: float) -> tuple[float, Matrix]:
        """Return the loss, near 1 at the start, and its gradient."""
        errors, worked_out = self._problem.errors(flat)
        push = np.maximum(0, self._multipliers + stiffness * (errors / self._limits - 1))
        loss = float(self._weights @ errors) / self._unit
        loss += float((push**2 - self._multipliers**2).sum()) / (2 * stiffness)
        factors = self._weights / self._unit + push / self._limits
        return loss, self._problem.gradient(flat, worked_out, factors)

    def raise_multipliers(self, flat: Matrix, stiffness: float) -> float:
        """Take over the multipliers at ``flat``; return the largest violation of a cap."""
        above = self._problem.errors(flat)[0] / self._limits - 1
        self._multipliers = np.maximum(0, self._multipliers + stiffness * above)
        return float(above.max())


def stiffly_minimised(
    penalised: Penalised, start: Matrix, bounds: Matrix, stiffness: float
) -> Matrix:
    """Return a local optimum near ``start`` for one stiffness of the penalties.

    Penalties bend the loss sharply.  `descent`, with which rows without caps are found in a
    fraction of the time, was seen to end in worse optima here.
    """
    found = minimize(
        penalised.loss_and_gradient,
        start,
        args=(stiffness,),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": 150, "ftol": 1e-7},
    )
    return np.asarray(found.x)


def least_under_caps(problem: Errors, weights: Matrix, limits: Matrix) -> Matrix:
    """Return the flat vector of least weighted error near the start, as far as caps allow."""
    lagrangian = Lagrangian(problem, weights, limits)
    flat, stiffness = problem.start, STIFFNESS
    for search in range(SEARCHES):
        flat = stiffly_minimised(lagrangian, flat, problem.bounds, stiffness)
        above = lagrangian.raise_multipliers(flat, stiffness)
        if above <= CLOSE and search > 0:
            break
        if above > CLOSE:
            stiffness *= STIFFER
    return np.asarray(flat)
