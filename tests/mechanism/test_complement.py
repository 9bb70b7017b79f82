"""Late analysts: what late analysts add to earlier measurements, against brute force over cells."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from quick import quick_first
from scipy import sparse
from small_collectives import SIZES, over_cells, random_collective, random_rows

from sqlmadp.mechanism import mechanism
from sqlmadp.mechanism.collective import Collective
from sqlmadp.mechanism.complement import Added, Complement
from sqlmadp.table.partition import Partition
from sqlmadp.table.products import Products
from sqlmadp.table.rows import Rows


def measured(collective: Collective, epsilon: Fraction) -> list[Rows]:
    """Return the rows of a first release, its noise scaled to variance 1."""
    joint = mechanism("waterfilling").select(collective)
    scale = float(epsilon / joint.total) / np.sqrt(2)
    return [block.times(scale) for block in joint.blocks]


def joined(seed: int) -> tuple[Collective, list[Rows], list[Fraction | None]]:
    """Return everyone, what is known, and what the late analysts (the last ones) bring."""
    everyone = random_collective(seed)
    random = np.random.default_rng(seed + 100)
    there = int(random.integers(1, len(everyone)))
    before = everyone.of(range(there))
    epsilons: list[Fraction | None] = [None] * there
    epsilons += [Fraction(int(random.integers(1, 5)), 3) for _ in range(there, len(everyone))]
    return everyone, measured(before, Fraction(1)), epsilons


def brute_force(known: list[Rows], added: Added | None, brought: Fraction, asked: tuple) -> float:
    """Return a workload's variance over all cells of the table."""
    rows = [over_cells(block) for block in known]
    if added is not None:
        noise = np.sqrt(2) * float(added.strategy.total / brought)
        rows += [over_cells(block) / noise for block in added.strategy.blocks]
    a, w = np.vstack(rows), np.vstack([over_cells(each) for each in asked])
    inverse = np.linalg.pinv(a, rcond=1e-12)
    if np.abs(w @ inverse @ a - w).max() > 1e-6 * np.abs(w).max():
        return np.inf
    return float(((w @ inverse) ** 2).sum())


@pytest.mark.parametrize("seed", quick_first(10, range(30)))
def test_errors_are_those_over_all_cells_and_nobody_is_worse_off(seed: int) -> None:
    everyone, known, epsilons = joined(seed)
    brought = sum((e for e in epsilons if e is not None), Fraction(0))
    complement = Complement(known=known)
    added = complement.select(everyone, epsilons)
    again = complement.errors(added, everyone.workloads, brought)
    before = complement.errors(None, everyone.workloads, brought)
    np.testing.assert_allclose(again, added.errors, rtol=1e-9)
    for n, epsilon in enumerate(epsilons):
        exact = brute_force(known, added, brought, everyone.workloads[n])
        assert added.errors[n] == pytest.approx(exact, rel=1e-8)
        was = brute_force(known, None, brought, everyone.workloads[n])
        assert before[n] == pytest.approx(was, rel=1e-8)
        assert added.errors[n] <= before[n] * (1 + 1e-9)
        if epsilon is not None:  # No worse than alone with what this late analyst brings.
            alone = 2 * everyone.strategies[n].error / float(epsilon) ** 2
            assert added.errors[n] <= alone * (1 + 1e-9)


@pytest.mark.parametrize("seed", quick_first(2, range(8)))
def test_what_is_added_is_whole_and_its_columns_are_uniform(seed: int) -> None:
    everyone, known, epsilons = joined(seed)
    strategy = Complement(known=known).select(everyone, epsilons).strategy
    for block in strategy.blocks:
        assert np.array_equal(block.matrix.data, np.rint(block.matrix.data))
    sums = sum(np.abs(over_cells(block)).sum(axis=0) for block in strategy.blocks)
    np.testing.assert_allclose(sums, strategy.total, rtol=1e-12)
    assert strategy.reads == (tuple(range(len(strategy.blocks))),) * len(everyone)


@pytest.mark.parametrize("seed", quick_first(2, range(8)))
def test_an_empty_history_leaves_nobody_worse_off_than_waterfilling(seed: int) -> None:
    everyone = random_collective(seed)
    added = Complement(known=()).select(everyone, everyone.shares)
    first = mechanism("waterfilling").select(everyone)
    assert (added.errors <= 2 * first.errors * (1 + 1e-9)).all()


def test_what_is_known_already_is_not_measured_again() -> None:
    """One column is known well, the other not at all: all that is added goes to the other."""
    asked = [
        [Rows(("a",), (Partition.finest(SIZES["a"]),), 1.0)],
        [
            Rows(("a",), (Partition.finest(SIZES["a"]),), 1.0),
            Rows(("b",), (Partition.finest(SIZES["b"]),), 1.0),
        ],
    ]
    everyone = Collective(asked, [Fraction(1, 2)] * 2, columns=SIZES)
    known = [Rows(("a",), (Partition.finest(SIZES["a"]),), 1000.0)]
    added = Complement(known=known).select(everyone, [None, Fraction(1)])
    weights = {block.scope: block.matrix.data.max() for block in added.strategy.blocks}
    assert weights[("b",)] > 0.9 * added.strategy.total


def test_a_late_analyst_who_asks_what_is_known_lowers_everybodys_error() -> None:
    random = np.random.default_rng(5)
    asked = random_rows(random)
    everyone = Collective([[asked], [asked]], [Fraction(1, 2)] * 2, columns=SIZES)
    known = measured(everyone.of([0]), Fraction(1))
    added = Complement(known=known).select(everyone, [None, Fraction(1)])
    before = Complement(known=known).errors(None, everyone.workloads, Fraction(1))
    assert (added.errors <= before / 2 * (1 + 1e-9)).all()


def test_late_analysts_can_be_listed_in_any_order() -> None:
    everyone, known, epsilons = joined(7)
    order = list(reversed(range(len(everyone))))
    one = Complement(known=known).select(everyone, epsilons)
    two = Complement(known=known).select(everyone.of(order), [epsilons[n] for n in order])
    np.testing.assert_allclose(one.errors[order], two.errors, rtol=1e-12)


def test_rows_kept_as_factors_can_be_known() -> None:
    parts = (Partition.finest(3), Partition.finest(4))
    factors = tuple(sparse.csr_array(np.vstack([np.eye(n), np.ones(n)])) for n in (3, 4))
    known = [Products(("a", "b"), parts, 0, None, factors, np.full((4, 5), 0.1))]
    asked = [[Rows(("a", "b"), parts, 1.0)], [Rows(("c",), (Partition.finest(2),), 1.0)]]
    everyone = Collective(asked, [Fraction(1, 2)] * 2, columns=SIZES)
    added = Complement(known=known).select(everyone, [None, Fraction(1)])
    for n in range(2):
        exact = brute_force(known, added, Fraction(1), everyone.workloads[n])
        assert added.errors[n] == pytest.approx(exact, rel=1e-6)
