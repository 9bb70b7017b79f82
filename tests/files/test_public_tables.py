"""Public tables of a schema file: read, or every mistake named."""

from datetime import date

import duckdb
import pytest

from sqlmadp.errors import SchemaError
from sqlmadp.files.schema import read_schema
from sqlmadp.table.domain import PublicTable

PRIVATE = """
table = "people"
[columns.state]
type = "category"
values = ["CA", "NY"]
"""


@pytest.fixture
def read(tmp_path):
    def read(text):
        path = tmp_path / "schema.toml"
        path.write_text(PRIVATE + text)
        return read_schema(path).public

    return read


@pytest.fixture
def mistake(read):
    def mistake(text):
        with pytest.raises(SchemaError) as caught:
            read(text)
        (problem,) = caught.value.problems
        return problem

    return mistake


def test_inline_rows_have_the_types_of_their_values(read):
    (table,) = read("""
[public.states]
columns = ["state", "people", "share", "coast", "since"]
rows = [["CA", 39, 1.5, true, 1850-09-09], ["NY", 20, 2, false, 1788-07-26]]
""")
    assert table == PublicTable(
        name="states",
        columns=(
            ("state", "VARCHAR"),
            ("people", "BIGINT"),
            ("share", "DOUBLE"),
            ("coast", "BOOLEAN"),
            ("since", "DATE"),
        ),
        rows=(("CA", 39, 1.5, True, date(1850, 9, 9)), ("NY", 20, 2, False, date(1788, 7, 26))),
    )


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_file_is_read_relative_to_the_schema_with_the_types_it_has(read, tmp_path, form):
    rows = "(VALUES ('CA', 39, 1.5), ('NY', NULL, 2.0)) AS t(state, people, share)"
    duckdb.execute(f"COPY (SELECT * FROM {rows}) TO '{tmp_path / f'states.{form}'}'")
    (table,) = read(f'[public.states]\nfile = "states.{form}"')
    assert table.columns == (("state", "VARCHAR"), ("people", "BIGINT"), ("share", "DOUBLE"))
    assert table.rows == (("CA", 39, 1.5), ("NY", None, 2.0))


def test_there_may_be_several_public_tables_or_none(read):
    assert read("") == ()
    states = '[public.{}]\ncolumns = ["state"]\nrows = [["CA"]]\n'
    assert [t.name for t in read(states.format("a") + states.format("b"))] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ('[public.people]\ncolumns = ["s"]\nrows = [["CA"]]', "bad-name", "no other table has"),
        ('[public.__x]\ncolumns = ["s"]\nrows = [["CA"]]', "bad-name", "without __ in front"),
        ('[public.t]\ncolumns = ["s", "S"]\nrows = []', "bad-value", "different names"),
        ('[public.t]\ncolumns = ["s"]\nrows = [["CA", 1]]', "bad-value", "rows of 1 values"),
        ('[public.t]\ncolumns = ["s"]\nrows = [["CA"], [1]]', "mixed-values", "several or unknown"),
        ('[public.t]\nfile = "missing.csv"', "bad-value", "a file that exists"),
        ('[public.t]\nfile = "plan.toml"', "bad-value", "a .csv or .parquet file"),
        ('[public.t]\ncolumns = ["s"]\nrows = []\nextra = 1', "unknown-key", "extra"),
    ],
)
def test_a_mistake_in_a_public_table_says_what_is_allowed(mistake, text, code, words):
    problem = mistake(text)
    assert problem.code == code
    assert words.replace("a file that exists", "file that exists") in str(problem)


def test_a_file_that_is_no_table_is_refused(mistake, tmp_path):
    (tmp_path / "states.parquet").write_text("no parquet")
    assert "DuckDB can read" in str(mistake('[public.t]\nfile = "states.parquet"'))
