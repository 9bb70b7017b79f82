"""Which scopes to measure in one block, when everybody's part of the budget stays what it is.

Analysts who ask for different columns can pool their parts: two columns of two values measured
as one block of four cells cost each query twice the noise, but at twice the weight, and so half
the error.  This is a model of that, exact for blocks measured cell by cell that share no
column.  Scope S has the weight u_S that the analysts' own strategies give it, and a workload's
queries there have the mean square ``c`` in their constant part and ``r`` in all the rest.
For blocks T that pool scopes, with ``n_T`` cells and ``u_T`` the sum of their weights,

    L_T = u_T^2 / n_T,    z = u^2 + sum_T L_T,    error = sum_S  c_S / z + r_S / L_T(S):

the total is known from all blocks together, and from whatever weight u is spent on it alone;
everything else is known from the own block.  The pooling sought has the least total error while
nobody is worse off than with nothing pooled, and nobody than with the same pooling and one
analyst less.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sqlmadp.mechanism.collective import Collective
from sqlmadp.strategy.layout import per_scope, vertex_counts
from sqlmadp.table.rows import Rows, Scope
from sqlmadp.table.runs import Floats
from sqlmadp.workload.questions import record_effect

Pooling = tuple[tuple[int, ...], ...]
"""The blocks, each as the numbers of the scopes that it pools."""

BLOCK_CELLS = 64
"""Pool scopes in a block of at most this many vertices."""

PRICE = 3.0
"""Count an error above that with nothing pooled this many times, during the search."""

MOVES = 4
"""Move this often per scope."""

TRIED = 20_000
"""Try at most this many poolings: with very many scopes there are fewer moves."""

ROUNDING = 1e-9
"""Take errors to be equal if they differ by at most this part."""


@dataclass(frozen=True, eq=False)
class Pool:
    """What the model knows of a collective: one row per workload, one column per scope."""

    scopes: tuple[Scope, ...]
    sizes: Mapping[str, int]
    """Vertices of every column that somebody tells apart."""
    counts: Floats
    """How much the analysts of each workload bring: their shares in units of the mean share."""
    importance: Floats
    """What the errors of the analysts of each workload count for."""
    weights: Floats
    """The part of the budget that the mean share of each workload spends on each scope."""
    totals: Floats
    """The part that it spends on the total of all cells."""
    constant: Floats
    rest: Floats

    @classmethod
    def of(cls, collective: Collective) -> Pool:
        """Return the model of analysts who measure their own strategies."""
        firsts, numbers = collective.distinct
        strategies = [collective.strategies[n] for n in firsts]
        measured = {block.scope for own in strategies for block in own.blocks} - {()}
        scopes = tuple(sorted(measured))
        weights, constant, rest = (np.zeros((len(firsts), len(scopes))) for _ in range(3))
        totals = np.zeros(len(firsts))
        shares = np.array([float(share / collective.whole) for share in collective.shares])
        counts = np.bincount(numbers).astype(np.float64)
        means = np.bincount(numbers, shares) / counts
        asked: list[Rows] = []
        for i, (first, own) in enumerate(zip(firsts, strategies, strict=True)):
            for block in own.blocks:
                part = means[i] * record_effect(block) / own.total
                if block.scope:
                    weights[i, scopes.index(block.scope)] += part
                else:
                    totals[i] += part
            workload = per_scope(collective.workloads[first])
            asked += workload
            for rows in workload:
                home = _own_scope(rows.scope, scopes)
                if home is not None:
                    square = rows.square_sum / rows.size
                    flat = _mean_square(rows)
                    constant[i, home] += flat
                    rest[i, home] += square - flat
        importance = np.bincount(numbers, collective.importance)
        sizes = vertex_counts(asked)
        return cls(scopes, sizes, counts, importance / counts, weights, totals, constant, rest)

    @property
    def apart(self) -> Pooling:
        """A block for every scope."""
        return tuple((number,) for number in range(len(self.scopes)))

    def total(self, errors: Floats) -> float:
        """Return the weighted sum of everybody's errors."""
        return float((self.counts * self.importance) @ errors)

    def errors(self, pooling: Pooling, counts: Floats) -> Floats:
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
        """Return whether a block is small enough, or no larger than one of its scopes."""
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
            above = pool.total(np.maximum(errors - caps, 0))
            tried[pooling] = (pool.total(errors) + PRICE * above, above)
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
    """Return whether somebody would be better off with one analyst less and the same pooling."""
    now = pool.errors(pooling, pool.counts)
    for i in range(len(pool.counts)):
        counts = pool.counts.copy()
        counts[i] -= 1
        left = counts > 0
        if left.any() and (now > _pooled(pool, pooling, counts) * (1 + ROUNDING))[left].any():
            return True
    return False


def _pooled(pool: Pool, pooling: Pooling, counts: Floats) -> Floats:
    """Return the errors of fewer analysts: pooled, unless that harms one of them."""
    apart = pool.errors(pool.apart, counts)
    errors = pool.errors(pooling, counts)
    return errors if (errors <= apart * (1 + ROUNDING))[counts > 0].all() else apart


def _mean_square(rows: Rows) -> float:
    """Return the sum over rows of the squares of their means."""
    if rows.plain:
        return float(rows.weight) ** 2 / rows.size
    means = np.asarray(rows.matrix.sum(axis=1)).reshape(-1) / rows.size
    return float(means @ means)


def _own_scope(scope: Scope, scopes: Sequence[Scope]) -> int | None:
    """Return the number of a query's own scope, or else of the first that holds it."""
    holding = [number for number, each in enumerate(scopes) if set(scope) <= set(each)]
    return next((n for n in holding if scopes[n] == scope), next(iter(holding), None))
