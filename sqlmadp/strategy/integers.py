"""Integer strategies with exactly uniform columns.

A strategy is a list of blocks of integers.  Within a block every column (vertex) sums to exactly
the block's weight, and the weights sum to exactly ``total``, so the sensitivity is ``total``
whatever the number of vertices, and nothing after rounding rests on floating point.  Without
uniform columns two strategies of disjoint support would leave slack, and a third analyst who joins
would raise the noise of the first two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from scipy import sparse

from sqlmadp.solve.products import solution_of
from sqlmadp.strategy.search import Top
from sqlmadp.table.joint import has_joint
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows, column_labels
from sqlmadp.table.runs import Floats, Integers

TOTAL = 1 << 24
"""What every column of a strategy sums to: weights have some seven digits."""

MANY_BLOCKS = 64
"""Give strategies of more blocks than this 256 times finer weights."""

ANSWER_BITS, FINE_BITS, POURED_BITS = 32, 12, 7
"""Exact answers of 2^30 records must stay below 2^62, so an entry in lowest terms times the units
of its block stays below 2^32.  Where a block has more than 2^20 units the boundary rounds its sums,
to no less than 2^12 units per vertex that a record touches, and the entry alone counts.  Seven bits
of that are left to pouring: 128 equal parts of the budget."""

OPENED_CELLS = 256
"""Measure values that nobody asked about one by one while a scope has at most this many cells."""


@dataclass(frozen=True, eq=False)
class Strategy:
    """What one workload would measure: integer rows whose columns sum to ``total``."""

    blocks: tuple[Rows, ...]
    total: int
    error: float = math.nan
    """``total^2 trace(W (A^T A)^- W^T)`` of the workload, recomputed from the integers."""


def certified(blocks: Sequence[Rows], total: int, workloads: Sequence[Sequence[Rows]]) -> Floats:
    """Return every workload's error from the integers of a strategy."""
    return float(total) ** 2 * solution_of(blocks).errors(workloads)


def rounded(
    blocks: Sequence[Rows], weights: Floats, rows: Sequence[Top], total: int | None = None
) -> tuple[tuple[Rows, ...], int]:
    """Return blocks of integers whose columns sum to ``total`` all together, and that total."""
    if total is None:
        total = TOTAL if len(blocks) <= MANY_BLOCKS else TOTAL << 8
    grains = [grain_of(block, total) for block in blocks]
    shares = weights / weights.sum() * total
    whole = [
        max(int(share // grain), 1) * grain for share, grain in zip(shares, grains, strict=True)
    ]
    # Blocks too light for one grain have one at the expense of the heaviest, which keep one too.
    for heaviest in np.argsort(-shares, kind="stable").tolist():
        if (missing := sum(whole) - total) <= 0:
            break
        spare = whole[heaviest] // grains[heaviest] - 1
        whole[heaviest] -= min(-(-missing // grains[heaviest]), spare) * grains[heaviest]
    if sum(whole) > total:
        raise ValueError(f"{len(blocks)} blocks cannot have a grain each of a total of {total}")
    # What is left is a multiple of the finest grain, as the total and all weights are.
    least = min(grains)
    finest = [number for number, grain in enumerate(grains) if grain == least]
    whole[max(finest, key=shares.__getitem__)] += total - sum(whole)
    found = []
    for block, weight, grain, own in zip(blocks, whole, grains, rows, strict=True):
        if isinstance(own, Rows):
            found.append(_fixed(own, weight, grain))
            continue
        if own is None or not len(own):
            found.append(Rows(block.scope, block.parts, weight))
            continue
        fractions = own / (1 + own.sum(axis=0))
        across = np.floor(fractions * (weight // grain)).astype(np.int64) * grain
        across = across[across.any(axis=1)]
        alone = weight - across.sum(axis=0)
        found.append(Rows.of_weights(block.scope, block.parts, alone, sparse.csr_array(across)))
    return tuple(found), total


def _fixed(rows: Rows, weight: int, grain: int) -> Rows:
    """Return given rows as integers; what a column lacks goes to a row of it and its equals."""
    if rows.plain:
        return Rows(rows.scope, rows.parts, weight)
    groups = Partition.flat(column_labels(rows.matrix))
    matrix = sparse.csr_array(rows.matrix[:, groups.first_values])
    several = matrix[np.diff(matrix.indptr) > 1]
    whole = np.trunc(several.data * (weight // grain)).astype(np.int64) * grain
    across = sparse.csr_array((whole, several.indices, several.indptr), shape=several.shape)
    across.eliminate_zeros()
    alone = weight - np.asarray(abs(across).sum(axis=0)).reshape(-1)
    own = sparse.diags_array(alone, dtype=np.int64, format="csr")[np.flatnonzero(alone)]
    stacked = sparse.csr_array(sparse.vstack([own, across]))
    return Rows.of(rows.scope, rows.parts, sparse.csr_array(stacked[:, groups.pieces]))


def grain_of(block: Rows, total: int) -> int:
    """Return the power of 2 that divides a block's integers, so that exact answers stay small."""
    if block.units == 1:
        return 1
    touched = math.prod(part.degree + 1 for part in block.parts)
    exact = ANSWER_BITS - (block.units - 1).bit_length()
    rounded_off = ANSWER_BITS - FINE_BITS - (touched - 1).bit_length()
    bits = max(exact, rounded_off) - POURED_BITS
    return 1 << max(0, (total - 1).bit_length() - bits)


def opened(block: Rows, asked: Rows) -> Rows:
    """Return a block in which values that nobody asked about are measured one by one.

    That costs its owner nothing and helps whoever asks about them; nobody asks about the
    combinations of a joint column.
    """
    cells = math.prod(part.values for part in block.parts)
    if cells > OPENED_CELLS or has_joint(block.scope):
        return block
    parts, places = [], []
    used = np.asarray(abs(asked.matrix).sum(axis=0)).reshape(block.shape) > 0
    used |= (np.asarray(abs(block.across).sum(axis=0)) > 0).reshape(block.shape)
    for axis, part in enumerate(block.parts):
        others = tuple(a for a in range(len(block.parts)) if a != axis)
        new, old = _split_vertices(part, np.asarray(~used.any(axis=others)))
        parts.append(new)
        places.append(old)
    if all(new is old for new, old in zip(parts, block.parts, strict=True)):
        return block
    at = reduce(
        lambda known, part: np.add.outer(known * part[1], part[0]).reshape(-1),
        zip(places, block.shape, strict=True),
        np.zeros(1, dtype=np.int64),
    )
    if block.plain:
        return Rows(block.scope, tuple(parts), block.weight)
    return _copied(block, parts, at)


def _split_vertices(part: Partition, unasked: np.ndarray) -> tuple[Partition, Integers]:
    """Return every value of unasked single vertices as a vertex, and each new one's old vertex."""
    flat = part.first_vertices[part.degrees == 0]
    chosen = flat[unasked[flat]]
    piece_of = {int(v): n for n, v in enumerate(part.first_vertices)}
    pieces = np.array([piece_of[int(v)] for v in chosen], dtype=np.int64)
    apart = np.isin(part.pieces, pieces)
    if apart.sum() <= len(pieces):
        return part, np.arange(part.size)
    labels = np.where(apart, len(part.degrees) + np.arange(part.values), part.pieces)
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    new_pieces = rank[inverse.reshape(-1)]
    firsts = np.sort(first)
    degrees = part.degrees[part.pieces[firsts]]
    new = Partition(new_pieces, part.steps, degrees, part.unit)
    old = [
        part.first_vertices[part.pieces[value]] + np.arange(degree + 1)
        for value, degree in zip(firsts, degrees, strict=True)
    ]
    return new, np.concatenate(old)


def _copied(block: Rows, parts: Sequence[Partition], at: Integers) -> Rows:
    """Return a block over split vertices: each copy has the old vertex's own row and entries."""
    matrix = block.matrix
    single = matrix[np.diff(matrix.indptr) == 1]
    alone = np.bincount(single.indices, single.data, minlength=block.size).astype(np.int64)[at]
    across = sparse.csr_array(matrix[np.diff(matrix.indptr) > 1][:, at])
    return Rows.of_weights(block.scope, tuple(parts), alone, across)


def split_by_scope(block: Rows) -> list[Rows]:
    """Return rows that are constant in some columns as blocks on the others."""
    if block.plain or not block.scope:
        return [block]
    matrix = block.matrix
    single = np.diff(matrix.indptr) == 1
    if single.all():
        return [block]
    tensor = matrix[~single].toarray().reshape(-1, *block.shape)
    axes = range(1, len(block.shape) + 1)
    varies = np.column_stack(
        [
            (tensor != np.take(tensor, [0], axis=a)).reshape(len(tensor), -1).any(axis=1)
            for a in axes
        ]
    )
    here = np.flatnonzero(~single)[varies.all(axis=1)]
    kept = matrix[np.sort(np.concatenate([np.flatnonzero(single), here]))]
    found = [Rows.of(block.scope, block.parts, kept)]
    for pattern in np.unique(varies[~varies.all(axis=1)], axis=0):
        rows = tensor[(varies == pattern).all(axis=1)]
        for axis in reversed(np.flatnonzero(~pattern)):
            rows = np.take(rows, 0, axis=axis + 1)
        scope = tuple(c for c, keep in zip(block.scope, pattern, strict=True) if keep)
        parts = [p for p, keep in zip(block.parts, pattern, strict=True) if keep]
        flat = sparse.csr_array(rows.reshape(len(rows), -1))
        found.append(Rows.of(scope, parts, flat))
    return found
