"""Joint columns against brute force over all cells of their declared columns."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from sqlmadp.solve.products import ProductSolution
from sqlmadp.solve.solution import Solution
from sqlmadp.table.joint import (
    components,
    declared,
    disjoint,
    is_joint,
    joined,
    joint_name,
    realised,
)
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows

SIZES = {"a": 4, "b": 3, "c": 5, "d": 2}
NAMES = {pair: joint_name(pair, [SIZES[c] for c in pair]) for pair in (("a", "c"), ("b", "d"))}


def cells(rows: Rows) -> np.ndarray:
    """Return rows over all cells of the table, from the meaning of their columns' values."""
    places = dict(
        zip(SIZES, np.indices(tuple(SIZES.values())).reshape(len(SIZES), -1), strict=True)
    )
    lifted = np.ones((1, len(places["a"])))
    for column, part in zip(rows.scope, rows.parts, strict=True):
        value = np.zeros_like(places["a"])
        for name in components(column):
            value = value * SIZES[name] + places[name]
        own = part.functions.toarray()[:, value]
        lifted = (lifted[:, None, :] * own[None, :, :]).reshape(-1, lifted.shape[1])
    return np.asarray(rows.matrix @ lifted)


def random_rows(random: np.random.Generator, columns: list[str]) -> Rows:
    """Return plain or sparse rows over joint and declared columns; ramps in declared ones only."""
    scope = tuple(sorted(columns))
    parts = []
    for column in scope:
        values = int(np.prod([SIZES[name] for name in components(column)]))
        flat = Partition.flat(random.integers(0, 3, values))
        ramp = Partition.of_functions(np.vstack([np.ones(values), np.arange(values)]) * 1.0)
        parts.append(ramp if not is_joint(column) and random.random() < 0.5 else flat)
    size = int(np.prod([part.size for part in parts]))
    if random.random() < 0.4:
        return Rows(scope, tuple(parts), int(random.integers(1, 9)))
    matrix = random.integers(-2, 3, (int(random.integers(1, 4)), size))
    return Rows(scope, tuple(parts), 0, sparse.csr_array(matrix.astype(np.int64)))


def scopes(random: np.random.Generator) -> list[str]:
    """Return columns of which at least one is joint, and none is there twice."""
    first, second = NAMES.values()
    choices = [[first], [first, "b"], [first, "b", "d"], [first, second], ["a", second], [second]]
    return list(choices[random.integers(len(choices))])


@pytest.mark.parametrize("seed", range(60))
def test_realised_rows_are_the_same_functions_and_lead_back(seed):
    random = np.random.default_rng(seed)
    rows = random_rows(random, scopes(random))
    measured = realised(rows)
    assert measured.scope == declared(rows.scope)
    assert measured.matrix.dtype == np.int64
    np.testing.assert_allclose(cells(measured), cells(rows), atol=1e-12)
    again = joined(measured, [components(column) for column in rows.scope])
    assert again.scope == rows.scope
    assert again.size <= rows.size
    np.testing.assert_allclose(cells(again), cells(rows), atol=1e-12)


def test_every_vertex_of_a_joint_column_alone_is_recognised_again():
    labels = np.less.outer(np.arange(4), np.arange(5)).reshape(-1)
    rows = Rows(("a\x1e4\x1fc\x1e5", "b"), (Partition.flat(labels), Partition.finest(3)), 7)
    again = joined(realised(rows), [components(column) for column in rows.scope])
    assert again.plain
    assert again.fingerprint == rows.fingerprint


@pytest.mark.parametrize("seed", range(60))
def test_variances_and_answers_are_those_over_all_cells_where_only_joint_rows_are_measured(seed):
    random = np.random.default_rng(100 + seed)
    scope = scopes(random)
    blocks = [random_rows(random, scope) for _ in range(3)]
    asked = Rows.of(scope=blocks[0].scope, parts=blocks[0].parts, matrix=blocks[0].matrix * 2)
    strategy = np.vstack([cells(block) for block in blocks])
    expected = ((cells(asked) @ np.linalg.pinv(strategy)) ** 2).sum(axis=1)
    solution = Solution(blocks)
    np.testing.assert_allclose(solution.variances(asked), expected, rtol=1e-8, atol=1e-10)
    table = random.integers(0, 50, strategy.shape[1])
    estimate = solution.estimate([cells(block) @ table for block in blocks])
    np.testing.assert_allclose(estimate.answers(asked), cells(asked) @ table, rtol=1e-7, atol=1e-6)


@pytest.mark.parametrize("seed", range(40))
def test_answers_are_unbiased_and_no_better_than_is_claimed(seed):
    random = np.random.default_rng(200 + seed)
    [name, _] = NAMES.values()
    blocks = [
        random_rows(random, [name]),
        random_rows(random, ["a", "b"]),
        random_rows(random, ["c"]),
    ]
    strategy = np.vstack([cells(block) for block in blocks])
    solution = Solution(blocks)
    table = random.integers(0, 50, strategy.shape[1])
    estimate = solution.estimate([cells(block) @ table for block in blocks])
    for asked in blocks:
        best = ((cells(asked) @ np.linalg.pinv(strategy)) ** 2).sum(axis=1)
        assert (solution.variances(asked) >= best * (1 - 1e-9) - 1e-12).all()
        answers = estimate.answers(asked)
        np.testing.assert_allclose(answers, cells(asked) @ table, rtol=1e-7, atol=1e-6)


@pytest.mark.parametrize("solver", [Solution, ProductSolution])
def test_what_nobody_measured_jointly_is_answered_from_declared_columns(solver):
    random = np.random.default_rng(5)
    asked = random_rows(random, [NAMES["a", "c"], "b"])
    finest = Rows(("a", "b", "c"), tuple(Partition.finest(SIZES[c]) for c in "abc"), 3)
    solution = solver([finest])
    squares = (cells(asked) ** 2).sum(axis=1) / SIZES["d"] / 9
    np.testing.assert_allclose(solution.variances(asked), squares)
    table = random.integers(0, 50, 120)
    answers = solution.estimate([cells(finest) @ table]).answers(asked)
    np.testing.assert_allclose(answers, cells(asked) @ table)
    np.testing.assert_allclose(solution.errors([[asked]]), [squares.sum()])


def test_a_scope_has_no_declared_column_twice():
    first, second = NAMES.values()
    assert disjoint([first, second])
    assert not disjoint([first, "a"])
    assert not disjoint([first, joint_name(("a", "b"), (4, 3))])
