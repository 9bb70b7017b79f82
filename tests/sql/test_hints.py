"""Hints are copied and run: every statement that a refusal offers is itself accepted."""

import re

import pytest

import sqlmadp
from sqlmadp.errors import ProgrammingError, SqlError

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
        connection.rollback()


def problems(connection, sql):
    with pytest.raises(SqlError) as refused:
        connection.execute(sql)
    return refused.value.problems


def offered(hint):
    """Return the statements in a hint: each ends with a full stop or a colon."""
    return re.findall(r"SELECT .*?(?=\.(?:\s|$)|: every)", hint)


@pytest.mark.parametrize("sql", REFUSED.values(), ids=REFUSED)
def test_every_statement_that_a_hint_offers_is_accepted(connection, sql):
    found = [one for problem in problems(connection, sql) for one in offered(problem.hint)]
    assert found
    for statement in found:
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
