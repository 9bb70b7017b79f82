"""Reconstruct: from a stored measurement to answers and their expected errors.

The measurement is public, so everything here is post-processing and spends nothing.  An
estimate belongs to a reader: it uses the blocks that this reader reconstructs from, all of
them for the curator.  A query outside their span is refused by name: which columns or values
the release does not tell apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray

from sqlmadp.answer.draws import simulated
from sqlmadp.errors import NotCoveredError
from sqlmadp.private import Measurement
from sqlmadp.schema.domain import Column, Domain
from sqlmadp.schema.marginal import Block, Marginal, Partition
from sqlmadp.workload.solver import Answers, Solver, solver_for

Matrix = NDArray[np.float64]

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

    @classmethod
    def of(
        cls, measurement: Measurement, domain: Domain, reads: Sequence[int] | None = None
    ) -> Estimate:
        """Return the estimate from the blocks numbered ``reads``, or from all of them."""
        chosen = range(len(measurement.blocks)) if reads is None else reads
        cuts: Mapping[str, list[float]] = measurement.metadata["cuts"]
        return cls(
            domain,
            tuple(recut(measurement.blocks[number], cuts, domain) for number in chosen),
            tuple(measurement.values[number].astype(np.float64) for number in chosen),
            2 * measurement.scale**2,
        )

    @cached_property
    def _solver(self) -> Solver:
        return solver_for(self.blocks)

    @cached_property
    def _answers(self) -> Answers:
        return self._solver.fit(self.values)

    def answers(self, block: Block) -> Matrix:
        """Return the best answer to every row of ``block``."""
        return self._covered(self._answers, block)

    @cached_property
    def _simulated(self) -> Answers:
        return self._solver.fit(simulated(self.values, self.noise_variance))

    def simulated(self, block: Block) -> Matrix:
        """Return the answers of simulated releases, one column each (see `draws`)."""
        return self._covered(self._simulated, block)

    def rmse(self, block: Block) -> Matrix:
        """Return the root of every row's expected squared error."""
        return np.sqrt(self.noise_variance * self._covered(self._solver.variances, block))

    def _covered(self, work: Answers, block: Block) -> Matrix:
        try:
            return work(block)
        except NotCoveredError:
            reason = not_covered(block, self.blocks, self.domain)
        raise NotCoveredError(reason)


def recut(block: Block, cuts: Mapping[str, list[float]], domain: Domain) -> Block:
    """Return a block measured at older ``cuts`` of the real columns over the domain's cells."""
    partitions = []
    for name, partition in zip(block.marginal.scope, block.marginal.partitions, strict=True):
        column = domain.column(name)
        if column.type == "real" and len(partition.labels) != column.size:
            partition = _recut(partition, column, cuts[name])  # noqa: PLW2901
        partitions.append(partition)
    return Block(Marginal(block.marginal.scope, tuple(partitions)), block.matrix)


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
