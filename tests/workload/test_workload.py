"""Workloads: queries stacked scope by scope, and the fingerprint that equal questions share."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_tables import block, finest, histogram, query_blocks, total, written_out

from sqlmadp.schema.marginal import Block, CellBlock
from sqlmadp.workload.workload import Workload, stacked

fast = settings(deadline=None, max_examples=40)
workloads = st.lists(query_blocks(), min_size=1, max_size=4).map(Workload.of)


def rows_as_set(matrix):
    """Return every query once, with how often it is asked for: twice counts as two squares."""
    asked = Counter()
    for row in matrix:
        if (length := np.linalg.norm(row)) > 0:
            asked[tuple(np.round(row / length, 9) + 0.0)] += length**2
    return sorted((row, round(square, 9)) for row, square in asked.items())


@fast
@given(workloads)
def test_the_scopes_hold_every_query_as_the_same_function(workload):
    blocks = [Block(s.marginal, s.queries[:, s.labels]) for s in workload.scopes]
    assert rows_as_set(written_out(blocks)) == rows_as_set(written_out(workload.blocks))


@fast
@given(workloads)
def test_no_two_groups_of_a_scope_are_counted_alike_by_every_query(workload):
    for scope in workload.scopes:
        columns = scope.queries.toarray().T
        assert len(np.unique(columns, axis=0)) == scope.groups
        np.testing.assert_allclose(scope.gram, columns @ columns.T, rtol=1e-12, atol=1e-9)


@fast
@given(workloads)
def test_the_unasked_group_is_the_one_that_no_query_counts(workload):
    for scope in workload.scopes:
        empty = np.flatnonzero(~scope.queries.toarray().any(axis=0)).tolist()
        assert empty == ([] if scope.unasked is None else [scope.unasked])


@fast
@given(st.lists(query_blocks(), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_the_fingerprint_does_not_depend_on_the_order_of_queries(blocks, shuffler):
    shuffled = []
    for each in shuffler.sample(blocks, len(blocks)):
        order = shuffler.sample(range(each.rows), each.rows)
        shuffled.append(Block(each.marginal, each.matrix[order]))
    one, other = Workload.of(blocks), Workload.of(shuffled)
    assert one.fingerprint == other.fingerprint
    # Not just equal names: sums over the queries round the same way, so strategies are equal.
    for ours, theirs in zip(one.scopes, other.scopes, strict=True):
        assert ours.gram.tobytes() == theirs.gram.tobytes()


@fast
@given(workloads, workloads)
def test_workloads_share_a_fingerprint_just_when_they_ask_the_same_of_the_same_columns(one, other):
    def asked(workload, form):
        blocks = [[Block(s.marginal, s.queries[:, s.labels])] for s in workload.scopes]
        return [
            (scope.marginal.scope, form(written_out(each)))
            for scope, each in zip(workload.scopes, blocks, strict=True)
        ]

    def in_order(matrix):
        return sorted(map(tuple, matrix))

    if asked(one, in_order) == asked(other, in_order):
        assert one.fingerprint == other.fingerprint
    if one.fingerprint == other.fingerprint:
        assert asked(one, rows_as_set) == asked(other, rows_as_set)


def test_different_questions_have_different_fingerprints():
    different = [
        [histogram("a")],
        [histogram("a"), histogram("a")],
        [histogram("b")],
        [histogram("a"), total()],
        [block(finest("a"), 2 * np.eye(5))],
        [block(finest("a"), np.eye(5)[:4])],
        [block(finest("a"), np.eye(5)[1:])],
        [histogram("a", "b")],
        [histogram("a", sizes={"a": 6})],
        [total()],
    ]
    assert len({Workload.of(blocks).fingerprint for blocks in different}) == len(different)


def test_sums_that_round_differently_in_another_order_still_share_a_fingerprint():
    rows = [[0.1, 1.0], [0.2, 1.0], [0.3, 1.0]]
    prints = {
        Workload.of([block(finest("c"), list(order))]).fingerprint for order in permutations(rows)
    }
    assert len(prints) == 1


def test_scaling_multiplies_rows_and_stacking_keeps_every_query():
    one, other = Workload.of([histogram("a")]), Workload.of([total(), histogram("b")])
    both = stacked([one.scaled(3.0), other])
    expected = np.vstack([3 * written_out(one.blocks), written_out(other.blocks)])
    np.testing.assert_array_equal(written_out(both.blocks), expected)


def test_all_cells_are_plain_in_whatever_order_and_however_often_they_are_asked_for():
    cells = histogram("a", "b")
    order = np.random.default_rng(3).permutation(cells.rows)
    mixed = Block(cells.marginal, cells.matrix[order])
    [plain] = Workload.of([cells]).by_scope
    for asked, times in ([mixed], 1), ([mixed, cells], 2), ([cells, mixed, mixed], 3):
        workload = Workload.of(asked)
        [found] = workload.by_scope
        assert isinstance(found, CellBlock)
        assert found.marginal == plain.marginal
        assert found.weight**2 == pytest.approx(times * plain.weight**2, rel=1e-12)
        # What a process that selects for others gets to see is the same question.
        assert Workload(workload.by_scope).fingerprint == workload.fingerprint
        again = Workload(workload.by_scope).scopes[0].gram
        np.testing.assert_array_equal(again, workload.scopes[0].gram)
    assert Workload.of([mixed]).fingerprint == Workload.of([cells]).fingerprint
    some = Block(cells.marginal, cells.matrix[[0, *range(cells.rows - 1)]])  # The first one twice.
    assert not isinstance(Workload.of([some]).by_scope[0], CellBlock)


def test_it_does_not_matter_who_asks_for_all_cells_first():
    one, two = Workload.of([histogram("a")]), Workload.of([histogram("a"), histogram("a")])
    prints = {stacked(order).fingerprint for order in ([one, two], [two, one], [one, one, one])}
    assert len(prints) == 1
