"""The command line: what it prints, where, and with which exit code."""

import json
import re
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from sqlmadp.cli import main

TOTAL = "SELECT COUNT(*) AS n FROM visits"
COMMANDS = ("check", "plan", "release", "query", "staged", "ledger")


def run(*arguments: str | Path):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def figures(*arguments: str | Path):
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_help_names_every_command_and_each_has_help_of_its_own():
    text = run("--help").stdout
    for command in COMMANDS:
        assert command in text
        assert len(run(command, "--help").stdout.splitlines()) > 5


def test_the_module_runs_as_a_program(plans):
    path = plans.write({"alice": TOTAL})
    done = subprocess.run(
        [sys.executable, "-m", "sqlmadp", "check", path], capture_output=True, text=True, check=True
    )
    assert "1 query of 1 analyst is in order" in done.stdout
    assert done.stderr == ""


def test_bad_usage_is_exit_code_2(plans):
    assert run("release").exit_code == 2
    assert run("plan", plans.write({"alice": TOTAL}), "--mechanism", "magic").exit_code == 2
    assert run("nonsense").exit_code == 2


EXAMPLE = Path(__file__).parents[2] / "examples" / "covid"


@pytest.fixture
def mechanisms(tmp_path):
    """What ``plan --json`` says about the paper's running example, with squared errors as there."""
    schema = EXAMPLE.parent.parent / "schemas" / "covid_deaths.toml"
    text = (EXAMPLE / "plan.toml").read_text()
    text = text.replace("../../schemas/covid_deaths.toml", str(schema))
    for file in EXAMPLE.glob("*.sql"):
        text = text.replace(f'"{file.name}"', f'"{file}"')
    plan = tmp_path / "plan.toml"
    plan.write_text(f'measure = "squared"\n{text}')
    return figures("plan", plan, "--compare")["mechanisms"]


def errors(mechanism):
    return {name: each["error"] for name, each in mechanism["analysts"].items()}


class TestPaperExample:
    def test_alone_the_errors_are_those_of_the_paper(self, mechanisms):
        analysts = mechanisms["waterfilling"]["analysts"]
        assert analysts["alice"]["alone"] == pytest.approx(198, rel=1e-3)
        assert analysts["carol"]["alone"] == pytest.approx(18, rel=1e-3)

    def test_identity_gives_22_to_each(self, mechanisms):
        expected = {"alice": 22, "bob": 22, "carol": 22}
        assert errors(mechanisms["identity"]) == pytest.approx(expected, rel=1e-3)

    def test_waterfilling_gives_46_and_13(self, mechanisms):
        expected = {"alice": 46.2, "bob": 46.2, "carol": 13.2}
        assert errors(mechanisms["waterfilling"]) == pytest.approx(expected, rel=1e-3)

    def test_utilitarian_violates_the_sharing_incentive_and_waterfilling_does_not(self, mechanisms):
        assert mechanisms["utilitarian"]["sharing_ratio"] > 1
        assert mechanisms["waterfilling"]["sharing_ratio"] <= 1
        assert mechanisms["waterfilling"]["interference"] <= 1 + 1e-9

    def test_all_five_mechanisms_are_there_with_every_figure(self, mechanisms):
        assert set(mechanisms) >= {
            "independent",
            "identity",
            "utilitarian",
            "weighted_utilitarian",
            "waterfilling",
        }
        for each in mechanisms.values():
            assert {"total_error", "sharing_ratio", "interference", "analysts"} <= set(each)
            assert {"share", "error", "alone", "ratio", "queries"} <= set(each["analysts"]["alice"])
            assert {"name", "rows", "rmse"} <= set(each["analysts"]["alice"]["queries"][0])

    def test_by_itself_the_plans_mechanism_is_shown_in_units_of_asking_one_by_one(self):
        (shown,) = figures("plan", EXAMPLE / "plan.toml")["mechanisms"].values()
        assert shown["relative"]
        expected = {"alice": 46.2 / 198, "bob": 46.2 / 198, "carol": 13.2 / 18}
        assert errors(shown) == pytest.approx(expected, rel=1e-3)


def test_plan_shows_mechanisms_side_by_side_and_reads_no_data(plans):
    path = plans.write({"alice": TOTAL, "bob": "SELECT age, COUNT(*) FROM visits GROUP BY age"})
    (plans.folder / "visits.parquet").unlink()
    result = run("plan", path, "--mechanism", "waterfilling", "--mechanism", "identity")
    assert result.exit_code == 0
    assert "waterfilling" in result.stdout
    assert "identity" in result.stdout
    assert "independent" not in result.stdout
    assert not (plans.folder / "visits.ledger").exists()


def test_release_prints_rows_and_what_was_spent(plans):
    path = plans.write({"alice": "-- name: all\n" + TOTAL})
    result = run("release", path)
    assert result.exit_code == 0
    assert "alice  all" in result.stdout
    assert "spent 1 in all, left 1" in result.stdout
    assert run("release", path).stdout == result.stdout


def test_release_json_has_columns_rows_and_errors(plans):
    path = plans.write({"alice": TOTAL}, epsilon="1/2")
    released = figures("release", path)
    assert (released["epsilon"], released["spent"], released["left"]) == ("1/2", "1/2", "3/2")
    query = released["analysts"]["alice"]["q1"]
    assert query["columns"] == ["n"]
    assert len(query["rows"]) == 1
    # One query, epsilon 1/2: noise of scale 2, variance 8.
    assert query["rmse"]["n"] == pytest.approx([8**0.5], rel=1e-6)


@pytest.mark.parametrize("form", ["csv", "parquet", "json"])
def test_release_writes_a_file_a_query(plans, form):
    sql = "-- name: days\nSELECT day, sex, COUNT(*) AS n FROM visits GROUP BY day, sex"
    path = plans.write({"alice": sql})
    out = plans.folder / "out"
    assert run("release", path, "--out", out, "--format", form).exit_code == 0
    file = out / "alice" / f"days.{form}"
    rows = figures("release", path)["analysts"]["alice"]["days"]["rows"]
    if form == "json":
        read = json.loads(file.read_text())["rows"]
    else:
        read = duckdb.execute(f"SELECT CAST(day AS VARCHAR), sex, n FROM '{file}'").fetchall()
    assert [list(row) for row in read] == rows


def test_query_answers_free_and_refuses_with_what_is_missing(plans):
    path = plans.write({"alice": "SELECT age // 10 AS decade, COUNT(*) FROM visits GROUP BY 1"})
    assert run("query", path, TOTAL).exit_code == 1
    run("release", path)
    answered = figures("query", path, TOTAL)
    assert answered["result"]["columns"] == ["n"]
    assert answered["spent"] == "1"
    refused = run("query", path, "SELECT COUNT(*) FROM visits WHERE age < 7")
    assert refused.exit_code == 1
    assert "does not tell the values 0, 1, 2, 3, 4, ... of 'age' apart" in refused.stderr
    assert refused.stdout == ""


@pytest.mark.parametrize("options", [[], ["--analyst", "alice"]])
@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT COUNT(* FROM visits", "syntax error"),
        ("SELECT nothing, COUNT(*) FROM visits GROUP BY 1", "'nothing'"),
    ],
)
def test_before_the_release_a_statement_s_own_mistake_is_what_is_said(plans, sql, message, options):
    path = plans.write({"alice": TOTAL})
    refused = run("query", path, sql, *options)
    assert refused.exit_code == 1
    assert message in refused.stderr
    assert "pending" not in refused.stderr
    assert "is pending" in run("query", path, TOTAL, *options).stderr


def test_staged_lists_and_withdraws_until_the_release_is_made(plans):
    path = plans.write({"alice": TOTAL, "bob": TOTAL})
    by_sex = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"
    of_alice = ("staged", path, "--analyst", "alice")
    assert run("query", path, f"HAND IN AS first {by_sex}", "--analyst", "alice").exit_code == 0
    assert run("query", path, f"HAND IN AS second {TOTAL}", "--analyst", "alice").exit_code == 0
    listed = figures(*of_alice)["statements"]
    assert [each["name"] for each in listed] == ["q1", "first", "second"]
    assert [each["file"] for each in listed] == ["alice.sql", *["plan.staged/alice.sql"] * 2]
    withdrawn = run(*of_alice, "--withdraw", "first")
    assert withdrawn.exit_code == 0
    assert re.search(r"^first +withdrawn now ", withdrawn.stdout, re.MULTILINE)
    assert run("release", path).exit_code == 0
    refused = run(*of_alice, "--withdraw", "second")
    assert refused.exit_code == 1
    assert "'second' cannot be withdrawn from it" in refused.stderr
    assert {(each["name"], each["state"]) for each in figures(*of_alice)["statements"]} == {
        ("q1", "released"),
        ("second", "released"),
    }
    assert run("release", path).exit_code == 0


def test_staged_needs_an_analyst_of_the_plan(plans):
    path = plans.write({"alice": TOTAL})
    assert run("staged", path).exit_code == 2
    refused = run("staged", path, "--analyst", "eve")
    assert refused.exit_code == 1
    assert "there are alice" in refused.stderr


def test_ledger_lists_every_charge_by_plan_or_by_file(plans):
    path = plans.write({"alice": TOTAL}, epsilon="1/3")
    assert run("ledger", path).exit_code == 1
    run("release", path)
    for place in (path, plans.folder / "visits.ledger"):
        shown = figures("ledger", place)
        assert (shown["budget"], shown["spent"], shown["left"]) == ("2", "1/3", "5/3")
        (charge,) = shown["charges"]
        assert (charge["epsilon"], charge["mechanism"]) == ("1/3", "waterfilling")
        assert charge["analysts"] == ["alice"]
    assert "5/3" in run("ledger", path).stdout


class TestBadInput:
    """Each mistake: a clear message on stderr, exit code 1, nothing spent, no traceback."""

    @pytest.mark.parametrize("command", ["check", "plan", "release"])
    @pytest.mark.parametrize(
        ("sql", "parts"),
        [
            ("SELEC COUNT(*) FROM visits", ["alice.sql:1:1", "^"]),
            ("SELECT COUNT(*) FROM visits WHERE agee > 3", ["alice.sql:1:35", "agee", "age"]),
            ("SELECT COUNT(*) FROM visit", ["alice.sql:1:", "visit", "visits"]),
            ("SELECT * FROM visits", ["alice.sql:1:"]),
            ("SELECT age FROM visits", ["alice.sql:1:"]),
            ("DROP TABLE visits", ["alice.sql:1:"]),
            ("CREATE TABLE t (i INTEGER)", ["alice.sql:1:"]),
            ("", ["alice.sql", "no statement"]),
            ("SELECT COUNT(*) FROM visits WHERE random() < 0.5", ["random"]),
            ("SELECT COUNT(*) FROM read_csv('/etc/passwd')", ["alice.sql:1:"]),
        ],
    )
    def test_a_bad_statement(self, plans, command, sql, parts):
        result = run(command, plans.write({"alice": sql}))
        self.is_a_refusal(plans, result, parts)

    def test_all_broken_statements_of_all_files_are_reported(self, plans):
        alice = "SELEC 1;\nSELECT COUNT(*) FROM visits WHERE agee > 3;\nSELECT age FROM visits"
        path = plans.write({"alice": alice, "bob": "SELECT MAX(age) FROM people;\nDROP TABLE x"})
        result = run("release", path)
        places = ["alice.sql:1:", "alice.sql:2:", "alice.sql:3:", "bob.sql:1:", "bob.sql:2:"]
        self.is_a_refusal(plans, result, places)
        errors = json.loads(run("check", path, "--json").stdout)
        assert errors["ok"] is False
        assert {(Path(e["file"]).name, e["line"]) for e in errors["errors"]} >= {
            ("alice.sql", 1),
            ("alice.sql", 2),
            ("alice.sql", 3),
            ("bob.sql", 1),
            ("bob.sql", 2),
        }

    def test_a_name_given_twice_hides_no_other_mistake(self, plans):
        alice = (
            "-- name: a\nSELECT COUNT(*) FROM visits WHERE age > $low;\n"
            "-- name: a\nSELECT MAX(age) FROM visits;\nSELECT agee FROM visits"
        )
        result = run("check", plans.write({"alice": alice}))
        parts = ["alice.sql:2:", "$low", "alice.sql:4:", "MAX(age)", "used twice", "alice.sql:5:"]
        self.is_a_refusal(plans, result, parts)
        lines = [int(n) for n in re.findall(r"alice\.sql:(\d+):", result.stderr)]
        assert lines == sorted(lines)

    @pytest.mark.parametrize(
        ("change", "parts"),
        [
            ({"epsilon": "0"}, ["epsilon"]),
            ({"epsilon": "-1"}, ["epsilon"]),
            ({"epsilon": "much"}, ["epsilon", "much"]),
            ({"epsilon": "5"}, ["epsilon", "5", "2"]),
            ({"shares": {"alice": "1/2", "bob": "1/3"}}, ["share", "5/6"]),
            ({"schema": "nowhere.toml"}, ["nowhere.toml"]),
            ({"mechanism": "waterfiling"}, ["waterfilling"]),
        ],
    )
    def test_a_bad_plan(self, plans, change, parts):
        path = plans.write({"alice": TOTAL, "bob": TOTAL}, **change)
        for command in ("check", "plan", "release"):
            self.is_a_refusal(plans, run(command, path), parts)

    def test_two_analysts_with_one_name(self, plans):
        path = plans.write({"alice": TOTAL})
        path.write_text(path.read_text() + '[analysts.alice]\nqueries = "alice.sql"\n')
        self.is_a_refusal(plans, run("release", path), ["alice"])
        plans.write({"alice": TOTAL, "Alice": TOTAL})
        self.is_a_refusal(plans, run("release", path), ["Alice", "alice"])

    def test_a_missing_query_file_plan_or_source(self, plans):
        path = plans.write({"alice": TOTAL})
        (plans.folder / "alice.sql").unlink()
        self.is_a_refusal(plans, run("release", path), ["alice.sql"])
        self.is_a_refusal(plans, run("release", plans.folder / "other.toml"), ["other.toml"])
        path = plans.write({"alice": TOTAL}, source="gone.parquet")
        self.is_a_refusal(plans, run("release", path), ["gone.parquet"], ledger=True)
        self.is_a_refusal(plans, run("check", path), ["gone.parquet"], ledger=True)

    def test_a_schema_that_does_not_match_the_table(self, plans):
        path = plans.write({"alice": TOTAL})
        schema = plans.folder / "visits.toml"
        schema.write_text(
            schema.read_text().replace("columns.smoker", "columns.smokes")
            + '[columns.height]\ntype = "integer"\nmin = 0\nmax = 9\n'
        )
        for command in ("check", "release"):
            parts = ["smokes", "height"]
            self.is_a_refusal(plans, run(command, path), parts, ledger=True)

    def test_a_schema_with_several_mistakes(self, plans):
        path = plans.write({"alice": TOTAL})
        (plans.folder / "visits.toml").write_text(
            'table = "visits"\n[columns.sex]\ntype = "category"\nvalues = ["f", "m", "f"]\n'
            '[columns.age]\ntype = "integer"\nmin = 9\nmax = 1\n[columns.x]\ntype = "colour"\n'
        )
        parts = ["columns.sex.values", "columns.age", "columns.x.type", "category"]
        self.is_a_refusal(plans, run("check", path), parts)

    def test_over_the_budget_left(self, plans):
        run("release", plans.write({"alice": TOTAL}, epsilon="3/2"))
        result = run("release", plans.write({"alice": TOTAL}, epsilon="1"))
        assert result.exit_code == 1
        for part in ("budget 2", "spent 3/2", "epsilon 1", "1/2 left"):
            assert part in result.stderr
        assert figures("ledger", plans.path)["spent"] == "3/2"

    def is_a_refusal(self, plans, result, parts, *, ledger: bool = False):
        assert result.exit_code == 1, result.output
        assert result.exception is None or isinstance(result.exception, SystemExit)
        for part in parts:
            assert part in result.stderr, result.stderr
        if ledger and (plans.folder / "visits.ledger").exists():
            assert figures("ledger", plans.folder / "visits.ledger")["spent"] == "0"
        else:
            assert not (plans.folder / "visits.ledger").exists()


def test_check_lists_mistakes_of_plan_schema_and_statements_together(tmp_path):
    (tmp_path / "t.csv").write_text("sex\nf\n")
    (tmp_path / "t.toml").write_text(
        'table = "t"\n[columns.sex]\ntype = "category"\nvalues = ["f", "m"]\n'
    )
    (tmp_path / "a.sql").write_text("SELECT sxe, COUNT(*) FROM t GROUP BY 1;")
    (tmp_path / "plan.toml").write_text(
        'schema = "t.toml"\nsource = "t.csv"\nepsilon = "2"\n[ledger]\npath = "l"\n'
        'budget = "1"\n[analysts.a]\nqueries = "a.sql"\n[analysts.b]\nqueries = "b.sql"\n'
    )
    found = run("check", tmp_path / "plan.toml")
    assert found.exit_code == 1
    for part in ("above ledger.budget", '"b.sql", which is no file', "Did you mean sex?"):
        assert part in found.stderr
    assert "handed in" not in found.stderr  # b has a file; its name is wrong.
