"""Threads and processes on one plan: nothing is lost, and only declared errors are raised."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

import sqlmadp
from sqlmadp.sql.statements import split

THREADS, PROCESSES, COMMITS = 8, 4, 3

WORKER = """
import sys
from concurrent.futures import ThreadPoolExecutor
import sqlmadp

path, process, threads, commits = sys.argv[1], *map(int, sys.argv[2:])

def stage(thread):
    with sqlmadp.connect(path, analyst=["alice", "bob"][thread % 2]) as connection:
        for commit in range(commits):
            name = f"p{process}_t{thread}_c{commit}"
            age = process * 4 + thread % 4 + commit
            cursor = connection.execute(
                f"HAND IN AS {name} SELECT COUNT(*) FROM visits WHERE age = {age} AND "
                f"sex <> '{name}'"
            )
            assert cursor.fetchone()[:2] == (name, "handed in now")
            if commit % 2:
                connection.withdraw(name)
            assert (name in connection.queries) == (commit % 2 == 0)

with ThreadPoolExecutor(threads) as pool:
    list(pool.map(stage, range(threads)))
"""


def names(path, analyst):
    file = sqlmadp.Plan.open(path).staged_path(analyst)
    return [statement.name for statement in split(file.read_text(), file="staged")]


@pytest.mark.slow
def test_eight_threads_in_four_processes_lose_no_staging(pending):
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(pending), str(p), str(THREADS), str(COMMITS)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for p in range(PROCESSES)
    ]
    errors = [worker.communicate(timeout=300)[1] for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * PROCESSES, "\n".join(errors)
    for number, analyst in enumerate(["alice", "bob"]):
        wanted = {
            f"p{p}_t{t}_c{c}"
            for p in range(PROCESSES)
            for t in range(number, THREADS, 2)
            for c in range(0, COMMITS, 2)
        }
        found = names(pending, analyst)
        assert len(found) == len(wanted)
        assert set(found) == wanted


@pytest.mark.slow
def test_threads_may_share_a_connection(released_folder, connection):
    expected = {
        age: released_folder.table()
        .execute("SELECT COUNT(*) FROM visits WHERE age = ?", [age])
        .fetchall()
        for age in range(20)
    }

    def ask(number):
        age = number % 20
        cursor = connection.cursor()
        return age, cursor.execute("SELECT COUNT(*) FROM visits WHERE age = ?", [age]).fetchall()

    with ThreadPoolExecutor(THREADS) as pool:
        for age, rows in pool.map(ask, range(160)):
            assert rows == expected[age]


def test_threads_that_share_a_connection_lose_no_staging(staging):
    def stage(number):
        staging.execute(f"HAND IN SELECT COUNT(*) FROM visits WHERE age = {number}")

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(stage, range(20)))
    asked = {text.rpartition(" ")[2] for text in staging.queries.values()}
    assert {str(number) for number in range(20)} <= asked


@pytest.mark.slow
def test_readers_notice_a_release_made_meanwhile(pending):
    def read(_):
        connection = sqlmadp.connect(pending, analyst="alice")
        cursor = connection.execute("SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex")
        while True:
            try:
                return cursor.fetchall()
            except sqlmadp.OperationalError:
                continue

    with ThreadPoolExecutor(3) as pool:
        readers = pool.map(read, range(3))
        sqlmadp.Plan.open(pending).release()
        one, *others = readers
    assert len(one) == 3
    assert all(rows == one for rows in others)


@pytest.mark.parametrize("broken", ["", "alice = "])
def test_a_plan_that_breaks_meanwhile_raises_a_declared_error(pending, broken):
    connection = sqlmadp.connect(pending, analyst="alice")
    pending.write_text(broken)
    with pytest.raises(sqlmadp.ProgrammingError):
        connection.execute("SELECT COUNT(*) FROM visits")
