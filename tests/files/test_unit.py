"""Who is protected is declared in the schema, and every mistake of it is reported."""

import pytest

from sqlmadp.errors import SchemaError
from sqlmadp.files.schema import read_schema
from sqlmadp.table.domain import Domain, PublicTable, Unit

COLUMNS = '[columns.smoker]\ntype = "boolean"\n'


@pytest.fixture
def read(tmp_path):
    """Return a function that reads a schema with these lines besides its columns."""

    def run(top="", below=""):
        path = tmp_path / "visits.toml"
        path.write_text(f'table = "visits"\n{top}\n{COLUMNS}\n{below}\n')
        return read_schema(path)

    return run


def test_a_record_is_protected_by_itself_unless_declared_otherwise(read):
    domain = read()
    assert domain.unit is None
    assert domain.neighbours == "add_remove"
    assert domain.records_between_neighbours == 1
    assert domain.protection == "adding or removing one record"


def test_a_unit_has_a_column_a_limit_a_key_and_a_rule_for_nobody(read):
    lines = 'column = "person"\nmax_records = 3\nkey = ["day", "visit"]\nnulls = "own"'
    assert read(below=f"[unit]\n{lines}").unit == Unit(
        column="person", max_records=3, key=("day", "visit"), nulls="own"
    )
    assert read(below='[unit]\ncolumn = "p"\nmax_records = 1\nkey = "v"').unit == Unit(
        column="p", max_records=1, key=("v",), nulls="drop"
    )


def test_replacing_counts_both_units(read):
    unit = '[unit]\ncolumn = "person"\nmax_records = 3'
    domain = read('neighbours = "replace"', unit)
    assert domain.records_between_neighbours == 6
    who = "one 'person' with all of its records (at most 3 of them are counted)"
    assert domain.protection == f"replacing {who}"
    assert read(below=unit).protection == f"adding or removing {who}"


@pytest.mark.parametrize(
    ("top", "below", "message"),
    [
        ('neighbours = "both"', "", 'neighbours is "both"; write "add_remove" or "replace"'),
        ("unit = 3", "", "unit is 3; write a table with column and max_records"),
        ("", "[unit]\nmax_records = 3", "unit.column is missing"),
        ("", '[unit]\ncolumn = "p"', "unit.max_records is missing"),
        ("", '[unit]\ncolumn = "p"\nmax_records = 0', "write a whole number from 1"),
        ("", '[unit]\ncolumn = "p"\nmax_records = true', "write a whole number from 1"),
        ("", '[unit]\ncolumn = "p"\nmax_records = 1\nnulls = "keep"', 'write "drop" or "own"'),
        ("", '[unit]\ncolumn = "p"\nmax_records = 1\nkey = [3]', "a column or a list of columns"),
        (
            "",
            '[unit]\ncolumn = "p"\nmax_records = 1\nkeys = "v"',
            "unit.keys is not a key of a unit",
        ),
        ("", '[public.w]\ntable = "w"\nfile = "w.csv"', "public.w.table is not a key"),
        ("", "[public.w]\ntable = 3", "a table of the source's database"),
    ],
)
def test_a_mistake_is_named_with_what_is_allowed(read, top, below, message):
    with pytest.raises(SchemaError) as caught:
        read(top, below)
    assert message in str(caught.value)


def test_a_public_table_may_be_one_of_the_sources_database(read):
    assert read(below='[public.wards]\ntable = "ref.wards"').public == (
        PublicTable(name="wards", table="ref.wards"),
    )


def test_domains_that_protect_differently_are_different():
    assert Domain(table="t", columns=()) != Domain(table="t", columns=(), neighbours="replace")
