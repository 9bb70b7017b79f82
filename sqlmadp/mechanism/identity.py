"""Identity: every cell of the declared domain, whatever was asked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sqlmadp.errors import UnfitPlanError
from sqlmadp.mechanism.base import JointStrategy
from sqlmadp.schema.marginal import CellBlock, Marginal, Partition
from sqlmadp.workload.workload import Workload

MOST_CELLS = 1 << 20
"""Cells up to which all of them can be measured one by one."""


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Measure each cell with the whole budget; adaptive to nothing [PWFM21].

    The strategy depends on the domain alone, so leaving an analyst out changes nothing but
    the budget: sharing incentive and non-interference hold.
    """

    columns: tuple[tuple[str, int], ...]
    """Name and number of cells of every declared column, in alphabetical order."""

    def select(self, workloads: Sequence[Workload], shares: Sequence[Fraction]) -> JointStrategy:
        """Return the identity over all cells, read by all."""
        cells = math.prod(size for _, size in self.columns)
        if cells > MOST_CELLS:
            names = ", ".join(name for name, _ in self.columns)
            raise UnfitPlanError(
                f"mechanism 'identity' would measure each of the {cells:,} cells of {names}; "
                f"at most {MOST_CELLS:,} are supported. Choose another mechanism, which measures "
                f"only what was asked."
            )
        scope = tuple(name for name, _ in self.columns)
        marginal = Marginal(scope, tuple(Partition.finest(size) for _, size in self.columns))
        return JointStrategy((CellBlock(marginal, 1),), 1, ((0,),) * len(workloads))
