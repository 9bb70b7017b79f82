"""Several scopes: the weights of the blocks and all their rows, optimised together.

Block b has weight u_b and the p-Identity matrix ``A_b = [I; B_b] diag(1/s_b)`` over its groups,
whose columns sum to 1, so the sensitivity is the sum of the weights.  In the coordinates of a
layout (C_b: its groups)

    f = (sum_b u_b)^2 trace(M X^-1),    X = sum_b u_b^2 C_b^T A_b^T A_b C_b.

With ``Y = X^-1 M X^-1``, ``P_b = C_b Y C_b^T / (s_b s_b^T)``, ``h_b = ((I + B_b^T B_b) * P_b) 1``:

    d trace / d u_b = -2 u_b sum(h_b),     d trace / d B_b = -2 u_b^2 (B_b P_b - 1 (h_b / s_b)^T).

The weights enter through their logarithms, which keeps them positive.  Weights alone are found
from the fixed ``G_b = C_b^T A_b^T A_b C_b``, with ``d trace / d u_b = -2 u_b sum(Y * G_b)``; for
plain marginals these are diagonal, and so is all the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky
from scipy.optimize import minimize

from sqlmadp.strategy.layout import Layout
from sqlmadp.strategy.p_identity import LARGEST

Matrix = NDArray[np.float64]

WIDEST = 5.0
"""Bound on the logarithms of the weights: no block weighs less than e^-10 of another."""


@dataclass(frozen=True, eq=False)
class Draft:
    """A strategy before it is made of integers: each block's weight and rows B."""

    layout: Layout
    weights: tuple[float, ...]
    rows: tuple[Matrix, ...]


def balance(layout: Layout, rows: Sequence[Matrix], *, move_rows: bool) -> Draft:
    """Return the best weights for the given rows; with ``move_rows``, better rows too."""
    problem = _Rows(layout, tuple(rows)) if move_rows else _Weights(layout, tuple(rows))
    found = minimize(
        problem.loss_and_gradient,
        problem.start,
        jac=True,
        method="L-BFGS-B",
        bounds=problem.bounds,
        options={"maxiter": 200 if move_rows else 60, "ftol": 1e-6, "maxfun": 400},
    )
    return problem.draft(found.x)


def _first_weights(layout: Layout) -> Matrix:
    """Return logarithms of weights to start from.

    The cube root of each block's own error is the best split for disjoint blocks.
    """
    own = [max(float((s.queries.data**2).sum()), 1e-9) for s in layout.scopes]
    weights = np.log(np.cbrt(own))
    return np.asarray(np.clip(weights - weights.mean(), -WIDEST, WIDEST))


class _Weights:
    """The loss of a layout as a function of the logarithms of its weights."""

    def __init__(self, layout: Layout, rows: tuple[Matrix, ...]) -> None:
        self._layout, self._rows = layout, rows
        self._gram = layout.gram
        grams = [c.T @ _p_identity_gram(r) @ c for c, r in zip(layout.cells, rows, strict=True)]
        self._diagonal = all(_is_diagonal(gram) for gram in grams)
        if self._diagonal:  # Nothing but the diagonals is ever used.
            grams, self._gram = [np.diag(gram) for gram in grams], np.diag(self._gram)
        self._grams = grams
        self.start = _first_weights(layout)
        self.bounds = [(-WIDEST, WIDEST)] * len(rows)
        # The trace scales with the workload; a loss near 1 suits the optimiser's tolerances.
        self._unit = 1.0
        self._unit = self.loss_and_gradient(self.start)[0]

    def draft(self, flat: Matrix) -> Draft:
        weights = np.exp(flat)
        return Draft(self._layout, tuple(weights / weights.sum()), self._rows)

    def loss_and_gradient(self, flat: Matrix) -> tuple[float, Matrix]:
        weights = np.exp(flat)
        information = sum(w**2 * gram for w, gram in zip(weights, self._grams, strict=True))
        if self._diagonal:
            half = self._gram / information
            trace, pull = float(half.sum()), half / information
        else:
            factor = (cholesky(information, lower=True, check_finite=False), True)
            half = cho_solve(factor, self._gram, check_finite=False)
            trace, pull = float(np.trace(half)), cho_solve(factor, half.T, check_finite=False)
        slopes = np.array([(pull * gram).sum() for gram in self._grams])
        total = float(weights.sum())
        gradient = 2 * total * weights * trace - 2 * (total * weights) ** 2 * slopes
        return total**2 * trace / self._unit, gradient / self._unit


class _Rows:
    """The loss of a layout as a function of one flat vector: log weights, then rows."""

    def __init__(self, layout: Layout, rows: tuple[Matrix, ...]) -> None:
        self._layout, self._rows = layout, rows
        count = len(rows)
        self.start = np.concatenate([_first_weights(layout), *(r.reshape(-1) for r in rows)])
        low, high = np.zeros_like(self.start), np.full_like(self.start, LARGEST)
        low[:count], high[:count] = -WIDEST, WIDEST
        self.bounds = np.column_stack([low, high])
        for scope, (place, shape) in zip(layout.scopes, self._places(), strict=True):
            if scope.unasked is not None:
                frozen = np.zeros(shape, dtype=np.bool_)
                frozen[:, scope.unasked] = True
                self.bounds[place, 1][frozen.reshape(-1)] = 0
                self.start[place][frozen.reshape(-1)] = 0
        self._unit = 1.0
        self._unit = self.loss_and_gradient(self.start)[0]

    def _places(self) -> list[tuple[slice, tuple[int, ...]]]:
        places, at = [], len(self._rows)
        for rows in self._rows:
            places.append((slice(at, at + rows.size), rows.shape))
            at += rows.size
        return places

    def _split(self, flat: Matrix) -> tuple[Matrix, list[Matrix]]:
        rows = [flat[part].reshape(shape) for part, shape in self._places()]
        return np.exp(flat[: len(self._rows)]), rows

    def draft(self, flat: Matrix) -> Draft:
        weights, rows = self._split(flat)
        return Draft(self._layout, tuple(weights / weights.sum()), tuple(rows))

    def loss_and_gradient(self, flat: Matrix) -> tuple[float, Matrix]:
        weights, rows = self._split(flat)
        layout = self._layout
        information = sum(
            w**2 * (c.T @ _p_identity_gram(r) @ c)
            for w, r, c in zip(weights, rows, layout.cells, strict=True)
        )
        factor = (cholesky(information, lower=True, check_finite=False), True)
        half = cho_solve(factor, layout.gram, check_finite=False)
        trace = float(np.trace(half))
        pull = cho_solve(factor, half.T, check_finite=False)
        total = float(weights.sum())
        gradient = np.zeros_like(flat)
        places = self._places()
        for b, (w, r, c) in enumerate(zip(weights, rows, layout.cells, strict=True)):
            sums = 1 + r.sum(axis=0)
            projected = (c @ pull @ c.T) / np.outer(sums, sums)
            heights = np.diag(projected) + (r * (r @ projected)).sum(axis=0)
            gradient[b] = 2 * total * w * trace - total**2 * 2 * w**2 * heights.sum()
            change = r @ projected - heights / sums
            gradient[places[b][0]] = (-2 * (total * w) ** 2 * change).reshape(-1)
        return total**2 * trace / self._unit, gradient / self._unit


def _p_identity_gram(rows: Matrix) -> Matrix:
    sums = 1 + rows.sum(axis=0)
    gram = rows.T @ rows
    gram[np.diag_indices(len(gram))] += 1
    return np.asarray(gram / np.outer(sums, sums))


def _is_diagonal(matrix: Matrix) -> bool:
    """Tell whether all but the diagonal is what rounding left of zero."""
    diagonal = np.diag(matrix)
    return bool(np.abs(matrix - np.diag(diagonal)).max() <= 1e-12 * diagonal.max())
