"""A small instance of every benchmark, without timing (that of the census tables is elsewhere)."""

import importlib
import itertools
import json
import math
import re
import sys
import time
import tomllib
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pytest

from sqlmadp import compare
from sqlmadp.experiment.instances import Settings, instance
from sqlmadp.mechanism import MECHANISMS, mechanism

FOLDER = Path(__file__).parent.parent / "benchmarks"

pytestmark = pytest.mark.slow


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
    found = benchmark_of("large_scopes").pairs_error(side)
    assert found < 2 * (side * (side + 1) / 2) ** 2


def total_errors(benchmark_of, folder, names):
    """Return mechanisms' total errors of two analysts' ranges of two columns."""
    plan = benchmark_of("large_scopes").lay_out(folder, 24, 20)
    everyone = benchmark_of("people").collective(plan)
    return [mechanism(name).select(everyone).errors.sum() for name in names]


def test_ranges_of_two_columns_are_answered_with_less_error_than_from_cells(benchmark_of, tmp_path):
    utilitarian, cells = total_errors(benchmark_of, tmp_path, ("utilitarian", "identity"))
    assert utilitarian < cells


def test_ranges_that_are_poured_have_less_error_than_cells(benchmark_of, tmp_path):
    poured, cells = total_errors(benchmark_of, tmp_path, ("waterfilling", "identity"))
    assert poured < cells


def test_marginals_have_no_more_error_than_cells(benchmark_of):
    scale = benchmark_of("marginals_scale")
    for count in (1, 2, 3):
        blocks = scale.ways(6, 2, [count])
        assert len(blocks) == math.comb(6, count)
        assert scale.total_error(blocks) <= 2 * len(blocks) * 2**6
    assert len(scale.ways(20, 10, [0, 1, 2, 3])) == 1351


def test_analysts_are_left_out_at_once_as_they_would_be_one_by_one(benchmark_of, tmp_path):
    plan = benchmark_of("many_analysts").write(tmp_path, 5, 4)
    everyone = benchmark_of("people").collective(plan)
    assert everyone.shares == [Fraction(1, 5)] * 5
    assert everyone.kinds[3] == everyone.kinds[4]
    waterfilling = mechanism("waterfilling")
    ratios = waterfilling.interference(everyone)
    together = waterfilling.select(everyone).errors
    without = waterfilling.select(everyone.without(0)).errors
    np.testing.assert_allclose(ratios[0, 1:], together[1:] / without, rtol=1e-9)


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


def test_every_command_of_an_everyday_plan_is_measured_and_what_is_refused_left_out(
    benchmark_of, tmp_path, capsys
):
    everyday, layout = benchmark_of("everyday"), benchmark_of("everyday_layout")
    asked = layout.survey(columns=4)
    first = next(iter(asked.analysts))
    asked.analysts[first]["oldest"] = "SELECT MAX(q01) FROM survey"
    limits = everyday.Limits(seconds=1000)
    found = everyday.measured(asked, tmp_path, limits) | {"limits": asdict(limits)}
    assert found["statements"] == 9
    assert found["refused"] == {first: {"oldest": "min-max"}}
    assert list(found["commands"]) == [*everyday.COMMANDS, "DuckDB"]
    ended = {name: cost["code"] for name, cost in found["commands"].items()}
    assert ended == dict.fromkeys(ended, 0) | {"check": 1}
    assert set(found["errors"]) == set(MECHANISMS)
    compared = [name for own in found["factors"].values() for name in own]
    assert sorted(compared) == ["q01", "q01_more", "q02", "q02_more", "q03", "q04", "q04_more"]
    everyday.show({"survey": found})
    everyday.compare({"survey": found}, {"survey": found})
    assert capsys.readouterr().out.count("1 min-max") == 1


def test_a_command_and_what_it_starts_are_stopped_at_the_limits(benchmark_of, tmp_path):
    everyday = benchmark_of("everyday")

    def ended(script, **limits):
        return everyday.run(["-c", script], tmp_path, "none", everyday.Limits(**limits))

    assert ended("print(1)", seconds=100).output == "1\n"
    assert ended("while True: pass", seconds=0.2).over == "time"
    assert ended("import time; x = b'1' * 10**9; time.sleep(1000)", megabytes=500).over == "memory"
    started = tmp_path / "started"
    worker = f"import os; open({str(started)!r}, 'w').write(str(os.getpid()))\nwhile True: pass"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {worker!r}]"
    assert ended(f"{child}, start_new_session=True)", seconds=1).over == "time"
    process = Path("/proc", started.read_text())
    while process.exists() and process.joinpath("stat").read_text().split()[2] != "Z":
        time.sleep(0.01)  # It is killed, and waits for whoever adopted it.


def test_the_statements_of_everyday_plans_run_on_their_tables(benchmark_of, tmp_path, capsys):
    everyday, layout = benchmark_of("everyday"), benchmark_of("everyday_layout")
    for name, make in layout.PLANS.items():
        plan = make()
        few = re.sub(r"range\(\d+\)", "range(50)", plan.table)
        plan = layout.Everyday(plan.schema, few, plan.analysts)
        plan.write(tmp_path / name)
        plan.write_table(tmp_path / name)
        everyday.direct(tmp_path / name)
        schema = tomllib.loads(plan.schema)
        unit = {schema.get("unit", {}).get(key) for key in ("column", "key")} - {None}
        made = duckdb.sql(f"FROM '{tmp_path / name}/table.parquet'").columns
        assert set(made) == set(schema["columns"]) | unit
    assert len(capsys.readouterr().out.splitlines()) == len(layout.PLANS) >= 10


def test_the_naive_variance_splits_a_share_over_statements_sums_and_grouping_sets(benchmark_of):
    naive = benchmark_of("naive_laplace").naive_variances
    schema = """[columns.v]
    type = "integer"
    min = -7
    max = 5
    [columns.g]
    type = "category"
    values = ["x", "y"]"""
    assert naive("SELECT COUNT(*) AS n FROM t", 1, 1, schema) == {"n": 2}
    assert naive("SELECT g, COUNT(*) AS n FROM t GROUP BY g", 3, 0.5, schema) == {"n": 72}
    rollup = "SELECT g, v, COUNT(*) AS n FROM t GROUP BY ROLLUP (g, v)"
    assert naive(rollup, 1, 1, schema) == {"n": 18}
    assert naive(rollup.replace("ROLLUP", "CUBE"), 1, 1, schema) == {"n": 32}
    sets = "SELECT g, v, COUNT(*) AS n FROM t GROUP BY GROUPING SETS ((g, v), (g))"
    assert naive(sets, 1, 1, schema) == {"n": 8}
    sums = "SELECT SUM(v) AS s, SUM(v * v) AS q, COUNT(*) AS n FROM t"
    assert naive(sums, 1, 1, schema) == {"s": 2 * 21**2, "q": 2 * 147**2, "n": 18}
    assert naive("SELECT AVG(v) AS m, COUNT(v) AS n FROM t", 1, 1, schema) == {"n": 8}
    assert naive("SELECT CORR(v, v * v) AS c, COUNT(*) AS n FROM t", 1, 1, schema) == {"n": 98}
    assert naive("SELECT n FROM (SELECT COUNT(*) AS n FROM t)", 1, 1, schema) == {}


def test_a_higher_error_than_the_baseline_is_reported(benchmark_of, capsys):
    regression = benchmark_of("regression")
    found = regression.measure(itertools.islice(regression.scale(), 3), {}, None)
    assert regression.judge(found, found, 0.0) == []
    first, *_ = found
    lower = found | {first: [0.99 * found[first][0], 1.0]}
    assert regression.judge(found, lower, 0.005) == [first]
    assert "1.0101" in capsys.readouterr().out
    assert set(found) < set(json.loads(regression.BASELINE.read_text())["core"])


def test_pareto_is_near_the_least_error_that_a_longer_search_finds_within_its_caps(benchmark_of):
    capped = benchmark_of("capped_optimum")
    given = {"experiment": "practical", "epsilon": "1", "mechanisms": (), "cells": 16}
    drawn = instance(Settings(seed=capped.SEED, most_analysts=9, **given), 0)
    everyone = drawn.collective.arranged
    pareto, least = capped.distance(everyone, starts=3)
    assert least.errors.sum() <= pareto.errors.sum() <= 1.005 * least.errors.sum()
    assert (least.errors <= everyone.poured.errors * (1 + 1e-9)).all()
    assert pareto.errors.sum() < 0.99 * everyone.poured.errors.sum()


def test_the_errors_in_the_document_on_fairness_are_those_of_the_strategies_it_names(benchmark_of):
    pytest.importorskip("matplotlib")
    plot = benchmark_of("fairness_plot")
    both, total = np.eye(2), np.ones((1, 2))

    def errors(strategy):
        inverse = np.linalg.inv(strategy.T @ strategy)
        return np.trace(inverse), inverse.sum()

    for count in range(1, 8):
        poured, _ = errors(np.vstack([both, count * total]))
        assert plot.waterfilling(count) == pytest.approx(poured)
        assert errors((count + 1) * both) == pytest.approx((plot.pooled(count),) * 2)
    for count in range(3, 8):
        whole = count + 1
        weights = np.linspace(0.01, whole, 20001)
        apart = 2 * (whole - weights) ** 2 + weights**2 >= 2 * count**2
        found = [errors(np.vstack([w * both, (whole - w) * total]))[0] for w in weights[apart]]
        assert plot.least_found(count) == pytest.approx(min(found), rel=1e-3)


def test_waterfilling_has_the_total_that_the_document_on_fairness_states(benchmark_of):
    pytest.importorskip("matplotlib")
    plot = benchmark_of("fairness_plot")
    for asking in ([1], [1, 2], [3, 1, 1]):
        columns = [column for column, count in enumerate(asking) for _ in range(count)]
        places = np.arange(2 ** len(asking))
        workloads = [np.array([places >> c & 1 == v for v in (0, 1)], float) for c in columns]
        unit = 2 * len(workloads) ** 2
        [found] = compare(workloads, epsilon=1, mechanisms=["waterfilling"]).values()
        assert found.total_error / unit == pytest.approx(plot.waterfilling_total(asking), rel=1e-3)
        assert plot.waterfilling_total(asking) <= (1 + 1 / len(asking)) * plot.strict_bound(asking)
