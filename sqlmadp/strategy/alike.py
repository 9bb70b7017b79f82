"""Rows on top of very many groups, most of which the queries treat alike.

Who asks for every cell of a table, and for some sums of them, treats most cells like many others.
Let c_g be the sum of the squares of all queries of group g alone, and Q the other queries, so that
``M = diag(c) + Q^T Q``.  Groups with equal c and equal columns in Q are *alike*: exchanging them
changes nothing.  Over the classes that they fall into, of ``n_k`` groups each,

    U^T M U = diag(c) + diag(n)^(1/2) Q^T Q diag(n)^(1/2),     r_k = (n_k - 1) c_k

is a grid as in `multigrid`: the loss of rows that are constant over classes is exactly that over
all groups, and costs as much as over the classes, however many groups there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.schema.marginal import Labels, Marginal, cell_map
from sqlmadp.strategy.multigrid import Grid, search_on
from sqlmadp.strategy.p_identity import SEED, descended, stretches
from sqlmadp.workload.reduce import distinct_columns
from sqlmadp.workload.workload import ScopeWorkload

Matrix = NDArray[np.float64]

MANY_GROUPS = 600
"""Groups from which on it is worth looking for those that are alike; fewer are quickly searched."""

MOST_GROUPS = 1 << 17
"""Groups up to which rows may be written out over all of them."""

MOST_CLASSES = 2048
"""Classes up to which rows are searched for."""

MOST_NUMBERS = 1 << 24
"""Numbers that the queries of several groups may hold over classes."""

PART = 5 / 6
"""Classes, as a part of the groups, up to which they are worth it."""

FEW_CLASSES = 256
"""Classes from which on rows are searched for over merged ones first."""

COARSE, MOST_COARSE = 3, 256
"""Classes in a merged one to begin with; and merged ones at most."""

STRETCHES = 8, 4, 2
"""Classes in a stretch that a row starts from."""

HEIGHTS = 0.1, 0.5
"""What a row that starts as a query is, beside the identity; with some chance in the second."""

CHANCE = 0.05
"""How much of it."""

STEPS = 300
"""Steps of a search from each start."""

WORK = 1 << 22
"""Rows times classes times classes up to which a start is searched from."""


@dataclass(frozen=True, eq=False)
class Alike:
    """The queries of a scope over classes of groups that they treat alike."""

    labels: NDArray[np.int64]
    """The class of every group."""
    sizes: Matrix
    single: Matrix
    """c of every class."""
    others: Matrix
    """The queries of several groups, Q, one column a class."""

    @classmethod
    def of(cls, scope: ScopeWorkload) -> Alike | None:
        """Return the classes of a scope's groups; None if they are hardly fewer, or too many."""
        queries = scope.queries
        several = np.diff(queries.indptr) > 1
        if not _worth_looking(scope.groups, int(several.sum())):
            return None
        alone = queries[~several]
        squares = np.bincount(alone.indices, alone.data**2, scope.groups)
        single = np.asarray(squares, dtype=np.float64)
        stack = sparse.vstack([queries[several], sparse.csr_array(single[None])])
        labels, first = distinct_columns(sparse.csc_array(stack))
        if not _few(len(first), scope.groups, int(several.sum())):
            return None
        sizes = np.bincount(labels).astype(np.float64)
        return cls(labels, sizes, single[first], queries[several][:, first].toarray())

    @property
    def grid(self) -> Grid:
        """Return the workload over classes."""
        scaled = self.others * np.sqrt(self.sizes)
        gram = scaled.T @ scaled
        gram[np.diag_indices(len(gram))] += self.single
        return Grid(gram, (self.sizes - 1) * self.single, self.sizes, self.labels)

    def rows(self) -> Matrix:
        """Return the rows B of a good p-Identity strategy over groups; none if none helps."""
        grid = self.grid
        grid = grid.times(1 / grid.trace)
        unasked = np.diag(grid.gram) == 0
        if (~unasked).sum() < 2:  # The total is all that there is to measure on top.
            return np.zeros((0, len(self.labels)))

        def search(start: Matrix) -> tuple[float, Matrix]:
            return descended(start, grid.loss, unasked, steps=STEPS)

        found = [(1.0, np.zeros((0, len(self.sizes)))), *map(search, self._starts())]
        if len(self.sizes) > FEW_CLASSES:
            coarse, rows = search_on(grid, min(len(self.sizes) // COARSE, MOST_COARSE))
            first = np.unique(self.labels, return_index=True)[1]
            rows = rows[:, coarse.labels[first]] * ~unasked
            found.append((grid.loss(rows)[0], rows))
        return np.asarray(min(found, key=lambda pair: pair[0])[1][:, self.labels])

    def _starts(self) -> Iterator[Matrix]:
        """Yield rows over classes to start from: the queries, and stretches of classes."""
        classes = len(self.sizes)
        queries = np.unique(np.abs(self.others), axis=0)
        queries = queries / queries.max(axis=1, initial=1.0, keepdims=True)
        most = WORK // classes**2
        if 0 < len(queries) <= most:
            chance = np.random.default_rng(SEED).random(queries.shape)
            yield HEIGHTS[0] * queries
            yield HEIGHTS[1] * queries + CHANCE * chance
        counts = (classes // each for each in STRETCHES)
        yield from (stretches(count, classes) for count in counts if 2 <= count <= most)


def alike_in(asked: Sequence[ScopeWorkload], marginal: Marginal) -> bool:
    """Tell whether there are few classes once all scopes are stacked over one marginal.

    All that it takes are the groups of every scope: no query is written out over the marginal.
    """
    places = [scope.labels[cell_map(scope.marginal, marginal)] for scope in asked]
    first = np.unique(_joint(places), return_index=True)[1]
    groups, count = len(first), 0
    single, classes = np.zeros(groups), []
    for scope, place in zip(asked, (place[first] for place in places), strict=True):
        queries = scope.queries
        inside = np.bincount(place, minlength=scope.groups)
        several = (queries != 0) @ inside > 1
        count += int(several.sum())
        alone = queries[~several]
        single += np.bincount(alone.indices, alone.data**2, scope.groups)[place]
        classes.append(distinct_columns(sparse.csc_array(queries[several]))[0][place])
    if not _worth_looking(groups, count):
        return False
    classes.append(np.unique(single, return_inverse=True)[1].reshape(-1))
    return _few(int(_joint(classes).max()) + 1, groups, count)


def _worth_looking(groups: int, several: int) -> bool:
    """Tell whether there can be classes, by the number of groups and of queries of several."""
    return MANY_GROUPS <= groups <= MOST_GROUPS and several <= PART * groups


def _few(classes: int, groups: int, several: int) -> bool:
    """Tell whether classes are few enough."""
    return classes <= min(MOST_CLASSES, PART * groups, MOST_NUMBERS / max(1, several))


def _joint(labels: Iterable[Labels]) -> Labels:
    """Return numbers that are equal just where all of the labels are."""
    joint = np.zeros(1, dtype=np.int64)
    for each in labels:
        joint = np.unique(joint * (each.max() + 1) + each, return_inverse=True)[1].reshape(-1)
    return joint
