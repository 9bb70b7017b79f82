"""Components: large traces split into small ones that do not meet.

    t_j(v) = trace(M_j X(v)^-1),    X(v) = sum_b v_b G_b,    v >= 0
    d t_j / d v_b = -trace(G_b X^-1 M_j X^-1)

for several workloads M_j.  All matrices are symmetric, positive semidefinite and sparse.
Coordinates that no entry of any G_b joins are apart in ``X^-1`` too: they can be solved apart, and
entries of M_j between two parts meet zeros.  Many parts are alike, since what workloads treat
alike has equal entries: each kind is solved once and counted as often as it occurs, and kinds of
one size are solved at once.  Even on parts, few entries of most matrices are not zero.  Parts are
compared by random projections of their entries.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.sparse.csgraph import connected_components

from sqlmadp.errors import NotCoveredError, NotSupportedError
from sqlmadp.schema.marginal import Labels
from sqlmadp.workload.factor import COVERED

Matrix = NDArray[np.float64]

DIGITS = 10
"""Digits to which parts of one kind agree."""

LARGEST_PART = 2048
"""Coordinates of one part up to which it is solved."""

LARGE = 16
"""Coordinates of one part from which on inverting parts one by one is faster."""

DEPENDENT = 1e-10
"""Relative eigenvalue below which a direction is measured by no block."""


@dataclass(frozen=True, eq=False)
class _Rows:
    """Sparse matrices, one a row: its entries on all kinds, one after the other."""

    rows: sparse.csr_array
    columns: sparse.csr_array
    """The same, transposed."""

    @classmethod
    def of(cls, rows: sparse.csr_array) -> _Rows:
        return cls(rows, sparse.csr_array(rows.T))


@dataclass(frozen=True, eq=False)
class Parts:
    """Kinds of parts that have one size: every M_j and G_b on them, and how often each occurs."""

    workloads: _Rows
    blocks: _Rows
    copies: Matrix
    size: int
    """Coordinates of one part."""

    @classmethod
    def of(cls, kinds: Sequence[_Kind], workloads: int) -> Parts:
        """Return kinds of one size together; the first of their matrices are workloads."""
        rows = sparse.csr_array(sparse.hstack([kind.rows for kind in kinds]))
        copies = np.array([kind.copies for kind in kinds], dtype=np.float64)
        asked, measured = _Rows.of(rows[:workloads]), _Rows.of(rows[workloads:])
        return cls(asked, measured, copies, kinds[0].size)

    def weighed(self, matrices: _Rows, weights: Matrix) -> Matrix:
        """Return the weighted sum of matrices, one a kind."""
        return np.asarray(matrices.columns @ weights).reshape(-1, self.size, self.size)

    def times(self, matrices: Matrix) -> Matrix:
        """Return entries on all kinds, each counted as often as it occurs."""
        return np.asarray(matrices * self.copies[:, None, None]).reshape(-1)


class Components:
    """The traces and their slopes, part by part."""

    def __init__(
        self, workloads: Sequence[sparse.csr_array], blocks: Sequence[sparse.csr_array]
    ) -> None:
        """Split the coordinates; NotSupportedError if a part is too large."""
        self.count = len(blocks)
        labels = parts_of(blocks)
        matrices = [*workloads, *blocks]
        sizes: dict[int, list[_Kind]] = {}
        for kind in _kinds(_stack(matrices), labels, len(matrices)):
            measured = _measured(kind, len(workloads))
            if measured.size:
                sizes.setdefault(measured.size, []).append(measured)
        self.parts = tuple(Parts.of(kinds, len(workloads)) for _, kinds in sorted(sizes.items()))

    def inverses(self, squares: Matrix) -> list[Matrix]:
        """Return ``X(squares)^-1`` on all parts; all squares above 0."""
        found = []
        for part in self.parts:
            information = part.weighed(part.blocks, squares)
            if part.size >= LARGE:
                found.append(np.stack([inverse(each) for each in information]))
            else:
                half = np.linalg.inv(np.linalg.cholesky(information))
                found.append(half.transpose(0, 2, 1) @ half)
        return found

    def traces(self, inverses: Sequence[Matrix]) -> Matrix:
        """Return ``t_j`` of every workload."""
        traces = [
            part.workloads.rows @ part.times(inverted)
            for part, inverted in zip(self.parts, inverses, strict=True)
        ]
        return np.asarray(np.sum(traces, axis=0))

    def slopes(self, inverses: Sequence[Matrix], factors: Matrix) -> Matrix:
        """Return the derivative of ``sum_j factors_j t_j`` by every square."""
        slopes = np.zeros(self.count)
        for part, inverted in zip(self.parts, inverses, strict=True):
            workload = part.weighed(part.workloads, factors)
            slopes -= part.blocks.rows @ part.times(inverted @ workload @ inverted)
        return slopes

    def trace(self, squares: Matrix) -> float:
        """Return the sum of all traces."""
        return float(self.traces(self.inverses(squares)).sum())

    def trace_and_slopes(self, squares: Matrix) -> tuple[float, Matrix]:
        """Return the sum of all traces, and its derivative by every square."""
        inverses = self.inverses(squares)
        traces = self.traces(inverses)
        return float(traces.sum()), self.slopes(inverses, np.ones(len(traces)))


def parts_of(blocks: Sequence[sparse.csr_array]) -> Labels:
    """Return the part of every coordinate; NotSupportedError if one is too large."""
    joined = _stack(blocks)
    pattern = (np.ones(len(joined.data)), (joined.rows, joined.columns))
    meeting = sparse.csr_array(pattern, shape=blocks[0].shape)
    labels: Labels = connected_components(meeting, directed=False)[1].astype(np.int64)
    largest = int(np.bincount(labels).max(initial=0))
    if largest > LARGEST_PART:
        raise NotSupportedError(
            f"{largest:,} coordinates hang together; at most {LARGEST_PART:,} are supported"
        )
    return labels


def inverse(matrix: Matrix) -> Matrix:
    """Return the inverse of a positive definite matrix."""
    factor, wrong = dpotrf(matrix.T, lower=True)  # Symmetric, and in the order that LAPACK reads.
    if wrong:
        raise np.linalg.LinAlgError("a part is not positive definite")
    lower = np.tril(dpotri(factor, lower=True, overwrite_c=True)[0])
    whole = lower + lower.T
    whole[np.diag_indices(len(whole))] /= 2
    return np.asarray(whole)


@dataclass(frozen=True, eq=False)
class _Entries:
    """The entries of several sparse matrices."""

    number: Labels
    """The matrix of every entry."""
    rows: Labels
    columns: Labels
    data: Matrix

    def some(self, chosen: NDArray[np.bool_] | Labels) -> _Entries:
        """Return some of the entries."""
        places = (self.number[chosen], self.rows[chosen], self.columns[chosen])
        return _Entries(*places, self.data[chosen])


def _stack(matrices: Sequence[sparse.csr_array]) -> _Entries:
    counts = [matrix.nnz for matrix in matrices]
    every = np.arange(matrices[0].shape[0])
    rows = np.concatenate([np.repeat(every, np.diff(matrix.indptr)) for matrix in matrices])
    columns = np.concatenate([matrix.indices for matrix in matrices]).astype(np.int64)
    data = np.concatenate([matrix.data for matrix in matrices])
    return _Entries(np.repeat(np.arange(len(matrices)), counts), rows, columns, data)


@dataclass(frozen=True, eq=False)
class _Kind:
    """All matrices on one part, and how many parts are like it."""

    rows: sparse.csr_array
    """One matrix a row."""
    size: int
    copies: int


def _kinds(entries: _Entries, labels: Labels, count: int) -> Iterator[_Kind]:
    """Yield each kind of part once: ``count`` matrices on it, and how often it occurs."""
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels)
    starts = np.cumsum(sizes) - sizes
    within = np.empty(len(labels), dtype=np.int64)
    within[order] = np.arange(len(labels)) - starts[labels[order]]
    inside = entries.some(labels[entries.rows] == labels[entries.columns])
    keys = np.column_stack([sizes, _projections(inside, labels, within, count)])
    _, first, copies = np.unique(keys, axis=0, return_index=True, return_counts=True)
    number = np.full(len(sizes), -1, dtype=np.int64)
    number[first] = np.arange(len(first))
    kinds = number[labels[inside.rows]]
    chosen = np.argsort(kinds, kind="stable")[np.count_nonzero(kinds < 0) :]
    ends = np.searchsorted(kinds[chosen], np.arange(len(first) + 1))
    for kind, (start, end) in enumerate(itertools.pairwise(ends)):
        some, size = inside.some(chosen[start:end]), int(sizes[first[kind]])
        places = within[some.rows] * size + within[some.columns]
        rows = sparse.csr_array((some.data, (some.number, places)), shape=(count, size**2))
        yield _Kind(rows, size, int(copies[kind]))


def _projections(entries: _Entries, labels: Labels, within: Labels, count: int) -> Matrix:
    """Return two numbers for every part and matrix that equal parts share, rounded."""
    parts, largest = int(labels.max()) + 1, int(within.max()) + 1
    found = []
    for turn in range(2):
        # Any numbers without a pattern do, as long as they are the same for every part.
        weights = np.modf(np.sqrt(2.0 + turn + np.arange(2 * largest)) * 997)[0]
        terms = entries.data * weights[within[entries.rows]]
        terms *= weights[largest + within[entries.columns]]
        places = labels[entries.rows] * count + entries.number
        sums = np.bincount(places, terms, parts * count).reshape(parts, count)
        found.append(np.round(sums / np.maximum(np.abs(sums).max(axis=0), 1e-300), DIGITS))
    return np.hstack(found)


def _measured(kind: _Kind, workloads: int) -> _Kind:
    """Return a kind of part on the directions that some block measures.

    NotCoveredError if a workload asks for others.
    """
    size = kind.size
    blocks = np.asarray(kind.rows[workloads:].sum(axis=0)).reshape(size, size)
    values, vectors = np.linalg.eigh(blocks)
    measured = values > DEPENDENT * max(values[-1], 0.0)
    if measured.all():
        return kind
    basis = vectors[:, measured]
    dense = kind.rows.toarray().reshape(-1, size, size)
    kept = np.asarray(basis.T @ dense @ basis)
    before, after = (np.trace(each[:workloads], axis1=1, axis2=2) for each in (dense, kept))
    if not np.allclose(after, before, rtol=COVERED, atol=0):
        raise NotCoveredError("a query is no combination of what these blocks measure")
    return _Kind(sparse.csr_array(kept.reshape(len(kept), -1)), kept.shape[-1], kind.copies)
