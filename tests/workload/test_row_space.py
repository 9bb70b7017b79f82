"""Strategies of few rows over many cells are solved in coordinates of their rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_tables import block, finest, histogram, total
from solvers_alike import assert_agree

from sqlmadp.errors import NotCoveredError
from sqlmadp.schema.marginal import CellBlock
from sqlmadp.workload import row_space, solver
from sqlmadp.workload.coordinates import Coordinates
from sqlmadp.workload.iterative import IterativeSolver
from sqlmadp.workload.row_space import RowSpaceSolver, has_few_rows
from sqlmadp.workload.solver import DenseSolver, solver_for

SIZES = {"a": 6, "b": 5, "c": 4}
CELLS = finest("a", "b", "c", sizes=SIZES)
MANY = dict.fromkeys("abcdefg", 3)


def areas(random, count, more):
    """Rows of areas that no product of sets of values makes up, and some rows on top of them."""
    labels = random.integers(0, count, CELLS.size)
    alone = np.eye(count)[:, labels] * random.integers(1, 9, (count, 1))
    top = random.integers(0, 5, (more, count))[:, labels]
    return np.vstack([top, alone])


def asked_of(random, rows):
    """Queries that the rows answer: sums of a few of them."""
    return block(CELLS, random.integers(0, 2, (4, len(rows))) @ rows)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32), st.integers(2, 24), st.integers(0, 3), st.booleans())
def test_the_solver_agrees_with_the_dense_and_the_iterative_one(seed, count, more, two):
    random = np.random.default_rng(seed)
    rows = areas(random, count, more)
    measured = [block(CELLS, rows)]
    if two:
        measured += [
            block(CELLS, areas(random, count, more)),
            CellBlock(finest("b", sizes=SIZES), 3),
        ]
    found = RowSpaceSolver.of(measured, solver_for)
    dense = DenseSolver(measured)
    for queries in (asked_of(random, rows), total()):
        assert_agree(found, dense, measured, queries, seed)
        assert_agree(found, IterativeSolver(measured), measured, queries, seed)


def test_what_the_rows_do_not_tell_apart_is_refused():
    random = np.random.default_rng(5)
    for count in (3, 25):  # Fewer groups than rows, and more.
        rows = areas(random, count, 2)
        other = areas(random, count, 2)
        found = RowSpaceSolver.of([block(CELLS, rows), block(CELLS, other)], solver_for)
        found.variances(asked_of(random, np.vstack([rows, other])))
        for queries in (block(CELLS, areas(random, 90, 0)), histogram("a", "c", sizes=SIZES)):
            with pytest.raises(NotCoveredError):
                found.variances(queries)
            with pytest.raises(NotCoveredError):
                found.fit([np.zeros(len(rows)), np.zeros(len(other))])(queries)


def test_rows_that_almost_depend_on_others_are_left_to_another_solver():
    rows = np.random.default_rng(3).integers(0, 9, (10, CELLS.size))
    almost = rows[:1] + 1e-4 * np.eye(1, CELLS.size, k=25)
    assert RowSpaceSolver.of([block(CELLS, rows)], solver_for) is not None
    assert RowSpaceSolver.of([block(CELLS, np.vstack([rows, almost]))], solver_for) is None


def test_few_rows_are_chosen_where_coordinates_are_many(monkeypatch):
    random = np.random.default_rng(7)
    measured = [block(CELLS, areas(random, 20, 2))]
    assert isinstance(solver_for(measured), DenseSolver)
    monkeypatch.setattr(solver, "MOST_COORDINATES", 10)
    assert isinstance(solver_for(measured), RowSpaceSolver)
    for name in ("MOST_ROWS", "MOST_CELLS", "MOST_ENTRIES"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(row_space, name, 10)
            patch.setattr(row_space, "MOST_NUMBERS", 10)
            patch.setattr(solver, "_known", {})
            assert not has_few_rows(measured)
            assert isinstance(solver_for(measured), IterativeSolver)


def test_tiny_weights_beside_heavy_rows_lose_no_digits():
    random = np.random.default_rng(9)
    rows = areas(random, 12, 1)
    rows[0] *= 10**6
    measured = [block(CELLS, rows), block(CELLS, areas(random, 12, 0))]
    asked = asked_of(random, rows)
    expected = DenseSolver(measured).variances(asked)
    found = RowSpaceSolver.of(measured, solver_for).variances(asked)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def conditions(random, count):
    """Rows on scopes of their own, a few columns of many each: hardly any two meet."""
    found = []
    for _ in range(count):
        names = sorted(random.choice(list(MANY), random.integers(1, 4), replace=False))
        cells = finest(*names, sizes=MANY)
        found.append(block(cells, random.integers(0, 3, (random.integers(1, 3), cells.size))))
    return found


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32), st.integers(1, 12))
def test_conditions_on_many_columns_are_solved_over_coordinates(seed, count):
    random = np.random.default_rng(seed)
    measured = conditions(random, count)
    coordinates = Coordinates(each.marginal for each in measured)
    found = RowSpaceSolver.over(coordinates, measured, solver_for)
    if found is None:
        return  # Rows that almost depend on others.
    for asked in measured:
        assert_agree(found, DenseSolver(measured), measured, asked, seed)
    with pytest.raises(NotCoveredError):
        found.variances(histogram("h", sizes={"h": 3}))


def test_few_conditions_on_very_many_columns_are_not_solved_iteratively(monkeypatch):
    random = np.random.default_rng(11)
    measured = [*conditions(random, 8), *(total() for _ in range(2))]
    monkeypatch.setattr(solver, "MOST_COORDINATES", 10)
    monkeypatch.setattr(row_space, "MOST_CELLS", 10)
    assert isinstance(solver_for(measured), RowSpaceSolver)
    monkeypatch.setattr(row_space, "MOST_NUMBERS", 10)
    monkeypatch.setattr(solver, "_known", {})
    assert isinstance(solver_for(measured), IterativeSolver)
