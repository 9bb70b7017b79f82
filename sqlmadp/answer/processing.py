"""Post-processing that a plan may ask for: counts that are not negative, and that add up.

    nonnegative   least squares among estimates with no cell below zero      (`nonnegative`)
    consistent    integers that add up, in all cells of all tables           (`whole`)

Where one table holds all that was measured it may be large (`one_table`).
Both work on the estimate that all answers of a reader are worked out from, so whatever a statement
adds up agrees with every other statement.  They read the measurement and nothing else: they
spend nothing, change no release, and can be switched on and off at any time.  Under `independent`
every analyst has an estimate of their own; under every other mechanism there is one for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sqlmadp.answer.nonnegative import nonnegative, smooth
from sqlmadp.answer.one_table import TableSolver, whole_cells
from sqlmadp.answer.tables import cell_rows, nested, tables
from sqlmadp.answer.whole import whole_estimate
from sqlmadp.errors import UnfitPlanError
from sqlmadp.schema.marginal import Block, cell_weight
from sqlmadp.workload.solver import DenseSolver, Solver, solver_for

Matrix = NDArray[np.float64]

MOST_CELLS = 2000
"""Cells of all tables together up to which they are made non-negative or whole."""

MOST_OF_ONE = 50_000
"""Cells of a single table that holds all others, if each was measured alone."""


@dataclass(frozen=True)
class Processing:
    """What is done to an estimate before anything is answered from it."""

    nonnegative: bool = False
    consistent: bool = False

    @property
    def meaning(self) -> str | None:
        """Say what a stated error means after this; None if it is the expected error itself."""
        if not (self.nonnegative or self.consistent):
            return None
        texts = []
        if self.consistent:
            texts.append(
                "counts are integers that add up: stated errors are those before rounding, which "
                "moves a count by about half a record"
            )
        if self.nonnegative:
            texts.append(
                "no count is below zero: small counts are biased upwards, and so is what adds up "
                "many of them; stated errors are simulated with that bias, and the intervals "
                "of such sums may still be too narrow"
            )
        return "; ".join(texts)

    def solver(self, blocks: Sequence[Block]) -> Solver:
        """Return the solver whose estimates can be processed."""
        if self == Processing() or _is_plain(blocks):
            return solver_for(blocks)
        over_chains = _nested(blocks)
        return _large(over_chains) or DenseSolver(over_chains)

    def apply(self, solver: Solver, values: Sequence[Matrix]) -> Matrix:
        """Return the processed estimate from the values of every block."""
        if self == Processing():
            return solver.estimate(values)
        if isinstance(solver, TableSolver):
            cells = solver.nonnegative(values) if self.nonnegative else solver.estimate(values)
            return whole_cells(cells) if self.consistent else cells
        if not isinstance(solver, DenseSolver):  # Every cell is measured alone, all alike.
            cells = solver.estimate(values)
            cells = np.maximum(cells, 0) if self.nonnegative else cells
            return np.rint(cells) if self.consistent else cells
        marginals = tables(solver.blocks)
        cells = cell_rows(marginals, solver.coordinates)
        given = (solver.information, solver.moments(values), cells)
        estimate = nonnegative(*given) if self.nonnegative else smooth(*given)[1]
        if self.consistent:
            estimate = whole_estimate(estimate, marginals, cells, nonnegative=self.nonnegative)
        return estimate

    def check(self, blocks: Sequence[Block]) -> None:
        """Raise UnfitPlanError if what these blocks measure is too large to be processed."""
        if self != Processing() and not _is_plain(blocks):
            _large(_nested(blocks))


def _is_plain(blocks: Sequence[Block]) -> bool:
    """Tell whether every cell of one marginal is measured alone, all alike."""
    return len(blocks) == 1 and cell_weight(blocks[0]) is not None


def _nested(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """Return the blocks over partitions that nest; refuse what is too large to be written out."""
    largest = max((block.marginal.size for block in blocks), default=0)
    if largest > MOST_OF_ONE:
        raise _too_large(largest)
    return nested(blocks)


def _large(blocks: Sequence[Block]) -> TableSolver | None:
    """Return the solver of one large table, or None if the cells are few; refuse any other."""
    found = tables(blocks)
    size = sum(marginal.size for marginal in found)
    if size <= MOST_CELLS:
        return None
    solver = TableSolver.of(blocks, found) if size <= MOST_OF_ONE else None
    if solver is None:
        raise _too_large(size)
    return solver


def _too_large(size: int) -> UnfitPlanError:
    return UnfitPlanError(
        f"'nonnegative' and 'consistent' would work on {size:,} cells at once; at most "
        f"{MOST_CELLS:,} are supported, or {MOST_OF_ONE:,} if one measured combination of columns "
        "holds all others and each of its cells is measured alone. Leave them out of the plan: "
        "they change no release"
    )
