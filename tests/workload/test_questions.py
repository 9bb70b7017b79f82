"""Errors in units of the question."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from sqlmadp.solve.solution import Solution
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows
from sqlmadp.workload.questions import Question, Workload

AGES = Partition.of_functions(np.array([np.ones(100), np.arange(100.0)]))
WARDS = Partition.finest(4)
TOTAL = Rows.of((), (), sparse.csr_array(np.ones((1, 1))))
BY_WARD = Rows(("ward",), (WARDS,), 1.0)
AGE_SUM = Rows.of(("age",), (AGES,), sparse.csr_array(np.array([[0.0, 99.0]])))


def error(workload, blocks):
    """Return a workload's error from rows with noise of variance 1."""
    return Solution(blocks).errors([workload.rows])[0]


def test_asking_one_by_one_has_an_error_of_one():
    # Two statements: each is measured with half of the budget, in units of its own effect.
    workload = Workload.of([Question((BY_WARD,)), Question((AGE_SUM,))])
    ages = Rows(("age",), (AGES,), 0.5)
    assert error(workload, [BY_WARD.times(0.5), ages]) <= 1
    alone = Rows.of(("age",), (AGES,), sparse.csr_array(np.array([[0.0, 0.5]])))
    assert error(workload, [BY_WARD.times(0.5), alone]) == pytest.approx(1)


def test_multiplying_a_statement_by_a_constant_changes_nothing():
    blocks = [BY_WARD, Rows(("age",), (AGES,), 1.0)]
    plain = Workload.of([Question((BY_WARD,)), Question((AGE_SUM,))])
    times = Workload.of([Question((BY_WARD.times(7),)), Question((AGE_SUM.times(-0.01),))])
    assert error(plain, blocks) == pytest.approx(error(times, blocks))


@pytest.mark.parametrize("times", [3, 7, 1_000_003, 0.125])
def test_multiplying_a_statement_by_a_whole_number_gives_the_same_rows_bit_for_bit(times):
    plain = Workload.of([Question((BY_WARD, AGE_SUM)), Question((TOTAL,))])
    scaled = Workload.of(
        [Question((BY_WARD.times(times), AGE_SUM.times(times))), Question((TOTAL,))]
    )
    assert scaled.fingerprint == plain.fingerprint


def test_repeating_a_statement_changes_nothing():
    once = Workload.of([Question((BY_WARD,)), Question((TOTAL,))])
    often = Workload.of([Question((BY_WARD,)), Question((TOTAL,)), Question((BY_WARD,))])
    assert once.fingerprint == often.fingerprint


def test_a_weight_multiplies_the_part_of_a_statement():
    even = Workload.of([Question((BY_WARD,)), Question((TOTAL,))])
    heavy = Workload.of([Question((BY_WARD,)), Question((TOTAL,), Fraction(3))])
    assert even.caps.tolist() == [0.5, 0.5]
    assert sorted(heavy.caps.tolist()) == [0.25, 0.75]


def test_groups_that_no_record_can_be_in_do_not_count():
    rows = Rows.of(("ward",), (WARDS,), sparse.csr_array(np.vstack([np.eye(4), np.zeros((4, 4))])))
    assert Question((rows,)).rows == 4


def test_the_squared_measure_is_the_plain_sum_over_rows():
    workload = Workload.of([Question((BY_WARD,)), Question((AGE_SUM,))], "squared")
    blocks = [BY_WARD, Rows(("age",), (AGES,), 1.0)]
    assert error(workload, blocks) == pytest.approx(
        Solution(blocks).errors([[BY_WARD, AGE_SUM]])[0]
    )
