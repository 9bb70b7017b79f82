"""Non-negative counts: the least-squares estimate among those with no cell below zero.

    minimise  (t - t_ls)^T X (t - t_ls)     subject to   C t >= 0

for the least-squares estimate t_ls, X = A^T A, and C the cells of all tables, in coordinates.  All
tables live in the same coordinates, so whatever t is, they agree where they overlap; and nothing is
as large as the product of all columns.  What no measurement tells apart is left as even as it can
be, by a weight on all cells that is tiny beside the measured ones.

Solved by its multipliers.  With the cells scaled to variance 1, ``Q = C X^- C^T`` and w the cells
of t_ls, look for l >= 0 with ``w + Q l >= 0`` and one of the two 0 in every cell.  Guess which
cells are at zero; the guess gives l; whatever has the wrong sign changes sides (block principal
pivoting [JP94]), all at once while that helps, else one at a time, which always ends.  What
rounding leaves of a negative is removed by mixing in the even table of the same total, of which
next to nothing is needed.

[JP94] Júdice, Pires, "A block principal pivoting algorithm for large-scale strictly monotone linear
complementarity problems", doi:10.1016/0305-0548(94)90106-6.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

Matrix = NDArray[np.float64]

EVEN = 1e-7
"""Weight on all cells beside the measured ones; it decides only what was not measured."""

TINY = 1e-12
"""Weight on coordinates that no cell uses."""

SMOOTH = 20
"""Steps that take away what the weight on all cells does to the measured ones."""

SOFT = 1e-12
"""Added to the diagonal of Q: cells may depend on one another."""

CLOSE = 1e-9
"""Standard errors by which a sign may be wrong."""

TRIES = 5
"""Guesses in a row that change all wrong signs although there are no fewer of them."""

STEPS = 2000
"""Guesses at most."""


def nonnegative(information: Matrix, moments: Matrix, cells: Matrix) -> Matrix:
    """Return the estimate for ``X t = moments`` with ``cells @ t >= 0``; one column each.

    The first coordinate is the total, and every cell holds a part of the even table.
    """
    metric, start = smooth(information, moments, cells)
    wanted = cells @ start
    if (wanted >= 0).all():
        return start
    move = cho_solve(cho_factor(metric, check_finite=False), cells.T, check_finite=False)
    spread = np.sqrt((cells * move.T).sum(axis=1))
    move /= spread
    pull = (cells @ move) / spread[:, None]
    pull[np.diag_indices(len(pull))] += SOFT
    columns = (wanted.T / spread).reshape(-1, len(cells))
    multipliers = np.column_stack([_multipliers(pull, column) for column in columns])
    return _inside(start + (move @ multipliers).reshape(start.shape), cells)


def _multipliers(pull: Matrix, wanted: Matrix) -> Matrix:
    """Return ``l >= 0`` with ``wanted + pull @ l >= 0``, one of the two 0 in every place."""
    at_zero = wanted < 0
    fewest, tries = len(wanted) + 1, TRIES
    multipliers = np.zeros_like(wanted)
    for _ in range(STEPS):
        multipliers[:] = 0
        inside = cho_factor(pull[np.ix_(at_zero, at_zero)], check_finite=False)
        multipliers[at_zero] = cho_solve(inside, -wanted[at_zero], check_finite=False)
        above = np.where(at_zero, multipliers, wanted + pull @ multipliers)
        wrong = above < -CLOSE
        count = int(wrong.sum())
        if count == 0:
            break
        if count < fewest:
            fewest, tries = count, TRIES
        elif tries > 0:
            tries -= 1
        else:
            wrong[: np.flatnonzero(wrong)[-1]] = False
        at_zero ^= wrong
    return np.maximum(multipliers, 0)


def smooth(information: Matrix, moments: Matrix, cells: Matrix) -> tuple[Matrix, Matrix]:
    """Return the metric, and the least-squares estimate that is even where nothing is measured."""
    even = cells.T @ cells
    even *= EVEN * np.trace(information) / np.trace(even)
    metric = information + even
    metric[np.diag_indices(len(metric))] += TINY * np.trace(metric) / len(metric)
    factor = cho_factor(metric, check_finite=False)
    estimate = np.zeros_like(moments)
    for _ in range(SMOOTH):  # Each takes away most of what the weight distorts.
        rest = moments - information @ estimate
        estimate = estimate + cho_solve(factor, rest, check_finite=False)
    return metric, estimate


def _inside(estimate: Matrix, cells: Matrix) -> Matrix:
    """Mix in as much of the even table of the same total as leaves no cell below zero."""
    total = np.maximum(estimate[0], 0)
    below = np.maximum(-(cells @ estimate), 0)
    whole = cells[:, :1] * total if estimate.ndim > 1 else cells[:, 0] * total
    with np.errstate(invalid="ignore", divide="ignore"):
        part = np.where(below > 0, below / (below + whole), 0.0).max(axis=0)
    part = np.where(part > 0, np.minimum(1.0, part * (1 + 1e-9) + 1e-15), 0.0)
    mixed = (1 - part) * estimate
    mixed[0] = mixed[0] + part * total
    return np.asarray(mixed)
