"""Measure: the only way from the private table to anything that is shown.

    stored?  ->  budget?  ->  calibrate: recheck, sensitivity, scales  ->  catalogue
             ->  announce  ->  make the ledger, if there is none  ->  bind
             ->  count, A x, noise  ->  one transaction: budget, charge, measurement
             ->  read back what was stored

One epsilon sets the noise and the charge, so the two cannot disagree.  Before the
transaction nothing leaves the process; after it the answers are paid for, and asking
again returns them, free.  `noisy_answers`, from a strategy and counts, is what audits try.

Guarantee  The measurements of one ledger together are budget-differentially private.
Requires   As in PROOF.md: an honest curator, one record, or as many as declared, per unit.
Numerics   Exact integers up to the noise; see `blocks`, `sensitivity` and `noise`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from sqlmadp.errors import InterfaceError, SourceError
from sqlmadp.private import noise
from sqlmadp.private import sensitivity as effect
from sqlmadp.private.blocks import checked_blocks, coarseness, exact_answers, grain, rounding
from sqlmadp.private.data_vector import read_sums
from sqlmadp.private.engines import Engine, Source, open_engine
from sqlmadp.private.engines.catalogue import check_catalogue
from sqlmadp.private.ledger import Ledger
from sqlmadp.private.ledger_binding import (
    NOTED,
    Notice,
    bind,
    check_binding,
    stored,
    update_notes,
)
from sqlmadp.private.measurement import Measurement
from sqlmadp.table.domain import Domain
from sqlmadp.table.rows import Rows

READ_FAILED = (
    "the private table could not be read; nothing was spent and nothing is shown, and the same "
    "command can be run again. The reason is withheld, since it may depend on records: open the "
    "source with its own tools to find it. If counting may need more memory, raise 'memory' under "
    "[limits] in the plan"
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Calibrated:
    """A strategy that may be measured, with the noise scales that one epsilon asks for."""

    blocks: tuple[Rows, ...]
    epsilon: Fraction
    sensitivity: int
    scales: tuple[float, ...]
    """One per block."""


def measure(
    blocks: Sequence[Rows],
    *,
    source: Source,
    domain: Domain,
    ledger: Ledger,
    release: str,
    epsilon: Fraction,
    analysts: Sequence[str],
    mechanism: str,
    metadata: Mapping[str, Any],
    notice: Notice = lambda _: None,
    announce: Callable[[], None] = lambda: None,
) -> Measurement:
    """Spend ``epsilon`` once and return noisy answers to every row of ``blocks``.

    ``release`` is the hash of what was asked.  A completed release returns what is stored,
    whatever the blocks are now, and spends nothing.  ``announce`` is called once nothing can
    refuse the release any more, before a record is read; if it raises, nothing is spent.
    """
    if not isinstance(epsilon, Fraction) or epsilon <= 0:
        raise InterfaceError(f"epsilon must be a positive Fraction, not {epsilon!r}")
    if (known := stored(ledger, release, notice)) is not None:
        return known  # Already paid for and published: the same answers, free.
    ledger.require(epsilon)  # A cheap refusal before any data is read.
    strategy = calibrate(blocks, domain=domain, epsilon=epsilon)
    msgspec.json.encode(metadata)  # What cannot be stored is refused before it is measured.
    engine = open_engine(source, table=domain.table)
    try:
        check_catalogue(engine, domain)
        names = engine.identity.names
        check_binding(engine.identity, ledger)
        announce()
        ledger.make()
        if (known := stored(ledger, release, notice)) is not None:
            return known  # Another process completed it while this one prepared.
        ledger.require(epsilon)  # Its name is on the disk before anything is charged to it.
        bind(engine.identity, ledger)
        values = _noisy_answers_or_none(engine, domain, strategy)
    finally:
        engine.close()
    if values is None:
        raise SourceError(READ_FAILED)
    measurement = Measurement(
        release=release,
        blocks=strategy.blocks,
        values=values,
        grains=tuple(grain(block) for block in strategy.blocks),
        scales=strategy.scales,
        epsilon=strategy.epsilon,
        sensitivity=strategy.sensitivity,
        metadata={**metadata, NOTED: names},
    )
    recorded = ledger.record(measurement, analysts=analysts, mechanism=mechanism)
    update_notes(names, ledger, notice)
    return recorded


def calibrate(blocks: Sequence[Rows], *, domain: Domain, epsilon: Fraction) -> Calibrated:
    """Recheck a strategy, and work out its sensitivity and noise scales from nothing else.

    In units of the rows, a record moves the answers of all blocks together by at most the
    sensitivity, and by what rounding adds.  The loss is the sum over blocks of change / scale, so
    the scale of every block, in units of its grain, is ``moves / (grain * epsilon)``.
    """
    checked = checked_blocks(blocks, domain)
    sensitivity = effect.l1_sensitivity(checked, domain)
    largest = [effect.l1_sensitivity([block], domain) for block in checked]
    added = [own * rounding(block) for own, block in zip(largest, checked, strict=True)]
    moves = sensitivity + sum(added, Fraction(0))
    scales = []
    for block, own, more in zip(checked, largest, added, strict=True):
        change = math.ceil((own + more) / grain(block))  # The block's own largest one.
        scales.append(noise.noise_scale(change, epsilon * change * grain(block) / moves))
    return Calibrated(
        blocks=checked, epsilon=epsilon, sensitivity=sensitivity, scales=tuple(scales)
    )


def noisy_answers(
    strategy: Calibrated, sums: Iterable[NDArray[np.int64]]
) -> tuple[NDArray[np.int64], ...]:
    """Return the noisy answers of one table, one array per block, from its data vectors."""
    exact = [exact_answers(*pair) for pair in zip(strategy.blocks, sums, strict=True)]
    noisy = list(exact)
    by_scale: dict[float, list[int]] = {}
    for number, scale in enumerate(strategy.scales):
        by_scale.setdefault(scale, []).append(number)
    for scale, own in by_scale.items():  # All draws of one scale at once: it is faster.
        drawn = noise.add_discrete_laplace(np.concatenate([exact[n] for n in own]), scale)
        ends = np.cumsum([len(exact[number]) for number in own])
        for number, answers in zip(own, np.split(drawn, ends[:-1]), strict=True):
            noisy[number] = answers
    return tuple(noisy)


def _noisy_answers_or_none(
    engine: Engine, domain: Domain, strategy: Calibrated
) -> tuple[NDArray[np.int64], ...] | None:
    """Return the noisy answers, or None if anything at all went wrong.

    An exception in here may quote a record.  It ends here, and the caller raises another
    once it is gone, so that no traceback is chained to it.
    """
    try:
        found = read_sums(engine, domain, strategy.blocks)
        # One block after the other: only one has a sum for every vertex at a time.
        pairs = zip(found, strategy.blocks, strict=True)
        return noisy_answers(strategy, (sums.dense(coarseness(block)) for sums, block in pairs))
    except Exception:
        return None
