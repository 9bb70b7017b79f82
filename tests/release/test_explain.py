"""EXPLAIN and --error: what is said about a statement's errors, before and after the release."""

import json
import math

import pytest
from click.testing import CliRunner

from sqlmadp.answer.explain import OTHERS
from sqlmadp.answer.sizes import INTERVAL
from sqlmadp.cli import main

ALICE = """
-- name: by_age
SELECT age, COUNT(*) AS n FROM visits GROUP BY age ORDER BY age;
-- name: smokers
SELECT COUNT_IF(smoker) AS smokers, COUNT(*) AS n, 100.0 * COUNT_IF(smoker) / COUNT(*) AS share
FROM visits
"""


@pytest.fixture
def path(plans):
    return plans.write({"alice": ALICE, "bob": "SELECT COUNT(*) AS n FROM visits"})


def run(*arguments):
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return result.exit_code, result.output


def result_of(*arguments):
    code, output = run(*arguments, "--json")
    assert code == 0, output
    return json.loads(output[output.index("{") :])


def explained(path, sql, *further):
    found = result_of("query", path, f"EXPLAIN {sql}", *further)["result"]
    assert found["columns"] == ["column", "scope", "cells", "groups", "answers", "rmse", "note"]
    return {row[0]: row[1:] for row in found["rows"]}


def test_explain_shows_scope_cells_groups_and_answers_and_needs_no_release(path, plans):
    rows = explained(path, "SELECT age, COUNT(*) AS n FROM visits GROUP BY age")
    scope, cells, groups, answers, rmse, note = rows["n"]
    assert (scope, cells, groups, answers, note) == ("age", 21, 20, 20, "known in advance")
    assert rmse > 0
    assert rows.keys() == {"n"}
    assert not (plans.folder / "visits.ledger").exists()


def test_explain_shows_three_digits_to_people_and_all_to_programs(path):
    sql = "SELECT age, COUNT(*) AS n FROM visits GROUP BY age"
    exact = explained(path, sql)["n"][-2]
    shown = run("query", path, f"EXPLAIN {sql}")[1]
    assert f" {exact:.3g}  known in advance" in shown
    assert len(str(exact)) > len(f"{exact:.3g}")


def test_explain_says_the_error_that_the_release_states(path):
    *_, before, note = explained(path, "SELECT age, 2 * COUNT(*) AS m FROM visits GROUP BY age")[
        "m"
    ]
    assert note == "known in advance"
    assert run("release", path)[0] == 0
    after = result_of("query", path, "SELECT age, 2 * COUNT(*) AS m FROM visits GROUP BY age")
    errors = after["result"]["rmse"]["m"]
    assert before == pytest.approx(math.sqrt(sum(e * e for e in errors) / len(errors)))


def test_explain_says_which_errors_depend_on_the_answers_and_which_queries_are_not_covered(path):
    share = "SELECT 100.0 * COUNT_IF(smoker) / COUNT(*) AS share FROM visits"
    *_, rmse, note = explained(path, share)["share"]
    assert rmse is None
    assert note == "available after the release: it depends on the answers"
    *_, rmse, note = explained(path, "SELECT day, COUNT(*) AS n FROM visits GROUP BY day")["n"]
    assert rmse is None
    assert note.startswith("not covered: column 'day' is not part of what the release measured")


def test_explain_says_of_each_column_whether_it_is_covered(path):
    rows = explained(path, "SELECT COUNT(*) AS n, COUNT_IF(sex = 'm') AS m FROM visits")
    assert rows["n"][-2:] == [None, OTHERS]
    assert rows["m"][-1].startswith("not covered: column 'sex'")


def test_explain_of_an_analyst_reads_what_that_analyst_reads(plans):
    path = plans.write(
        {"alice": ALICE, "bob": "SELECT COUNT(*) AS n FROM visits"}, mechanism="independent"
    )
    total = "SELECT COUNT(*) AS n FROM visits"
    everyone = explained(path, total)["n"][-2]
    bob = explained(path, total, "--analyst", "bob")["n"][-2]
    assert everyone < bob
    code, output = run("query", path, f"EXPLAIN {total}", "--analyst", "nobody")
    assert code == 1
    assert "no analyst 'nobody'" in output


def test_explain_of_a_wrong_statement_is_refused_like_the_statement(path):
    code, output = run("query", path, "EXPLAIN SELECT MAX(age) FROM visits")
    assert code == 1
    assert "depends on a single record" in output
    assert "query:1:16" in output


def test_error_adds_a_standard_error_and_an_interval_after_every_answer(path):
    found = result_of("release", path, "--error")["analysts"]["alice"]
    assert found["by_age"]["columns"] == ["age", "n", "n_stderr", "n_low", "n_high"]
    for _, n, stderr, low, high in found["by_age"]["rows"]:
        assert stderr > 0
        assert (low, high) == pytest.approx((n - INTERVAL * stderr, n + INTERVAL * stderr))
    assert found["smokers"]["columns"] == [
        f"{name}{part}"
        for name in ("smokers", "n", "share")
        for part in ("", "_stderr", "_low", "_high")
    ]


def test_error_works_for_files_and_for_further_queries(path, plans):
    assert run("release", path, "--error", "--out", plans.folder / "out")[0] == 0
    header = (plans.folder / "out" / "alice" / "by_age.csv").read_text().splitlines()[0]
    assert header == "age,n,n_stderr,n_low,n_high"
    plain = result_of("query", path, "SELECT COUNT(*) AS n FROM visits")["result"]
    stated = result_of("query", path, "SELECT COUNT(*) AS n FROM visits", "--error")["result"]
    assert plain["columns"] == ["n"]
    assert stated["columns"] == ["n", "n_stderr", "n_low", "n_high"]
    assert stated["rows"][0][1] == plain["rmse"]["n"][0]
