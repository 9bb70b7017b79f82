"""Integer strategies: drafts rounded so that every column sums to exactly the same number.

A strategy's entries are integers, and within a block every column sums to exactly the
block's weight; the weights of a strategy sum to exactly ``S``.  The rows of B are rounded down,
and each group's own row takes what is left, so nothing rests on floating point and no
column has slack.  Slack would break non-interference: two strategies with slack in different
columns would pay for a sensitivity that a third one then raises.

Cells that no query counts form one group of their own.  Each of its declared cells gets a row
instead where that is cheap and the block is the only one: it costs its owner nothing and may
help others.  Beside other blocks the group's row tells something about the total, so it stays.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.schema.marginal import Block, Labels, Marginal, Partition, cell_map
from sqlmadp.strategy.joint import Draft
from sqlmadp.workload.workload import ScopeWorkload

Matrix = NDArray[np.float64]
IntMatrix = NDArray[np.int64]

S = 1 << 16
"""The sum of every column of a strategy."""

FINEST = 10
"""Entries of B below ``2^-FINEST`` of their block's weight are dropped: they only cost rows."""

DECLARED_CELLS = 256
"""Declared cells of a scope up to which each unasked cell gets a row of its own."""


@dataclass(frozen=True, eq=False)
class IntegerBlock:
    """A block over groups: the weight of each group's own row, and the rows B."""

    scope: ScopeWorkload
    own: IntMatrix
    rows: IntMatrix

    @property
    def matrix(self) -> Matrix:
        """Return all rows over groups."""
        return np.vstack([self.rows, np.diag(self.own)[self.own > 0]]).astype(np.float64)

    def expanded(self, *, alone: bool) -> Block:
        """Return the block over cells; if ``alone``, unasked cells with rows of their own."""
        scope = self.scope
        split = alone and self._may_split_unasked()
        marginal = _declared(scope.marginal) if split else scope.marginal
        labels = scope.labels[cell_map(scope.marginal, marginal)]
        own = labels if not split else _numbered_apart(labels, scope.unasked)
        weights = np.zeros(int(own.max()) + 1, dtype=np.int64)
        weights[own] = self.own[labels]
        singles = sparse.diags_array(weights, dtype=np.int64) @ _membership(own, len(weights))
        dense = sparse.csr_array(self.rows) @ _membership(labels, scope.groups)
        matrix = sparse.csr_array(sparse.vstack([dense, singles[weights > 0]]), dtype=np.int64)
        return Block(marginal, matrix)

    def _may_split_unasked(self) -> bool:
        """Tell whether the unasked cells can have rows of their own.

        Not when a row of B touches them: then the sum of the group helps its owner.
        """
        unasked = self.scope.unasked
        if unasked is None or self.rows[:, unasked].any():
            return False
        return _declared(self.scope.marginal).size <= DECLARED_CELLS


def rounded(draft: Draft, *, total: int = S, finest: int = FINEST) -> tuple[IntegerBlock, ...]:
    """Return a draft as integers: column sums exactly the weights, weights summing to ``total``."""
    weights = apportion(draft.weights, total)
    return tuple(
        _rounded(scope, rows, weight, finest)
        for scope, rows, weight in zip(draft.layout.scopes, draft.rows, weights, strict=True)
    )


def _rounded(scope: ScopeWorkload, rows: Matrix, weight: int, finest: int) -> IntegerBlock:
    shares = rows / (1 + np.abs(rows).sum(axis=0))
    shares[np.abs(shares) < 2.0**-finest] = 0
    integers = np.trunc(shares * weight).astype(np.int64)
    integers = integers[integers.any(axis=1)]
    own = weight - np.abs(integers).sum(axis=0)
    return IntegerBlock(scope, own.astype(np.int64), integers)


def workload_block(scope: ScopeWorkload, weight: int) -> IntegerBlock:
    """Return the distinct queries themselves, scaled up to ``weight``, slack in own rows."""
    queries = distinct_queries(scope).toarray()
    largest = np.abs(queries).sum(axis=0).max()
    integers = np.trunc(queries / largest * weight).astype(np.int64)
    integers = integers[integers.any(axis=1)]
    return IntegerBlock(scope, weight - np.abs(integers).sum(axis=0), integers)


def distinct_queries(scope: ScopeWorkload) -> sparse.csr_array:
    """Return every query once, but for those that count nothing."""
    queries = scope.queries
    first: dict[tuple[bytes, bytes], int] = {}
    for row, (start, end) in enumerate(itertools.pairwise(queries.indptr)):
        key = (queries.indices[start:end].tobytes(), queries.data[start:end].tobytes())
        if end > start:
            first.setdefault(key, row)
    return queries[list(first.values())]


def total_block(scope: ScopeWorkload) -> IntegerBlock:
    """Return the best Total + Identity: of all asked groups together, and of each alone.

    With b the total's weight, a = S - b, and M the Gram matrix over the n asked groups,

        trace(M (a^2 I + b^2 1 1^T)^-1)  =  (trace M - b^2 (1^T M 1) / (a^2 + n b^2)) / a^2,

    so the best integer b is found by trying every 256th, and then all near the best of those.
    """
    asked = np.arange(scope.groups) != scope.unasked
    sums = np.asarray(scope.queries.sum(axis=1))
    trace, pooled, count = (scope.queries.data**2).sum(), (sums**2).sum(), asked.sum()

    def best(weights: IntMatrix) -> int:
        b = weights.astype(np.float64)
        a = S - b
        errors = (trace - b**2 * pooled / (a**2 + count * b**2)) / a**2
        return int(weights[np.argmin(errors)])

    near = best(np.arange(0, S, 256))
    weight = best(np.arange(max(0, near - 256), min(S, near + 256)))
    rows = weight * asked[None, :].astype(np.int64)
    return IntegerBlock(scope, S - rows[0], rows[rows.any(axis=1)])


def apportion(weights: Sequence[float], total: int) -> list[int]:
    """Return integers above 0, proportional to ``weights``, that sum to exactly ``total``."""
    spare, whole = total - len(weights), sum(weights)
    exact = [spare * weight / whole for weight in weights]
    floors = [int(value) for value in exact]
    order = sorted(range(len(exact)), key=lambda i: (floors[i] - exact[i], i))
    for i in order[: spare - sum(floors)]:  # Largest remainders first.
        floors[i] += 1
    return [1 + floor for floor in floors]


def _declared(marginal: Marginal) -> Marginal:
    finest = tuple(Partition.finest(len(p.labels)) for p in marginal.partitions)
    return Marginal(marginal.scope, finest)


def _numbered_apart(labels: Labels, group: int | None) -> Labels:
    """Return the labels with every cell of ``group`` in a group of its own."""
    apart = labels.copy()
    cells = np.flatnonzero(labels == group)
    apart[cells] = labels.max() + 1 + np.arange(len(cells))
    return Partition.of(apart).labels


def _membership(labels: Labels, groups: int) -> sparse.csr_array:
    cells = len(labels)
    ones = np.ones(cells, dtype=np.int64)
    return sparse.csr_array((ones, (labels, np.arange(cells))), shape=(groups, cells))
