"""The certificate as people read it: on the terminal, after a release and in a plan."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from click.testing import CliRunner
from quick import quick_first
from small_collectives import random_collective

from sqlmadp.cli import main
from sqlmadp.errors import NotCoveredError
from sqlmadp.files.plan import Plan
from sqlmadp.mechanism import mechanism
from sqlmadp.mechanism.collective import Capped, Collective
from sqlmadp.mechanism.fairness import bounds, outcome
from sqlmadp.release.bound_plan import BoundPlan
from sqlmadp.release.certificate import Certificate, certify
from sqlmadp.release.history import Stage
from sqlmadp.show.json import plan_figures
from sqlmadp.show.text import show_previews

QUESTIONS = {
    "alice": "SELECT age, COUNT(*) AS n FROM visits GROUP BY age",
    "bob": "SELECT COUNT(*) AS n FROM visits",
}


def run(*arguments):
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_what_is_printed_after_a_release_has_the_figures_of_the_json(plans):
    shares = {"alice": "3/4", "bob": "1/4"}
    path = plans.write(QUESTIONS, mechanism="waterfilling", shares=shares)
    figures = json.loads(run("release", path, "--json"))["certificate"]
    text = run("release", path).partition("Certificate: ")[2]
    assert text.startswith("waterfilling, epsilon 1")
    lines = text.splitlines()
    for name, given in figures["analysts"].items():
        line = next(line for line in lines if line.startswith(name))
        assert given["share"] in line
        rerun, kept = (
            max(given[kind].values()) for kind in ("interference", "interference_within_agreement")
        )
        assert line.split()[-3:] == [f"{each:.3f}" for each in (given["ratio"], rerun, kept)]
    alice, bob = (figures["analysts"][name]["interference"] for name in ("alice", "bob"))
    assert any(line.split() == ["alice", f"{bob['alice']:.3f}"] for line in lines)
    assert any(line.split() == ["bob", f"{alice['bob']:.3f}"] for line in lines)
    assert f"{figures['to_utilitarian']:.3f} times utilitarian's" in text
    assert f"{figures['gap']:.2f} times the lower bound" in text


def test_a_plan_states_the_error_of_every_column_in_its_own_unit(plans):
    mixed = (
        "SELECT SUM(age) AS years, COUNT(*) AS n, 2 * COUNT(*) AS twice, AVG(age) AS mean,"
        " 1 AS one, SUM(COUNT(*)) OVER () AS whole FROM visits"
    )
    path = plans.write({"alice": f"-- name: mixed\n{mixed}", "bob": QUESTIONS["bob"]})
    figures = json.loads(run("plan", path, "--json"))["mechanisms"]["waterfilling"]
    (query,) = figures["analysts"]["alice"]["queries"]
    errors = {each["name"]: each["rmse"] for each in query["columns"]}
    assert list(errors) == ["years", "n", "twice", "mean", "whole"]
    assert errors["twice"] == pytest.approx(2 * errors["n"])
    assert errors["whole"] == pytest.approx(errors["n"])
    assert errors["mean"] is None
    released = Plan.open(path).release().rows("alice", "mixed").rmse
    assert errors["years"] == pytest.approx(released["years"][0], rel=1e-6)
    assert errors["n"] == pytest.approx(released["n"][0], rel=1e-6)
    lines = [line.split() for line in run("plan", path).splitlines()]
    assert ["n", f"{errors['n']:.3g}"] in lines
    assert ["mean", "after", "the", "release"] in lines


def test_a_certificate_says_where_a_plainer_strategy_bounds_the_work(plans, capsys):
    tangled = "SELECT (a * a * a + b * b) % 1100 AS g, COUNT(*) AS n FROM visits GROUP BY g"
    total = "SELECT COUNT(*) AS n FROM visits"
    path = plans.write({"alice": tangled, "bob": total}, mechanism="waterfilling")
    column = '[columns.{}]\ntype = "integer"\nmin = 0\nmax = 31\n'
    schema = 'table = "visits"\n' + column.format("a") + column.format("b")
    Plan.open(path).schema_path.write_text(schema)
    words = "sums across the 1,089 combinations of a, b are not searched for (up to 1,024 are)"
    previews = Plan.open(path).preview()
    found = plan_figures(previews, {}, {})["mechanisms"]["waterfilling"]["analysts"]
    assert found["alice"]["plainer"] == (words,)
    assert "plainer" not in found["bob"]
    show_previews(previews)
    assert f"Plainer strategy for alice, to bound the work: {words}." in capsys.readouterr().out
    certificate = previews["waterfilling"]
    assert words in repr(certificate)
    assert words not in repr(certificate.only("bob"))


def test_under_ratchet_a_plan_lists_each_join(plans):
    path = plans.write(QUESTIONS, mechanism="ratchet")
    joins = json.loads(run("plan", path, "--mechanism", "ratchet", "--json"))
    joins = joins["mechanisms"]["ratchet"]["joins"]
    assert [join["analysts"] for join in joins] == [["alice"], ["bob"]]
    assert joins[1]["errors"]["alice"] <= joins[0]["errors"]["alice"]
    assert "errors after each join" in run("release", path)


@pytest.mark.parametrize("name", ["waterfilling", "pareto"])
def test_of_what_another_machine_measured_interference_is_that_of_its_errors(plans, name):
    carol = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"
    asked = BoundPlan.bind(Plan.open(plans.write(QUESTIONS | {"carol": carol}, mechanism=name)))
    given = asked.outcome(name)
    other = mechanism("identity").select(given.collective)

    def certified(joint):
        return certify(asked, [Stage.following(asked, joint, asked.plan.epsilon)], joint.reads)

    found = certified(other)
    names = list(found.analysts)
    own = given.strategy
    usual = certified(own)
    for name, now, then in zip(names, other.errors, own.errors, strict=True):
        change = found.analysts[name].now / usual.analysts[name].now
        assert change == pytest.approx(now / then)
    for i, left_out in enumerate(names):
        left = given.mechanism.select(given.collective.without(i)).errors
        others = [j for j in range(len(names)) if j != i]
        now = [found.analysts[names[j]].interference[left_out] for j in others]
        np.testing.assert_allclose(now, other.errors[others] / left, rtol=1e-9)
    assert usual == Plan.open(asked.plan.path).preview(given.mechanism.name)[given.mechanism.name]


@pytest.mark.parametrize("name", ["waterfilling", "utilitarian", "pareto", "ratchet"])
def test_the_total_is_compared_with_what_utilitarian_finds(plans, name):
    found = Plan.open(plans.write(QUESTIONS, mechanism=name)).preview(name, "utilitarian")
    own, utilitarian = found[name], found["utilitarian"]
    assert own.bounds.utilitarian == pytest.approx(utilitarian.total)
    above, _ = own.bounds.beside(own.total)
    assert f"is {above:.2f} times the least that was found" in own.verdict


def test_a_total_below_utilitarians_is_not_called_a_multiple_of_the_least(plans):
    found = Plan.open(plans.write(QUESTIONS)).preview()["waterfilling"]
    lower = replace(found, bounds=replace(found.bounds, utilitarian=2 * found.total))
    assert "is 0.50 times what a search without any guarantee found" in lower.verdict


def test_where_no_search_is_possible_the_verdict_says_so_and_names_the_bound(plans):
    found = Plan.open(plans.write(QUESTIONS)).preview()["waterfilling"]
    bounds = replace(found.bounds, utilitarian=None, lowest=found.total / 3)
    assert replace(found, bounds=bounds).verdict.endswith(
        "the plan is too large to search for the least error without any guarantee, but that of "
        "the whole is at most 3.00 times the least possible"
    )


def test_a_plan_too_large_to_select_for_as_a_whole_has_all_mechanisms(plans, monkeypatch):
    def refuse(self, workload, capped=None, select=Collective.select):
        if workload == self.together and len(self) > 1:
            raise NotCoveredError("too large")
        return select(self, workload, capped or Capped())

    monkeypatch.setattr(Collective, "select", refuse)
    found = Plan.open(plans.write(QUESTIONS)).preview("waterfilling", "utilitarian", "pareto")
    assert all(isinstance(each, Certificate) for each in found.values())
    assert all("without any guarantee" in each.verdict for each in found.values())


def test_explaining_caps_names_those_that_bind_and_what_they_cost(plans):
    path = plans.write(QUESTIONS, mechanism="pareto")
    figures = json.loads(run("plan", path, "--explain", "--json"))
    caps = figures["mechanisms"]["pareto"]["caps"]
    assert list(caps) == ["alice", "bob"]
    for each in caps.values():
        assert each["reached"] <= 1 + 1e-9
        assert each["binds"] == (each["reached"] >= 0.999)
        assert 0 <= each["cost"] < 1
    text = run("plan", path, "--explain")
    assert "Caps of pareto: the error under waterfilling." in text
    assert "waterfilling does not search within caps" in run(
        "plan", path, "--mechanism", "waterfilling", "--explain"
    )


@pytest.mark.parametrize("seed", quick_first(4, range(12)))
def test_the_least_total_that_is_known_is_at_most_what_is_poured(seed):
    everyone = random_collective(seed)
    poured = outcome(mechanism("waterfilling"), everyone, Fraction(1)).total_error
    assert bounds(everyone, Fraction(1)).utilitarian <= poured * (1 + 1e-12)
