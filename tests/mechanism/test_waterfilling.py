"""Waterfilling with a tolerance pours rows that are only close."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from sqlmadp.errors import ProgrammingError
from sqlmadp.experiment.compare import compare
from sqlmadp.mechanism import mechanism
from sqlmadp.mechanism.fairness import outcome
from sqlmadp.mechanism.waterfilling import poured_close


def test_rows_within_the_tolerance_share_a_bucket_and_others_do_not() -> None:
    rows = sparse.csr_array(np.array([[100, 100, 0], [101, 100, 0], [0, 0, 50]]))
    assert poured_close(rows, 1e-3).tolist() == [[201, 200, 0], [0, 0, 50]]
    assert len(poured_close(rows, 1e-9)) == 3


def test_a_tiny_tolerance_gives_the_errors_of_none() -> None:
    random = np.random.default_rng(1)
    matrices = [random.integers(0, 2, (5, 8)) * 1.0 for _ in range(3)]
    exact = compare(matrices, epsilon=1, mechanisms=["waterfilling"])["waterfilling"]
    close = outcome(mechanism("waterfilling", tolerance=1e-12), exact.collective, exact.epsilon)
    assert close.errors == pytest.approx(exact.errors, rel=1e-6)


def test_a_tolerance_outside_its_range_is_refused() -> None:
    with pytest.raises(ProgrammingError, match="tolerance"):
        mechanism("waterfilling", tolerance=1.0)
