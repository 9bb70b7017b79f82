"""Everyone left out once, by updates of one factor instead of a new one for each.

Pouring adds weights: with w_r the weight of bucket r and w_ir what analyst i put into it,

    X = sum_r w_r^2 r r^T,    X_-i = X - R_i^T D_i R_i,    D_i = diag(w_r^2 - (w_r - w_ir)^2)

over the buckets of analyst i.  With N = R X^(-1/2) the buckets in terms of independent noise, and
A = D^(1/2) N_i, the Woodbury identity gives for every query q, in the same terms,

    var_-i(q) = |q|^2 + |(I - A A^T)^(-1/2) A q|^2

The share that leaves takes its part of the budget along, so the scale of noise stays.  Directions
that i alone measures are lost: there ``I - A A^T`` has eigenvalues of 0, and queries of others
have no component.  An eigenvalue too near 0 to tell is worked out anew, and so is an analyst who
put something into most buckets, such as one who asks for every cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.errors import NotCoveredError
from sqlmadp.mechanism.base import Mechanism, poured_weights
from sqlmadp.mechanism.identity import Identity
from sqlmadp.mechanism.independent import Independent
from sqlmadp.mechanism.waterfilling import Waterfilling, buckets, stacked_rows
from sqlmadp.schema.kronecker import KroneckerBlock, scaled
from sqlmadp.schema.marginal import Block, Labels
from sqlmadp.strategy.select import select
from sqlmadp.workload.coordinates import Coordinates
from sqlmadp.workload.diagonal import is_plain
from sqlmadp.workload.reduce import reduced
from sqlmadp.workload.solver import FEW_COORDINATES, MOST_COORDINATES, DenseSolver, solver_for
from sqlmadp.workload.topped import ToppedSolver
from sqlmadp.workload.workload import Workload

Matrix = NDArray[np.float64]

MOST_NUMBERS = 1 << 27
"""Numbers that all buckets and queries may hold in coordinates."""

MOST_CELLS = 1 << 18
"""Cells of a scope up to which buckets are looked for, if there are too many for all that."""

FEW_BUCKETS = 256
"""Buckets of an analyst up to which updating is faster than a new factor in any case."""

LOST = 1e-10
"""Eigenvalue up to which a direction is lost without the analyst."""

DOUBTFUL = 1e-6
"""Eigenvalue from which on an update is as good as a new factor."""


@dataclass(frozen=True, eq=False)
class Poured:
    """The buckets of one scope, and the weight that each analyst put into each."""

    directions: Block
    weights: Matrix
    """One row an analyst, one column a bucket."""

    def without(self, analyst: int | None = None) -> Block:
        """Return the buckets with everyone's weight, or everyone's but one's."""
        heights = self.weights.sum(axis=0)
        if analyst is not None:
            heights = heights - self.weights[analyst]
        rows = sparse.csr_array(sparse.diags_array(heights) @ self.directions.matrix)
        return Block(self.directions.marginal, rows[heights > 0])


def interference(
    mechanism: Mechanism, workloads: Sequence[Workload], shares: Sequence[Fraction]
) -> Matrix | None:
    """Return ``[i, j]``, the ratio by which i's joining changes j's error; None if not at once.

    Nobody's error depends on others under Independent; and nothing but the budget changes under
    Identity.  None for mechanisms that select anew, and for strategies that are too large.
    """
    if isinstance(mechanism, Independent):
        return np.ones((len(workloads), len(workloads)))
    if isinstance(mechanism, Identity):
        left = [float(1 - share / sum(shares)) ** 2 for share in shares]
        ratios = np.repeat(np.array(left)[:, None], len(workloads), axis=1)
        ratios[:, [not _asks(workload) for workload in workloads]] = 1.0
        np.fill_diagonal(ratios, 1.0)
        return ratios
    if not isinstance(mechanism, Waterfilling) or mechanism.tolerance > 0:
        return None
    strategies = [select(workload, cache=mechanism.cache) for workload in workloads]
    factors, _ = poured_weights(strategies, shares)
    pairs = zip(strategies, factors, strict=True)
    return of_poured([[scaled(block, f) for block in s.blocks] for s, f in pairs], workloads)


def of_poured(
    parts: Sequence[Sequence[Block]], workloads: Sequence[Workload], first: int = 0
) -> Matrix | None:
    """Return the same for parts that are poured together, one an analyst; None if not at once.

    Analysts before the ``first`` are not left out: their rows hold no numbers.
    """
    own = [block for part in parts for block in part]
    small = _fits(own, workloads)
    largest = max(block.marginal.size for block in own)
    products = any(isinstance(block, KroneckerBlock) for block in own)
    if not small and (products or largest > MOST_CELLS or is_plain(own)):
        return None  # Plain marginals need no factor in the first place.
    poured = list(_poured(parts))
    together = [each.without() for each in poured]
    topped = ToppedSolver.of(together)
    if topped is not None:
        return _updated(poured, workloads, _Topped(topped, poured, workloads), first)
    if not small:
        return None
    return _updated(poured, workloads, _Dense(together, poured, workloads), first)


def _fits(blocks: Sequence[Block], workloads: Sequence[Workload]) -> bool:
    """Tell whether all buckets and queries may be written out in coordinates."""
    size = Coordinates(dict.fromkeys(block.marginal for block in blocks)).size
    rows = sum(block.rows for block in blocks)
    rows += sum(block.rows for workload in workloads for block in workload.by_scope)
    few = size <= MOST_COORDINATES and size * rows <= MOST_NUMBERS
    return few and (size <= FEW_COORDINATES or not is_plain(blocks))


def _asks(workload: Workload) -> bool:
    """Tell whether any query of a workload counts anything; else its error is always 0."""
    return any(block.matrix.data.any() for block in workload.blocks)


def _poured(parts: Sequence[Sequence[Block]]) -> Iterator[Poured]:
    """Yield the buckets of every scope."""
    scopes: dict[tuple[str, ...], list[tuple[int, Block]]] = {}
    for analyst, blocks in enumerate(parts):
        for block in blocks:
            scopes.setdefault(block.marginal.scope, []).append((analyst, block))
    for group in scopes.values():
        together = stacked_rows([block for _, block in group])
        owners = np.repeat([analyst for analyst, _ in group], [block.rows for _, block in group])
        found = buckets(together.matrix)
        weights = np.zeros((len(parts), found.directions.shape[0]))
        np.add.at(weights, (owners, found.numbers), found.heights)
        yield Poured(Block(together.marginal, found.directions), weights)


class _Terms(Protocol):
    """Buckets and queries in terms of independent noise."""

    size: int
    """How many such terms a query has."""
    squares: Matrix
    """The variance of every query of every workload, one after the other."""

    def buckets(self, numbers: Labels) -> Matrix:
        """Return some buckets, one a row."""

    def products(self, buckets: Matrix) -> Matrix:
        """Return the products of buckets with all queries, one a column."""


class _Dense:
    """Buckets and queries by a triangular factor, all written out."""

    def __init__(
        self, together: Sequence[Block], poured: Sequence[Poured], workloads: Sequence[Workload]
    ) -> None:
        solver = DenseSolver(together)
        asked = (block for workload in workloads for block in workload.by_scope if block.rows)
        self._buckets = np.vstack([solver.noise(each.directions) for each in poured])
        self.size = self._buckets.shape[1]
        self._queries = np.vstack([np.zeros((0, self.size)), *map(solver.noise, asked)])
        self.squares: Matrix = (self._queries**2).sum(axis=1)

    def buckets(self, numbers: Labels) -> Matrix:
        return np.asarray(self._buckets[numbers])

    def products(self, buckets: Matrix) -> Matrix:
        return np.asarray(buckets @ self._queries.T)


class _Topped:
    """Buckets and queries where every cell is measured alone: queries stay sparse."""

    def __init__(
        self, solver: ToppedSolver, poured: Sequence[Poured], workloads: Sequence[Workload]
    ) -> None:
        self._solver, self._poured = solver, poured
        asked = [block for workload in workloads for block in workload.by_scope]
        parts = [part for block in asked for part in solver.parts(block)]
        self._apart = sparse.csc_array(sparse.vstack([rows for rows, _, _ in parts]).T)
        self._half = np.vstack([half for _, _, half in parts]).T
        self.size = solver.marginal.size
        self.squares: Matrix = np.concatenate([solver.variances(block) for block in asked])

    def buckets(self, numbers: Labels) -> Matrix:
        rows, start = [], 0
        for each in self._poured:
            directions = each.directions
            inside = numbers[(numbers >= start) & (numbers < start + directions.rows)] - start
            start += directions.rows
            chosen = Block(directions.marginal, directions.matrix[inside])
            rows.append(self._solver.noise(chosen))
        return np.vstack(rows)

    def products(self, buckets: Matrix) -> Matrix:
        # What is apart from the rows on top of the cells in one is so in the product.
        apart, half = buckets[:, : self.size], buckets[:, self.size :]
        return np.asarray(apart @ self._apart + half @ self._half)


def _updated(
    poured: Sequence[Poured], workloads: Sequence[Workload], terms: _Terms, first: int
) -> Matrix:
    ends = np.cumsum([sum(b.rows for b in w.by_scope) for w in workloads])[:-1]
    together = np.array([part.sum() for part in np.split(terms.squares, ends)])
    weights = np.hstack([each.weights for each in poured])
    whole = weights.sum(axis=0)
    ratios = np.full((len(workloads), len(workloads)), np.nan)
    for analyst, own in enumerate(weights[first:], start=first):
        used = np.flatnonzero(own)
        added = None
        if len(used) <= max(FEW_BUCKETS, terms.size // 2):
            dropped = np.sqrt(whole[used] ** 2 - (whole[used] - own[used]) ** 2)
            added = _added(dropped[:, None] * terms.buckets(used), terms)
        if added is None:
            try:
                without = _anew(poured, workloads, analyst)
            except NotCoveredError:  # By rounding; selecting anew tells.
                continue
        else:
            without = together + [part.sum() for part in np.split(added, ends)]
        ratios[analyst] = np.where(
            together == 0, 1.0, together / np.where(without == 0, 1, without)
        )
        ratios[analyst, analyst] = 1.0
    return ratios


def _anew(poured: Sequence[Poured], workloads: Sequence[Workload], left: int) -> Matrix:
    """Return everyone's variances without one analyst, by a factor of its own."""
    blocks = [each.without(left) for each in poured]
    solver = solver_for([reduced(block) for block in blocks if block.rows])
    return np.array(
        [
            0.0 if analyst == left else solver.total(workload.by_scope)
            for analyst, workload in enumerate(workloads)
        ]
    )


def _added(rows: Matrix, terms: _Terms) -> Matrix | None:
    """Return by how much every query's variance grows; None if an update cannot tell."""
    values, vectors = np.linalg.eigh(np.eye(len(rows)) - rows @ rows.T)
    if ((values > LOST) & (values < DOUBTFUL)).any():
        return None
    kept = values >= DOUBTFUL
    scaled = (vectors[:, kept].T @ rows) / np.sqrt(values[kept])[:, None]
    return np.asarray((terms.products(scaled) ** 2).sum(axis=0))
