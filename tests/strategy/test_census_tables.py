"""A census with one analyst a table: the instance of benchmarks/sf1.py, without timing."""

import importlib.util
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from sqlmadp.asked import Asked
from sqlmadp.mechanism import agreement
from sqlmadp.mechanism.fairness import expected_errors
from sqlmadp.mechanism.pareto import Pareto
from sqlmadp.mechanism.utilitarian import Utilitarian
from sqlmadp.mechanism.waterfilling import Waterfilling
from sqlmadp.plan import Plan
from sqlmadp.strategy.integer import S
from sqlmadp.strategy.products import select_products
from sqlmadp.workload.workload import stacked

FILE = Path(__file__).parents[2] / "benchmarks" / "sf1.py"


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    spec = importlib.util.spec_from_file_location("sf1", FILE)
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    return Asked.bind(Plan.open(benchmark.write(tmp_path_factory.mktemp("sf1"))))


def test_all_tables_are_asked(asked):
    assert sum(query.rows for own in asked.queries for query in own) == 4151


def test_all_tables_together_have_less_error_than_two_blocks_of_cells(asked):
    # 157,162 is what two identity blocks with the best weights have, at epsilon 1.
    found = select_products(stacked(asked.workloads))
    assert 2 * found.error < 145_000
    assert sum(block.weight for block in found.blocks) == S


def test_a_few_tables_have_the_error_that_was_certified(asked):
    names = {"P3", "P8", "P10", "P11", "P12"}
    chosen = [
        workload
        for analyst, workload in zip(asked.plan.analysts, asked.workloads, strict=True)
        if analyst.name in names
    ]
    strategy = Utilitarian().select(chosen, [Fraction(1, 5)] * 5)
    assert sum(expected_errors(strategy, chosen, Fraction(1))) < 20_000


def test_under_pareto_nobody_is_worse_off_than_poured_and_all_together_are_far_better(
    asked, monkeypatch
):
    monkeypatch.setattr(agreement, "MOVE_ROWS", 1)  # As with all tables, there is no row to search.
    names = {"P1", "P4", "P8", "P12", "P12A"}
    pairs = zip(asked.plan.analysts, asked.workloads, strict=True)
    chosen = [workload for analyst, workload in pairs if analyst.name in names]
    shares = [Fraction(1, 5)] * 5
    poured, ours = (
        np.array(expected_errors(mechanism.select(chosen, shares), chosen, Fraction(1)))
        for mechanism in (Waterfilling(), Pareto())
    )
    assert (ours <= poured).all()
    assert ours.sum() < 0.5 * poured.sum()
