"""Waterfilling: measure each direction once, with the weight of everyone who asked for it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from sqlmadp.errors import NotSupportedError, ProgrammingError
from sqlmadp.mechanism.base import BOTH, Mechanism, registered
from sqlmadp.mechanism.collective import Collective, Joint
from sqlmadp.strategy.integers import split_by_scope
from sqlmadp.table.partition import Partition, common
from sqlmadp.table.rows import Rows, lifting
from sqlmadp.table.runs import Floats, Integers

CLOSE_CELLS = 1 << 12
"""Pour rows that are only close over at most this many vertices of all columns in use."""


@registered
@dataclass(frozen=True, kw_only=True)
class Waterfilling(Mechanism):
    """Select first, then pour: parallel strategy queries share one bucket [PWFM21].

    Each analyst's share is spent on the strategy that analyst would choose alone.  Strategy
    queries that point the same way are poured into one bucket, whoever they came from, and each
    bucket is measured once.  Every column of every strategy sums to the same, so pouring in one
    more analyst raises the sensitivity by exactly that analyst's part and every other row stays or
    grows: sharing incentive and non-interference hold exactly at tolerance 0.
    """

    name = "waterfilling"
    rule = (
        "each analyst's share is spent on the measurements that this analyst would choose alone; "
        "equal measurements go into one bucket, which is measured once with all shares added up"
    )
    promise = BOTH
    effort = 1.0

    tolerance: float = 0.0
    """0: exactly parallel.  Otherwise the paper's rule: cosine at least ``1 - tolerance``."""

    def __post_init__(self) -> None:
        if not 0 <= self.tolerance < 1:
            raise ProgrammingError(f"tolerance must be from 0 to below 1, not {self.tolerance!r}")

    def _choose(self, collective: Collective) -> Joint:
        if self.tolerance == 0:
            return collective.poured
        pairs = zip(collective.strategies, collective.factors, strict=True)
        block = over_one_scope([b.times(factor) for own, factor in pairs for b in own.blocks])
        rows = poured_close(block.matrix, self.tolerance)
        # Rows that are only close may cancel where their signs differ.
        total = int(np.abs(rows).sum(axis=0).max())
        close = Rows.of(block.scope, block.parts, sparse.csr_array(rows))
        return collective.read_by_all(split_by_scope(close), total)

    def interference(self, collective: Collective) -> Floats | None:
        """Return the errors when each is left out once, from the buckets of the others."""
        if self.tolerance:
            return None
        count = len(collective)
        found = np.ones((count, count))
        known: dict[bytes, tuple[int, Floats]] = {}
        for i in range(count if count > 1 else 0):
            # Analysts of one kind leave the same buckets behind.
            if collective.kinds[i] not in known:
                known[collective.kinds[i]] = i, collective.poured_without(i)
            first, without = known[collective.kinds[i]]
            others = [j for j in range(count) if j != i]
            kinds = [collective.kinds[j] for j in range(count) if j != first]
            left = dict(zip(kinds, without, strict=True))
            found[i, others] = [
                ratio(collective.poured.errors[j], left[collective.kinds[j]]) for j in others
            ]
        return found


def ratio(error: float, reference: float) -> float:
    """Return ``error / reference``; two errors of 0 are equal."""
    if reference == 0:
        return 1.0 if error == 0 else math.inf
    return float(error / reference)


def poured_close(rows: sparse.csr_array, tolerance: float) -> Integers:
    """Pour each row into the first bucket that is close enough, in order, as the paper does."""
    buckets = np.zeros((0, rows.shape[1]), dtype=np.int64)
    for row in rows.toarray():
        lengths = np.linalg.norm(buckets.astype(np.float64), axis=1) * np.linalg.norm(row)
        cosines = buckets.astype(np.float64) @ row
        close = np.flatnonzero(cosines >= (1 - tolerance) * lengths)
        if len(close):
            buckets[close[0]] += row
        else:
            buckets = np.vstack([buckets, row])
    return buckets


def over_one_scope(blocks: list[Rows]) -> Rows:
    """Return all rows over all columns, in whole numbers: close ones may have different scopes."""
    used: dict[str, list[Partition]] = {}
    for block in blocks:
        for column, part in zip(block.scope, block.parts, strict=True):
            used.setdefault(column, []).append(part)
    scope = tuple(sorted(used))
    parts = tuple(common(used[column]) for column in scope)
    size = math.prod(part.size for part in parts)
    if size > CLOSE_CELLS:
        raise NotSupportedError(
            f"waterfilling with a tolerance compares rows over all {size:,} vertices; at most "
            f"{CLOSE_CELLS:,} are supported. Use tolerance 0, which has no such limit."
        )
    units = math.lcm(*(block.units for block in blocks))
    found = []
    for block in blocks:
        lift = lifting(block.scope, block.parts, scope, parts) * float(units)
        whole = sparse.csr_array(
            (np.rint(lift.data).astype(np.int64), lift.indices, lift.indptr), shape=lift.shape
        )
        if np.abs(whole.data - lift.data).max(initial=0) > 1e-6 or block.units * units >= 2**31:
            raise NotSupportedError(
                "waterfilling with a tolerance is not supported where ramps of different lengths "
                "meet. Use tolerance 0, which has no such limit."
            )
        found.append(sparse.csr_array(block.matrix.astype(np.int64) @ whole))
    return Rows(scope, parts, 0, sparse.csr_array(sparse.vstack(found)))
