"""What a total error can be compared with: Utilitarian's, and a bound that nothing goes below.

For a strategy A of sensitivity 1 the columns' squares sum to at most 1 each.  In coordinates of
mean square 1 (see `solve.column`) the trace of ``A^T A`` is then at most 1, whatever the number of
cells, and of all positive X with ``trace X <= 1`` the least

    trace(W^T W X^-1)  =  (sum of the singular values of W in coordinates)^2.

So no mechanism's total error is below ``2 / epsilon^2`` times that [LM13].  The singular values are
worked out residual space by residual space: one of a space counts as often as its fine residuals
have dimensions.  The bound treats noise as if it were spread by lengths and not by absolute values,
so a gap to it is no proof of waste.  Over vertices it is stated for tables whose records lie at
vertices, as every strategy must serve those.

[LM13] Li, Miklau, "Optimal error of query sets under the differentially-private matrix
mechanism", doi:10.1145/2448496.2448529.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sqlmadp.errors import NotCoveredError
from sqlmadp.mechanism.collective import Collective
from sqlmadp.mechanism.fairness import unit
from sqlmadp.solve.residual import Residuals
from sqlmadp.solve.solution import assembled
from sqlmadp.strategy.layout import as_asked
from sqlmadp.table.rows import Rows

MOST_COORDINATES = 2048
"""Work out singular values in spaces of at most this many coordinates."""


@dataclass(frozen=True)
class Bounds:
    """Totals to compare a mechanism's total error with."""

    utilitarian: float | None
    """The least total error that was found without any promise; None if none was."""
    lowest: float | None
    """No mechanism has less total error; None if there are too many coordinates to tell."""

    def beside(self, total: float) -> tuple[float | None, float | None]:
        """Return a total error in units of Utilitarian's, and of the lower bound."""
        return (
            total / self.utilitarian if self.utilitarian else None,
            total / self.lowest if self.lowest else None,
        )


def bounds(collective: Collective, epsilon: Fraction) -> Bounds:
    """Return the totals that any mechanism's total error can be compared with."""
    everyone = collective.arranged
    # `together` weighs errors in units of the least importance, and its budget is 1.
    least = float(everyone.importance.min()) / float(everyone.whole) ** 2
    scale = least * unit(everyone, epsilon)
    utilitarian: float | None
    try:
        # What is searched for all queries together can miss what everyone's own strategies have.
        poured = unit(everyone, epsilon) * float(everyone.importance @ everyone.poured.errors)
        utilitarian = min(poured, scale * everyone.select(everyone.together).error)
    except NotCoveredError:
        utilitarian = None
    root = _sum_of_singular_values(as_asked(everyone.together))
    return Bounds(utilitarian, None if root is None else scale * root**2)


def _sum_of_singular_values(workload: list[Rows]) -> float | None:
    """Return the sum of the singular values of a workload; None if there are too many."""
    spaces = Residuals(workload)
    if max((space.size for space in spaces.spaces.values()), default=0) > MOST_COORDINATES:
        return None
    gram = spaces.gram(workload)
    # A partial trace adds up a matrix as often as the fine residuals have dimensions.
    total = float(np.sqrt(gram.numbers * spaces.multiplicities).sum())
    for fine, matrix in assembled(spaces, gram).items():
        values = np.sqrt(np.maximum(np.linalg.eigvalsh(matrix), 0)).sum()
        total += spaces.spaces[fine].multiplicity * float(values)
    return total
