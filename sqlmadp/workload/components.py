"""Components: large traces split into small ones that do not meet.

    t_j(v) = trace(M_j X(v)^-1),    X(v) = sum_b v_b G_b,    v >= 0
    d t_j / d v_b = -trace(G_b X^-1 M_j X^-1)

for several workloads M_j.  All matrices are symmetric, positive semidefinite and sparse.
Coordinates that no entry of any G_b joins are apart in ``X^-1`` too: they can be solved apart, and
entries of M_j between two parts meet zeros.  Many parts are alike, since what workloads treat
alike has equal entries: each kind is solved once and counted as often as it occurs, and kinds of
one size are solved at once.  Parts are compared by random projections of their entries.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
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
class Parts:
    """Kinds of parts that have one size: every M_j and G_b on them, and how often each occurs."""

    workloads: Matrix
    """One matrix a workload and kind."""
    blocks: Matrix
    """One matrix a block and kind."""
    copies: Matrix

    @property
    def size(self) -> int:
        """Return the number of coordinates of one part."""
        return int(self.blocks.shape[-1])


class Components:
    """The traces and their slopes, part by part."""

    def __init__(
        self, workloads: Sequence[sparse.csr_array], blocks: Sequence[sparse.csr_array]
    ) -> None:
        """Split the coordinates; NotSupportedError if a part is too large."""
        joined = abs(blocks[0])
        for block in blocks[1:]:
            joined = joined + abs(block)
        self.count = len(blocks)
        labels = connected_components(joined, directed=False)[1].astype(np.int64)
        largest = int(np.bincount(labels).max(initial=0))
        if largest > LARGEST_PART:
            raise NotSupportedError(
                f"{largest:,} coordinates hang together; at most {LARGEST_PART:,} are supported"
            )
        inside = [_inside(matrix, labels) for matrix in (*workloads, *blocks)]
        sizes: dict[int, list[tuple[Matrix, int]]] = {}
        for dense, copies in _kinds(inside, labels, len(workloads)):
            sizes.setdefault(dense.shape[-1], []).append((dense, copies))
        self.parts = tuple(_batch(kinds, len(workloads)) for _, kinds in sorted(sizes.items()))

    def inverses(self, squares: Matrix) -> list[Matrix]:
        """Return ``X(squares)^-1`` on all parts; all squares above 0."""
        found = []
        for part in self.parts:
            information = np.tensordot(squares, part.blocks, 1)
            half = np.linalg.inv(np.linalg.cholesky(information))
            found.append(half.transpose(0, 2, 1) @ half)
        return found

    def traces(self, inverses: Sequence[Matrix]) -> Matrix:
        """Return ``t_j`` of every workload."""
        traces = [
            np.tensordot(part.workloads, inverse * part.copies[:, None, None], 3)
            for part, inverse in zip(self.parts, inverses, strict=True)
        ]
        return np.asarray(np.sum(traces, axis=0))

    def slopes(self, inverses: Sequence[Matrix], factors: Matrix) -> Matrix:
        """Return the derivative of ``sum_j factors_j t_j`` by every square."""
        slopes = np.zeros(self.count)
        for part, inverse in zip(self.parts, inverses, strict=True):
            workload = np.tensordot(factors, part.workloads, 1)
            pull = (inverse @ workload @ inverse) * part.copies[:, None, None]
            slopes -= np.tensordot(part.blocks, pull, 3)
        return slopes

    def trace_and_slopes(self, squares: Matrix) -> tuple[float, Matrix]:
        """Return the sum of all traces, and its derivative by every square."""
        inverses = self.inverses(squares)
        traces = self.traces(inverses)
        return float(traces.sum()), self.slopes(inverses, np.ones(len(traces)))


def _inside(matrix: sparse.csr_array, labels: Labels) -> sparse.csr_array:
    """Return the entries inside parts."""
    entries = sparse.coo_array(matrix)
    rows, columns = entries.coords
    kept = labels[rows] == labels[columns]
    parts = (entries.data[kept], (rows[kept], columns[kept]))
    return sparse.csr_array(parts, shape=matrix.shape)


def _kinds(
    matrices: Sequence[sparse.csr_array], labels: Labels, workloads: int
) -> Iterator[tuple[Matrix, int]]:
    """Yield each kind of part once, on what its blocks measure, and how often it occurs."""
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels)
    starts = np.cumsum(sizes) - sizes
    within = np.empty(len(labels), dtype=np.int64)
    within[order] = np.arange(len(labels)) - starts[labels[order]]
    keys = np.column_stack([sizes, _projections(matrices, labels, within)])
    _, first, copies = np.unique(keys, axis=0, return_index=True, return_counts=True)
    number = np.full(len(sizes), -1, dtype=np.int64)
    number[first] = np.arange(len(first))
    dense = [np.zeros((len(matrices), size, size)) for size in sizes[first]]
    for place, matrix in enumerate(matrices):
        entries = sparse.coo_array(matrix)
        rows, columns = entries.coords
        kinds = number[labels[rows]]
        chosen = np.flatnonzero(kinds >= 0)
        chosen = chosen[np.argsort(kinds[chosen], kind="stable")]
        ends = np.searchsorted(kinds[chosen], np.arange(len(first) + 1))
        for kind, (start, end) in enumerate(itertools.pairwise(ends)):
            some = chosen[start:end]
            dense[kind][place, within[rows[some]], within[columns[some]]] = entries.data[some]
    for part, count in zip(dense, copies, strict=True):
        measured = _regular(part, workloads)
        asked = np.trace(part[:workloads], axis1=1, axis2=2)
        kept = np.trace(measured[:workloads], axis1=1, axis2=2)
        if not np.allclose(kept, asked, rtol=COVERED, atol=0):
            raise NotCoveredError("a query is no combination of what these blocks measure")
        if measured.shape[-1]:
            yield measured, int(count)


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


def _regular(dense: Matrix, workloads: int) -> Matrix:
    """Return a part on the directions that some block measures."""
    values, vectors = np.linalg.eigh(dense[workloads:].sum(axis=0))
    measured = values > DEPENDENT * max(values[-1], 0.0)
    if measured.all():
        return dense
    basis = vectors[:, measured]
    return np.asarray(basis.T @ dense @ basis)


def _batch(kinds: Sequence[tuple[Matrix, int]], workloads: int) -> Parts:
    """Return kinds of one size together."""
    dense = np.stack([each for each, _ in kinds], axis=1)
    copies = np.array([count for _, count in kinds], dtype=np.float64)
    return Parts(dense[:workloads], dense[workloads:], copies)
