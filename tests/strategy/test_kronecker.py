"""Kronecker strategies, for scopes too large for rows over all their cells."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from sqlmadp.mechanism.fairness import expected_errors
from sqlmadp.mechanism.waterfilling import Waterfilling, pour_exact, stacked_rows
from sqlmadp.schema.kronecker import KroneckerBlock
from sqlmadp.schema.marginal import Block, CellBlock, Marginal, Partition
from sqlmadp.strategy import kronecker, single
from sqlmadp.strategy import select as selecting
from sqlmadp.strategy.cache import StrategyCache
from sqlmadp.strategy.kronecker import SUMS, products_of, select_kronecker
from sqlmadp.strategy.select import select
from sqlmadp.workload.product_rows import ProductRows
from sqlmadp.workload.solver import DenseSolver
from sqlmadp.workload.workload import Workload

SIDE = 12


def over(*names, size=SIDE):
    return Marginal(names, (Partition.finest(size),) * len(names))


def rows(marginal, matrix):
    return Block(marginal, sparse.csr_array(np.asarray(matrix, dtype=np.float64)))


def ranges(seed, count=30):
    random = np.random.default_rng(seed)
    ends = np.sort(random.integers(0, SIDE + 1, (count, 2, 2)), axis=2)
    places = np.arange(SIDE)
    inside = (ends[:, :, :1] <= places) & (places < np.maximum(ends[:, :, 1:], ends[:, :, :1] + 1))
    return rows(over("a", "b"), [np.kron(*each) for each in inside.astype(np.float64)])


PREFIX = Workload.of([rows(over("a", "b"), np.kron(np.tri(SIDE), np.tri(SIDE)))])
SOME = Workload.of([ranges(1), rows(over("a"), np.tri(SIDE)), rows(over(), [[1.0]])])


@pytest.fixture
def large(monkeypatch):
    """Let everything be too large for rows over all cells."""
    monkeypatch.setattr(selecting, "_known", {})
    monkeypatch.setattr(selecting, "DENSE_GROUPS", 20)
    monkeypatch.setattr(single, "DENSE_GROUPS", 20)
    monkeypatch.setattr(single, "MOST_GROUPS", 20)


@pytest.mark.parametrize("workload", [PREFIX, SOME])
def test_the_error_is_that_of_the_integers_and_every_column_sums_to_the_total(workload):
    found = select_kronecker(*products_of(workload))
    [block] = found.blocks
    assert found.total == SUMS[2] ** 2
    assert (block.matrix.sum(axis=0) == found.total).all()
    expected = found.total**2 * DenseSolver([block]).total(workload.by_scope)
    assert found.error == pytest.approx(expected, rel=1e-9)


def test_a_product_of_workloads_is_measured_by_a_product_of_their_own_strategies():
    found = select_kronecker(*products_of(PREFIX))
    alone = select(Workload.of([rows(over("a"), np.tri(SIDE))])).error
    assert found.error == pytest.approx(alone**2, rel=0.02)
    identity = (SIDE * (SIDE + 1) / 2) ** 2
    assert alone**2 < 0.8 * identity
    # Rows over all cells have more freedom, and not much less error.
    assert found.error < 1.25 * select(PREFIX).error


def test_factors_are_optimised_for_each_other():
    """Ranges of a crossed with single values of b, and the other way around."""
    narrow, wide = np.eye(SIDE), np.tri(SIDE)
    crossed = [np.kron(wide, narrow), 3 * np.kron(narrow, wide)]
    workload = Workload.of([rows(over("a", "b"), each) for each in crossed])
    queries, marginal = products_of(workload)
    found = select_kronecker(queries, marginal)
    separate = [
        select_kronecker(*products_of(Workload.of([rows(over("a", "b"), crossed[k])])))
        for k in (0, 1)
    ]
    for one in separate:
        other = DenseSolver(one.blocks).total(workload.by_scope) * one.total**2
        assert found.error <= other * (1 + 1e-9)


def test_a_large_scope_is_measured_by_products_and_never_worse_than_its_cells(large):
    strategy = select(PREFIX)
    assert [type(block) for block in strategy.blocks] == [KroneckerBlock]
    cells = CellBlock(over("a", "b"), 1)
    assert strategy.error < DenseSolver([cells]).total(PREFIX.by_scope)


def test_queries_that_are_no_products_are_left_to_other_templates(large):
    diagonal = Workload.of([rows(over("a", "b"), [np.eye(SIDE).reshape(-1)])])
    assert products_of(diagonal) is None
    assert products_of(Workload.of([rows(over("a"), np.tri(SIDE))])) is None
    apart = [CellBlock(over("a", "b"), 1.0), CellBlock(over("b", "c"), 1.0)]
    assert products_of(Workload(tuple(apart))) is None


def test_three_columns_are_measured_by_products_too():
    size = 4
    parts = [np.tri(size)] * 3
    marginal = over("a", "b", "c", size=size)
    workload = Workload.of([rows(marginal, np.kron(np.kron(parts[0], parts[1]), parts[2]))])
    found = select_kronecker(*products_of(workload))
    assert (found.blocks[0].matrix.sum(axis=0) == found.total).all()
    expected = found.total**2 * DenseSolver(found.blocks).total(workload.by_scope)
    assert found.error == pytest.approx(expected, rel=1e-9)


def test_pouring_products_together_is_pouring_their_rows(large):
    crossed = Workload.of([rows(over("a", "b"), np.kron(np.tri(SIDE), np.eye(SIDE)))])
    asked = [PREFIX, crossed, Workload((CellBlock(over("a", "b"), 1.0),))]
    shares = [Fraction(share, 4) for share in (1, 2, 1)]
    poured = Waterfilling().select(asked, shares)
    kinds = [type(block) for block in poured.blocks]
    assert kinds == [KroneckerBlock]
    strategies = [select(workload) for workload in asked]
    whole = max(strategy.total for strategy in strategies)
    written = [
        Block(b.marginal, b.matrix * int(share * 4) * (whole // s.total))
        for s, share in zip(strategies, shares, strict=True)
        for b in s.blocks
    ]
    expected = Block(over("a", "b"), pour_exact(stacked_rows(written).matrix))
    ours = poured.blocks[0].matrix.toarray() * (4 * whole // poured.sensitivity)
    assert sorted(map(tuple, ours)) == sorted(map(tuple, expected.matrix.toarray()))
    assert (np.abs(ours).sum(axis=0) == 4 * whole).all()
    errors = expected_errors(poured, asked, Fraction(1))
    dense = DenseSolver([Block(b.marginal, b.matrix) for b in poured.blocks])
    for error, workload in zip(errors, asked, strict=True):
        direct = 2 * poured.sensitivity**2 * dense.total(workload.by_scope)
        assert error == pytest.approx(direct, rel=1e-9)


def test_a_kronecker_strategy_comes_back_from_the_cache_as_it_was(large, tmp_path, monkeypatch):
    cache = StrategyCache(tmp_path)
    first = select(PREFIX, cache=cache)
    monkeypatch.setattr(selecting, "_known", {})
    monkeypatch.setattr(selecting, "_search", lambda *_: pytest.fail("searched again"))
    again = select(PREFIX, cache=cache)
    assert (again.error, again.total) == (first.error, first.total)
    assert isinstance(again.blocks[0], KroneckerBlock)
    ours, theirs = (each.blocks[0].matrix.toarray() for each in (again, first))
    np.testing.assert_array_equal(ours, theirs)


def test_prefixes_of_many_cells_are_selected_for_without_writing_them_out():
    """65,536 queries over 65,536 cells; nothing of that size squared is made."""
    side = 256
    a, b = np.divmod(np.arange(side * side), side)
    none = np.zeros(0, dtype=np.int64)
    queries = ProductRows(
        np.arange(side * side), np.ones(side * side), (a, b), (np.tri(side),) * 2, none
    )
    found = select_kronecker(queries, over("a", "b", size=side))
    identity = (side * (side + 1) / 2) ** 2
    assert found.error < 0.05 * identity


def test_a_search_that_another_strategy_is_out_of_reach_of_ends_early(monkeypatch):
    searches = []
    search = kronecker._searched
    monkeypatch.setattr(kronecker, "_searched", lambda gram: searches.append(gram) or search(gram))
    best = select_kronecker(*products_of(SOME))
    whole = len(searches)
    assert select_kronecker(*products_of(SOME), best.error).error == best.error
    assert len(searches) == 2 * whole
    hopeless = select_kronecker(*products_of(SOME), best.error / 100)
    assert len(searches) < 3 * whole
    assert hopeless.error < 1.2 * best.error
