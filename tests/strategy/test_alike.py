"""Very many cells that most queries treat alike: worked out over classes, exact over all cells."""

import numpy as np
import pytest
from scipy import sparse
from small_tables import block, finest, histogram

from sqlmadp.mechanism import bounds
from sqlmadp.mechanism.bounds import singular_values
from sqlmadp.schema.marginal import CellBlock, cell_map
from sqlmadp.strategy import alike as alike_module
from sqlmadp.strategy import layout as layouts_module
from sqlmadp.strategy.alike import Alike, alike_in
from sqlmadp.strategy.integer import S
from sqlmadp.strategy.layout import holds_all, layouts
from sqlmadp.strategy.p_identity import loss_and_gradient
from sqlmadp.strategy.select import _by_layout, _search, select
from sqlmadp.workload.solver import DenseSolver
from sqlmadp.workload.workload import ScopeWorkload, Workload

TABLE = {"age": 30, "ward": 8}


def ranges(*ends):
    rows = np.zeros((len(ends), TABLE["age"]))
    for row, (low, high) in zip(rows, ends, strict=True):
        row[low:high] = 1
    return block(finest("age", sizes=TABLE), rows)


def one_ward(low, high):
    rows = np.zeros((TABLE["age"], TABLE["ward"]))
    rows[low:high, 2] = 1
    return block(finest("age", "ward", sizes=TABLE), rows.reshape(1, -1))


ENDS = [(low, low + 7) for low in range(23)]
CELLS = histogram("age", "ward", sizes=TABLE)
EVERYTHING = Workload.of([CELLS, ranges((0, 12), (5, 20), (5, 30)), one_ward(3, 9)])


@pytest.fixture
def large(monkeypatch):
    """Let a small table count as a large one."""
    monkeypatch.setattr(layouts_module, "FEW_GROUPS", 100)
    monkeypatch.setattr(alike_module, "MANY_GROUPS", 100)


def test_the_loss_over_classes_is_that_over_all_cells(large):
    scope = holds_all(EVERYTHING).scopes[0]
    alike = Alike.of(scope)
    assert len(alike.sizes) < 12 < scope.groups == 240
    rows = np.random.default_rng(1).random((3, len(alike.sizes)))
    everywhere = loss_and_gradient(rows[:, alike.labels], scope.gram)[0]
    assert alike.grid.loss(rows)[0] == pytest.approx(everywhere, rel=1e-9)
    assert alike.grid.trace == pytest.approx(np.trace(scope.gram), rel=1e-9)


def test_cells_that_are_asked_for_more_often_are_not_alike(large):
    twice = CellBlock(finest("age", "ward", sizes=TABLE), 1)
    first = np.eye(240)[:40]
    often = block(finest("age", "ward", sizes=TABLE), first)
    alike = Alike.of(Workload.of([twice, often]).scopes[0])
    np.testing.assert_array_equal(np.sort(alike.sizes), [40, 200])
    np.testing.assert_array_equal(np.sort(alike.single), [1, 2])


def test_where_queries_tell_most_cells_apart_there_are_no_classes(large):
    prefix = block(finest("age", "ward", sizes=TABLE), np.tril(np.ones((240, 240))))
    assert Alike.of(Workload.of([prefix]).scopes[0]) is None
    assert Alike.of(Workload.of([ranges((0, 3), (2, 20))]).scopes[0]) is None


def test_one_layout_over_all_cells_is_better_than_a_block_a_scope(large, monkeypatch):
    [whole] = layouts(EVERYTHING)
    found = _by_layout(whole)
    assert found.error == pytest.approx(
        S**2 * DenseSolver(found.blocks).total(EVERYTHING.by_scope), rel=1e-9
    )
    monkeypatch.setattr(layouts_module, "FEW_GROUPS", 10_000)
    several = [layout for layout in layouts(EVERYTHING) if len(layout.scopes) > 1]
    apart = min(_by_layout(layout).error for layout in several)
    assert found.error < apart


def test_no_dense_matrix_over_all_cells_is_made_for_them(large, monkeypatch):
    def refuse(*_):
        raise AssertionError("a matrix of cells times cells")

    monkeypatch.setattr("sqlmadp.workload.workload.ScopeWorkload.gram", property(refuse))
    monkeypatch.setattr("sqlmadp.strategy.layout.Layout.gram", property(refuse))
    found = _search(EVERYTHING)
    monkeypatch.undo()
    assert found.error == pytest.approx(
        S**2 * DenseSolver(found.blocks).total(EVERYTHING.by_scope), rel=1e-9
    )


def test_every_cell_of_a_table_is_still_measured_and_columns_sum_to_s(large):
    found = _search(EVERYTHING)
    sums = sum(
        b.matrix.sum(axis=0)[np.arange(240) if b.marginal.size == 240 else np.arange(240) // 8]
        for b in found.blocks
        if b.marginal.size in (240, 30)
    )
    assert {b.marginal.size for b in found.blocks} <= {240, 30}
    assert (sums == S).all()


def test_cells_that_nobody_asks_for_get_no_row_on_top(large):
    some = sparse.eye_array(240, format="csr")[:200].toarray()
    asked = Workload.of([block(finest("age", "ward", sizes=TABLE), some), one_ward(3, 9)])
    [whole] = layouts(asked)
    rows = Alike.of(whole.scopes[0]).rows()
    assert len(rows)
    assert not rows[:, whole.scopes[0].unasked].any()


def test_the_lower_bound_over_classes_is_that_over_all_cells(large, monkeypatch):
    found = singular_values(EVERYTHING)
    monkeypatch.setattr(bounds, "_values_over_classes", lambda _: None)
    expected = singular_values(EVERYTHING)
    assert len(found) == len(expected) == 240
    np.testing.assert_allclose(np.sort(found), np.sort(expected), rtol=1e-9, atol=1e-12)


def test_a_table_of_many_cells_is_selected_for_like_one_of_few():
    sizes = {"age": 120, "ward": 60}
    rows = np.zeros((3, 120))
    rows[0, :50], rows[1, 30:], rows[2] = 1, 1, 1
    asked = Workload.of(
        [CellBlock(finest("age", "ward", sizes=sizes), 1), block(finest("age", sizes=sizes), rows)]
    )
    plain = 7200 + 60 * rows.sum()
    assert select(asked).error < 0.75 * plain


NEIGHBOURS = block(finest("age", "ward", sizes=TABLE), np.eye(240)[:-1] + np.eye(240)[1:])


@pytest.mark.parametrize(
    "asked",
    [
        [histogram("age", sizes=TABLE), histogram("ward", sizes=TABLE)],
        [CELLS, histogram("age", sizes=TABLE), histogram("ward", sizes=TABLE)],
        [CELLS, ranges((0, 12)), NEIGHBOURS],
        [CELLS, ranges(*ENDS)],
        [CELLS, ranges((0, 12)), one_ward(3, 9)],
    ],
)
def test_whether_groups_are_alike_is_known_before_queries_are_stacked(large, asked):
    whole = finest("age", "ward", sizes=TABLE)
    lifted = [
        block(whole, each.matrix[:, cell_map(each.marginal, whole)].toarray()) for each in asked
    ]
    expected = Alike.of(ScopeWorkload.of(lifted)) is not None
    assert alike_in(Workload.of(asked).scopes, whole) == expected
