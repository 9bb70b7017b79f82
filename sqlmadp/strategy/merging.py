"""Merging scopes: fewer blocks, each over more cells.

Measured cell by cell, a block of weight u has error ``a / u^2``, with ``a = ||W||_F^2`` over its
cells; with the best weights, blocks of errors a_b cost ``(sum_b a_b^(1/3))^3`` together.  Over the
cells of a larger scope every query of a smaller one sums that many more cells, but one weight
serves both: eight columns of two values are far cheaper as three blocks than as eight.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

MOST_SCOPES = 300
"""Scopes up to which every pair of them is looked at."""


@dataclass(frozen=True)
class Asked:
    """The groups of every column of a scope, and the error of its queries cell by cell."""

    sizes: tuple[tuple[str, int], ...]
    """Columns in alphabetical order."""
    error: float

    @property
    def scope(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        return tuple(name for name, _ in self.sizes)

    def joined(self, other: Asked) -> Asked:
        """Return the union of two scopes, with the queries of both over its cells."""
        sizes = dict(self.sizes)
        for name, size in other.sizes:
            sizes[name] = max(size, sizes.get(name, 1))
        cells = math.prod(sizes.values())
        error = sum(a.error * (cells / a.cells) for a in (self, other))
        return Asked(tuple(sorted(sizes.items())), error)

    @property
    def cells(self) -> int:
        """Return the number of cells (exact, of any size)."""
        return math.prod(size for _, size in self.sizes)


def merge(asked: Sequence[Asked], most_cells: int) -> list[list[Asked]]:
    """Return the scopes after every merge that lowers the error, best pair first.

    The last list is the end of the way; all are worth trying.
    """
    parts = list(asked) if len(asked) <= MOST_SCOPES else []
    steps = []
    gains = {
        (i, j): _gain(parts[i], parts[j], most_cells) for i in range(len(parts)) for j in range(i)
    }
    alive = dict.fromkeys(range(len(parts)))
    while gains:
        (i, j), gain = max(gains.items(), key=lambda pair: (pair[1], pair[0]))
        if gain <= 0:
            break
        joined = parts[i].joined(parts[j])
        del alive[i], alive[j]
        gains = {pair: g for pair, g in gains.items() if not {i, j} & set(pair)}
        for other in alive:
            gains[(len(parts), other)] = _gain(joined, parts[other], most_cells)
        alive[len(parts)] = None
        parts.append(joined)
        steps.append([parts[k] for k in alive])
    return steps


def _gain(one: Asked, other: Asked, most_cells: int) -> float:
    joined = one.joined(other)
    if joined.cells > most_cells:
        return -math.inf
    return float(np.cbrt(one.error) + np.cbrt(other.error) - np.cbrt(joined.error))
