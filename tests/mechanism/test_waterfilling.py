"""Pouring: which strategy queries share a bucket."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from small_tables import block, collectives, finest, histogram, total, written_out

from sqlmadp.errors import NotSupportedError
from sqlmadp.mechanism.base import lowest_terms
from sqlmadp.mechanism.waterfilling import Waterfilling, pour_close, pour_exact
from sqlmadp.schema.marginal import TOTAL, Marginal, Partition
from sqlmadp.strategy.select import select
from sqlmadp.workload.workload import Workload

HALVES = [Fraction(1, 2)] * 2


def poured_by_hand(rows):
    """Parallel rows added up, by cross multiplication of all pairs."""
    buckets = []
    for row in rows:
        for number, bucket in enumerate(buckets):
            if np.array_equal(np.outer(row, bucket), np.outer(bucket, row)):
                buckets[number] = bucket + row * (1 if row @ bucket > 0 else -1)
                break
        else:
            buckets.append(row.copy())
    return buckets


def as_set(rows):
    """Rows up to sign, in any order."""
    return sorted(max(tuple(row), tuple(-row)) for row in np.asarray(rows).astype(int))


def in_lowest_terms(rows):
    return np.asarray(rows) // np.gcd.reduce(np.abs(rows), axis=None)


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(-3, 3), min_size=3, max_size=3), min_size=1, max_size=8))
def test_pouring_adds_up_just_the_parallel_rows(rows):
    rows = np.array(rows, dtype=np.int64)
    poured = pour_exact(sparse.csr_array(rows)).toarray()
    assert as_set(poured) == as_set(poured_by_hand(rows[rows.any(axis=1)]))
    # Nothing is lost: every column keeps its sum of absolute values.
    np.testing.assert_array_equal(np.abs(poured).sum(axis=0), np.abs(rows).sum(axis=0))


def test_a_row_and_its_negative_share_a_bucket():
    rows = sparse.csr_array(np.array([[2, -4, 0], [-3, 6, 0], [0, 0, -1]]))
    assert as_set(pour_exact(rows).toarray()) == as_set(np.array([[5, -10, 0], [0, 0, 1]]))


def test_a_single_negative_entry_is_its_own_direction():
    rows = sparse.csr_array(np.array([[0, -2, 0], [0, 5, 0]]))
    assert as_set(pour_exact(rows).toarray()) == [(0, 7, 0)]
    one = lowest_terms([block(TOTAL, [[-6]], np.int64)], 6, [(0,)])
    assert one.sensitivity == 1
    assert one.blocks[0].matrix.toarray().tolist() == [[-1]]


def test_tolerance_zero_merges_nothing_that_is_not_parallel():
    rows = sparse.csr_array(np.array([[65_536, 65_536], [65_536, 65_535], [65_535, 65_536]]))
    assert pour_exact(rows).shape == (3, 2)
    assert pour_close(rows, 1e-3).shape == (1, 2)


@settings(deadline=None, max_examples=25)
@given(collectives())
def test_the_joint_strategy_is_everyones_rows_poured(collective):
    workloads, shares = collective
    denominator = math.lcm(*(share.denominator for share in shares))
    rows = [
        int(share * denominator) * written_out(select(workload).blocks)
        for workload, share in zip(workloads, shares, strict=True)
    ]
    joint = written_out(Waterfilling().select(workloads, shares).blocks)
    expected = poured_by_hand(np.vstack(rows))
    assert as_set(joint) == as_set(in_lowest_terms(expected))


@settings(deadline=None, max_examples=25)
@given(st.lists(st.sampled_from([histogram("a"), histogram("b", "c"), total()]), min_size=1))
def test_a_single_analyst_measures_what_they_would_select(blocks):
    workload = Workload.of(blocks)
    joint = Waterfilling().select([workload], [Fraction(1)])
    own = select(workload).blocks
    assert as_set(written_out(joint.blocks)) == as_set(
        in_lowest_terms(poured_by_hand(written_out(own)))
    )


def test_two_analysts_with_the_same_question_share_one_bucket():
    asked = Workload.of([total()])
    joint = Waterfilling().select([asked, asked], HALVES)
    assert [part.matrix.toarray().tolist() for part in joint.blocks] == [[[1]]]
    assert joint.sensitivity == 1


def test_a_total_asked_by_age_and_one_asked_by_state_meet_in_one_bucket():
    # Each has a strategy over a column of its own, with a heavy row for the total in it.
    often = [total()] * 50
    by_age, by_state = Workload.of([histogram("a"), *often]), Workload.of([histogram("b"), *often])
    for workload in (by_age, by_state):
        assert TOTAL in [part.marginal for part in select(workload).blocks]
    joint = Waterfilling().select([by_age, by_state], HALVES)
    [bucket] = [part for part in joint.blocks if part.marginal == TOTAL]
    assert bucket.rows == 1
    assert sum((row == row[0]).all() for row in written_out(joint.blocks)) == 1


def test_the_same_range_over_different_partitions_meets_in_one_bucket():
    low = Marginal(("a",), (Partition(np.array([0, 0, 1, 1, 1])),))
    coarse = Workload.of([block(low, [[1, 0]])])
    fine = Workload.of([block(finest("a"), [[1, 1, 0, 0, 0], [0, 0, 1, 0, 0]])])
    rows = written_out(Waterfilling().select([coarse, fine], HALVES).blocks)
    both = np.repeat([1, 1, 0, 0, 0], 6)
    assert sum(np.array_equal(row > 0, both == 1) for row in rows) == 1


def poured_by_the_papers_rule(rows, tolerance):
    buckets = []
    for row in rows.astype(float):
        for number, bucket in enumerate(buckets):
            cosine = row @ bucket / np.linalg.norm(row) / np.linalg.norm(bucket)
            if cosine >= 1 - tolerance:
                buckets[number] = bucket + row
                break
        else:
            buckets.append(row.copy())
    return np.array(buckets)


@settings(deadline=None)
@given(
    st.lists(
        st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any), min_size=1, max_size=8
    ),
    st.sampled_from([1e-3, 0.0137, 0.1, 0.5]),
)
def test_a_tolerance_follows_the_cosine_rule_of_the_paper(rows, tolerance):
    rows = np.array(rows, dtype=np.int64)
    found = pour_close(sparse.csr_array(rows), tolerance)
    np.testing.assert_array_equal(found, poured_by_the_papers_rule(rows, tolerance))


def test_a_tolerance_compares_rows_of_different_scopes():
    nearly = np.full((1, 5), 1.0)
    nearly[0, 0] = 0.999
    workloads = [Workload.of([total()]), Workload.of([block(finest("a"), nearly)])]
    assert len(written_out(Waterfilling().select(workloads, HALVES).blocks)) > 1
    close = Waterfilling(tolerance=1e-3).select(workloads, HALVES)
    first = written_out(close.blocks)[0]
    assert first.min() > 0
    assert len(written_out(close.blocks)) < len(
        written_out(Waterfilling().select(workloads, HALVES).blocks)
    )
    assert close.sensitivity == np.abs(written_out(close.blocks)).sum(axis=0).max()


def test_a_tolerance_is_refused_where_it_would_need_all_cells_of_a_large_table():
    sizes = {"a": 100, "b": 100}
    workloads = [Workload.of([histogram(name, sizes=sizes)]) for name in sizes]
    with pytest.raises(NotSupportedError, match="Use tolerance 0"):
        Waterfilling(tolerance=1e-3).select(workloads, HALVES)
    assert len(Waterfilling().select(workloads, HALVES).blocks) == 2
