"""Components: a large trace split into small ones that do not meet.

    t(v) = trace(M X(v)^-1),    X(v) = sum_b v_b G_b,    v >= 0
    d t / d v_b = -trace(G_b X^-1 M X^-1)

M and all G_b are symmetric, positive semidefinite and sparse.  Coordinates that no entry of any of
them joins can be solved apart.  Many of the parts are alike, since what a workload treats alike
has equal entries: each kind is solved once and counted as often as it occurs.  Parts are
compared by random projections of their entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_solve, cholesky
from scipy.sparse.csgraph import connected_components

from sqlmadp.errors import NotCoveredError, NotSupportedError
from sqlmadp.schema.marginal import Labels
from sqlmadp.workload.factor import COVERED

Matrix = NDArray[np.float64]

DIGITS = 10
"""Digits to which parts of one kind agree."""

LARGEST_PART = 2048
"""Coordinates of one part up to which it is solved."""

DEPENDENT = 1e-10
"""Relative eigenvalue below which a direction is measured by no block."""


@dataclass(frozen=True, eq=False)
class Part:
    """One kind of part: M and every G_b on its coordinates, and how often it occurs."""

    workload: Matrix
    blocks: Matrix
    """One matrix a block."""
    copies: int


class Components:
    """The trace and its slopes, part by part."""

    def __init__(self, workload: sparse.csr_array, blocks: Sequence[sparse.csr_array]) -> None:
        """Split the coordinates; NotSupportedError if a part is too large."""
        joined = abs(workload)
        for block in blocks:
            joined = joined + abs(block)
        self.count = len(blocks)
        labels = connected_components(joined, directed=False)[1].astype(np.int64)
        largest = int(np.bincount(labels).max(initial=0))
        if largest > LARGEST_PART:
            raise NotSupportedError(
                f"{largest:,} coordinates hang together; at most {LARGEST_PART:,} are supported"
            )
        self.parts = tuple(_kinds([workload, *blocks], labels))

    def trace_and_slopes(self, squares: Matrix) -> tuple[float, Matrix]:
        """Return ``t(squares)`` and its derivative by every square; all squares above 0."""
        trace, slopes = 0.0, np.zeros(self.count)
        for part in self.parts:
            information = np.tensordot(squares, part.blocks, 1)
            factor = (cholesky(information, lower=True, check_finite=False), True)
            half = cho_solve(factor, part.workload, check_finite=False)
            pull = cho_solve(factor, half.T, check_finite=False)
            trace += part.copies * float(np.trace(half))
            slopes -= part.copies * np.tensordot(part.blocks, pull, 2)
        return trace, slopes


def _kinds(matrices: Sequence[sparse.csr_array], labels: Labels) -> Iterator[Part]:
    """Yield each kind of part once, on what its blocks measure."""
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels)
    starts = np.cumsum(sizes) - sizes
    within = np.empty(len(labels), dtype=np.int64)
    within[order] = np.arange(len(labels)) - starts[labels[order]]
    keys = np.column_stack([sizes, _projections(matrices, labels, within)])
    _, first, copies = np.unique(keys, axis=0, return_index=True, return_counts=True)
    for kind, count in zip(first, copies, strict=True):
        places = order[starts[kind] : starts[kind] + sizes[kind]]
        dense = np.array([matrix[places][:, places].toarray() for matrix in matrices])
        part = _regular(dense, int(count))
        if not np.allclose(np.trace(part.workload), np.trace(dense[0]), rtol=COVERED, atol=0):
            raise NotCoveredError("a query is no combination of what these blocks measure")
        if len(part.workload):
            yield part


def _projections(matrices: Sequence[sparse.csr_array], labels: Labels, within: Labels) -> Matrix:
    """Return two numbers for every part and matrix that equal parts share, rounded."""
    number, largest = int(labels.max()) + 1, int(within.max()) + 1
    columns = []
    for matrix in matrices:
        entries = sparse.coo_array(matrix)
        rows, places = entries.coords
        for turn in range(2):
            # Any numbers without a pattern do, as long as they are the same for every part.
            weights = np.modf(np.sqrt(2.0 + turn + np.arange(2 * largest)) * 997)[0]
            terms = entries.data * weights[within[rows]] * weights[largest + within[places]]
            sums = np.bincount(labels[rows], terms, number)
            columns.append(np.round(sums / max(np.abs(sums).max(initial=0), 1e-300), DIGITS))
    return np.column_stack(columns)


def _regular(dense: Matrix, copies: int) -> Part:
    """Return a part on the directions that some block measures."""
    values, vectors = np.linalg.eigh(dense[1:].sum(axis=0))
    measured = values > DEPENDENT * max(values[-1], 0.0)
    if not measured.all():
        basis = vectors[:, measured]
        dense = np.einsum("ia,bij,jc->bac", basis, dense, basis, optimize=True)
    return Part(dense[0], dense[1:], copies)
