"""Variances of rows and of sums of them, against the pseudoinverse over all cells."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from sqlmadp.errors import NotCoveredError
from sqlmadp.solve import solution
from sqlmadp.solve.products import ProductSolution
from sqlmadp.solve.solution import Solution
from sqlmadp.table.partition import Partition
from sqlmadp.table.products import Products
from sqlmadp.table.rows import Rows, lifting

SIZES = {"a": 7, "b": 5, "c": 4}
FINEST = [Partition.finest(size) for size in SIZES.values()]
ALWAYS, NEVER = 0, 10**9


def over_cells(rows):
    return (rows.matrix @ lifting(rows.scope, rows.parts, tuple(SIZES), FINEST)).toarray()


def random_part(random, size):
    """Return all values, groups of them, a ramp, or a ramp or parabola beside a value."""
    places = np.arange(size, dtype=float)
    kinds = [
        Partition.finest(size),
        Partition.flat(np.roll(np.arange(size) % 2, random.integers(2))),
        Partition.of_functions(places[None]),
        Partition.of_functions(np.array([places, places**2]), (places == 0).astype(np.int64)),
    ]
    return kinds[random.integers(len(kinds))]


def random_rows(random, scope, rows):
    """Return rows of few vertices each."""
    parts = tuple(random_part(random, SIZES[column]) for column in scope)
    size = int(np.prod([part.size for part in parts]))
    matrix = random.integers(-3, 4, (rows, size)) * (random.random((rows, size)) < 0.3)
    return Rows(scope, parts, 0, sparse.csr_array(matrix.astype(float))).simplified()


def random_scope(random):
    return tuple(sorted(random.choice(list(SIZES), random.integers(0, 4), replace=False).tolist()))


def random_strategy(random):
    """Return plain rows over some scopes, and some rows on top of them."""
    blocks = [Rows(tuple(SIZES), tuple(FINEST), float(random.integers(1, 4)))]
    for _ in range(random.integers(1, 4)):
        scope = random_scope(random)
        parts = tuple(random_part(random, SIZES[column]) for column in scope)
        blocks.append(Rows(scope, parts, float(random.integers(1, 9))))
    if random.random() < 0.5:
        blocks.append(random_rows(random, random_scope(random), 2))
    return blocks[random.integers(2) :]


def pseudo(blocks, asked):
    """Return the variances of dense queries; None if they are no combination of the blocks."""
    strategy = np.vstack([over_cells(block) for block in blocks])
    inverse = np.linalg.pinv(strategy.T @ strategy, rcond=1e-12, hermitian=True)
    if np.abs(asked @ inverse @ strategy.T @ strategy - asked).max(initial=0) > 1e-7:
        return None
    return np.einsum("ij,jk,ik->i", asked, inverse, asked)


@pytest.mark.parametrize("few", [ALWAYS, NEVER])
@settings(deadline=None, max_examples=100)
@given(seed=st.integers(0, 2**32))
def test_sums_of_functions_have_the_variances_that_linear_algebra_gives(few, seed):
    random = np.random.default_rng(seed)
    blocks = random_strategy(random)
    parts = [random_rows(random, random_scope(random), 5) for _ in range(random.integers(1, 4))]
    alone = [pseudo(blocks, over_cells(rows)) for rows in parts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solution, "FEW_ENTRIES", few)
        patch.setattr(solution, "FEW_SINGLE", 0)
        solved = Solution(blocks)
        given_parts = [(rows, rows.matrix) for rows in parts]
        if any(each is None for each in alone):
            with pytest.raises(NotCoveredError):
                solved.sum_variances(given_parts)
            return
        together = pseudo(blocks, sum(over_cells(rows) for rows in parts))
        found = solved.sum_variances(given_parts)
        np.testing.assert_allclose(found, together, rtol=1e-7, atol=1e-9)
        for rows, known in zip(parts, alone, strict=True):
            np.testing.assert_allclose(solved.variances(rows), known, rtol=1e-7, atol=1e-9)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32))
def test_covariances_say_how_estimates_move_when_rows_are_pulled_at(seed):
    random = np.random.default_rng(seed)
    blocks = [Rows(tuple(SIZES), tuple(FINEST), 2.0), *random_strategy(random)]
    tables = [random_rows(random, random_scope(random), 3) for _ in range(2)]
    strategy = np.vstack([over_cells(block) for block in blocks])
    asked = np.vstack([over_cells(rows) for rows in tables])
    known = asked @ np.linalg.inv(strategy.T @ strategy) @ asked.T
    solved = Solution(blocks)
    np.testing.assert_allclose(solved.covariance(tables), known, atol=1e-9)
    pulls = [random.normal(size=rows.count) for rows in tables]
    moved = solved.pulled(tables, pulls)
    answers = np.concatenate([moved.answers(rows) for rows in tables])
    np.testing.assert_allclose(answers, known @ np.concatenate(pulls), atol=1e-9)
    start = solved.estimate([random.normal(size=block.count) for block in blocks])
    both = start.plus(moved)
    for rows in tables:
        sums = start.answers(rows) + moved.answers(rows)
        np.testing.assert_allclose(both.answers(rows), sums, atol=1e-9)


def test_sums_over_products_have_the_variances_that_linear_algebra_gives():
    random = np.random.default_rng(4)
    factors = tuple(
        sparse.csr_array(np.vstack([np.eye(SIZES[c]), np.tri(SIZES[c])[1:3]])) for c in "ab"
    )
    heights = random.integers(1, 5, tuple(f.shape[0] for f in factors))
    grid = Products(("a", "b"), tuple(FINEST[:2]), 0, None, factors, heights)
    blocks = [grid, Rows(("a",), (FINEST[0],), 3.0)]
    parts = [random_rows(random, scope, 6) for scope in (("a",), ("a", "b"), ("b",))]
    known = pseudo(blocks, sum(over_cells(rows) for rows in parts))
    found = ProductSolution(blocks).sum_variances([(rows, rows.matrix) for rows in parts])
    np.testing.assert_allclose(found, known, rtol=1e-6)


def test_groups_of_a_wide_column_are_not_written_out():
    groups = Partition.finest(20_000)
    blocks = [Rows(("g", "v"), (groups, Partition.of_functions(np.arange(9.0)[None])), 1.0)]
    sums = sparse.kron(sparse.eye_array(20_000), [[2.0, 3.0]])
    each = Rows(("g", "v"), blocks[0].parts, 0, sparse.csr_array(sums))
    found = Solution(blocks).variances(each)  # Written out: 6 GB, and minutes.
    np.testing.assert_allclose(found, 13.0)
