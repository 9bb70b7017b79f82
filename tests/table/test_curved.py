"""Functions that rise along no few straight lines: LN(price) has two vertices."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from scipy import sparse

from sqlmadp.solve.solution import Solution
from sqlmadp.strategy.select import select
from sqlmadp.table.partition import Partition, common
from sqlmadp.table.rows import Rows
from sqlmadp.table.stored import StoredPartition
from sqlmadp.workload.questions import Question, Workload

PRICES = np.arange(20_001) / 100
FUNCTIONS = {"ln": np.log(PRICES + 1), "sqrt": np.sqrt(PRICES), "plain": 1.19 * PRICES}


def ramp(function: np.ndarray, labels: np.ndarray | None = None) -> Partition:
    return Partition.of_functions(function[None], labels)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_any_function_of_a_wide_column_has_two_vertices(name):
    function = FUNCTIONS[name]
    part = ramp(function)
    values, coefficients = part.evaluation
    known = (function[values] @ coefficients) @ part.functions
    assert part.size == 2
    assert np.abs(known - function).max() <= 1e-12 * np.ptp(function)
    assert ramp(-function) == part
    stored = msgspec.json.encode(StoredPartition.of(part))
    assert len(stored) < 100_000
    assert msgspec.json.decode(stored, type=StoredPartition).partition == part


def test_a_function_within_groups_has_two_vertices_in_each():
    part = ramp(FUNCTIONS["ln"], (PRICES >= 20).astype(np.int64))
    assert part.size == 4
    assert common([part, Partition.flat((PRICES >= 20).astype(np.int64))]) == part


def test_several_functions_side_by_side_are_as_accurate_as_over_single_values():
    parts = [*map(ramp, FUNCTIONS.values()), Partition.flat((PRICES >= 20).astype(np.int64))]
    blocks = [Rows(("price",), (part,), weight) for weight, part in enumerate(parts, start=3)]
    finest = Partition.finest(len(PRICES))
    over_values = [block.over(("price",), [finest]) for block in blocks]
    errors = [Solution(some).errors([[block] for block in blocks]) for some in (blocks,)]
    dense = np.vstack([rows.matrix.toarray() for rows in over_values])
    inverse = np.linalg.pinv(dense @ dense.T, rcond=1e-13, hermitian=True)
    exact = [
        float(np.trace(own @ dense.T @ inverse @ inverse @ dense @ own.T))
        for own in (rows.matrix.toarray() for rows in over_values)
    ]
    np.testing.assert_allclose(errors[0], exact, rtol=1e-6)


def test_no_statement_is_less_accurate_than_asked_one_by_one():
    asked = [
        Rows(("price",), (part,), 0, sparse.csr_array(ends @ coefficients))
        for function in FUNCTIONS.values()
        for part in [ramp(function)]
        for values, coefficients in [part.evaluation]
        for ends in [function[values][None]]
    ]
    asked.append(Rows(("price",), (Partition.flat((PRICES >= 20).astype(np.int64)),), 1.0))
    workload = Workload.of([Question((rows,)) for rows in asked])
    strategy = select(workload.rows, parts=workload.parts, caps=list(workload.caps))
    errors = Solution(strategy.blocks).errors(workload.parts) * float(strategy.total) ** 2
    assert (errors <= workload.caps * (1 + 1e-6)).all()
