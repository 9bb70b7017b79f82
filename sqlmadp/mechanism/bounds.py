"""What a total error can be compared with: Utilitarian's, and a bound that nothing goes below.

For a strategy A of sensitivity 1 over N cells, ``trace(A^T A) <= N``, since every column's squares
sum to at most 1.  In coordinates of mean square 1 that trace is at most 1, whatever N is, and
of all positive X with ``trace X <= 1`` the least

    trace(W^T W X^-1)  =  (sum of the singular values of W in coordinates)^2.

So no mechanism's total error is below ``2 / epsilon^2`` times that [LM13].  The bound treats noise
as if it were spread by lengths and not by absolute values, so a gap to it is no proof of waste.
Where most of very many cells are `alike`, the singular values are those over their classes, and
as often ``c^(1/2)`` as a class has cells but one.

[LM13] Li, Miklau, "Optimal error of query sets under the differentially-private matrix
mechanism", doi:10.1145/2448496.2448529.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sqlmadp.errors import NotSupportedError
from sqlmadp.mechanism.fairness import noise_variance
from sqlmadp.strategy.cache import StrategyCache
from sqlmadp.strategy.layout import holds_all
from sqlmadp.strategy.select import select
from sqlmadp.workload.coordinates import Coordinates
from sqlmadp.workload.workload import Workload, stacked

Values = np.ndarray[tuple[int], np.dtype[np.float64]]

MOST_COORDINATES = 2048
"""Coordinates up to which singular values are worked out."""


@dataclass(frozen=True)
class Bounds:
    """Totals to compare a mechanism's total error with."""

    utilitarian: float | None
    """The total error of the strategy selected for all queries together; None if there is none."""
    lowest: float | None
    """No mechanism has less total error; None if there are too many coordinates to tell."""

    def beside(self, total: float) -> tuple[float | None, float | None]:
        """Return a total error in units of Utilitarian's, and of the lower bound."""
        return (
            total / self.utilitarian if self.utilitarian else None,
            total / self.lowest if self.lowest else None,
        )


def bounds(
    workloads: Sequence[Workload], epsilon: Fraction, cache: StrategyCache | None = None
) -> Bounds:
    """Return the totals that any mechanism's total error can be compared with."""
    together = stacked(workloads)
    try:
        selected = select(together, cache=cache)
    except NotSupportedError:  # Each analyst's own queries may still be few enough.
        utilitarian = None
    else:
        utilitarian = noise_variance(1, epsilon) * selected.error
    values = singular_values(together)
    if values is None:
        return Bounds(utilitarian, None)
    return Bounds(utilitarian, noise_variance(1, epsilon) * float(values.sum()) ** 2)


def singular_values(workload: Workload) -> Values | None:
    """Return the singular values of W in coordinates; None if there are too many."""
    values = _values_over_classes(workload)
    if values is not None:
        return values
    coordinates = Coordinates(block.marginal for block in workload.by_scope)
    if coordinates.size > MOST_COORDINATES:
        return None
    gram = np.zeros((coordinates.size, coordinates.size))
    for block in workload.by_scope:
        rows, _ = coordinates.rows(block)
        gram += rows.T @ rows
    return np.asarray(np.sqrt(np.maximum(np.linalg.eigvalsh(gram), 0)))


def _values_over_classes(workload: Workload) -> Values | None:
    """Return the singular values by classes of cells; None if most cells are not alike."""
    whole = holds_all(workload)
    if whole is None or whole.alike is None:
        return None
    scope, alike = whole.scopes[0], whole.alike
    asked = np.arange(scope.groups) != scope.unasked
    if (np.bincount(scope.labels)[asked] > 1).any():
        return None  # Those are groups of several cells, and count for more.
    inside = np.sqrt(np.maximum(np.linalg.eigvalsh(alike.grid.gram), 0))
    apart = np.repeat(np.sqrt(alike.single), alike.sizes.astype(np.int64) - 1)
    return np.asarray(np.concatenate([inside, apart]) / np.sqrt(scope.marginal.size))
