"""Kronecker strategies: one p-Identity a column, for a scope too large for one over all its cells.

    A = F_1 x ... x F_d,     F_c = [I; B_c] diag(1/s_c)   as in `p_identity`

All columns of each factor sum to 1, so all columns of A do.  A query that is a product of one
function a column, ``value w_1 x ... x w_d``, has the variance ``value^2 prod_c v_c(w_c)`` with
``v_c(w) = w (F_c^T F_c)^-1 w^T``.  So with all factors but one fixed, the error of a workload of
such queries is that of a workload over the one column,

    M_c = sum over queries of  (value^2 prod over c' other than c of v_c'(w_c'))  w_c^T w_c

and factors are improved in turn, each by a search over its own groups, as long as that helps
[MMHM18].  Each factor is made of integers whose columns sum to exactly the same number.

[MMHM18] McKenna, Miklau, Hay, Machanavajjhala, "Optimizing error of high-dimensional statistical
queries under differential privacy", doi:10.14778/3231751.3231769.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve

from sqlmadp.schema.kronecker import KroneckerBlock
from sqlmadp.schema.marginal import Block, Marginal, Partition
from sqlmadp.strategy.multigrid import search
from sqlmadp.strategy.p_identity import grow
from sqlmadp.strategy.single import MANY_GROUPS, MOST_GROUPS, MOST_ROWS
from sqlmadp.strategy.weights import Selected
from sqlmadp.workload.product_rows import ProductRows
from sqlmadp.workload.workload import Workload

Matrix = NDArray[np.float64]
IntMatrix = NDArray[np.int64]

TURNS = 4
"""Rounds at most in which every factor is improved once."""

GAIN = 1e-3
"""Relative gain for which another round is worth it."""

SUMS = {2: 1 << 10, 3: 1 << 7, 4: 1 << 6}
"""What the columns of a factor sum to, by the number of columns: products stay below 2^24."""


def products_of(workload: Workload) -> tuple[ProductRows, Marginal] | None:
    """Return the queries as products over one marginal that holds them all.

    None if no scope holds all others, if it has too many columns or too fine ones, or if some query
    is no product.
    """
    blocks = workload.by_scope
    widest = max((block.marginal.scope for block in blocks), key=len)
    inside = all(set(block.marginal.scope) <= set(widest) for block in blocks)
    if len(widest) not in SUMS or not inside:
        return None
    marginal = Marginal(widest, tuple(_finest(blocks, name) for name in widest))
    if max(marginal.shape) > MOST_GROUPS:
        return None
    parts = [ProductRows.of(block) for block in blocks]
    if any(len(part.others) for part in parts):
        return None
    pairs = zip(parts, blocks, strict=True)
    lifted = [part.lifted(block.marginal, marginal) for part, block in pairs]
    return ProductRows.joined(lifted), marginal


def _finest(blocks: Sequence[Block], name: str) -> Partition:
    holding = [block.marginal for block in blocks if name in block.marginal.scope]
    return reduce(Partition.refine, (m.partitions[m.scope.index(name)] for m in holding))


def select_kronecker(queries: ProductRows, marginal: Marginal, goal: float = math.inf) -> Selected:
    """Return the best integer factors found for queries that are all products.

    The search ends early where rounds that gain as much as the last one will not reach ``goal``,
    the error that another strategy has.
    """
    total = SUMS[len(marginal.scope)]
    factors = [np.eye(size, dtype=np.int64) * total for size in marginal.shape]
    variances = [_variances(f, m) for f, m in zip(factors, queries.members, strict=True)]
    error, whole = _error(queries, variances), float(total ** len(marginal.scope))
    for left in reversed(range(TURNS)):
        before = error
        for column, members in enumerate(queries.members):
            gram = _gram(queries, variances, column)
            better = _rounded(_searched(gram), total)
            tried = [*variances]
            tried[column] = _variances(better, members)
            if _error(queries, tried) < error:
                factors[column], variances, error = better, tried, _error(queries, tried)
        if error > before * (1 - GAIN) or _reached(error, before, left) > goal / whole**2:
            break
    heights = np.ones(tuple(len(factor) for factor in factors), dtype=np.int64)
    block = KroneckerBlock(marginal, [sparse.csr_array(factor) for factor in factors], heights)
    return Selected((block,), int(whole), whole**2 * error)


def _reached(error: float, before: float, rounds: int) -> float:
    """Return what some more rounds would come to that gain as much as the last one."""
    return error * (error / before) ** rounds


def _error(queries: ProductRows, variances: Sequence[Matrix]) -> float:
    """Return ``trace(W^T W (A^T A)^-1)``."""
    return float(_weights(queries, variances, None).sum())


def _weights(queries: ProductRows, variances: Sequence[Matrix], but: int | None) -> Matrix:
    """Return, query by query, the squared value times the variances in all columns ``but`` one."""
    product = queries.values**2
    for column, (sets, own) in enumerate(zip(queries.sets, variances, strict=True)):
        if column != but:
            product = product * own[sets]
    return product


def _gram(queries: ProductRows, variances: Sequence[Matrix], column: int) -> Matrix:
    """Return the Gram matrix over one column's groups, the other factors being what they are."""
    members = queries.members[column]
    weights = np.bincount(
        queries.sets[column], _weights(queries, variances, column), minlength=len(members)
    )
    return np.asarray(members.T @ (weights[:, None] * members))


def _variances(factor: IntMatrix, members: Matrix) -> Matrix:
    """Return ``w (F^T F)^-1 w^T`` for every function w of a column."""
    rows = factor.astype(np.float64)
    solved = cho_solve(cho_factor(rows.T @ rows, check_finite=False), members.T)
    return np.asarray((members.T * solved).sum(axis=0))


def _searched(gram: Matrix) -> Matrix:
    """Return the rows B of a good p-Identity over one column's groups."""
    groups = len(gram)
    frozen = np.diag(gram) == 0
    if groups < 2 or frozen.all():
        return np.zeros((0, groups))
    if groups >= MANY_GROUPS:
        return search(gram, frozen)
    return grow(gram, frozen, MOST_ROWS)


def _rounded(rows: Matrix, total: int) -> IntMatrix:
    """Return ``[I; B] diag(1/s)`` as integers whose columns sum to exactly ``total``."""
    shares = rows / (1 + rows.sum(axis=0))
    integers = np.floor(shares * total).astype(np.int64)
    integers = integers[integers.any(axis=1)]
    own = total - integers.sum(axis=0)
    return np.vstack([integers, np.diag(own)])
