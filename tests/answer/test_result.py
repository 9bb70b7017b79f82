"""Results in every form they are handed out in."""

import datetime
import json
import math
import subprocess
import sys
from decimal import Decimal

import duckdb
import pandas
import polars
import pyarrow
import pytest

from sqlmadp.answer.result import Result, as_json, distinct, number, shown, write_results

TYPED = {
    "VARCHAR": "a'b\n",
    "BIGINT": -5,
    "HUGEINT": 2**100,
    "DOUBLE": 0.1,
    "DECIMAL(12,3)": Decimal("1.500"),
    "BOOLEAN": True,
    "DATE": datetime.date(2024, 2, 29),
    "TIMESTAMP": datetime.datetime(2024, 2, 29, 1, 2, 3, 4),
    "TIME": datetime.time(1, 2, 3),
    "INTERVAL": datetime.timedelta(days=3),
    "BLOB": b"\x00'",
    "INTEGER[]": [1, 2],
}


@pytest.fixture
def typed():
    columns = tuple((f"c{place}", kind) for place, kind in enumerate(TYPED))
    return Result(columns, (tuple(TYPED.values()), (None,) * len(TYPED)), {})


@pytest.fixture
def counts():
    columns = (("sex", "VARCHAR"), ("n", "BIGINT"))
    return Result(columns, (("f", 7), ("m", 1234567)), {"n": (1.5, 2345.6)})


def test_rows_are_a_list_of_tuples_and_can_be_iterated(counts):
    assert counts.tuples() == list(counts) == [("f", 7), ("m", 1234567)]
    assert len(counts) == 2


def test_a_relation_has_the_same_values_and_types(typed):
    relation = typed.relation()
    assert [str(kind) for kind in relation.types] == list(TYPED)
    assert relation.fetchall() == list(typed.rows)


def test_an_empty_result_keeps_its_columns_in_every_form(typed):
    columns = tuple(column for column in typed.columns if column[1] != "INTERVAL")
    empty = Result(columns, (), {})
    assert empty.relation().fetchall() == []
    assert empty.arrow().num_rows == len(empty.pandas()) == empty.polars().height == 0
    assert list(empty.pandas().columns) == empty.polars().columns == [name for name, _ in columns]


def test_arrow_pandas_and_polars_have_the_same_values(counts):
    assert isinstance(counts.arrow(), pyarrow.Table)
    assert counts.arrow().to_pydict() == {"sex": ["f", "m"], "n": [7, 1234567]}
    assert isinstance(counts.pandas(), pandas.DataFrame)
    assert counts.pandas()["n"].tolist() == [7, 1234567]
    assert isinstance(counts.polars(), polars.DataFrame)
    assert counts.polars().rows() == counts.tuples()


def test_a_result_is_an_arrow_stream(counts):
    assert pyarrow.table(counts).to_pydict() == counts.arrow().to_pydict()


def test_names_that_repeat_are_told_apart_in_tables():
    assert distinct(["n", "N", "n_1", "n"]) == ["n", "N_1", "n_1_1", "n_2"]
    twice = Result((("n", "BIGINT"), ("n", "BIGINT")), ((1, 2),), {})
    assert twice.pandas().to_dict("list") == {"n": [1], "n_1": [2]}


def test_no_frame_library_is_imported_before_it_is_asked_for():
    code = (
        "import json, sys; from sqlmadp.answer.result import Result;"
        "result = Result((('n', 'BIGINT'),), ((1,),), {});"
        "result.relation().fetchall(); repr(result); result._repr_html_();"
        "print(json.dumps(list(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert not {"pandas", "polars", "pyarrow"} & set(json.loads(done.stdout))


def test_a_large_result_becomes_a_relation_quickly():
    rows = tuple((place, str(place)) for place in range(100_000))
    large = Result((("n", "BIGINT"), ("t", "VARCHAR")), rows, {})
    assert large.relation().aggregate("sum(n)").fetchall() == [(sum(range(100_000)),)]


def test_text_has_a_plus_minus_after_every_count(counts):
    assert repr(counts).splitlines() == [
        "sex        n      ±",
        "f          7    1.5",
        "m    1234567  2,346",
    ]


def test_long_results_show_their_first_and_last_rows():
    rows = tuple((place,) for place in range(100))
    shown = repr(Result((("n", "BIGINT"),), rows, {})).splitlines()
    assert shown[1].strip() == "0"
    assert shown[11] == "... 80 more rows"
    assert shown[-1].strip() == "99"
    page = Result((("n", "BIGINT"),), rows, {})._repr_html_()
    assert page.count("<tr>") == 22
    assert "80 more rows" in page


def test_html_and_control_characters_are_shown_and_not_obeyed():
    hostile = Result((("<i>", "VARCHAR"),), (("<script>\x1b[2J\n&",),), {})
    assert "\x1b" not in repr(hostile)
    assert len(repr(hostile).splitlines()) == 2
    page = hostile._repr_html_()
    assert "<script>" not in page
    assert "<i>" not in page
    assert "&lt;script&gt;\\x1b[2J\\n&amp;" in page


@pytest.mark.parametrize(("value", "shown"), [(0.0, "0"), (2.0493, "2.05"), (12345.6, "12,346")])
def test_expected_errors_are_shown_in_few_digits(value, shown):
    assert number(value) == shown


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_files_hold_what_a_relation_holds(tmp_path, counts, form):
    turned = Result(counts.columns, counts.rows[::-1], {})
    asked = {"alice": {"counts": counts, "turned": turned}, "bob": {"again": counts}}
    write_results(asked, tmp_path / "deep", form)
    for analyst, own in asked.items():
        for name, result in own.items():
            path = tmp_path / "deep" / analyst / f"{name}.{form}"
            assert duckdb.execute(f"FROM '{path}'").fetchall() == result.tuples()


def test_intervals_are_durations_in_polars():
    spans = Result(
        (("t", "INTERVAL"), ("n", "BIGINT")), ((datetime.timedelta(days=1), 2), (None, 3)), {}
    )
    assert spans.polars().rows() == spans.tuples()


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (45.283746, 0.31, "45.28"),
        (45.283746, 23.0, "45"),
        (1234567.891, 3500.0, "1234568"),
        (0.0, 0.2, "0.00"),
        (100 / 3, None, "33.3333"),
        (0.1 + 0.2, None, "0.3"),
        (1234567.5, None, "1234567.5"),
        (123456789012.34, None, "123456789012"),
        (110.0, None, "110.0"),
        (0.5, math.nan, "0.5"),
        (2e300 / 3, None, "6.66667e+299"),
        (1e-30 / 3, 1e-31, "3.33333e-31"),
        (7, 0.31, "7"),
        (Decimal("1.500"), 0.31, "1.500"),
        (None, 0.31, "NULL"),
        (math.inf, 0.31, "inf"),
    ],
)
def test_a_person_is_shown_the_digits_that_mean_something(value, error, text):
    assert shown(value, error) == text


def test_a_program_is_given_all_digits():
    result = Result((("mean", "DOUBLE"),), ((100 / 3,),), {"mean": (0.31,)})
    assert "33.33 " in str(result)
    assert result.relation().fetchall() == [(100 / 3,)]
    assert as_json(result)["rows"] == [[100 / 3]]
