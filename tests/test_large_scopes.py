"""A release of Kronecker blocks, from SQL to rows: the answers are DuckDB's own."""

import pytest

from sqlmadp.plan import Plan
from sqlmadp.release import release, released
from sqlmadp.schema.kronecker import KroneckerBlock
from sqlmadp.strategy import select as selecting

EXACT = "1000000000"
"""An epsilon at which the noise rounds to nothing."""


@pytest.fixture
def large(monkeypatch):
    """Let every scope of a few dozen cells be too large for rows over all its cells."""
    monkeypatch.setattr(selecting, "_known", {})
    monkeypatch.setattr(selecting, "DENSE_GROUPS", 20)
    monkeypatch.setattr(selecting, "TOGETHER", 20)


def statements(step):
    """Everybody up to an age and a day, for every so many ages and some days."""
    asked = ["SELECT COUNT(*) AS n FROM visits"]
    days = ["2024-02-26", "2024-02-28", "2024-03-02", "2024-03-05"]
    for age in range(0, 20, step):
        asked += [
            f"SELECT COUNT(*) AS n FROM visits WHERE age <= {age} AND day <= DATE '{day}'"
            for day in days
        ]
    return ";\n".join(asked) + ";\n"


@pytest.mark.parametrize("mechanism", ["utilitarian", "waterfilling"])
def test_a_release_of_products_answers_what_was_asked(plans, large, mechanism):
    own = {"ann": statements(1), "bob": statements(2)}
    path = plans.write(own, epsilon=EXACT, budget=EXACT, mechanism=mechanism)
    plan = Plan.open(path)
    release(plan, None)
    again = released(plan)
    assert any(isinstance(block, KroneckerBlock) for block in again.measurement.blocks)
    table = plans.table()
    for name, sql in own.items():
        exact = [table.execute(each).fetchone()[0] for each in sql.split(";\n") if each]
        assert [result.rows[0][0] for result in again.results()[name].values()] == exact
