"""Reconstruct: from stored measurements to answers and their expected errors.

A measurement is public, so everything here is post-processing and spends nothing.  An
estimate belongs to a reader: it uses the blocks that this reader reconstructs from, all of
them for the curator.  Several measurements are weighed by their noise: rows and values of each are
scaled until all have the noise of the first, which makes least squares over all of them the best
unbiased estimate.  A query outside their span is refused by name: which columns or values
the release does not tell apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.answer.draws import COUNT, simulated
from sqlmadp.answer.processing import Processing
from sqlmadp.errors import NotCoveredError
from sqlmadp.private import Measurement
from sqlmadp.schema.domain import Column, Domain
from sqlmadp.schema.kronecker import relabelled, scaled
from sqlmadp.schema.marginal import Block, Marginal, Partition
from sqlmadp.table.old_blocks import as_blocks
from sqlmadp.workload.solver import Answers, Solver

Matrix = NDArray[np.float64]
Found = TypeVar("Found")

SHOWN = 5
"""Values of a column that a message lists at most."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """What one reader of a measurement can work out from it."""

    domain: Domain
    """The domain at its present cuts."""
    blocks: tuple[Block, ...]
    values: tuple[Matrix, ...]
    noise_variance: float
    processing: Processing = Processing()  # noqa: RUF009 - It never changes.
    draws: int = COUNT
    """Simulated releases, for errors that are not known exactly."""

    @classmethod
    def of(
        cls,
        measurements: Sequence[Measurement],
        domain: Domain,
        reads: Sequence[int] | None = None,
        processing: Processing = Processing(),  # noqa: B008 - It never changes.
        draws: int = COUNT,
    ) -> Estimate:
        """Return the estimate from the blocks numbered ``reads``, or from all of them.

        Blocks are numbered through all measurements.
        """
        blocks: list[Block] = []
        values: list[Matrix] = []
        scale = measurements[0].scale
        for measurement in measurements:
            cuts: Mapping[str, list[float]] = measurement.metadata["cuts"]
            weight = scale / measurement.scale
            known = as_blocks(measurement.blocks)
            blocks += [weighed(recut(b, cuts, domain), weight) for b in known]
            values += [weight * answers for answers in measurement.answers]
        chosen = range(len(blocks)) if reads is None else reads
        return cls(
            domain,
            tuple(blocks[number] for number in chosen),
            tuple(values[number] for number in chosen),
            2 * scale**2,
            processing,
            draws,
        )

    def solved_like(self, other: Estimate) -> Estimate:
        """Return this estimate with the solver of another one of the same strategy."""
        self.__dict__["_solver"] = other._solver
        return self

    @cached_property
    def _solver(self) -> Solver:
        return self.processing.solver(self.blocks)

    @cached_property
    def _estimated(self) -> Matrix:
        return self.processing.apply(self._solver, self.values)

    @cached_property
    def _answers(self) -> Answers:
        return self._solver.answers(self._estimated)

    def answers(self, block: Block) -> Matrix:
        """Return the best answer to every row of ``block``."""
        return self._covered(self._answers, block)

    @cached_property
    def _simulated(self) -> Answers:
        start = self.values
        if self.processing.nonnegative:  # As if the processed estimate were the table.
            start = self._solver.fitted(self._estimated)
        values = simulated(start, self.noise_variance, self.draws)
        return self._solver.answers(self.processing.apply(self._solver, values))

    def simulated(self, block: Block) -> Matrix:
        """Return the answers of simulated releases, one column each (see `draws`)."""
        return self._covered(self._simulated, block)

    def rmse(self, block: Block) -> Matrix:
        """Return the root of every row's expected squared error.

        It is exact, but where no count may be below zero: then it is the distance, bias included,
        of simulated releases of the estimate, processed in the same way, from the estimate.
        """
        if self.processing.nonnegative:
            away = self.simulated(block) - self.answers(block)[:, None]
            return np.asarray(np.sqrt((away**2).mean(axis=1)))
        return np.sqrt(self.noise_variance * self._covered(self._solver.variances, block))

    def noise(self, block: Block) -> Matrix | sparse.csr_array:
        """Return the noise of every answer over independent ones, so that products are covariances.

        Before any post-processing, as ``rmse`` is.
        """
        noise: Matrix | sparse.csr_array = self._covered(self._solver.noise, block)
        return noise * math.sqrt(self.noise_variance)

    def _covered(self, work: Callable[[Block], Found], block: Block) -> Found:
        try:
            return work(block)
        except NotCoveredError:
            reason = not_covered(block, self.blocks, self.domain)
        raise NotCoveredError(reason)


def weighed(block: Block, weight: float) -> Block:
    """Return a block with its rows scaled to another noise."""
    return block if weight == 1 else scaled(block, weight)


def recut(block: Block, cuts: Mapping[str, list[float]], domain: Domain) -> Block:
    """Return a block measured at older ``cuts`` of the real columns over the domain's cells."""
    partitions = []
    for name, partition in zip(block.marginal.scope, block.marginal.partitions, strict=True):
        column = domain.column(name)
        if column.type == "real" and len(partition.labels) != column.size:
            partition = _recut(partition, column, cuts[name])  # noqa: PLW2901
        partitions.append(partition)
    marginal = Marginal(block.marginal.scope, tuple(partitions))
    return block if marginal == block.marginal else relabelled(block, marginal)


def _recut(partition: Partition, column: Column, cuts: list[float]) -> Partition:
    old = replace(column, cuts=tuple(cuts))
    cells = [column.value(cell) for cell in range(column.declared)]
    former = [old.cell_of_real(value) for value in cells if isinstance(value, float)]
    if old.null_cell is not None:
        former.append(old.null_cell)
    return Partition(partition.labels[np.array(former)])


def not_covered(block: Block, measured: Sequence[Block], domain: Domain) -> str:
    """Say which columns or values of a query the measured blocks do not tell apart."""
    reasons = []
    for name, partition in zip(block.marginal.scope, block.marginal.partitions, strict=True):
        parts = [
            b.marginal.partitions[b.marginal.scope.index(name)]
            for b in measured
            if name in b.marginal.scope
        ]
        if not parts:
            reasons.append(f"column {name!r} is not part of what the release measured")
            continue
        together = _merged_values(partition, reduce(Partition.refine, parts), domain.column(name))
        if together:
            reasons.append(f"the release does not tell the values {together} of {name!r} apart")
    if not reasons:
        names = " and ".join(repr(name) for name in block.marginal.scope) or "the total"
        reasons.append(f"the release does not measure this combination of {names}")
    known = sorted({" x ".join(b.marginal.scope) or "the total" for b in measured})
    return f"{'; '.join(reasons)} (measured: {', '.join(known)})"


def _merged_values(asked: Partition, known: Partition, column: Column) -> str:
    """Return values that the query tells apart and the release does not, as text."""
    for group in range(known.size):
        cells = np.flatnonzero(known.labels == group)
        if len(np.unique(asked.labels[cells])) > 1:
            shown = [column.describe(int(cell)) for cell in cells[:SHOWN]]
            return ", ".join(shown) + (", ..." if len(cells) > SHOWN else "")
    return ""
