"""A schema is drafted from the catalogue alone, and checked against it."""

import tomllib
from datetime import date

import duckdb
import pytest
from click.testing import CliRunner

from sqlmadp.cli import main
from sqlmadp.files.schema import read_schema

CANARY = "canary-7310"


@pytest.fixture
def run():
    """Return a function that runs ``sqlmadp schema ...``."""

    def invoke(*arguments):
        return CliRunner().invoke(main, ["schema", *map(str, arguments)])

    return invoke


@pytest.fixture
def source(tmp_path):
    """Return a DuckDB file with a table of every kind of column."""
    path = tmp_path / "people.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE people AS SELECT '" + CANARY + '\' AS "first name", 7 AS age, '
            "true AS insured, DATE '2024-02-29' AS born, 1.5::DOUBLE AS size, "
            "12345678901234567890::HUGEINT AS number, [1] AS parts "
            "UNION ALL SELECT NULL, 9, NULL, NULL, 'nan'::DOUBLE, 3, []"
        )
    return path


def completed(draft):
    """Return the draft with every '# declare' line taken at its word."""
    return draft.replace("# declare: ", "")


def test_a_draft_has_names_and_types_and_no_value(run, source):
    done = run("draft", source, "people")
    assert done.exit_code == 0
    assert CANARY not in done.output
    assert not any(text in done.output for text in ("7", "2024-02-29", "1.5"))
    assert '[columns."first name"]\ntype = "category"    # stored as VARCHAR' in done.output
    assert "# 'parts' is stored as INTEGER[], which cannot be declared" in done.output


def test_a_draft_is_no_schema_before_it_is_completed(run, source, tmp_path):
    path = tmp_path / "people.toml"
    path.write_text(run("draft", source, "people").output)
    checked = run("check", path)
    assert checked.exit_code == 1
    for missing in ("age.min is missing", "born.max is missing", '"first name".values is missing'):
        assert missing in checked.output
    path.write_text(completed(path.read_text()))
    assert [column.type for column in read_schema(path).columns] == [
        *("category", "integer", "boolean", "date", "real", "integer")
    ]
    checked = run("check", path, "--source", source)
    assert checked.exit_code == 0
    assert "adding or removing one record" in checked.output


def test_trusted_values_are_written_with_a_warning(run, source, tmp_path):
    draft = run("draft", source, "people", "--trusted-values").output
    assert "# WARNING: the values and bounds below were read from the table" in draft
    assert f'values = ["{CANARY}"]' in draft
    assert "min = 7\nmax = 9" in draft
    assert "min = 2024-02-29" in draft
    assert "min = 1.5\nmax = 1.5" in draft
    path = tmp_path / "people.toml"
    path.write_text(draft.partition("[columns.number]")[0])
    assert run("check", path, "--source", source).exit_code == 0


CONSTRAINED = """
CREATE TABLE wards (ward VARCHAR PRIMARY KEY);
CREATE TYPE sexes AS ENUM ('f', 'm');
CREATE TABLE visits (
    sex sexes NOT NULL,
    other sexes,
    age INTEGER NOT NULL CHECK (age BETWEEN 0 AND 120),
    level INTEGER NOT NULL CHECK (level IN (3, 1, 2)),
    day DATE CHECK (day >= DATE '2020-01-01' AND day <= '2020-12-31'),
    size DOUBLE NOT NULL CHECK (size > 0),
    kind VARCHAR CHECK (kind = 'a' OR kind = 'it''s'),
    ward VARCHAR NOT NULL REFERENCES wards (ward),
    insured BOOLEAN NOT NULL,
    smoker BOOLEAN,
    CHECK (age > 3 OR kind = 'a')
);
"""


def sections(draft):
    """Return the declared lines of every column, without comments."""
    found = {}
    for section in draft.split("\n[columns.")[1:]:
        name, *lines = section.splitlines()
        kept = [line.partition("    #")[0] for line in lines if line and line[0] != "#"]
        found[name.rstrip("]")] = [line for line in kept if "type" not in line]
    return found


def test_constraints_of_the_catalogue_are_written_for_every_type(run, tmp_path):
    path = tmp_path / "visits.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(CONSTRAINED)
    draft = run("draft", path, "visits").output
    assert sections(draft) == {
        "sex": ['values = ["f", "m"]', "complete = true"],
        "other": ['values = ["f", "m"]', "nullable = true"],
        "age": ["min = 0", "max = 120", "complete = true"],
        "level": ["values = [3, 1, 2]", "complete = true"],
        "day": ["min = 2020-01-01", "max = 2020-12-31", "nullable = true"],
        "size": ["min = 0"],
        "kind": ['values = ["a", "it\'s"]', "nullable = true"],
        "ward": [],
        "insured": ["complete = true"],
        "smoker": ["nullable = true"],
    }
    assert "it is NOT NULL and refers to wards: if all values there are declared" in draft
    (tmp_path / "visits.toml").write_text(completed(draft))
    assert run("check", tmp_path / "visits.toml", "--source", path).exit_code == 0


def test_a_draft_from_trusted_values_says_where_there_is_null(run, tmp_path):
    (tmp_path / "t.csv").write_text("word,flag\na,true\n,false\nb,true\n")
    draft = run("draft", tmp_path / "t.csv", "t", "--trusted-values").output
    assert "nullable = true" in sections(draft)["word"]
    assert "nullable = true" not in sections(draft)["flag"]


def test_a_draft_from_trusted_values_leaves_out_infinite_days(run, tmp_path):
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute("CREATE TABLE t (day DATE, seen TIMESTAMP)")
        connection.execute("INSERT INTO t VALUES ('infinity', '-infinity'), ('2020-01-02', NULL)")
    draft = run("draft", tmp_path / "t.duckdb", "t", "--trusted-values").output
    assert "min = 2020-01-02\nmax = 2020-01-02" in draft


def test_a_draft_from_trusted_values_has_the_types_of_a_csv_file(run, tmp_path):
    (tmp_path / "t.csv").write_text(
        "n,price,day,at,flag,word,none\n"
        "1,1.5,2024-01-31,2024-01-31 08:15:00,true,x,\n"
        "-20,2,2023-12-01,2023-12-01 23:59:59,false,7,\n"
    )
    draft = run("draft", tmp_path / "t.csv", "t", "--trusted-values").output
    drafted = tomllib.loads(draft)["columns"]
    types = {name: column["type"] for name, column in drafted.items()}
    assert types == {
        "n": "integer",
        "price": "real",
        "day": "date",
        "at": "date",
        "flag": "boolean",
        "word": "category",
        "none": "integer",
    }
    assert (drafted["n"]["min"], drafted["n"]["max"]) == (-20, 1)
    assert (drafted["at"]["min"], drafted["at"]["max"]) == (date(2023, 12, 1), date(2024, 1, 31))


def test_what_the_catalogue_lets_into_a_complete_column_is_noted(run, tmp_path):
    path = tmp_path / "visits.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(CONSTRAINED)
    schema = tmp_path / "visits.toml"
    schema.write_text(
        'table = "visits"\n[columns.other]\ntype = "category"\nvalues = ["f"]\ncomplete = true\n'
        '[columns.sex]\ntype = "category"\nvalues = ["f", "m"]\ncomplete = true\n'
        '[columns.smoker]\ntype = "boolean"\n'
    )
    checked = run("check", schema, "--source", path)
    assert checked.exit_code == 0
    assert checked.output.count("is declared complete") == 1
    assert "'other' may be NULL, 'm' and is declared complete" in checked.output
    assert '"complete-column"' in run("check", schema, "--source", path, "--json").output
    assert "note:" not in run("check", schema, "--source", path, "--quiet").output


def test_more_values_than_a_draft_lists_are_left_to_the_curator(run, tmp_path):
    duckdb.execute(f"COPY (SELECT 'v' || i AS word FROM range(300) t(i)) TO '{tmp_path}/t.parquet'")
    draft = run("draft", tmp_path / "t.parquet", "t", "--trusted-values").output
    assert '# declare: values = ["first"]    # none, or more than 200' in draft


def test_a_schema_is_compared_with_the_catalogue(run, source, tmp_path):
    path = tmp_path / "people.toml"
    path.write_text(
        'table = "people"\n[columns.age]\ntype = "boolean"\n[unit]\ncolumn = "whose"\n'
        "max_records = 2\n"
    )
    checked = run("check", path, "--source", source)
    assert checked.exit_code == 1
    assert "column 'age' is stored as INTEGER" in checked.output
    assert "no column 'whose'" in checked.output
    assert run("check", path).exit_code == 0
    assert '"code":"missing-column"' in run(
        "check", path, "--source", source, "--json"
    ).output.replace('": "', '":"')


def test_a_source_that_is_not_there_is_a_refusal(run, tmp_path):
    done = run("draft", tmp_path / "missing.parquet", "t")
    assert done.exit_code == 1
    assert "does not exist" in done.output


def test_a_draft_of_one_column_names_the_separator_that_its_header_has(run, tmp_path):
    (tmp_path / "t.csv").write_text("word;flag\na;true\n")
    draft = run("draft", tmp_path / "t.csv", "t").output
    assert 'separator = ";" under [csv]' in draft
    assert run("draft", tmp_path / "t.csv", "t", "--separator", ";;").exit_code == 2


def test_a_draft_of_decimals_offers_their_number(run, tmp_path):
    with duckdb.connect() as connection:
        made = "SELECT 1.25::DECIMAL(9, 2) AS price"
        connection.execute(f"COPY ({made}) TO '{tmp_path / 't.parquet'}'")
    assert "# decimals = 2 " in run("draft", tmp_path / "t.parquet", "t").output
