"""What every mechanism keeps to, on small random workloads with ramps."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from quick import quick_first
from scipy import sparse
from small_collectives import over_cells, random_collective

from sqlmadp.errors import ProgrammingError
from sqlmadp.experiment.compare import compare
from sqlmadp.mechanism import MECHANISMS, Mechanism, mechanism, registered
from sqlmadp.mechanism.base import unregistered
from sqlmadp.mechanism.collective import Collective, Joint
from sqlmadp.mechanism.fairness import outcome
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows

SEEDS = quick_first(2, range(4))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", list(MECHANISMS))
def test_errors_are_those_of_the_integers_over_all_cells(name: str, seed: int) -> None:
    collective = random_collective(seed)
    joint = mechanism(name).select(collective)
    for n, workload in enumerate(collective.workloads):
        for block in joint.read_by(n):
            assert np.array_equal(block.matrix.data, np.rint(block.matrix.data))
        a = np.vstack([over_cells(block) for block in joint.read_by(n)])
        w = np.vstack([over_cells(rows) for rows in workload])
        inverse = np.linalg.pinv(a, rcond=1e-12)
        np.testing.assert_allclose(w @ inverse @ a, w, atol=1e-6 * np.abs(w).max())
        error = float(joint.total / collective.whole) ** 2 * float(((w @ inverse) ** 2).sum())
        assert joint.errors[n] == pytest.approx(error, rel=1e-8)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", list(MECHANISMS))
def test_every_column_sums_to_exactly_the_total(name: str, seed: int) -> None:
    joint = mechanism(name).select(random_collective(seed))
    sums = sum(np.abs(over_cells(block)).sum(axis=0) for block in joint.blocks)
    np.testing.assert_allclose(sums, joint.total, rtol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", [name for name, each in MECHANISMS.items() if not each.ordered])
def test_the_order_of_analysts_does_not_matter(name: str, seed: int) -> None:
    collective = random_collective(seed)
    order = list(reversed(range(len(collective))))
    one, two = mechanism(name).select(collective), mechanism(name).select(collective.of(order))
    assert one.errors[order].tolist() == two.errors.tolist()
    assert [b.fingerprint for b in one.blocks] == [b.fingerprint for b in two.blocks] or (
        sorted(b.fingerprint for b in one.blocks) == sorted(b.fingerprint for b in two.blocks)
    )


@pytest.mark.parametrize("seed", quick_first(8, range(24)))
def test_waterfilling_harms_nobody_at_tolerance_0(seed: int) -> None:
    found = outcome(mechanism("waterfilling"), random_collective(seed), Fraction(1))
    assert found.sharing_ratio <= 1 + 1e-9
    assert found.worst_interference <= 1 + 1e-9


@pytest.mark.parametrize("seed", SEEDS)
def test_waterfillings_interference_is_that_of_pouring_anew(seed: int) -> None:
    collective = random_collective(seed)
    quick = mechanism("waterfilling").interference(collective)
    assert quick is not None
    together = mechanism("waterfilling").select(collective).errors
    for i in range(len(collective)):
        others = [j for j in range(len(collective)) if j != i]
        anew = mechanism("waterfilling").select(collective.without(i)).errors
        np.testing.assert_allclose(quick[i, others], together[others] / anew, rtol=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_nobody_is_above_waterfilling_under_pareto(seed: int) -> None:
    collective = random_collective(seed)
    found = outcome(mechanism("pareto"), collective, Fraction(1))
    assert (found.strategy.errors <= collective.poured.errors * (1 + 1e-9)).all()
    assert found.worst_interference_within_agreement <= 1 + 1e-9
    assert found.sharing_ratio <= 1 + 1e-9


@pytest.mark.parametrize("seed", SEEDS)
def test_nobody_already_in_does_worse_after_a_join_under_ratchet(seed: int) -> None:
    collective = random_collective(seed)
    joins = MECHANISMS["ratchet"]().joins(collective)  # type: ignore[attr-defined]
    for earlier, later in itertools.pairwise(joins):
        assert (later.errors[: len(earlier.errors)] <= earlier.errors * (1 + 1e-9)).all()
    assert (joins[-1].errors <= collective.alone * (1 + 1e-9)).all()


def test_only_ratchet_is_ordered() -> None:
    assert [name for name, each in MECHANISMS.items() if each.ordered] == ["ratchet"]


def test_a_toy_mechanism_appears_wherever_mechanisms_are_listed() -> None:
    @registered
    @dataclass(frozen=True, kw_only=True)
    class First(Mechanism):
        """Measure what the first analyst would, for everyone."""

        name = "first"
        promise = "nothing"
        ordered = True

        def _choose(self, collective: Collective) -> Joint:
            own = collective.strategies[0]
            return collective.read_by_all(own.blocks, own.total)

    try:
        found = compare([np.eye(3), np.ones((1, 3))], epsilon=1)
        assert found["first"].errors[1] == pytest.approx(6.0)
        with pytest.raises(ProgrammingError, match="first"):
            mechanism("second")
    finally:
        unregistered("first")
    assert "first" not in compare([np.eye(3)], epsilon=1)


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(ProgrammingError, match="tolerance"):
        mechanism("waterfilling", tolerence=0.1)


def test_rows_are_scaled_by_the_root_of_the_weight_in_weighted_utilitarian() -> None:
    # Errors alone are 4 (one cell of two shares) and 16: at the root, both count the same.
    found = compare([np.eye(4), 10 * np.eye(4)], epsilon=1, mechanisms=["weighted_utilitarian"])
    assert found["weighted_utilitarian"].ratios == pytest.approx((0.25, 0.25))


def test_importance_moves_the_error_of_utilitarian() -> None:
    one = Rows.reduced(("a",), [Partition.finest(3)], sparse.csr_array(np.eye(3)))
    two = Rows.reduced(("b",), [Partition.finest(4)], sparse.csr_array(np.eye(4)))
    shares = [Fraction(1, 2)] * 2
    even = mechanism("utilitarian").select(Collective([[one], [two]], shares))
    tilted = mechanism("utilitarian").select(
        Collective([[one], [two]], shares, importance=[10.0, 1.0])
    )
    assert tilted.errors[0] < even.errors[0]
    assert tilted.errors[1] > even.errors[1]
