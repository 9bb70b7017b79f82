"""Errors of linear columns, against what linear algebra over all cells gives.

What a statement weighs each cell with is found without the code under test: DuckDB runs it on a
table with one record in every cell, and again with one more record in one cell.
"""

from fractions import Fraction

import duckdb
import numpy as np
import pytest

from sqlmadp.answer.errors import exact_errors, result_of
from sqlmadp.answer.explain import expected_error, explain
from sqlmadp.answer.reconstruct import Estimate
from sqlmadp.answer.rows import Desk
from sqlmadp.bind.bind import bind, bind_all
from sqlmadp.bind.evaluate import Evaluator
from sqlmadp.bind.linear import Kind
from sqlmadp.errors import ProgrammingError
from sqlmadp.mechanism import mechanism
from sqlmadp.mechanism.collective import Collective
from sqlmadp.sql.statements import split
from sqlmadp.table.domain import Column, Domain
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows, lifting

SIZES = {"age": 4, "sex": 2}
DOMAIN = Domain(
    table="people",
    columns=(
        Column(name="age", type="integer", minimum=0, maximum=3, complete=True),
        Column(name="sex", type="category", values=("f", "m"), complete=True),
    ),
)
CELLS = [(age, sex) for age in range(4) for sex in ("f", "m")]
VARIANCE = 2.5

LINEAR = [
    "SELECT sex, COUNT(*) - 2 * SUM(age) AS v FROM people GROUP BY sex",
    "SELECT age, COUNT(*) * (age + 1) / 7.0 AS v FROM people GROUP BY age",
    "SELECT sex, age, -COUNT(*)::DOUBLE AS v FROM people GROUP BY ALL ORDER BY v LIMIT 3",
    "SELECT sex, COUNT(*) + COUNT_IF(age > 1) AS v FROM people GROUP BY sex HAVING COUNT(*) > 2",
    "SELECT age, CASE WHEN age > 1 THEN COUNT(*) ELSE 3 * SUM(age) END AS v FROM people GROUP BY 1",
    "SELECT COUNT(*) FILTER (sex = 'm') - COUNT(*) FILTER (age > 0) AS v FROM people",
    "SELECT age, sex, COUNT(*) + 1 AS v FROM people GROUP BY ROLLUP (age, sex)",
    "SELECT age, SUM(COUNT(*)) OVER (ORDER BY age DESC) AS v FROM people GROUP BY age",
    "SELECT age, COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY age) AS v FROM people GROUP BY age",
    "SELECT age, COUNT(*) - (SELECT COUNT(*) FROM people) / 4 AS v FROM people GROUP BY age",
    "SELECT SUM(n) AS v FROM (SELECT age, COUNT(*) AS n FROM people GROUP BY age) WHERE age > 1",
    "SELECT AVG(n) AS v FROM (SELECT age, SUM(age) AS n FROM people GROUP BY 1, sex) GROUP BY age "
    "> 1 HAVING age > 1",
    "WITH t AS (SELECT age, COUNT(*) AS n FROM people GROUP BY age) SELECT a.age, a.n - b.n AS v "
    "FROM t AS a JOIN t AS b ON a.age = b.age + 1",
    "SELECT age, a.n - m AS v FROM (SELECT age, COUNT(*) AS n FROM people GROUP BY age) a JOIN "
    "(SELECT age, COUNT(*) AS m FROM people WHERE sex = 'm' GROUP BY age) b USING (age) ORDER BY v",
    "SELECT SUM(i * n) AS v FROM (SELECT n, ROW_NUMBER() OVER () AS i FROM "
    "(SELECT age, COUNT(*) AS n FROM people GROUP BY age ORDER BY 1 DESC))",
    "SELECT COUNT(*) AS v FROM people WHERE sex = 'm' UNION ALL SELECT SUM(age) FROM people",
    "WITH t AS (SELECT age, COUNT(*) AS n FROM people GROUP BY age) SELECT sex, 2 * COUNT(*) AS v "
    "FROM people GROUP BY sex HAVING COUNT(*) > (SELECT MIN(n) FROM t) - 99",
    "WITH t AS (SELECT age, COUNT(*) AS n FROM people GROUP BY age) SELECT sex, COUNT(*) AS v "
    "FROM people GROUP BY sex HAVING COUNT(*) > (SELECT MIN(n) FROM t) - 99",
    "SELECT 'all' AS k, COUNT(*) AS v FROM people UNION ALL SELECT 'm', COUNT_IF(sex = 'm') "
    "FROM people ORDER BY v",
]
OTHER = [
    "SELECT AVG(age) AS v FROM people",
    "SELECT 100.0 * COUNT_IF(sex = 'm') / COUNT(*) AS v FROM people",
    "SELECT age, RANK() OVER (ORDER BY COUNT(*)) AS v FROM people GROUP BY age",
    "SELECT age, CASE WHEN COUNT(*) > 1 THEN COUNT(*) END AS v FROM people GROUP BY age",
    "SELECT MEDIAN(age) AS v FROM people",
    "SELECT MAX(n) AS v FROM (SELECT COUNT(*) AS n FROM people GROUP BY age)",
    "SELECT SUM(n) AS v FROM (SELECT COUNT(*) AS n FROM people GROUP BY age HAVING COUNT(*) > 1)",
    "SELECT SUM(n) AS v FROM (SELECT COUNT(*) AS n FROM people GROUP BY age) WHERE n > 1",
    "SELECT SUM(n) AS v FROM (SELECT COUNT(*) AS n FROM people GROUP BY age ORDER BY n LIMIT 2)",
    "SELECT COUNT(*) AS v FROM (SELECT age, COUNT(*) AS n FROM people GROUP BY age) WHERE n > 2",
    "SELECT SUM(DISTINCT n) AS v FROM (SELECT COUNT(*) AS n FROM people GROUP BY age)",
    "SELECT age, SUM(COUNT(*)) OVER (ORDER BY COUNT(*)) AS v FROM people GROUP BY age",
    "SELECT age, SUM(COUNT(*)) OVER (ORDER BY age) AS v FROM people GROUP BY age "
    "HAVING COUNT(*) > 1",
    "SELECT SUM(i * n) AS v FROM (SELECT n, ROW_NUMBER() OVER () AS i FROM "
    "(SELECT COUNT(*) AS n FROM people GROUP BY age ORDER BY n))",
    "SELECT SUM(i * n) AS v FROM (SELECT n, ROW_NUMBER() OVER () AS i FROM "
    "(SELECT age, COUNT(*) AS n FROM people GROUP BY age ORDER BY 2))",
    "SELECT COUNT(*) // 2 AS v FROM people",
    "SELECT COUNT(*) * SUM(age) AS v FROM people",
    "SELECT (COUNT(*) / 3)::INTEGER AS v FROM people",
]


EVALUATOR, DESK = Evaluator(DOMAIN), Desk()


def bound(sql):
    (statement,) = split(sql, file="exact.sql")
    return bind(statement, EVALUATOR)


def strategy(name):
    """Return a strategy for counts by age and sex, sums, and the total."""
    asked = "SELECT age, COUNT(*), SUM(age) FROM people GROUP BY ROLLUP (age);"
    asked += "SELECT age, sex, COUNT(*) FROM people GROUP BY CUBE (age, sex)"
    queries = bind_all(split(asked, file="asked.sql"), EVALUATOR)
    rows = [rows for query in queries for rows in query.aggregates]
    return mechanism(name).select(Collective([rows], [Fraction(1)], columns=SIZES))


def over_cells(rows):
    """Return rows written out over all cells of the table."""
    parts = [Partition.finest(size) for size in SIZES.values()]
    return (rows.matrix @ lifting(rows.scope, rows.parts, tuple(SIZES), parts)).toarray()


@pytest.fixture(scope="module", params=["identity", "waterfilling"])
def estimate(request):
    blocks = strategy(request.param).blocks
    values = tuple(over_cells(block) @ np.full(len(CELLS), 50.0) for block in blocks)
    return Estimate(DOMAIN, blocks, values, VARIANCE)


RAW = duckdb.connect(config={"threads": 1})


def rows_on(records, sql):
    values = ", ".join(f"({age}, '{sex}')" for age, sex in records)
    RAW.execute(f"CREATE OR REPLACE TABLE people AS FROM (VALUES {values}) AS t(age, sex)")
    RAW.execute("ALTER TABLE people ALTER age TYPE BIGINT")
    return RAW.execute(sql).fetchall()


def weights(sql):
    """Return the other columns of every row, and what the last weighs each cell with."""
    plain = sql.partition(" LIMIT")[0]
    twice = CELLS * 3
    base = {(place, *row[:-1]): row[-1] for place, row in enumerate(sorted_rows(twice, plain))}
    found = {key: np.zeros(len(CELLS)) for key in base}
    for cell, record in enumerate(CELLS):
        rows = sorted_rows([*twice, record], plain)
        for key, row in zip(found, rows, strict=True):
            assert key[1:] == row[:-1]
            known = row[-1] is not None
            found[key][cell] = float(row[-1]) - float(base[key]) if known else np.nan
    return [(key[1:], weight) for key, weight in found.items()]


def sorted_rows(records, sql):
    rows = rows_on(records, sql.partition(" ORDER BY v")[0])
    return sorted(rows, key=lambda row: tuple(map(repr, row[:-1]))) if len(rows[0]) > 1 else rows


def expected(sql, estimate):
    """Return the error of every row of a statement by linear algebra over all cells."""
    measured = np.vstack([over_cells(block) for block in estimate.blocks])
    inverse = np.linalg.pinv(measured.T @ measured)
    return [(key, np.sqrt(VARIANCE * weight @ inverse @ weight)) for key, weight in weights(sql)]


@pytest.mark.parametrize("sql", LINEAR)
def test_a_linear_column_has_the_error_that_linear_algebra_gives(sql, estimate):
    query = bound(sql)
    assert query.kinds[-1] == Kind.LINEAR
    result = result_of(query, estimate, DESK)
    wanted = expected(sql, estimate)
    if len(query.columns) == 1:
        np.testing.assert_allclose(result.rmse["v"], [error for _, error in wanted], rtol=1e-9)
        return
    for row, error in zip(result.rows, result.rmse["v"], strict=True):
        np.testing.assert_allclose(error, dict(wanted)[row[:-1]], rtol=1e-9)


@pytest.mark.parametrize("sql", LINEAR)
def test_its_error_is_known_before_the_release_too(sql, estimate):
    query = bound(sql)
    planned = Estimate(DOMAIN, estimate.blocks, (), VARIANCE)
    before = expected_error(query, planned)
    after = result_of(query, estimate, DESK).rmse["v"]
    assert before.later == ()
    assert set(after) <= set(before["v"]) or np.isnan(after).any()
    ((*_, rmse, note),) = [row for row in explain(query, planned).rows if row[0] == "v"]
    assert note == "known in advance"
    assert rmse == pytest.approx(np.sqrt(np.nanmean(np.square(before["v"]))))


@pytest.mark.parametrize("sql", OTHER)
def test_the_error_of_any_other_column_is_known_after_the_release_only(sql, estimate):
    query = bound(sql)
    assert query.kinds[-1] == Kind.OTHER
    planned = Estimate(DOMAIN, estimate.blocks, (), VARIANCE)
    before = expected_error(query, planned)
    assert before.later == ("v",)
    assert "v" not in before
    with pytest.raises(ProgrammingError, match="depends on the answers"):
        before["v"]
    ((*_, rmse, note),) = [row for row in explain(query, planned).rows if row[0] == "v"]
    assert rmse is None
    assert "depends on the answers" in note


def test_simulation_agrees_with_what_is_known_exactly():
    ages = 500  # Too many to run the statement once for each.
    domain = Domain(
        table="people",
        columns=(Column(name="age", type="integer", minimum=0, maximum=ages - 1, complete=True),),
    )
    block = Rows(("age",), (Partition.finest(ages),), 1)
    estimate = Estimate(domain, (block,), (np.full(ages, 50.0),), VARIANCE)
    sql = "SELECT age, SUM(COUNT(*)) OVER (ORDER BY age) AS v FROM people GROUP BY age"
    (statement,) = split(sql, file="exact.sql")
    query = bind(statement, Evaluator(domain))
    assert exact_errors(query, estimate, DESK).errors == {}
    simulated = result_of(query, estimate, DESK).rmse["v"]
    exact = np.sqrt(VARIANCE * np.arange(1, ages + 1))  # The errors of all younger, added up.
    np.testing.assert_allclose(simulated, exact, rtol=0.35)


def test_a_ratio_next_to_a_subquery_is_simulated_over_the_block_its_rows_come_from(estimate):
    plain = bound("SELECT age, COUNT_IF(sex = 'm') / COUNT(*) AS v FROM people GROUP BY age")
    beside = bound(
        "WITH t AS (SELECT sex, COUNT(*) AS n FROM people GROUP BY sex) SELECT age, "
        "COUNT_IF(sex = 'm') / COUNT(*) AS v FROM people GROUP BY age "
        "HAVING COUNT(*) < (SELECT SUM(n) FROM t)"
    )
    wanted, found = (result_of(query, estimate, DESK).rmse["v"] for query in (plain, beside))
    np.testing.assert_allclose(found, wanted)


def test_two_columns_with_one_name_share_the_larger_error(estimate):
    query = bound("SELECT COUNT(*) AS n, COUNT(*) - 3 * SUM(age) AS n FROM people")
    (stated,) = result_of(query, estimate, DESK).rmse["n"]
    alone = bound("SELECT COUNT(*) - 3 * SUM(age) AS n FROM people")
    assert (stated,) == pytest.approx(result_of(alone, estimate, DESK).rmse["n"])
