"""Post-processing as a plan's option: the same release, the same charge, other counts."""

import json

import pytest
from click.testing import CliRunner

from sqlmadp.cli import main
from sqlmadp.errors import NotSupportedError, PlanError
from sqlmadp.files.plan import Plan
from sqlmadp.release.release import release

QUESTIONS = {
    "alice": "-- name: ages\nSELECT age, COUNT(*) AS n FROM visits WHERE age > 14 GROUP BY age;"
    "-- name: old\nSELECT COUNT(*) AS n FROM visits WHERE age > 14",
    "bob": "-- name: both\nSELECT sex, smoker, COUNT(*) AS n FROM visits GROUP BY ALL;"
    "-- name: smokers\nSELECT smoker, COUNT(*) AS n FROM visits GROUP BY smoker;"
    "-- name: total\nSELECT COUNT(*) AS n FROM visits",
}


def with_options(path, **options):
    """Write options into a plan, in place of those that it has."""
    lines = [
        line
        for line in path.read_text().splitlines()
        if not line.startswith(("nonnegative", "consistent"))
    ]
    added = [f"{name} = {value}" for name, value in options.items()]
    path.write_text("\n".join(added + lines) + "\n")
    return Plan.open(path)


def counts(done, analyst, query):
    return [row[-1] for row in done.rows(analyst, query)]


def test_a_changed_option_is_no_new_release_and_no_new_charge(plans):
    path = plans.write(QUESTIONS, epsilon="1/20")
    first = release(Plan.open(path))
    for options in ({"nonnegative": "true"}, {"consistent": "true"}, {}):
        again = release(with_options(path, **options))
        assert again.asked.release_id == first.asked.release_id
        assert again.measurement.encode() == first.measurement.encode()
        assert again.spent == first.spent
    assert again.results() == first.results()


def test_whole_counts_add_up_over_all_statements_of_all_analysts(plans):
    path = plans.write(QUESTIONS, epsilon="1/20")
    for options in ({"consistent": "true"}, {"consistent": "true", "nonnegative": "true"}):
        done = release(with_options(path, **options))
        (total,) = counts(done, "bob", "total")
        assert sum(counts(done, "bob", "both")) == total
        assert sum(counts(done, "bob", "smokers")) == total
        by_smoker = {row[0]: row[1] for row in done.rows("bob", "smokers")}
        for smoker, count in by_smoker.items():
            parts = [row[2] for row in done.rows("bob", "both") if row[1] == smoker]
            assert sum(parts) == count
        assert [sum(counts(done, "alice", "ages"))] == counts(done, "alice", "old")
        others = done.query("SELECT COUNT(*) FROM visits WHERE age <= 14 OR age IS NULL")
        (later,) = [row[0] for row in others]
        assert later + counts(done, "alice", "old")[0] == total


def test_no_count_is_below_zero(plans):
    every_age = {"carol": "-- name: ages\nSELECT age, COUNT(*) AS n FROM visits GROUP BY age"}
    path = plans.write(QUESTIONS | every_age, epsilon="1/1000")
    plain = release(Plan.open(path))
    # The noise is some thousand records: 20 counts are never all above it.
    assert min(counts(plain, "carol", "ages")) < 0
    done = release(with_options(path, nonnegative="true"))
    for analyst, results in done.results().items():
        for query in results:
            assert min(counts(done, analyst, query)) >= 0


def test_a_result_says_what_its_stated_errors_mean(plans):
    path = plans.write(QUESTIONS, epsilon="1/20")
    assert "post_processing" not in figures(path)
    with_options(path, nonnegative="true", consistent="true")
    processed = figures(path)["post_processing"]
    assert processed["nonnegative"] is processed["consistent"] is True
    assert "biased upwards" in processed["errors"]
    for command in (["release"], ["query", "SELECT COUNT(*) FROM visits"]):
        arguments = [command[0], str(path), *command[1:]]
        assert processed["errors"] in CliRunner().invoke(main, arguments).stdout


def test_rounding_leaves_stated_errors_as_they_are(plans):
    path = plans.write(QUESTIONS, epsilon="1/20")
    plain = figures(path)
    with_options(path, consistent="true")
    for query in ("both", "smokers", "total"):
        one, other = (e["analysts"]["bob"][query]["rmse"]["n"] for e in (plain, figures(path)))
        assert one == pytest.approx(other, rel=1e-9)


def figures(path):
    return json.loads(CliRunner().invoke(main, ["release", str(path), "--json"]).stdout)


def test_an_option_is_true_or_false(plans):
    with pytest.raises(PlanError, match="true or false, without quotes"):
        with_options(plans.write(QUESTIONS), nonnegative='"yes"')


def test_what_is_too_large_to_process_is_refused_before_anything_is_spent(plans):
    fine = "SELECT age, day, {}, COUNT(*) AS n FROM visits GROUP BY ALL;"
    path = plans.write({"ann": fine.format("sex, smoker"), "bob": fine.format("cost > 9, sex")})
    with pytest.raises(NotSupportedError, match="they change no release"):
        release(with_options(path, consistent="true"))
    assert release(with_options(path)).spent == 1
