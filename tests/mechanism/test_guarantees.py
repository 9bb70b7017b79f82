"""What is promised of single questions, and that nothing is gained by asking more or as two."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from quick import quick_first
from scipy import sparse
from small_collectives import random_collective

from sqlmadp.mechanism import MECHANISMS, mechanism
from sqlmadp.mechanism.collective import Collective, Joint
from sqlmadp.mechanism.complement import Complement
from sqlmadp.solve.products import solution_of
from sqlmadp.strategy.select import CAP_ROOM
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows
from sqlmadp.workload.questions import Question, Workload

SIZES = {"city": 4, "sex": 2, "balance": 41}
BALANCE = np.arange(-20.0, 21.0)
"""Sums of it cross zero."""


def question(random: np.random.Generator) -> Question:
    """Return a count, a sum of a column that crosses zero, or an average's pieces, by group."""
    groups = random.choice(["city", "sex"], random.integers(0, 3))
    scope = tuple(sorted({"balance", *map(str, groups)}))
    kind = random.integers(4)
    functions = [np.ones(41), BALANCE, (random.integers(-20, 20) < BALANCE).astype(float)]
    chosen = [[functions[0]], [functions[1]], [functions[0], functions[1]], [functions[2]]][kind]
    pieces = []
    for function in chosen:
        matrix = np.ones((1, 1))
        for column in scope:
            own = function[None, :] if column == "balance" else np.eye(SIZES[column])
            matrix = np.kron(matrix, own)
        parts = [Partition.finest(SIZES[column]) for column in scope]
        pieces.append(Rows.reduced(scope, parts, sparse.csr_array(matrix)))
    return Question(tuple(pieces), Fraction(int(random.integers(1, 4))))


def collective_of(asked: list[list[Question]], shares: list[Fraction]) -> Collective:
    """Return analysts whose errors are in units of their questions."""
    return Collective.asking([Workload.of(own) for own in asked], shares, columns=SIZES)


def random_analysts(seed: int) -> tuple[list[list[Question]], list[Fraction]]:
    random = np.random.default_rng([22, seed])
    count = int(random.integers(2, 4))
    asked = [[question(random) for _ in range(random.integers(1, 5))] for _ in range(count)]
    parts = [int(random.integers(1, 4)) for _ in range(count)]
    return asked, [Fraction(part, sum(parts)) for part in parts]


def factors(collective: Collective, joint: Joint) -> np.ndarray:
    """Return the variance of every question beside that of the naive answer to it."""
    found = []
    for n, (capped, share) in enumerate(zip(collective.capped, collective.shares, strict=True)):
        errors = solution_of(joint.read_by(n)).errors(capped.parts)
        scale = float(joint.total / collective.whole * share) ** 2
        found += (scale * errors / np.array(capped.caps)).tolist()
    return np.array(found)


@pytest.mark.parametrize("seed", quick_first(6, range(20)))
def test_no_question_is_worse_than_the_naive_answer_alone(seed: int) -> None:
    asked, shares = random_analysts(seed)
    collective = collective_of(asked, shares)
    for own, capped in zip(collective.strategies, collective.capped, strict=True):
        errors = float(own.total) ** 2 * solution_of(own.blocks).errors(capped.parts)
        assert (errors <= np.array(capped.caps) * (1 + CAP_ROOM)).all()


@pytest.mark.parametrize("seed", quick_first(2, range(8)))
@pytest.mark.parametrize("name", ["independent", "waterfilling", "pareto", "ratchet"])
def test_no_question_of_anybody_is_worse_than_the_naive_answer(name: str, seed: int) -> None:
    collective = collective_of(*random_analysts(seed))
    joint = mechanism(name).select(collective)
    assert factors(collective, joint).max() <= 1 + CAP_ROOM * 1.001


@pytest.mark.parametrize("seed", quick_first(3, range(6)))
def test_no_question_of_a_late_analyst_is_worse_than_the_naive_answer(seed: int) -> None:
    asked, shares = random_analysts(seed)
    everyone = collective_of(asked, shares)
    first = mechanism("waterfilling").select(everyone.of([0]))
    known = [b.times(float(shares[0]) / first.total / np.sqrt(2)) for b in first.blocks]
    epsilons = [None, *shares[1:]]
    added = Complement(known=known).select(everyone, epsilons).strategy
    brought = float(sum(shares[1:])) / added.total / np.sqrt(2)
    solution = solution_of([*known, *(block.times(brought) for block in added.blocks)])
    for capped, share in zip(everyone.capped[1:], shares[1:], strict=True):
        relative = solution.errors(capped.parts) * float(share) ** 2 / 2
        assert (relative <= np.array(capped.caps) * (1 + CAP_ROOM * 1.001)).all()


@pytest.mark.parametrize("seed", quick_first(1, range(3)))
@pytest.mark.parametrize("name", [n for n in MECHANISMS if n != "identity"])
def test_repeating_questions_gains_nothing(name: str, seed: int) -> None:
    asked, shares = random_analysts(seed)
    once = mechanism(name).select(collective_of(asked, shares))
    repeated = [asked[0] * 4, *asked[1:]]
    again = mechanism(name).select(collective_of(repeated, shares))
    assert again.errors.tolist() == once.errors.tolist()


@given(
    arrays(np.float64, st.tuples(st.integers(1, 4), st.just(5)), elements=st.floats(-2, 2)),
    st.integers(2, 5),
)
@settings(max_examples=25, deadline=None)
def test_repeating_a_matrix_changes_no_bit_of_the_own_selection(
    wanted: np.ndarray, times: int
) -> None:
    wanted[0, 0] += not wanted.any()
    other, shares = np.tril(np.ones((5, 5))), [Fraction(1, 3), Fraction(2, 3)]
    once, again = (
        Collective([over_one_column(matrix), over_one_column(other)], shares)
        for matrix in (wanted, np.vstack([wanted] * times))
    )
    for one, two in zip(once.strategies, again.strategies, strict=True):
        assert [b.fingerprint for b in one.blocks] == [b.fingerprint for b in two.blocks]
    one, two = (mechanism("waterfilling").select(each).errors for each in (once, again))
    np.testing.assert_allclose(two, [times * one[0], one[1]], rtol=1e-12)


def over_one_column(matrix: np.ndarray) -> list[Rows]:
    finest = [Partition.finest(matrix.shape[1])]
    return [Rows.reduced(("cell",), finest, sparse.csr_array(matrix))]


@pytest.mark.parametrize("seed", quick_first(3, range(10)))
def test_splitting_into_two_analysts_gains_nothing_under_waterfilling(seed: int) -> None:
    plain = random_collective(seed)
    halves = [plain.shares[0] / 2] * 2
    split = Collective(
        [plain.workloads[0], *plain.workloads], [*halves, *plain.shares[1:]], columns=plain.columns
    )
    one = mechanism("waterfilling").select(plain).errors
    two = mechanism("waterfilling").select(split).errors
    np.testing.assert_allclose(two, [one[0], *one], rtol=1e-9)


@pytest.mark.parametrize("seed", quick_first(6, range(20)))
def test_ratchet_joining_analysts_do_no_worse_than_alone_and_nobody_ever_worse(seed: int) -> None:
    collective = random_collective(seed)
    joins = mechanism("ratchet").joins(collective)
    for k, joint in enumerate(joins):
        assert joint.errors[k] <= collective.alone[k] * (1 + 1e-9)
        if k:
            assert (joint.errors[:k] <= joins[k - 1].errors * (1 + 1e-9)).all()
