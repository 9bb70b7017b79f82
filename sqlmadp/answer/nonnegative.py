"""Non-negative counts: the least-squares estimate among those with nothing below zero.

**One table** (`OneTable`).  Often one measured scope holds all others, and every one of its cells
was measured alone beside whatever else was.  Then cells are coordinates enough, however many there
are: with A all rows over the cells, ``X = A^T A`` is regular and sparse, and no cell below zero
means

    minimise |A x - y|^2     subject to   x >= 0,

solved by conjugate gradients for the cells that are not at zero.

**Several tables** (`NonNegative`).

    minimise  (x - x_ls)^T X (x - x_ls)     subject to   C x >= 0

for the least-squares estimate x_ls and C the vertices of every measured table.  All tables are
functions of one x, so they agree where they overlap, and nothing is as large as the product of all
columns.  What no measurement tells apart is left as even as it can be, by a weight on all cells
that is small beside the measured ones.  Solved by its multipliers: with the vertices scaled to
variance 1, ``Q = C X^- C^T`` and w the vertices of x_ls, look for l >= 0 with ``w + Q l >= 0`` and
one of the two 0 at every vertex; then ``x = x_ls + X^- C^T l``.  What rounding leaves of a negative
is removed by mixing in the even table of the same total, of which next to nothing is needed.

**Both** guess what is at zero; the guess gives the rest, and whatever has the wrong sign changes
sides (`settled`: block principal pivoting [JP94]).

[JP94] Júdice, Pires, "A block principal pivoting algorithm for large-scale strictly monotone linear
complementarity problems", doi:10.1016/0305-0548(94)90106-6.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve

from sqlmadp.answer.sizes import (
    CLOSE_CELL,
    CLOSE_VERTEX,
    EVEN,
    EVENED,
    MAX_GUESSES,
    MAX_STEPS,
    ROUNDING,
    SEEN,
    SOFT,
    SOLVED,
    TRIES,
)
from sqlmadp.solve.solution import Estimate, Solution
from sqlmadp.table.partition import common
from sqlmadp.table.products import Products
from sqlmadp.table.rows import Rows
from sqlmadp.table.runs import Floats

Mask = NDArray[np.bool_]


def settled(guess: Mask, solve: Callable[[Mask], tuple[Floats, Floats]], close: float) -> Floats:
    """Return the solution for the first guess under which every sign is right.

    ``solve`` returns a solution and what must not be below zero, place by place.  Wrong signs
    change sides, all at once while that helps, else one at a time, which always ends; after
    `MAX_GUESSES` the last solution is returned, whose wrong signs are next to nothing.
    """
    fewest, tries = len(guess) + 1, TRIES
    for _ in range(MAX_GUESSES):
        found, above = solve(guess)
        wrong = above < -close
        count = int(wrong.sum())
        if count == 0:
            break
        if count < fewest:
            fewest, tries = count, TRIES
        elif tries > 0:
            tries -= 1
        else:
            wrong[: np.flatnonzero(wrong)[-1]] = False
        guess = guess ^ wrong
    return found


@dataclass(frozen=True, eq=False)
class TableEstimate:
    """Counts in the cells of one table; one column per release, if there are several."""

    table: Rows
    cells: Floats

    def answers(self, rows: Rows) -> Floats:
        """Return the answer of every row, without a check that it was measured."""
        return np.asarray(rows.over(self.table.scope, self.table.parts).matrix @ self.cells)


class OneTable:
    """Estimates in the cells of one table that holds all blocks."""

    def __init__(self, blocks: Sequence[Rows], table: Rows) -> None:
        """Write all blocks over the cells of the table."""
        self.table = table
        over = [_matrix(block.over(table.scope, table.parts)) for block in blocks]
        self._all = sparse.csr_array(sparse.vstack(over), dtype=np.float64)
        self._back = sparse.csr_array(self._all.T)
        self._diagonal = np.asarray(self._all.multiply(self._all).sum(axis=0)).reshape(-1)

    @property
    def each_alone(self) -> bool:
        """Whether every cell is measured by some row alone."""
        lengths = np.diff(self._all.indptr)
        alone = self._all[lengths == 1].indices
        return len(np.unique(alone)) == self.table.size

    def least_squares(self, values: Sequence[Floats]) -> TableEstimate:
        """Return the least-squares estimate of every cell."""
        return self._each(values, lambda moments: self._solved(moments, _everywhere(moments)))

    def nonnegative(self, values: Sequence[Floats]) -> TableEstimate:
        """Return the least-squares estimate among those with no cell below zero."""
        return self._each(values, self._nonnegative)

    def _each(self, values: Sequence[Floats], solve: Callable[[Floats], Floats]) -> TableEstimate:
        """Solve for every column of the values."""
        moments = np.asarray(self._back @ np.concatenate(values).astype(np.float64))
        if moments.ndim == 1:
            return TableEstimate(self.table, solve(moments))
        return TableEstimate(self.table, np.column_stack([solve(column) for column in moments.T]))

    def _nonnegative(self, moments: Floats) -> Floats:
        """Return ``x >= 0`` with ``X x >= moments``, one of the two met exactly in every cell."""
        lengths = np.sqrt(self._diagonal)
        cells = self._solved(moments, _everywhere(moments))

        def solve(free: Mask) -> tuple[Floats, Floats]:
            nonlocal cells
            cells = self._solved(moments, free, cells * free)
            slope = self._times(cells) - moments
            return cells, np.where(free, cells * lengths, slope / lengths)

        left = ROUNDING * SOLVED * float(np.linalg.norm(moments / lengths))
        return np.maximum(settled(cells > 0, solve, max(CLOSE_CELL, left)), 0)

    def _solved(self, moments: Floats, free: Mask, start: Floats | None = None) -> Floats:
        """Return x with ``X x = moments`` in the free cells, and 0 in the others."""
        cells = np.zeros_like(moments) if start is None else start
        rest = np.where(free, moments - self._times(cells), 0.0)
        # In units of each cell's own rows, or heavy ones would hide what is left of light ones.
        enough = SOLVED**2 * float(moments @ (moments / self._diagonal))
        step = better = rest / self._diagonal
        height = float(rest @ better)
        for _ in range(MAX_STEPS * len(moments)):
            if height <= enough:
                break
            pulled = np.where(free, self._times(step), 0.0)
            length = height / float(step @ pulled)
            cells = cells + length * step
            rest = rest - length * pulled
            better = rest / self._diagonal
            height, before = float(rest @ better), height
            step = better + (height / before) * step
        return cells

    def _times(self, cells: Floats) -> Floats:
        return np.asarray(self._back @ (self._all @ cells))


def _matrix(rows: Rows) -> sparse.csr_array:
    """Return rows written out; products however many, since few of their entries are not 0."""
    if not isinstance(rows, Products):
        return rows.matrix
    grid = reduce(lambda a, b: sparse.kron(a, b, format="csr"), rows.factors)
    return sparse.csr_array(sparse.diags_array(rows.heights.reshape(-1).astype(np.float64)) @ grid)[
        np.flatnonzero(rows.heights)
    ]


def _everywhere(moments: Floats) -> Mask:
    return np.ones(len(moments), dtype=np.bool_)


class NonNegative:
    """Estimates from noisy values of some blocks, factored once."""

    def __init__(self, blocks: Sequence[Rows], cells: Sequence[Rows]) -> None:
        """``cells``: plain rows of which all counts of what was measured are made up."""
        self._blocks = tuple(blocks)
        self._even = [rows.times(_even_weight(rows, self._blocks)) for rows in cells]
        self._solution = Solution([*self._blocks, *self._even])

    def least_squares(self, values: Sequence[Floats]) -> Estimate:
        """Return the estimate, even where nothing was measured; vertices may be below zero."""
        goals = [np.zeros((rows.count, *values[0].shape[1:])) for rows in self._even]
        found = self._solution.estimate([*values, *goals])
        for _ in range(EVENED - 1):
            goals = [found.answers(rows) for rows in self._even]
            found = self._solution.estimate([*values, *goals])
        return found

    def nonnegative(self, values: Sequence[Floats]) -> Estimate:
        """Return the estimate with no vertex below zero."""
        start = self.least_squares(values)
        wanted = np.concatenate([start.answers(rows) for rows in self._vertices])
        if (wanted >= 0).all():
            return start
        columns = wanted.reshape(len(wanted), -1).T
        multipliers = np.column_stack([_multipliers(self._pull, column) for column in columns])
        pulls = np.split(multipliers.reshape(wanted.shape), self._ends)
        found = start.plus(self._solution.pulled(self._vertices, pulls))
        part = self._needed(found)
        return found.mixed_with_even(part) if np.any(part > 0) else found

    @cached_property
    def _vertices(self) -> list[Rows]:
        """Every vertex of every table, in units of the mean standard error of a vertex."""
        layouts = list({b.layout: b for b in (*self._even, *self._blocks)}.values())
        found = [
            Rows(one.scope, one.parts, 1.0)
            for one in layouts
            if not any(other is not one and _inside(one, other) for other in layouts)
        ]
        variances = (self._solution.variances(rows) for rows in found)
        lengths = (float(np.sqrt(each.mean())) for each in variances)
        return [rows.times(1 / length) for rows, length in zip(found, lengths, strict=True)]

    @property
    def _ends(self) -> Floats:
        return np.cumsum([rows.count for rows in self._vertices])[:-1]

    @cached_property
    def _pull(self) -> Floats:
        """Q: by how much each vertex moves if another is pulled at."""
        pull = self._solution.covariance(self._vertices)
        pull[np.diag_indices(len(pull))] += SOFT
        return pull

    def _needed(self, found: Estimate) -> Floats:
        """Return how much of the even table leaves no vertex below zero."""
        even = found.mixed_with_even(1.0)
        needed: Floats = np.zeros(())
        for rows in self._vertices:
            below, whole = np.maximum(-found.answers(rows), 0), np.maximum(even.answers(rows), 0)
            with np.errstate(invalid="ignore", divide="ignore"):
                part = np.where(below > 0, below / (below + whole), 0.0)
            needed = np.maximum(needed, part.max(axis=0))
        return np.where(needed > 0, np.minimum(1.0, needed * (1 + 1e-9) + 1e-15), 0.0)


def _even_weight(table: Rows, blocks: Sequence[Rows]) -> float:
    """Return a weight for the cells of a table that is small beside what was measured of them.

    What a finer block measures with more weight does not count; nor do blocks of other columns.
    """
    near = [b for b in blocks if not {*table.scope}.isdisjoint(b.scope)] or [*blocks]
    finest = [
        one
        for one in near
        if not any(
            other.plain and largest(other) > largest(one) and _inside(one, other) for other in near
        )
    ]
    return max(EVEN * min(map(largest, finest)), SEEN * max(map(largest, finest)))


def _multipliers(pull: Floats, wanted: Floats) -> Floats:
    """Return ``l >= 0`` with ``wanted + pull @ l >= 0``, one of the two 0 in every place."""

    def solve(at_zero: Mask) -> tuple[Floats, Floats]:
        multipliers = np.zeros_like(wanted)
        inside = cho_factor(pull[np.ix_(at_zero, at_zero)], check_finite=False)
        multipliers[at_zero] = cho_solve(inside, -wanted[at_zero], check_finite=False)
        return multipliers, np.where(at_zero, multipliers, wanted + pull @ multipliers)

    return np.maximum(settled(wanted < 0, solve, CLOSE_VERTEX), 0)


def _inside(one: Rows, other: Rows) -> bool:
    """Return whether the vertices of one table are sums of those of another."""
    finer = dict(zip(other.scope, other.parts, strict=True))
    return all(
        name in finer and common([part, finer[name]]) == finer[name]
        for name, part in zip(one.scope, one.parts, strict=True)
    )


def largest(block: Rows) -> float:
    """Return the largest coefficient of a block."""
    return abs(float(block.weight)) if block.plain else float(abs(block.matrix).max())
