from fractions import Fraction

import pytest

from sqlmadp.errors import SqlError
from sqlmadp.sql.limits import DEFAULT
from sqlmadp.sql.statements import Statement, characters, split


def codes(text: str) -> list[str]:
    with pytest.raises(SqlError) as caught:
        split(text, file="a.sql")
    return [problem.code for problem in caught.value.problems]


def test_statements_are_split_at_semicolons_outside_strings_and_comments():
    text = "SELECT ';' -- ; \n, $$;$$ /* ; */ ; SELECT 2;;"
    assert [s.text for s in split(text, file="a.sql")] == [
        "SELECT ';' -- ; \n, $$;$$ /* ; */",
        "SELECT 2",
    ]


def test_a_comment_above_a_statement_names_it_and_others_are_numbered_by_place():
    text = "SELECT 1;\n-- name: adults\n-- those of age\nSELECT 2; SELECT 3 -- name: none\n;"
    assert [s.name for s in split(text, file="a.sql")] == ["q1", "adults", "q3"]


def test_names_that_are_no_file_names_or_come_twice_are_refused():
    assert codes("-- name: a b\nSELECT 1; -- name: ../x\nSELECT 2") == ["bad-name", "bad-name"]
    assert codes("-- name: Q2\nSELECT 1; SELECT 2") == ["duplicate-name"]


@pytest.mark.parametrize("text", ["", "  \n", "-- nothing here", ";;", "/* SELECT 1; */"])
def test_a_file_without_a_statement_is_refused(text):
    assert codes(text) == ["no-statement"]


def test_a_statement_that_is_too_long_is_refused_with_the_limit():
    long = "SELECT " + "1" * DEFAULT.characters
    with pytest.raises(SqlError, match="at most 100,000"):
        split(long, file="a.sql")


def test_a_problem_points_into_the_file_past_accents_tabs_and_lines():
    text = "SELECT 1;\n\n\tSELECT 'é', wrong\n FROM t;"
    statement = split(text, file="a.sql")[1]
    span = characters(statement.text, (statement.text.encode().index(b"wrong"), 5))
    problem = statement.problem("code", "no such thing", span=span)
    assert (problem.line, problem.column) == (3, 14)
    assert problem.excerpt == "\tSELECT 'é', wrong\n\t            ^^^^^"


def test_a_problem_without_a_span_underlines_the_first_line():
    problem = Statement("a.sql", "q1", "SELECT 1\nFROM t").problem("code", "no")
    assert problem.excerpt == "SELECT 1\n^^^^^^^^"


def test_only_the_part_of_a_very_long_line_around_the_span_is_shown():
    statement = Statement("a.sql", "q1", "SELECT " + "1+" * 5000 + "wrong")
    problem = statement.problem("code", "no", span=(10007, 5))
    line, marks = problem.excerpt.splitlines()
    assert len(line) < 250
    assert line[marks.index("^") :] == "wrong"


def test_a_weight_above_a_statement_is_its_own():
    text = "-- name: a\n-- weight: 4\nSELECT 1;\n-- weight: 1/3\nSELECT 2;\nSELECT 3"
    assert [s.weight for s in split(text, file="a.sql")] == [4, Fraction(1, 3), 1]


@pytest.mark.parametrize("weight", ["0", "-1", "many", "1/0", "1e3", ""])
def test_a_weight_that_is_no_number_above_0_is_refused(weight):
    with pytest.raises(SqlError, match="cannot be the weight"):
        split(f"-- weight: {weight}\nSELECT 1", file="a.sql")
