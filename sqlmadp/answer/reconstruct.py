"""Reconstruct: from stored measurements to answers and their expected errors.

A measurement is public, so everything here is post-processing and spends nothing.  An
estimate belongs to a reader: it uses the blocks that this reader reconstructs from, all of
them for the curator.  Several measurements, and several blocks of one, are weighed by their noise:
rows and values of each are scaled until all have the noise of the first, which makes least squares
over all of them the best unbiased estimate.  A query outside their span is refused by name: which
columns or values the release does not tell apart.

The noise of a measurement is known but for its values: independent Laplace of known scale.  A
*simulated release* adds such noise once more to the stored values, to see how answers spread.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse

from sqlmadp.answer.processing import Fitted, Processed, Processing, unit_noise
from sqlmadp.answer.sizes import DRAWS, SHOWN_VALUES
from sqlmadp.errors import NotCoveredError
from sqlmadp.private import Measurement
from sqlmadp.solve.column import NEGLIGIBLE
from sqlmadp.table.domain import Column, Domain
from sqlmadp.table.joint import components, has_joint, joined, realised
from sqlmadp.table.partition import Partition, common
from sqlmadp.table.rows import Rows
from sqlmadp.table.runs import Floats

Sums = Sequence[tuple[Rows, sparse.csr_array]]
"""Sums of answers, one per row of every matrix: rows, and what each answer to them is multiplied
by."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """What one reader of a measurement can work out from it."""

    domain: Domain
    """The domain at its present cuts."""
    blocks: tuple[Rows, ...]
    values: tuple[Floats, ...]
    noise_variance: float
    """Of every value."""
    processing: Processing = Processing()  # noqa: RUF009 - It never changes.
    draws: int = DRAWS
    """Simulated releases, for errors that are not known exactly."""

    @classmethod
    def of(
        cls,
        measurements: Sequence[Measurement],
        domain: Domain,
        reads: Sequence[int] | None = None,
        processing: Processing = Processing(),  # noqa: B008 - It never changes.
        draws: int = DRAWS,
    ) -> Estimate:
        """Return the estimate from the blocks numbered ``reads``, or from all of them.

        Blocks are numbered through all measurements.
        """
        blocks: list[Rows] = []
        values: list[Floats] = []
        scale = measurements[0].scale
        for measurement in measurements:
            for block, answers, own, grain in zip(
                measured_rows(measurement, domain),
                measurement.answers,
                measurement.scales,
                measurement.grains,
                strict=True,
            ):
                weight = scale / (own * grain.numerator / grain.denominator)
                blocks.append(weighed(block, weight))
                values.append(weight * answers)
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
        """Return this estimate with all that another one of the same strategy worked out."""
        self.__dict__["_solved"] = other._solved
        return self

    @cached_property
    def _solved(self) -> Processed:
        return Processed(self.processing, self.blocks)

    @cached_property
    def _estimated(self) -> Fitted:
        return self._solved.estimate(self.values)

    def answers(self, rows: Rows) -> Floats:
        """Return the best answer to every row."""
        return self._estimated.answers(self._covered(rows))

    @cached_property
    def _simulated(self) -> Fitted:
        start = self.values
        if self.processing.nonnegative:  # As if the processed estimate were the table.
            start = tuple(self._estimated.answers(block) for block in self.blocks)
        noise = unit_noise(self.blocks, self.draws)
        pairs = zip(start, noise, strict=True)
        return self._solved.estimate([own[:, None] + self._scale * each for own, each in pairs])

    @property
    def _scale(self) -> float:
        """The scale of Laplace noise."""
        return math.sqrt(self.noise_variance / 2)

    def simulated(self, rows: Rows) -> Floats:
        """Return the answers of simulated releases, one column each (see `draws`)."""
        rows = self._covered(rows)
        if self.processing != Processing():
            return self._simulated.answers(rows)
        noise = self._solved.noise.answers(rows)[:, : self.draws]
        return self._estimated.answers(rows)[:, None] + self._scale * noise

    def rmse(self, rows: Rows) -> Floats:
        """Return the root of every row's expected squared error.

        It is exact, but where no count may be below zero: then it is the distance, bias included,
        of simulated releases of the estimate, processed in the same way, from the estimate.
        """
        if self.processing.nonnegative:
            away = self.simulated(rows) - self.answers(rows)[:, None]
            return np.asarray(np.sqrt((away**2).mean(axis=1)))
        return np.sqrt(self.noise_variance * self._solved.variances(self._covered(rows)))

    def error(self, workload: Sequence[Rows]) -> float:
        """Return the sum of the variances of a workload's answers, before any post-processing."""
        [found] = self._solved.solution.errors([workload])
        return float(self.noise_variance * found)

    def sum_rmse(self, parts: Sums) -> Floats:
        """Return the same of sums of answers, exactly, before any post-processing."""
        try:
            found = self._solved.solution.sum_variances(_functions(parts))
        except NotCoveredError:
            covered = [(self._covered(rows), factors) for rows, factors in parts]
            found = self._solved.solution.sum_variances(_functions(covered))
        return np.sqrt(self.noise_variance * found)

    def _covered(self, rows: Rows) -> Rows:
        """Return rows that what was measured answers: these, or these over declared columns.

        NotCoveredError says why it answers neither.
        """
        for each in dict.fromkeys((rows, realised(rows))):
            with suppress(NotCoveredError):
                self._solved.variances(each)
                return each
        raise NotCoveredError(not_covered(rows, self.blocks, self.domain))


def _functions(parts: Sums) -> list[tuple[Rows, sparse.csr_array]]:
    return [(rows, sparse.csr_array(factors @ rows.matrix)) for rows, factors in parts]


def weighed(block: Rows, weight: float) -> Rows:
    """Return a block with its rows scaled to another noise."""
    return block if weight == 1 else block.times(weight)


def measured_rows(measurement: Measurement, domain: Domain) -> list[Rows]:
    """Return the rows that were measured over the domain's cells, and over joint columns again."""
    cuts: Mapping[str, list[float]] = measurement.metadata["cuts"]
    joint: Mapping[str, list[list[str]]] = measurement.metadata.get("joint", {})
    rows = [recut(block, cuts, domain) for block in measurement.blocks]
    return [
        joined(each, joint[str(number)]) if str(number) in joint else each
        for number, each in enumerate(rows)
    ]


def joint_scopes(blocks: Sequence[Rows]) -> dict[str, list[list[str]]]:
    """Return, by the numbers of blocks over joint columns, the declared columns of each column."""
    return {
        str(number): [list(components(column)) for column in block.scope]
        for number, block in enumerate(blocks)
        if has_joint(block.scope)
    }


def recut(block: Rows, cuts: Mapping[str, list[float]], domain: Domain) -> Rows:
    """Return a block measured at older ``cuts`` of the real columns over the domain's cells."""
    parts = []
    for name, part in zip(block.scope, block.parts, strict=True):
        column = domain.column(name)
        stale = column.type == "real" and len(part.pieces) != column.size
        parts.append(_recut(part, column, cuts[name]) if stale else part)
    if all(new is old for new, old in zip(parts, block.parts, strict=True)):
        return block
    return replace(block, parts=tuple(parts))


def _recut(part: Partition, column: Column, cuts: list[float]) -> Partition:
    old = replace(column, cuts=tuple(cuts))
    cells = [column.value(cell) for cell in range(column.declared)]
    former = [old.cell_of_real(value) for value in cells if isinstance(value, float)]
    if old.null_cell is not None:
        former.append(old.null_cell)
    return part.restricted(np.array(former))


def not_covered(rows: Rows, measured: Sequence[Rows], domain: Domain) -> str:
    """Say which columns or values of a query the measured blocks do not tell apart."""
    reasons = []
    rows = realised(rows)
    if has_joint(name for block in measured for name in block.scope):
        measured = [realised(block) for block in measured]
    for name, part in zip(rows.scope, rows.parts, strict=True):
        known = [b.parts[b.scope.index(name)] for b in measured if name in b.scope]
        if not known:
            reasons.append(f"column {name!r} is not part of what the release measured")
        else:
            reasons += _told_together(part, common(known), domain.column(name))
    if not reasons:
        names = " and ".join(repr(name) for name in rows.scope) or "the total"
        reasons.append(f"the release does not measure this combination of {names}")
    scopes = sorted({" x ".join(b.scope) or "the total" for b in measured})
    return f"{'; '.join(reasons)} (measured: {', '.join(scopes)})"


def _told_together(asked: Partition, known: Partition, column: Column) -> list[str]:
    """Say which values a query tells apart that the release does not, if it does."""
    missed = sparse.coo_array(asked.over(known) @ known.functions - asked.functions)
    cells = missed.coords[1][np.abs(missed.data) > NEGLIGIBLE]
    if not len(cells):
        return []
    piece = known.pieces[cells.min()]
    members = np.flatnonzero(known.pieces == piece)
    shown = ", ".join(column.describe(int(cell)) for cell in members[:SHOWN_VALUES])
    shown += ", ..." if len(members) > SHOWN_VALUES else ""
    if known.degrees[piece]:
        return [f"the release measures sums over the values {shown} of {column.name!r}, not each"]
    return [f"the release does not tell the values {shown} of {column.name!r} apart"]
