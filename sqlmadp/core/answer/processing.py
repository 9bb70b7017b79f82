"""Post-processing that a plan may ask for: counts that are not negative, and that add up.

    nonnegative   least squares among estimates with no cell below zero      (`nonnegative`)
    consistent    integers that add up, in all cells of all tables           (`integer_rounding`)

Both work on the estimate that all answers of a reader are worked out from, so whatever a statement
adds up agrees with every other statement.  They read the measurement and nothing else: they
spend nothing, change no release, and can be switched on and off at any time.  Under `independent`
every analyst has an estimate of their own; under every other mechanism there is one for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sqlmadp.core.answer.integer_rounding import Tables, running_sums_rounded
from sqlmadp.core.answer.nonnegative import nonnegative
from sqlmadp.errors import NotSupportedError
from sqlmadp.solve.solution import Estimate, Solution
from sqlmadp.table.partition import Floats
from sqlmadp.table.rows import Rows

MAX_CELLS = 2000
"""Round counts of several tables that add up while they have at most this many cells in all."""

MAX_OF_ONE = 50_000
"""Process at most this many cells of all tables, or of a single one that holds all others."""

LIGHT = 1e-4
"""Give every cell of every table this part of the weight of what was measured: that decides only
what was not measured, and leaves it as even as it can be."""

HEAVY = 1e4
"""Give whole counts this many times the weight of what was measured, so that they are met."""


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

    def apply(self, solution: Solution, values: Sequence[Floats]) -> Estimate:
        """Return the processed estimate from the values of every block."""
        if self == Processing():
            return solution.estimate(values)
        tables = Tables(solution.blocks)
        light = [rows.times(LIGHT * _largest(solution)) for rows in tables.rows]
        smooth = Solution([*solution.blocks, *light])
        zeros = [np.zeros((rows.size, *values[0].shape[1:])) for rows in light]
        given = [*values, *zeros]
        if self.nonnegative:
            measured = {block.layout: block for block in smooth.blocks}
            found = nonnegative(smooth, given, list(measured.values()))
        else:
            found = smooth.estimate(given)
        return self._rounded(found, smooth, given, tables) if self.consistent else found

    def _rounded(
        self, found: Estimate, solution: Solution, values: Sequence[Floats], tables: Tables
    ) -> Estimate:
        """Return an estimate near the given one whose cells are integers that add up."""
        single = values[0].ndim == 1
        wanted = np.vstack([_columns(found.answers(rows)) for rows in tables.rows])
        if len(tables.rows) == 1:
            counts = running_sums_rounded(wanted)
        else:
            counts = tables.rounded(wanted, nonnegative=self.nonnegative)
        heavy = [rows.times(HEAVY * _largest(solution)) for rows in tables.rows]
        ends = np.cumsum([rows.size for rows in tables.rows])[:-1]
        goals = [h.weight * each for h, each in zip(heavy, np.split(counts, ends), strict=True)]
        kept = [found.answers(block) for block in solution.blocks]
        given = [goal[:, 0] for goal in goals] if single else goals
        return Solution([*solution.blocks, *heavy]).estimate([*kept, *given])

    def check(self, blocks: Sequence[Rows]) -> None:
        """Raise NotSupportedError if what these blocks measure is too large to be processed."""
        if self == Processing():
            return
        tables = Tables(blocks)
        several = self.consistent and len(tables.rows) > 1
        if tables.size > (MAX_CELLS if several else MAX_OF_ONE):
            raise NotSupportedError(
                f"'nonnegative' and 'consistent' would work on {tables.size:,} cells at once; at "
                f"most {MAX_CELLS:,} are supported with 'consistent', or {MAX_OF_ONE:,} without it "
                "or if one measured combination of columns holds all others. Leave them out of the "
                "plan: they change no release"
            )


def _columns(answers: Floats) -> Floats:
    return answers.reshape(len(answers), -1)


def _largest(solution: Solution) -> float:
    """Return the largest coefficient of what was measured."""
    return max(
        abs(float(b.weight)) if b.plain else float(abs(b.matrix).max()) for b in solution.blocks
    )
