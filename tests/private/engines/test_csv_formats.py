"""CSV files of other separators, dates and decimals, as the plan says they are."""

import pytest
from click.testing import CliRunner

from sqlmadp.cli import main
from sqlmadp.errors import PlanError
from sqlmadp.files.plan import Plan

SCHEMA = """table = "loans"
[columns.day]
type = "date"
min = 2025-03-01
max = 2025-03-31
[columns."Größe"]
type = "real"
min = 0.0
max = 10.0
[columns.city]
type = "category"
values = ["Köln", "Bonn"]
"""
LINES = "day;Größe;city\n28.03.2025;1,5;Köln\n29.03.2025;2,25;Bonn\n2025-03-30;1.5;Köln\n"
SQL = """
-- name: known
SELECT COUNT(day), COUNT("Größe"), COUNT(city), COUNT(*) FROM loans;
-- name: small
SELECT COUNT(*) AS n FROM loans WHERE "Größe" < 2;
-- name: first
SELECT COUNT(*) AS n FROM loans WHERE day = DATE '2025-03-28' AND city = 'Köln'
"""
FORMAT = {"separator": ";", "date_format": "%d.%m.%Y", "decimal": ","}


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a CSV file, and a plan that says how it is written."""

    def run(**form):
        (tmp_path / "loans.csv").write_bytes(LINES.encode())
        (tmp_path / "loans.toml").write_text(SCHEMA)
        (tmp_path / "ana.sql").write_text(SQL)
        lines = "".join(f'{name} = "{value}"\n' for name, value in form.items())
        (tmp_path / "plan.toml").write_text(
            'schema = "loans.toml"\nsource = "loans.csv"\nepsilon = "1000000000"\n[csv]\n'
            f'{lines}[ledger]\npath = "l.ledger"\nbudget = "1000000000"\n'
            '[analysts.ana]\nqueries = "ana.sql"\n'
        )
        return tmp_path / "plan.toml"

    return run


def test_a_file_is_read_as_the_plan_says_it_is_written(write):
    done = Plan.open(write(**FORMAT)).release()
    # The last line has a date and a number of another format: both are read as NULL.
    assert list(done.rows("ana", "known")) == [(2, 2, 3, 3)]
    assert list(done.rows("ana", "small")) == [(1,)]
    assert list(done.rows("ana", "first")) == [(1,)]


def test_a_file_of_one_column_is_questioned(write, tmp_path):
    path = write()
    (tmp_path / "loans.toml").write_text('table = "loans"\n[columns.day]\ntype = "boolean"\n')
    checked = CliRunner().invoke(main, ["check", str(path)])
    assert checked.exit_code == 1
    assert "the file has a single column" in checked.output
    assert 'separator = ";"' in checked.output
    draft = CliRunner().invoke(main, ["schema", "draft", str(tmp_path / "loans.csv"), "loans"])
    assert "This file has a single column" in draft.output
    again = CliRunner().invoke(
        main, ["schema", "draft", str(tmp_path / "loans.csv"), "loans", "--separator", ";"]
    )
    assert '[columns."Größe"]' in again.output
    form = ["--separator", ";", "--date-format", "%d.%m.%Y", "--decimal", ",", "--trusted-values"]
    (tmp_path / "loans.csv").write_text("day;fine\n28.03.2025;1,5\n;2,25\n", encoding="utf-8")
    typed = CliRunner().invoke(
        main, ["schema", "draft", str(tmp_path / "loans.csv"), "loans", *form]
    )
    assert "min = 2025-03-28" in typed.output
    assert "min = 1.5" in typed.output
    assert "single column" not in again.output


def test_a_wrong_separator_is_one_problem_and_not_one_per_column(write):
    checked = CliRunner().invoke(main, ["check", str(write())])
    assert checked.exit_code == 1
    assert checked.output.count("loans.csv") == 1 + checked.output.count("note: ")
    assert "the file has a single column, but the schema declares 3" in checked.output
    assert 'separator = ";" under [csv]' in checked.output


def test_dates_whose_format_nobody_has_named_are_noted(write, tmp_path):
    checked = CliRunner().invoke(main, ["check", str(write(separator=";"))])
    assert checked.exit_code == 0
    assert "dates in 'day' are read as 2025-03-28" in checked.output
    assert 'date_format = "%d.%m.%Y" under [csv]' in checked.output
    named = CliRunner().invoke(main, ["check", str(write(separator=";", date_format="%d.%m.%Y"))])
    assert "are read as" not in named.output
    schema = ["schema", "check", str(tmp_path / "loans.toml"), "--separator", ";"]
    beside = CliRunner().invoke(main, [*schema, "--source", str(tmp_path / "loans.csv")])
    assert beside.exit_code == 0
    assert "dates in 'day' are read as 2025-03-28" in beside.output


@pytest.mark.parametrize(
    ("form", "allowed"),
    [
        ({"separator": ";;"}, "one character"),
        ({"encoding": "latin-1"}, "iconv -f latin1 -t utf-8"),
        ({"date_format": "day"}, "a format, such as"),
        ({"decimal": "x"}, '"." or ","'),
        ({"decimal": ","}, "another character than separator"),
        ({"quote": "x"}, "separator, encoding, date_format, decimal"),
    ],
)
def test_a_format_that_does_not_exist_is_refused(write, form, allowed):
    path = write(**form)
    with pytest.raises(PlanError) as refused:
        Plan.open(path)
    assert allowed in str(refused.value)
