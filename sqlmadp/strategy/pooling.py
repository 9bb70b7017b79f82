"""Which scopes to measure in one block, when everybody's part of the budget stays what it is.

Analysts who ask for different columns can pool their parts: two columns of two values measured
as one block of four cells cost each query twice the noise, but at twice the weight, and so half
the error.  This is a model of that, exact for blocks measured cell by cell that share no
column.  Scope S has the weight u_S that the analysts' own strategies give it, and a workload's
queries there have the mean square ``c`` in their constant part and ``r`` in all the rest.
For blocks T that pool scopes, with ``n_T`` cells and ``u_T`` the sum of their weights,

    L_T = u_T^2 / n_T,    z = u^2 + sum_T L_T,    error = sum_S  c_S / z + r_S / L_T(S):

the total is known from all blocks together, and from whatever weight u is spent on
it alone; everything else is known from the own block.  The pooling sought
has the least total error while nobody is worse off than with nothing pooled, and nobody
than with the same pooling and one analyst less.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sqlmadp.schema.marginal import Block, Partition
from sqlmadp.workload.workload import Workload

Matrix = NDArray[np.float64]
Scope = tuple[str, ...]
Pooling = tuple[tuple[int, ...], ...]
"""The blocks, each as the numbers of the scopes that it pools."""

BLOCK_CELLS = 64
"""Cells of a block of several scopes, at most."""

PRICE = 3.0
"""What an error above that with nothing pooled counts for, during the search."""

MOVES = 4
"""Moves a scope."""

TRIED = 20_000
"""Poolings to try, at most: with very many scopes there are fewer moves."""

ROUNDING = 1e-9
"""By how much more than another an error may seem to be."""


@dataclass(frozen=True, eq=False)
class Pool:
    """What the model knows of a collective: one row a workload, one column a scope."""

    scopes: tuple[Scope, ...]
    sizes: Mapping[str, int]
    """Groups of every column that somebody tells apart."""
    counts: Matrix
    """How many analysts have each workload."""
    weights: Matrix
    """The part of the budget that one analyst of each workload spends on each scope."""
    totals: Matrix
    """The part that one analyst of each workload spends on the total of all cells."""
    constant: Matrix
    rest: Matrix

    @classmethod
    def of(
        cls,
        workloads: Sequence[Workload],
        counts: Sequence[int],
        strategies: Sequence[Sequence[Block]],
        parts: Sequence[float],
    ) -> Pool:
        """Return the model of workloads whose analysts measure ``strategies`` by themselves."""
        measured = {block.marginal.scope for blocks in strategies for block in blocks} - {()}
        scopes = tuple(sorted(measured))
        weights, constant, rest = (np.zeros((len(workloads), len(scopes))) for _ in range(3))
        totals = np.zeros(len(workloads))
        for i, (workload, blocks) in enumerate(zip(workloads, strategies, strict=True)):
            heights = np.array([float(block.matrix.sum(axis=0).max()) for block in blocks])
            for block, part in zip(blocks, parts[i] * heights / heights.sum(), strict=True):
                if block.marginal.scope:
                    weights[i, scopes.index(block.marginal.scope)] += part
                else:
                    totals[i] += part
            for block in workload.by_scope:
                own = _own_scope(block.marginal.scope, scopes)
                means = np.asarray(block.matrix.sum(axis=1)).reshape(-1) / block.marginal.size
                squares = float((block.matrix.data**2).sum()) / block.marginal.size
                if own is not None:
                    constant[i, own] += float(means @ means)
                    rest[i, own] += squares - float(means @ means)
        sizes = _sizes([block for workload in workloads for block in workload.by_scope])
        many = np.array(counts, dtype=np.float64)
        return cls(scopes, sizes, many, weights, totals, constant, rest)

    @property
    def apart(self) -> Pooling:
        """Return a block for every scope."""
        return tuple((number,) for number in range(len(self.scopes)))

    def errors(self, pooling: Pooling, counts: Matrix) -> Matrix:
        """Return each workload's error; whatever nobody is left to ask for is not measured."""
        used = counts @ self.weights
        known = np.full(len(self.scopes), np.inf)
        z = float(counts @ self.totals) ** 2
        for block in pooling:
            numbers = [number for number in block if used[number] > 0]
            if numbers:
                known[numbers] = sum(used[n] for n in numbers) ** 2 / self._cells(numbers)
                z += known[numbers[0]]
        return np.asarray(self.constant.sum(axis=1) / z + self.rest @ (1 / known))

    def fits(self, block: Sequence[int]) -> bool:
        """Tell whether a block is small enough, or no larger than one of its scopes."""
        return self._cells(block) <= max(BLOCK_CELLS, *(self._cells([each]) for each in block))

    def _cells(self, numbers: Sequence[int]) -> int:
        columns = {name for number in numbers for name in self.scopes[number]}
        return math.prod(self.sizes.get(name, 1) for name in columns)


def pooled_scopes(pool: Pool) -> list[Scope]:
    """Return the scopes of the best blocks that a search by single moves finds.

    Moves start with nothing pooled, and go on to the best place not yet visited, whether it is
    better or not.  What they pass through may harm somebody, at a price; of all that was tried,
    the best that harms nobody is returned.
    """
    if len(pool.scopes) < 2:
        return list(pool.scopes)
    caps = pool.errors(pool.apart, pool.counts) * (1 + ROUNDING)
    tried: dict[Pooling, tuple[float, float]] = {}

    def value(pooling: Pooling) -> float:
        if pooling not in tried:
            errors = pool.errors(pooling, pool.counts)
            above = float(pool.counts @ np.maximum(errors - caps, 0))
            tried[pooling] = (float(pool.counts @ errors) + PRICE * above, above)
        return tried[pooling][0]

    pooling, visited = pool.apart, {pool.apart}
    value(pooling)
    for _ in range(min(MOVES * len(pool.scopes), TRIED // len(pool.scopes) ** 2)):
        fresh = [move for move in _moves(pooling, pool) if move not in visited]
        if not fresh:
            break
        pooling = min(fresh, key=value)
        visited.add(pooling)
    harmless = sorted((total, each) for each, (total, above) in tried.items() if above == 0)
    found = next(each for _, each in harmless if each == pool.apart or not _interferes(pool, each))
    unions = ({name for number in block for name in pool.scopes[number]} for block in found)
    return sorted({tuple(sorted(union)) for union in unions})


def _moves(pooling: Pooling, pool: Pool) -> Iterator[Pooling]:
    """Yield what moving one scope to another block, or to one of its own, leads to."""
    for number in range(len(pool.scopes)):
        without = [tuple(n for n in block if n != number) for block in pooling]
        rest = [block for block in without if block]
        for at, block in enumerate(rest):
            joined = tuple(sorted((*block, number)))
            if pool.fits(joined):
                yield tuple(sorted([*rest[:at], joined, *rest[at + 1 :]]))
        yield tuple(sorted([*rest, (number,)]))


def _interferes(pool: Pool, pooling: Pooling) -> bool:
    """Tell whether somebody would be better off with one analyst less and the same pooling."""
    now = pool.errors(pooling, pool.counts)
    for i in range(len(pool.counts)):
        counts = pool.counts.copy()
        counts[i] -= 1
        left = counts > 0
        if left.any() and (now > _within(pool, pooling, counts) * (1 + ROUNDING))[left].any():
            return True
    return False


def _within(pool: Pool, pooling: Pooling, counts: Matrix) -> Matrix:
    """Return the errors of fewer analysts: pooled, unless that harms one of them."""
    apart = pool.errors(pool.apart, counts)
    errors = pool.errors(pooling, counts)
    return errors if (errors <= apart * (1 + ROUNDING))[counts > 0].all() else apart


def _own_scope(scope: Scope, scopes: Sequence[Scope]) -> int | None:
    """Return the number of a query's own scope, or else of the first that holds it."""
    holding = [number for number, each in enumerate(scopes) if set(scope) <= set(each)]
    return next((n for n in holding if scopes[n] == scope), next(iter(holding), None))


def _sizes(blocks: Sequence[Block]) -> dict[str, int]:
    finest: dict[str, Partition] = {}
    for block in blocks:
        for name, partition in zip(block.marginal.scope, block.marginal.partitions, strict=True):
            finest[name] = finest[name].refine(partition) if name in finest else partition
    return {name: partition.size for name, partition in finest.items()}
