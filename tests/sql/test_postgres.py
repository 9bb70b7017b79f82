"""PostgreSQL's dialect against a real server: what is accepted means the same, case by case."""

import datetime
import decimal
import math

import pytest
from postgres_cases import CASES, DOMAIN, ROWS
from services import REQUIRED, MissingServiceError, postgres

from sqlmadp.errors import SqlError
from sqlmadp.sql.limits import DEFAULT
from sqlmadp.sql.read import Reader, Reading
from sqlmadp.sql.sandbox import locked_connection
from sqlmadp.sql.statements import Statement

TABLE = "(id int, n bigint, m bigint, x double precision, s text, t text, d date, b boolean)"


LOCALES = {
    "C.UTF-8": "LC_COLLATE 'C' LC_CTYPE 'C.UTF-8'",
    "en-US": "LC_COLLATE 'C' LC_CTYPE 'C.UTF-8' LOCALE_PROVIDER icu ICU_LOCALE 'en-US'",
}


@pytest.fixture(scope="module", params=list(LOCALES))
def server(request):
    """A database whose texts are in the order of code points, or of a language."""
    try:
        with postgres() as url:
            import psycopg  # noqa: PLC0415

            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("DROP DATABASE IF EXISTS sqlmadp_dialect")
                connection.execute(
                    "CREATE DATABASE sqlmadp_dialect TEMPLATE template0 ENCODING 'UTF8' "
                    + LOCALES[request.param]
                )
            own = url.rpartition("/")[0] + "/sqlmadp_dialect"
            with psycopg.connect(own, autocommit=True) as connection:
                connection.execute("SET timezone = 'UTC'")
                connection.execute(f"CREATE TEMP TABLE p {TABLE}")
                with connection.cursor() as cursor:
                    cursor.executemany(
                        "INSERT INTO p VALUES (%s, %s, %s, %s, %s, %s, %s, %s)", ROWS
                    )
                yield connection
    except MissingServiceError as error:
        if "postgres" in REQUIRED:
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def duck():
    connection = locked_connection()
    connection.execute(f"CREATE TABLE p {TABLE}")
    connection.executemany("INSERT INTO p VALUES (?, ?, ?, ?, ?, ?, ?, ?)", ROWS)
    return connection


@pytest.fixture(scope="module")
def readings(duck):
    reader = Reader(duck, DEFAULT, DOMAIN)
    statements = [
        Statement("a.sql", f"q{n}", statement(case), dialect="postgres")
        for n, case in enumerate(CASES)
    ]
    return dict(zip(CASES, reader.read(statements), strict=True))


def statement(case: str) -> str:
    return case if case.startswith("SELECT") else f"SELECT id, {case} AS v FROM p ORDER BY id"


def plain(value):
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, (int, float, decimal.Decimal)):
        number = float(value)
        return "nan" if math.isnan(number) else float(f"{number:.12g}")
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None).isoformat()
    return value.total_seconds() if isinstance(value, datetime.timedelta) else value


def rows(connection, sql: str):
    return [tuple(map(plain, row)) for row in connection.execute(sql).fetchall()]


def test_whatever_is_accepted_means_what_the_server_means(server, duck, readings):
    import psycopg  # noqa: PLC0415

    different, same = [], 0
    for case, reading in readings.items():
        if isinstance(reading, SqlError):
            continue
        # Row by row, since the server raises where DuckDB gives NULL: then there is no answer.
        places = [None] if case.startswith("SELECT") else [row[0] for row in ROWS]
        for place in places:
            where = "ORDER BY id" if place is None else f"WHERE id = {place} ORDER BY id"
            try:
                theirs = rows(server, statement(case).replace("ORDER BY id", where))
            except psycopg.Error:
                continue
            ours = rows(duck, reading.sql.replace("ORDER BY id", where))
            if place is None:  # ORDER BY of texts depends on the collation.
                ours, theirs = sorted(ours, key=str), sorted(theirs, key=str)
            if ours != theirs:
                different.append((case, reading.sql, ours, theirs))
        same += 1
    assert different == []
    assert same >= 400


def test_what_is_refused_says_what_and_where(readings):
    refused = {case: each for case, each in readings.items() if isinstance(each, SqlError)}
    assert len(refused) > 100
    for error in refused.values():
        for problem in error.problems:
            assert problem.code in ("dialect", "syntax", "unfaithful", "construct", "parameter")
            assert problem.message
            assert problem.line >= 1


@pytest.mark.parametrize(
    "case",
    [
        *("ROUND(x)", "CAST(s AS varchar(2))", "TO_CHAR(d, 'Month')", "s SIMILAR TO 'a|b'"),
        *("to_hex(n)", "s LIKE 'a\\_b'", "CAST(x AS int)", "s ~ '^a'", "SUBSTRING(s, 0, 2)"),
        *("SELECT SUM(n) / COUNT(*) FROM p", "s < t", "s >= 'a'", "s BETWEEN 'A' AND 'b'"),
    ],
)
def test_known_silent_differences_are_refused(readings, case):
    assert isinstance(readings[case], SqlError)


@pytest.mark.parametrize(
    ("case", "written"),
    [
        ("n / 2", "n // 2"),
        ("n / 2 / 3", "(n // 2) // 3"),
        ("n / (m / 2)", "n // (m // 2)"),
        ("n / 2.0", "n / 2.0"),
        ("n / 1e3", "n / 1e3"),
        ("DATE_TRUNC('month', d)", "TIMESTAMP"),
        ("SELECT COUNT(n) * 100 / COUNT(*) FROM p", "//"),
    ],
)
def test_what_postgres_means_is_written_for_duckdb(readings, case, written):
    assert isinstance(readings[case], Reading)
    assert written in readings[case].sql
