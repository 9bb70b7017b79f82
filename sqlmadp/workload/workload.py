"""A workload: one analyst's queries as blocks, one a scope, reduced without loss.

The queries of one scope are stacked over the common refinement of their partitions.  Two
cells with identical columns are never told apart, so they are merged into one *group*:
column by column first (the partitions), then jointly inside the scope.  A strategy over
groups is as good as one over cells, and the optimiser sees only

    gram = V^T V,   V = the stacked queries over groups

which is all that the expected error depends on.  The queries are stacked in an order of their
own, whatever order they are asked in (all cells of a marginal in theirs): sums over them round the
same way, and the fingerprint is made of them.  So analysts who ask the same get the same
strategy, bit for bit.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.schema.marginal import (
    Block,
    CellBlock,
    Labels,
    Marginal,
    Partition,
    expand,
    weight_in_any_order,
)
from sqlmadp.workload.reduce import distinct_columns, reduced

Matrix = NDArray[np.float64]

FULL = 20
"""One entry in so many not zero, for a matrix of queries to be treated as dense."""

SLICE = 1 << 22
"""Numbers that one dense slice of the queries may hold."""

DIGITS = 12
"""Digits of the weight of cells that are asked for several times."""


@dataclass(frozen=True, eq=False)
class Workload:
    """The queries of one analyst, in the analyst's order."""

    blocks: tuple[Block, ...]
    """Reduced: each over the coarsest partitions that express it."""

    @classmethod
    def of(cls, blocks: Iterable[Block]) -> Workload:
        """Return the workload of the given queries, each block reduced."""
        return cls(tuple(reduced(block) for block in blocks))

    @cached_property
    def _parts(self) -> dict[tuple[str, ...], list[Block]]:
        """Return the blocks of every scope, in the order of scopes."""
        parts: dict[tuple[str, ...], list[Block]] = {}
        for block in self.blocks:
            parts.setdefault(block.marginal.scope, []).append(block)
        return {scope: parts[scope] for scope in sorted(parts)}

    @cached_property
    def scopes(self) -> tuple[ScopeWorkload, ...]:
        """Return the queries stacked scope by scope, reduced, in the order of scopes."""
        return tuple(self._stack(scope) for scope in self._parts)

    @cached_property
    def by_scope(self) -> tuple[Block, ...]:
        """Return the same queries as one block a scope."""
        return tuple(
            _all_cells(blocks) or self._stack(scope).over_cells
            for scope, blocks in self._parts.items()
        )

    @cached_property
    def fingerprint(self) -> str:
        """Return a hash that equal questions share, in whatever order they are asked."""
        digest = hashlib.sha256()
        for scope, blocks in self._parts.items():
            if cells := _all_cells(blocks):  # Very many cells are never written out.
                marginal, shape, contents = _contents_of_cells(cells)
            else:
                marginal, shape, contents = _contents(self._stack(scope))
            sizes = [len(partition.labels) for partition in marginal.partitions]
            digest.update(repr((marginal.scope, sizes, shape)).encode())
            for partition in marginal.partitions:
                digest.update(partition.key)
            digest.update(contents)
        return digest.hexdigest()

    def _stack(self, scope: tuple[str, ...]) -> ScopeWorkload:
        """Return the queries of one scope, stacked when they are first asked for."""
        if scope not in self._stacks:
            blocks = self._parts[scope]
            cells = _all_cells(blocks)
            self._stacks[scope] = ScopeWorkload.of(blocks if cells is None else [cells])
        return self._stacks[scope]

    @cached_property
    def _stacks(self) -> dict[tuple[str, ...], ScopeWorkload]:
        return {}

    def scaled(self, factor: float) -> Workload:
        """Return the same queries with every row multiplied by ``factor``."""
        return Workload(tuple(_times(block, factor) for block in self.by_scope))


def _times(block: Block, factor: float) -> Block:
    if isinstance(block, CellBlock):
        return CellBlock(block.marginal, block.weight * factor)
    return Block(block.marginal, block.matrix * factor)


def _all_cells(blocks: Sequence[Block]) -> CellBlock | None:
    """Return the cells of a marginal if that is all that the queries of a scope ask for.

    They need no stacking, in whatever order they are asked for, and however often: twice the same
    query counts as much as one that is multiplied by the root of two.
    """
    weights = [weight_in_any_order(block) for block in blocks]
    marginal = blocks[0].marginal
    known = [float(weight) for weight in weights if weight is not None]
    if len(known) < len(blocks) or any(block.marginal != marginal for block in blocks):
        return None
    if len(known) == 1:
        return CellBlock(marginal, known[0])
    # Rounded, so that it does not matter which of them were brought together first.
    square = float(f"{math.fsum(weight**2 for weight in known):.{DIGITS}g}")
    return CellBlock(marginal, math.sqrt(square))


def _contents(scope: ScopeWorkload) -> tuple[Marginal, tuple[int, int], bytes]:
    """Return what tells the queries of one scope from others: marginal, shape, and the rest."""
    rows, groups = scope.queries.shape
    return scope.marginal, (int(rows), int(groups)), _bytes(scope.labels, scope.queries)


def _contents_of_cells(cells: CellBlock) -> tuple[Marginal, tuple[int, int], bytes]:
    return cells.marginal, (cells.rows, cells.rows), _cell_contents(cells.rows, cells.weight)


@lru_cache(maxsize=16)
def _cell_contents(cells: int, weight: float) -> bytes:
    """Return the same bytes as for single cells that were stacked and sorted."""
    labels = np.arange(cells, dtype=np.int64)
    order = np.argsort(labels.astype("<u8").byteswap(), kind="stable")  # As text of bytes.
    matrix = sparse.csr_array(
        (np.full(cells, weight), order, np.arange(cells + 1)), shape=(cells, cells)
    )
    return _bytes(labels, matrix)


def _bytes(labels: Labels, queries: sparse.csr_array) -> bytes:
    parts = (queries.indptr, queries.indices, queries.data)
    return labels.tobytes() + b"".join(part.astype(np.float64).tobytes() for part in parts)


def stacked(workloads: Iterable[Workload]) -> Workload:
    """Return all queries of all ``workloads`` as one workload."""
    return Workload(tuple(block for workload in workloads for block in workload.by_scope))


def common(marginals: Sequence[Marginal]) -> Marginal:
    """Return the coarsest marginal that is as fine as each of ``marginals``, of one scope."""
    columns = zip(*(marginal.partitions for marginal in marginals), strict=True)
    return Marginal(marginals[0].scope, tuple(reduce(Partition.refine, c) for c in columns))


def crossed(marginals: Iterable[Marginal]) -> Marginal:
    """Return the marginal of all columns in use, each as fine as any of ``marginals`` has it."""
    finest: dict[str, Partition] = {}
    for marginal in marginals:
        for name, partition in zip(marginal.scope, marginal.partitions, strict=True):
            finest[name] = finest[name].refine(partition) if name in finest else partition
    return Marginal(tuple(sorted(finest)), tuple(finest[name] for name in sorted(finest)))


@dataclass(frozen=True, eq=False)
class ScopeWorkload:
    """All queries of one scope, over groups of cells that no query tells apart."""

    marginal: Marginal
    labels: Labels
    """The group of every cell of the marginal."""
    queries: sparse.csr_array
    """One row a query, one column a group; sorted, so that equal sets of queries are equal."""

    @classmethod
    def of(cls, blocks: Sequence[Block]) -> ScopeWorkload:
        """Stack blocks of one scope and merge the cells that none of them tells apart."""
        marginal = common([block.marginal for block in blocks])
        parts = [expand(b.matrix, b.marginal, marginal) for b in blocks]
        rows = sparse.csc_array(parts[0] if len(parts) == 1 else sparse.vstack(parts))
        labels, first = distinct_columns(rows)
        return cls(marginal, labels, _sorted(sparse.csr_array(rows[:, first], dtype=np.float64)))

    @property
    def groups(self) -> int:
        """Return the number of groups."""
        return int(self.queries.shape[1])

    @property
    def over_cells(self) -> Block:
        """Return the queries over the cells of the marginal."""
        return Block(self.marginal, self.queries[:, self.labels])

    @cached_property
    def gram(self) -> Matrix:
        """Return ``V^T V`` over groups, dense."""
        rows, groups = self.queries.shape
        if self.queries.nnz * FULL > rows * groups:  # Products of sparse matrices are slow then.
            gram = np.zeros((groups, groups))
            step = max(1, SLICE // groups)
            for start in range(0, rows, step):
                dense = self.queries[start : start + step].toarray()
                gram += dense.T @ dense
            return gram
        return np.asarray((self.queries.T @ self.queries).todense(), dtype=np.float64)

    @cached_property
    def unasked(self) -> int | None:
        """Return the group of the cells that no query counts, or None if there is none."""
        asked = np.asarray(abs(self.queries).sum(axis=0)).reshape(-1) > 0
        return None if asked.all() else int(np.flatnonzero(~asked)[0])


def _sorted(rows: sparse.csr_array) -> sparse.csr_array:
    """Return the rows in an order that depends on nothing but the rows."""
    rows.sum_duplicates()
    rows.eliminate_zeros()
    ends = rows.indptr
    places = rows.indices.astype(np.int64)

    def key(row: int) -> tuple[bytes, bytes]:
        part = slice(ends[row], ends[row + 1])
        return places[part].tobytes(), rows.data[part].tobytes()

    return rows[sorted(range(rows.shape[0]), key=key)]
