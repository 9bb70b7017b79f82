"""Layouts: which scopes a strategy has blocks on, and the coordinates they share.

A workload over several scopes can be measured by a block on each scope, by blocks on the
maximal scopes only, by blocks on small scopes merged, or by one block on the union.  A layout
is one such choice.  Its blocks live on groups of cells; ``cells[b]`` holds the coordinates of
the groups of block b, and ``gram`` is the workload's ``W^T W``, so that for block matrices ``A_b``
over groups

    X = sum_b (A_b cells[b])^T (A_b cells[b]),     error = sensitivity^2 trace(gram X^-1).

The coordinates span just what the blocks can express, so X is regular whenever every
group of every block is measured.  They are dense matrices, so they are made when first used:
a block that can only be the identity needs none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from sqlmadp.errors import NotSupportedError
from sqlmadp.schema.marginal import Block, Labels, Marginal, Partition, cell_map
from sqlmadp.strategy.alike import Alike, alike_in
from sqlmadp.strategy.merging import Asked, merge
from sqlmadp.workload.coordinates import Coordinates
from sqlmadp.workload.factor import COVERED, Factor
from sqlmadp.workload.workload import ScopeWorkload, Workload, crossed

Matrix = NDArray[np.float64]

UNION_CELLS = 512
"""Cells of a union of scopes up to which one block on all of it is worth a try."""

WHOLE_CELLS = 1 << 20
"""Cells of a union of scopes up to which it may be measured cell by cell."""

FEW_GROUPS = 600
"""Groups of all scopes up to which several layouts are tried, even if one scope holds all others
and most of its groups are alike."""

DEPENDENT = 1e-10
"""Squared length, of 1, below which what is left of a group depends on others."""

MOST_COORDINATES = 8192
"""Groups of all blocks together up to which their coordinates are kept as dense matrices."""


@dataclass(frozen=True, eq=False)
class Layout:
    """The scopes of a strategy's blocks, and the workload in their coordinates."""

    scopes: tuple[ScopeWorkload, ...]
    asked: tuple[ScopeWorkload, ...]

    @property
    def tractable(self) -> bool:
        """Tell whether the coordinates fit into dense matrices, or are not needed."""
        return len(self.scopes) == 1 or sum(s.groups for s in self.scopes) <= MOST_COORDINATES

    @cached_property
    def alike(self) -> Alike | None:
        """Return the classes of the groups of a single scope; None if they are hardly fewer."""
        return Alike.of(self.scopes[0]) if len(self.scopes) == 1 else None

    @property
    def cells(self) -> tuple[Matrix, ...]:
        """Return the coordinates of every group of every block."""
        return self._coordinates[0]

    @property
    def gram(self) -> Matrix:
        """Return the workload's ``W^T W`` in coordinates."""
        return self._coordinates[1]

    @cached_property
    def _coordinates(self) -> tuple[tuple[Matrix, ...], Matrix]:
        if len(self.scopes) == 1:  # Groups are coordinates enough.
            return (np.eye(self.scopes[0].groups),), self.scopes[0].gram
        coordinates, cells, basis = self._basis
        queries = [scope.queries @ _group_rows(scope, coordinates) for scope in self.asked]
        rows = np.vstack(queries) @ basis
        return tuple(c @ basis for c in cells), rows.T @ rows

    @cached_property
    def _basis(self) -> tuple[Coordinates, list[Matrix], Matrix]:
        coordinates = Coordinates(scope.marginal for scope in self.scopes)
        cells = [_group_rows(scope, coordinates) for scope in self.scopes]
        return coordinates, cells, _span(np.vstack(cells))

    def gram_of(self, workload: Workload) -> Matrix:
        """Return ``W^T W`` in coordinates for one of the workloads that the layout was made for."""
        if len(self.scopes) == 1:
            rows = [over_groups(block, self.scopes[0]).toarray() for block in workload.by_scope]
        else:
            coordinates, _, basis = self._basis
            rows = [coordinates.rows(block)[0] @ basis for block in workload.by_scope]
        stack = np.vstack(rows).astype(np.float64)
        return stack.T @ stack

    def error(self, matrices: Sequence[Matrix]) -> float:
        """Return ``trace(gram X^-)`` for block matrices over groups; infinite if W is not covered.

        Holds for matrices of any rank and any range of weights.
        """
        every = np.arange(len(self.gram))
        parts = [(m @ c, every) for m, c in zip(matrices, self.cells, strict=True)]
        factor = Factor(parts, len(every))
        half = factor.half(self.gram)
        if (factor.outside(self.gram, half) > COVERED * np.abs(self.gram).max()).any():
            return math.inf
        return float(np.trace(factor.half(half)))


def layouts(workload: Workload) -> list[Layout]:
    """Return the layouts worth trying for a workload."""
    whole = holds_all(workload)
    if whole is not None:
        return [whole]
    asked = workload.scopes
    sizes = _column_sizes(asked)
    scopes = [s.marginal.scope for s in asked if s.marginal.scope] or [()]
    maximal = _maximal(scopes)
    # The total needs no block of its own: a row of ones on any other block measures it.
    choices = [scopes]
    if maximal != scopes:
        choices.append(maximal)
    cells = union_cells(asked)
    if len(maximal) > 1 and cells <= UNION_CELLS:
        choices.append([tuple(sizes)])
    choices += [merged for merged in [_merged(asked)] if merged not in choices]
    found = [Layout(_assigned(workload, choice, sizes), asked) for choice in choices]
    tractable = [each for each in found if each.tractable]
    if not tractable and cells <= WHOLE_CELLS:
        tractable = [Layout(_assigned(workload, [tuple(sizes)], sizes), asked)]
    if not tractable:
        raise NotSupportedError(
            f"the queries over {', '.join(sizes)} tell apart more than {MOST_COORDINATES:,} "
            f"combinations of values of columns that no single query holds; ask for fewer columns "
            f"at a time, or for coarser groups of their values"
        )
    return tractable


def holds_all(workload: Workload) -> Layout | None:
    """Return the layout of one scope that holds all others, if it is all that is worth trying.

    It is where most of very many groups are alike: rows on top of the cells can be those of blocks
    on smaller scopes, and any others, and the search for them does not grow with the groups.
    """
    asked = workload.scopes
    maximal = _maximal([scope.marginal.scope for scope in asked])
    if len(maximal) > 1 or sum(scope.groups for scope in asked) <= FEW_GROUPS:
        return None
    if len(asked) > 1 and not alike_in(asked, crossed(scope.marginal for scope in asked)):
        return None
    layout = Layout(_assigned(workload, maximal, _column_sizes(asked)), asked)
    return layout if layout.alike is not None else None


def _maximal(scopes: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the scopes that lie in no other one."""
    return [scope for scope in scopes if not any(set(scope) < set(other) for other in scopes)]


def laid_over(workload: Workload, scopes: Iterable[tuple[str, ...]]) -> Layout:
    """Return the layout with a block on every given scope that holds a query.

    Each is over the cells that the queries inside tell apart.
    """
    asked = workload.scopes
    sizes = _column_sizes(asked)
    inside = [
        [_lift(b, scope, sizes) for b in workload.by_scope if set(b.marginal.scope) <= set(scope)]
        for scope in sorted(set(scopes) - {()} or {()}, key=lambda scope: (len(scope), scope))
    ]
    return Layout(tuple(ScopeWorkload.of(blocks) for blocks in inside if blocks), asked)


def over_groups(block: Block, scope: ScopeWorkload) -> sparse.csr_array:
    """Return a block's rows over the groups of a scope that holds it: the mean over each group."""
    lifted = block.matrix[:, cell_map(block.marginal, scope.marginal)]
    cells = len(scope.labels)
    sizes = np.bincount(scope.labels, minlength=scope.groups)
    means = (1 / sizes[scope.labels], (np.arange(cells), scope.labels))
    return sparse.csr_array(lifted @ sparse.csr_array(means, shape=(cells, scope.groups)))


def _merged(asked: Sequence[ScopeWorkload]) -> list[tuple[str, ...]]:
    """Return the scopes with pairs merged, as long as that lowers the error cell by cell."""
    parts = [_asked(scope) for scope in asked if scope.marginal.scope]
    steps = merge(parts, WHOLE_CELLS)
    return sorted(part.scope for part in (steps[-1] if steps else parts)) or [()]


def _asked(scope: ScopeWorkload) -> Asked:
    marginal = scope.marginal
    pairs = zip(marginal.scope, marginal.partitions, strict=True)
    squares = scope.queries.multiply(scope.queries) @ _cells_a_group(scope)
    return Asked(tuple((name, p.size) for name, p in pairs), float(squares.sum()))


def _cells_a_group(scope: ScopeWorkload) -> Matrix:
    return np.bincount(scope.labels, minlength=scope.groups).astype(np.float64)


def _group_rows(scope: ScopeWorkload, coordinates: Coordinates) -> Matrix:
    """Return the coordinates of the indicators of a scope's groups."""
    cells = np.arange(len(scope.labels))
    indicators = (np.ones(len(cells)), (scope.labels, cells))
    shape = (scope.groups, len(cells))
    return coordinates.rows(Block(scope.marginal, sparse.csr_array(indicators, shape=shape)))[0]


def _span(rows: Matrix) -> Matrix:
    """Return an orthonormal basis of the row space, one column a direction.

    By a triangular factor of the rows' products: rows that are sums of others, as groups are of
    smaller ones, leave nothing but rounding there, and what is left of any other is far above it.
    """
    size = rows.shape[1]
    scaled = rows / np.linalg.norm(rows, axis=1)[:, None]
    upper, order, rank, _ = dpstrf(scaled @ scaled.T, tol=DEPENDENT)
    if rank == size:
        return np.eye(size)  # Staying put keeps coordinates sparse.
    chosen = scaled[order[:rank] - 1]
    triangle = np.triu(upper)[:rank, :rank]
    return np.asarray(solve_triangular(triangle, chosen, trans="T", check_finite=False).T)


def _column_sizes(scopes: Sequence[ScopeWorkload]) -> dict[str, int]:
    """Return the number of cells of every column in use, in an order that fits every scope."""
    sizes: dict[str, int] = {}
    for scope in scopes:
        for name, partition in zip(scope.marginal.scope, scope.marginal.partitions, strict=True):
            sizes[name] = len(partition.labels)
    return {name: sizes[name] for name in sorted(sizes)}


def union_cells(scopes: Sequence[ScopeWorkload]) -> int:
    """Return the cells of all columns in use together (exact, of any size)."""
    return crossed(scope.marginal for scope in scopes).size


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
    # What a merged scope was merged for may fit into one before it.
    return tuple(ScopeWorkload.of(blocks) for blocks in parts.values() if blocks)


def _lift(block: Block, scope: tuple[str, ...], sizes: dict[str, int]) -> Block:
    """Return the same functions over a larger scope, constant in the columns that are new."""
    known = dict(zip(block.marginal.scope, block.marginal.partitions, strict=True))
    whole = {name: Partition(_zeros(size)) for name, size in sizes.items()}
    return Block(Marginal(scope, tuple(known.get(n, whole[n]) for n in scope)), block.matrix)


def _zeros(size: int) -> Labels:
    return np.zeros(size, dtype=np.int64)
