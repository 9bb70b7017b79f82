"""Own selection under caps for parts of a workload."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import sparse

from sqlmadp.strategy.integers import certified
from sqlmadp.strategy.select import select
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows


def test_a_part_stays_within_its_cap_though_it_counts_for_little() -> None:
    wide = Rows.reduced(
        ("v",), [Partition.finest(101)], sparse.csr_array(np.arange(101.0)[None, :])
    )
    count = Rows.reduced(("b",), [Partition.finest(2)], sparse.csr_array(np.eye(2)))
    # Split evenly over two statements, a sum up to 100 has variance (2 * 100)^2, a count 2^2.
    caps = (4 * 100.0**2, 2 * 4.0)
    free = select([wide, count])
    capped = select([wide, count], parts=[[wide], [count]], caps=caps)
    before = certified(free.blocks, free.total, [[wide], [count]])
    after = certified(capped.blocks, capped.total, [[wide], [count]])
    assert before[1] > caps[1]
    assert (after <= np.array(caps) * (1 + 1e-6)).all()


def test_a_sum_across_zero_is_no_worse_than_its_own_row() -> None:
    values = np.arange(-50.0, 101.0)
    total = Rows.reduced(("v",), [Partition.finest(151)], sparse.csr_array(values[None, :]))
    found = select([total], parts=[[total]], caps=[100.0**2])
    assert found.error <= 100.0**2 * (1 + 1e-6)


def test_where_every_answer_is_known_the_total_is_measured_for_the_others() -> None:
    found = select([])
    assert [block.scope for block in found.blocks] == [()]
    assert found.error == 0


@pytest.mark.parametrize(("columns", "ways"), [(10, 3), (12, 2)])
def test_many_marginals_are_merged_until_they_are_no_worse_than_every_cell(columns, ways):
    two = Partition.finest(2)
    names = [f"c{number:02}" for number in range(columns)]
    workload = [Rows(scope, (two,) * ways, 1.0) for scope in itertools.combinations(names, ways)]
    assert select(workload).error <= len(workload) * 2**columns
