from datetime import date

import duckdb
import pytest

from sqlmadp.errors import SqlError
from sqlmadp.sql.statements import split, with_parameters


def text(sql: str, values) -> str:
    (statement,) = split(sql, file="a.sql")
    return with_parameters(statement, values).text


def value(sql: str, values) -> object:
    """Return DuckDB's rows of a statement with its values."""
    return duckdb.execute(text(sql, values)).fetchone()


def test_question_marks_take_values_in_order():
    assert value("SELECT ? , 'what?' , ?", [1, "it's"]) == (1, "what?", "it's")


def test_a_name_takes_its_value_wherever_it_stands():
    assert value("SELECT $low + $low, $WHO", {"low": 3, "who": None, "more": 1}) == (6, None)


@pytest.mark.parametrize("given", [True, -5, 0.1, date(2024, 2, 29), ["a", "b"], "x'); DROP --"])
def test_a_value_becomes_a_literal_of_its_own_type(given):
    assert value("SELECT ?", [given]) == (given,)


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("SELECT ?", []),
        ("SELECT ?", [1, 2]),
        ("SELECT $low", {"high": 1}),
        ("SELECT ?", [object()]),
    ],
)
def test_values_that_do_not_fit_are_refused(sql, values):
    with pytest.raises(SqlError) as caught:
        text(sql, values)
    assert [problem.code for problem in caught.value.problems] == ["parameter"]


def test_mistakes_are_shown_in_the_statement_with_its_values():
    (_, statement) = split("SELECT 1;\nSELECT $y +\n frob($x)", file="a.sql")
    changed = with_parameters(statement, {"x": "long value", "y": 2})
    place = changed.text.index("frob")
    problem = changed.problem("code", "message", span=(place, 4))
    assert problem.line == 3
    assert "long value" in problem.excerpt
