"""Pooling scopes: the model's errors are the true ones, and what it finds harms nobody."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from sqlmadp.mechanism.base import read_by_all
from sqlmadp.mechanism.fairness import expected_errors
from sqlmadp.schema.marginal import Block, Marginal, Partition
from sqlmadp.strategy.pooling import Pool, _within, pooled_scopes
from sqlmadp.strategy.select import select
from sqlmadp.workload.workload import Workload


def histogram(name, size=2):
    column = Marginal((name,), (Partition.finest(size),))
    return Workload.of([Block(column, sparse.eye_array(size, format="csr"))])


def pool_of(counts, sizes=None):
    asked = [histogram(name, (sizes or {}).get(name, 2)) for name in "abcdefgh"[: len(counts)]]
    own = [select(workload).blocks for workload in asked]
    return asked, Pool.of(asked, counts, own, [1 / sum(counts)] * len(counts))


def pooling_of(pool, scopes):
    return tuple(
        tuple(n for n, own in enumerate(pool.scopes) if set(own) <= set(scope)) for scope in scopes
    )


@pytest.mark.parametrize(
    ("counts", "scopes"),
    [
        ([1, 1], [("a",), ("b",)]),
        ([1, 2], [("a", "b")]),
        ([2, 1, 3], [("a", "c"), ("b",)]),
        ([1, 1, 1, 2], [("a", "b"), ("c", "d")]),
    ],
)
def test_the_errors_of_the_model_are_those_of_the_blocks_measured_cell_by_cell(counts, scopes):
    sizes = {"a": 3, "b": 2, "c": 2, "d": 4}
    asked, pool = pool_of(counts, sizes)
    blocks, unit = [], sum(counts)
    for scope in scopes:
        weight = sum(count for count, name in zip(counts, "abcd", strict=False) if name in scope)
        marginal = Marginal(scope, tuple(Partition.finest(sizes[name]) for name in scope))
        eye = sparse.eye_array(marginal.size, format="csr", dtype=np.int64)
        blocks.append(Block(marginal, sparse.csr_array(weight * eye)))
    true = expected_errors(read_by_all(blocks, unit, len(asked)), asked, Fraction(1))
    model = pool.errors(pooling_of(pool, scopes), pool.counts)
    np.testing.assert_allclose(2 * model, true)


@settings(deadline=None, max_examples=30, derandomize=True)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=6))
def test_nobody_is_worse_off_than_apart_or_with_one_analyst_less(counts):
    _, pool = pool_of(counts)
    pooling = pooling_of(pool, pooled_scopes(pool))
    errors = pool.errors(pooling, pool.counts)
    assert (errors <= pool.errors(pool.apart, pool.counts) * (1 + 1e-8)).all()
    for leaving in range(len(counts)):
        fewer = pool.counts - (np.arange(len(counts)) == leaving)
        if fewer.any():
            before = _within(pool, pooling, fewer)
            assert (errors <= before * (1 + 1e-8))[fewer > 0].all()


def test_two_equal_askers_of_small_columns_pool_and_very_unequal_ones_do_not():
    assert pooled_scopes(pool_of([1, 1])[1]) == [("a", "b")]
    assert pooled_scopes(pool_of([1, 9])[1]) == [("a",), ("b",)]


def test_large_columns_stay_apart():
    assert pooled_scopes(pool_of([1, 1], {"a": 50, "b": 50})[1]) == [("a",), ("b",)]
