"""Errors, variances and estimates against brute force over all cells of small random tables.

``SQLMADP_BRUTE_FORCE=3000`` runs that many tables instead of a few hundred.
"""

from __future__ import annotations

import os
from fractions import Fraction

import numpy as np
import pytest
from quick import quick_first
from scipy import sparse

from sqlmadp.errors import NotCoveredError
from sqlmadp.solve.solution import Solution
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows

TABLES = int(os.environ.get("SQLMADP_BRUTE_FORCE", "300"))
SIZES = {"a": 4, "b": 3, "c": 5}
HEAVIEST = (1, 16, 2**10, 2**20, 2**30)
"""Rows of weights from 1 to one of these stand side by side."""


def random_partition(random: np.random.Generator, values: int) -> Partition:
    """Return cells, merged cells, a ramp, a parabola, or ramps within groups."""
    kind = random.integers(5)
    if kind == 0:
        return Partition.finest(values)
    if kind == 1:
        return Partition.flat(random.integers(0, 3, values))
    if kind == 2:
        return Partition.of_functions(np.vstack([np.ones(values), np.arange(values)]) * 1.0)
    if kind == 3:
        steps, degree = np.arange(values) * 7, np.array([2])
        return Partition(np.zeros(values, np.int64), steps, degree, 7 * (values - 1))
    labels = Partition.flat(random.integers(0, 2, values)).pieces
    steps = random.integers(0, 11, values)
    several = [len(np.unique(steps[labels == n])) > 2 for n in range(int(labels.max()) + 1)]
    degrees = np.where(several, 1, 0)
    return Partition(labels, np.where(degrees[labels] > 0, steps, 0), degrees, 10)


def random_rows(random: np.random.Generator, heaviest: int) -> Rows:
    """Return plain or sparse rows on up to three columns, whole numbers, some of them negative."""
    count = int(random.integers(0, 4))
    scope = tuple(sorted(str(c) for c in random.choice(list(SIZES), count, replace=False)))
    parts = tuple(random_partition(random, SIZES[c]) for c in scope)
    size = int(np.prod([part.size for part in parts]))
    weight = int(random.integers(1, heaviest, endpoint=True))
    if random.random() < 0.4:
        return Rows(scope, parts, weight)
    rows = int(random.integers(0, 4))
    matrix = random.integers(-2, 3, (rows, size)) * (random.random((rows, size)) < 0.6)
    return Rows(scope, parts, 0, sparse.csr_array(matrix.astype(np.int64) * weight))


def exactly(rows: Rows, sizes: dict[str, int] = SIZES) -> list[list[Fraction]]:
    """Return rows over all cells of the table."""
    own = dict(zip(rows.scope, rows.parts, strict=True))
    table = [[Fraction(1)]]
    for column, values in sizes.items():
        if column in own:
            part = own[column]
            dense = part.numerators.toarray().tolist()
            factor = [[Fraction(int(n), part.denominator) for n in row] for row in dense]
        else:
            factor = [[Fraction(1)] * values]
        table = [[x * y for x in one for y in two] for one in table for two in factor]
    dense = rows.matrix.toarray().astype(np.int64).tolist()
    cells = len(table[0])
    return [
        [
            sum((c * v[k] for c, v in zip(row, table, strict=True) if c), Fraction(0))
            for k in range(cells)
        ]
        for row in dense
    ]


def over_cells(rows: Rows, sizes: dict[str, int] = SIZES) -> np.ndarray:
    found = np.array([[float(x) for x in row] for row in exactly(rows, sizes)])
    return found.reshape(-1, int(np.prod(list(sizes.values()))))


def brute_force(blocks: list[Rows], query: np.ndarray, sizes: dict[str, int] = SIZES) -> np.ndarray:
    """Return the variance of every row of a query, infinite where it is not answered."""
    a = np.vstack([over_cells(block, sizes) for block in blocks])
    # Scaled to length 1, so that light rows are no rounding beside heavy ones.
    lengths = np.linalg.norm(a, axis=1)
    a, lengths = a[lengths > 0], lengths[lengths > 0]
    inverse = np.linalg.pinv(a.T @ a, rcond=1e-11, hermitian=True) if len(a) else None
    if inverse is None:
        return np.where(query.any(axis=1), np.inf, 0.0)
    found = np.einsum("ij,jk,ik->i", query, inverse, query)
    inside = query @ inverse @ (a.T @ a)
    scale = np.abs(query).max(axis=1) + 1e-300
    return np.where(np.abs(inside - query).max(axis=1) > 1e-6 * scale, np.inf, found)


@pytest.mark.parametrize("batch", quick_first(2, range(10)))
def test_errors_and_variances_are_those_over_all_cells(batch: int) -> None:
    for seed in range(batch, TABLES, 10):
        random = np.random.default_rng([17, seed])
        heaviest = HEAVIEST[seed % 3]
        blocks = [random_rows(random, heaviest) for _ in range(random.integers(1, 5))]
        asked = [random_rows(random, 3) for _ in range(random.integers(0, 4))]
        solution = Solution(blocks)
        queries = [over_cells(rows) for rows in asked]
        exact = [brute_force(blocks, query) for query in queries]
        [error] = solution.errors([asked])
        total = sum(float(each.sum()) for each in exact)
        assert error == pytest.approx(total, rel=1e-9, abs=1e-12), seed
        for rows, each in zip(asked, exact, strict=True):
            if np.isfinite(each).all():
                np.testing.assert_allclose(
                    solution.variances(rows), each, rtol=1e-9, atol=1e-12, err_msg=str(seed)
                )
            else:
                with pytest.raises(NotCoveredError):
                    solution.variances(rows)


RANGES = {"a": 25, "b": 2}


def ranges_and_others(random: np.random.Generator, *, asked: bool) -> Rows:
    """Return rows over many ranges of a column, as for a quantile, or over a ramp or a parabola."""
    ranges = Partition.flat(np.arange(25) // 2)
    ramp = Partition.of_functions(np.vstack([np.ones(25), np.arange(25)]) * 1.0)
    parabola = Partition(np.zeros(25, np.int64), np.arange(25) * 7, np.array([2]), 7 * 24)
    both = Partition(np.arange(25) // 2, np.arange(25) % 2, np.array([1] * 12 + [0]), 1)
    parts = [ranges, ranges, ramp, parabola, Partition.flat(np.arange(25) // 10)]
    part = [*parts, both, Partition.flat(np.arange(25) // 6)][random.integers(7 if asked else 5)]
    scope, own = (
        (("a", "b"), (part, Partition.finest(2))) if random.random() < 0.5 else (("a",), (part,))
    )
    size = int(np.prod([each.size for each in own]))
    if not asked or random.random() < 0.3:
        alone = random.random() < 0.8
        given = random.integers(0, 3, size) * (random.random(size) < 0.1)
        return Rows(
            scope,
            own,
            3,
            None if alone else sparse.csr_array(3 * np.eye(size, dtype=int) + np.diag(given)),
        )
    matrix = random.integers(-2, 3, (2, size)) * (random.random((2, size)) < 0.4)
    if part is both and random.random() < 0.7:  # The same at both ends: a function of the ranges.
        ends = np.repeat(np.arange(13), [*[2] * 12, 1])
        matrix = random.integers(-2, 3, (2, 13))[:, ends]
        scope, own = ("a",), (part,)
    return Rows(scope, own, 0, sparse.csr_array(matrix.astype(np.int64)))


@pytest.mark.parametrize("seed", quick_first(20, range(200)))
def test_ranges_beside_sums_of_the_same_column_are_solved_as_over_all_cells(seed: int) -> None:
    random = np.random.default_rng([20, seed])
    ranges = Rows(("a",), (Partition.flat(np.arange(25) // 2),), 2)
    blocks = [
        ranges,
        *(ranges_and_others(random, asked=False) for _ in range(random.integers(1, 4))),
    ]
    asked = [ranges_and_others(random, asked=True) for _ in range(3)]
    solution = Solution(blocks)
    for rows in asked:
        exact = brute_force(blocks, over_cells(rows, RANGES), RANGES)
        [error] = solution.errors([[rows]])
        assert error == pytest.approx(float(exact.sum()), rel=1e-9, abs=1e-12)
        if np.isfinite(exact).all():
            np.testing.assert_allclose(solution.variances(rows), exact, rtol=1e-9, atol=1e-12)
        else:
            with pytest.raises(NotCoveredError):
                solution.variances(rows)
    counts = random.integers(0, 1000, 50).astype(float)
    estimate = solution.estimate([over_cells(block, RANGES) @ counts for block in blocks])
    for block in blocks:
        truth = over_cells(block, RANGES) @ counts
        np.testing.assert_allclose(estimate.answers(block), truth, rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("batch", quick_first(1, range(5)))
def test_estimates_of_exact_answers_are_exact(batch: int) -> None:
    """Whatever is answered at all is answered by the true counts where there is no noise."""
    for seed in range(batch, TABLES // 2, 5):
        random = np.random.default_rng([18, seed])
        blocks = [random_rows(random, 50) for _ in range(random.integers(1, 5))]
        counts = random.integers(0, 1000, int(np.prod(list(SIZES.values())))).astype(float)
        estimate = Solution(blocks).estimate([over_cells(block) @ counts for block in blocks])
        for block in blocks:
            truth = over_cells(block) @ counts
            np.testing.assert_allclose(
                estimate.answers(block),
                truth,
                rtol=1e-9,
                atol=1e-6 * (1 + np.abs(truth).max(initial=0)),
            )


def exact_variance(blocks: list[Rows], query: list[Fraction]) -> Fraction | None:
    """Return ``w X^- w^T`` in rational numbers; None if the query is not answered."""
    rows = [row for block in blocks for row in exactly(block)]
    cells = len(query)
    table = [
        [sum((row[i] * row[j] for row in rows), Fraction(0)) for j in range(cells)] + [query[i]]
        for i in range(cells)
    ]
    pivots: list[tuple[int, int]] = []
    at = 0
    for column in range(cells):
        pivot = next((r for r in range(at, cells) if table[r][column]), None)
        if pivot is None:
            continue
        table[at], table[pivot] = table[pivot], table[at]
        head = table[at][column]
        table[at] = [x / head for x in table[at]]
        for r in range(cells):
            if r != at and table[r][column]:
                factor = table[r][column]
                table[r] = [x - factor * y for x, y in zip(table[r], table[at], strict=True)]
        pivots.append((at, column))
        at += 1
    if any(table[r][-1] for r in range(at, cells)):
        return None
    return sum((table[r][-1] * query[c] for r, c in pivots), Fraction(0))


@pytest.mark.parametrize("seed", quick_first(2, range(12)))
def test_weights_of_1_work_with_weights_of_2_to_the_30(seed: int) -> None:
    random = np.random.default_rng([19, seed])
    blocks = [random_rows(random, HEAVIEST[n % len(HEAVIEST)]) for n in range(1, 5)]
    solution = Solution(blocks)
    for rows in (random_rows(random, 3) for _ in range(2)):
        exact = [exact_variance(blocks, row) for row in exactly(rows)]
        if any(each is None for each in exact):
            continue
        np.testing.assert_allclose(
            solution.variances(rows), [float(each or 0) for each in exact], rtol=1e-9, atol=0
        )


def test_one_more_measurement_never_raises_an_error_however_wide_the_column() -> None:
    """Ranges of a quantile, a sum and squares of one wide column: functions nearly coincide."""
    values = 2_000_002  # The last one is NULL.
    cents = np.minimum(np.arange(values), 2_000_000)
    null = np.arange(values) == values - 1
    ramp = Partition(np.zeros(values, np.int64), np.where(null, 0, cents), np.array([1]), 2_000_000)
    squares = Partition(np.where(null, 1, 0), np.where(null, 0, cents), np.array([2, 0]), 2_000_000)
    width = 3907
    piece = np.where(null, 512, cents // width)
    steps = np.where(null, 0, cents % width)
    ranges = Partition(piece, steps, np.array([1] * 512 + [0]), width - 1)
    months, wards, ages = (Partition.finest(n) for n in (13, 9, 4))
    quarters = Partition.flat(np.arange(13) // 3)
    blocks = [
        Rows(("admitted", "cost"), (months, ramp), 2_469_888),
        Rows(("admitted", "cost", "ward"), (quarters, ramp, wards), 1_949_696),
        Rows(("admitted",), (months,), 48_881),
        Rows(("cost", "ward"), (ranges, wards), 4_460_544),
        Rows(("age", "cost"), (ages, squares), 1_277_952),
    ]
    asked = [Rows(("admitted",), (months,), 1), Rows(("cost",), (ramp,), 1)]
    errors = [Solution(blocks[:count]).errors([asked])[0] for count in range(1, len(blocks) + 1)]
    assert np.isfinite(errors).all()
    assert (np.diff(errors) <= 1e-9 * errors[0]).all()
