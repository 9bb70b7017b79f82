"""A factor that falls apart solves what the whole one does."""

import numpy as np
import pytest
from scipy.linalg import block_diag

from sqlmadp.workload import triangle
from sqlmadp.workload.triangle import Triangle


def gram(sizes, seed=0):
    """A positive definite matrix of parts that do not meet, in no order."""
    random = np.random.default_rng(seed)
    parts = [random.normal(size=(size + 3, size)) for size in sizes]
    whole = block_diag(*(part.T @ part for part in parts))
    order = random.permutation(len(whole))
    return whole[np.ix_(order, order)]


@pytest.mark.parametrize("sizes", [[1] * 5 + [2, 2, 3, 7], [9], [1, 1], [80, 80, 2]])
def test_parts_are_solved_as_the_whole(sizes, monkeypatch):
    monkeypatch.setattr(triangle, "MANY", 2)
    matrix = gram(sizes)
    found, order = Triangle.of(matrix)
    assert found.apart == (len(sizes) > 1)
    assert sorted(order) == list(range(len(matrix)))
    inside = matrix[np.ix_(order, order)]
    np.testing.assert_allclose(found.inverse(), np.linalg.inv(inside), rtol=1e-7, atol=1e-9)
    for right in (np.arange(len(matrix), dtype=float), np.eye(len(matrix))[:, :2]):
        half = found.solved(right, transposed=True)
        np.testing.assert_allclose(
            (half * half).sum(axis=0),
            (right * np.linalg.solve(inside, right)).sum(axis=0),
            rtol=1e-7,
        )
        whole = found.solved(half, transposed=False)
        np.testing.assert_allclose(inside @ whole, right, atol=1e-7)
    assert found.smallest == pytest.approx(min(1.0, np.diag(np.linalg.cholesky(inside)).min()))


def test_a_matrix_that_is_not_positive_definite_is_told(monkeypatch):
    monkeypatch.setattr(triangle, "MANY", 2)
    for sizes in ([3], [1, 3]):
        matrix = gram(sizes)
        matrix -= 2 * np.trace(matrix) * np.eye(len(matrix))
        with pytest.raises(np.linalg.LinAlgError):
            Triangle.of(matrix)
