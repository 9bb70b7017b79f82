"""Analysts who are added to a plan after its release: what stays, what is charged, who gains."""

import itertools
import json
from fractions import Fraction

import numpy as np
import pytest
from click.testing import CliRunner
from quick import quick_first
from scipy import sparse

from sqlmadp.answer.reconstruct import Estimate
from sqlmadp.cli import main
from sqlmadp.errors import BudgetExceededError, LedgerError, PlanError
from sqlmadp.files.plan import Plan
from sqlmadp.mechanism import complement
from sqlmadp.private import Ledger, Measurement
from sqlmadp.private.noise import add_discrete_laplace
from sqlmadp.release.bound_plan import BoundPlan
from sqlmadp.release.preview import dry_run, explain_text
from sqlmadp.release.release import release, released
from sqlmadp.table.domain import Column, Domain
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows

ALICE = "-- name: ages\nSELECT age, COUNT(*) AS n FROM visits GROUP BY age"
BOB = "-- name: smokers\nSELECT smoker, COUNT(*) AS n FROM visits GROUP BY smoker"
CAROL = "-- name: old\nSELECT COUNT(*) AS n FROM visits WHERE age > 11"
DAVE = "-- name: costly\nSELECT smoker, COUNT(*) AS n FROM visits WHERE cost > 370 GROUP BY ALL"

BROUGHT = {"alice": "1/3", "bob": "1/6", "carol": "1/4", "dave": "1/7"}


@pytest.fixture
def write(plans):
    """Return a function that writes a plan of some analysts, each with an epsilon of their own."""

    def plan(*names, mechanism="waterfilling", budget="2", extra="", **epsilons):
        questions = {"alice": ALICE, "bob": BOB, "carol": CAROL, "dave": DAVE}
        path = plans.write({n: questions[n] for n in names}, budget=budget, mechanism=mechanism)
        text = path.read_text().replace('epsilon = "1"\n', extra)
        for name in names:
            brought = epsilons.get(name, BROUGHT[name])
            text = text.replace(f"[analysts.{name}]", f'[analysts.{name}]\nepsilon = "{brought}"')
        path.write_text(text)
        return Plan.open(path)

    return plan


def errors(done, analyst, query):
    return done.rows(analyst, query).rmse["n"]


def test_only_the_late_analysts_part_is_charged_and_what_was_measured_stays(write):
    first = release(write("alice", "bob"))
    assert first.spent == Fraction(1, 2)
    notes = []
    second = release(write("alice", "bob", "carol"), notice=notes.append)
    assert second.spent == Fraction(3, 4)
    assert second.measurement.epsilon == Fraction(1, 4)
    assert second.measurements[0].encode() == first.measurement.encode()
    assert any("adds carol to the release of" in note for note in notes)
    assert "charges epsilon 1/4" in " ".join(notes)
    assert "nobody's expected error rises" in " ".join(notes)
    with Ledger.read(second.asked.plan.ledger_path) as ledger:
        assert [charge.analysts for charge in ledger.charges] == [("alice", "bob"), ("carol",)]


def test_nobodys_stated_error_rises_and_the_late_analyst_does_better_than_alone(write):
    first = release(write("alice", "bob"))
    second = release(write("alice", "bob", "carol"))
    for analyst, query in (("alice", "ages"), ("bob", "smokers")):
        before, after = errors(first, analyst, query), errors(second, analyst, query)
        assert all(now <= was * (1 + 1e-9) for was, now in zip(before, after, strict=True))
    certificate = second.certificate
    assert [join.analysts for join in certificate.joins] == [("alice", "bob"), ("carol",)]
    assert [join.epsilon for join in certificate.joins] == [Fraction(1, 2), Fraction(1, 4)]
    assert certificate.analysts["carol"].ratio <= 1
    for name in ("alice", "bob"):
        standing = certificate.analysts[name]
        assert standing.interference == {"carol": pytest.approx(standing.interference["carol"])}
        assert standing.interference["carol"] <= 1 + 1e-9
        assert standing.ratio <= 1
        before = certificate.joins[0].errors[name]
        assert standing.now == pytest.approx(before * standing.interference["carol"])


def test_a_late_release_returns_the_same_answers_again_for_free(write):
    release(write("alice", "bob"))
    plan = write("alice", "bob", "carol")
    second = release(plan)
    again = release(plan)
    assert again.spent == second.spent
    assert [m.encode() for m in again.measurements] == [m.encode() for m in second.measurements]
    assert again.results() == second.results() == released(plan).results()


@pytest.mark.slow
def test_a_crash_while_recording_charges_nothing_and_can_be_run_again(write, monkeypatch):
    first = release(write("alice", "bob"))
    plan = write("alice", "bob", "carol")
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "_insert", _broken)
        with pytest.raises(LedgerError):
            release(plan)
    with Ledger.read(plan.ledger_path) as ledger:
        assert ledger.spent == first.spent
    assert release(plan).spent == first.spent + Fraction(1, 4)


def _broken(*_):
    raise LedgerError("the disk is gone")


def test_later_queries_of_those_who_were_there_are_answered_from_all_measurements(write):
    first = release(write("alice", "bob"))
    second = release(write("alice", "bob", "carol"))
    asked = "SELECT COUNT(*) AS n FROM visits WHERE age > 11"
    before, after = (each.query(asked, "alice").rmse["n"][0] for each in (first, second))
    assert after < 0.95 * before


def test_a_dry_run_says_what_late_analysts_would_be_charged_and_everybodys_errors(write):
    first = release(write("alice", "bob"))
    plan = write("alice", "bob", "carol")
    found = dry_run(plan)
    assert found.epsilon == Fraction(1, 4)
    assert found.added_to is not None
    done = release(plan)
    stated = [standing.statements[0].rmse for standing in found.preview.analysts.values()]
    for (analyst, query), expected in zip(
        (("alice", "ages"), ("bob", "smokers"), ("carol", "old")), stated, strict=True
    ):
        assert errors(done, analyst, query)[0] == pytest.approx(expected, rel=0.2)
    for name, standing in done.certificate.analysts.items():
        assert found.preview.analysts[name].now == pytest.approx(standing.now)
    with pytest.raises(PlanError, match="brought epsilon 1/3"):
        dry_run(write("alice", "bob", "carol", alice="1/4"))
    assert done.spent == first.spent + Fraction(1, 4)


@pytest.mark.parametrize("mechanism", quick_first(1, ["waterfilling", "independent", "pareto"]))
def test_plan_shows_what_a_release_then_does(write, mechanism):
    release(write("alice", "bob", mechanism=mechanism))
    plan = write("alice", "bob", "carol", mechanism=mechanism)
    shown = json.loads(run("plan", plan.path, "--mechanism", mechanism).stdout)
    done = release(plan)
    late = shown["late"]
    assert (late["analysts"], late["charge"]) == (["carol"], "1/4")
    assert Fraction(late["charge"]) == done.measurement.epsilon
    previewed, certificate = shown["mechanisms"][mechanism], done.certificate
    assert [join["analysts"] for join in previewed["joins"]] == [["alice", "bob"], ["carol"]]
    for name, standing in certificate.analysts.items():
        found = previewed["analysts"][name]
        assert found["error"] == pytest.approx(standing.now)
        assert found["alone"] == pytest.approx(standing.alone)
    for name in ("alice", "bob"):
        changed = certificate.analysts[name].interference["carol"]
        assert previewed["interference_matrix"]["carol"][name] == pytest.approx(changed)
        assert changed <= 1 + 1e-9
    # Once it is released, the plan still shows the same.
    again = json.loads(run("plan", plan.path, "--mechanism", mechanism).stdout)
    assert again["mechanisms"] == shown["mechanisms"]


def test_what_late_analysts_add_is_searched_for_once_for_all_mechanisms_but_independent(
    write, monkeypatch, tmp_path
):
    monkeypatch.setenv("SQLMADP_CACHE", str(tmp_path / "strategies"))
    release(write("alice", "bob"))
    plan = write("alice", "bob", "carol")
    searched = []
    search = complement._chosen
    monkeypatch.setattr(
        complement, "_chosen", lambda *asked: searched.append(asked) or search(*asked)
    )
    previews = plan.preview("independent", "waterfilling", "identity", "utilitarian")
    assert len(searched) == 1
    apart, *together = (each.analysts["alice"] for each in previews.values())
    assert len({each.now for each in together}) == 1
    assert apart.now > together[0].now


def test_plan_says_whom_it_adds_to_what_and_for_how_much(write):
    release(write("alice", "bob"))
    plan = write("alice", "bob", "carol")
    text = CliRunner().invoke(main, ["plan", str(plan.path)]).stdout
    assert "This adds carol to the release of" in text
    assert "the charge is epsilon 1/4" in text


def test_plan_refuses_what_release_refuses_unless_it_is_to_measure_everything_anew(write):
    release(write("alice", "bob"))
    refused = run("plan", write("alice", "bob", "carol", alice="1/4").path)
    assert refused.exit_code == 1
    assert "brought epsilon 1/3" in refused.stderr
    anew = write("alice", "bob", "carol", alice="1/4", extra="late = false\n")
    shown = json.loads(run("plan", anew.path).stdout)
    assert "late" not in shown
    assert "joins" not in shown["mechanisms"]["waterfilling"]


@pytest.mark.slow
def test_a_changed_plan_is_previewed_as_if_nothing_had_been_released(write):
    release(write("alice", "bob"))
    plan = write("alice", "bob", "carol")
    for option in (["--without", "bob"], ["--share", "carol=1/2"], ["--epsilon", "2"]):
        shown = run("plan", plan.path, "--mechanism", "identity", *option)
        assert shown.exit_code == 0, shown.stderr
        assert "late" not in json.loads(shown.stdout)
    refused = run("plan", plan.path, "--mechanism", "identity", "--target-rmse", "old=1")
    assert refused.exit_code == 1
    assert "adds carol to the release of" in refused.stderr


def run(*arguments):
    return CliRunner().invoke(main, [*map(str, arguments), "--json"])


def test_explain_speaks_of_all_measurements(write):
    release(write("alice", "bob"))
    plan = write("alice", "bob", "carol")
    done = release(plan)
    explained = explain_text(plan, f"EXPLAIN {ALICE}", "alice")
    names = [name for name, _ in explained.columns]
    (row,) = explained.rows
    stated = np.sqrt(np.mean(np.square(errors(done, "alice", "ages"))))
    assert row[names.index("rmse")] == pytest.approx(stated)


@pytest.mark.slow
def test_several_may_join_one_after_the_other(write):
    release(write("alice"))
    release(write("alice", "bob"))
    done = release(write("alice", "carol", "bob", "dave"))
    assert [measurement.epsilon for measurement in done.measurements] == [
        Fraction(1, 3),
        Fraction(1, 6),
        Fraction(1, 4) + Fraction(1, 7),
    ]
    joins = done.certificate.joins
    assert [join.analysts for join in joins] == [("alice",), ("bob",), ("carol", "dave")]
    for earlier, later in itertools.pairwise(joins):
        for name, error in earlier.errors.items():
            assert later.errors[name] <= error * (1 + 1e-9)


@pytest.mark.slow
def test_a_late_analyst_may_cut_a_real_column_where_nobody_did(write):
    release(write("alice", "dave"))
    path = write("alice", "dave", "bob").path
    (path.parent / "bob.sql").write_text(
        "-- name: dear\nSELECT COUNT(*) AS n FROM visits WHERE cost > 700"
    )
    done = release(Plan.open(path))
    assert len(done.measurements) == 2
    assert len(done.rows("bob", "dear")) == 1
    assert len(done.rows("dave", "costly")) == 2


@pytest.mark.parametrize("mechanism", quick_first(1, ["utilitarian", "pareto", "ratchet"]))
def test_late_analysts_can_be_added_under_other_mechanisms_too(write, mechanism):
    release(write("alice", "bob", mechanism=mechanism))
    done = release(write("alice", "bob", "carol", mechanism=mechanism))
    assert done.spent == Fraction(3, 4)
    assert done.certificate.analysts["alice"].interference["carol"] <= 1 + 1e-9


@pytest.mark.slow
def test_under_independent_everybody_keeps_to_their_own(write):
    first = release(write("alice", "bob", mechanism="independent"))
    second = release(write("alice", "bob", "carol", mechanism="independent"))
    assert second.spent == Fraction(3, 4)
    assert second.rows("alice", "ages") == first.rows("alice", "ages")
    assert second.rows("bob", "smokers") == first.rows("bob", "smokers")
    assert second.certificate.analysts["alice"].interference == {"carol": pytest.approx(1)}
    assert second.certificate.analysts["carol"].ratio == pytest.approx(1)


def test_changed_epsilons_are_refused_with_what_to_write(plans, write):
    release(write("alice", "bob", alice="1/2", bob="1/2"))
    shared = plans.write({"alice": ALICE, "bob": BOB, "carol": CAROL}, epsilon="1")
    with pytest.raises(PlanError) as refused:
        release(Plan.open(shared))
    text = str(refused.value)
    assert "'alice' brought epsilon 1/2" in text
    assert "this plan says 1/3" in text
    assert 'epsilon = "1/2" under [analysts.alice], epsilon = "1/2" under [analysts.bob]' in text
    assert "late = false" in text
    done = release(write("alice", "bob", "carol", alice="1/2", bob="1/2"))
    assert done.spent == Fraction(5, 4)


def test_shares_may_say_the_same_as_epsilons(plans, write):
    release(write("alice", "bob", alice="1/2", bob="1/2"))
    shares = {"alice": "2/5", "bob": "2/5", "carol": "1/5"}
    path = plans.write({"alice": ALICE, "bob": BOB, "carol": CAROL}, epsilon="5/4", shares=shares)
    assert release(Plan.open(path)).spent == Fraction(5, 4)


def test_everything_is_measured_anew_if_the_plan_says_so(write):
    release(write("alice", "bob"))
    done = release(write("alice", "bob", "carol", extra="late = false\n"))
    assert len(done.measurements) == 1
    assert done.spent == Fraction(1, 2) + Fraction(3, 4)


def test_a_plan_that_asks_something_else_besides_is_a_new_release(write):
    release(write("alice", "bob"))
    path = write("alice", "bob", "carol").path
    (path.parent / "bob.sql").write_text("-- name: smokers\nSELECT COUNT(sex) AS n FROM visits")
    done = release(Plan.open(path))
    assert len(done.measurements) == 1
    assert done.spent == Fraction(1, 2) + Fraction(3, 4)


def test_a_late_analyst_whom_the_budget_cannot_cover_is_refused(write):
    release(write("alice", "bob", budget="4/5"))
    release(write("dave", budget="4/5"))
    with pytest.raises(BudgetExceededError, match="asks for epsilon 1/4"):
        release(write("alice", "bob", "carol", budget="4/5"))


@pytest.mark.slow
def test_the_readable_certificate_and_the_figures_list_each_join(write):
    release(write("alice", "bob"))
    path = str(write("alice", "bob", "carol").path)
    text = CliRunner().invoke(main, ["release", path]).stdout
    assert "errors after each join" in text
    assert "alice, bob" in text
    assert "nobody worse off because of somebody who joined after them" in text
    assert "non-interference" not in text
    figures = json.loads(CliRunner().invoke(main, ["release", path, "--json"]).stdout)
    joins = figures["certificate"]["joins"]
    assert [(join["analysts"], join["epsilon"]) for join in joins] == [
        (["alice", "bob"], "1/2"),
        (["carol"], "1/4"),
    ]


def test_ratchet_lists_the_join_of_every_analyst_and_keeps_their_order(write):
    path = write("alice", "bob", "carol", mechanism="ratchet").path
    done = release(Plan.open(path))
    joins = done.certificate.joins
    assert [join.analysts for join in joins] == [("alice",), ("bob",), ("carol",)]
    for earlier, later in itertools.pairwise(joins):
        for name, error in earlier.errors.items():
            assert later.errors[name] <= error * (1 + 1e-9)
    other = write("carol", "bob", "alice", mechanism="ratchet")
    assert done.asked.release_id != released_id(other)
    alike = [released_id(write(*names)) for names in (("alice", "bob"), ("bob", "alice"))]
    assert alike[0] == alike[1]


def released_id(plan):
    return BoundPlan.bind(plan).release_id


@pytest.mark.slow
@pytest.mark.statistical
def test_two_measurements_together_have_the_error_that_is_stated_and_no_other():
    domain = Domain(
        table="t", columns=(Column(name="a", type="integer", minimum=0, maximum=5, complete=True),)
    )
    cells = ("a",), (Partition.finest(6),)
    each = Rows(*cells, 3)
    sums = Rows.of(*cells, sparse.csr_array(np.tri(6, dtype=np.int64)))
    truth, draws = np.array([5, 0, 40, 7, 1, 300]), 20_000
    made = []
    for block, scale in ((each, 30.0), (sums, 4.0)):
        exact = np.repeat(block.matrix @ truth, draws)
        noisy = add_discrete_laplace(exact, scale).reshape(-1, draws)
        made.append(
            Measurement(
                release=str(scale),
                blocks=(block,),
                values=(noisy,),
                grains=(Fraction(1),),
                scales=(scale,),
                epsilon=Fraction(1),
                sensitivity=1,
                metadata={"cuts": {}},
            )
        )
    asked = Rows.of(*cells, sparse.csr_array(np.vstack([np.eye(6), np.ones((1, 6))])))
    estimate = Estimate.of(made, domain)
    found = ((estimate.answers(asked) - (asked.matrix @ truth)[:, None]) ** 2).mean(axis=1)
    np.testing.assert_allclose(found, estimate.rmse(asked) ** 2, rtol=0.12)
    for measurement in made:
        assert (estimate.rmse(asked) < Estimate.of([measurement], domain).rmse(asked)).all()
    # Weighed as if both had the same noise, the answers are worse than stated.
    alike = Estimate(domain, (each, sums), tuple(m.values[0].astype(float) for m in made), 1.0)
    wrong = ((alike.answers(asked) - (asked.matrix @ truth)[:, None]) ** 2).mean(axis=1)
    assert wrong.sum() > 1.3 * found.sum()
