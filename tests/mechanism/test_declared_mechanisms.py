"""Mechanisms declare themselves: whatever is registered can be planned, compared and released."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlmadp.cli import main
from sqlmadp.files.plan import Plan
from sqlmadp.mechanism import MECHANISMS, Mechanism, registered
from sqlmadp.mechanism.base import unregistered
from sqlmadp.release.bound_plan import BoundPlan

ROOT = Path(__file__).parents[2]
QUESTIONS = {
    "alice": "-- name: ages\nSELECT age, COUNT(*) AS n FROM visits GROUP BY age",
    "bob": "-- name: total\nSELECT COUNT(*) AS n FROM visits",
    "carol": "-- name: smokers\nSELECT smoker, COUNT(*) AS n FROM visits GROUP BY smoker",
}


@pytest.fixture(params=[False, True], ids=["unordered", "ordered"])
def toy(request):
    """A mechanism that nothing but this file knows of."""

    @registered
    @dataclass(frozen=True, kw_only=True)
    class Toy(Mechanism):
        name = "toy"
        rule = "whatever is in the box is measured"
        promise = "guaranteed: whatever a toy promises"
        ordered = request.param

        def _choose(self, collective):
            return collective.poured

    yield Toy
    unregistered("toy")


def run(*arguments):
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_mechanism_that_is_declared_appears_everywhere(plans, toy, tmp_path):
    own = plans.write(QUESTIONS)
    assert "mechanism toy" in run("plan", own, "--mechanism", "toy")
    assert "toy: guaranteed: whatever a toy promises" in run("plan", own, "--compare")
    assert list(json.loads(run("plan", own, "--compare", "--json"))["mechanisms"])[-1] == "toy"
    path = plans.write(QUESTIONS, mechanism="toy")
    assert Plan.open(path).mechanism == "toy"
    assert toy.promise in run("release", path)
    certificate = json.loads(run("release", path, "--json"))["certificate"]
    assert certificate["mechanism"] == "toy"
    page = tmp_path / "report.html"
    run("report", path, "--out", page)
    assert "toy" in page.read_text()
    assert "whatever a toy promises" in page.read_text()
    assert "Under toy, whatever is in the box is measured." in page.read_text()


def test_two_orders_are_two_releases_just_where_order_matters(plans, toy):
    backwards = dict(reversed(QUESTIONS.items()))
    ids = {
        BoundPlan.bind(Plan.open(plans.write(own, mechanism="toy"))).release_id
        for own in (QUESTIONS, backwards)
    }
    assert len(ids) == (2 if toy.ordered else 1)


@pytest.mark.parametrize("name", ["ratchet", "pareto", "utilitarian"])
def test_a_whole_release_gives_what_was_previewed(plans, name):
    plan = Plan.open(plans.write(QUESTIONS, mechanism=name))
    expected = plan.preview()[name]
    done = plan.release()
    assert done.certificate.mechanism == name
    assert done.certificate.promise == MECHANISMS[name].promise
    for analyst, standing in done.certificate.analysts.items():
        assert standing.now == pytest.approx(expected.analysts[analyst].now)
        assert name == "utilitarian" or standing.ratio <= 1 + 1e-9
        [statement] = standing.statements
        assert len(done.rows(analyst, statement.name)) == statement.rows


def test_squared_errors_of_the_covid_example_are_the_papers(tmp_path):
    path = tmp_path / "plan.toml"
    text = (ROOT / "examples" / "covid" / "plan.toml").read_text()
    text = text.replace("../../schemas", str(ROOT / "schemas"))
    for name in ("alice", "bob", "carol"):
        text = text.replace(f'"{name}.sql"', f'"{ROOT / "examples" / "covid" / name}.sql"')
    path.write_text(f'measure = "squared"\n{text}')
    previews = Plan.open(path).preview(*MECHANISMS)
    figures = {
        name: [
            (round((each.alone / each.statements[0].rows) ** 0.5, 2), round(s.rmse, 2))
            for each in found.analysts.values()
            for s in each.statements
        ]
        for name, found in previews.items()
    }
    poured = [(4.24, 2.05), (4.24, 2.05), (4.24, 3.63)]
    assert figures == {
        "independent": [(4.24, 4.24)] * 3,
        "identity": [(4.24, 1.41), (4.24, 1.41), (14.07, 4.69)],
        "utilitarian": [(4.24, 1.41), (4.24, 1.41), (4.24, 4.69)],
        "weighted_utilitarian": [(4.24, 2.31), (4.24, 2.31), (4.24, 3.15)],
        "waterfilling": poured,
        "pareto": poured,
        "ratchet": poured,
    }
    assert previews["waterfilling"].total == pytest.approx(105.6, abs=0.05)
    assert previews["utilitarian"].total == pytest.approx(66)


STATEMENTS = (
    "SELECT age, COUNT(*) AS n FROM visits GROUP BY age;",
    "SELECT sex, smoker, COUNT(*) AS n FROM visits GROUP BY ALL;",
    "SELECT SUM(age) AS s, COUNT(*) AS n FROM visits;",
    "SELECT smoker, AVG(age) AS a FROM visits GROUP BY smoker;",
    "SELECT COUNT(*) AS n FROM visits WHERE age BETWEEN 3 AND 11;",
    "SELECT SUM(age - 9) AS s FROM visits WHERE smoker;",
    "SELECT COUNT(*) AS n FROM visits;",
)


@pytest.mark.slow
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    asked=st.lists(
        st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=4), min_size=1, max_size=3
    )
)
def test_no_statement_is_worse_than_asked_one_by_one(plans, asked):
    own = {f"a{n}": "\n".join(statements) for n, statements in enumerate(asked)}
    found = Plan.open(plans.write(own)).preview()["waterfilling"]
    for standing in found.analysts.values():
        for statement in standing.statements:
            assert statement.factor <= 1 + 1e-6
    assert "at least as accurate" in found.one_by_one[0]
