"""Cursors after the release: what psycopg and sqlite3 test of theirs, and expected errors."""

import datetime
import gc
import weakref

import pytest

import sqlmadp
from sqlmadp import InterfaceError, NotSupportedError, ProgrammingError

BY_DAY = "SELECT day, COUNT(*) AS n FROM visits GROUP BY day ORDER BY day"
DAYS = [datetime.date(2024, 2, 25) + datetime.timedelta(days=i) for i in range(10)]
BY_SEX = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex ORDER BY sex"


@pytest.fixture
def cursor(connection):
    return connection.cursor()


@pytest.fixture
def table(released_folder):
    return released_folder.table()


@pytest.mark.parametrize("sql", [BY_DAY, BY_SEX, "SELECT COUNT(*) FROM visits"])
def test_rows_are_those_of_the_table(cursor, table, sql):
    theirs = table.execute(sql).fetchall()
    assert cursor.execute(sql).fetchall() == [row for row in theirs if sql != BY_DAY or row[0]]


def test_a_query_that_nobody_asked_is_answered_if_the_release_supports_it(cursor, table):
    sql = "SELECT age > 9 AS old, COUNT(*) AS n FROM visits WHERE smoker GROUP BY old"
    expected = dict(table.execute(sql).fetchall())
    assert dict(cursor.execute(sql).fetchall()) == expected


def test_a_query_that_the_release_does_not_support_is_refused_with_the_reason(cursor):
    with pytest.raises(ProgrammingError, match="'cost' is not part of what the release measured"):
        cursor.execute("SELECT COUNT(*) FROM visits WHERE cost > 3")


def test_a_refused_statement_leaves_no_earlier_result_behind(cursor):
    cursor.execute(BY_SEX)
    with pytest.raises(ProgrammingError):
        cursor.execute("SELECT MAX(age) FROM visits")
    assert cursor.description is None
    assert cursor.rowcount == -1
    with pytest.raises(InterfaceError):
        cursor.fetchall()


def test_rows_are_plain_tuples_of_plain_values(cursor):
    (row, *_) = cursor.execute(BY_SEX).fetchall()
    assert type(row) is tuple
    assert [type(value) for value in row] == [str, int]
    assert cursor.execute("SELECT day, COUNT(*) FROM visits GROUP BY day").fetchone()[0] == (
        datetime.date(2024, 2, 25)
    )


def test_null_is_none(cursor):
    assert None in {sex for sex, _ in cursor.execute(BY_SEX)}


def test_fetching_after_the_last_row_gives_nothing_and_no_error(cursor):
    cursor.execute(BY_SEX)
    assert len(cursor.fetchall()) == 3
    assert cursor.fetchone() is None
    assert cursor.fetchmany(5) == []
    assert cursor.fetchall() == []
    assert list(cursor) == []
    assert cursor.rowcount == 3


def test_all_ways_to_fetch_share_one_place(cursor):
    everything = cursor.execute(BY_DAY).fetchall()
    cursor.execute(BY_DAY)
    got = [cursor.fetchone(), *cursor.fetchmany(3), next(cursor), *cursor.fetchall()]
    assert got == everything


def test_fetchmany_returns_arraysize_rows(cursor):
    assert cursor.execute(BY_DAY).arraysize == 1
    assert len(cursor.fetchmany()) == 1
    cursor.arraysize = 4
    assert len(cursor.fetchmany()) == 4
    assert len(cursor.fetchmany(0)) == 0
    assert len(cursor.fetchmany(100)) == 5


def test_a_negative_number_of_rows_is_refused(cursor):
    with pytest.raises(InterfaceError, match="cannot be -1"):
        cursor.execute(BY_DAY).fetchmany(-1)


def test_arraysize_of_one_cursor_is_not_that_of_another(connection):
    one, other = connection.cursor(), connection.cursor()
    one.arraysize = 7
    assert other.arraysize == 1


def test_cursors_of_one_connection_do_not_disturb_each_other(connection):
    one, other = connection.cursor(), connection.cursor()
    one.execute(BY_DAY)
    first = one.fetchone()
    other.execute(BY_SEX)
    assert other.fetchone()[0] == "f"
    assert [first[0], one.fetchone()[0]] == DAYS[:2]
    other.close()
    assert len(one.fetchall()) == 8


def test_a_cursor_can_be_used_again_and_starts_anew(cursor):
    cursor.execute(BY_DAY)
    cursor.fetchmany(7)
    cursor.execute(BY_SEX)
    assert len(cursor.fetchall()) == 3
    assert [column[0] for column in cursor.description] == ["sex", "n"]
    assert len(cursor.execute(BY_DAY).fetchall()) == 10


def test_changing_fetched_rows_does_not_change_the_next_ones(connection):
    connection.execute(BY_SEX).fetchall().clear()
    assert len(connection.execute(BY_SEX).fetchall()) == 3


def test_iterating_gives_every_row_once(cursor):
    assert [day for day, _ in cursor.execute(BY_DAY)] == DAYS


def test_execute_returns_the_cursor(cursor):
    assert cursor.execute(BY_SEX) is cursor


def test_rownumber_counts_fetched_rows(cursor):
    assert cursor.rownumber is None
    cursor.execute(BY_DAY)
    assert cursor.rownumber == 0
    cursor.fetchmany(3)
    assert cursor.rownumber == 3


def test_scroll_moves_within_the_rows_and_not_beyond(cursor):
    cursor.execute(BY_DAY)
    cursor.scroll(5)
    assert cursor.fetchone()[0] == DAYS[5]
    cursor.scroll(-6)
    assert cursor.fetchone()[0] == DAYS[0]
    cursor.scroll(9, mode="absolute")
    assert cursor.fetchone()[0] == DAYS[9]
    with pytest.raises(IndexError, match="there are 10"):
        cursor.scroll(11, mode="absolute")
    with pytest.raises(IndexError):
        cursor.scroll(-30)
    with pytest.raises(InterfaceError, match="'relative' or 'absolute'"):
        cursor.scroll(1, mode="sideways")


def test_description_has_names_and_real_types(cursor):
    cursor.execute(
        "SELECT day, sex, smoker, COUNT(*) AS n, COUNT(*) / 2 AS half, "
        "CAST(COUNT(*) AS DECIMAL(12, 3)) AS d FROM visits WHERE FALSE GROUP BY ALL LIMIT 0"
    )
    assert [(name, code) for name, code, *_ in cursor.description] == [
        ("day", "DATE"),
        ("sex", "VARCHAR"),
        ("smoker", "BOOLEAN"),
        ("n", "BIGINT"),
        ("half", "DOUBLE"),
        ("d", "DECIMAL(12,3)"),
    ]
    assert [code == sqlmadp.NUMBER for _, code, *_ in cursor.description] == [
        *(False, False, True),
        *(True, True, True),
    ]
    assert cursor.description[0][1] == sqlmadp.DATETIME
    assert cursor.description[1][1] == sqlmadp.STRING
    assert cursor.description[5][4:6] == (12, 3)
    assert all(len(column) == 7 for column in cursor.description)


def test_description_and_rowcount_of_a_fresh_cursor_are_empty(cursor):
    assert cursor.description is None
    assert cursor.rowcount == -1
    assert cursor.lastrowid is None
    assert cursor.messages == []


def test_fetching_before_executing_is_misuse(cursor):
    for fetch in (cursor.fetchone, cursor.fetchmany, cursor.fetchall, cursor.nextset):
        with pytest.raises(InterfaceError, match="nothing was executed"):
            fetch()
    with pytest.raises(InterfaceError):
        next(cursor)
    with pytest.raises(InterfaceError):
        _ = cursor.expected_error


@pytest.mark.parametrize("sql", ["", "  ;  ", "-- only a comment", "SELECT 1; SELECT 2", "SELEC 1"])
def test_what_is_not_one_statement_is_refused(cursor, sql):
    with pytest.raises(ProgrammingError):
        cursor.execute(sql)


@pytest.mark.parametrize("sql", [None, 3, b"SELECT 1", ["SELECT 1"]])
def test_what_is_not_text_is_refused(cursor, sql):
    with pytest.raises(InterfaceError, match="a statement is text"):
        cursor.execute(sql)


@pytest.mark.parametrize("sql", ["SELECT COUNT(*) FROM visits \0", "SELECT '\udc80'"])
def test_text_that_sql_cannot_hold_is_refused(cursor, sql):
    with pytest.raises(ProgrammingError, match="lone surrogate"):
        cursor.execute(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE visits",
        "INSERT INTO visits VALUES (1)",
        "SELECT * FROM visits",
        "SELECT age FROM visits",
        "COPY visits TO 'x'",
        "PRAGMA version",
        "ATTACH 'x'",
    ],
)
def test_whatever_is_not_a_counting_select_is_refused(cursor, sql):
    with pytest.raises(ProgrammingError):
        cursor.execute(sql)


def test_a_statement_that_fails_on_released_answers_raises_our_own_error(cursor):
    with pytest.raises(sqlmadp.Error):
        cursor.execute("SELECT COUNT(*) * 9223372036854775807 FROM visits")


def test_an_answer_that_does_not_fit_its_cast_is_null_with_a_note(cursor):
    cursor.execute("SELECT CAST('x' || COUNT(*) AS INTEGER) FROM visits")
    assert cursor.fetchall() == [(None,)]
    assert "is NULL" in cursor.result.notes[0]


def test_executemany_gives_one_result_for_each_set_of_parameters(cursor, table):
    sql = "SELECT COUNT(*) FROM visits WHERE age = ?"
    assert cursor.executemany(sql, [(3,), (4,), (5,)]) is cursor
    got = [cursor.fetchall()]
    while cursor.nextset():
        got.append(cursor.fetchall())
    assert got == [table.execute(sql, [age]).fetchall() for age in (3, 4, 5)]
    assert cursor.nextset() is None


def test_executemany_of_nothing_has_no_result(cursor):
    cursor.executemany("SELECT COUNT(*) FROM visits WHERE age = ?", [])
    assert cursor.description is None
    with pytest.raises(InterfaceError):
        cursor.fetchall()


def test_a_single_result_has_no_next_one(cursor):
    assert cursor.execute(BY_SEX).nextset() is None


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("age >= ? AND sex = ?", [7, "f"]),
        ("age >= $low AND sex = $sex", {"low": 7, "sex": "f"}),
        ("age >= $1 AND sex = $2", (7, "f")),
    ],
)
def test_parameters_are_values_by_place_or_by_name(plans, sql, parameters):
    select = f"SELECT COUNT(*) FROM visits WHERE {sql}"
    path = plans.write(
        {"a": "SELECT age, sex, COUNT(*) FROM visits GROUP BY ALL"}, epsilon="1000", budget="1000"
    )
    sqlmadp.Plan.open(path).release()
    with sqlmadp.connect(path, analyst="a") as connection:
        ((got,),) = connection.execute(select, parameters).fetchall()
    ((exact,),) = plans.table().execute(select, parameters).fetchall()
    assert abs(got - exact) < 5


@pytest.mark.parametrize("value", ["f' OR 'a' = 'a", "f'; DROP TABLE visits; --", "?", "$1", "'"])
def test_a_parameter_is_never_read_as_sql(cursor, value):
    sql = "SELECT COUNT(*) FROM visits WHERE sex = ?"
    assert cursor.execute(sql, [value]).fetchall() == [(0,)]


def test_question_marks_in_strings_and_comments_are_no_parameters(cursor):
    sql = "SELECT COUNT(*) /* ? */ FROM visits WHERE sex = '?' OR sex = ? -- ?"
    with_it = cursor.execute(sql, ["f"]).fetchall()
    assert with_it == cursor.execute("SELECT COUNT(*) FROM visits WHERE sex = 'f'").fetchall()


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("age = ?", []),
        ("age = ?", None),
        ("age = ?", [1, 2]),
        ("age = $a", {"b": 1}),
        ("age = $a", [1, 2]),
        ("age = ?", [object()]),
        ("age = ?", [2**200]),
        ("sex = ?", ["\udc80"]),
        ("sex = ?", ["\0"]),
    ],
)
def test_parameters_that_do_not_fit_are_refused(cursor, sql, parameters):
    with pytest.raises(ProgrammingError):
        cursor.execute(f"SELECT COUNT(*) FROM visits WHERE {sql}", parameters)


@pytest.mark.parametrize("parameters", ["f", b"f", 3, object()])
def test_parameters_are_a_sequence_or_a_mapping(cursor, parameters):
    with pytest.raises(InterfaceError, match="a sequence or a mapping"):
        cursor.execute("SELECT COUNT(*) FROM visits WHERE sex = ?", parameters)


def test_every_count_has_an_expected_error_for_every_row(cursor):
    cursor.execute("SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex HAVING sex IS NOT NULL")
    assert list(cursor.expected_error) == ["n"]
    assert len(cursor.expected_error["n"]) == 2
    assert all(0 < error < 1e-3 for error in cursor.expected_error["n"])


def test_what_is_not_there_raises_not_supported(cursor):
    with pytest.raises(NotSupportedError, match="no stored procedures"):
        cursor.callproc("lower", ("FOO",))


def test_sizes_may_be_set_and_change_nothing(cursor):
    cursor.setinputsizes((25,))
    cursor.setoutputsize(1000)
    cursor.setoutputsize(2000, 0)
    assert len(cursor.execute(BY_SEX).fetchall()) == 3


def test_a_closed_cursor_can_do_nothing_but_close(cursor):
    cursor.execute(BY_SEX)
    cursor.close()
    cursor.close()
    assert cursor.description is None
    assert cursor.rowcount == -1
    for use in (
        lambda: cursor.execute(BY_SEX),
        lambda: cursor.executemany(BY_SEX, [()]),
        cursor.fetchone,
        cursor.fetchmany,
        cursor.fetchall,
        cursor.nextset,
        lambda: cursor.scroll(0),
        lambda: cursor.setinputsizes([]),
        lambda: cursor.setoutputsize(1),
        lambda: cursor.callproc("x"),
        cursor.__enter__,
    ):
        with pytest.raises(InterfaceError, match="the cursor is closed"):
            use()


def test_a_cursor_closes_at_the_end_of_its_block(connection):
    with connection.cursor() as cursor:
        cursor.execute(BY_SEX)
    with pytest.raises(InterfaceError):
        cursor.fetchone()


def test_a_cursor_keeps_its_connection_alive_and_nothing_else_does(released):
    cursor = sqlmadp.connect(released, analyst="alice").execute(BY_SEX)
    gc.collect()
    assert len(cursor.fetchall()) == 3
    connection = weakref.ref(cursor.connection)
    del cursor
    gc.collect()
    assert connection() is None


def test_rows_outlive_cursor_and_connection(released):
    connection = sqlmadp.connect(released, analyst="alice")
    result = connection.execute(BY_SEX).result
    del connection
    gc.collect()
    assert len(result.pandas()) == 3


def test_a_connection_with_errors_has_them_as_columns_and_as_expected_errors(released, connection):
    sql = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex ORDER BY sex"
    plain = connection.execute(sql)
    with sqlmadp.connect(released, analyst="alice", errors=True) as stating:
        cursor = stating.execute(sql)
        names = ["sex", "n", "n_stderr", "n_low", "n_high"]
        assert [name for name, *_ in cursor.description] == names
        assert cursor.expected_error == plain.expected_error
        for (_, n, error, low, high), (_, m), expected in zip(
            cursor.fetchall(), plain.fetchall(), plain.expected_error["n"], strict=True
        ):
            assert (n, error) == (m, expected)
            assert low < n < high
        assert list(plain.result.pandas(errors=True).columns) == names
        assert plain.result.polars(errors=True).columns == names
