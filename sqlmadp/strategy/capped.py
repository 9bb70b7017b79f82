"""Rows and weights under caps: the least weighted error that leaves nobody above their limit.

Analysts share one layout.  With X as in `joint`, and M_j the Gram matrix of workload j,

    e_j = (sum_b u_b)^2 trace(M_j X^-1),      minimise  sum_j w_j e_j   subject to  e_j <= c_j

by `lagrangian`.  Rows are non-negative and every column of a block sums to the block's weight, as
in `p_identity`, so the caps are the only constraints left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sqlmadp.schema.marginal import Block
from sqlmadp.strategy.joint import WIDEST, Draft
from sqlmadp.strategy.lagrangian import least_under_caps
from sqlmadp.strategy.layout import Layout, over_groups
from sqlmadp.strategy.p_identity import LARGEST
from sqlmadp.workload.components import inverse

Matrix = NDArray[np.float64]

OWN = 0.02
"""Least part of a column that a start leaves to the group's own row."""

MOST_ROWS = 40
"""Rows on top of the identity that a start keeps in a block, heaviest first."""


@dataclass(frozen=True, eq=False)
class Caps:
    """Distinct workloads in the coordinates of a layout, their weights and limits."""

    grams: Matrix
    """One Gram matrix a workload."""
    weights: Matrix
    limits: Matrix


def capped(start: Draft, caps: Caps) -> Draft:
    """Return a draft near ``start`` of least weighted error, as far as the caps allow."""
    problem = _Capped(start, caps.grams)
    return problem.draft(least_under_caps(problem, caps.weights, caps.limits))


def draft_of(blocks: Sequence[Block], layout: Layout) -> Draft:
    """Return a draft over a layout that resembles a given strategy, as a place to start from.

    Each row goes to the first scope that holds its columns.  A row inside one group is part of
    that group's own row; the other rows become B, with what a column lacks left to its own row.
    """
    rows: list[list[Matrix]] = [[np.zeros((0, scope.groups))] for scope in layout.scopes]
    for block in blocks:
        holding = [
            number
            for number, scope in enumerate(layout.scopes)
            if set(block.marginal.scope) <= set(scope.marginal.scope)
        ]
        if holding:
            over = over_groups(block, layout.scopes[holding[0]]).toarray()
            rows[holding[0]].append(np.maximum(over, 0))
    drafts = [_p_identity(np.vstack(each)) for each in rows]
    heights = np.array([height for height, _ in drafts])
    weights = np.maximum(heights, heights.max() * np.exp(-WIDEST))
    return Draft(layout, tuple(weights / weights.sum()), tuple(rows for _, rows in drafts))


def _p_identity(rows: Matrix) -> tuple[float, Matrix]:
    """Return the largest column sum, and the rows on several groups as B, own rows at 1."""
    height = float(rows.sum(axis=0).max(initial=0.0))
    common = rows[(rows > 0).sum(axis=1) > 1]
    common = common[np.argsort(-common.sum(axis=1), kind="stable")[:MOST_ROWS]]
    own = np.maximum(height - common.sum(axis=0), OWN * height)
    return height, np.minimum(common / own, LARGEST)


@dataclass(frozen=True, eq=False)
class _Solved:
    """What errors are worked out from: ``X^-1``, and the column sums of every ``[I; B]``."""

    errors: Matrix
    inverse: Matrix
    sums: list[Matrix]


class _Capped:
    """Everybody's error as a function of one flat vector: log weights, then rows."""

    def __init__(self, start: Draft, grams: Matrix) -> None:
        self._layout = start.layout
        self._shapes = [rows.shape for rows in start.rows]
        self._size = grams.shape[1]
        self._cells = np.vstack(start.layout.cells)
        self._single = len(self._shapes) == 1
        self._flat_grams = grams.reshape(len(grams), -1)
        logs = np.log(start.weights)
        logs = np.clip(logs - logs.mean(), -WIDEST, WIDEST)
        self.start = np.concatenate([logs, *(rows.reshape(-1) for rows in start.rows)])
        low, high = np.zeros_like(self.start), np.full_like(self.start, LARGEST)
        # Only the proportions of weights matter: a single one stays.
        low[: len(logs)] = 0.0 if len(logs) == 1 else -WIDEST
        high[: len(logs)] = 0.0 if len(logs) == 1 else WIDEST
        self.bounds = np.column_stack([low, high])

    def draft(self, flat: Matrix) -> Draft:
        weights, rows = self._split(flat)
        return Draft(self._layout, tuple(weights / weights.sum()), tuple(rows))

    def errors(self, flat: Matrix) -> tuple[Matrix, _Solved]:
        """Return every workload's error, and what it was worked out from."""
        weights, rows = self._split(flat)
        sums = [1 + r.sum(axis=0) for r in rows]
        parts = zip(weights, rows, sums, self._layout.cells, strict=True)
        # Few blocks have rows on top of the identity; all others together are one product.
        top = [self._placed(w * r / s, c) for w, r, s, c in parts if len(r)]
        own = np.concatenate([w / s for w, s in zip(weights, sums, strict=True)])
        if self._single:
            information = sum((t.T @ t for t in top), np.zeros((self._size, self._size)))
            information[np.diag_indices(self._size)] += own**2
        else:
            stack = np.vstack([own[:, None] * self._cells, *top])
            information = stack.T @ stack
        inverted = inverse(information)
        total = float(weights.sum())
        errors = total**2 * (self._flat_grams @ inverted.reshape(-1))
        return errors, _Solved(errors, inverted, sums)

    def gradient(self, flat: Matrix, worked_out: _Solved, factors: Matrix) -> Matrix:
        """Return the gradient of ``sum_j factors_j e_j``."""
        inverted = worked_out.inverse
        weights, rows = self._split(flat)
        total = float(weights.sum())
        pull = inverted @ (factors @ self._flat_grams).reshape(inverted.shape) @ inverted
        pulled = pull if self._single else self._cells @ pull
        diagonal = np.diag(pull) if self._single else (pulled * self._cells).sum(axis=1)
        slope = 2 * float(factors @ worked_out.errors) / total
        gradient = np.zeros_like(flat)
        at, group = len(weights), 0
        parts = zip(weights, rows, self._layout.cells, worked_out.sums, strict=True)
        for b, (w, r, c, s) in enumerate(parts):
            inside = slice(group, group + len(s))
            group += len(s)
            heights = diagonal[inside] / s**2
            if len(r):
                moved = self._placed(r / s, c) @ pulled[inside].T / s
                heights = heights + (r * moved).sum(axis=0)
                change = -2 * (total * w) ** 2 * (moved - heights / s)
                gradient[at : at + r.size] = change.reshape(-1)
                at += r.size
            gradient[b] = slope * w - 2 * (total * w) ** 2 * heights.sum()
        return gradient

    def _placed(self, rows: Matrix, cells: Matrix) -> Matrix:
        """Return rows over a block's groups in coordinates, which a single block's groups are."""
        return rows if self._single else np.asarray(rows @ cells)

    def _split(self, flat: Matrix) -> tuple[Matrix, list[Matrix]]:
        count = len(self._shapes)
        rows, at = [], count
        for shape in self._shapes:
            size = shape[0] * shape[1]
            rows.append(flat[at : at + size].reshape(shape))
            at += size
        return np.exp(flat[:count]), rows
