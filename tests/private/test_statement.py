"""The statement that reaches the private database does not follow the analysts' constants."""

import pytest

from sqlmadp.files.plan import Plan
from sqlmadp.private.engines import duckdb as engine
from sqlmadp.release.bound_plan import BoundPlan
from sqlmadp.release.release import release

SCHEMA = """\
table = "people"
[columns.age]
type = "integer"
min = 0
max = 3
[columns.sex]
type = "category"
values = ["f", "m"]
[columns.size]
type = "real"
min = 0
max = 1
"""

PLAN = """\
schema = "people.toml"
source = "people.parquet"
epsilon = "1"
mechanism = "{mechanism}"
[ledger]
path = "people.ledger"
budget = "9"
[analysts.alice]
queries = "alice.sql"
"""


@pytest.fixture
def statement_of(tmp_path, monkeypatch):
    """Return a function that releases one SELECT and returns what the private database saw."""
    with engine.duckdb.connect() as connection:
        connection.execute(
            "COPY (SELECT 1 AS age, 'f' AS sex, 0.5::DOUBLE AS size) "
            f"TO '{tmp_path / 'people.parquet'}'"
        )
    (tmp_path / "people.toml").write_text(SCHEMA)

    def run(sql, mechanism="waterfilling"):
        seen = []
        right = engine.DuckDbTable.counts
        monkeypatch.setattr(
            engine.DuckDbTable,
            "counts",
            lambda self, select: (seen.append(select.sql("duckdb")), right(self, select))[1],
        )
        (tmp_path / "alice.sql").write_text(sql)
        (tmp_path / "plan.toml").write_text(PLAN.format(mechanism=mechanism))
        release(Plan.open(tmp_path / "plan.toml"))
        monkeypatch.setattr(engine.DuckDbTable, "counts", right)
        (statement,) = seen
        return statement

    return run


@pytest.mark.parametrize("mechanism", ["identity", "waterfilling"])
def test_constants_do_not_reach_the_private_database(statement_of, mechanism):
    one = statement_of("SELECT COUNT(*) FROM people WHERE age > 1 AND sex = 'f'", mechanism)
    two = statement_of("SELECT COUNT(*) FROM people WHERE age < 1 AND sex <> 'zebra7'", mechanism)
    three = statement_of(
        "SELECT age % 2 AS odd, COUNT(*) AS c7 FROM people WHERE sex LIKE 'f%' GROUP BY odd "
        "HAVING c7 > 70 LIMIT 7",
        mechanism,
    )
    if mechanism == "identity":
        assert one == two == three
    assert "zebra7" not in one + two
    assert "LIKE" not in three
    assert "70" not in three


def test_only_the_cuts_of_a_real_column_follow_the_constants(statement_of):
    one = statement_of("SELECT COUNT(*) FROM people WHERE size > 0.25")
    two = statement_of("SELECT COUNT(*) FROM people WHERE size > 0.75")
    assert one != two
    assert one.replace("0.25", "cut") == two.replace("0.75", "cut")


def test_what_was_asked_is_bound_without_the_private_table(tmp_path, statement_of):
    (tmp_path / "people.parquet").unlink()
    (tmp_path / "alice.sql").write_text("SELECT COUNT(*) FROM people")
    (tmp_path / "plan.toml").write_text(PLAN.format(mechanism="identity"))
    BoundPlan.bind(Plan.open(tmp_path / "plan.toml"))
