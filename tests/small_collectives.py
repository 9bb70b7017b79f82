"""Small random tables, workloads and collectives, and the same written out over all cells."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from scipy import sparse

from sqlmadp.mechanism.collective import Collective
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows

SIZES = {"a": 3, "b": 4, "c": 2}


def random_rows(random: np.random.Generator) -> Rows:
    """Return counts, predicates or sums over one or two columns of a small table."""
    scope = tuple(sorted(random.choice(list(SIZES), size=random.integers(1, 3), replace=False)))
    factors = []
    for column in scope:
        size = SIZES[str(column)]
        kind = random.integers(3)
        if kind == 0:
            factors.append(np.eye(size))
        elif kind == 1:
            factors.append(random.integers(0, 2, (2, size)).astype(float))
        else:  # A sum beside a count.
            factors.append(np.vstack([np.ones(size), np.arange(size)]).astype(float))
    matrix = factors[0]
    for factor in factors[1:]:
        matrix = np.kron(matrix, factor)
    matrix[0, 0] += 1  # Never empty.
    parts = [Partition.finest(SIZES[str(column)]) for column in scope]
    return Rows.reduced(tuple(str(c) for c in scope), parts, sparse.csr_array(matrix))


def random_collective(seed: int) -> Collective:
    """Return two to four analysts with one or two statements each."""
    random = np.random.default_rng(seed)
    count = int(random.integers(2, 5))
    workloads = [[random_rows(random) for _ in range(random.integers(1, 3))] for _ in range(count)]
    if seed % 3 == 0:
        workloads[-1] = workloads[0]
    parts = [int(random.integers(1, 4)) for _ in range(count)]
    return Collective(workloads, [Fraction(p, sum(parts)) for p in parts], columns=SIZES)


def over_cells(rows: Rows) -> np.ndarray:
    """Return rows written out over all cells of the table."""
    given = dict(zip(rows.scope, rows.parts, strict=True))
    functions = np.ones((1, 1))
    for column, size in SIZES.items():
        own = given[column].functions.toarray() if column in given else np.ones((1, size))
        functions = np.kron(functions, own)
    return rows.matrix.toarray() @ functions
