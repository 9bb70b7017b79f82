"""Select what one analyst would measure alone: the best template by its certified error.

Templates: over one scope Identity, Total + Identity, the workload itself, and p-Identity
(`single`); over several scopes a block on each, on the maximal ones, or one on their union,
weights and rows optimised together.  Where that is too much, blocks that measure cells of
marginals (`marginals`) and of products of partitions (`products`), with optimised weights.
Every candidate is made of integers first; its error is then recomputed from those integers by
triangular factors, and the least one wins.  An optimiser's own number is never believed.

The same workload gives the same strategy, bit for bit, whoever asks: that is what lets
equal questions meet in one bucket.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from threadpoolctl import ThreadpoolController

from sqlmadp.errors import NotSupportedError
from sqlmadp.schema.marginal import Block
from sqlmadp.strategy.cache import StrategyCache
from sqlmadp.strategy.integer import IntegerBlock, S, rounded
from sqlmadp.strategy.joint import Draft, balance
from sqlmadp.strategy.layout import Layout, layouts
from sqlmadp.strategy.marginals import PlainWorkload, select_marginals
from sqlmadp.strategy.products import select_products
from sqlmadp.strategy.scopes import split_by_scope
from sqlmadp.strategy.single import best_block, own_rows
from sqlmadp.strategy.weights import Selected
from sqlmadp.workload.workload import Workload

MOVE_ROWS = 600
"""Coordinates up to which the rows of several blocks are optimised together."""

TOGETHER = 1200
"""Groups of all scopes up to which rows and weights are optimised in coordinates of them all."""

PLAIN_SCOPES = 64
"""Plain marginals up to which other templates are tried beside weights on marginals."""


@dataclass(frozen=True, eq=False)
class Strategy:
    """What one analyst would measure: integers, over all blocks every cell summing to ``total``."""

    blocks: tuple[Block, ...]
    """Each row on the fewest columns that it depends on."""
    error: float
    """``total^2 trace(W^T W (A^T A)^-1)`` for the workload it was selected for, certified."""
    total: int = S
    """S, or S times a power of two if there are too many blocks for S."""


_known: dict[str, Strategy] = {}


def select(workload: Workload, *, cache: StrategyCache | None = None) -> Strategy:
    """Return the strategy for a workload; ``cache`` keeps it for the next process."""
    fingerprint = workload.fingerprint
    if fingerprint not in _known:
        stored = cache.load(fingerprint) if cache is not None else None
        strategy = _search(workload) if stored is None else Strategy(*stored)
        if cache is not None and stored is None:
            cache.save(fingerprint, strategy.blocks, strategy.error, strategy.total)
        _known[fingerprint] = strategy
    return _known[fingerprint]


def is_known(workload: Workload, *, cache: StrategyCache | None = None) -> bool:
    """Tell whether `select` would find a strategy without searching for one."""
    fingerprint = workload.fingerprint
    return fingerprint in _known or (cache is not None and cache.load(fingerprint) is not None)


def _search(workload: Workload) -> Strategy:
    # One thread: several contend for small matrices, and add up in an order of their own.
    with _libraries().limit(limits=1):
        plain = PlainWorkload.of(workload.blocks)
        if plain is not None and len(plain.squares) > PLAIN_SCOPES:
            return _strategy(select_marginals(plain))
        together = sum(scope.groups for scope in workload.scopes) <= TOGETHER
        found = []
        if plain is not None and len(plain.squares) > 1:
            found.append(_strategy(select_marginals(plain)))
        elif len(workload.scopes) > 1 and not together:
            found += _by_products(workload)
        if together or not found:
            found.append(_by_layouts(workload))
    return min(found, key=lambda strategy: strategy.error)


def _by_layouts(workload: Workload) -> Strategy:
    """Return the best candidate of all layouts."""
    candidates = [pair for layout in layouts(workload) for pair in _candidates(layout)]
    error, blocks = min(candidates, key=lambda pair: pair[0])
    over_cells = [block.expanded(alone=len(blocks) == 1) for block in blocks]
    return Strategy(tuple(part for b in over_cells for part in split_by_scope(b)), error)


def _by_products(workload: Workload) -> list[Strategy]:
    """Return the best products of partitions; none if they are too many to weigh."""
    try:
        return [_strategy(select_products(workload))]
    except NotSupportedError:
        return []


def _strategy(selected: Selected) -> Strategy:
    return Strategy(selected.blocks, selected.error, selected.total)


@lru_cache
def _libraries() -> ThreadpoolController:
    """Return what limits threads; looking for the libraries takes longer than a small search."""
    return ThreadpoolController()


def _candidates(layout: Layout) -> Iterator[tuple[float, tuple[IntegerBlock, ...]]]:
    """Yield templates for a layout with their errors, plainest first: ties go to the plain one."""
    if len(layout.scopes) == 1:
        error, block = best_block(layout)
        yield error, (block,)
        return
    plain = [np.zeros((0, scope.groups)) for scope in layout.scopes]
    yield _certified(layout, balance(layout, plain, move_rows=False))
    grown = [own_rows(scope) for scope in layout.scopes]
    if any(len(rows) for rows in grown):
        move_rows = len(layout.gram) <= MOVE_ROWS
        yield _certified(layout, balance(layout, grown, move_rows=move_rows))


def _certified(layout: Layout, draft: Draft) -> tuple[float, tuple[IntegerBlock, ...]]:
    """Return a draft made of integers, and its error recomputed from them."""
    blocks = rounded(draft)
    return S**2 * layout.error([block.matrix for block in blocks]), blocks
