"""Measure: the only way from the private table to anything that is shown.

    stored?  ->  budget?  ->  calibrate: recheck, sensitivity, scale  ->  catalogue  ->  tie
             ->  count, A x, noise  ->  one transaction: budget, charge, measurement
             ->  read back what was stored

One epsilon sets the noise and the charge, so the two cannot disagree.  Before the
transaction nothing leaves the process; after it the answers are paid for, and asking
again returns them, free.  `noisy_answers`, from a strategy and counts, is what audits try.

Guarantee  The measurements of one ledger together are budget-differentially private.
Requires   As in PROOF.md: an honest curator, one record (or as many as declared) a unit.
Numerics   Exact integers up to the noise; see `blocks`, `sensitivity` and `noise`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from sqlmadp.errors import InterfaceError, SourceError
from sqlmadp.private import noise
from sqlmadp.private import sensitivity as effect
from sqlmadp.private.blocks import checked_blocks, exact_answers
from sqlmadp.private.catalogue import check_catalogue
from sqlmadp.private.data_vector import read_cells
from sqlmadp.private.engines import Engine, Source, open_engine
from sqlmadp.private.ledger import Ledger
from sqlmadp.private.measurement import Measurement
from sqlmadp.private.tie import move_on, tie
from sqlmadp.schema.domain import Domain
from sqlmadp.schema.marginal import Block

READ_FAILED = (
    "the private table could not be read; nothing was spent and nothing is shown, and the same "
    "command can be run again. The reason is withheld, since it may depend on records: open the "
    "source with its own tools to find it. (If counting could need more memory than the plan's "
    "[limits] give it, raise 'memory' there)"
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Calibrated:
    """A strategy that may be measured, with the noise scale that one epsilon asks for."""

    blocks: tuple[Block, ...]
    epsilon: Fraction
    sensitivity: int
    scale: float


def measure(
    blocks: Sequence[Block],
    *,
    source: Source,
    domain: Domain,
    ledger: Ledger,
    release: str,
    epsilon: Fraction,
    analysts: Sequence[str],
    mechanism: str,
    metadata: Mapping[str, Any],
) -> Measurement:
    """Spend ``epsilon`` once and return noisy answers to every row of ``blocks``.

    ``release`` is the hash of what was asked.  A completed release returns what is stored,
    whatever the blocks are now, and spends nothing.
    """
    if not isinstance(epsilon, Fraction) or epsilon <= 0:
        raise InterfaceError(f"epsilon must be a positive Fraction, not {epsilon!r}")
    if (stored := ledger.find(release)) is not None:
        return stored  # Already paid for and published: the same answers, free.
    ledger.require(epsilon)  # A cheap refusal before any data is read.
    strategy = calibrate(blocks, domain=domain, epsilon=epsilon)
    msgspec.json.encode(metadata)  # What cannot be stored is refused before it is measured.
    engine = open_engine(source, table=domain.table)
    try:
        check_catalogue(engine, domain)
        tie(engine.identity, ledger)
        values = _noisy_answers_or_none(engine, domain, strategy)
    finally:
        engine.close()
    if values is None:
        raise SourceError(READ_FAILED)
    measurement = Measurement(
        release=release,
        blocks=strategy.blocks,
        values=values,
        epsilon=strategy.epsilon,
        sensitivity=strategy.sensitivity,
        scale=strategy.scale,
        metadata=metadata,
    )
    recorded = ledger.record(measurement, analysts=analysts, mechanism=mechanism)
    move_on(engine.identity, ledger)
    return recorded


def calibrate(blocks: Sequence[Block], *, domain: Domain, epsilon: Fraction) -> Calibrated:
    """Recheck a strategy, and work out its sensitivity and noise scale from nothing else."""
    checked = checked_blocks(blocks, domain)
    sensitivity = effect.l1_sensitivity(checked, domain)
    scale = noise.noise_scale(sensitivity, epsilon)
    return Calibrated(blocks=checked, epsilon=epsilon, sensitivity=sensitivity, scale=scale)


def noisy_answers(
    strategy: Calibrated, counts: Iterable[NDArray[np.int64]]
) -> tuple[NDArray[np.int64], ...]:
    """Return the noisy answers of one table, one array a block, from its exact counts."""
    exact = [exact_answers(*pair) for pair in zip(strategy.blocks, counts, strict=True)]
    noisy = noise.add_discrete_laplace(np.concatenate(exact), strategy.scale)
    ends = np.cumsum([len(answers) for answers in exact])
    return tuple(np.split(noisy, ends[:-1]))


def _noisy_answers_or_none(
    engine: Engine, domain: Domain, strategy: Calibrated
) -> tuple[NDArray[np.int64], ...] | None:
    """Return the noisy answers, or None if anything at all went wrong.

    An exception in here may quote a record.  It ends here, and the caller raises another
    once it is gone, so that no traceback is chained to it.
    """
    try:
        cells = read_cells(engine, domain, [block.marginal for block in strategy.blocks])
        # One block after the other: only one has a count for every cell at a time.
        return noisy_answers(strategy, (counts.dense() for counts in cells))
    except Exception:
        return None
