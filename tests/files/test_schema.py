"""A schema file declares a domain, or says everything that is wrong with it at once."""

import json
from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlmadp.errors import SchemaError
from sqlmadp.files import LARGEST_COLUMN
from sqlmadp.files.schema import read_schema
from sqlmadp.table.domain import ORDERED, Column, Domain

SCHEMAS = Path(__file__).parents[2] / "schemas"


@pytest.fixture
def read(tmp_path):
    def read(text):
        path = tmp_path / "schema.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_schema(path)

    return read


@pytest.fixture
def problems(read):
    def problems(text):
        with pytest.raises(SchemaError) as error:
            read(text)
        return error.value.problems

    return problems


@pytest.fixture
def problem_of_column(problems):
    """The one mistake of a schema whose only column ``c`` is declared by ``body``."""

    def problem_of_column(body):
        (problem,) = problems(f'table = "t"\n[columns.c]\n{body}')
        return problem

    return problem_of_column


def test_every_type_of_column_is_read_in_the_order_of_the_file(read):
    domain = read(
        """
        table = "visits"

        [columns.age]
        type = "integer"
        min = 0
        max = 99
        outside = "clamp"

        [columns.sex]
        type = "category"
        values = ["female", "male"]
        nullable = true

        [columns.ward]
        type = "category"
        values = [7, 3]

        [columns.insured]
        type = "boolean"
        complete = true
        outside = "null"

        [columns.day]
        type = "date"
        min = 2020-01-01
        max = "2020-12-31"

        [columns.cost]
        type = "real"
        min = 0
        max = 1.5e3

        [columns.price]
        type = "real"
        decimals = 2
        min = -0.5
        max = 99.99
        """
    )
    assert domain == Domain(
        table="visits",
        columns=(
            Column(name="age", type="integer", minimum=0, maximum=99, outside="clamp"),
            Column(name="sex", type="category", values=("female", "male"), nullable=True),
            Column(name="ward", type="category", values=(7, 3)),
            Column(name="insured", type="boolean", complete=True),
            Column(name="day", type="date", minimum=date(2020, 1, 1), maximum=date(2020, 12, 31)),
            Column(name="cost", type="real", minimum=0.0, maximum=1500.0),
            Column(name="price", type="decimal", decimals=2, minimum=-0.5, maximum=99.99),
        ),
    )
    assert type(domain.column("cost").minimum) is float
    price = domain.column("price")
    assert price.declared == 10_050
    assert [price.value(cell) for cell in (0, 1, 10_049, 10_050)] == [-0.5, -0.49, 99.99, None]


def test_columns_may_be_written_in_line_and_with_a_byte_order_mark(read):
    text = '\ufefftable = "t"\r\ncolumns.c = { type = "boolean" }\r\n'
    assert read(text).columns == (Column(name="c", type="boolean"),)


def test_bounds_may_be_equal(read):
    domain = read('table = "t"\n[columns.c]\ntype = "integer"\nmin = 3\nmax = 3')
    assert domain.cells == 2


names = st.text(min_size=1, max_size=12).filter(lambda text: text.strip() and text.isprintable())
integers = st.integers(-(2**63), 2**63 - 1)
reals = st.floats(allow_nan=False, allow_infinity=False)


OPEN_OR_COMPLETE = [{}, {"nullable": True}, {"complete": True}]


@st.composite
def columns(draw, name):
    kind = draw(st.sampled_from(["category", "boolean", "integer", "date", "real"]))
    given = {"name": name, "type": kind, **draw(st.sampled_from(OPEN_OR_COMPLETE))}
    if kind in ORDERED:
        given["outside"] = draw(st.sampled_from(["null", "clamp"]))
    if kind == "category":
        text = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
        values = st.lists(draw(st.sampled_from([text, integers])), min_size=1, unique=True)
        given["values"] = tuple(draw(values))
    elif kind == "integer":
        low = draw(integers)
        high = draw(st.integers(low, min(low + LARGEST_COLUMN - 1, 2**63 - 1)))
        given |= {"minimum": low, "maximum": high}
    elif kind in ("date", "real"):
        low, high = sorted(draw(st.tuples(*[st.dates() if kind == "date" else reals] * 2)))
        given |= {"minimum": low, "maximum": high}
    return Column(**given)


@st.composite
def domains(draw):
    distinct = st.lists(names, min_size=1, max_size=5, unique_by=str.casefold)
    return Domain(table=draw(names), columns=tuple(draw(columns(name)) for name in draw(distinct)))


def toml(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    if isinstance(value, tuple):
        return "[\n" + "".join(f"  {toml(item)},\n" for item in value) + "]"
    return str(value)


def schema_text(domain):
    lines = [f"table = {toml(domain.table)}"]
    for column in domain.columns:
        lines += [f"[columns.{toml(column.name)}]", f"type = {toml(column.type)}"]
        lines += [f"nullable = {toml(column.nullable)}", f"outside = {toml(column.outside)}"]
        lines += [f"complete = {toml(column.complete)}"]
        if column.type == "category":
            lines.append(f"values = {toml(column.values)}")
        if column.type in ORDERED:
            lines += [f"min = {toml(column.minimum)}", f"max = {toml(column.maximum)}"]
    return "\n".join(lines)


@given(domain=domains())
def test_a_domain_written_as_a_schema_is_read_back(tmp_path_factory, domain):
    path = tmp_path_factory.mktemp("schema") / "schema.toml"
    path.write_bytes(schema_text(domain).encode())
    assert read_schema(path) == domain


@pytest.mark.parametrize(
    ("body", "line", "parts"),
    [
        ("min = 0\nmax = 9", 2, ["columns.c.type is missing", '"category"', '"real"']),
        ('type = "int"\nmin = 0', 3, ['columns.c.type is "int"', '"integer"', "Did you mean"]),
        ("type = 3", 3, ["columns.c.type is 3", '"boolean"']),
        ('type = "integer"\nmin = 0', 2, ["columns.c.max is missing", "an integer of 64 bits"]),
        ('type = "integer"\nmin = 0\nmax = 9.0', 5, ["columns.c.max is 9.0", "an integer"]),
        ('type = "integer"\nmin = true\nmax = 9', 4, ["columns.c.min is true", "an integer"]),
        (
            'type = "integer"\nmin = 0\nmax = 9223372036854775808',
            5,
            ["columns.c.max is 9223372036854775808", "64 bits"],
        ),
        (
            f'type = "integer"\nmin = 0x{"f" * 9000}\nmax = 1',
            4,
            ["columns.c.min is an integer of more than 40 digits", "64 bits"],
        ),
        ('type = "integer"\nmin = 5\nmax = 3', 4, ["columns.c.min is 5, above max, which is 3"]),
        (
            'type = "integer"\nmin = 0\nmax = 16777216',
            5,
            ["columns.c.max", "16777217 values", "at most 16777216", 'type = "real"'],
        ),
        ('type = "date"\nmin = 2020-01-01', 2, ["columns.c.max is missing", "2020-01-31"]),
        (
            'type = "date"\nmin = 2020-01-01T00:00:00\nmax = 2020-01-02',
            4,
            ["columns.c.min is 2020-01-01T00:00:00", "a date without a time"],
        ),
        ('type = "date"\nmin = "spring"\nmax = 2020-01-02', 4, ['columns.c.min is "spring"']),
        (
            'type = "date"\nmin = 2020-01-02\nmax = 2020-01-01',
            4,
            ["columns.c.min is 2020-01-02, above max, which is 2020-01-01"],
        ),
        ('type = "real"\nmin = nan\nmax = 1', 4, ["columns.c.min is nan", "a finite number"]),
        ('type = "real"\nmin = 0\nmax = inf', 5, ["columns.c.max is inf", "a finite number"]),
        ('type = "real"\nmin = false\nmax = 1', 4, ["columns.c.min is false", "a finite"]),
        ('type = "real"\nmin = "0"\nmax = 1', 4, ['columns.c.min is "0"', "a finite number"]),
        (f'type = "real"\nmin = 0\nmax = 1{"0" * 400}', 5, ["columns.c.max", "a finite number"]),
        (
            'type = "real"\nmin = 1125899906842623.0\nmax = 1125899906842624.0\ndecimals = 0',
            5,
            ["columns.c.max is 1125899906842624.0", "a number that is exact to 0 decimals"],
        ),
        (
            'type = "real"\nmin = 0.125\nmax = 1\ndecimals = 2',
            4,
            ["columns.c.min is 0.125", "a number of at most 2 decimals"],
        ),
        (
            'type = "real"\nmin = 0\nmax = 1\ndecimals = 2.0',
            6,
            ["columns.c.decimals is 2.0", "an integer from 0 to 9"],
        ),
        (
            'type = "real"\nmin = 0\nmax = 1e6\ndecimals = 3',
            6,
            ["columns.c.decimals is 3", "1000000001 values", "at most 16777216"],
        ),
        ('type = "real"\nmin = 0.5\nmax = 0.25', 4, ["columns.c.min is 0.5, above max"]),
        ('type = "category"', 2, ["columns.c.values is missing", "all text or all integers"]),
        (
            'type = "category"\nvalues = []',
            4,
            ["columns.c.values is an empty list", "at least one"],
        ),
        ('type = "category"\nvalues = "a"', 4, ['columns.c.values is "a"', "a list"]),
        (
            'type = "category"\nvalues = ["a", 1]',
            4,
            ["columns.c.values mixes text and integers", "all text or all integers"],
        ),
        (
            'type = "category"\nvalues = [1, true]',
            4,
            ["columns.c.values has true as value 2", "an integer of 64 bits"],
        ),
        ('type = "category"\nvalues = [0.5]', 4, ["columns.c.values has 0.5 as value 1"]),
        (
            'type = "category"\nvalues = [9223372036854775808]',
            4,
            ["columns.c.values has 9223372036854775808 as value 1"],
        ),
        (
            'type = "category"\nvalues = ["b", "a", "b"]',
            4,
            ['columns.c.values has "b" 2 times', "each value once"],
        ),
        ('type = "boolean"\nnullable = 1', 4, ["columns.c.nullable is 1", "true or false"]),
        ('type = "boolean"\noutside = "keep"', 4, ["columns.c.outside", '"null" or "clamp"']),
        (
            'type = "boolean"\noutside = "clamp"',
            4,
            ['columns.c.outside is "clamp"', '"null"', "type boolean has no order"],
        ),
        (
            'type = "category"\nvalues = [1]\noutside = "clamp"',
            5,
            ["columns.c.outside", "type category has no order"],
        ),
        (
            'type = "real"\nmin = 0\nmax = 1\nmaxx = 2',
            6,
            ["columns.c.maxx is not a key of a column of type real", 'Did you mean "max"?'],
        ),
        (
            'type = "boolean"\nmin = 2',
            4,
            [
                "columns.c.min is not a key of a column of type boolean",
                "its keys are type, nullable",
            ],
        ),
    ],
)
def test_a_mistake_in_a_column_names_its_key_its_line_and_what_is_allowed(
    problem_of_column, body, line, parts
):
    problem = problem_of_column(body)
    for part in parts:
        assert part in str(problem)
    assert problem.line == line


def test_the_largest_integer_column_is_still_accepted(read):
    domain = read('table = "t"\n[columns.c]\ntype = "integer"\nmin = 1\nmax = 16777216')
    assert domain.columns[0].declared == LARGEST_COLUMN


def test_what_leaves_records_out_no_longer_is_refused_with_what_happens_now(read):
    with pytest.raises(SchemaError, match="a value outside is read as NULL"):
        read('table = "t"\n[columns.c]\ntype = "boolean"\noutside = "drop"')


def test_a_column_is_not_nullable_and_complete_at_once(read):
    with pytest.raises(SchemaError, match="a complete column has no NULL"):
        read('table = "t"\n[columns.c]\ntype = "boolean"\nnullable = true\ncomplete = true')


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('columns.c.type = "boolean"', ["table is missing", '"people"']),
        ('table = 3\ncolumns.c.type = "boolean"', ["table is 3", "the name of the private table"]),
        ('table = " "\ncolumns.c.type = "boolean"', ['table is " "', "the name"]),
        ('table = "t"', ["columns is missing", "[columns.age]"]),
        ('table = "t"\n[columns]', ["columns is empty", "write a table per column"]),
        ('table = "t"\ncolumns = ["age"]', ["columns is a list", "[columns.age]"]),
        ('table = "t"\n[columns]\nage = 3', ["columns.age is 3", "a table with a type"]),
        ('table = "t"\n[columns.""]\ntype = "boolean"', ['columns.""', "not blank"]),
        ('table = "t"\n[columns."a\\u0000b"]\ntype = "boolean"', ["control characters"]),
        (
            'table = "t"\n[columns.age]\ntype = "boolean"\n[columns.AGE]\ntype = "boolean"',
            [":4: columns.AGE has the name of columns.age but for case"],
        ),
        (
            'table = "t"\n[columns.age]\ntype = "boolean"\n[columns.age]\ntype = "boolean"',
            [":4: columns.age is declared twice, first in line 2"],
        ),
        (
            'tabel = "t"\ntable = "t"\ncolumns.c.type = "boolean"',
            [":1: tabel is not a key of a schema", 'Did you mean "table"?'],
        ),
        (
            'table = "t"\ncolumns.c.type = "boolean"\n[units]\nmax_records = 3',
            [":3: units is not a key of a schema", "its keys are table, neighbours, unit, columns"],
        ),
        ('table = "t"\n[columns.c\ntype = 1', [":2:11: not TOML"]),
        ('table = "t"\ntype = [', ["not TOML"]),
        ("x = " + "[" * 5000, ["nested too deeply"]),
        ("x = " + "9" * 5000, ["not TOML"]),
        (b'table = "\xff"', ["not UTF-8"]),
    ],
)
def test_a_mistake_around_the_columns_is_the_only_one_reported(problems, text, parts):
    (problem,) = problems(text)
    for part in parts:
        assert part in str(problem)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SchemaError, match=r"nowhere\.toml: there is no such file"):
        read_schema(tmp_path / "nowhere.toml")


def test_a_folder_is_no_schema(tmp_path):
    with pytest.raises(SchemaError, match="this is a folder"):
        read_schema(tmp_path)


def test_all_mistakes_of_a_file_are_reported_at_once_in_its_order(problems):
    found = problems(
        """tabel = "people"

[columns.age]
type = "integer"
min = 9
max = 3
nullable = "yes"

[columns.sex]
type = "category"
values = [
    "f",
    "m",
    "m",
    "f",
]
outside = "clamp"

[columns.born]
type = "dat"
oops = 1
"""
    )
    assert [(problem.line, problem.message.split()[0]) for problem in found] == [
        (0, "table"),
        (1, "tabel"),
        (5, "columns.age.min"),
        (7, "columns.age.nullable"),
        (11, "columns.sex.values"),
        (11, "columns.sex.values"),
        (17, "columns.sex.outside"),
        (20, "columns.born.type"),
        (21, "columns.born.oops"),
    ]


def test_lines_are_counted_whatever_ends_them_and_whatever_values_look_like(problems):
    text = '''# [columns.fake]
table = "t" # "
[columns."a.b"] # a name with a dot
type = "category"
values = [ "]", # ]
  """
columns.x = 1
""", '[columns.y]',
]
oops = 1
'''
    for written in (text, text.replace("\n", "\r\n")):
        (problem,) = problems(written)
        assert problem.line == 10
        assert problem.message.startswith('columns."a.b".oops is not a key')


def test_a_key_that_is_absurdly_deep_is_refused_like_any_other(problems):
    deep = ".".join(["a"] * 3000)
    (problem,) = problems(f'{deep} = 1\ntable = "t"\ncolumns.c.type = "boolean"')
    assert problem.message.startswith("a is not a key of a schema")


def test_the_schemas_of_the_project_declare_what_they_say():
    covid = read_schema(SCHEMAS / "covid_deaths.toml")
    assert (covid.table, covid.cells) == ("covid_deaths", 11)
    people = read_schema(SCHEMAS / "people.toml")
    assert [column.size for column in people.columns] == [100, 2, 7, 51]


def test_no_span_of_dates_has_more_values_than_a_column_may_have(read):
    domain = read('table = "t"\n[columns.c]\ntype = "date"\nmin = 0001-01-01\nmax = 9999-12-31')
    days = (date.max - date.min) // timedelta(days=1) + 1
    assert domain.columns[0].declared == days < LARGEST_COLUMN
