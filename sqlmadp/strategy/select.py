"""Select what one analyst would measure alone: the best template by its certified error.

Templates: over one scope Identity, Total + Identity, the workload itself, and p-Identity
(`single`); over several scopes a block on each, on the maximal ones, or one on their union,
weights and rows optimised together.  Where that is too much, blocks that measure cells of
marginals (`marginals`) and of products of partitions (`products`), with optimised weights; and over
one large scope a product of p-Identities, one a column (`kronecker`).
Every candidate is made of integers first; its error is then recomputed from those integers by
triangular factors, and the least one wins.  An optimiser's own number is never believed.

The same workload gives the same strategy, bit for bit, whoever asks: that is what lets
equal questions meet in one bucket.
"""

from __future__ import annotations

import math
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
from sqlmadp.strategy.kronecker import products_of, select_kronecker
from sqlmadp.strategy.layout import Layout, holds_all, layouts
from sqlmadp.strategy.marginals import PlainWorkload, select_marginals
from sqlmadp.strategy.products import select_products
from sqlmadp.strategy.scopes import split_by_scope
from sqlmadp.strategy.single import DENSE_GROUPS, best_block, own_rows
from sqlmadp.strategy.weights import Selected
from sqlmadp.workload.workload import Workload

MOVE_ROWS = 600
"""Coordinates up to which the rows of several blocks are optimised together."""

TOGETHER = 2400
"""Groups of all scopes up to which rows and weights are optimised in coordinates of them all.

Beside products of partitions that has 0.85, 0.82 and 0.82 of the error for ranges of one column
crossed with another at 600, 1,000 and 1,800 groups, in 2 to 11 CPU s, and 0.31 for ranges of four
columns apart at 2,000 groups, in 12 CPU s.  Time grows with the third power of the groups.
"""

PRODUCTS = 1200
"""Groups of all scopes from which on products of partitions are tried too."""

LONG = 200
"""Groups of all scopes from which on searches of several layouts are worth processes of their own.
"""

MOST_LAYOUTS = 4
"""Layouts that are tried for one workload."""

PLAIN_SCOPES = 64
"""Plain marginals up to which other templates are tried beside weights on marginals.

They have less error, by up to an eighth, for few and small marginals only: below 200 groups.
"""


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
    if not is_known(workload, cache=cache):
        strategy = _known[fingerprint] = _search(workload, cache)
        if cache is not None:
            cache.save(fingerprint, strategy.blocks, strategy.error, strategy.total)
            cache.forget(_part(fingerprint, number) for number in range(MOST_LAYOUTS))
    return _known[fingerprint]


def is_known(workload: Workload, *, cache: StrategyCache | None = None) -> bool:
    """Tell whether `select` would find a strategy without searching for one."""
    fingerprint = workload.fingerprint
    if fingerprint not in _known and cache is not None:
        with _libraries().limit(limits=1):
            stored = cache.load(fingerprint, workload)
        if stored is not None:
            _known[fingerprint] = Strategy(*stored)
    return fingerprint in _known


def starts(workload: Workload) -> int:
    """Return how many searches a workload takes that are long enough to be run side by side."""
    groups = sum(scope.groups for scope in workload.scopes)
    if len(workload.scopes) < 2 or not LONG <= groups <= TOGETHER:
        return 1
    return 1 if PlainWorkload.of(workload.by_scope) is not None else len(layouts(workload))


def search_start(workload: Workload, number: int, cache: StrategyCache) -> None:
    """Leave what one of several searches finds in the cache, for `select` to find it there."""
    with _libraries().limit(limits=1):
        found = _by_layout(layouts(workload)[number])
    cache.save(_part(workload.fingerprint, number), found.blocks, found.error, found.total)


def _part(fingerprint: str, number: int) -> str:
    return f"{fingerprint}-{number}"


def _search(workload: Workload, cache: StrategyCache | None = None) -> Strategy:
    # One thread: several contend for small matrices, and add up in an order of their own.
    with _libraries().limit(limits=1):
        plain = PlainWorkload.of(workload.by_scope)
        if plain is not None and len(plain.squares) > PLAIN_SCOPES:
            return _strategy(select_marginals(plain))
        groups = sum(scope.groups for scope in workload.scopes)
        one_layout = len(workload.scopes) == 1 or holds_all(workload) is not None
        found = []
        if plain is not None and len(plain.squares) > 1:
            found.append(_strategy(select_marginals(plain)))
        elif groups > PRODUCTS and not one_layout:
            found += _by_products(workload)
        if max(scope.groups for scope in workload.scopes) > DENSE_GROUPS:
            goal = min((strategy.error for strategy in found), default=math.inf)
            found += _by_kronecker(workload, goal)
        most = TOGETHER if plain is None else min(MOVE_ROWS, TOGETHER)
        if groups <= most or one_layout or not found:
            found += _by_layouts(workload, cache)
    return min(found, key=lambda strategy: strategy.error)


def _by_layouts(workload: Workload, cache: StrategyCache | None = None) -> Iterator[Strategy]:
    """Yield the best strategy of every layout, from the cache where a search left it there."""
    for number, layout in enumerate(layouts(workload)):
        part = _part(workload.fingerprint, number)
        stored = cache.load(part, workload) if cache is not None else None
        yield _by_layout(layout) if stored is None else Strategy(*stored)


def _by_layout(layout: Layout) -> Strategy:
    """Return the best candidate of one layout."""
    error, blocks = min(_candidates(layout), key=lambda pair: pair[0])
    over_cells = [block.expanded(alone=len(blocks) == 1) for block in blocks]
    return Strategy(tuple(part for b in over_cells for part in split_by_scope(b)), error)


def _by_products(workload: Workload) -> list[Strategy]:
    """Return the best products of partitions; none if they are too many to weigh."""
    try:
        return [_strategy(select_products(workload))]
    except NotSupportedError:
        return []


def _by_kronecker(workload: Workload, goal: float) -> list[Strategy]:
    """Return the best product of strategies of single columns; none if queries are no products."""
    products = products_of(workload)
    return [] if products is None else [_strategy(select_kronecker(*products, goal))]


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
