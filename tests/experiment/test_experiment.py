"""The paper's experiments at tiny sizes: generated, measured, kept, continued, drawn."""

import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as Tree
from pathlib import Path

import hypothesis
import jsonschema
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from interrupts import started

from sqlmadp.cli import main
from sqlmadp.errors import ProgrammingError
from sqlmadp.experiment import run as running
from sqlmadp.experiment.instances import NONLINEAR, Settings, instance, invented_counts, read_counts
from sqlmadp.experiment.misreport import (
    LIARS,
    TRICKS,
    labels,
    misreported,
    of_matrices,
    of_plan,
)
from sqlmadp.experiment.nonlinear import statistic
from sqlmadp.experiment.run import run
from sqlmadp.experiment.show import Panel, box_plots

FEW = ("independent", "identity", "utilitarian", "waterfilling")
SVG = "{http://www.w3.org/2000/svg}"


def settings(experiment="practical", **changed):
    sizes = {"cells": 8, "attributes": 3, "counts": (5, 9, 0, 3, 12, 1), "samples": 20}
    given = {"seed": 1, "most_analysts": 4, "epsilon": "1", "mechanisms": FEW}
    return Settings(experiment=experiment, **{**given, **sizes, **changed})


def schema_of(name):
    path = Path(__file__).parents[2] / "schemas" / f"{name}.schema.json"
    return json.loads(path.read_text())


def experiment(*arguments):
    return CliRunner().invoke(main, ["experiment", *map(str, arguments)])


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("practical", ["--cells", 8]),
        ("marginals", ["--attributes", 3]),
        ("nonlinear", ["--samples", 10, "--epsilon", "1/10"]),
        ("tolerance", ["--attributes", 3]),
    ],
)
def test_every_experiment_writes_a_table_and_box_plots(name, sizes, tmp_path):
    chosen = [] if name == "tolerance" else [f"--mechanism={mechanism}" for mechanism in FEW]
    common = ["-t", 2, "--analysts", 3, "--jobs", 1, "--out", tmp_path, "--json"]
    done = experiment(name, *sizes, *chosen, *common)
    assert done.exit_code == 0, done.output
    figures = json.loads(done.stdout)
    jsonschema.validate(figures, schema_of(f"experiment-{name}"))
    labels = [f"tolerance {t}" for t in ("0.1", "0.01", "0.001", "0.0001", "0")]
    assert list(figures["mechanisms"]) == (labels if name == "tolerance" else list(FEW))
    for each in figures["mechanisms"].values():
        assert each["total_error"]["median"] > 0
        assert each["sharing_ratio"]["largest"] > 0
    table = (tmp_path / f"{name}.txt").read_text()
    assert all(label in table for label in figures["mechanisms"])
    picture = Tree.parse(tmp_path / f"{name}.svg").getroot()
    texts = [text.text for text in picture.iter(f"{SVG}text")]
    assert all(texts.count(label) == 4 for label in figures["mechanisms"])


def test_select_first_mechanisms_violate_nothing_and_independent_is_its_own_reference(tmp_path):
    for each in run(settings(), instances=4, folder=tmp_path):
        assert each["independent"][1:] == pytest.approx((1, 1, 1))
        assert max(each["waterfilling"][1:]) <= 1 + 1e-9


@pytest.mark.parametrize("name", ["practical", "marginals", "nonlinear"])
def test_an_instance_depends_on_the_seed_and_its_number_alone(name):
    one, again = (instance(settings(name), 3) for _ in range(2))
    assert one.names == again.names
    assert one.collective.kinds == again.collective.kinds
    others = [instance(settings(name, seed=seed), 3) for seed in range(2, 8)]
    assert any(other.names != one.names for other in others)


def test_practical_instances_hold_every_kind_of_workload_over_all_cells():
    drawn = [instance(settings(), number) for number in range(60)]
    names = {name for each in drawn for name in each.names}
    assert len(names) == 8
    for each in drawn:
        assert 2 <= len(each.names) <= 4
        for name, workload in zip(each.names, each.workloads, strict=True):
            rows = sum(each.count for each in workload)
            expected = {"identity": 8, "total": 1, "prefix": 8, "h2": 15, "race alone": 4}
            assert rows == expected.get(name, rows)
            assert name != "custom" or 1 <= rows <= 16


def test_marginals_are_drawn_from_all_of_their_number_of_columns():
    drawn = [instance(settings("marginals", way=2), number) for number in range(20)]
    assert {name for each in drawn for name in each.names} == {"c0 x c1", "c0 x c2", "c1 x c2"}


def test_a_run_that_was_interrupted_is_continued(tmp_path, monkeypatch):
    whole = run(settings(), instances=4, folder=tmp_path / "whole")
    original, begun = running.measured, []

    def interrupted(given, number):
        begun.append(number)
        if len(begun) == 3:
            raise KeyboardInterrupt
        return original(given, number)

    monkeypatch.setattr(running, "measured", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(settings(), instances=4, folder=tmp_path)
    file = tmp_path / "practical.jsonl"
    file.write_bytes(file.read_bytes()[:-10])  # The last line was cut off, as by a full disk.
    steps = []
    again = run(settings(), instances=4, folder=tmp_path, progress=lambda *at: steps.append(at))
    assert begun == [0, 1, 2, 1, 2, 3]
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert [dict(each) for each in again] == [dict(each) for each in whole]
    assert run(settings(), instances=3, folder=tmp_path) == again[:3]


@pytest.mark.slow
def test_ctrl_c_ends_a_run_without_a_traceback_and_the_next_run_goes_on(tmp_path):
    few = ["--cells", "8", "--analysts", "4", "--mechanism", "waterfilling", "-t", "40", "--json"]
    command = [sys.executable, "-m", "sqlmadp", "experiment", "practical", *few]
    command += ["--jobs", "2", "--out", str(tmp_path / "cut")]
    file = tmp_path / "cut" / "practical.jsonl"
    begun = started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    while begun.poll() is None and not (file.exists() and file.read_bytes().count(b"\n") > 2):
        time.sleep(0.01)
    os.killpg(begun.pid, signal.SIGINT)  # As a terminal does: every process of it.
    printed, said = begun.communicate(timeout=60)
    assert begun.returncode == 130, said
    assert said.decode().strip() == "interrupted; what was done is kept: run it again to go on"
    assert printed == b""
    kept = file.read_bytes()
    assert 2 < kept.count(b"\n") < 41
    again = subprocess.run(command, capture_output=True, check=True)
    assert file.read_bytes().startswith(kept[: kept.rfind(b"\n") + 1])
    whole = experiment("practical", *few, "--jobs", 1, "--out", tmp_path / "whole")
    assert json.loads(again.stdout) == json.loads(whole.stdout)


def test_results_of_other_settings_are_not_mixed_in(tmp_path):
    run(settings(), instances=1, folder=tmp_path)
    with pytest.raises(ProgrammingError, match="other settings"):
        run(settings(seed=2), instances=1, folder=tmp_path)


@pytest.mark.slow
def test_several_processes_find_what_one_finds(tmp_path):
    given = settings(mechanisms=("waterfilling",))
    one = run(given, instances=2, folder=tmp_path / "one")
    two = run(given, instances=2, folder=tmp_path / "two", jobs=2)
    assert [dict(each) for each in one] == [dict(each) for each in two]


def test_a_mechanism_that_cannot_serve_is_left_out(tmp_path):
    given = settings("marginals", attributes=21, way=1, mechanisms=("identity", "waterfilling"))
    (found,) = run(given, instances=1, folder=tmp_path)
    assert found["identity"] is None
    assert found["waterfilling"][0] > 0


@pytest.mark.parametrize("changed", [{"cells": 12}, {"way": 4, "attributes": 3}])
def test_sizes_that_make_no_experiment_are_refused(changed, tmp_path):
    with pytest.raises(ProgrammingError):
        run(settings("marginals", **changed), instances=1, folder=tmp_path)


@pytest.mark.parametrize("text", ["0,4\n1,7\n2,0\n", "age,n\n0,4\n1,7\n2,0", "4\n7\n0\n"])
def test_the_data_column_is_the_last_field_of_every_line(text, tmp_path):
    (tmp_path / "data.csv").write_text(text, encoding="utf-8-sig")
    assert read_counts(tmp_path / "data.csv") == (4, 7, 0)


def test_a_data_column_with_something_else_in_it_is_refused(tmp_path):
    (tmp_path / "data.csv").write_text("age,n\n0,4\n1,many\n")
    refused = experiment("nonlinear", "--data", tmp_path / "data.csv", "--out", tmp_path / "out")
    assert refused.exit_code == 1
    assert "data.csv:3: 'many' is not a number of records" in refused.stderr


def test_statistics_without_noise_are_those_of_the_records():
    counts = np.array(invented_counts())
    ages = np.repeat(np.arange(86), counts)
    running_sums = np.cumsum(counts)[:, None].astype(float)
    sums = np.array([[counts.sum()], [ages.sum()]], dtype=float)
    assert statistic("mean", sums, 86)[0] == pytest.approx(ages.mean())
    for name, part in zip(NONLINEAR[1:], (0.5, 0.25, 0.75), strict=True):
        expected = np.quantile(ages, part, method="inverted_cdf")
        assert statistic(name, running_sums, 86)[0] == expected
    assert statistic("median", 0 * running_sums, 86)[0] == 42.5


def test_a_box_spans_the_quartiles_with_outliers_beyond_its_whiskers():
    values = [*range(1, 10), 100]
    picture = Tree.fromstring(box_plots("a < b", [Panel("measure", {"label": values})]))
    assert picture.find(f"{SVG}title").text == "a < b"
    assert len(list(picture.iter(f"{SVG}circle"))) == 1
    boxes = [box for box in picture.iter(f"{SVG}rect") if box.get("fill-opacity")]
    assert len(boxes) == 1
    assert float(boxes[0].get("height")) > 10


def test_values_that_span_much_are_drawn_on_a_logarithmic_scale():
    wide = box_plots("t", [Panel("measure", {"a": [1.0, 1e4], "b": [10.0, 100.0]}, mark=1.0)])
    narrow = box_plots("t", [Panel("measure", {"a": [1.0, 2.0], "b": [float("inf"), 1.0]})])
    assert "(log scale)" in wide
    assert "(log scale)" not in narrow
    assert "nan" not in wide + narrow
    assert "inf" not in wide + narrow


@pytest.mark.parametrize("on", ["practical", "marginals"])
def test_misreporting_writes_a_table_and_box_plots_of_the_changes(on, tmp_path):
    chosen = [f"--mechanism={mechanism}" for mechanism in ("utilitarian", "waterfilling")]
    sizes = ["--on", on, "--cells", 8, "--attributes", 3, "-t", 2, "--analysts", 3]
    done = experiment("misreport", *sizes, *chosen, "--jobs", 1, "--out", tmp_path, "--json")
    assert done.exit_code == 0, done.output
    figures = json.loads(done.stdout)
    jsonschema.validate(figures, schema_of("experiment-misreport"))
    assert list(figures["mechanisms"]) == ["utilitarian", "waterfilling"]
    assert figures["experiment"] == f"misreport-{on}"
    for liar in LIARS:
        for trick in ("repeated", "split"):
            assert figures["mechanisms"]["waterfilling"][liar][trick]["gains"] == 0
    assert "waterfilling" in (tmp_path / f"misreport-{on}.txt").read_text()
    picture = Tree.parse(tmp_path / f"misreport-{on}.svg").getroot()
    texts = [text.text for text in picture.iter(f"{SVG}text")]
    assert texts.count("waterfilling") == len(TRICKS)


asked_by_some = st.lists(
    arrays(np.int64, st.tuples(st.integers(1, 6), st.just(4)), elements=st.integers(0, 2)).filter(
        np.any
    ),
    min_size=2,
    max_size=4,
)


def changes(name, asked, liar, *, tricks):
    """Return a liar's true error by trick under a mechanism, divided by that without it."""
    honest = asked.gather(asked.wanted, asked.shares)
    lies = asked.lies(liar, tricks)
    return {trick: lie.change(name, honest) for trick, lie in zip(tricks, lies, strict=True)}


def change(workloads, liar, trick):
    asked = [np.asarray(workload, dtype=np.float64) for workload in workloads]
    [found] = changes("waterfilling", of_matrices(asked), liar, tricks=[trick]).values()
    return found


@pytest.mark.slow
@given(asked_by_some, st.integers(0, 1))
@example([np.eye(4), np.ones((1, 4))], 1)
@hypothesis.settings(deadline=None, max_examples=40)
def test_splitting_gains_nothing_under_waterfilling(workloads, liar):
    assert change(workloads, liar, "split") == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("liar", [0, 1])
@pytest.mark.parametrize("wanted", [np.eye(8), np.ones((1, 8)), np.tri(8), np.eye(8)[:3]])
def test_repeating_gains_nothing_under_waterfilling(wanted, liar):
    for other in (np.eye(8), np.ones((1, 8)), np.tri(8)):
        workloads = [wanted, other] if liar == 0 else [other, wanted]
        assert change(workloads, liar, "repeated") == pytest.approx(1, rel=1e-9)


@pytest.mark.slow
@given(asked_by_some, st.integers(0, 1))
@example([np.array([[2, 0, 0, 0], [0, 1, 1, 2]]), np.eye(4)], 0)
@hypothesis.settings(deadline=None, max_examples=40)
def test_repeating_any_queries_gains_nothing_under_waterfilling(workloads, liar):
    assert change(workloads, liar, "repeated") == pytest.approx(1, rel=1e-9)


def test_repeating_gains_under_utilitarian_so_that_a_gain_would_be_seen():
    drowned, many = np.ones((1, 16)), np.tril(np.ones((16, 16)))
    found = changes("utilitarian", of_matrices([drowned, many]), 0, tricks=("repeated",))
    assert found["repeated"] < 0.99


def test_the_true_error_after_junk_is_that_of_the_wanted_queries_alone():
    total = np.ones((1, 8))
    # Alone with the whole budget: measured is the total with weight 1, or with junk whatever
    # serves 64 sums and the total; the latter serves the total less.
    found = changes("waterfilling", of_matrices([total, total]), 0, tricks=("junk", "all cells"))
    assert min(found.values()) > 1


def test_an_instance_of_misreports_has_two_liars_and_every_trick():
    given = settings("misreport-marginals", mechanisms=("identity", "independent"))
    found = misreported(given, 0)
    assert [len(each) for each in found.values()] == [len(labels())] * 2 == [8, 8]
    # Nothing that is handed in changes what identity measures; of an analyst that is split in
    # two, each half is told what half the share gives.
    assert found["identity"] == pytest.approx((1,) * 8)
    assert found["independent"][labels().index((LIARS[0], "split"))] == pytest.approx(4)


@pytest.fixture
def plan(tmp_path):
    """Two analysts with different shares and several statements each."""
    (tmp_path / "t.toml").write_text(
        'table = "t"\n[columns.a]\ntype = "integer"\nmin = 0\nmax = 9\n'
        '[columns.b]\ntype = "category"\nvalues = ["x", "y"]\n'
    )
    (tmp_path / "ana.sql").write_text("SELECT a, COUNT(*) FROM t GROUP BY a; SELECT SUM(a) FROM t;")
    (tmp_path / "bo.sql").write_text("SELECT b, COUNT(*) FROM t GROUP BY b;")
    (tmp_path / "plan.toml").write_text(
        'schema = "t.toml"\nsource = "t.parquet"\nepsilon = "1"\n'
        '[ledger]\npath = "t.ledger"\nbudget = "1"\n'
        '[analysts.ana]\nqueries = "ana.sql"\nshare = "1/3"\n'
        '[analysts.bo]\nqueries = "bo.sql"\nshare = "2/3"\n'
    )
    return tmp_path / "plan.toml"


@pytest.mark.slow
@pytest.mark.parametrize("liar", [0, 1])
def test_a_statement_of_a_plan_that_is_repeated_gains_nothing_under_any_mechanism(plan, liar):
    for name in ("utilitarian", "waterfilling", "pareto", "ratchet"):
        found = changes(name, of_plan(plan), liar, tricks=("repeated",))
        assert found["repeated"] == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("liar", [0, 1])
def test_an_analyst_of_a_plan_who_is_split_gains_nothing_under_waterfilling(plan, liar):
    found = changes("waterfilling", of_plan(plan), liar, tricks=("split",))
    assert found["split"] == pytest.approx(1, rel=1e-9)


@pytest.mark.slow
def test_misreporting_by_the_analysts_of_a_plan_is_one_instance(plan, tmp_path):
    chosen = ["--mechanism=waterfilling", "--json", "--jobs", 1, "--out", tmp_path / "out"]
    done = experiment("misreport", "--plan", plan, *chosen)
    assert done.exit_code == 0, done.output
    figures = json.loads(done.stdout)
    jsonschema.validate(figures, schema_of("experiment-misreport"))
    assert (figures["experiment"], figures["instances"]) == ("misreport-plan", 1)
