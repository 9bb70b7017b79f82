"""A small instance of every benchmark, without timing (that of the census tables is elsewhere)."""

import importlib
import math
import sys
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pytest

from sqlmadp.asked import Asked
from sqlmadp.mechanism import left_out
from sqlmadp.mechanism.catalogue import MECHANISMS
from sqlmadp.mechanism.fairness import expected_errors
from sqlmadp.mechanism.waterfilling import Waterfilling
from sqlmadp.plan import Plan
from sqlmadp.release import release
from sqlmadp.strategy.kronecker import select_kronecker
from sqlmadp.workload.workload import Workload

FOLDER = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def benchmark_of(monkeypatch):
    """Import a benchmark by name, as if it were run where it is."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module
    for name in [n for n, m in sys.modules.items() if _inside(m)]:
        del sys.modules[name]  # The names of benchmarks are no names for tests.


def _inside(module):
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).parent == FOLDER


def test_products_have_less_error_than_cells_for_pairs_of_prefixes(benchmark_of):
    side = 16
    found = select_kronecker(*benchmark_of("large_scopes").prefixes(side))
    assert found.error < (side * (side + 1) / 2) ** 2


def test_ranges_of_two_columns_are_answered_with_less_error_than_from_cells(benchmark_of, tmp_path):
    asked = Asked.bind(Plan.open(benchmark_of("large_scopes").lay_out(tmp_path, 24, 20)))
    shares = [analyst.share for analyst in asked.plan.analysts]
    errors = {}
    for name in ("identity", "utilitarian", "waterfilling"):
        strategy = MECHANISMS[name](asked.columns, None).select(asked.workloads, shares)
        errors[name] = sum(expected_errors(strategy, asked.workloads, asked.plan.epsilon))
    assert errors["utilitarian"] < errors["waterfilling"] < errors["identity"]


def test_marginals_have_no_more_error_than_cells(benchmark_of):
    scale = benchmark_of("marginals_scale")
    for count in (1, 2, 3):
        blocks = scale.ways(6, 2, [count])
        assert len(blocks) == math.comb(6, count)
        assert scale.total_error(Workload.of(blocks)) <= 2 * len(blocks) * 2**6
    assert len(scale.ways(20, 10, [0, 1, 2, 3])) == 1351


def test_analysts_are_left_out_at_once_as_they_would_be_one_by_one(benchmark_of, tmp_path):
    plan = benchmark_of("many_analysts").write(tmp_path, 5, 4)
    asked = Asked.bind(Plan.open(plan))
    workloads, shares = asked.workloads, [Fraction(1, 5)] * 5
    assert workloads[3].fingerprint == workloads[4].fingerprint
    ratios = left_out.interference(Waterfilling(), workloads, shares)
    together = expected_errors(Waterfilling().select(workloads, shares), workloads, Fraction(1))
    others = Waterfilling().select(workloads[1:], shares[1:])
    without = expected_errors(others, workloads[1:], Fraction(4, 5))
    np.testing.assert_allclose(ratios[0, 1:], np.divide(together[1:], without), rtol=1e-9)


def test_three_analysts_are_told_what_duckdb_counts_up_to_noise(benchmark_of, tmp_path):
    three = benchmark_of("three_analysts")
    plan = Plan.open(three.lay_out(tmp_path, 2000))
    exact = three.truth(tmp_path)
    for name, queries in release(plan, None).results().items():
        assert set(queries) == set(three.KEYS)
        for query, result in queries.items():
            squares = three.squared_errors(list(result.rows), exact[name][query], three.KEYS[query])
            # An honest release exceeds ten times its expected error less often than any test fails.
            assert np.sqrt(np.mean(squares)) < 10 * max(
                result.rmse["n" if query != "ranges" else "r0"]
            )


def test_a_release_writes_the_rows_of_every_statement(benchmark_of, tmp_path):
    end_to_end = benchmark_of("end_to_end")
    written = end_to_end.lay_out(tmp_path, 500, 10, "waterfilling")
    end_to_end.direct(tmp_path / "cold.parquet", written)
    end_to_end.released(tmp_path / "cold.toml", tmp_path / "cache")
    assert len(list((tmp_path / "cold").glob("*/*"))) == len(written) == 10
    assert (tmp_path / "warm.toml").exists()
    end_to_end.materialised(tmp_path)


def test_the_engine_of_files_counts_and_releases(benchmark_of, tmp_path, capsys):
    pytest.importorskip("psycopg")
    engines = benchmark_of("engines")
    engines.lay_out(tmp_path, 1000)
    engines.measure("duckdb", "people.parquet", tmp_path, 1)
    assert "whole release" in capsys.readouterr().out
    [[rows]] = duckdb.sql(f"SELECT COUNT(*) FROM '{tmp_path}/people.parquet'").fetchall()
    assert rows == 1000


def test_what_plans_and_releases_cost_is_measured_and_its_growth_judged(benchmark_of, capsys):
    pytest.importorskip("matplotlib")
    growth = benchmark_of("growth")
    found = growth.costs(rows=100, cells=24, statements=2, analysts=2)
    assert all(cost.seconds > 0 and cost.megabytes > 0 for cost in found.values())
    nothing = dict.fromkeys(found, growth.Cost(0.0, 0.0))
    for factor, within in ((2, True), (8, False)):
        curve = [growth.Cost(float(factor**step), 1.0) for step in range(3)]
        curves = dict.fromkeys(found, curve)
        assert growth.keeps_to_what_is_stated("rows", curves, nothing) is within
    assert "stated" in capsys.readouterr().out
