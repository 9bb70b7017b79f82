"""Connections: staging before the release, answers after it, and who sees what."""

import threading

import pytest

import sqlmadp
from sqlmadp import (
    InterfaceError,
    NotSupportedError,
    OperationalError,
    Plan,
    ProgrammingError,
)
from sqlmadp.errors import NotReleasedError
from sqlmadp.staging import held

OLD = "SELECT COUNT(*) AS old FROM visits WHERE age > 9"
BY_SEX = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"


def handed_in(path, analyst="alice"):
    """The statements in the analyst's staged file."""
    file = Plan.open(path).staged_path(analyst)
    return file.read_text() if file.exists() else ""


# Before the release.


def test_executing_stages_and_committing_hands_in(staging, pending):
    staging.execute(OLD)
    assert staging.staged == (OLD,)
    assert handed_in(pending) == ""
    staging.commit()
    assert staging.staged == ()
    assert OLD in handed_in(pending)
    assert staging.queries["staged_1"] == OLD


def test_rolling_back_drops_what_was_staged(staging, pending):
    staging.execute(OLD)
    staging.rollback()
    staging.commit()
    assert staging.staged == ()
    assert handed_in(pending) == ""


def test_closing_drops_what_was_staged(pending):
    connection = sqlmadp.connect(pending, analyst="alice")
    connection.execute(OLD)
    connection.close()
    assert handed_in(pending) == ""


def test_leaving_a_block_commits_and_an_exception_rolls_back(pending):
    def fail():
        with sqlmadp.connect(pending, analyst="alice") as connection:
            connection.execute(OLD)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert handed_in(pending) == ""
    with sqlmadp.connect(pending, analyst="alice") as connection:
        connection.execute(OLD)
    assert OLD in handed_in(pending)
    with pytest.raises(InterfaceError, match="closed"):
        connection.cursor()


def test_a_staged_query_has_a_description_and_expected_errors_at_once(staging):
    cursor = staging.execute(BY_SEX + " HAVING COUNT(*) > 3 ORDER BY n DESC LIMIT 1")
    assert [name for name, *_ in cursor.description] == ["sex", "n"]
    assert cursor.rowcount == -1
    assert len(cursor.expected_error["n"]) == 3
    assert all(error > 0 for error in cursor.expected_error["n"])


def test_the_expected_error_before_the_release_is_the_one_after_it(plans):
    path = plans.write({"alice": BY_SEX, "bob": "SELECT COUNT(*) FROM visits WHERE smoker"})
    with sqlmadp.connect(path, analyst="alice") as connection:
        cursor = connection.execute(OLD)
        before = cursor.expected_error
        connection.commit()
        assert cursor.expected_error == before
        Plan.open(path).release()
        assert cursor.expected_error["old"] == pytest.approx(before["old"])
        assert len(cursor.fetchall()) == 1


def test_more_analysts_with_the_same_question_lower_the_expected_error(plans):
    path = plans.write({"alice": BY_SEX, "bob": "SELECT COUNT(*) FROM visits WHERE smoker"})
    with (
        sqlmadp.connect(path, analyst="alice") as alice,
        sqlmadp.connect(path, analyst="bob") as bob,
    ):
        cursor = alice.execute(BY_SEX)
        (before, *_) = cursor.expected_error["n"]
        bob.execute(BY_SEX)
        bob.commit()
        assert cursor.expected_error["n"][0] < before


@pytest.mark.parametrize("fetch", ["fetchone", "fetchmany", "fetchall", "__next__"])
def test_fetching_before_the_release_says_what_happens_next(staging, pending, fetch):
    cursor = staging.execute(OLD)
    with pytest.raises(OperationalError) as refused:
        getattr(cursor, fetch)()
    assert isinstance(refused.value, NotReleasedError)
    for part in ("pending", "commit() hands it in", f"sqlmadp release {pending}"):
        assert part in str(refused.value)
    staging.commit()
    with pytest.raises(NotReleasedError, match="has been handed in"):
        getattr(cursor, fetch)()


def test_fetching_what_was_rolled_back_says_so(staging):
    cursor = staging.execute(OLD)
    staging.rollback()
    with pytest.raises(NotReleasedError, match="no longer staged"):
        cursor.fetchall()


def test_a_wrong_statement_is_refused_when_executed_and_not_staged(staging):
    with pytest.raises(ProgrammingError, match=r"(?s)query:1:8: .*MAX"):
        staging.execute("SELECT MAX(age) FROM visits")
    assert staging.staged == ()


def test_executemany_stages_all_or_nothing(staging):
    sql = "SELECT COUNT(*) FROM visits WHERE age > ?"
    staging.cursor().executemany(sql, [(1,), (2,)])
    assert len(staging.staged) == 2
    with pytest.raises(ProgrammingError):
        staging.cursor().executemany(sql, [(3,), (object(),)])
    assert len(staging.staged) == 2


def test_the_same_statement_is_handed_in_once(staging, pending):
    for _ in range(2):
        staging.execute(OLD)
        staging.execute(OLD)
        staging.commit()
    assert handed_in(pending).count(OLD) == 1


def test_a_statement_of_the_own_files_is_not_handed_in_again(staging, pending):
    staging.execute(BY_SEX)
    assert staging.staged == ()
    staging.commit()
    assert handed_in(pending) == ""


def test_a_statement_keeps_the_name_it_is_given(staging, pending):
    staging.execute(f"-- name: old_ones\n{OLD}")
    staging.commit()
    assert staging.queries["old_ones"] == OLD
    release = Plan.open(pending).release()
    assert len(release.rows("alice", "old_ones")) == 1


@pytest.mark.parametrize("name", ["by_sex", "BY_SEX"])
def test_a_name_that_is_taken_is_refused(staging, name):
    with pytest.raises(ProgrammingError, match="another statement with the name"):
        staging.execute(f"-- name: {name}\n{OLD}")
    assert staging.staged == ()


def test_two_connections_of_one_analyst_do_not_write_over_each_other(pending):
    one, other = (sqlmadp.connect(pending, analyst="alice") for _ in range(2))
    one.execute(f"-- name: old\n{OLD}")
    other.execute(f"-- name: old\n{OLD} AND smoker")
    other.execute(OLD)
    one.commit()
    with pytest.raises(ProgrammingError, match="name 'old'"):
        other.commit()
    assert len(other.staged) == 2
    assert handed_in(pending).count("-- name:") == 1


@pytest.mark.parametrize(
    "text",
    [
        f"{OLD} -- a comment at the end",
        f"{OLD} /* ; */ AND sex <> '; -- name: x'",
        f"/* first */ {OLD} AND sex = 'a\r\nb'",
        f"{OLD} AND sex = 'ü€😀';;",
    ],
)
def test_whatever_a_statement_holds_is_read_back_as_it_was_staged(staging, pending, text):
    staging.execute(text)
    (staged,) = staging.staged
    staging.commit()
    assert staging.queries["staged_1"] == staged
    staging.execute(text)
    assert staging.staged == ()
    assert len(Plan.open(pending).release().rows("alice", "staged_1")) == 1


def test_parameters_are_part_of_what_is_handed_in(staging, pending):
    staging.execute("SELECT COUNT(*) FROM visits WHERE sex = ? AND age > ?", ["a'b", 3])
    staging.commit()
    assert "sex = 'a''b' AND age > CAST('3' AS INTEGER)" in handed_in(pending)


def test_an_analyst_without_files_hands_everything_in_from_python(plans):
    path = plans.write({"alice": BY_SEX, "bob": OLD})
    path.write_text(path.read_text().replace('queries = "bob.sql"', ""))
    with pytest.raises(ProgrammingError, match="'bob' has handed in no statement yet"):
        Plan.open(path).release()
    with sqlmadp.connect(path, analyst="bob") as connection:
        assert connection.queries == {}
        assert connection.execute(OLD).expected_error["old"][0] > 0
    release = Plan.open(path).release()
    assert len(release.rows("bob", "staged_1")) == 1


def test_what_was_handed_in_is_part_of_the_release(staging, pending, plans):
    cursor = staging.execute(OLD)
    staging.commit()
    Plan.open(pending).release()
    assert cursor.fetchall() == plans.table().execute(OLD).fetchall()
    assert cursor.rowcount == 1
    assert staging.released


def test_nothing_is_handed_in_after_the_release(staging, pending):
    staging.execute(OLD)
    Plan.open(pending).release()
    with pytest.raises(OperationalError, match="not part of it; nothing was handed in"):
        staging.commit()
    assert handed_in(pending) == ""
    staging.rollback()
    staging.commit()
    assert len(staging.execute(OLD).fetchall()) == 1


def test_a_commit_waits_until_a_release_under_way_has_ended(staging, pending):
    staging.execute(OLD)
    done = threading.Event()
    with held(pending.parent, shared=True):
        commit = threading.Thread(target=lambda: (staging.commit(), done.set()))
        commit.start()
        assert not done.wait(0.3)
    commit.join()
    assert done.is_set()


# Who sees what.


def test_mistakes_of_another_analyst_are_not_shown(plans):
    path = plans.write({"alice": BY_SEX, "bob": "SELECT secret_column FROM visits"})
    with sqlmadp.connect(path, analyst="alice") as connection:
        cursor = connection.execute(OLD)
        assert cursor.expected_error["old"][0] > 0
        with pytest.raises(NotReleasedError) as refused:
            cursor.fetchall()
        assert "secret" not in str(refused.value)
        connection.rollback()
    cursor = sqlmadp.connect(path, analyst="bob").execute(OLD)
    with pytest.raises(ProgrammingError, match="secret_column"):
        _ = cursor.expected_error


def test_own_mistakes_are_shown(plans):
    path = plans.write({"alice": "SELECT COUNT(* FROM visits", "bob": OLD})
    connection = sqlmadp.connect(path, analyst="alice")
    with pytest.raises(ProgrammingError, match=r"alice\.sql:1"):
        _ = connection.certificate


def test_an_analyst_sees_the_own_queries_and_rows_only(connection):
    assert set(connection.queries) == {"by_sex", "by_age"}
    assert len(connection.rows("by_sex")) == 3
    with pytest.raises(ProgrammingError, match="'alice' has no query 'smokers'") as refused:
        connection.rows("smokers")
    assert "days" not in str(refused.value)
    assert set(connection.certificate.analysts) == {"alice"}


def test_an_unknown_analyst_is_refused(pending):
    with pytest.raises(ProgrammingError, match="no analyst 'eve' in this plan"):
        sqlmadp.connect(pending, analyst="eve")


def test_rows_before_the_release_are_pending(staging):
    with pytest.raises(NotReleasedError):
        staging.rows("by_sex")


def test_certificates_before_and_after_the_release_agree(plans):
    path = plans.write({"alice": BY_SEX, "bob": OLD})
    with sqlmadp.connect(path, analyst="alice") as connection:
        before = connection.certificate.analysts["alice"]
        release = Plan.open(path).release()
        after = connection.certificate.analysts["alice"]
        assert after == release.certificate.analysts["alice"]
    assert after.now == pytest.approx(before.now)
    assert after.ratio == pytest.approx(after.now / after.alone)
    assert after.ratio <= 1 + 1e-9
    assert set(after.interference) == {"bob"}


# The interface.


def test_a_plan_may_be_given_as_a_path_a_text_or_an_open_plan(pending):
    for plan in (pending, str(pending), Plan.open(pending)):
        with sqlmadp.connect(plan, analyst="alice") as connection:
            assert connection.analyst == "alice"
            assert not connection.released


def test_a_missing_plan_is_refused(tmp_path):
    with pytest.raises(ProgrammingError, match=r"gone\.toml"):
        sqlmadp.connect(tmp_path / "gone.toml", analyst="alice")


def test_a_closed_connection_can_do_nothing_but_close(released):
    connection = sqlmadp.connect(released, analyst="alice")
    cursor = connection.execute(BY_SEX)
    connection.close()
    connection.close()
    for use in (
        connection.cursor,
        connection.commit,
        connection.rollback,
        connection.__enter__,
        lambda: connection.execute(BY_SEX),
        lambda: connection.rows("by_sex"),
        lambda: connection.released,
        lambda: connection.queries,
        lambda: connection.staged,
        lambda: connection.certificate,
        lambda: cursor.execute(BY_SEX),
        cursor.fetchone,
        lambda: cursor.expected_error,
    ):
        with pytest.raises(InterfaceError, match="the connection is closed"):
            use()
    cursor.close()


def test_the_exceptions_are_attributes_of_connections(connection):
    for name in (
        "Warning",
        "Error",
        "InterfaceError",
        "DatabaseError",
        "DataError",
        "OperationalError",
        "IntegrityError",
        "InternalError",
        "ProgrammingError",
        "NotSupportedError",
    ):
        assert getattr(connection, name) is getattr(sqlmadp, name)


def test_transactions_in_two_phases_are_not_supported(connection):
    for name in ("xid", "tpc_begin", "tpc_prepare", "tpc_commit", "tpc_rollback", "tpc_recover"):
        with pytest.raises(NotSupportedError):
            getattr(connection, name)(1)


def test_tables_are_those_that_the_schema_declares(connection):
    assert list(connection.tables) == ["visits"]
    assert connection.tables["visits"][:2] == (("age", "BIGINT", True), ("sex", "VARCHAR", True))


def test_the_limits_of_the_plan_hold_for_connections(pending):
    pending.write_text(pending.read_text() + "[limits]\ncharacters = 70\n")
    connection = sqlmadp.connect(pending, analyst="alice")
    connection.execute(OLD)
    with pytest.raises(ProgrammingError, match="at most 70"):
        connection.execute(OLD + " " * 30 + "AND smoker")


# Probes: how tools ask for the columns of a table.


@pytest.mark.parametrize(
    "probe",
    [
        "SELECT * FROM visits WHERE 1=0",
        'select * from "visits" where 1 = 0',
        "SELECT * FROM Visits LIMIT 0",
        "SELECT * FROM visits WHERE FALSE",
    ],
)
def test_a_probe_shows_the_declared_columns_and_no_row(probe, staging, connection):
    for each in (staging, connection):
        cursor = each.execute(probe)
        assert cursor.fetchall() == []
        assert [(name, kind) for name, kind, *_ in cursor.description] == [
            (name, kind) for name, kind, _ in each.tables["visits"]
        ]
    assert staging.staged == ()


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM visits",
        "SELECT * FROM visits WHERE 1=1",
        "SELECT * FROM visits LIMIT 1",
        "SELECT * FROM visits WHERE 1=0 OR TRUE",
        "SELECT * FROM elsewhere WHERE 1=0",
    ],
)
def test_what_is_no_probe_of_a_declared_table_is_refused(statement, staging, connection):
    for each in (staging, connection):
        with pytest.raises(ProgrammingError):
            each.execute(statement)
