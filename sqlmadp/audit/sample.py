"""Sample: very many measurements of one table, through the boundary's own seam.

`private.measure.calibrate` and `noisy_answers` are what a release runs between the counts and
the ledger.  Calling them once a measurement would take hours, so the table is laid out many
times, side by side, in copies that one more column tells apart.  A record lies in one copy, so
each copy's answers are a measurement of their own, with the sensitivity, scale and noise that
the boundary itself works out:

    blocks of the copies = I (x) A        sensitivity(I (x) A) = sensitivity(A)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy import sparse

from sqlmadp.audit.bound import Answers
from sqlmadp.audit.cases import Case
from sqlmadp.private.measure import calibrate, noisy_answers
from sqlmadp.table.domain import Column, Domain
from sqlmadp.table.partition import Partition
from sqlmadp.table.products import Products
from sqlmadp.table.rows import Rows

COPIES = 2_000
"""Measurements that one call makes."""

_COPY = " copy"  # Sorts before every name, so that copies lie one after the other.


def sample(
    case: Case, table: int, measurements: int, progress: Callable[[int], None] = lambda _: None
) -> Answers:
    """Return at least so many measurements of one table of a case, one a row."""
    domain, blocks = _copied(case)
    strategy = calibrate(blocks, domain=domain, epsilon=case.epsilon)
    counts = [np.tile(each, COPIES) for each in case.sums[table]]
    samples = []
    for _ in range(-(-measurements // COPIES)):
        answers = noisy_answers(strategy, counts)
        samples.append(np.hstack([each.reshape(COPIES, -1) for each in answers]))
        progress(COPIES)
    return np.vstack(samples)


def _copied(case: Case) -> tuple[Domain, list[Rows]]:
    copy = Column(name=_COPY, type="integer", minimum=0, maximum=COPIES - 1, complete=True)
    domain = replace(case.domain, columns=(copy, *case.domain.columns))
    copies = Partition.finest(COPIES)
    identity = sparse.eye_array(COPIES, dtype=np.int64, format="csr")
    blocks: list[Rows] = []
    for block in case.blocks:
        scope, parts = (_COPY, *block.scope), (copies, *block.parts)
        if isinstance(block, Products):
            heights = np.stack([block.heights.astype(np.int64)] * COPIES)
            blocks.append(Products(scope, parts, 0, None, (identity, *block.factors), heights))
            continue
        matrix = sparse.csr_array(sparse.kron(identity, block.matrix, format="csr"))
        blocks.append(Rows(scope, parts, 0, matrix.astype(np.int64)))
    return domain, blocks
