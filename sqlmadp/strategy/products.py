"""Product strategies: blocks that measure every cell of a product of partitions.

For workloads over several scopes whose coordinates are too many to optimise rows over.  Every
column has a few levels, which are partitions that queries use; a candidate block takes a level of
each of some columns, and is no finer than some scope's queries.  All of them differ in nothing
but weight (`weights`), and in coordinates their Gram matrices fall apart into small parts that are
mostly alike (`components`).  Whole blocks have equal columns by themselves, so nothing is lost
when their weights are made integers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.errors import NotSupportedError
from sqlmadp.schema.marginal import CellBlock, Labels, Marginal, Partition
from sqlmadp.strategy.integer import S, apportion
from sqlmadp.strategy.weights import Selected, few_weights
from sqlmadp.workload.components import Components, parts_of
from sqlmadp.workload.coordinates import Coordinates
from sqlmadp.workload.gram import cells_gram, gram_of
from sqlmadp.workload.product_rows import ProductRows
from sqlmadp.workload.workload import Workload

Matrix = NDArray[np.float64]

MOST_LEVELS = 4
"""Partitions of one column that blocks may be made of."""

MOST_CANDIDATES = 160
"""Blocks that are weighed against each other."""

MOST_COORDINATES = 50_000
"""Coordinates of all candidates together."""

MOST_ENTRIES = 1 << 24
"""Pairs of coordinates that queries meet in, counted for every set of rows that have one form."""


def select_products(workload: Workload) -> Selected:
    """Return good integer weights for products of the workload's own partitions."""
    products = Products.of(workload)
    asked = products.gram(workload)
    problem = Components([asked], products.grams)
    even = np.ones(len(products.candidates))
    weights = few_weights(problem, [even, products.large + 0.05])[1]
    blocks, squares = products.whole(weights, S)
    certified = Components([asked], [products.grams[k] for k in np.flatnonzero(weights)])
    return Selected(blocks, S, S**2 * certified.trace(squares))


@dataclass(frozen=True, eq=False)
class Products:
    """The products to weigh for a workload, and their Gram matrices in coordinates."""

    candidates: tuple[Marginal, ...]
    large: Matrix
    """1 for those that are as fine as the queries of a scope."""
    coordinates: Coordinates
    grams: tuple[sparse.csr_array, ...]
    parts: Labels
    """The part of every coordinate: no product meets two of them."""

    @classmethod
    def of(cls, workload: Workload) -> Products:
        """Return the products of a workload's own partitions; refused if they are too large."""
        tops = tuple(scope.marginal for scope in workload.scopes)
        return _products(tops, tuple((name, tuple(p)) for name, p in _levels(workload).items()))

    def gram(self, workload: Workload) -> sparse.csr_array:
        """Return ``W^T W`` inside parts, of some of the queries that the products were made for."""
        return gram_of(workload.by_scope, self.coordinates, MOST_ENTRIES, parts=self.parts)

    def whole(self, weights: Matrix, total: int) -> tuple[tuple[CellBlock, ...], Matrix]:
        """Return blocks for all weights above 0 as integers that sum to ``total``; and squares."""
        kept = np.flatnonzero(weights)
        whole = apportion(weights[kept].tolist(), total)
        pairs = zip(kept, whole, strict=True)
        blocks = tuple(CellBlock(self.candidates[k], w) for k, w in pairs)
        return blocks, np.array(whole, dtype=np.float64) ** 2


@lru_cache(maxsize=2)
def _products(
    tops: tuple[Marginal, ...], levels: tuple[tuple[str, tuple[Partition, ...]], ...]
) -> Products:
    """Return the products for given scopes and levels, which many a smaller collective shares."""
    candidates = tuple(itertools.islice(_candidates(tops, dict(levels)), MOST_CANDIDATES))
    # Levels that no block uses still tell the basis what queries treat alike.
    single = [Marginal((name,), (p,)) for name, each in levels for p in each]
    coordinates = Coordinates([*tops, *single, *candidates])
    if coordinates.size > MOST_COORDINATES:
        raise NotSupportedError(
            f"these queries together take {coordinates.size:,} coordinates; at most "
            f"{MOST_COORDINATES:,} are supported"
        )
    large = np.array([marginal in tops for marginal in candidates], dtype=np.float64)
    grams = tuple(cells_gram(marginal, coordinates) for marginal in candidates)
    return Products(candidates, large, coordinates, grams, parts_of(grams))


def _candidates(
    tops: Sequence[Marginal], levels: Mapping[str, Sequence[Partition]]
) -> Iterator[Marginal]:
    """Yield the products to weigh: what was asked first, then all that is coarser."""
    maximal = [
        top for top in tops if not any(other.resolves(top) for other in tops if other != top)
    ]
    yield from maximal
    names = sorted(levels)
    few = [_apart(levels[name], _used(tops, name)) for name in names]
    for choice in itertools.product(*((None, *each) for each in few)):
        chosen = {n: p for n, p in zip(names, choice, strict=True) if p is not None}
        marginal = Marginal(tuple(chosen), tuple(chosen.values()))
        if marginal not in maximal and any(top.resolves(marginal) for top in maximal):
            yield marginal


def _levels(workload: Workload) -> dict[str, list[Partition]]:
    """Return partitions of every column, from the largest sets of values to the smallest.

    They depend on the queries alone, not on how statements or analysts divide them.
    """
    used: dict[str, list[Partition]] = {}
    sets: dict[str, set[bytes]] = {}
    for block in workload.by_scope:
        marginal = block.marginal
        for name, partition in zip(marginal.scope, marginal.partitions, strict=True):
            used.setdefault(name, []).append(partition)
        if marginal.scope and not isinstance(block, CellBlock):
            members = ProductRows.of(block).members
            for name, partition, each in zip(
                marginal.scope, marginal.partitions, members, strict=True
            ):
                inside = (each != 0)[:, partition.labels]
                sets.setdefault(name, set()).update(row.tobytes() for row in inside)
    return {name: _chain(uses, sets.get(name, set())) for name, uses in used.items()}


def _used(marginals: Sequence[Marginal], name: str) -> list[Partition]:
    """Return the partitions of one column in given marginals, those of large ones first."""
    holding = [m for m in marginals if name in m.scope]
    ordered = sorted(holding, key=lambda m: (-m.size, m.scope))
    return [marginal.partitions[marginal.scope.index(name)] for marginal in ordered]


def _apart(levels: Sequence[Partition], used: Sequence[Partition]) -> list[Partition]:
    """Return the partitions that scopes use, and others far from them in size."""
    chosen = list(dict.fromkeys(used))[:MOST_LEVELS]
    others = [partition for partition in levels if partition not in chosen]
    while others and len(chosen) < MOST_LEVELS:
        apart = max(others, key=lambda p: min(abs(math.log(p.size / each.size)) for each in chosen))
        others.remove(apart)
        chosen.append(apart)
    return sorted(chosen, key=lambda p: (p.size, p.key))


def _chain(used: Iterable[Partition], sets: set[bytes]) -> list[Partition]:
    """Return ever finer partitions: into the largest sets, then those and the next smaller ones."""
    finest = reduce(Partition.refine, used)
    by_size: dict[int, list[Labels]] = {}
    for key in sorted(sets):
        inside = np.frombuffer(key, dtype=np.bool_).astype(np.int64)
        size = len(np.unique(finest.labels[inside > 0]))
        by_size.setdefault(size, []).append(inside)
    chain, known = [], Partition.of(np.zeros(len(finest.labels), dtype=np.int64))
    for size in sorted(by_size, reverse=True):
        known = reduce(Partition.refine, map(Partition.of, by_size[size]), known)
        if known.size > 1 and known not in chain:
            chain.append(known)
    return chain
