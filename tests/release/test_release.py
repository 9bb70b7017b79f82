"""The whole path, from SQL files to rows."""

import json
import random
from fractions import Fraction

import duckdb
import pytest
from quick import quick_first

from sqlmadp.answer.result import encode
from sqlmadp.errors import BudgetExceededError, NotReleasedError, SqlError
from sqlmadp.files.plan import Plan
from sqlmadp.private import Ledger
from sqlmadp.release.release import release, released
from sqlmadp.show.json import release_figures

EXACT = "1000000000"
"""An epsilon at which the noise rounds to nothing."""

TOTAL = "SELECT COUNT(*) FROM visits"

PARTS = {
    "age sex": (
        [
            "age >= 12",
            "age BETWEEN 3 AND 9",
            "sex = 'f'",
            "sex IS NULL",
            "sex IN ('m', 'zebra')",
            "sex LIKE '%M%' OR sex ILIKE 'M'",
            "age > 10 OR sex = 'm'",
            "CASE WHEN sex = 'f' THEN age > 5 ELSE age > 15 END",
            "length(sex) + age > 8",
            "coalesce(sex, 'none') <> 'f'",
            "NOT (age < 5 AND sex = 'f')",
        ],
        ["sex", "age", "age // 5", "upper(sex)", "age > 10 AND sex = 'f'"],
        ["COUNT(sex)", "COUNT(*) FILTER (WHERE age > 7)", "COUNT(sex) FILTER (WHERE age % 3 = 1)"],
    ),
    "day smoker": (
        [
            "NOT smoker",
            "day >= DATE '2024-03-01'",
            "extract(day FROM day) > 26",
            "dayname(day) = 'Friday' OR smoker",
            "day <> '2024-02-29'",
        ],
        ["day", "smoker", "date_trunc('month', day)", "dayofweek(day)", "NOT smoker"],
        ["COUNT(*) FILTER (WHERE smoker)", "COUNT(*) FILTER (WHERE day < DATE '2024-03-02')"],
    ),
    "cost smoker": (
        [
            "cost < 250",
            "cost BETWEEN 100 AND 500.5",
            "cost = 370 OR cost >= 900",
            "smoker AND NOT cost > 700",
            "cost NOT IN (74, 111.0)",
        ],
        [
            "smoker",
            "CASE WHEN cost < 100 THEN 'low' WHEN cost <= 700 THEN 'middle' ELSE 'high' END",
            "cost <= 500.5",
        ],
        ["COUNT(cost)", "COUNT(*) FILTER (WHERE smoker OR cost > 500)"],
    ),
}
"""For a few columns: predicates, group keys and counts of them."""


def generated(seed: int) -> tuple[str, str]:
    """Return a statement with a random WHERE, GROUP BY, counts, HAVING, ORDER BY and LIMIT.

    Beside it, what DuckDB runs: without the groups of NULL of columns that are not nullable.
    """
    choose = random.Random(seed)
    predicates, possible_keys, counts = choose.choice(list(PARTS.values()))
    chosen = [f"({p})" for p in choose.sample(predicates, choose.randint(0, 3))]
    keys = choose.sample(possible_keys, choose.randint(0, 2))
    hidden = [f"({key}) IS NOT NULL" for key in keys if "sex" not in key]
    counts = ["COUNT(*)", "100 * COUNT(*)", *counts]
    items = [*keys, *choose.sample(counts, choose.randint(1, 3))]
    head, sql = f"SELECT {', '.join(items)} FROM visits", ""
    if keys:
        sql += f" GROUP BY {', '.join(keys)} HAVING COUNT(*) > {choose.choice([0, 0, 2])}"
        if choose.random() < 0.5:
            # Ordered by all keys, so that the order is total.
            order = [f"{i + 1} {choose.choice(['', 'DESC'])}" for i in range(len(keys))]
            sql += f" ORDER BY {', '.join(order)} NULLS LAST LIMIT {choose.choice([3, 100])}"
    return tuple(
        head + (f" WHERE {' AND '.join(where)}" if where else "") + sql
        for where in (chosen, chosen + hidden)
    )


@pytest.mark.parametrize(
    "mechanism", quick_first(1, ["waterfilling", "independent", "utilitarian"])
)
def test_without_noise_every_statement_returns_what_duckdb_returns(plans, mechanism):
    statements, references = zip(*map(generated, range(30)), strict=True)
    halves = {"alice": ";\n".join(statements[:15]), "bob": ";\n".join(statements[15:])}
    plan = Plan.open(plans.write(halves, epsilon=EXACT, budget=EXACT, mechanism=mechanism))
    results = release(plan).results()
    table = plans.table()
    answered = [*results["alice"].values(), *results["bob"].values()]
    for sql, result in zip(references, answered, strict=True):
        expected = table.execute(sql)
        described = tuple((name, str(kind)) for name, kind, *_ in expected.description)
        rows = expected.fetchall()
        assert result.columns == described, sql
        if "ORDER BY" in sql:
            assert list(result.rows) == rows, sql
        else:
            assert sorted(result.rows, key=repr) == sorted(rows, key=repr), sql


@pytest.mark.parametrize("mechanism", ["waterfilling", "independent"])
def test_a_statement_is_answered_once_for_all_who_read_the_same(plans, mechanism):
    sql = "SELECT sex, COUNT(*) FROM visits GROUP BY sex"
    asked = {"alice": f"{sql};\n{sql}", "bob": sql}
    done = release(Plan.open(plans.write(asked, mechanism=mechanism)))
    first, second = done.results()["alice"].values()
    (bobs,) = done.results()["bob"].values()
    assert first is second
    assert (first == bobs) == (mechanism == "waterfilling")  # Alone, bob has noise of his own.
    assert done.rows("bob", "q1") == bobs


def test_every_group_that_the_domain_allows_comes_back_in_declared_order(plans):
    sql = "SELECT sex, smoker, COUNT(*) FROM visits WHERE cost = 3.5 GROUP BY sex, smoker"
    plan = Plan.open(plans.write({"alice": sql}, epsilon=EXACT, budget=EXACT))
    (result,) = release(plan).results()["alice"].values()
    keys = [(s, b) for s in ("f", "m", None) for b in (False, True)]
    assert [row[:2] for row in result.rows] == keys
    assert all(row[2] == 0 for row in result.rows)


def test_counts_are_rounded_and_not_clamped_at_zero(plans):
    sql = "SELECT age, day, COUNT(*) AS n FROM visits WHERE cost = 1.5 GROUP BY age, day"
    plan = Plan.open(plans.write({"alice": sql}))
    (result,) = release(plan).results()["alice"].values()
    counts = [row[2] for row in result.rows]
    assert all(isinstance(count, int) for count in counts)
    assert min(counts) < 0 < max(counts)


def test_a_completed_plan_returns_the_same_rows_and_spends_nothing(plans):
    path = plans.write({"alice": "SELECT sex, COUNT(*) FROM visits GROUP BY sex"})
    first = release(Plan.open(path))
    (plans.folder / "visits.parquet").unlink()
    again = release(Plan.open(path))
    assert again.results() == first.results()
    assert (again.spent, again.left) == (1, 1)


def test_stored_answers_of_another_table_are_named_as_such(plans):
    path = plans.write({"alice": "SELECT sex, COUNT(*) FROM visits GROUP BY sex"})
    release(Plan.open(path))
    told = []
    release(Plan.open(path), notice=told.append)
    assert not any("stored answers of" in each for each in told)
    table = plans.folder / "visits.parquet"
    (plans.folder / "february.parquet").write_bytes(table.read_bytes())
    path.write_text(path.read_text().replace("visits.parquet", "february.parquet"))
    release(Plan.open(path), notice=told.append)
    (note,) = (each for each in told if "stored answers of" in each)
    assert "visits.parquet" in note
    assert "february.parquet" in note


def test_what_runs_over_released_answers_may_change_for_free(plans):
    path = plans.write({"alice": "SELECT sex, COUNT(*) FROM visits GROUP BY sex"})
    first = release(Plan.open(path)).results()["alice"]["q1"].rows
    plans.write({"alice": "select sex, count(*) as n from visits group by 1 order by n desc"})
    again = release(Plan.open(path))
    assert again.spent == 1
    assert sorted(again.results()["alice"]["q1"].rows, key=repr) == sorted(first, key=repr)


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": "1/2"},
        {"mechanism": "identity"},
        {"shares": {"alice": "1/3", "bob": "2/3"}},
        {"statements": {"alice": TOTAL, "bob": "SELECT COUNT(sex) FROM visits"}},
    ],
)
def test_a_changed_question_is_a_new_release_and_a_new_charge(plans, change):
    asked = {"alice": TOTAL, "bob": TOTAL}
    shares = {"alice": "1/2", "bob": "1/2"}
    release(Plan.open(plans.write(asked, shares=shares)))
    statements = change.pop("statements", asked)
    changed = plans.write(statements, **({"shares": shares} | change))
    spent = release(Plan.open(changed)).spent
    assert spent == 1 + Fraction(change.get("epsilon", "1"))


def test_over_budget_is_refused_before_anything_is_read(plans):
    sql = {"alice": "SELECT COUNT(*) FROM visits"}
    release(Plan.open(plans.write(sql, epsilon="3/2")))
    (plans.folder / "visits.parquet").unlink()
    with pytest.raises(BudgetExceededError) as refusal:
        release(Plan.open(plans.write(sql, epsilon="1")))
    error = refusal.value
    assert (error.budget, error.spent, error.asked, error.left) == (
        2,
        Fraction("3/2"),
        1,
        Fraction(1, 2),
    )
    assert Ledger.read(plans.folder / "visits.ledger").spent == Fraction("3/2")


def test_analysts_who_ask_the_same_get_the_same_numbers(plans):
    sql = "SELECT age, COUNT(*) FROM visits GROUP BY age"
    plan = plans.write({"alice": sql, "bob": sql + " ORDER BY age DESC"})
    results = release(Plan.open(plan)).results()
    assert sorted(results["alice"]["q1"].rows) == sorted(results["bob"]["q1"].rows)


class TestQuery:
    @pytest.fixture
    def done(self, plans):
        sql = """SELECT age // 5 AS band, sex, COUNT(*) FROM visits GROUP BY ALL;
                 SELECT COUNT(*) FROM visits WHERE cost < 250"""
        return release(Plan.open(plans.write({"alice": sql}, epsilon=EXACT, budget=EXACT)))

    @pytest.mark.parametrize(
        "sql",
        [
            "SELECT COUNT(*) FROM visits",
            "SELECT COUNT(*) FROM visits WHERE age >= 10",
            "SELECT sex, COUNT(*) AS n FROM visits WHERE age < 10 GROUP BY sex ORDER BY n",
            "SELECT COUNT(*) FROM visits WHERE age < 5 OR age >= 5 AND sex = 'f'",
            "SELECT COUNT(*) FROM visits WHERE cost >= 250 OR cost IS NULL",
        ],
    )
    def test_a_query_in_the_span_is_answered_free_with_its_error(self, plans, done, sql):
        result = released(Plan.open(plans.path)).query(sql)
        assert list(result.rows) == plans.table().execute(sql).fetchall()
        assert all(error < 1e-3 for errors in result.rmse.values() for error in errors)
        assert done.spent == int(EXACT)

    @pytest.mark.parametrize(
        ("sql", "reason"),
        [
            ("SELECT COUNT(*) FROM visits WHERE age >= 12", "values 10, 11, 12, 13, 14 of 'age'"),
            ("SELECT smoker, COUNT(*) FROM visits GROUP BY smoker", "column 'smoker' is not part"),
            ("SELECT COUNT(*) FROM visits WHERE cost < 100", "of 'cost' apart"),
            (
                "SELECT COUNT(*) FROM visits WHERE cost < 250 AND sex = 'f'",
                "combination of 'cost' and 'sex'",
            ),
        ],
    )
    def test_a_query_outside_names_what_is_not_covered(self, done, sql, reason):
        with pytest.raises(SqlError, match="cannot answer") as refusal:
            done.query(sql)
        assert reason in str(refusal.value)

    def test_a_query_before_the_release_says_so(self, plans):
        path = plans.write({"alice": "SELECT COUNT(*) FROM visits"})
        with pytest.raises(NotReleasedError, match="sqlmadp release"):
            released(Plan.open(path))
        assert not (plans.folder / "visits.ledger").exists()

    def test_an_independent_analyst_reads_only_their_own_measurements(self, plans):
        asked = {
            "alice": "SELECT COUNT(*) FROM visits WHERE smoker",
            "bob": "SELECT COUNT(*) FROM visits",
        }
        done = release(Plan.open(plans.write(asked, mechanism="independent")))
        smokers = "SELECT COUNT(*) FROM visits WHERE smoker"
        assert done.query(smokers, "alice").rows == done.results()["alice"]["q1"].rows
        with pytest.raises(SqlError, match="cannot answer"):
            done.query(smokers, "bob")


@pytest.mark.slow
def test_the_expected_error_is_the_error_that_releases_have(plans):
    asked = {
        "alice": "SELECT age, COUNT(*) AS n FROM visits GROUP BY age",
        "bob": f"{TOTAL}; SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex",
    }
    table = plans.table()
    truth = dict(table.execute("SELECT age, COUNT(*) FROM visits GROUP BY age").fetchall())
    path = plans.write(asked, epsilon="1", budget="1")
    squares, expected = [], 0.0
    for _ in range(25):
        for stale in plans.folder.glob("*.ledger*"):
            stale.unlink()
        result = release(Plan.open(path)).results()["alice"]["q1"]
        squares += [(n - truth.get(age, 0)) ** 2 for age, n in result.rows]
        expected = sum(error**2 for error in result.rmse["n"]) / len(result.rows)
    # 500 squared errors, nearly independent, each of relative spread about 2.3: five
    # standard deviations of their mean are a half, and twice the scale is four times the mean.
    assert sum(squares) / len(squares) == pytest.approx(expected, rel=0.5)


def test_released_json_is_the_same_bytes_again(plans):
    path = plans.write({"alice": "SELECT day, COUNT(*) FROM visits GROUP BY day"})
    done, again = release(Plan.open(path)), release(Plan.open(path))
    first = encode(release_figures(done, done.results()))
    assert encode(release_figures(again, again.results())) == first
    assert json.loads(first)["analysts"]["alice"]["q1"]["columns"] == ["day", "count_star()"]


def test_the_example_table_has_undeclared_values(plans):
    # Otherwise the tests above would not show that they are read as NULL.
    counted = "SELECT COUNT(sex), COUNT(day), COUNT(cost) FROM"
    raw = duckdb.execute(f"{counted} '{plans.folder / 'visits.parquet'}'").fetchone()
    declared = plans.table().execute(f"{counted} visits").fetchone()
    assert all(more > fewer for more, fewer in zip(raw, declared, strict=True))
