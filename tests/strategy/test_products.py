"""Products of partitions, for workloads over several scopes."""

import numpy as np
import pytest
from scipy import sparse

from sqlmadp.schema.marginal import Block, Marginal, Partition
from sqlmadp.strategy import products
from sqlmadp.strategy import select as selecting
from sqlmadp.strategy.integer import S
from sqlmadp.strategy.products import select_products
from sqlmadp.strategy.select import select
from sqlmadp.workload.solver import DenseSolver
from sqlmadp.workload.workload import Workload, stacked

AGES, BANDS = 24, 4


def rows(marginal, matrix):
    return Block(marginal, sparse.csr_array(np.asarray(matrix, dtype=np.float64)))


def bands():
    """Each band of six ages."""
    return np.kron(np.eye(BANDS), np.ones((1, AGES // BANDS)))


def by_age(sex):
    """Single ages and bands of one sex, as one analyst asks for them."""
    marginal = Marginal(("age", "sex"), (Partition.finest(AGES), Partition.finest(2)))
    chosen = np.eye(2)[[sex]]
    return [rows(marginal, np.kron(np.eye(AGES), chosen)), rows(marginal, np.kron(bands(), chosen))]


def by_region():
    """Regions of adults."""
    adult = Partition.of((np.arange(AGES) >= 12).astype(np.int64))
    marginal = Marginal(("age", "region"), (adult, Partition.finest(9)))
    return [rows(marginal, np.kron(np.array([[0.0, 1.0]]), np.eye(9)))]


ANALYSTS = [Workload.of(by_age(0)), Workload.of(by_age(1)), Workload.of(by_region())]


def test_the_certified_error_is_that_of_the_integers():
    asked = stacked(ANALYSTS)
    found = select_products(asked)
    assert sum(each.weight for each in found.blocks) == found.total == S
    expected = S**2 * DenseSolver(found.blocks).total(asked.by_scope)
    assert found.error == pytest.approx(expected, rel=1e-9)


def test_products_are_no_worse_than_every_cell_of_the_largest_scopes():
    asked = stacked(ANALYSTS)
    errors = [float((scope.queries.data**2).sum()) for scope in asked.scopes]
    assert select_products(asked).error <= np.cbrt(errors).sum() ** 3 * (1 + 1e-9)


def test_who_asks_what_does_not_change_the_strategy():
    one = Workload.of([*by_region(), *by_age(1), *by_age(0)])
    several = stacked(ANALYSTS)
    assert one.fingerprint == several.fingerprint
    pairs = zip(select_products(one).blocks, select_products(several).blocks, strict=True)
    assert all(a.marginal == b.marginal and a.weight == b.weight for a, b in pairs)


def test_workloads_too_large_for_joint_rows_are_measured_by_products(monkeypatch):
    monkeypatch.setattr(selecting, "TOGETHER", 10)
    monkeypatch.setattr(selecting, "PRODUCTS", 10)
    monkeypatch.setattr(selecting, "_known", {})
    strategy = select(stacked(ANALYSTS))
    assert strategy.error == select_products(stacked(ANALYSTS)).error
    sums = sum(int(each.matrix.sum(axis=0).max()) for each in strategy.blocks)
    assert sums == strategy.total


@pytest.mark.parametrize("left", range(len(ANALYSTS)))
def test_without_an_analyst_the_same_is_selected_as_by_those_who_are_left_alone(left):
    """What leaving out shares with the whole collective changes nothing, not one bit."""
    rest = [workload for place, workload in enumerate(ANALYSTS) if place != left]
    select_products(stacked(ANALYSTS))
    after = select_products(stacked(rest))
    products._products.cache_clear()
    alone = select_products(stacked(rest))
    assert after.error == alone.error
    pairs = zip(after.blocks, alone.blocks, strict=True)
    assert all(a.marginal == b.marginal and a.weight == b.weight for a, b in pairs)
