"""Weights on marginals, for any number of columns."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_tables import block, finest, histogram, total

from sqlmadp.mechanism.fairness import expected_errors
from sqlmadp.mechanism.independent import Independent
from sqlmadp.mechanism.utilitarian import Utilitarian
from sqlmadp.mechanism.waterfilling import Waterfilling
from sqlmadp.private.blocks import checked_blocks
from sqlmadp.private.sensitivity import l1_sensitivity
from sqlmadp.schema.domain import Column, Domain
from sqlmadp.schema.marginal import CellBlock, Marginal, Partition
from sqlmadp.strategy.cache import StrategyCache
from sqlmadp.strategy.integer import S
from sqlmadp.strategy.marginals import PlainWorkload, Supports, select_marginals
from sqlmadp.strategy.merging import Asked, merge
from sqlmadp.strategy.select import select
from sqlmadp.workload.solver import DenseSolver
from sqlmadp.workload.workload import Workload


def ways(columns, values, *counts):
    """All marginals of so many of ``columns`` columns."""
    partition = Partition.finest(values)
    names = [f"c{number:03}" for number in range(columns)]
    return [
        CellBlock(Marginal(scope, (partition,) * count), 1)
        for count in counts
        for scope in itertools.combinations(names, count)
    ]


scopes = st.lists(
    st.sampled_from([(), ("a",), ("c",), ("a", "b"), ("b", "c"), ("a", "b", "c")]),
    min_size=1,
    max_size=4,
)


@settings(deadline=None, max_examples=25)
@given(scopes)
def test_the_error_is_that_of_the_blocks_by_another_way(asked):
    blocks = [CellBlock(finest(*scope), 1) for scope in asked]
    found = select_marginals(PlainWorkload.of(blocks))
    assert found.total == sum(each.weight for each in found.blocks) == S
    assert found.error == pytest.approx(S**2 * DenseSolver(found.blocks).total(blocks), rel=1e-9)


@pytest.mark.parametrize("weight", [1e-3, 1e-6])
def test_what_counts_for_little_is_measured_all_the_same(weight):
    sizes = {"a": 5, "b": 300, "c": 4}
    asked = [CellBlock(finest(*scope, sizes=sizes), 1) for scope in (("a",), ("b", "c"))]
    much = select_marginals(PlainWorkload.of(asked)).error
    little = CellBlock(finest("a", "c", sizes=sizes), weight)
    # Nothing else that is worth measuring tells a and c together.
    found = select_marginals(PlainWorkload.of([*asked, little]))
    assert ("a", "c") in [each.marginal.scope for each in found.blocks]
    assert found.error < 1.1 * much


@pytest.mark.parametrize(("columns", "count"), [(6, 1), (6, 2), (6, 3), (8, 3)])
def test_marginals_are_never_worse_than_the_identity(columns, count):
    asked = ways(columns, 2, count)
    identity = sum(2**columns for _ in asked)
    assert select_marginals(PlainWorkload.of(asked)).error <= identity * (1 + 1e-9)


@pytest.mark.parametrize(("columns", "count", "most"), [(8, 1, 745), (8, 2, 19171), (8, 3, 95617)])
def test_binary_marginals_have_less_error_than_published_optimisers_reach(columns, count, most):
    # Errors at epsilon 1, from optimising all 2^d weights [MMHM18].
    strategy = select(Workload.of(ways(columns, 2, count)))
    assert 2 * strategy.error < most


def test_marginals_of_many_columns_take_no_table_of_all_sets_of_columns():
    asked = Workload.of(ways(30, 10, 0, 1, 2))
    strategy = select(asked)
    assert strategy.total == sum(each.weight for each in strategy.blocks)
    shares = [Fraction(1)]
    [error] = expected_errors(Utilitarian().select([asked], shares), [asked], Fraction(1))
    assert error == pytest.approx(2 * strategy.error, rel=1e-9)


def test_strategies_of_very_many_blocks_have_finer_parts_and_still_pour_exactly(tmp_path):
    many, few = Workload.of(ways(50, 2, 2)), Workload.of(ways(3, 2, 1))
    cache = StrategyCache(tmp_path)
    strategies = [select(many, cache=cache), select(few, cache=cache)]
    assert strategies[0].total > strategies[1].total == S
    shares = [Fraction(1, 3), Fraction(2, 3)]
    columns = tuple(
        Column(name=f"c{number:03}", type="boolean", complete=True) for number in range(50)
    )
    for mechanism in (Waterfilling(cache=cache), Independent(cache=cache)):
        joint = mechanism.select([many, few], shares)
        blocks = checked_blocks(joint.blocks, Domain(table="t", columns=columns))
        assert l1_sensitivity(blocks, Domain(table="t", columns=columns)) == joint.sensitivity
        together = expected_errors(joint, [many, few], Fraction(1))
        for workload, share, error in zip([many, few], shares, together, strict=True):
            alone = mechanism.select([workload], [share])
            assert error <= expected_errors(alone, [workload], share)[0] * (1 + 1e-9)


def test_many_blocks_come_back_from_the_cache_as_they_were(tmp_path):
    asked = Workload.of(ways(12, 3, 1, 2))
    strategy = select(asked, cache=StrategyCache(tmp_path))
    blocks, error, total_weight = StrategyCache(tmp_path).load(asked.fingerprint, asked)
    assert (error, total_weight) == (strategy.error, strategy.total)
    pairs = zip(blocks, strategy.blocks, strict=True)
    assert all(a.marginal == b.marginal and a.weight == b.weight for a, b in pairs)


def test_only_single_cells_of_one_partition_a_column_are_plain():
    halves = CellBlock(Marginal(("a",), (Partition.of(np.array([0, 0, 1, 1, 1])),)), 1)
    assert PlainWorkload.of([histogram("a"), histogram("a", "b"), total()]) is not None
    assert PlainWorkload.of([histogram("a"), halves]) is None
    assert PlainWorkload.of([block(finest("a"), np.tril(np.ones((5, 5))))]) is None


def test_the_slopes_of_the_error_are_those_of_its_trace():
    workload = PlainWorkload.of([CellBlock(finest("a", "b"), 1), CellBlock(finest("c"), 2)])
    problem = Supports(workload, [(), ("a",), ("a", "b"), ("a", "b", "c")])
    squares = np.array([0.1, 0.2, 0.4, 0.3])
    slopes = problem.trace_and_slopes(squares)[1]
    for place, step in enumerate(1e-6 * np.eye(4)):
        up, down = (problem.trace_and_slopes(squares + s)[0] for s in (step, -step))
        assert slopes[place] == pytest.approx((up - down) / 2e-6, rel=1e-5)


def test_small_columns_are_merged_and_large_ones_are_not():
    small = [Asked(((name, 2),), 2.0) for name in "abcd"]
    assert [part.cells for part in merge(small, 1 << 20)[-1]] == [4, 4]
    large = [Asked(((name, 100),), 100.0) for name in "ab"]
    assert merge(large, 1 << 20) == []
    assert merge(small, 3) == []
