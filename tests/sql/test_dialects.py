"""Dialects: a plan, an analyst, a file, a connection and a query each name the one they use."""

import json

import pytest
from click.testing import CliRunner
from people_table import DOMAIN

import sqlmadp
from sqlmadp.bind.bind import bind
from sqlmadp.bind.evaluate import Evaluator
from sqlmadp.cli import main
from sqlmadp.errors import PlanError, SqlError
from sqlmadp.files.plan import Plan
from sqlmadp.release.preview import explain_text
from sqlmadp.sql.dialects import RULES, dialect_names, kind_of_dialect
from sqlmadp.sql.statements import Statement, split

SAME = [
    ("bigquery", "SELECT COUNTIF(age > 1) FROM `people`", "SELECT COUNT_IF(age > 1) FROM people"),
    ("snowflake", "SELECT SUM(IFF(age > 1, 1, 0)) FROM people", ""),
    ("mysql", "SELECT COUNT(*) FROM `people` WHERE IFNULL(level, 1) = 1", ""),
    ("tsql", "SELECT TOP 2 sex, COUNT(*) AS n FROM people GROUP BY sex ORDER BY n DESC", ""),
    ("spark", "SELECT sex, COUNT(*) FROM people WHERE age BETWEEN 1 AND 3 GROUP BY sex", ""),
    ("oracle", "SELECT COUNT(*) FROM people WHERE NVL(level, 2) IN (1, 2)", ""),
    (
        "sqlite",
        "SELECT CASE WHEN age < 2 THEN 'a' ELSE 'b' END AS k, COUNT(*) FROM people GROUP BY 1",
        "",
    ),
    ("postgres", "SELECT EXTRACT(month FROM day) AS m, COUNT(*) FROM people GROUP BY 1", ""),
    ("postgres", "SELECT SUM(1.0 * age) / SUM(level) AS r FROM people", ""),
    (
        "postgres",
        "SELECT percentile_cont(0.25) WITHIN GROUP (ORDER BY age) AS q1, "
        "percentile_disc(0.75) WITHIN GROUP (ORDER BY age) AS q3 FROM people",
        "SELECT QUANTILE_CONT(age, 0.25) AS q1, QUANTILE_DISC(age, 0.75) AS q3 FROM people",
    ),
    (
        "bigquery",
        "SELECT EXTRACT(MONTH FROM day) AS m, AVG(1.0 * age) FROM people GROUP BY 1",
        "SELECT EXTRACT(MONTH FROM day) AS m, AVG(1.0 * age) FROM people GROUP BY 1",
    ),
    ("mysql", "SELECT YEAR(day) AS y, COUNT(*) FROM people GROUP BY 1", ""),
    ("tsql", "SELECT sex, 1.0 * SUM(age) / COUNT(age) AS mean FROM people GROUP BY sex", ""),
    ("tsql", "SELECT MONTH(day) AS m, COUNT(*) FROM people GROUP BY MONTH(day)", ""),
]
DIFFERENT = [
    ("spark", "SELECT COUNT(*) FROM people WHERE dayofweek(day) = 1"),
    ("spark", "SELECT COUNT(*) FROM people WHERE CAST(income AS INT) = 2"),
    ("spark", "SELECT COUNT(*) FROM people WHERE substring(sex, 0, 1) = 'm'"),
    ("mysql", "SELECT COUNT(*) FROM people WHERE DATEDIFF(day, '2020-01-01') > 3"),
    ("sqlite", "SELECT COUNT(*) FROM people WHERE sex LIKE 'M'"),
    ("tsql", "SELECT COUNT(*) FROM people WHERE LEN(sex) = 1"),
    ("tsql", "SELECT COUNT(*) FROM people WHERE sex + 'x' = 'mx'"),
    ("mysql", "SELECT COUNT(*) FROM people WHERE day - DATE '2020-01-01' > 30"),
    ("bigquery", "SELECT COUNT(*) FROM people WHERE day + 3 = DATE '2020-01-04'"),
    ("bigquery", "SELECT COUNT(*) FROM people WHERE REGEXP_CONTAINS(sex, r'm')"),
    ("spark", "SELECT sex, COUNT(*) AS number, AVG(age) FROM people GROUP BY sex"),
    ("tsql", "SELECT DATEPART(month, day) AS m, SUM(age) / COUNT(*) FROM people GROUP BY 1"),
    ("tsql", "SELECT COUNT(*) AS n FROM people GROUP BY DATEPART(month, day) / 4"),
    ("postgres", "SELECT sex, COUNT(*) AS nnnn, SUM(age) / COUNT(*) FROM people GROUP BY sex"),
    ("snowflake", "SELECT COUNT(*) FROM people WHERE DATE_TRUNC('week', day) = '2020-01-06'"),
]


def bound(sql: str, dialect: str):
    return bind(Statement("a.sql", "q1", sql, dialect=dialect), Evaluator(DOMAIN))


@pytest.mark.parametrize(("dialect", "sql", "same"), SAME)
def test_what_every_dialect_means_is_bound_and_shown(dialect, sql, same):
    query = bound(sql, dialect)
    assert query.read_as
    (note,) = [note for note in query.notes if note.code == "read-as"]
    assert note.message.startswith("read as: SELECT")
    assert kind_of_dialect(dialect) in note.hint
    if same:
        ours, theirs = query.aggregates, bound(same, "duckdb").aggregates
        assert [b.matrix.toarray().tolist() for b in ours] == [
            b.matrix.toarray().tolist() for b in theirs
        ]


@pytest.mark.parametrize(("dialect", "sql"), DIFFERENT)
def test_what_dialects_do_not_share_is_refused_with_its_place(dialect, sql):
    with pytest.raises(SqlError) as caught:
        bound(sql, dialect)
    (problem,) = caught.value.problems
    assert problem.code == "dialect"
    assert dialect in problem.message
    assert problem.column > 30
    assert problem.hint


def test_a_name_that_is_not_there_is_underlined_in_the_analysts_own_text():
    sql = "SELECT `sex`, COUNTIF(agee > 1)\nFROM `people` GROUP BY `sex`"
    with pytest.raises(SqlError) as caught:
        bound(sql, "bigquery")
    (problem,) = caught.value.problems
    assert (problem.line, problem.column) == (1, 23)
    assert problem.excerpt.endswith("^^^^")


def test_a_syntax_error_that_another_dialect_would_accept_says_so():
    with pytest.raises(SqlError) as caught:
        bound("SELECT TOP 3 sex, COUNT(*) FROM people GROUP BY sex", "duckdb")
    assert "'-- dialect: tsql'" in caught.value.problems[0].hint


def test_a_syntax_error_of_another_dialect_is_reported_in_our_words():
    with pytest.raises(SqlError) as caught:
        bound("SELECT COUNT(*) FROM people WHERE GROUP BY", "postgres")
    (problem,) = caught.value.problems
    assert problem.code == "syntax"
    assert "read as postgres" in problem.message


def test_the_first_line_of_a_file_names_its_dialect_and_its_tokenizer_splits_it():
    text = "-- dialect: mysql\n-- name: a\nSELECT `a;b`, COUNT(*) FROM t;\n-- weight: 2\nSELECT 1"
    first, second = split(text, file="a.sql", dialect="postgres")
    assert (first.name, first.text, first.dialect) == (
        "a",
        "SELECT `a;b`, COUNT(*) FROM t",
        "mysql",
    )
    assert (second.name, second.dialect, second.weight) == ("q2", "mysql", 2)


def test_a_comment_above_a_statement_names_its_dialect_alone():
    text = "SELECT 1;\n-- dialect: postgres\nSELECT 2;\nSELECT 3"
    assert [each.dialect for each in split(text, file="a.sql")] == ["duckdb", "postgres", "duckdb"]


def test_an_unknown_dialect_is_refused_with_the_nearest():
    with pytest.raises(SqlError, match="Did you mean 'postgres'"):
        bound("SELECT COUNT(*) FROM people", "postgre")


def test_every_dialect_of_sqlglot_is_known_and_two_are_verified():
    assert {"postgres", "bigquery", "snowflake", "tsql", "mysql", "spark"} <= set(dialect_names())
    verified = [name for name in dialect_names() if kind_of_dialect(name) == "verified"]
    assert verified == ["duckdb", "postgres"]
    assert len(RULES) > 50


POSTGRES = "SELECT sex, COUNT(*) * 10 / 3 AS n FROM visits GROUP BY sex"


@pytest.fixture
def plan(plans):
    path = plans.write({"ann": POSTGRES, "bob": "SELECT COUNT(*) FROM visits"})
    text = path.read_text().replace("[analysts.ann]", '[analysts.ann]\ndialect = "postgres"')
    path.write_text(text)
    return path


def test_a_plan_and_an_analyst_name_a_dialect(plan):
    opened = Plan.open(plan)
    assert {each.name: each.dialect for each in opened.analysts} == {
        "ann": "postgres",
        "bob": "duckdb",
    }
    plan.write_text('dialect = "spark"\n' + plan.read_text())
    opened = Plan.open(plan)
    assert opened.dialect == "spark"
    assert {each.dialect for each in opened.analysts} == {"postgres", "spark"}


def test_an_unknown_dialect_in_a_plan_is_refused_with_all_names(plan):
    plan.write_text('dialect = "postgrs"\n' + plan.read_text())
    with pytest.raises(PlanError, match="postgres"):
        Plan.open(plan)


def test_check_and_explain_show_how_a_statement_was_read(plan):
    result = CliRunner().invoke(main, ["check", str(plan)])
    assert result.exit_code == 0, result.output
    assert "read as: SELECT sex, (COUNT(*) * 10) // 3" in " ".join(result.output.split())
    figures = json.loads(CliRunner().invoke(main, ["check", str(plan), "--json"]).stdout)
    assert any(note["code"] == "read-as" for note in figures["notes"])
    explained = explain_text(Plan.open(plan), f"EXPLAIN {POSTGRES}", dialect="postgres")
    assert any("read as:" in str(row[-1]) for row in explained.rows)


def test_a_connection_and_a_query_take_a_dialect(plan):
    with sqlmadp.connect(plan, analyst="bob", dialect="postgres") as connection:
        connection.execute("HAND IN SELECT COUNT(*) / 2 AS n FROM visits")
    assert Plan.open(plan).staged_path("bob").read_text().count("-- dialect: postgres") == 1
    release = Plan.open(plan).release()
    (row,) = release.query("SELECT COUNT(*) / 2 AS n FROM visits", dialect="postgres").rows
    assert isinstance(row[0], int)
    (row,) = release.query("SELECT COUNT(*) / 2 AS n FROM visits").rows
    assert isinstance(row[0], float)
    arguments = [
        "query",
        str(plan),
        "SELECT COUNT(*) / 2 AS n FROM visits",
        "--dialect",
        "postgres",
    ]
    assert CliRunner().invoke(main, arguments).exit_code == 0
