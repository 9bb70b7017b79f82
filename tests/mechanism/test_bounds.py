"""Nothing goes below the bound, and on one matrix it is the singular values' own."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from sqlmadp.mechanism import MECHANISMS, mechanism
from sqlmadp.mechanism.collective import Collective
from sqlmadp.mechanism.fairness import bounds
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows


def of_matrices(*matrices: np.ndarray) -> Collective:
    cells = matrices[0].shape[1]
    rows = [
        Rows.reduced(("cell",), [Partition.finest(cells)], sparse.csr_array(matrix))
        for matrix in matrices
    ]
    return Collective([[each] for each in rows], [Fraction(1, len(rows))] * len(rows))


def test_the_bound_of_one_matrix_is_the_square_of_its_nuclear_norm_per_cell() -> None:
    matrix = np.tril(np.ones((8, 8)))
    found = bounds(of_matrices(matrix), Fraction(1))
    nuclear = np.linalg.svd(matrix, compute_uv=False).sum()
    assert found.lowest == pytest.approx(2 * nuclear**2 / 8)


def test_the_bound_of_a_plain_marginal_is_the_error_of_measuring_it() -> None:
    found = bounds(of_matrices(np.eye(5)), Fraction(2))
    assert found.lowest == pytest.approx(5 * 2 / 4)
    assert found.utilitarian == pytest.approx(5 * 2 / 4)


@pytest.mark.parametrize("name", list(MECHANISMS))
def test_no_mechanism_goes_below_the_bound(name: str) -> None:
    random = np.random.default_rng(4)
    collective = of_matrices(*(random.integers(0, 2, (4, 6)) * 1.0 for _ in range(3)))
    total = 2 * float(mechanism(name).select(collective).errors.sum())
    lowest = bounds(collective, Fraction(1)).lowest
    assert lowest is not None
    assert total >= lowest * (1 - 1e-9)
