"""Type objects, constructors and constants of PEP 249."""

import datetime
import time

import pytest

import sqlmadp


@pytest.mark.parametrize(
    ("kind", "types"),
    [
        (sqlmadp.STRING, ["VARCHAR", "UUID", "ENUM('a', 'b')"]),
        (sqlmadp.BINARY, ["BLOB"]),
        (sqlmadp.NUMBER, ["BIGINT", "DOUBLE", "DECIMAL(18,3)", "HUGEINT", "BOOLEAN"]),
        (sqlmadp.DATETIME, ["DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "INTERVAL"]),
        (sqlmadp.ROWID, []),
    ],
)
def test_a_type_code_equals_one_type_object(kind, types):
    every = [sqlmadp.STRING, sqlmadp.BINARY, sqlmadp.NUMBER, sqlmadp.DATETIME, sqlmadp.ROWID]
    for code in types:
        assert [other for other in every if code == other] == [kind]
        assert kind == code
        assert (kind != code) is False


def test_type_objects_differ_from_each_other_and_from_other_things():
    assert sqlmadp.STRING == sqlmadp.STRING
    assert sqlmadp.STRING != sqlmadp.NUMBER
    assert sqlmadp.STRING != 3
    assert sqlmadp.STRING != "INTEGER[]"
    assert repr(sqlmadp.STRING) == "sqlmadp.STRING"


def test_constructors_make_what_parameters_may_be():
    assert sqlmadp.Date(2024, 2, 29) == datetime.date(2024, 2, 29)
    assert sqlmadp.Time(13, 45, 30) == datetime.time(13, 45, 30)
    assert sqlmadp.Timestamp(2024, 2, 29, 1, 2, 3) == datetime.datetime(2024, 2, 29, 1, 2, 3)
    assert sqlmadp.Binary(b"x") == b"x"
    ticks = time.mktime((2024, 2, 29, 13, 45, 30, 0, 0, -1))
    assert sqlmadp.DateFromTicks(ticks) == datetime.date(2024, 2, 29)
    assert sqlmadp.TimeFromTicks(ticks) == datetime.time(13, 45, 30)
    assert sqlmadp.TimestampFromTicks(ticks) == datetime.datetime(2024, 2, 29, 13, 45, 30)


def test_the_constants_are_those_of_pep_249():
    assert (sqlmadp.apilevel, sqlmadp.threadsafety, sqlmadp.paramstyle) == ("2.0", 2, "qmark")
