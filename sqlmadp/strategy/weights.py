"""Weights of many possible blocks, of which a good strategy uses few.

Blocks measured cell by cell differ in nothing but their weights u_b >= 0, and the error is

    f(u) = (sum_b u_b)^2 t(u^2),    t(v) = trace(M (sum_b v_b G_b)^-1)
    d f / d u_b = 2 (sum u) t  +  2 (sum u)^2 u_b (d t / d v_b)

A block of no weight has no slope to grow by, so a search ends in a local optimum with most weights
at zero.  From there single blocks are tried with a little weight, the best one joins, and
the weights are balanced again, as long as that helps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from sqlmadp.schema.marginal import Block

Matrix = NDArray[np.float64]

NEGLIGIBLE = 1e-2
"""Part of all weight below which a block is left out."""

HARM = 1e-2
"""By how much, relative to it, leaving out what is negligible may raise the error."""

GAIN = 1e-3
"""Relative gain for which another block is worth measuring."""

TRIED_WEIGHT = 0.04
"""Part of all weight that a block is tried with."""

MOST_TRIED = 200
"""Blocks up to which each is tried."""

LEAST = 1e-9
"""Weight, of all, that keeps every direction measured during a search."""


@dataclass(frozen=True, eq=False)
class Selected:
    """Blocks whose columns sum to exactly ``total`` together, and their certified error."""

    blocks: tuple[Block, ...]
    total: int
    error: float
    """``total^2 trace(W^T W (A^T A)^-1)``."""


class Trace(Protocol):
    """The trace as a function of the squares of weights."""

    count: int

    def trace(self, squares: Matrix) -> float:
        """Return the trace."""

    def trace_and_slopes(self, squares: Matrix) -> tuple[float, Matrix]:
        """Return the trace, and its derivative by every square."""


def few_weights(problem: Trace, starts: Iterable[Matrix]) -> tuple[float, Matrix]:
    """Return the least error found from any start, and weights that sum to 1."""
    tried = [_balanced(problem, start) for start in starts]
    error, weights = min(tried, key=lambda pair: pair[0])
    while problem.count <= MOST_TRIED:
        grown_error, grown = _balanced(problem, _with_one_more(problem, weights))
        if grown_error > error * (1 - GAIN):
            break
        error, weights = grown_error, grown
    return error, weights


def error_of(problem: Trace, weights: Matrix) -> float:
    """Return ``f(weights)``."""
    return float(weights.sum()) ** 2 * problem.trace(_squares(weights))


def _with_one_more(problem: Trace, weights: Matrix) -> Matrix:
    """Return the weights with the block that helps most among those of no weight.

    The trace is convex in the squares, so slopes tell how much a block can help at most: those that
    cannot help more than the best so far need not be tried.
    """
    less = weights * (1 - TRIED_WEIGHT)
    squares = less**2 + (LEAST * weights.sum()) ** 2
    trace, slopes = problem.trace_and_slopes(squares)
    best, least = weights, np.inf
    unused = np.flatnonzero(weights == 0)
    for block in unused[np.argsort(slopes[unused], kind="stable")]:
        if trace + TRIED_WEIGHT**2 * slopes[block] > least:
            break
        tried = squares.copy()
        tried[block] += TRIED_WEIGHT**2
        if (reached := problem.trace(tried)) < least:
            best, least = less.copy(), reached
            best[block] = TRIED_WEIGHT
    return best


def _balanced(problem: Trace, start: Matrix) -> tuple[float, Matrix]:
    """Return the local optimum near ``start`` with negligible weights at zero."""
    unit = error_of(problem, start)

    def objective(weights: Matrix) -> tuple[float, Matrix]:
        weights = np.maximum(weights, LEAST)  # A step may lead to no weights at all.
        total = float(weights.sum())
        trace, slopes = problem.trace_and_slopes(_squares(weights))
        gradient = 2 * total * trace + 2 * total**2 * weights * slopes
        # The logarithm suits a loss that falls by orders of magnitude.
        return float(np.log(total**2 * trace / unit)), gradient / (total**2 * trace)

    found = minimize(
        objective,
        start / start.sum(),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * problem.count,
        options={"maxiter": 300, "ftol": 1e-8},
    )
    weights = np.asarray(found.x / found.x.sum())
    negligible = (weights > 0) & (weights < NEGLIGIBLE / np.count_nonzero(weights))
    return _without(problem, weights, int(negligible.sum()))


def _without(problem: Trace, weights: Matrix, count: int) -> tuple[float, Matrix]:
    """Return the weights without the ``count`` smallest, or without as many as does no harm.

    What counts for little may be asked about all the same, and nothing else measure it.
    """
    error = error_of(problem, weights)
    smallest = np.argsort(weights, kind="stable")[np.count_nonzero(weights == 0) :]
    while count:
        kept = weights.copy()
        kept[smallest[:count]] = 0.0
        kept /= kept.sum()
        reached = error_of(problem, kept)
        if reached <= error * (1 + HARM):
            return reached, kept
        count //= 2
    return error, weights


def _squares(weights: Matrix) -> Matrix:
    return np.asarray(weights**2 + (LEAST * weights.sum()) ** 2)
