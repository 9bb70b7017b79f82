"""Kronecker strategies: one p-Identity per column, for a scope too large for rows over all of it.

    A = F_1 x ... x F_d,     F_c = [I; B_c] diag(1 / s_c)   as in `p_identity`

Every column of each factor sums to 1, so every column of A does.  A query that is a product,
``value w_1 x ... x w_d``, has the variance ``value^2 prod_c v_c(w_c)``, v_c(w) = w (F_c^T F_c)^-1
w^T.  With all factors but one fixed, the error is that of a workload over the one column,

    M_c = sum over queries of  (value^2 prod over c' other than c of v_c'(w_c'))  w_c^T w_c,

so the factors are improved in turn as long as that helps [MMHM18].  Each is made of integers whose
columns sum to exactly the same number.

[MMHM18] McKenna, Miklau, Hay, Machanavajjhala, "Optimizing error of high-dimensional statistical
queries under differential privacy", PVLDB 11(10), 2018.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve

from sqlmadp.strategy.integers import TOTAL, Strategy
from sqlmadp.strategy.p_identity import interchangeable, p_identity
from sqlmadp.table.partition import Partition, common
from sqlmadp.table.products import Factored, Products, joined
from sqlmadp.table.rows import Rows
from sqlmadp.table.runs import Floats, Integers

MAX_SIDE = 2048
"""Search for a factor of a column of at most this many vertices."""

MAX_QUERIES = 2**21
"""Read at most this many queries as products."""

SUMS = {2: 1 << 12, 3: 1 << 8, 4: 1 << 6}
"""What the columns of a factor sum to, by the number of columns: products sum to 2^24."""

TURNS = 4
"""Improve every factor at most this many times."""

MIN_GAIN = 1e-3
"""Improve all factors once more only after this relative gain."""


def as_products(asked: Sequence[Rows]) -> Factored | None:
    """Return all queries as products over one scope; None if no scope holds all, or one is none."""
    widest = max((rows.scope for rows in asked), key=len)
    if len(widest) not in SUMS or any(not set(rows.scope) <= set(widest) for rows in asked):
        return None
    used: dict[str, list[Partition]] = {column: [] for column in widest}
    for rows in asked:
        for column, part in zip(rows.scope, rows.parts, strict=True):
            used[column].append(part)
    parts = [common(sorted(used[column], key=lambda part: part.key)) for column in widest]
    if max(part.size for part in parts) > MAX_SIDE or sum(r.count for r in asked) > MAX_QUERIES:
        return None
    found = []
    for rows in asked:
        factored = Factored.of(rows)
        if factored is None:
            return None
        found.append(factored.over(widest, parts))
    return joined(found)


def select_products(queries: Factored) -> Strategy:
    """Return the best integer factors found for queries that are all products."""
    total = SUMS[len(queries.scope)]
    shape = [part.size for part in queries.parts]
    factors = [np.eye(size, dtype=np.int64) * total for size in shape]
    variances = [_variances(f, m) for f, m in zip(factors, queries.members, strict=True)]
    error = float(_weights(queries, variances, None).sum())
    known: dict[bytes, Integers] = {}
    for _ in range(TURNS):
        before = error
        for column, members in enumerate(queries.members):
            gram = _gram(queries, variances, column)
            key = np.round(gram / np.trace(gram), 14).tobytes()
            if key not in known:  # Columns that are asked alike get one factor.
                known[key] = _whole(p_identity(gram, interchangeable(gram, gram.shape[:1])), total)
            tried = [*variances]
            tried[column] = _variances(known[key], members)
            better = float(_weights(queries, tried, None).sum())
            if better < error:
                factors[column], variances, error = known[key], tried, better
        if error > before * (1 - MIN_GAIN):
            break
    sums = total ** len(shape)
    heights = np.full([len(f) for f in factors], TOTAL // sums, dtype=np.int64)
    given = tuple(sparse.csr_array(factor) for factor in factors)
    block = Products(queries.scope, queries.parts, 0, None, given, heights)
    return Strategy((block,), TOTAL, float(sums) ** 2 * error)


def _weights(queries: Factored, variances: Sequence[Floats], but: int | None) -> Floats:
    """Return, query by query, the squared value times the variances in all columns ``but`` one."""
    found = queries.values**2
    for column, (sets, own) in enumerate(zip(queries.sets, variances, strict=True)):
        if column != but:
            found = found * own[sets]
    return found


def _gram(queries: Factored, variances: Sequence[Floats], column: int) -> Floats:
    """Return the Gram matrix over one column's vertices, the other factors being what they are."""
    members = queries.members[column]
    weights = _weights(queries, variances, column)
    sums = np.bincount(queries.sets[column], weights, minlength=len(members))
    return np.asarray(members.T @ (sums[:, None] * members))


def _variances(factor: Integers, members: Floats) -> Floats:
    """Return ``w (F^T F)^-1 w^T`` for every function w of a column."""
    rows = factor.astype(np.float64)
    solved = cho_solve(cho_factor(rows.T @ rows, check_finite=False), members.T)
    return np.asarray((members.T * solved).sum(axis=0))


def _whole(rows: Floats, total: int) -> Integers:
    """Return ``[I; B] diag(1 / s)`` as integers whose columns sum to exactly ``total``."""
    across = np.floor(rows / (1 + rows.sum(axis=0)) * total).astype(np.int64)
    across = across[across.any(axis=1)]
    return np.vstack([np.diag(total - across.sum(axis=0)), across])
