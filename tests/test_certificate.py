"""The certificate as people read it: on the terminal, after a release and in a plan."""

import json
from fractions import Fraction

import numpy as np
import pytest
from click.testing import CliRunner
from small_tables import SIZES, histogram, total

from sqlmadp.certificate import _measured
from sqlmadp.cli import main
from sqlmadp.mechanism import fairness
from sqlmadp.mechanism.fairness import outcome
from sqlmadp.mechanism.identity import Identity
from sqlmadp.mechanism.waterfilling import Waterfilling
from sqlmadp.workload.workload import Workload

QUESTIONS = {
    "alice": "SELECT age, COUNT(*) AS n FROM visits GROUP BY age",
    "bob": "SELECT COUNT(*) AS n FROM visits",
}


def run(*arguments):
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("command", ["plan", "release"])
def test_it_is_part_of_what_is_printed_with_the_figures_of_the_json(plans, command):
    shares = {"alice": "3/4", "bob": "1/4"}
    path = plans.write(QUESTIONS, mechanism="waterfilling", shares=shares)
    figures = json.loads(run("release", path, "--json"))["certificate"]
    text = run(command, path).partition("Certificate: ")[2]
    assert text.startswith("waterfilling, epsilon 1")
    lines = text.splitlines()
    for name, given in figures["analysts"].items():
        line = next(line for line in lines if line.startswith(name))
        assert given["share"] in line
        assert f"{given['ratio']:.3f}" in line
    alice, bob = (figures["analysts"][name]["interference"] for name in ("alice", "bob"))
    assert any(line.split() == ["alice", f"{bob['alice']:.3f}"] for line in lines)
    assert any(line.split() == ["bob", f"{alice['bob']:.3f}"] for line in lines)
    assert f"{figures['to_utilitarian']:.3f} times utilitarian's" in text
    assert f"{figures['gap']:.2f} times the lower bound" in text


def test_under_ratchet_a_plan_lists_each_join(plans):
    path = plans.write(QUESTIONS, mechanism="ratchet")
    text = run("plan", path, "--mechanism", "ratchet")
    assert "errors after each join" in text
    joins = json.loads(run("plan", path, "--mechanism", "ratchet", "--json"))
    joins = joins["mechanisms"]["ratchet"]["joins"]
    assert [join["analysts"] for join in joins] == [["alice"], ["bob"]]
    assert joins[1]["errors"]["alice"] <= joins[0]["errors"]["alice"]


def test_what_was_measured_is_compared_with_everyone_left_out_at_once_as_if_one_by_one(monkeypatch):
    asking = [Workload.of([histogram("a", "b")]), Workload.of([histogram("a")])]
    asking.append(Workload.of([total()]))
    shares = [Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)]
    # Another machine may have selected another strategy.
    other = Identity(columns=tuple(SIZES.items())).select(asking, shares)
    mechanism = _measured(Waterfilling(), other)
    at_once = outcome(mechanism, asking, shares, Fraction(1))
    monkeypatch.setattr(fairness, "left_out_at_once", lambda *_: None)
    one_by_one = outcome(mechanism, asking, shares, Fraction(1))
    np.testing.assert_allclose(at_once.interference, one_by_one.interference, rtol=1e-9)
    assert at_once.errors == one_by_one.errors
