"""p-Identity for many groups: first over neighbours merged, then over fewer merged ones.

Let B be constant over merged groups G of ``n_g`` groups each, with as many columns as there are
merged groups, and ``U = G^T diag(n)^(-1/2)`` the merged groups' indicators at length 1.  Across U
and its complement ``A^T A`` falls apart, and the loss of `p_identity` over all groups is exactly

    f(B) = s^T (U^T M U * K) s + r^T s^2,    K = (I + N^T N)^-1,   N = B diag(n)^(1/2),
    r_g = the trace of M inside g, less its part along U,

which costs no more than a loss over that few groups.  So most of the search is done where it is
cheap, for several numbers of rows; the best goes on over finer and finer groups, starting just
where it was.  Merged groups can be merged once more: with ``P_gG = (n_g / n_G)^(1/2)`` the coarser
ones have ``P^T U^T M U P``, and what of its diagonal is lost goes to r.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sqlmadp.strategy.p_identity import descended, solved_rows, stretches

Matrix = NDArray[np.float64]

COARSEST = 64, 256
"""Merged groups to begin with, at least and at most; in between an eighth of all groups."""

FINER = 2, 4
"""How many times as many they are later on, as far as there are groups."""

ROWS = 1 / 64, 1 / 24, 1 / 14
"""Numbers of rows to try, in units of the number of groups."""

FIRST, ROUGH = 60, 3e-4
"""Steps of the search for each number of rows, and the gain of a step below which it ends."""

LITTLE = 0.8
"""Loss, the identity's being 1, above which more rows are not tried once they do worse."""

STEPS = 200, 150, 40
"""Steps over the coarsest groups for the best number of rows and the next; then over finer ones."""


@dataclass(frozen=True, eq=False)
class Grid:
    """A workload over merged groups."""

    gram: Matrix
    """``U^T M U``."""
    rest: Matrix
    """The trace of M inside each merged group, less its part along U."""
    sizes: Matrix
    labels: NDArray[np.int64]
    """The merged group of every group."""

    @classmethod
    def of(cls, gram: Matrix) -> Grid:
        """Return every group by itself."""
        groups = len(gram)
        return cls(gram, np.zeros(groups), np.ones(groups), np.arange(groups))

    @property
    def trace(self) -> float:
        """Return the loss of the identity."""
        return float(np.trace(self.gram) + self.rest.sum())

    def times(self, factor: float) -> Grid:
        """Return the grid of the workload with its Gram matrix multiplied by ``factor``."""
        return Grid(self.gram * factor, self.rest * factor, self.sizes, self.labels)

    def coarser(self, count: int) -> Grid:
        """Merge neighbours into ``count`` groups of about the same number of merged ones."""
        groups = len(self.sizes)
        starts = -(-np.arange(count) * groups // count)
        labels = np.repeat(np.arange(count), np.diff(np.append(starts, groups)))
        sizes = np.asarray(np.bincount(labels, weights=self.sizes), dtype=np.float64)
        roots = np.sqrt(self.sizes)
        gram = self.gram if (self.sizes == 1).all() else self.gram * np.outer(roots, roots)
        sums = np.add.reduceat(np.add.reduceat(gram, starts, axis=0), starts, axis=1)
        merged = sums / np.sqrt(np.outer(sizes, sizes))
        inside = np.bincount(labels, weights=np.diag(self.gram) + self.rest)
        rest = np.maximum(inside - np.diag(merged), 0)
        return Grid(merged, rest, sizes, labels[self.labels])

    def loss(self, rows: Matrix) -> tuple[float, Matrix]:
        """Return the loss over all groups for rows constant over merged ones, and its gradient."""
        roots = np.sqrt(self.sizes)
        scaled = rows * roots
        solved = solved_rows(scaled)
        sums = 1 + rows.sum(axis=0)
        weighted = (solved * sums) @ self.gram
        pull = (np.diag(self.gram) + self.rest) * sums - (scaled * weighted).sum(axis=0)
        weighted *= sums
        gradient = 2 * (pull + roots * ((weighted @ scaled.T) @ solved - weighted))
        return float(sums @ pull), gradient


def search(gram: Matrix, frozen: NDArray[np.bool_]) -> Matrix:
    """Return the rows B of a good p-Identity strategy; columns of frozen groups stay 0."""
    first = int(np.clip(len(gram) // 8, *COARSEST))
    grid, rows = search_on(Grid.of(gram / np.trace(gram)), first)
    return np.asarray(rows[:, grid.labels] * ~frozen)


def search_on(finest: Grid, first: int) -> tuple[Grid, Matrix]:
    """Return good rows for a grid whose trace is 1, and the grid that they are over.

    They are searched for over ``first`` merged groups to begin with.
    """
    groups = len(finest.sizes)
    grid = finest.coarser(first)
    counts = sorted(
        {int(np.clip(round(part * len(finest.labels)), 2, first // 2)) for part in ROWS}
    )
    tried: list[tuple[float, Matrix]] = []
    for count in counts:
        tried.append(_descended(grid, stretches(count, first), FIRST, ROUGH))
        least = min(value for value, _ in tried)
        if LITTLE < least < tried[-1][0]:
            break
    best = min(range(len(tried)), key=lambda number: tried[number][0])
    # More rows take more steps, so the next number of rows may be better in the end.
    finalists = [_descended(grid, rows, STEPS[0]) for _, rows in tried[best : best + 2]]
    rows = min(finalists, key=lambda pair: pair[0])[1]
    for times, steps in zip(FINER, STEPS[1:], strict=True):
        finer = finest.coarser(min(groups, times * first))
        rows = _descended(finer, _moved(rows, grid, finer), steps)[1]
        grid = finer
    return grid, rows


def _descended(
    grid: Grid, start: Matrix, steps: int, tolerance: float = 1e-6
) -> tuple[float, Matrix]:
    free = np.zeros(len(grid.sizes), dtype=np.bool_)
    return descended(start, grid.loss, free, steps=steps, tolerance=tolerance)


def _moved(rows: Matrix, grid: Grid, finer: Grid) -> Matrix:
    """Return rows over a finer grid: each merged group takes what its first group had."""
    first = np.unique(finer.labels, return_index=True)[1]
    return np.asarray(rows[:, grid.labels[first]])
