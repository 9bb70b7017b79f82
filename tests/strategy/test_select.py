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


def test_combinations_that_no_query_tells_apart_are_measured_together():
    random = np.random.default_rng(5)
    ranges = np.zeros((14, 40, 40))
    for each in ranges:
        (low, high), (least, most) = np.sort(random.integers(0, 40, (2, 2)), axis=1)
        each[low : high + 1, least : most + 1] = 1
    matrix = sparse.csr_array(ranges.reshape(14, -1))
    asked = Rows.reduced(("a", "b"), [Partition.finest(40)] * 2, matrix)
    found = select([asked])
    (block,) = found.blocks
    # Far fewer groups of combinations than single values make up.
    assert block.count < asked.size / 2
    assert set(np.asarray(abs(block.matrix).sum(axis=0)).tolist()) == {found.total}


@pytest.mark.parametrize(("columns", "ways"), [(10, 3), (12, 2)])
def test_many_marginals_are_merged_until_they_are_no_worse_than_every_cell(columns, ways):
    two = Partition.finest(2)
    names = [f"c{number:02}" for number in range(columns)]
    workload = [Rows(scope, (two,) * ways, 1.0) for scope in itertools.combinations(names, ways)]
    assert select(workload).error <= len(workload) * 2**columns
