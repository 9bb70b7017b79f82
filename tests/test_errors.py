"""Errors for programs: every one carries a code, a context and a hint."""

import inspect
import json
from fractions import Fraction

import pytest
from click.testing import CliRunner

from sqlmadp import errors
from sqlmadp.cli import main
from sqlmadp.errors import BudgetExceededError, Error, InputError, Problem, SqlError
from sqlmadp.files.plan import Plan

KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Error)]


def test_every_kind_of_error_has_a_code_of_its_own():
    own = [kind for kind in KINDS if "code" in vars(kind)]
    assert len({kind.code for kind in own}) == len(own)
    assert {kind.__name__ for kind in KINDS if kind not in own} == {
        "PlanError",  # Theirs are the codes of their problems.
        "SchemaError",
        "SqlError",
    }


@pytest.mark.parametrize(
    "kind", [k for k in KINDS if not issubclass(k, InputError | BudgetExceededError)]
)
def test_an_error_carries_what_it_is_given_and_is_empty_otherwise(kind):
    plain = kind("what went wrong")
    assert (str(plain), plain.hint, dict(plain.context)) == ("what went wrong", "", {})
    told = kind("what went wrong", hint="Do this.", context={"file": "a"})
    assert (told.code, told.hint, told.context) == (kind.code, "Do this.", {"file": "a"})


def test_an_exceeded_budget_is_reported_with_its_numbers():
    error = BudgetExceededError(budget=Fraction(2), spent=Fraction(3, 2), asked=Fraction(1))
    assert error.code == "budget-exceeded"
    assert error.context == {"budget": 2, "spent": Fraction(3, 2), "asked": 1, "left": 1 / 2}
    assert error.hint == "Lower epsilon in the plan to at most 1/2."


def test_mistakes_in_files_have_the_code_the_context_and_the_hint_of_the_first():
    first = Problem(file="a.sql", line=3, column=8, code="rows", message="no", hint="Count.")
    error = SqlError([first, Problem(file="b.sql", code="syntax", message="what?")])
    assert (error.code, error.hint) == ("rows", "Count.")
    assert error.context == {"file": "a.sql", "line": 3, "column": 8}
    assert [problem.code for problem in error.problems] == ["rows", "syntax"]
    assert error.problems[1].context == {"file": "b.sql"}


def test_a_refusal_gives_a_program_what_it_gives_a_person(plans):
    path = plans.write({"ann": "SELECT COUNT(*)\nFROM visits WHERE agee > 3"})
    with pytest.raises(SqlError) as caught:
        Plan.open(path).preview("identity")
    error = caught.value
    assert error.code == "unknown-column"
    assert error.hint == "Did you mean age?"
    assert (error.context["line"], error.context["column"]) == (2, 19)
    assert error.context["excerpt"] == "FROM visits WHERE agee > 3\n" + " " * 18 + "^^^^"
    result = CliRunner().invoke(main, ["check", str(path), "--json"])
    (told,) = json.loads(result.stdout)["errors"]
    assert told["code"] == error.code
    assert told["hint"] == error.hint
    assert told["excerpt"] == error.context["excerpt"]


def test_an_analyst_who_counts_nothing_is_refused_with_that_reason(plans):
    path = plans.write(
        {"ann": "SELECT COUNT(*) FROM visits", "bob": "SELECT DISTINCT sex FROM visits"}
    )
    with pytest.raises(SqlError) as caught:
        Plan.open(path).preview("identity")
    assert caught.value.code == "nothing-counted"
    both = plans.write({"ann": "SELECT DISTINCT sex FROM visits; SELECT COUNT(*) FROM visits"})
    assert Plan.open(both).release().rows("ann", "q1").tuples() == [("f",), ("m",), (None,)]


LONG = ["n" * 90_000, "é" * 50_000, "\U0001f600" * 20_000, "'\"`\n" * 9_000]


@pytest.mark.parametrize("name", LONG)
def test_a_message_takes_at_most_two_kilobytes_whatever_is_quoted(name):
    plain = Error(f"there is no {name!r} here", hint=f"Did you mean {name}?")
    assert len(str(plain).encode()) <= 2048
    assert len(plain.hint.encode()) <= 2048
    assert str(plain).startswith("there is no ")
    assert str(plain).endswith(" here")
    problem = Problem(
        file=name,
        line=10**6,
        column=10**6,
        code="rows",
        message=f"there is no {name!r} here",
        hint=f"Did you mean {name}?",
        excerpt=f"{name[:200]}\n{'^' * 200}",
    )
    assert len(str(problem).encode()) <= 2048
    assert "there is no " in str(problem)
    assert "Did you mean " in str(problem)


def test_all_mistakes_are_listed_however_many_there_are():
    problems = [Problem(file="a.sql", code="rows", message=f"mistake {n}") for n in range(500)]
    told = str(SqlError(problems))
    assert all(f"mistake {n}" in told.split("\n\n")[n] for n in range(500))


@pytest.mark.parametrize(
    "statement",
    [
        'SELECT COUNT(*) FROM visits WHERE "{}" = 1',
        "SELECT COUNT(*) FROM visits WHERE age = '{}'",
        "SELECT COUNT(*) FROM visits WHERE CAST('{}' AS INTEGER) = age",
        'SELECT COUNT(*) FROM "{}"',
        'SELECT "{}"(age), COUNT(*) FROM visits',
        'SELECT COUNT(*) AS "{0}", COUNT(*) AS "{0}", "{0}" + 1 FROM visits',
        'SELECT CAST(COUNT(*) AS "{}") FROM visits',
        "SELECT MAX('{}') FROM visits",
        "SELECT COUNT(*) FROM visits WHERE ${}",
        "SELECT COUNT(*) FROM visits WHERE age = 1 {}",
        "-- name: {}\nSELECT COUNT(*) FROM visits",
        "-- weight: {}\nSELECT COUNT(*) FROM visits",
        "-- dialect: {}\nSELECT COUNT(*) FROM visits",
        "-- dialect: postgres\nSELECT COUNT(*) FROM visits WHERE \"{}\" = '{}'",
    ],
)
@pytest.mark.parametrize("name", ["n" * 40_000, "\U0001f600" * 9_000])
def test_a_refusal_fits_two_kilobytes(plans, statement, name):
    path = plans.write({"ann": statement.replace("{}", name).replace("{0}", name)})
    with pytest.raises(Error) as caught:
        Plan.open(path).preview("identity")
    problems = getattr(caught.value, "problems", (caught.value,))
    assert all(len(str(problem).encode()) <= 2048 for problem in problems)


def test_messages_about_long_names_and_paths_fit_two_kilobytes(plans):
    path = plans.write({"ann": "SELECT COUNT(*) FROM visits"})
    written = path.read_text()
    for line in (
        f'mechanism = "{"m" * 50_000}"',
        f"{'k' * 50_000} = 1",
        f'epsilon = "{"9" * 5_000}x"',
    ):
        key = line.partition(" ")[0]
        kept = [old for old in written.splitlines() if not old.startswith(f"{key} ")]
        path.write_text("\n".join([line, *kept]))
        with pytest.raises(Error) as caught:
            Plan.open(path)
        problems = getattr(caught.value, "problems", (caught.value,))
        assert all(len(str(problem).encode()) <= 2048 for problem in problems)
