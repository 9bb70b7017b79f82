"""Errors for programs: every one carries a code, a context and a hint."""

import inspect
import json
from fractions import Fraction

import pytest
from click.testing import CliRunner

from sqlmadp import errors
from sqlmadp.cli import main
from sqlmadp.errors import BudgetExceededError, Error, InputError, Problem, SqlError
from sqlmadp.plan import Plan

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


def test_a_budget_that_is_exceeded_tells_the_numbers():
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


def test_a_refused_statement_tells_a_program_what_it_tells_a_person(plans):
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


def test_an_analyst_who_counts_nothing_is_told_so(plans):
    path = plans.write(
        {"ann": "SELECT COUNT(*) FROM visits", "bob": "SELECT DISTINCT sex FROM visits"}
    )
    with pytest.raises(SqlError) as caught:
        Plan.open(path).preview("identity")
    assert caught.value.code == "nothing-counted"
    both = plans.write({"ann": "SELECT DISTINCT sex FROM visits; SELECT COUNT(*) FROM visits"})
    assert Plan.open(both).release().rows("ann", "q1").tuples() == [("f",), ("m",), (None,)]
