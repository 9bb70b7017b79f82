import duckdb
import pytest

from sqlmadp.schema.domain import Column, Domain
from sqlmadp.sql.allowed import FUNCTIONS
from sqlmadp.sql.sandbox import Sandbox

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
