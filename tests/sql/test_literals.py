"""Values from Python as SQL literals."""

import datetime
import uuid
from decimal import Decimal

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlmadp.sql.statements import is_sql_text, literal

texts = st.text().filter(is_sql_text)
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**127), 2**127 - 1),
    st.floats(allow_nan=False),
    st.decimals(
        allow_nan=False, allow_infinity=False, places=4, min_value=-(10**9), max_value=10**9
    ),
    texts,
    st.binary(max_size=20),
    st.dates(),
    st.datetimes(),
    st.times(),
    st.timedeltas(max_value=datetime.timedelta(days=10**5), min_value=-datetime.timedelta(10**5)),
    st.uuids(),
)


@given(values)
def test_a_literal_is_read_back_as_the_same_value(value):
    ((read,),) = duckdb.execute(f"SELECT {literal(value)}").fetchall()
    assert read == value
    assert isinstance(read, type(value))


@given(texts, texts)
def test_text_cannot_leave_its_quotes(before, value):
    ((read,),) = duckdb.execute(f"SELECT {literal(before)} || {literal(value)} --x").fetchall()
    assert read == before + value


def test_an_integer_is_no_ordinal():
    rows = duckdb.execute(
        f"SELECT a FROM (VALUES (1, 2), (2, 1)) AS t(a, b) ORDER BY {literal(1)}, a DESC"
    )
    assert rows.fetchall() == [(2,), (1,)]


@pytest.mark.parametrize(
    ("value", "sql"),
    [
        (np.int64(3), "CAST('3' AS INTEGER)"),
        (-(2**31) - 1, "CAST('-2147483649' AS BIGINT)"),
        (2**63, "CAST('9223372036854775808' AS HUGEINT)"),
        ("it's", "'it''s'"),
        (np.float64(0.5), "CAST('0.5' AS DOUBLE)"),
        (np.bool_(True), "CAST('true' AS BOOLEAN)"),
        (True, "CAST('true' AS BOOLEAN)"),
        (Decimal("1.50"), "CAST('1.50' AS DECIMAL(3,2))"),
        (Decimal("Infinity"), "CAST('inf' AS DOUBLE)"),
        (bytearray(b"\x00"), "CAST('\\x00' AS BLOB)"),
        ([1, None], "[CAST('1' AS INTEGER), NULL]"),
        (
            datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC),
            "CAST('2024-01-02 00:00:00+00:00' AS TIMESTAMP WITH TIME ZONE)",
        ),
        (uuid.UUID(int=1), "CAST('00000000-0000-0000-0000-000000000001' AS UUID)"),
    ],
)
def test_a_literal_has_the_type_of_its_value(value, sql):
    assert literal(value) == sql


@pytest.mark.parametrize(
    "value", [object(), 2**127, 1j, {}, "\0", "\ud800", [object()], Decimal(10**40)]
)
def test_what_sql_cannot_hold_has_no_literal(value):
    assert literal(value) is None


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("DATE '2024-02-29' = {}", "2024-02-29"),
        ("DATE '2024-02-28' + {} = DATE '2024-02-29'", 1),
        ("3::BIGINT = {}", "3"),
        ("'abc' LIKE {}", "a%"),
        ("2.5::DOUBLE > {}", Decimal("2.49")),
    ],
)
def test_a_literal_is_accepted_wherever_duckdb_takes_a_parameter(expression, value):
    bound = duckdb.execute(f"SELECT {expression.format('?')}", [value]).fetchall()
    written = duckdb.execute(f"SELECT {expression.format(literal(value))}").fetchall()
    assert written == bound == [(True,)]
