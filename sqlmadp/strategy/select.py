"""Select what one analyst would measure alone: the best template by its certified error.

Templates: Identity, Total + Identity, the workload itself, and p-Identity with its rows grown
one by one; over several scopes a block on each, on the maximal ones, or one on their union,
weights and rows optimised together.  Every candidate is made of integers first; its error
is then recomputed from those integers by a triangular factor, and the least one wins.
An optimiser's own number is never believed.

The same workload gives the same strategy, bit for bit, whoever asks: that is what lets
equal questions meet in one bucket.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from threadpoolctl import ThreadpoolController

from sqlmadp.schema.marginal import Block
from sqlmadp.strategy.cache import StrategyCache
from sqlmadp.strategy.integer import IntegerBlock, S, rounded, total_block, workload_block
from sqlmadp.strategy.joint import Draft, balance
from sqlmadp.strategy.layout import Layout, layouts
from sqlmadp.strategy.p_identity import STRETCHED, grow, stretch
from sqlmadp.strategy.scopes import split_by_scope
from sqlmadp.workload.workload import ScopeWorkload, Workload

DENSE_GROUPS = 1024
"""Groups of one scope up to which rows on top of the identity are searched for."""

WORKLOAD_ROWS = 2
"""Queries a group up to which the workload itself may be a good strategy."""

MOVE_ROWS = 600
"""Coordinates up to which the rows of several blocks are optimised together."""

MOST_ROWS = 8
"""Rows on top of the identity, at most, for one scope."""


@dataclass(frozen=True, eq=False)
class Strategy:
    """What one analyst would measure: integers, over all blocks every cell summing to S."""

    blocks: tuple[Block, ...]
    """Each row on the fewest columns that it depends on."""
    error: float
    """``S^2 trace(W^T W (A^T A)^-1)`` for the workload it was selected for, certified."""


_known: dict[str, Strategy] = {}


def select(workload: Workload, *, cache: StrategyCache | None = None) -> Strategy:
    """Return the strategy for a workload; ``cache`` keeps it for the next process."""
    fingerprint = workload.fingerprint
    if fingerprint not in _known:
        stored = cache.load(fingerprint) if cache is not None else None
        strategy = _search(workload) if stored is None else Strategy(*stored)
        if cache is not None and stored is None:
            cache.save(fingerprint, strategy.blocks, strategy.error)
        _known[fingerprint] = strategy
    return _known[fingerprint]


def _search(workload: Workload) -> Strategy:
    # One thread: several contend for small matrices, and add up in an order of their own.
    with _libraries().limit(limits=1):
        candidates = [
            (_certified(layout, blocks), blocks)
            for layout in layouts(workload)
            for blocks in _candidates(layout)
        ]
    error, blocks = min(candidates, key=lambda pair: pair[0])
    over_cells = [block.expanded(alone=len(blocks) == 1) for block in blocks]
    return Strategy(tuple(part for b in over_cells for part in split_by_scope(b)), error)


@lru_cache
def _libraries() -> ThreadpoolController:
    """Return what limits threads; looking for the libraries takes longer than a small search."""
    return ThreadpoolController()


def _candidates(layout: Layout) -> Iterator[tuple[IntegerBlock, ...]]:
    """Yield the templates for a layout, plainest first, so that ties go to the plain one."""
    scopes = layout.scopes
    plain = [np.zeros((0, scope.groups)) for scope in scopes]
    if len(scopes) == 1:
        yield rounded(Draft(layout, (1.0,), tuple(plain)))
        if scopes[0].groups <= DENSE_GROUPS and scopes[0].queries.nnz > 0:
            if scopes[0].queries.shape[0] <= WORKLOAD_ROWS * scopes[0].groups:
                yield (workload_block(scopes[0], S),)
            yield (total_block(scopes[0]),)
            yield rounded(Draft(layout, (1.0,), (_grown(scopes[0]),)))
        return
    yield rounded(balance(layout, plain, move_rows=False))
    grown = [
        _grown(s) if s.groups <= DENSE_GROUPS else p for s, p in zip(scopes, plain, strict=True)
    ]
    if any(len(rows) for rows in grown):
        yield rounded(balance(layout, grown, move_rows=len(layout.gram) <= MOVE_ROWS))


def _grown(scope: ScopeWorkload) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return rows on top of the identity for one scope's own queries; none if it is too large."""
    if scope.groups > DENSE_GROUPS:
        return np.zeros((0, scope.groups))
    frozen = np.zeros(scope.groups, dtype=np.bool_)
    if scope.unasked is not None:
        frozen[scope.unasked] = True
    if scope.groups >= STRETCHED:
        return stretch(scope.gram, frozen)
    return grow(scope.gram, frozen, MOST_ROWS)


def _certified(layout: Layout, blocks: tuple[IntegerBlock, ...]) -> float:
    """Return the candidate's error from its integers; infinite if it cannot answer."""
    if len(blocks) == 1 and blocks[0].scope.groups > DENSE_GROUPS:  # S times the identity.
        return float((blocks[0].scope.queries.data ** 2).sum())
    return S**2 * layout.error([block.matrix for block in blocks])
