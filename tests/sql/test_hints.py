"""Hints are copied and run: every statement that a refusal offers is itself accepted."""

import re
import shlex
import tomllib

import pytest
from click.testing import CliRunner

import sqlmadp
from sqlmadp.cli import main
from sqlmadp.errors import NotReleasedError, ProgrammingError, SqlError

SCHEMA = """
table = "Loans 2025"

[columns."Fine (EUR)"]
type = "real"
min = 0.0
max = 50.0

[columns."Home District"]
type = "category"
values = ["North", "South"]

[columns.order]
type = "integer"
min = 0
max = 99

[columns.'the "best" day']
type = "date"
min = 2025-03-01
max = 2025-03-31

[columns."Straße"]
type = "boolean"

[unit]
column = "Person ID"
max_records = 3

[public."All Districts"]
columns = ["Home District", "city"]
rows = [["North", "Bergen"], ["South", "Oslo"]]
"""

T = '"Loans 2025"'
REFUSED = {
    "rows": f"SELECT * FROM {T}",
    "some rows": f"SELECT * FROM {T} LIMIT 10",
    "no SELECT": f"DELETE FROM {T}",
    "pivot": f'PIVOT {T} ON "Home District" USING COUNT(*)',
    "pivot in FROM": f"""SELECT * FROM {T} PIVOT (COUNT(*) FOR "Home District" IN ('North'))""",
    "half a join": f'SELECT COUNT(*) FROM {T} JOIN "All Districts"',
    "a sum of counts": f'SELECT COUNT(*) / SUM(COUNT(*)) FROM {T} GROUP BY "order"',
    "half a quantile": f"SELECT PERCENTILE_CONT(0.5) FROM {T}",
    "distinct reals": f'SELECT COUNT(DISTINCT "Fine (EUR)") FROM {T}',
    "rows of columns": f'SELECT "order", "Straße" FROM {T}',
    "window": f"SELECT ROW_NUMBER() OVER () FROM {T}",
    "window of a count": f"SELECT COUNT(*) OVER () FROM {T}",
    "max": f'SELECT MAX("order") FROM {T}',
    "min": f"""SELECT min("the ""best"" day") FROM {T}""",
    "max of a real": f'SELECT MAX("Fine (EUR)") FROM {T}',
    "max of text": f'SELECT MAX("Home District") FROM {T}',
    "max of an expression": f'SELECT MAX("order" + 1) FROM {T}',
    "bool_and": f'SELECT BOOL_AND("Straße") FROM {T}',
    "first": f'SELECT FIRST("Home District") FROM {T}',
    "distinct": f'SELECT COUNT(DISTINCT "Home District") FROM {T}',
    "another aggregate": f"SELECT STRING_AGG(\"Home District\", ',') FROM {T}",
    "a real group": f'SELECT "Fine (EUR)", COUNT(*) FROM {T} GROUP BY 1',
    "a real sum": f'SELECT SUM("Fine (EUR)") FROM {T}',
    "a public subquery": f'SELECT COUNT(*) FROM {T} WHERE "Home District" IN '
    '(SELECT "Home District" FROM "All Districts")',
    "a join with itself": f'SELECT COUNT(*) FROM {T} a JOIN {T} b USING ("order")',
    "a join of all with all": f'SELECT COUNT(*) FROM {T} CROSS JOIN "All Districts"',
    "a join in the other order": f'SELECT COUNT(*) FROM "All Districts" LEFT JOIN {T} '
    'USING ("Home District")',
}


@pytest.fixture(scope="module")
def connection(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hints")
    (folder / "loans.toml").write_text(SCHEMA)
    (folder / "plan.toml").write_text(
        'schema = "loans.toml"\nsource = "loans.csv"\nepsilon = "1"\n[ledger]\npath = "l.ledger"\n'
        'budget = "1"\n[analysts.ana]\n'
    )
    with sqlmadp.connect(folder / "plan.toml", analyst="ana") as connection:
        yield connection


# What offers a statement, or does not: whatever it offers must be accepted.
D = '"the ""best"" day"'
MORE_REFUSED = [
    f"INSERT INTO {T} VALUES (1)",
    f'PIVOT {T} ON "Home District" USING COUNT(*)',
    f"""SELECT * FROM {T} PIVOT (COUNT(*) FOR "Home District" IN ('Mitte'))""",
    "SHOW TABLES",
    "SELECT 1",
    'SELECT COUNT(*) FROM "All Districts"',
    f"SELECT COUNT(*) FROM {T} USING SAMPLE 10",
    f"SELECT COUNT(*) FROM (SELECT * FROM {T} LIMIT 3)",
    f'SELECT COUNT(*) FROM {T} WHERE "order" > (SELECT AVG("order") FROM {T})',
    f'SELECT MEDIAN("Fine (EUR)") FROM {T}',
    f'SELECT STDDEV("Fine (EUR)") FROM {T}',
    f'SELECT CORR("Fine (EUR)", "order") FROM {T}',
    f'SELECT FIRST("Fine (EUR)") FROM {T}',
    f'SELECT COUNT(DISTINCT "Fine (EUR)") FROM {T}',
    f'SELECT ARG_MAX("order", "Fine (EUR)") FROM {T}',
    f'SELECT MAX("Person ID") FROM {T}',
    f"SELECT MAX({D}::VARCHAR) FROM {T}",
    f'SELECT ANY_VALUE("Straße") FROM {T}',
    f'SELECT ARRAY_AGG("order") FROM {T}',
    f'SELECT APPROX_COUNT_DISTINCT("order") FROM {T}',
    f'SELECT SUM("Home District") FROM {T}',
    f"SELECT AVG({D}) FROM {T}",
    f"SELECT SUM(*) FROM {T}",
    f"SELECT COUNT(*) FROM {T} WHERE COUNT(*) > 3",
    f'SELECT COUNT(*) FROM {T} HAVING MAX("order") > 3',
    f'SELECT "order", COUNT(*) FROM {T} GROUP BY "Home District"',
    f'SELECT COUNT(*) FROM {T} WHERE "Fine (EUR)" > "order"',
    "SELECT COUNT(*) FROM read_csv('x')",
    f"SELECT COUNT(*) FROM {T} WHERE random() > 0.5",
    f"SELECT COUNT(*) FROM {T} WHERE {D} > today()",
    f"SELECT COUNT(*) FROM {T} WHERE \"Home District\" COLLATE nocase = 'north'",
    f'SELECT COUNT(*) FROM {T} FULL JOIN "All Districts" USING ("Home District")',
    f'SELECT COUNT(*) FROM {T} NATURAL JOIN "All Districts"',
    f'SELECT COUNT(*) FROM {T} JOIN "All Districts" ON "order" > 3',
    f'SELECT COUNT(*) FROM {T} JOIN "All Districts" ON TRUE JOIN {T} x ON TRUE',
    f'SELECT RANK() OVER (ORDER BY "order") FROM {T}',
    f"SELECT chr(COUNT(*)::INTEGER) FROM {T}",
]


def problems(connection, sql):
    with pytest.raises(SqlError) as refused:
        connection.execute(sql)
    return refused.value.problems


def offered(hint):
    """Return the statements in a hint: each ends with a full stop or a colon."""
    return re.findall(r"(?:: |as in )(SELECT .*?)(?=\.(?:\s|$)|: every)", hint)


@pytest.mark.parametrize("sql", REFUSED.values(), ids=REFUSED)
def test_every_statement_that_a_hint_offers_is_accepted(connection, sql):
    found = [one for problem in problems(connection, sql) for one in offered(problem.hint)]
    assert found
    for statement in found:
        assert connection.execute(statement).description


def test_a_hint_speaks_of_the_column_that_was_asked_about(connection):
    for asked in ("COUNT(DISTINCT {})", "STRING_AGG({}, ',')", "ANY_VALUE({})"):
        (problem,) = problems(connection, f"SELECT {asked.format(D)} FROM {T}")
        assert f"SELECT {D}, COUNT(*) FROM {T} GROUP BY {D}" in problem.hint
    (problem,) = problems(connection, f"""PIVOT {T} ON "Home District" USING COUNT(*)""")
    assert "\"Home District\" = 'North') AS North, COUNT(*)" in problem.hint


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        (f"SELECT COUNT(*) FORM {T}", "Did you mean FROM?"),
        (f'SELECT COUNT(*) FROM {T} GRUOP BY "order"', "Did you mean GROUP?"),
        (f'SELECT "order", COUNT(*) AS n FROM {T} WHERE n > 3 GROUP BY 1', "belong in HAVING"),
        (f'SELECT QUANTILE_CONT("order", 50) FROM {T}', "between 0 and 1"),
        (f'SELECT x."order", COUNT(*) FROM {T} GROUP BY 1', f"Tables of this FROM: {T}."),
        (f"SELECT `order`, COUNT(*) FROM {T} GROUP BY 1", "double quotes, not in backquotes"),
        (f'SELECT COUNT(*) FROM {T} WHERE "Home District" = "order_"', "text is written 'order_'"),
    ],
)
def test_ordinary_slips_are_told_what_to_type(connection, sql, hint):
    (problem,) = problems(connection, sql)
    assert hint in problem.hint


def test_a_dialect_is_named_only_if_what_it_reads_is_a_query_to_duckdb(connection):
    (problem,) = problems(connection, f"SELECT COUNT(*) INTO x FROM {T}")
    assert "dialect" not in problem.hint


@pytest.mark.parametrize("front", ["", "EXPLAIN ", "HAND IN AS it "])
@pytest.mark.parametrize("sql", MORE_REFUSED)
def test_whatever_statement_a_hint_offers_is_accepted_wherever_it_was_refused(
    connection, sql, front
):
    for problem in problems(connection, f"{front}{sql}"):
        assert "..." not in problem.hint
        for statement in offered(problem.hint):
            assert connection.execute(statement).description


@pytest.mark.parametrize(
    ("written", "meant"),
    [('"Home Distrct"', '"Home District"'), ("odrer", '"order"'), ("Strase", '"Straße"')],
)
def test_a_name_that_is_meant_is_shown_as_sql_needs_it(connection, written, meant):
    (problem,) = problems(connection, f"SELECT COUNT(*) FROM {T} WHERE {written} IS NULL")
    assert f"Did you mean {meant}?" in problem.hint or meant in problem.hint
    connection.execute(f"SELECT COUNT(*) FROM {T} WHERE {meant} IS NULL")


def test_a_table_that_is_meant_is_shown_as_sql_needs_it(connection):
    (problem,) = problems(connection, "SELECT COUNT(*) FROM loans")
    assert f'The declared table is {T}. Public tables: "All Districts".' in problem.hint


def test_names_that_lack_quotes_are_shown_with_them(connection):
    (problem,) = problems(
        connection, "SELECT Home District, COUNT(*) FROM Loans 2025 GROUP BY Home District"
    )
    assert problem.hint == (
        'Such names are written in double quotes: "Loans 2025", "Home District".'
    )
    (problem,) = problems(connection, f'SELECT "Home District" COUNT(*) FROM {T}')
    assert problem.hint == ""


def test_the_column_of_the_unit_is_not_taken_for_text(connection):
    (problem,) = problems(connection, f"SELECT COUNT(*) FROM {T} WHERE \"Person ID\" = 'P00001'")
    assert "column 'Person ID' cannot be queried" in problem.message
    assert "whom this schema protects" in problem.hint


def test_quotes_are_explained_after_a_comparison_only(connection):
    (problem,) = problems(connection, f'SELECT COUNT(*) FROM {T} WHERE "Home District" = "Nor\'s"')
    assert problem.hint == "Double quotes name a column; text is written 'Nor''s'."
    (problem,) = problems(connection, f'SELECT COUNT(*) FROM {T} WHERE "zzz" IS NULL')
    assert problem.hint.startswith('Declared: "Fine (EUR)", "Home District", "order"')


def test_values_without_a_place_are_answered_with_what_a_place_looks_like(connection):
    with pytest.raises(ProgrammingError, match="the statement has no placeholders") as refused:
        connection.execute(f'SELECT COUNT(*) FROM {T} WHERE "order" > %s', [3])
    assert "Placeholders are ?, $1 or $name (not %s or :name)." in refused.value.hint


def test_explain_works_on_a_connection_too(connection):
    cursor = connection.execute(f'EXPLAIN SELECT "order", COUNT(*) AS n FROM {T} GROUP BY 1')
    assert [column[0] for column in cursor.description][:2] == ["column", "scope"]


# What is offered in other places: commands for a shell, tables for the plan, HAND IN.


@pytest.fixture
def awkward(tmp_path):
    """A plan whose file and analyst have names that need quotes."""
    folder = tmp_path / "Plans & more"
    folder.mkdir()
    (folder / "loans.toml").write_text(SCHEMA)
    (folder / "loans.csv").write_text(
        'Person ID,Fine (EUR),Home District,order,"the ""best"" day",Straße\n'
        "a,1.5,North,3,2025-03-02,true\n"
    )
    plan = folder / "it's the plan.toml"
    plan.write_text(
        'schema = "loans.toml"\nsource = "loans.csv"\nepsilon = "1"\n[ledger]\n'
        'path = "l.ledger"\nbudget = "1"\n[analysts."Ärzte & Co"]\n'
    )
    return plan


ANALYST = "Ärzte & Co"


def run(command):
    return CliRunner().invoke(main, shlex.split(command)[1:])


def test_what_to_type_before_the_release_can_be_typed(awkward):
    sql = f'SELECT "Home District", COUNT(*) AS n FROM {T} GROUP BY 1'
    with sqlmadp.connect(awkward, analyst=ANALYST, stage=False) as connection:
        with pytest.raises(NotReleasedError) as pending:
            connection.execute(sql).fetchall()
        typed = re.findall(r"^    (HAND IN .*)$", str(pending.value), re.MULTILINE)
        assert typed == [f"HAND IN {sql}"]
        assert connection.execute(typed[0]).fetchone()[1] == "handed in now"
        (command,) = re.findall(r"the curator runs: (.*)$", str(pending.value), re.MULTILINE)
    answer = run(f"sqlmadp query {shlex.quote(str(awkward))} {shlex.quote(sql)}")
    assert answer.exit_code == 1
    assert re.findall(r"The curator runs: (.*)$", answer.output, re.MULTILINE) == [command]
    assert run(command).exit_code == 0
    with sqlmadp.connect(awkward, analyst=ANALYST) as connection:
        assert len(connection.execute(sql).fetchall()) == 2


def test_the_table_of_an_analyst_is_named_as_toml_needs_it(awkward):
    with pytest.raises(SqlError) as refused:
        sqlmadp.Plan.open(awkward).release()
    (table,) = re.findall(r"in (\[analysts.*?\])", refused.value.problems[0].hint)
    assert tomllib.loads(f'{table}\nqueries = "own.sql"')["analysts"] == {
        ANALYST: {"queries": "own.sql"}
    }


def test_whose_statement_it_is_has_to_be_said(awkward):
    sql = shlex.quote(f"HAND IN SELECT COUNT(*) FROM {T}")
    answer = run(f"sqlmadp query {shlex.quote(str(awkward))} {sql}")
    assert answer.exit_code == 1
    assert f"--analyst NAME, one of {ANALYST}" in answer.output
