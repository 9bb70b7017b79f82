"""Statements that many analysts ask, and scopes that only all of them together make too large."""

from dataclasses import replace

import pytest

from sqlmadp.errors import SqlError
from sqlmadp.files.plan import Plan
from sqlmadp.release import bound_plan as asking
from sqlmadp.release.bound_plan import BoundPlan
from sqlmadp.release.history import History
from sqlmadp.release.trial import prepare

SCHEMA = """table = "people"
[columns.age]
type = "integer"
min = 0
max = 99
complete = true
[columns.height]
type = "integer"
min = 0
max = 99
complete = true
[columns.weight]
type = "integer"
min = 0
max = 99
complete = true
"""
PLAN = """schema = "people.toml"
source = "people.parquet"
epsilon = "1"
[ledger]
path = "people.ledger"
budget = "1"
"""


@pytest.fixture
def plan(tmp_path):
    def write(limits="", **statements):
        (tmp_path / "people.toml").write_text(SCHEMA)
        text = PLAN + limits
        for name, own in statements.items():
            (tmp_path / f"{name}.sql").write_text(own)
            text += f'[analysts.{name}]\nqueries = "{name}.sql"\n'
        (tmp_path / "plan.toml").write_text(text)
        return Plan.open(tmp_path / "plan.toml")

    return write


def test_equal_statements_are_bound_once_and_keep_their_own_names(plan, monkeypatch):
    bound, bind_each = [], asking.bind_each

    def counted(statements, evaluator, *, entries=0):
        statements = list(statements)
        bound.extend(statement.text for statement in statements)
        return bind_each(statements, evaluator, entries=entries)

    monkeypatch.setattr(asking, "bind_each", counted)
    count = "SELECT COUNT(*) FROM people WHERE age > 3"
    found = BoundPlan.bind(
        plan(ann=f"-- name: old\n{count};", bob=f"-- name: mine\n-- weight: 4\n{count};\n{count};")
    )
    assert len(bound) == len(set(bound))
    assert [[query.name for query in own] for own in found.queries] == [["old"], ["mine", "q2"]]
    ann, bob = found.workloads
    assert ann.fingerprint == bob.fingerprint  # Equal statements of one analyst count once.


def test_every_copy_of_a_wrong_statement_is_reported(plan):
    wrong = "SELECT COUNT(*) FROM people WHERE nothing > 3;\n"
    with pytest.raises(SqlError) as caught:
        BoundPlan.bind(plan(ann=wrong + wrong, bob=wrong))
    assert [(p.file[-7:], p.line) for p in caught.value.problems] == [
        ("ann.sql", 1),
        ("ann.sql", 2),
        ("bob.sql", 1),
    ]


def test_a_scope_that_is_too_large_for_everyone_together_is_refused_by_statement(plan):
    fine = "SELECT age % 10 AS a, height % 10 AS h, COUNT(*) FROM people GROUP BY ALL;"
    cut = "SELECT age // 10 AS a, height // 10 AS h, COUNT(*) FROM people GROUP BY ALL;"
    limits = "[limits]\nblock_cells = 5000\n"
    BoundPlan.bind(plan(limits, ann=fine))
    with pytest.raises(SqlError) as caught:
        BoundPlan.bind(plan(limits, ann=fine, bob=cut))
    [problem] = caught.value.problems
    assert problem.code == "scope-too-large"
    assert problem.file.endswith("ann.sql")
    assert "age, height" in problem.message
    assert "10,000 combinations" in problem.message
    assert "5,000" in problem.message


def test_tangled_scopes_are_refused_by_their_finest_statement(plan):
    pairs = "SELECT {} AS a, {} AS b, COUNT(*) FROM people GROUP BY ALL;\n"
    # Each column is cut in two ways, so that functions of all pairs share one residual space.
    first = pairs.format("age // 2", "weight % 61") + pairs.format("height % 61", "weight // 2")
    finest = pairs.format("age % 61", "height % 53")
    with pytest.raises(SqlError) as caught:
        BoundPlan.bind(plan(ann=first + finest, bob="SELECT COUNT(*) FROM people;"))
    [problem] = caught.value.problems
    assert problem.code == "scopes-too-large"
    assert (problem.file[-7:], problem.line) == ("ann.sql", 3)
    assert "this one of 'ann', over age, height, is the finest" in problem.message
    BoundPlan.bind(plan(ann=first, bob="SELECT COUNT(*) FROM people;"))


def test_a_scope_that_memory_is_too_small_for_is_refused_by_statement(plan):
    fine = "SELECT age % 10 AS a, height % 10 AS h, COUNT(*) FROM people GROUP BY ALL;"
    finer = "SELECT age, height, COUNT(*) FROM people GROUP BY ALL;"
    BoundPlan.bind(plan("[limits]\nmemory = 1\n", ann=fine))
    BoundPlan.bind(plan("[limits]\nmemory = 100\n", ann=fine, bob=finer))
    with pytest.raises(SqlError) as caught:
        BoundPlan.bind(plan("[limits]\nmemory = 1\n", ann=fine, bob=finer))
    [problem] = caught.value.problems
    assert problem.code == "scope-too-large"
    assert problem.file.endswith("bob.sql")
    assert "2,048" in problem.message
    assert "memory = ..." in problem.hint


def test_a_strategy_that_memory_is_too_small_for_is_refused_before_any_data(plan):
    table = "SELECT age % 40 AS a, height % 40 AS h, COUNT(*) FROM people GROUP BY ALL;"
    opened = plan("[limits]\nmemory = 1\n", ann=table, bob=table)
    opened = replace(opened, mechanism="independent")  # Everybody's own 1,600 cells.
    with pytest.raises(SqlError, match=r"strategy queries, .* Nothing was read or spent") as caught:
        prepare(BoundPlan.bind(opened), lambda _: History())
    assert caught.value.problems[0].file.endswith("ann.sql")


def test_nobody_among_many_analysts_is_worse_off_for_the_others(plan):
    ranges = [f"SELECT COUNT(*) FROM people WHERE age >= {10 * k};" for k in range(6)]
    statements = {f"a{n}": ranges[n % 6] + ranges[(n * n + 1) % 6] for n in range(20)}
    found = BoundPlan.bind(plan(**statements))
    given = found.outcome("waterfilling")
    assert len({workload.fingerprint for workload in found.workloads}) < 20
    assert given.sharing_ratio <= 1 + 1e-9
    assert given.worst_interference <= 1 + 1e-9
