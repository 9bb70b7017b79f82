"""Descent within bounds: quasi-Newton steps over the variables that no bound holds.

A variable is held when it lies on a bound and the gradient pushes it further out; the others are
free.  With S and Y the last steps and changes of the gradient over the free variables alone, one
row each, R the upper triangle of ``S Y^T``, D its diagonal and c the last ``s.y / y.y``, a step is

    d = c (q - Y^T u) + S^T v,    q = -gradient,   R u = S q,   R^T v = D u + c (Y Y^T u - Y q),

the limited-memory BFGS direction [BNS94], then cut off at the bounds and halved until it pays
(two-metric projection [B82]).  For strategies of some hundred entries it takes a fraction of the
time of a general L-BFGS-B, most of which is spent around the loss.

[BNS94] Byrd, Nocedal, Schnabel, "Representations of quasi-Newton matrices and their use in limited
memory methods", doi:10.1007/BF01582063.  [B82] Bertsekas, "Projected Newton methods for
optimization problems with simple constraints", doi:10.1137/0320018.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dtrtrs

Matrix = NDArray[np.float64]
Loss = Callable[[Matrix], tuple[float, Matrix]]
"""A loss near 1 and its gradient, at a vector."""

MEMORY = 8
"""Steps remembered."""

PAYS = 1e-4
"""Part of the decrease that the slope promises for a step to be taken."""

CURVED = 1e-10
"""``s.y / y.y`` from which on a step tells something about curvature."""

SHORTER = 20
"""Times that a step is made shorter before the search ends."""


def descend(
    loss: Loss, start: Matrix, bounds: Matrix, *, steps: int, tolerance: float
) -> tuple[float, Matrix]:
    """Return the least loss found from ``start``, and where it is.

    ``bounds`` has a column of lowest values and one of highest.  The search ends after ``steps``
    steps, or when one lowers the loss by less than ``tolerance``.
    """
    low, high = bounds.T
    place = np.clip(start, low, high)
    value, gradient = loss(place)
    history = np.zeros((2, 0, len(place)))
    for _ in range(steps):
        inside = ((place > low) | (gradient < 0)) & ((place < high) | (gradient > 0))
        free = np.flatnonzero(inside)
        downhill = -gradient[free]
        direction = np.zeros_like(place)
        direction[free] = _direction(downhill, history.take(free, axis=2))
        slope = float(gradient @ direction)
        if slope >= 0:
            break
        length = 1.0 if history.size else min(1.0, 1 / float(np.abs(downhill).sum()))
        for _ in range(SHORTER):
            moved = np.clip(place + length * direction, low, high)
            step = moved - place
            reached, turned = loss(moved)
            if reached <= value + PAYS * float(gradient @ step):
                break
            length *= _shortened(reached - value, slope * length)
        else:
            break
        change = turned - gradient
        if step @ change > CURVED * (change @ change):
            pair = np.array([step, change])[:, None]
            history = np.concatenate([history[:, 1 - MEMORY :], pair], axis=1)
        gained = value - reached
        place, value, gradient = moved, reached, turned
        if gained <= tolerance:
            break
    return value, place


def _direction(downhill: Matrix, history: Matrix) -> Matrix:
    """Return the quasi-Newton direction, all over the free variables."""
    steps, changes = history
    products, squares = steps @ changes.T, changes @ changes.T
    curved = np.diag(products) > CURVED * np.diag(squares)
    if not curved.any():
        return downhill
    if not curved.all():
        return _direction(downhill, history[:, curved])
    diagonal, upper = np.diag(products), np.triu(products)
    scale = diagonal[-1] / squares[-1, -1]
    first, _ = dtrtrs(upper, steps @ downhill)
    second = diagonal * first + scale * (squares @ first - changes @ downhill)
    second, _ = dtrtrs(upper, second, trans=1)
    return np.asarray(scale * (downhill - first @ changes) + second @ steps)


def _shortened(rise: float, promised: float) -> float:
    """Return by what to shorten a step: where a parabola through both ends is least."""
    return float(np.clip(-promised / max(2 * (rise - promised), -promised), 0.1, 0.5))
