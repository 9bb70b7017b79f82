"""A strategy beside what is known already: rows and weights for the least error together.

With K the information that earlier measurements give, g that of a unit of the new strategy, and X
as in `joint`, analyst j's error is

    e_j = trace(M_j Z),     Z = (K + g X / (sum_b u_b)^2)^-1.

Minimise ``sum_j e_j`` plus a penalty ``m (e_j / c_j - 1)^2`` for every cap that is exceeded, with a
stiffness m that grows.  With ``P = Z M Z`` for the weighted sum M of all M_j, and
``h_b`` as in `joint`,

    d / d log u_b = -2 g (u_b^2 sum(h_b) / s^2 - u_b sum_a u_a^2 sum(h_a) / s^3),   s = sum_b u_b,

and the rows follow as there.  Nothing here is promised: whoever asked recomputes the errors from
the integers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky

from sqlmadp.strategy.joint import WIDEST, Draft
from sqlmadp.strategy.lagrangian import stiffly_minimised
from sqlmadp.strategy.p_identity import LARGEST

Matrix = NDArray[np.float64]

STIFFNESS = (10.0, 100.0, 1000.0)
"""The penalties' weights, in units of the total error, one search after the other."""

SMALL = 1e-9
"""Added to what is known, relative to its trace: not everything need be known."""


@dataclass(frozen=True, eq=False)
class Known:
    """What is known already, and what is asked, in the coordinates of a layout."""

    information: Matrix
    gain: float
    """What one unit of the new strategy tells."""
    grams: Matrix
    """One Gram matrix an analyst."""
    caps: Matrix
    """Infinite where there is none."""


def beside(start: Draft, known: Known) -> Draft:
    """Return a draft near ``start`` of least error beside what is known."""
    problem = _Beside(start, known)
    flat = problem.start
    for stiffness in STIFFNESS:
        flat = stiffly_minimised(problem, flat, problem.bounds, stiffness)
    return problem.draft(flat)


class _Beside:
    """The penalised total error as a function of one flat vector: log weights, then rows."""

    def __init__(self, start: Draft, known: Known) -> None:
        self._layout, self._known = start.layout, known
        self._shapes = [rows.shape for rows in start.rows]
        self._flat_grams = known.grams.reshape(len(known.grams), -1)
        size = len(known.information)
        ridge = SMALL * np.trace(known.information) / size
        self._information = known.information + ridge * np.eye(size)
        logs = np.log(start.weights)
        logs = np.clip(logs - logs.mean(), -WIDEST, WIDEST)
        self.start = np.concatenate([logs, *(rows.reshape(-1) for rows in start.rows)])
        low, high = np.zeros_like(self.start), np.full_like(self.start, LARGEST)
        low[: len(logs)], high[: len(logs)] = -WIDEST, WIDEST
        self.bounds = np.column_stack([low, high])
        self._unit = 1.0
        self._unit = max(self.loss_and_gradient(self.start, 0.0)[0], 1e-300)

    def draft(self, flat: Matrix) -> Draft:
        weights, rows = self._split(flat)
        return Draft(self._layout, tuple(weights / weights.sum()), tuple(rows))

    def loss_and_gradient(self, flat: Matrix, stiffness: float) -> tuple[float, Matrix]:
        known, cells = self._known, self._layout.cells
        weights, rows = self._split(flat)
        total, gain = float(weights.sum()), known.gain
        information = self._information.copy()
        sums = [1 + r.sum(axis=0) for r in rows]
        for w, r, s, c in zip(weights, rows, sums, cells, strict=True):
            gram = (np.eye(len(s)) + r.T @ r) * (gain * (w / total) ** 2) / np.outer(s, s)
            information += c.T @ gram @ c
        factor = (cholesky(information, lower=True, check_finite=False), True)
        inverse = cho_solve(factor, np.eye(len(information)), check_finite=False)
        errors = self._flat_grams @ inverse.reshape(-1)
        above = np.maximum(errors / known.caps - 1, 0)
        loss = float(errors.sum()) / self._unit + stiffness * float((above**2).sum())
        factors = 1 / self._unit + 2 * stiffness * above / known.caps
        pull = inverse @ (factors @ self._flat_grams).reshape(inverse.shape) @ inverse
        gradient = np.zeros_like(flat)
        at = len(weights)
        for b, (w, r, s, c) in enumerate(zip(weights, rows, sums, cells, strict=True)):
            projected = (c @ pull @ c.T) / np.outer(s, s)
            moved = r @ projected
            heights = np.diag(projected) + (r * moved).sum(axis=0)
            gradient[b] = (w / total) ** 2 * heights.sum()
            change = -2 * gain * (w / total) ** 2 * (moved - heights / s)
            gradient[at : at + r.size] = change.reshape(-1)
            at += r.size
        spread = gradient[: len(weights)]
        gradient[: len(weights)] = -2 * gain * (spread - weights / total * spread.sum())
        return loss, gradient

    def _split(self, flat: Matrix) -> tuple[Matrix, list[Matrix]]:
        rows, at = [], len(self._shapes)
        for shape in self._shapes:
            size = shape[0] * shape[1]
            rows.append(flat[at : at + size].reshape(shape))
            at += size
        return np.exp(flat[: len(self._shapes)]), rows
