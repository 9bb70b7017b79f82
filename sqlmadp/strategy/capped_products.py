"""Products under caps: weights of the least total error that leave nobody above their limit.

For collectives whose rows are too many to be searched for.  Blocks measure every cell of a product
of partitions (`products`), and differ in nothing but their weights u_b; with ``t_j`` as in
`components`, analyst j's error is

    e_j = (sum_b u_b)^2 t_j(u^2),     d e_j / d log u_b = 2 s u_b t_j + 2 s^2 u_b^2 (d t_j / d v_b),

s being the sum of the weights.  Weights enter through their logarithms: a block of no weight would
have no slope to grow by, and a cap may need it.  Those that end up negligible are left out, and the
others balanced once more.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sqlmadp.schema.marginal import CellBlock
from sqlmadp.strategy.lagrangian import least_under_caps
from sqlmadp.strategy.products import Products
from sqlmadp.workload.components import Components
from sqlmadp.workload.workload import Workload, stacked

Matrix = NDArray[np.float64]

NEGLIGIBLE = 2e-3
"""Part of all weight below which a block is left out."""

WIDEST = 8.0
"""Bound on the logarithms of the weights."""

SMALL = 0.02
"""Weight that a search starts with, for blocks that are coarser than what was asked."""


def capped_products(
    workloads: Sequence[Workload], weights: Matrix, limits: Matrix, total: int
) -> tuple[CellBlock, ...]:
    """Return blocks of least weighted error, as far as the limits allow; columns sum to ``total``.

    Limits are on ``total^2 trace(W_j^T W_j (A^T A)^-1)``.  NotSupportedError if there are too many
    coordinates.
    """
    products = Products.of(stacked(workloads))
    asked = [products.gram(workload) for workload in workloads]
    found = np.where(products.large > 0, 1.0, SMALL)
    for _ in range(2):
        kept = np.flatnonzero(found)
        split = Components(asked, [products.grams[k] for k in kept])
        problem = _Weights(split, found[kept])
        flat = least_under_caps(problem, weights, limits)
        better = np.exp(flat - flat.max())
        found = np.zeros(len(found))
        found[kept] = np.where(better < NEGLIGIBLE * better.sum(), 0.0, better)
    return products.whole(found, total)[0]


class _Weights:
    """Everybody's error as a function of the logarithms of weights."""

    def __init__(self, split: Components, start: Matrix) -> None:
        self._split = split
        self.start = np.clip(np.log(start), -WIDEST, WIDEST)
        self.bounds = np.tile([-WIDEST, WIDEST], (len(start), 1))

    def errors(self, flat: Matrix) -> tuple[Matrix, list[Matrix]]:
        """Return the errors, and ``X^-1``."""
        weights = np.exp(flat)
        inverses = self._split.inverses(weights**2)
        return float(weights.sum()) ** 2 * self._split.traces(inverses), inverses

    def gradient(self, flat: Matrix, worked_out: list[Matrix], factors: Matrix) -> Matrix:
        """Return the gradient of ``sum_j factors_j e_j``."""
        weights = np.exp(flat)
        total = float(weights.sum())
        trace = float(factors @ self._split.traces(worked_out))
        slopes = self._split.slopes(worked_out, factors)
        return np.asarray(2 * total * weights * trace + 2 * (total * weights) ** 2 * slopes)
