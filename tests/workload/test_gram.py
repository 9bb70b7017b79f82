"""Sparse Gram matrices in coordinates, and traces component by component."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from small_tables import SIZES, block, finest, histogram, marginals, query_blocks, total

from sqlmadp.errors import NotCoveredError, NotSupportedError
from sqlmadp.schema.marginal import CellBlock, Marginal, Partition
from sqlmadp.workload import components, gram
from sqlmadp.workload.components import Components
from sqlmadp.workload.coordinates import Coordinates, contrasts
from sqlmadp.workload.gram import cells_gram, gram_of
from sqlmadp.workload.product_rows import ProductRows

fast = settings(deadline=None, max_examples=50)


@fast
@given(st.lists(query_blocks(), min_size=1, max_size=4))
def test_the_gram_matrix_is_that_of_the_rows_in_coordinates(blocks):
    coordinates = Coordinates([*(b.marginal for b in blocks), finest(*SIZES)])
    rows = np.vstack([coordinates.rows(b)[0] for b in blocks])
    expected = rows.T @ rows
    found = gram_of(blocks, coordinates).toarray()
    np.testing.assert_allclose(found, expected, atol=1e-9 * max(1.0, np.abs(expected).max()))


def test_a_gram_matrix_of_too_many_entries_is_refused_before_it_is_made():
    ranges = block(finest("a", "b"), np.kron(np.tri(5), np.tri(3)))
    coordinates = Coordinates([finest("a", "b")])
    assert gram_of([ranges], coordinates, most=15**2).nnz == 15**2
    with pytest.raises(NotSupportedError, match="queries over a, b overlap in too many ways"):
        gram_of([ranges], coordinates, most=15**2 - 1)


def test_rows_that_differ_by_a_factor_are_added_up_column_by_column():
    """Each b has a weight of its own: three terms, which are one sum of products."""
    ranges = block(finest("a", "b"), np.kron(np.tri(5), np.diag([1.0, 2.0, 3.0])))
    coordinates = Coordinates([finest("a", "b")])
    rows, _ = coordinates.rows(ranges)
    found = gram_of([ranges], coordinates, most=5**2 * 3**2)
    np.testing.assert_allclose(found.toarray(), rows.T @ rows, atol=1e-12)


@fast
@given(marginals())
def test_single_cells_have_the_gram_matrix_of_an_identity(marginal):
    coordinates = Coordinates([marginal, finest("b")])
    rows, _ = coordinates.rows(block(marginal, np.eye(marginal.size)))
    np.testing.assert_allclose(
        cells_gram(marginal, coordinates).toarray(), rows.T @ rows, atol=1e-12
    )


def test_products_of_functions_are_told_from_other_rows():
    rows = np.zeros((5, 5, 3))
    rows[0, 1:3, 0:2] = 2.0
    rows[1, 1:3, :] = 1.0
    rows[2, 0, 0] = rows[2, 1, 1] = 1.0  # A diagonal is no product.
    rows[3, 0:2, 0:2] = [[1.0, 2.0], [3.0, 4.0]]  # Nor are these four values.
    rows[4, 1:4, 1] = [3.0, 6.0, 9.0]  # A sum is one.
    found = ProductRows.of(block(finest("a", "b"), rows.reshape(5, 15)))
    assert found.rows.tolist() == [0, 1, 4]
    assert found.others.tolist() == [2, 3]
    assert found.values.tolist() == [2.0, 1.0, 3.0]
    assert found.sets[0].tolist() == [0, 0, 1]
    assert found.members[0].tolist() == [[0, 1, 1, 0, 0], [0, 1, 2, 3, 0]]
    assert found.members[1].tolist() == [[1, 1, 0], [1, 1, 1], [0, 1, 0]]


def test_rows_that_are_no_products_of_too_many_cells_are_refused(monkeypatch):
    monkeypatch.setattr(gram, "MOST_PAIRS", 10)
    diagonal = block(finest("a", "b"), np.tril(np.ones((15, 15))))
    with pytest.raises(NotSupportedError, match="no product"):
        gram_of([diagonal], Coordinates([diagonal.marginal]))


def test_contrasts_live_inside_one_group_and_are_orthonormal():
    coarse = Partition.of(np.array([0, 0, 0, 1, 1, 1, 1]))
    fine = Partition.of(np.array([0, 1, 1, 2, 3, 4, 4]))
    columns = contrasts(coarse, fine)
    np.testing.assert_allclose(columns.T @ columns, np.eye(3), atol=1e-12)
    for column in columns.T:
        assert len(np.unique(coarse.labels[np.abs(column) > 1e-12])) == 1
        for group in range(coarse.size):
            assert column[coarse.labels == group].sum() == pytest.approx(0, abs=1e-12)
        for group in range(fine.size):
            assert np.ptp(column[fine.labels == group]) < 1e-12


def problem():
    """A workload and blocks over ten values in two bands, crossed with two others."""
    bands = Partition.of(np.array([0] * 4 + [1] * 6))
    single = Marginal(("a", "b"), (Partition.finest(10), Partition.finest(2)))
    banded = Marginal(("a",), (bands,))
    asked = [CellBlock(single, 1.0), CellBlock(banded, 1.0), total()]
    measured = [single, banded, Marginal((), ())]
    return asked, measured, Coordinates([single, banded])


def test_components_have_the_trace_and_slopes_of_the_whole():
    asked, measured, coordinates = problem()
    workload, blocks = gram_of(asked, coordinates), [cells_gram(m, coordinates) for m in measured]
    split = Components([workload], blocks)

    def trace(squares):
        whole = sum(s * b.toarray() for s, b in zip(squares, blocks, strict=True))
        return np.trace(workload.toarray() @ np.linalg.inv(whole))

    squares = np.array([0.5, 0.3, 0.2])
    found, slopes = split.trace_and_slopes(squares)
    assert found == pytest.approx(trace(squares), rel=1e-12)
    for place, step in enumerate(1e-6 * np.eye(3)):
        numeric = (trace(squares + step) - trace(squares - step)) / 2e-6
        assert slopes[place] == pytest.approx(numeric, rel=1e-6)


def test_several_workloads_have_traces_of_their_own_and_slopes_that_add_up():
    asked, measured, coordinates = problem()
    workloads = [gram_of([each], coordinates) for each in asked]
    split = Components(workloads, [cells_gram(m, coordinates) for m in measured])
    together = Components([sum(workloads)], [cells_gram(m, coordinates) for m in measured])
    squares, factors = np.array([0.5, 0.3, 0.2]), np.array([1.0, 3.0, 2.0])
    inverses = split.inverses(squares)
    for one, workload in zip(split.traces(inverses), workloads, strict=True):
        alone = Components([workload], [cells_gram(m, coordinates) for m in measured])
        assert one == pytest.approx(alone.trace_and_slopes(squares)[0], rel=1e-12)
    weighed = sum(
        factor * split.slopes(inverses, each)
        for factor, each in zip(factors, np.eye(3), strict=True)
    )
    np.testing.assert_allclose(split.slopes(inverses, factors), weighed, rtol=1e-12)
    np.testing.assert_allclose(
        split.trace_and_slopes(squares)[1], together.trace_and_slopes(squares)[1], rtol=1e-12
    )


def test_what_queries_treat_alike_is_solved_once():
    asked, measured, coordinates = problem()
    grams = [cells_gram(marginal, coordinates) for marginal in measured]
    split = Components([gram_of(asked, coordinates)], grams)
    assert coordinates.size == 20
    assert sum(part.size * part.copies.sum() for part in split.parts) == 20
    assert sum(part.size * len(part.copies) for part in split.parts) <= 8


def test_a_query_that_no_block_measures_is_refused():
    coordinates = Coordinates([finest("a", "b")])
    with pytest.raises(NotCoveredError):
        Components([gram_of([histogram("b")], coordinates)], [cells_gram(finest("a"), coordinates)])


def test_parts_that_are_too_large_are_refused(monkeypatch):
    monkeypatch.setattr(components, "LARGEST_PART", 3)
    apart, whole = sparse.csr_array(np.eye(5)), sparse.csr_array(np.ones((5, 5)))
    Components([whole], [apart])  # What hangs together in the workload alone does not count.
    with pytest.raises(NotSupportedError, match="5 coordinates hang together"):
        Components([apart], [apart, whole])
