"""Layouts: which scopes a strategy has blocks on, and the coordinates they share.

A workload over several scopes can be measured by a block on each scope, by blocks on the
maximal scopes only, or by one block on the union.  A layout is one such choice.  Its blocks
live on groups of cells; ``cells[b]`` holds the coordinates of the groups of block b, and
``gram`` is the workload's ``W^T W``, so that for block matrices ``A_b`` over groups

    X = sum_b (A_b cells[b])^T (A_b cells[b]),     error = sensitivity^2 trace(gram X^-1).

The coordinates span just what the blocks can express, so X is regular whenever every
group of every block is measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, qr

from sqlmadp.schema.marginal import Block, Labels, Marginal, Partition
from sqlmadp.workload.coordinates import RANK_TOLERANCE, Coordinates
from sqlmadp.workload.workload import ScopeWorkload, Workload

Matrix = NDArray[np.float64]

UNION_CELLS = 512
"""Cells of a union of scopes up to which one block on all of it is worth a try."""


@dataclass(frozen=True, eq=False)
class Layout:
    """The scopes of a strategy's blocks, and the workload in their coordinates."""

    scopes: tuple[ScopeWorkload, ...]
    cells: tuple[Matrix, ...]
    """The coordinates of every group of every block."""
    gram: Matrix

    def inverse_trace(self, grams: Sequence[Matrix]) -> float:
        """Return ``trace(gram X^-1)`` where ``grams[b]`` is ``A_b^T A_b`` over groups."""
        gram = sum(c.T @ g @ c for c, g in zip(self.cells, grams, strict=True))
        scale = 1 / np.sqrt(np.diag(gram))
        factor = cholesky(gram * np.outer(scale, scale), lower=True, check_finite=False)
        scaled = self.gram * np.outer(scale, scale)
        return float(np.trace(cho_solve((factor, True), scaled, check_finite=False)))


def layouts(workload: Workload) -> list[Layout]:
    """Return the layouts worth trying for a workload."""
    asked = workload.scopes
    sizes = _column_sizes(asked)
    scopes = [s.marginal.scope for s in asked if s.marginal.scope] or [()]
    maximal = [scope for scope in scopes if not any(set(scope) < set(s) for s in scopes)]
    # The total needs no block of its own: a row of ones on any other block measures it.
    choices = [scopes]
    if maximal != scopes:
        choices.append(maximal)
    if len(maximal) > 1 and _union_cells(asked) <= UNION_CELLS:
        choices.append([tuple(sizes)])
    return [_layout(_assigned(workload, choice, sizes), asked) for choice in choices]


def _layout(blocks: tuple[ScopeWorkload, ...], asked: Sequence[ScopeWorkload]) -> Layout:
    if len(blocks) == 1:  # Groups are coordinates enough.
        return Layout(blocks, (np.eye(blocks[0].groups),), blocks[0].gram)
    coordinates = Coordinates(scope.marginal for scope in blocks)
    cells = [_group_rows(scope, coordinates) for scope in blocks]
    queries = [np.asarray(scope.queries @ _group_rows(scope, coordinates)) for scope in asked]
    basis = _span(np.vstack(cells))
    rows = np.vstack(queries) @ basis
    return Layout(blocks, tuple(c @ basis for c in cells), rows.T @ rows)


def _group_rows(scope: ScopeWorkload, coordinates: Coordinates) -> Matrix:
    """Return the coordinates of the indicators of a scope's groups."""
    membership = np.zeros((scope.groups, scope.marginal.size))
    membership[scope.labels, np.arange(scope.marginal.size)] = 1
    coefficients, box = coordinates.cells(scope.marginal)
    rows = np.zeros((scope.groups, coordinates.size))
    rows[:, box[box >= 0]] = (membership @ coefficients)[:, box >= 0]
    return rows


def _span(rows: Matrix) -> Matrix:
    """Return an orthonormal basis of the row space, one column a direction."""
    size = rows.shape[1]
    q, r, _ = qr(rows.T, mode="economic", pivoting=True, check_finite=False)
    rank = int((np.abs(np.diag(r)) > RANK_TOLERANCE * np.abs(r[0, 0])).sum())
    # A full basis needs no change of coordinates, and staying put keeps them sparse.
    return np.eye(size) if rank == size else np.asarray(q[:, :rank])


def _column_sizes(scopes: Sequence[ScopeWorkload]) -> dict[str, int]:
    """Return the number of cells of every column in use, in an order that fits every scope."""
    sizes: dict[str, int] = {}
    for scope in scopes:
        for name, partition in zip(scope.marginal.scope, scope.marginal.partitions, strict=True):
            sizes[name] = len(partition.labels)
    return {name: sizes[name] for name in sorted(sizes)}


def _union_cells(scopes: Sequence[ScopeWorkload]) -> int:
    finest: dict[str, int] = {}
    for scope in scopes:
        for name, groups in zip(scope.marginal.scope, scope.marginal.shape, strict=True):
            finest[name] = max(groups, finest.get(name, 0))
    return math.prod(finest.values())


def _assigned(
    workload: Workload, targets: Sequence[tuple[str, ...]], sizes: dict[str, int]
) -> tuple[ScopeWorkload, ...]:
    """Give every query to a block on its own scope, or else on the first that holds it."""
    if len(targets) == len(workload.scopes):  # Every scope has its block: nothing moves.
        return workload.scopes
    parts: dict[tuple[str, ...], list[Block]] = {target: [] for target in targets}
    for block in workload.blocks:
        scope = block.marginal.scope
        target = scope if scope in parts else next(t for t in targets if set(scope) <= set(t))
        parts[target].append(_lift(block, target, sizes))
    return tuple(ScopeWorkload.of(blocks) for blocks in parts.values())


def _lift(block: Block, scope: tuple[str, ...], sizes: dict[str, int]) -> Block:
    """Return the same functions over a larger scope, constant in the columns that are new."""
    known = dict(zip(block.marginal.scope, block.marginal.partitions, strict=True))
    whole = {name: Partition(_zeros(size)) for name, size in sizes.items()}
    return Block(Marginal(scope, tuple(known.get(n, whole[n]) for n in scope)), block.matrix)


def _zeros(size: int) -> Labels:
    return np.zeros(size, dtype=np.int64)
