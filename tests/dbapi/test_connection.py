"""Connections: staging before the release, answers after it, and who sees what."""

import threading

import pytest

import sqlmadp
from sqlmadp import InterfaceError, NotSupportedError, OperationalError, Plan, ProgrammingError
from sqlmadp.errors import NotReleasedError
from sqlmadp.files.staging import held

OLD = "SELECT COUNT(*) AS old FROM visits WHERE age > 9"
YOUNG = "SELECT COUNT(*) AS young FROM visits WHERE age < 5"
BY_SEX = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"


def handed_in(path, analyst="alice"):
    """The statements in the analyst's staged file."""
    file = Plan.open(path).staged_path(analyst)
    return file.read_text() if file.exists() else ""


def end(connection, how):
    """Commit, roll back, close, or leave the with block."""
    getattr(connection, how)(*[None] * 3 if how == "__exit__" else [])


def said(connection_or_cursor):
    """The last message."""
    kind, message = connection_or_cursor.messages[-1]
    assert kind is sqlmadp.Warning
    return str(message)


# Before the release: a SELECT is staged, and a word of the person hands it in.


def test_a_select_is_staged_and_commit_hands_it_in(staging, pending):
    cursor = staging.execute(OLD)
    assert "connection.commit() hands it in, or write HAND IN before it" in said(cursor)
    staging.execute(YOUNG)
    assert handed_in(pending) == ""
    staging.commit()
    assert staging.queries["staged_1"] == OLD
    assert staging.queries["staged_2"] == YOUNG
    assert said(staging).startswith("2 staged statements were handed in:")
    assert "has been handed in" in said(cursor.execute(OLD))
    staging.commit()
    assert handed_in(pending).count("-- name:") == 2
    assert staging.messages == []
    release = Plan.open(pending).release()
    assert set(release.results()["alice"]) == {"by_sex", "by_age", "staged_1", "staged_2"}


@pytest.mark.parametrize("how", ["rollback", "close", "__exit__"])
def test_what_is_staged_is_discarded_without_a_commit_and_a_message_says_so(pending, how):
    connection = sqlmadp.connect(pending, analyst="alice")
    connection.execute(OLD)
    end(connection, how)
    assert said(connection) == f"1 staged statement was discarded, and not handed in:\n    {OLD}"
    if how == "rollback":
        connection.commit()
    assert handed_in(pending) == ""


def test_after_a_rollback_the_cursor_says_that_its_statement_is_no_longer_staged(staging):
    cursor = staging.execute(OLD)
    staging.rollback()
    with pytest.raises(NotReleasedError, match="no longer staged"):
        cursor.fetchall()


def test_closing_without_anything_staged_has_nothing_to_say(pending):
    connection = sqlmadp.connect(pending, analyst="alice")
    connection.close()
    assert connection.messages == []


def test_a_commit_hands_in_all_or_nothing(staging, pending):
    staging.execute(OLD)
    staging.execute(f"-- name: young\n{YOUNG}")
    with sqlmadp.connect(pending, analyst="alice") as other:
        other.execute(f"HAND IN AS young {YOUNG} AND smoker")
    with pytest.raises(ProgrammingError, match="name 'young'"):
        staging.commit()
    assert OLD not in handed_in(pending)
    staging.rollback()
    staging.execute(OLD)
    staging.commit()
    assert OLD in handed_in(pending)


def test_a_statement_that_is_refused_is_not_staged(staging, pending):
    with pytest.raises(ProgrammingError):
        staging.execute("SELECT MAX(age) FROM visits")
    with pytest.raises(ProgrammingError):
        staging.cursor().executemany(f"{OLD} AND sex = ?", [("f",), (object(),)])
    staging.commit()
    assert handed_in(pending) == ""


def test_executemany_stages_all(staging, pending):
    staging.cursor().executemany("SELECT COUNT(*) FROM visits WHERE age > ?", [(1,), (2,)])
    staging.commit()
    assert handed_in(pending).count("-- name:") == 2


def test_what_is_staged_is_listed_apart_from_what_was_handed_in(staging):
    staging.execute(f"HAND IN AS young {YOUNG}")
    staging.execute(OLD)
    assert [row[:3] for row in staging.staged()] == [
        ("by_sex", "waits for the release", "alice.sql"),
        ("by_age", "waits for the release", "alice.sql"),
        ("young", "waits for the release", "plan.staged/alice.sql"),
        ("staged_1", "staged, not handed in", ""),
    ]
    staging.commit()
    assert [row[1] for row in staging.staged()] == ["waits for the release"] * 4


def test_what_is_staged_is_the_connections_own(staging, pending):
    staging.execute(OLD)
    with sqlmadp.connect(pending, analyst="alice") as other:
        assert OLD not in [row[3] for row in other.staged()]
        other.commit()
    assert handed_in(pending) == ""


def test_nothing_staged_is_handed_in_after_the_release(staging, pending, plans):
    cursor = staging.execute(OLD)
    Plan.open(pending).release()
    with pytest.raises(OperationalError, match=r"rollback\(\) discards what is staged"):
        staging.commit()
    assert handed_in(pending) == ""
    staging.rollback()
    staging.commit()
    assert cursor.fetchall() == plans.table().execute(OLD).fetchall()


@pytest.mark.parametrize("how", ["commit", "rollback", "close", "__exit__"])
def test_a_tool_that_commits_by_itself_hands_nothing_in(pending, how):
    connection = sqlmadp.connect(pending, analyst="alice", stage=False)
    cursor = connection.execute(OLD)
    assert f"HAND IN {OLD}" in said(cursor)
    assert "commit()" not in said(cursor)
    assert OLD not in [row[3] for row in connection.staged()]
    end(connection, how)
    assert connection.messages == []
    assert handed_in(pending) == ""


@pytest.mark.parametrize("how", ["commit", "rollback", "close", "__exit__"])
def test_hand_in_takes_effect_at_once_whatever_comes_after_it(pending, how):
    connection = sqlmadp.connect(pending, analyst="alice")
    connection.execute(f"HAND IN {OLD}")
    assert OLD in handed_in(pending)
    assert connection.queries["staged_1"] == OLD
    end(connection, how)
    assert OLD in handed_in(pending)


def test_hand_in_returns_all_that_was_handed_in_the_new_one_first(staging):
    cursor = staging.execute(f"HAND IN AS old {OLD}")
    assert [name for name, *_ in cursor.description] == ["name", "state", "file", "statement"]
    assert [(name, state) for name, state, *_ in cursor.fetchall()] == [
        ("old", "handed in now"),
        ("by_sex", "waits for the release"),
        ("by_age", "waits for the release"),
    ]
    again = staging.execute(f"HAND IN {OLD}").fetchall()
    assert [state for _, state, *_ in again] == ["waits for the release"] * 3


@pytest.mark.parametrize(
    "text",
    [
        f"HAND IN AS old {OLD}",
        f"hand\n in  as old\n{OLD}",
        f"-- name: old\nHAND IN {OLD}",
        f"-- name: other\nHAND IN AS old {OLD}",
        f"/* HAND IN */ HAND IN AS old {OLD};",
        f"HAND IN\n-- name: old\n{OLD}",
    ],
)
def test_hand_in_gives_the_name_that_is_asked_for(staging, text):
    staging.execute(text)
    assert staging.queries["old"] == OLD


def test_a_name_that_cannot_be_one_is_refused(staging, pending):
    for text in (f"HAND IN AS a/b {OLD}", f"HAND IN AS {OLD}", "HAND IN"):
        with pytest.raises(ProgrammingError):
            staging.execute(text)
    assert handed_in(pending) == ""


def test_the_method_hands_in_as_the_statement_does(staging):
    by_method = staging.hand_in(f"-- name: old\n{OLD} AND sex = ?", ["f"])
    assert by_method.rows[0][:2] == ("old", "handed in now")
    assert staging.queries["old"] == f"{OLD} AND sex = 'f'"


def test_a_slip_in_what_is_handed_in_is_noted(staging):
    cursor = staging.execute("HAND IN SELECT COUNT(*) FROM visits WHERE sex = 'F'")
    assert "Did you mean 'f'" in str(cursor.messages[0][1])
    assert "Did you mean 'f'" in cursor.result.notes[0]


def test_explain_shows_expected_errors_and_hands_nothing_in(staging, pending):
    (row,) = staging.execute(f"EXPLAIN {OLD}").fetchall()
    assert row[0] == "old"
    staging.execute("SELECT * FROM visits WHERE 1=0")  # A probe is no part of any workload.
    staging.commit()
    assert handed_in(pending) == ""


# Withdrawing.


def test_what_was_handed_in_can_be_withdrawn(staging, pending):
    staging.execute(f"HAND IN AS old {OLD}")
    staging.execute(f"HAND IN AS young\n-- weight: 4\n{YOUNG}")
    left = staging.execute("WITHDRAW OLD").fetchall()
    assert [row[:2] for row in left] == [
        ("old", "withdrawn now"),
        ("by_sex", "waits for the release"),
        ("by_age", "waits for the release"),
        ("young", "waits for the release"),
    ]
    assert OLD not in handed_in(pending)
    assert "-- weight: 4" in handed_in(pending)
    assert [row[0] for row in staging.staged()] == ["by_sex", "by_age", "young"]
    staging.withdraw("young")
    assert [row[0] for row in staging.staged()] == ["by_sex", "by_age"]
    release = Plan.open(pending).release()
    assert set(release.results()["alice"]) == {"by_sex", "by_age"}


def test_a_name_is_free_again_once_its_statement_is_withdrawn(staging):
    staging.execute(f"HAND IN AS old {OLD}")
    staging.withdraw("old")
    staging.execute(f"HAND IN AS old {YOUNG}")
    assert staging.queries["old"] == YOUNG


def test_a_statement_of_a_file_cannot_be_withdrawn_from_a_connection(staging, pending):
    before = (pending.parent / "alice.sql").read_text()
    with pytest.raises(ProgrammingError, match=r"it is in '.*alice\.sql'.*Nothing was withdrawn"):
        staging.withdraw("by_sex")
    assert (pending.parent / "alice.sql").read_text() == before


def test_what_was_never_handed_in_cannot_be_withdrawn(staging):
    staging.execute(f"HAND IN AS old {OLD}")
    with pytest.raises(ProgrammingError, match=r"called 'ages'.*can be withdrawn: old"):
        staging.withdraw("ages")


def test_nobody_withdraws_what_another_analyst_handed_in(staging, pending):
    staging.execute(f"HAND IN AS old {OLD}")
    with sqlmadp.connect(pending, analyst="bob") as bob:
        assert "old" not in [row[0] for row in bob.staged()]
        with pytest.raises(ProgrammingError, match="called 'old'"):
            bob.withdraw("old")
    assert OLD in handed_in(pending)


def test_nothing_is_withdrawn_from_a_release_that_has_been_made(staging, pending):
    staging.execute(f"HAND IN AS old {OLD}")
    release = Plan.open(pending).release()
    before = handed_in(pending)
    for withdraw in (staging.withdraw, lambda name: staging.execute(f"WITHDRAW {name}")):
        with pytest.raises(OperationalError, match="'old' cannot be withdrawn from it"):
            withdraw("old")
    assert handed_in(pending) == before
    assert {row[1] for row in staging.staged()} == {"released"}
    assert Plan.open(pending).released().rows("alice", "old") == release.rows("alice", "old")


def test_a_statement_that_the_schema_no_longer_allows_can_still_be_withdrawn(staging, pending):
    staging.execute(f"HAND IN AS old {OLD}")
    file = pending.parent / "alice.sql"
    file.write_text("SELECT COUNT(* FROM visits WHERE $nothing")
    staging.withdraw("old")
    assert OLD not in handed_in(pending)


# What is known before the release.


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
        connection.hand_in(OLD)
        assert cursor.expected_error == before
        Plan.open(path).release()
        assert cursor.expected_error["old"] == pytest.approx(before["old"])
        assert len(cursor.fetchall()) == 1


def test_expected_errors_and_certificates_are_those_with_what_is_staged(plans):
    path = plans.write({"alice": BY_SEX, "bob": "SELECT COUNT(*) FROM visits WHERE smoker"})
    by_age = "SELECT age, COUNT(*) AS n FROM visits GROUP BY age"
    with sqlmadp.connect(path, analyst="alice") as connection:
        without = connection.execute(f"EXPLAIN {OLD}").fetchall()
        alone = connection.certificate.analysts["alice"].now
        cursor = connection.execute(BY_SEX)
        before = cursor.expected_error
        connection.execute(by_age)
        staged = cursor.expected_error, connection.execute(f"EXPLAIN {OLD}").fetchall()
        certified = connection.certificate.analysts["alice"].now
        assert (before, without) != staged
        assert staged[0] != before
        assert staged[1] != without
        assert certified != alone
        connection.commit()
        assert (cursor.expected_error, connection.execute(f"EXPLAIN {OLD}").fetchall()) == staged
        assert connection.certificate.analysts["alice"].now == certified


def test_more_analysts_with_the_same_question_lower_the_expected_error(plans):
    path = plans.write({"alice": BY_SEX, "bob": "SELECT COUNT(*) FROM visits WHERE smoker"})
    with (
        sqlmadp.connect(path, analyst="alice") as alice,
        sqlmadp.connect(path, analyst="bob") as bob,
    ):
        cursor = alice.execute(BY_SEX)
        (before, *_) = cursor.expected_error["n"]
        bob.hand_in(BY_SEX)
        assert cursor.expected_error["n"][0] < before


@pytest.mark.parametrize("fetch", ["fetchone", "fetchmany", "fetchall", "__next__"])
def test_fetching_before_the_release_says_what_happens_next(staging, pending, fetch):
    cursor = staging.execute(OLD)
    with pytest.raises(OperationalError) as refused:
        getattr(cursor, fetch)()
    assert isinstance(refused.value, NotReleasedError)
    for part in ("pending", "is staged", "connection.commit()", f"sqlmadp release {pending}"):
        assert part in str(refused.value)
    staging.commit()
    with pytest.raises(NotReleasedError, match="has been handed in"):
        getattr(cursor, fetch)()


@pytest.mark.parametrize("front", ["", "HAND IN ", "EXPLAIN "])
def test_a_wrong_statement_is_refused_when_executed(staging, pending, front):
    with pytest.raises(ProgrammingError, match=rf"(?s)query:1:{8 + len(front)}: .*MAX"):
        staging.execute(f"{front}SELECT MAX(age) FROM visits")
    assert handed_in(pending) == ""


def test_executemany_hands_in_all_or_nothing(staging, pending):
    sql = "HAND IN SELECT COUNT(*) FROM visits WHERE age > ?"
    cursor = staging.cursor().executemany(sql, [(1,), (2,)])
    assert [state for _, state, *_ in cursor.fetchall()][:2] == ["handed in now"] * 2
    with pytest.raises(ProgrammingError):
        staging.cursor().executemany(sql, [(3,), (object(),)])
    with pytest.raises(ProgrammingError):
        staging.cursor().executemany(f"{sql} AND sex = ?", [(3, "f"), ("f", 3)])
    assert handed_in(pending).count("-- name:") == 2


def test_the_same_statement_is_handed_in_once(staging, pending):
    for _ in range(2):
        staging.execute(f"HAND IN {OLD}")
    assert handed_in(pending).count(OLD) == 1


def test_a_statement_of_the_own_files_is_not_handed_in_again(staging, pending):
    staging.execute(f"HAND IN {BY_SEX}")
    assert handed_in(pending) == ""


@pytest.mark.parametrize("name", ["by_sex", "BY_SEX"])
def test_a_name_that_is_taken_is_refused(staging, pending, name):
    with pytest.raises(ProgrammingError, match="another statement with the name"):
        staging.execute(f"HAND IN AS {name} {OLD}")
    with pytest.raises(ProgrammingError, match="another statement with the name"):
        staging.execute(f"-- name: {name}\n{OLD}")
    assert handed_in(pending) == ""
    assert staging.execute(f"EXPLAIN\n-- name: {name}\n{OLD}").rowcount == 1


def test_two_connections_of_one_analyst_do_not_write_over_each_other(pending):
    one, other = (sqlmadp.connect(pending, analyst="alice") for _ in range(2))
    one.execute(f"HAND IN AS old {OLD}")
    with pytest.raises(ProgrammingError, match="name 'old'"):
        other.execute(f"HAND IN AS old {OLD} AND smoker")
    other.execute(f"HAND IN AS young {YOUNG}")
    assert {"old", "young"} < set(one.queries)


@pytest.mark.parametrize(
    "text",
    [
        f"{OLD} -- a comment at the end",
        f"{OLD} /* ; */ AND sex <> '; -- name: x'",
        f"/* first */ {OLD} AND sex = 'a\r\nb'",
        f"{OLD} AND sex = 'ü€😀';;",
    ],
)
def test_any_statement_is_read_back_as_it_was_handed_in(staging, pending, text):
    staging.execute(f"HAND IN {text}")
    (read,) = [row[3] for row in staging.staged() if row[0] == "staged_1"]
    assert text.rstrip(";").removeprefix("/* first */ ") == read
    staging.execute(f"HAND IN {text}")
    assert "staged_2" not in staging.queries
    staging.execute(f"HAND IN AS young {YOUNG}")
    staging.withdraw("young")
    assert staging.queries["staged_1"] == read
    assert len(Plan.open(pending).release().rows("alice", "staged_1")) == 1


def test_parameters_are_part_of_what_is_handed_in(staging, pending):
    staging.execute("HAND IN SELECT COUNT(*) FROM visits WHERE sex = ? AND age > ?", ["a'b", 3])
    assert "sex = 'a''b' AND age > CAST('3' AS INTEGER)" in handed_in(pending)


def test_an_analyst_without_files_hands_everything_in_from_python(plans):
    path = plans.write({"alice": BY_SEX, "bob": OLD})
    path.write_text(path.read_text().replace('queries = "bob.sql"', ""))
    with pytest.raises(ProgrammingError, match="'bob' has handed in no statement yet"):
        Plan.open(path).release()
    with sqlmadp.connect(path, analyst="bob") as connection:
        assert connection.queries == {}
        assert connection.execute(OLD).expected_error["old"][0] > 0
        connection.hand_in(OLD)
    release = Plan.open(path).release()
    assert len(release.rows("bob", "staged_1")) == 1


def test_what_was_handed_in_is_part_of_the_release(staging, pending, plans):
    cursor = staging.execute(OLD)
    staging.hand_in(OLD)
    Plan.open(pending).release()
    assert cursor.fetchall() == plans.table().execute(OLD).fetchall()
    assert cursor.rowcount == 1
    assert staging.released


def test_nothing_is_handed_in_after_the_release(staging, pending):
    Plan.open(pending).release()
    with pytest.raises(OperationalError, match="without HAND IN"):
        staging.execute(f"HAND IN {OLD}")
    assert handed_in(pending) == ""
    assert len(staging.execute(OLD).fetchall()) == 1


@pytest.mark.parametrize("text", [f"HAND IN AS young {YOUNG}", "WITHDRAW old"])
def test_a_change_waits_until_a_release_under_way_has_ended(staging, pending, text):
    staging.execute(f"HAND IN AS old {OLD}")
    done = threading.Event()
    with held(pending.parent, shared=True):
        change = threading.Thread(target=lambda: (staging.execute(text), done.set()))
        change.start()
        assert not done.wait(0.3)
    change.join()
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
        connection.staged,
        lambda: connection.withdraw("by_sex"),
        lambda: connection.hand_in(BY_SEX),
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
