"""What ± covers is said wherever it is shown, with units and without."""

import json

import pytest
from click.testing import CliRunner

from sqlmadp.cli import main
from sqlmadp.files.plan import Plan
from sqlmadp.show.report import write_report

SQL = "-- name: sexes\nSELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"
NOISE = "± is one standard error of the noise, for the records that were included"
WITH_UNIT = "at most 3 records per 'age' are counted; records without a 'age' are not counted"


@pytest.fixture
def path(plans, request):
    """Return a plan; ``unit`` declares whose the records are, and nothing is complete."""
    schema = plans.folder / "visits.toml"
    text = schema.read_text().replace("complete = true\n", "")
    if request.param == "unit":
        text += '[unit]\ncolumn = "age"\nmax_records = 3\n'
    schema.write_text(text)
    return plans.write({"alice": SQL})


def said(*arguments):
    result = CliRunner().invoke(main, [*map(str, arguments)])
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


def report_of(path):
    write_report(Plan.open(path), path.parent / "report.html")
    return (path.parent / "report.html").read_text()


@pytest.mark.parametrize("path", ["unit"], indirect=True)
def test_with_units_everything_says_that_records_were_left_out(path):
    printed = said("release", path)
    assert f"{NOISE}. It does not cover records that were not: {WITH_UNIT}." in printed
    assert "So counts can be lower than in the table." in printed
    certificate = json.loads(said("release", path, "--json"))["certificate"]
    assert WITH_UNIT in certificate["error_meaning"]
    page = report_of(path).replace("&#x27;", "'").replace("&#39;", "'")
    assert f"that all records are counted: {WITH_UNIT}" in page
    assert "± does not include this" in page
    assert "full protection for a person with several records" not in page
    assert "hold the true answer" not in page
    assert "95% intervals for the count of the records that were included" in page


@pytest.mark.parametrize("path", ["unit"], indirect=True)
def test_a_further_query_says_what_its_error_covers_too(path):
    said("release", path)
    query = ["query", str(path), "SELECT COUNT(*) AS n FROM visits"]
    noted = CliRunner().invoke(main, query).stderr
    assert f"{NOISE}. It does not cover records that were not: {WITH_UNIT}." in noted
    assert WITH_UNIT in json.loads(said(*query, "--json"))["error_meaning"]
    assert CliRunner().invoke(main, [*query, "--quiet"]).stderr == ""


@pytest.mark.parametrize("path", ["record"], indirect=True)
def test_without_units_and_promises_all_records_are_included(path):
    printed = said("release", path)
    assert f"{NOISE}: all records of the table." in printed
    page = report_of(path)
    assert "full protection for a person with several records" in page
    assert "that all records are counted" not in page


def test_a_promise_of_the_schema_is_named(plans):
    path = plans.write({"alice": SQL})
    assert "no record has NULL or an undeclared value in 'smoker'" in said("release", path)


@pytest.mark.parametrize("path", ["record"], indirect=True)
def test_intervals_are_columns_of_every_output_that_asks_for_them(path):
    pytest.importorskip("pandas")
    names = ["sex", "n", "n_stderr", "n_low", "n_high"]
    assert " ".join(names) in said("release", path, "--error")
    (rows,) = json.loads(said("release", path, "--error", "--json"))["analysts"]["alice"].values()
    assert rows["columns"] == names
    said("release", path, "--error", "--out", path.parent)
    first, *_ = (path.parent / "alice" / "sexes.csv").read_text().splitlines()
    assert first == ",".join(names)
    result = Plan.open(path).released().rows("alice", "sexes")
    assert list(result.pandas(errors=True).columns) == names
    assert list(result.pandas().columns) == ["sex", "n"]
    frame = result.pandas(errors=True)
    assert ((frame.n - frame.n_low) / frame.n_stderr).round(6).tolist() == [2.04] * 3
