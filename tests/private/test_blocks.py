"""A strategy is rechecked at the boundary, and multiplied without rounding or overflow."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from sqlmadp.errors import StrategyError
from sqlmadp.private.blocks import (
    MAX_ANSWER,
    checked_blocks,
    coarseness,
    exact_answers,
    grain,
    rounding,
)
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows


def total_block(rows, dtype=np.int64):
    return Rows((), (), 0, sparse.csr_array(np.array(rows, dtype=dtype)))


def labelled(labels):
    count = len(set(labels))
    part = Partition(np.array(labels), np.zeros(len(labels), np.int64), np.zeros(count, np.int64))
    return Rows(("age",), (part,), 1)


def forged(**fields):
    """Return rows with fields that their own checks would not let through."""
    rows = Rows(("age",), (Partition.finest(4),), 1)
    for name, value in fields.items():
        object.__setattr__(rows, name, value)
    return rows


def partition(pieces, steps=(0, 0, 0, 0), degrees=(), unit=1, dtype=np.int64):
    arrays = (np.array(each, dtype=dtype) for each in (pieces, steps, degrees))
    return Rows(("age",), (Partition(*arrays, unit),), 1)


RAMP = {"pieces": [0, 0, 0, 0], "steps": [0, 1, 2, 3], "degrees": [1], "unit": 3}


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (total_block([[1.0]], dtype=np.float64), "64-bit integers"),
        (total_block([[1]], dtype=np.uint64), "64-bit integers"),
        (Rows((), (), 0, np.ones((1, 1), dtype=np.int64)), "csr_array"),
        (total_block([[1, 1]]), "columns"),
        (total_block([[2**62]]), "2\\^62"),
        (total_block([[-(2**63)]]), "2\\^62"),
        (total_block([[2**46]]), "2\\^46"),
        (total_block([[2**33], [1]]), "exceed 2\\^62"),
        (total_block([[0]]), "nothing but zeros"),
        (labelled([0, 1, 2]), "does not label its 4 cells"),
        (labelled([0, 1, 2, 3, 4]), "does not label its 4 cells"),
        (labelled([0.0, 1.0, 2.0, 3.0]), "64-bit integers"),
        (labelled([1, 0, 2, 3]), "numbered by first cells"),
        (labelled([0, 0, 2, 2]), "numbered by first cells"),
        (labelled([0, -1, 1, 2]), "numbered by first cells"),
        (forged(scope=("height",)), "declared columns"),
        (forged(scope=["age"]), "declared columns"),
        (forged(scope=("sex", "age")), "alphabetical order"),
        (forged(scope=("age", "age")), "alphabetical order"),
        (forged(parts=()), "one partition per column"),
        (Rows((), (), 1.0), "weight"),
        (Rows((), (), True), "weight"),
        (Rows((), (), 0), "weight"),
        (Rows((), (), -1), "weight"),
        (Rows((), (), 2**62), "weight"),
        (partition(**RAMP | {"steps": [0, 1, 2, 4]}), "above its unit"),
        (partition(**RAMP | {"steps": [0, 1, -2, 3]}), "below 0"),
        (partition(**RAMP | {"steps": [0, 0.5, 2, 3]}, dtype=np.float64), "64-bit integers"),
        (partition(**RAMP | {"steps": [0, 1, 2]}), "does not label"),
        (partition(**RAMP | {"degrees": [0], "steps": [0, 0, 0, 1]}), "along a single vertex"),
        (partition(**RAMP | {"degrees": [3]}), "degree of 0, 1 or 2"),
        (partition(**RAMP | {"degrees": [-1]}), "degree of 0, 1 or 2"),
        (partition(**RAMP | {"degrees": [1, 1]}), "degree of 0, 1 or 2"),
        (partition(**RAMP | {"degrees": []}), "degree of 0, 1 or 2"),
        (partition(**RAMP | {"unit": 0, "steps": [0, 0, 0, 0]}), "unit"),
        (partition(**RAMP | {"unit": 3.0}), "unit"),
        (partition(**RAMP | {"unit": 2**62}), "unit"),
        (partition(**RAMP | {"degrees": [2], "unit": 2**42}), "exceed 2\\^62"),
    ],
)
def test_a_block_that_must_not_be_measured_is_refused(people, block, message):
    with pytest.raises(StrategyError, match=message):
        checked_blocks([total_block([[1]]), block], people)


def test_a_ramp_is_let_through(people):
    (checked,) = checked_blocks([partition(**RAMP)], people)
    assert grain(checked) == Fraction(1, 3)


def test_as_many_units_as_two_squared_prices_have_are_let_through(people):
    block = partition(**RAMP | {"degrees": [2], "unit": 2**41})
    (checked,) = checked_blocks([block], people)
    assert checked.units == 2**82
    assert grain(checked) == Fraction(coarseness(checked), 2**82)
    assert rounding(checked) < Fraction(1, 2**12)


def test_steps_that_change_after_the_check_are_not_seen(people):
    block = partition(**RAMP)
    (checked,) = checked_blocks([block], people)
    block.parts[0].steps[3] = 1000
    assert checked.parts[0].steps.tolist() == [0, 1, 2, 3]


def test_a_matrix_with_columns_out_of_range_is_refused(people):
    block = total_block([[1]])
    block.given.indices[0] = 7
    with pytest.raises(StrategyError, match="malformed"):
        checked_blocks([block], people)


def test_a_strategy_without_rows_is_refused(people):
    with pytest.raises(StrategyError, match="nothing to measure"):
        checked_blocks([], people)


def test_a_checked_block_no_longer_follows_the_one_it_was_made_of(people):
    block = total_block([[1]])
    (checked,) = checked_blocks([block], people)
    block.given.data[0] = 9
    assert checked.matrix.toarray().tolist() == [[1]]


entries = st.integers(-(2**31) + 1, 2**31 - 1)
counts = st.integers(0, 2**63 - 1) | st.integers(0, 100)


@given(st.lists(st.tuples(entries, counts), min_size=1, max_size=8))
@settings(deadline=None)
def test_the_product_is_exact_for_every_vector_of_counts(pairs):
    row, count = (np.array(side, dtype=np.int64) for side in zip(*pairs, strict=True))
    if not row.any():
        return
    exact = sum(int(a) * int(x) for a, x in pairs) // int(np.gcd.reduce(row))
    held = max(-MAX_ANSWER, min(MAX_ANSWER, exact))
    matrix = sparse.csr_array(row.reshape(1, -1))
    block = Rows(("age",), (Partition.finest(len(row)),), 0, matrix)
    assert exact_answers(block, count).tolist() == [held]
