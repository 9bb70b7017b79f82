"""One scope: the best template for its queries, by an error recomputed from its integers.

A block has the weight o_g of every group's own row, and the rows R on top.  With M the Gram
matrix of the queries and ``V = R diag(1/o)`` its error is

    trace(M X^-1) = sum_g M_gg / o_g^2  -  trace(Y N Y^T),    X = diag(o^2) + R^T R,
    Y = L^-1 V,  L L^T = I + V V^T,  N = diag(1/o) M diag(1/o),

which takes a triangular factor of no more rows than R has; so templates are compared by it.  The
error of the best one is then worked out once more, from a triangular factor of X itself.  With
very many groups only Identity and Total + Identity are compared, and X is never written out.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, lapack, solve_triangular

from sqlmadp.strategy.integer import IntegerBlock, S, rounded, total_block, workload_block
from sqlmadp.strategy.joint import Draft
from sqlmadp.strategy.layout import Layout
from sqlmadp.strategy.multigrid import search
from sqlmadp.strategy.p_identity import grow
from sqlmadp.workload.factor import LARGE_PIVOT
from sqlmadp.workload.workload import ScopeWorkload

Matrix = NDArray[np.float64]

DENSE_GROUPS = 1024
"""Groups of one scope up to which the queries may be anything for rows to be searched for."""

MOST_GROUPS = 4096
"""Groups up to which rows are searched for if the queries overlap."""

OVERLAP = 4
"""Groups that queries hold, a group, for them to count as overlapping."""

MANY_GROUPS = 128
"""Groups from which on rows are searched for over merged ones first."""

MOST_ROWS = 8
"""Rows on top of the identity, at most, below that."""

WORKLOAD_ROWS = 2
"""Queries a group up to which the workload itself may be a good strategy."""

EQUAL = 1e-12
"""Relative difference up to which the plainer of two templates is taken."""


def best_block(layout: Layout) -> tuple[float, IntegerBlock]:
    """Return the best block for a layout of one scope, and ``S^2 trace(M X^-1)``, certified."""
    blocks = list(_templates(layout))
    errors = [_error(layout, block) for block in blocks]
    number = next(i for i, error in enumerate(errors) if error <= min(errors) * (1 + EQUAL))
    best, error = blocks[number], errors[number]
    return S**2 * (_certified(layout, best) if _dense(layout.scopes[0]) else error), best


def own_rows(scope: ScopeWorkload) -> Matrix:
    """Return rows on top of the identity for one scope's own queries; none if it is too large."""
    if not _dense(scope) or _exchangeable(scope):
        return _no_rows(scope)
    frozen = np.zeros(scope.groups, dtype=np.bool_)
    if scope.unasked is not None:
        frozen[scope.unasked] = True
    if scope.groups >= MANY_GROUPS:
        return search(scope.gram, frozen)
    return grow(scope.gram, frozen, MOST_ROWS)


def _dense(scope: ScopeWorkload) -> bool:
    """Tell whether rows on top of the identity are worth the time, and their matrices fit."""
    most = MOST_GROUPS if scope.queries.nnz > OVERLAP * scope.groups else DENSE_GROUPS
    return scope.groups <= most


def _exchangeable(scope: ScopeWorkload) -> bool:
    """Tell whether the queries treat all asked groups alike, so that rows need favour none."""
    asked = np.arange(scope.groups) != scope.unasked
    gram = scope.gram[np.ix_(asked, asked)]
    apart = gram[~np.eye(len(gram), dtype=np.bool_)]
    return bool(np.ptp(np.diag(gram)) == 0 and (len(apart) == 0 or np.ptp(apart) == 0))


def _templates(layout: Layout) -> Iterator[IntegerBlock]:
    """Yield the templates, plainest first."""
    scope = layout.scopes[0]
    yield _rounded(layout, _no_rows(scope))
    if scope.queries.nnz == 0:
        return
    if scope.groups <= DENSE_GROUPS and scope.queries.shape[0] <= WORKLOAD_ROWS * scope.groups:
        yield workload_block(scope, S)
    yield total_block(scope)
    rows = own_rows(scope)
    if len(rows):
        yield _rounded(layout, rows)


def _rounded(layout: Layout, rows: Matrix) -> IntegerBlock:
    return rounded(Draft(layout, (1.0,), (rows,)))[0]


def _no_rows(scope: ScopeWorkload) -> Matrix:
    return np.zeros((0, scope.groups))


def _error(layout: Layout, block: IntegerBlock) -> float:
    """Return ``trace(M X^-1)`` by a factor of few rows, if there are few rows."""
    own, scope = block.own.astype(np.float64), layout.scopes[0]
    if not own.all() or 2 * len(block.rows) > len(own):
        return _certified(layout, block)
    apart = block.rows / own
    factor = cholesky(np.eye(len(apart)) + apart @ apart.T, lower=True, check_finite=False)
    half = solve_triangular(factor, apart, lower=True, check_finite=False) / own
    if not _dense(scope):
        alone = scope.queries.multiply(scope.queries) @ (1 / own**2)
        return float(alone.sum() - ((scope.queries @ half.T) ** 2).sum())
    return float((np.diag(scope.gram) / own**2).sum() - ((half @ scope.gram) * half).sum())


def _certified(layout: Layout, block: IntegerBlock) -> float:
    """Return ``trace(M X^-1)`` by a factor of X; infinite if the queries are not answered."""
    rows = block.rows.astype(np.float64)
    information = rows.T @ rows
    information[np.diag_indices(len(information))] += block.own.astype(np.float64) ** 2
    lengths = np.sqrt(np.diag(information))
    if not lengths.all():
        return layout.error([block.matrix])
    try:
        factor = cholesky(information / np.outer(lengths, lengths), check_finite=False)
    except LinAlgError:
        return layout.error([block.matrix])
    if np.diag(factor).min() ** 2 < LARGE_PIVOT:
        return layout.error([block.matrix])
    inverse, _ = lapack.dpotri(factor, overwrite_c=1)  # Its upper triangle.
    inverse /= np.outer(lengths, lengths)
    products = inverse * layout.scopes[0].gram
    return float(2 * np.triu(products, 1).sum() + np.diag(products).sum())
