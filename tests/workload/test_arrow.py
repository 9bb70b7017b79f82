"""Large scopes that share few coordinates are factored one by one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_tables import block, finest, total
from solvers_alike import assert_agree

from sqlmadp.errors import NotCoveredError
from sqlmadp.schema.marginal import CellBlock
from sqlmadp.workload import arrow, row_space, solver
from sqlmadp.workload.arrow import ArrowFactor
from sqlmadp.workload.coordinates import Coordinates
from sqlmadp.workload.iterative import IterativeSolver
from sqlmadp.workload.solver import DenseSolver, solver_for

SIZES = {"a": 5, "b": 4, "c": 3, "d": 3}
SCOPES = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d"), ("b",), ("a", "c")]


def measured(random, count):
    """Every cell of a few scopes that overlap, with some rows on top, and coarser partitions."""
    found = []
    for place in random.permutation(len(SCOPES))[:count]:
        cells = finest(*SCOPES[place], sizes=SIZES)
        rows = random.integers(0, 4, (random.integers(0, 4), cells.size))
        own = np.diag(random.integers(1, 5, cells.size))
        found.append(block(cells, np.vstack([rows, own])))
    halves = finest("a", sizes=SIZES)
    return [*found, CellBlock(finest("a", "b", sizes=SIZES), 2), block(halves, [[1, 1, 0, 0, 0]])]


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32), st.integers(1, 6))
def test_the_factor_agrees_with_that_of_the_whole_matrix(seed, count):
    random = np.random.default_rng(seed)
    blocks = measured(random, count)
    coordinates = Coordinates(each.marginal for each in blocks)
    factor = ArrowFactor.of(blocks, coordinates)
    if factor is None:
        assert len({each.marginal.scope for each in blocks}) <= 3
        return
    found = DenseSolver(blocks, coordinates, factor)
    for asked in (*blocks, total(), block(finest("b", sizes=SIZES), np.tri(4))):
        assert_agree(found, DenseSolver(blocks), blocks, asked, seed)
    crossed = finest("a", "b", "c", sizes=SIZES)
    with pytest.raises(NotCoveredError):
        found.variances(block(crossed, np.eye(1, crossed.size)))


def test_what_is_not_measured_in_full_has_no_such_factor():
    cells, other = finest("a", "b", sizes=SIZES), finest("b", "c", sizes=SIZES)
    blocks = [CellBlock(other, 1), block(cells, np.eye(20)[:7])]
    assert ArrowFactor.of(blocks, Coordinates(each.marginal for each in blocks)) is None


def test_scopes_that_share_little_are_chosen_where_coordinates_are_many(monkeypatch):
    blocks = measured(np.random.default_rng(4), 4)
    for module, name in ((solver, "MOST_COORDINATES"), (row_space, "MOST_ROWS")):
        monkeypatch.setattr(module, name, 10)
    monkeypatch.setattr(solver, "_known", {})
    assert isinstance(solver_for(blocks), DenseSolver)
    for name in ("MOST_SHARED", "MOST_OF_ONE", "MOST_NUMBERS"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(arrow, name, 3)
            patch.setattr(solver, "_known", {})
            assert isinstance(solver_for(blocks), IterativeSolver)
