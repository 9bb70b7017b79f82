"""Previews of changed plans, and targets for errors."""

import json
import shutil
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner

from sqlmadp.cli import main
from sqlmadp.errors import ProgrammingError
from sqlmadp.files.plan import Plan
from sqlmadp.release.preview import Changes, least_epsilon, rounded_up

EXAMPLE = Path(__file__).parents[2] / "examples" / "covid"


@pytest.fixture
def plan(tmp_path):
    ignored = shutil.ignore_patterns("*.ledger*")
    shutil.copytree(EXAMPLE.parent.parent / "schemas", tmp_path / "schemas")
    shutil.copytree(EXAMPLE, tmp_path / "examples" / "covid", ignore=ignored)
    return Plan.open(tmp_path / "examples" / "covid" / "plan.toml")


def shares(plan):
    return {analyst.name: analyst.share for analyst in plan.analysts}


def test_those_who_stay_keep_their_proportions(plan):
    assert shares(Changes(without=["carol"]).apply(plan)) == {
        "alice": Fraction(1, 2),
        "bob": Fraction(1, 2),
    }


def test_who_joins_takes_an_equal_share(plan):
    changed = Changes(joining={"dave": plan.folder / "dave.sql"}).apply(plan)
    assert shares(changed) == dict.fromkeys(["alice", "bob", "carol", "dave"], Fraction(1, 4))


def test_a_named_share_is_exact_and_the_others_divide_the_rest(plan):
    changed = Changes(shares={"alice": Fraction(1, 2)}).apply(plan)
    assert shares(changed) == {
        "alice": Fraction(1, 2),
        "bob": Fraction(1, 4),
        "carol": Fraction(1, 4),
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (Changes(without=["nobody"]), "no analyst 'nobody'"),
        (Changes(shares={"nobody": Fraction(1, 2)}), "no analyst 'nobody'"),
        (Changes(shares={"alice": Fraction(1)}), "must sum to exactly 1"),
        (Changes(shares={"alice": Fraction(3, 2)}), "must sum to exactly 1"),
        (Changes(joining={"alice": Path("a.sql")}), "already"),
        (Changes(without=["alice", "bob", "carol"]), "nobody is left"),
    ],
)
def test_what_cannot_be_is_refused(plan, changes, message):
    with pytest.raises(ProgrammingError, match=message):
        changes.apply(plan)


def errors(previews, analyst):
    statement = previews["waterfilling"].analysts[analyst].statements[0]
    return statement.name, dict(statement.columns)


def test_with_the_least_epsilon_every_target_is_met_and_with_less_it_is_not(plan):
    previews = plan.preview("waterfilling")
    name, before = errors(previews, "carol")
    least = least_epsilon(previews.asked, previews["waterfilling"], {name: 0.5})
    _, met = errors(Changes(epsilon=least).apply(plan).preview("waterfilling"), "carol")
    assert met.keys() == before.keys()
    assert max(met.values()) == pytest.approx(0.5, rel=1e-5)
    assert max(met.values()) <= 0.5


def test_a_target_is_met_by_each_column_in_its_own_unit_or_by_the_one_that_it_names(plan):
    years = "CASE WHEN age_group = '85+' THEN 90 ELSE 40 END"
    columns = f"COUNT(*) AS n, SUM({years}) AS years, AVG({years}) AS mean"
    sql = f"-- name: mixed\nSELECT {columns} FROM covid_deaths"
    (plan.folder / "carol.sql").write_text(sql)
    previews = plan.preview("waterfilling")
    _, before = errors(previews, "carol")
    assert before["mean"] is None
    assert before["years"] > before["n"]
    for target, column in {
        "mixed": "years",
        "mixed.n": "n",
        "carol.mixed.n": "n",
        "carol.mixed": "years",
    }.items():
        least = least_epsilon(previews.asked, previews["waterfilling"], {target: 0.5})
        _, met = errors(Changes(epsilon=least).apply(plan).preview("waterfilling"), "carol")
        assert met[column] == pytest.approx(0.5, rel=1e-5)
    with pytest.raises(ProgrammingError, match=r"'mixed\.mean' depends on the answers"):
        least_epsilon(previews.asked, previews["waterfilling"], {"mixed.mean": 1})


def test_a_target_for_no_query_is_refused(plan):
    previews = plan.preview("waterfilling")
    with pytest.raises(ProgrammingError, match="no query or column named 'nothing'"):
        least_epsilon(previews.asked, previews["waterfilling"], {"nothing": 1})


def test_rounding_goes_up_to_six_digits():
    assert rounded_up(Fraction(1, 3)) == Fraction(333334, 1000000)
    assert rounded_up(Fraction(1234567)) == 1234570


def test_the_command_shows_the_changed_plan_and_leaves_the_file_alone(plan):
    before = plan.path.read_bytes()
    (plan.folder / "dave.sql").write_text((plan.folder / "alice.sql").read_text())
    options = ["--without", "carol", "--with", f"dave={plan.folder / 'dave.sql'}"]
    options += ["--share", "bob=1/2", "--epsilon", "0.5", "--mechanism", "waterfilling"]
    result = CliRunner().invoke(main, ["plan", str(plan.path), *options, "--json"])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    analysts = figures["mechanisms"]["waterfilling"]["analysts"]
    assert {name: each["share"] for name, each in analysts.items()} == {
        "alice": "1/4",
        "bob": "1/2",
        "dave": "1/4",
    }
    assert figures["epsilon"] == "1/2"
    assert plan.path.read_bytes() == before


@pytest.mark.parametrize(
    "option", [["--share", "alice"], ["--epsilon", "0"], ["--target-rmse", "q1=x"]]
)
def test_a_change_that_cannot_be_read_is_bad_usage(plan, option):
    assert CliRunner().invoke(main, ["plan", str(plan.path), *option]).exit_code == 2


def test_the_command_prints_the_least_epsilon_by_mechanism(plan):
    name = plan.preview("identity")["identity"].analysts["alice"].statements[0].name
    arguments = ["plan", str(plan.path), "--mechanism", "identity", "--target-rmse", f"{name}=1"]
    result = CliRunner().invoke(main, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    assert Fraction(json.loads(result.stdout)["least_epsilon"]["identity"]) > 1
    assert "Least epsilon" in CliRunner().invoke(main, arguments).stdout
