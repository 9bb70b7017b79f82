"""What no template is for is told from sizes, before anything is selected."""

import numpy as np
import pytest
from small_tables import block, finest, histogram, total

from sqlmadp.errors import NotSupportedError
from sqlmadp.oversized import ENOUGH
from sqlmadp.schema.marginal import CellBlock
from sqlmadp.strategy import layout, products
from sqlmadp.strategy import select as selecting
from sqlmadp.strategy.select import select
from sqlmadp.strategy.tractable import coordinates, dense_groups, entangled, selection_bytes
from sqlmadp.workload.coordinates import Coordinates
from sqlmadp.workload.workload import Workload

RANGES = block(finest("a", "b"), np.tri(15))
CROSSED = block(finest("b", "c"), np.tri(6))


@pytest.fixture
def small(monkeypatch):
    """Let hardly anything be small enough."""
    monkeypatch.setattr(selecting, "_known", {})
    monkeypatch.setattr(selecting, "TOGETHER", 4)
    monkeypatch.setattr(selecting, "PRODUCTS", 4)
    monkeypatch.setattr(layout, "MOST_COORDINATES", 8)
    monkeypatch.setattr(layout, "UNION_CELLS", 8)
    monkeypatch.setattr(layout, "WHOLE_CELLS", 20)
    monkeypatch.setattr(products, "MOST_COORDINATES", 8)


def test_overlapping_scopes_that_take_too_many_coordinates_are_told_with_their_sizes(small):
    asked = [RANGES, CROSSED, total()]
    found = entangled(asked)
    assert found.scopes == (("a", "b"), ("b", "c"))
    assert found.groups == 15 + 6 + 1
    assert found.coordinates == 18
    with pytest.raises(NotSupportedError):
        select(Workload.of(asked))


@pytest.mark.parametrize(
    "asked",
    [
        [RANGES, histogram("a"), total()],
        [CellBlock(finest("a", "b"), 1), CellBlock(finest("b", "c"), 1)],
        [block(finest("a", "b"), np.ones((1, 15))), block(finest("b", "c"), np.ones((1, 6)))],
    ],
    ids=["one scope holds all others", "plain marginals", "few groups"],
)
def test_what_can_be_selected_for_is_not_refused(asked, small):
    assert entangled(asked) is None
    assert select(Workload.of(asked)).error > 0


def test_a_small_union_of_all_columns_is_measured_cell_by_cell(small, monkeypatch):
    monkeypatch.setattr(layout, "WHOLE_CELLS", 30)
    asked = [RANGES, CROSSED]
    assert entangled(asked) is None
    [only] = select(Workload.of(asked)).blocks
    assert only.marginal.scope == ("a", "b", "c")


def test_few_cells_are_never_looked_at_more_closely(monkeypatch):
    monkeypatch.setattr(Workload, "of", lambda _: pytest.fail("stacked"))
    assert entangled([RANGES, CROSSED]) is None


def test_coordinates_are_counted_without_their_functions():
    marginals = [finest("a", "b"), finest("b", "c")]
    assert coordinates(marginals) == Coordinates(marginals).size == 18


def test_selecting_never_takes_more_memory_than_is_enough():
    assert selection_bytes(10**9) <= ENOUGH * 2**20
    assert selection_bytes(1000) < selection_bytes(2000) < selection_bytes(4000)


def test_square_matrices_are_made_over_groups_or_over_classes_of_them():
    sizes = {"a": 50, "b": 40}
    cells = CellBlock(finest("a", "b", sizes=sizes), 1)
    ranges = block(finest("a", sizes=sizes), np.tri(50)[[9, 19, 29]])
    crossed = block(finest("b", "c", sizes=sizes | {"c": 3}), np.tri(120)[[4, 16]])
    assert dense_groups([cells]) == 0
    assert dense_groups([cells, histogram("b", sizes=sizes)]) == 40
    assert dense_groups([cells, CellBlock(finest("b", "c", sizes=sizes | {"c": 9}), 1)]) == 2048
    assert dense_groups([cells, ranges]) == 4
    assert dense_groups([cells, ranges, crossed]) == 2000 + 4 + 3
