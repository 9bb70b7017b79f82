"""One scope: the best template for its queries, by an error recomputed from its integers.

A block has the weight o_g of every group's own row, and the rows R on top.  With M the Gram
matrix of the queries and ``V = R diag(1/o)`` its error is

    trace(M X^-1) = sum_g M_gg / o_g^2  -  trace(Y N Y^T),    X = diag(o^2) + R^T R,
    Y = L^-1 V,  L L^T = I + V V^T,  N = diag(1/o) M diag(1/o),

which takes a triangular factor of no more rows than R has.  Where the difference cancels too much
the error comes from a triangular factor of X itself.  With very many groups rows are searched for
if most groups are `alike`; otherwise only Identity and Total + Identity are compared.  X is never
written out then.

The queries themselves are a strategy too, seldom a good one.  By Cauchy and Schwarz
``w X^-1 w^T >= (w w^T)^2 / (w X w^T)``; once these sum to more than the error of the best template
so far, there is no need to work theirs out.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, lapack, solve_triangular

from sqlmadp.strategy.alike import Alike
from sqlmadp.strategy.integer import (
    IntegerBlock,
    S,
    distinct_queries,
    rounded,
    total_block,
    workload_block,
)
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

SLICE = 128
"""Queries that are looked at together."""

CANCELS = 1e4
"""How many times its result the first term of a difference may be: digits that are lost."""

EQUAL = 1e-12
"""Relative difference up to which the plainer of two templates is taken."""


def best_block(layout: Layout) -> tuple[float, IntegerBlock]:
    """Return the best block for a layout of one scope, and ``S^2 trace(M X^-1)``, certified."""
    scope = layout.scopes[0]
    blocks = list(_templates(layout))
    errors = [_error(layout, block) for block in blocks]
    if _queries_may_be_best(scope, min(errors)):
        blocks.append(workload_block(scope, S))
        errors.append(_certified(layout, blocks[-1]))
    number = next(i for i, error in enumerate(errors) if error <= min(errors) * (1 + EQUAL))
    return S**2 * errors[number], blocks[number]


def own_rows(scope: ScopeWorkload) -> Matrix:
    """Return rows on top of the identity for one scope's own queries; none if it is too large."""
    alike = Alike.of(scope)
    if alike is not None:
        return alike.rows()
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
    gram = scope.gram
    if scope.unasked is not None:
        asked = np.arange(scope.groups) != scope.unasked
        gram = gram[np.ix_(asked, asked)]
    if len(gram) < 2:
        return True
    alike = np.diag(gram) == gram[0, 0]
    apart = np.count_nonzero(gram == gram[0, 1])
    return bool(alike.all() and apart == len(gram) ** 2 - len(gram) * (gram[0, 0] != gram[0, 1]))


def _templates(layout: Layout) -> Iterator[IntegerBlock]:
    """Yield the templates but for the queries themselves, plainest first."""
    scope = layout.scopes[0]
    yield _rounded(layout, _no_rows(scope))
    if scope.queries.nnz == 0:
        return
    yield total_block(scope)
    rows = own_rows(scope)
    if len(rows):
        yield _rounded(layout, rows)


def _queries_may_be_best(scope: ScopeWorkload, least: float) -> bool:
    """Tell whether the queries themselves, as a strategy, may have less error than ``least``."""
    queries = scope.queries
    few = scope.groups <= DENSE_GROUPS and queries.shape[0] <= WORKLOAD_ROWS * scope.groups
    if queries.nnz == 0 or not few:
        return False
    distinct = distinct_queries(scope)
    sums = np.asarray(abs(distinct).sum(axis=0)).reshape(-1)
    slack = 1 - sums / sums.max()
    bound, count = 0.0, -(-queries.shape[0] // SLICE)
    for first in range(count):
        part = queries[first::count].toarray()
        part = part[part.any(axis=1)]
        squares = ((distinct @ part.T) ** 2).sum(axis=0) / sums.max() ** 2 + part**2 @ slack**2
        bound += float(((part**2).sum(axis=1) ** 2 / squares).sum())
        if bound > least * S**2:
            return False
    return True


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
    if layout.alike is None and _dense(scope):
        alone = float((np.diag(scope.gram) / own**2).sum())
        error = alone - float(((half @ scope.gram) * half).sum())
        return error if alone <= CANCELS * error else _certified(layout, block)
    alone = float((scope.queries.multiply(scope.queries) @ (1 / own**2)).sum())
    return alone - float(((scope.queries @ half.T) ** 2).sum())


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
