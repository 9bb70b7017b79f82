"""Post-processing that a plan may ask for: counts that are not negative, and that add up.

    nonnegative   least squares among estimates with no cell below zero      (`nonnegative`)
    consistent    integers that add up, in all cells of all tables           (`integer_rounding`)

Where one table holds all that was measured it may be large.
Both work on the estimate that all answers of a reader are worked out from, so whatever a statement
adds up agrees with every other statement.  They read the measurement and nothing else: they
spend nothing, change no release, and can be switched on and off at any time.  Under `independent`
every analyst has an estimate of their own; under every other mechanism there is one for all.

How answers spread is simulated with noise that is no release's: pseudo-random numbers in a fixed
sequence (SplitMix64, by counter), so that the same release always states the same errors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sqlmadp.answer.integer_rounding import Tables, running_sums_rounded
from sqlmadp.answer.nonnegative import NonNegative, OneTable, TableEstimate, largest
from sqlmadp.answer.sizes import DRAWS, HEAVY, MAX_CELLS, MAX_ENTRIES, MAX_OF_ONE
from sqlmadp.errors import UnfitPlanError
from sqlmadp.solve.products import ProductEstimate, ProductSolution, solution_of
from sqlmadp.solve.solution import Estimate, Solution
from sqlmadp.table.products import Products
from sqlmadp.table.rows import Rows
from sqlmadp.table.runs import Floats

Fitted = Estimate | ProductEstimate | TableEstimate
"""Whatever answers rows."""


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

    def check(self, blocks: Sequence[Rows]) -> None:
        """Raise UnfitPlanError if what these blocks measure is too large to be processed."""
        if self != Processing():
            _ = Processed(self, blocks).solver


class Processed:
    """A strategy that is solved once, for whatever values: variances, and processed estimates."""

    def __init__(self, processing: Processing, blocks: Sequence[Rows]) -> None:
        """Keep the blocks; nothing is factored until it is needed."""
        self._processing, self._blocks = processing, tuple(blocks)
        self._variances: dict[bytes, Floats] = {}

    @cached_property
    def solution(self) -> Solution | ProductSolution:
        """Least squares without any processing."""
        return solution_of(self._blocks)

    def variances(self, rows: Rows) -> Floats:
        """Return the variance of every answer before processing, for noise of variance 1."""
        key = rows.fingerprint
        if key not in self._variances:
            self._variances[key] = self.solution.variances(rows)
        return self._variances[key]

    @cached_property
    def noise(self) -> Fitted:
        """The estimates, without any processing, from noise of scale 1 alone, one per release."""
        return self.solution.estimate(unit_noise(self._blocks, DRAWS))

    def estimate(self, values: Sequence[Floats]) -> Fitted:
        """Return the processed estimate from the values of every block."""
        if self._processing == Processing():
            return self.solution.estimate(values)
        found = self._estimate(self.solver, values)
        return self._rounded(found) if self._processing.consistent else found

    def _estimate(self, solver: OneTable | NonNegative, values: Sequence[Floats]) -> Fitted:
        if self._processing.nonnegative:
            return solver.nonnegative(values)
        return solver.least_squares(values)

    @cached_property
    def _tables(self) -> Tables:
        return Tables(self._blocks)

    @cached_property
    def solver(self) -> OneTable | NonNegative:
        """What estimates cells; UnfitPlanError if they are too many."""
        tables, blocks = self._tables, self._blocks
        if tables.size > MAX_OF_ONE or any(_entries(block) > MAX_ENTRIES for block in blocks):
            raise _too_large(max(tables.size, *(block.size for block in blocks)))
        if self._is_one and (found := OneTable(blocks, tables.rows[0])).each_alone:
            return found
        if max(tables.size, *(block.size for block in blocks)) > MAX_CELLS:
            raise _too_large(tables.size)
        return NonNegative(self._written_out, tables.rows)

    @property
    def _is_flat(self) -> bool:
        return all(part.is_flat for block in self._blocks for part in block.parts)

    @property
    def _is_one(self) -> bool:
        """Whether one table of cells holds all that was measured."""
        return self._is_flat and len(self._tables.rows) == 1

    @property
    def _written_out(self) -> list[Rows]:
        return [
            Rows.of(block.scope, block.parts, block.matrix)
            if isinstance(block, Products)
            else block
            for block in self._blocks
        ]

    # Whole counts.

    def _rounded(self, found: Fitted) -> Fitted:
        """Return an estimate near the given one whose cells are integers that add up."""
        tables = self._tables
        wanted = [found.answers(rows) for rows in tables.rows]
        columns = np.vstack([each.reshape(len(each), -1) for each in wanted])
        if tables.size <= MAX_CELLS:
            counts = tables.rounded(columns, nonnegative=self._processing.nonnegative)
        else:
            counts = running_sums_rounded(columns)
        ends = np.cumsum([rows.size for rows in tables.rows])[:-1]
        whole = [
            own.reshape(each.shape)
            for own, each in zip(np.split(counts, ends), wanted, strict=True)
        ]
        if self._is_one:
            return TableEstimate(tables.rows[0], whole[0])
        if self._is_flat:  # All that was measured is made up of these counts.
            return self._of_counts.estimate(whole)
        kept = [found.answers(block) for block in self._blocks]
        goals = [h.weight * own for h, own in zip(self._heavy, whole, strict=True)]
        return self._estimate(self._along_counts, [*kept, *goals])

    @cached_property
    def _of_counts(self) -> Solution:
        return Solution(self._tables.rows)

    @cached_property
    def _heavy(self) -> list[Rows]:
        most = max(largest(block) for block in self._written_out)
        return [rows.times(HEAVY * most) for rows in self._tables.rows]

    @cached_property
    def _along_counts(self) -> NonNegative:
        """What fits sums along pieces to whole counts of their records."""
        return NonNegative([*self._written_out, *self._heavy], self._tables.rows)


def _entries(block: Rows) -> int:
    """Return how many numbers rows are made of once they are written out."""
    if isinstance(block, Products):
        return math.prod(int(factor.nnz) for factor in block.factors)
    return block.entries


def _too_large(size: int) -> UnfitPlanError:
    return UnfitPlanError(
        f"'nonnegative' and 'consistent' would work on {size:,} cells at once; at most "
        f"{MAX_CELLS:,} are supported, or {MAX_OF_ONE:,} if one measured combination of columns "
        "holds all others and each of its cells is measured alone. Leave them out of the plan: "
        "they change no release"
    )


def unit_noise(blocks: Sequence[Rows], draws: int) -> list[Floats]:
    """Return Laplace noise of scale 1 for all values of blocks, one column per release."""
    starts = np.cumsum([0, *(block.count for block in blocks)])
    return [
        np.column_stack([laplace(draw, int(start), block.count) for draw in range(draws)])
        for start, block in zip(starts, blocks, strict=False)
    ]


def laplace(draw: int, start: int, count: int) -> Floats:
    """Return ``count`` numbers of the Laplace distribution of scale 1, always the same ones."""
    uniform = _uniform(np.arange(start, start + count, dtype=np.uint64), draw)
    centred = uniform - 0.5
    return np.asarray(-np.sign(centred) * np.log1p(-2 * np.abs(centred)))


def _uniform(counter: NDArray[np.uint64], stream: int) -> Floats:
    """Return numbers strictly between 0 and 1 by SplitMix64 of a counter."""
    step, first, second = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
    offset = np.uint64((stream + 1) * 0xD1342543DE82EF95 % 2**64)
    z = counter * np.uint64(step) + offset
    z = (z ^ (z >> np.uint64(30))) * np.uint64(first)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(second)
    z = z ^ (z >> np.uint64(31))
    return ((z >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53
