import duckdb
import pytest

from sqlmadp.bind.bind import bind
from sqlmadp.bind.evaluate import Evaluator
from sqlmadp.errors import OperationalError, SqlError
from sqlmadp.files.plan import Plan
from sqlmadp.sql.check import FUNCTIONS
from sqlmadp.sql.limits import Limits
from sqlmadp.sql.sandbox import Sandbox, explain, locked_connection
from sqlmadp.sql.statements import split
from sqlmadp.table.domain import Column, Domain

DOMAIN = Domain(table="people", columns=(Column(name="member", type="boolean"),))


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox(DOMAIN)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/hostname')",
        "SELECT * FROM '/etc/hostname'",
        "COPY people TO 'people.csv'",
        "ATTACH 'other.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET threads = 4",
        "SET enable_external_access = true",
        "SELECT * FROM outside",
    ],
)
def test_the_sandbox_has_no_way_out(sandbox, sql):
    outside = {"a": [1]}  # A variable of this program, which DuckDB would otherwise find.
    assert outside
    with pytest.raises(duckdb.Error):
        sandbox.execute(sql).fetchall()


def test_every_listed_function_is_a_scalar_that_never_varies(sandbox):
    known = sandbox.functions
    assert known.keys() >= FUNCTIONS
    # A macro has no stability of its own; those on the list are made of listed functions.
    assert {name for name in FUNCTIONS if known[name][0] == "macro"} <= {
        *("date_add", "days_in_month", "fdiv", "fmod", "if", "nullif", "split_part"),
        "width_bucket",
    }
    rest = [known[name] for name in FUNCTIONS if known[name][0] != "macro"]
    assert set(rest) == {("scalar", "CONSISTENT")}


@pytest.mark.parametrize("name", ["random", "now", "current_setting", "age", "current_localtime"])
def test_functions_of_the_clock_chance_or_session_are_not_listed(name):
    assert name not in FUNCTIONS


SPILLS = (
    "SELECT a.range AS a, hash(a.range, b.range) AS h FROM range(9000) a, range(999) b ORDER BY h"
)


def test_what_does_not_fit_the_memory_fails_and_is_not_written_to_a_disk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spilling = duckdb.connect(config={"memory_limit": "32MiB", "threads": 1})
    seen = []
    for _ in spilling.execute(SPILLS).fetchmany(1):
        seen += list(tmp_path.iterdir())
    assert seen  # DuckDB itself writes it here.
    spilling.close()
    for left in tmp_path.iterdir():
        left.rmdir()
    connection = locked_connection(32)
    with pytest.raises(duckdb.OutOfMemoryException) as caught:
        connection.execute(SPILLS).fetchmany(1)
    assert list(tmp_path.iterdir()) == []
    message, _ = explain(caught.value)
    assert message.endswith("[limits] sql_memory = ...")
    assert "temp_directory" not in message


def test_the_memory_of_analysts_sql_is_that_of_the_plan(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wide = Domain(
        table="people",
        columns=(Column(name="points", type="integer", minimum=0, maximum=999_999),),
    )
    sql = "SELECT MEDIAN(points + 1) FROM people"
    (statement,) = split(sql, file="a.sql")
    with pytest.raises(SqlError, match="sql_memory"):
        bind(statement, Evaluator(wide, Limits(sql_memory=16)))
    assert bind(statement, Evaluator(wide)).rows == 1
    assert list(tmp_path.iterdir()) == []


def test_what_runs_over_answers_does_not_spill_either(plans, tmp_path, monkeypatch):
    by_age = "SELECT age, day, COUNT(*) AS n FROM visits GROUP BY ALL"
    path = plans.write({"ann": by_age})
    path.write_text(path.read_text() + "[limits]\nsql_memory = 32\n")
    release = Plan.open(path).release()
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    three = ", ".join(f"({by_age}) t{number}" for number in range(3))
    sql = f"SELECT t0.n * t1.n * t2.n AS x, t0.day AS d FROM {three} WHERE t0.age > t1.n ORDER BY x"
    with pytest.raises(OperationalError, match="sql_memory"):
        release.query(sql)
    assert list(empty.iterdir()) == []
