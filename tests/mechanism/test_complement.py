"""What newcomers add is chosen without working anything out twice."""

from fractions import Fraction

import pytest
from small_tables import histogram, total

from sqlmadp.mechanism.complement import Complement, errors_from
from sqlmadp.schema.marginal import CellBlock
from sqlmadp.workload.solver import DenseSolver, solver_for
from sqlmadp.workload.workload import Workload

KNOWN = (CellBlock(histogram("a", "b").marginal, 0.5),)


def test_what_several_analysts_ask_in_the_same_words_is_worked_out_once(monkeypatch):
    workloads = [Workload.of([histogram("a"), total()]), Workload.of([histogram("a")])]
    expected = [errors_from(DenseSolver(KNOWN), [workload])[0] for workload in workloads]
    asked = []
    variances = DenseSolver.variances
    monkeypatch.setattr(
        DenseSolver, "variances", lambda self, block: asked.append(block) or variances(self, block)
    )
    assert errors_from(DenseSolver(KNOWN), workloads) == pytest.approx(expected)
    assert len(asked) == 2


def test_queries_of_other_weights_are_not_taken_for_the_same():
    twice = CellBlock(histogram("a").marginal, 2)
    one, four = errors_from(
        solver_for(KNOWN), [Workload.of([histogram("a")]), Workload.of([twice])]
    )
    assert four == pytest.approx(4 * one)


def test_no_strategy_is_weighed_twice(monkeypatch):
    weighed = []
    solver = Complement._solver
    monkeypatch.setattr(
        Complement,
        "_solver",
        lambda self, strategy, *rest: weighed.append(strategy) or solver(self, strategy, *rest),
    )
    workloads = [Workload.of([histogram("a")]), Workload.of([histogram("b")])]
    choice = Complement(known=KNOWN)
    added = choice.select(workloads, [None, Fraction(1)])
    assert len(weighed) > 2
    assert len({id(strategy) for strategy in weighed}) == len(weighed)
    # And what is stated of the chosen one is what it gives.
    assert added.errors == pytest.approx(choice.errors(added.strategy, workloads, Fraction(1)))
