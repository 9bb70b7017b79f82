"""Answers from ramps and parabolas of wide columns: DuckDB's without noise, and their errors.

A shop's orders: a price of 100,001 values and a quantity are summed, averaged and correlated, never
grouped by, so that what is measured has few vertices.
"""

from fractions import Fraction

import duckdb
import numpy as np
import pytest
from people_table import same_rows

from sqlmadp.answer.errors import result_of
from sqlmadp.answer.reconstruct import Estimate
from sqlmadp.answer.rows import Desk
from sqlmadp.bind.bind import bind_all
from sqlmadp.bind.evaluate import Evaluator
from sqlmadp.errors import NotCoveredError
from sqlmadp.mechanism import mechanism
from sqlmadp.mechanism.collective import Collective
from sqlmadp.sql.statements import split
from sqlmadp.table.domain import Column, Domain
from sqlmadp.table.rows import Rows

DOMAIN = Domain(
    table="orders",
    columns=(
        Column(name="price", type="integer", minimum=0, maximum=100_000),
        Column(name="quantity", type="integer", minimum=1, maximum=20, complete=True),
        Column(name="region", type="category", values=("n", "e", "s"), complete=True),
    ),
)
LINEAR = [
    "SELECT region, COUNT(*) AS v FROM orders GROUP BY region",
    "SELECT region, SUM(price) AS v FROM orders GROUP BY region",
    "SELECT region, SUM(price) - 500 * COUNT(*) AS v FROM orders GROUP BY region",
    "SELECT SUM(price * quantity) AS v FROM orders",
    "SELECT region, SUM(price) AS v FROM orders GROUP BY ROLLUP (region)",
    "SELECT region, 2 * SUM(quantity) - COUNT(price) AS v FROM orders GROUP BY region",
    "SELECT SUM(price) FILTER (region <> 's') AS v FROM orders",
    "SELECT SUM(CASE WHEN price > 50000 THEN price END) AS v FROM orders",
]
OTHER = [
    "SELECT region, AVG(price) AS v FROM orders GROUP BY region",
    "SELECT VAR_POP(quantity) AS v, STDDEV_SAMP(quantity) AS w FROM orders",
    "SELECT region, VAR_SAMP(quantity) AS v FROM orders GROUP BY region",
    "SELECT STDDEV_POP(price) AS v FROM orders",
    "SELECT CORR(price, quantity) AS v FROM orders",
    "SELECT REGR_SLOPE(price, quantity) AS v FROM orders",
    "SELECT region, MEDIAN(quantity) AS v FROM orders GROUP BY region",
    "SELECT region, QUANTILE_CONT(quantity, 0.9) AS v FROM orders GROUP BY region",
    "SELECT SUM(price) / SUM(quantity) AS v FROM orders",
]
EVALUATOR, DESK = Evaluator(DOMAIN), Desk()
QUERIES = dict(
    zip(
        LINEAR + OTHER,
        bind_all(split(";".join(LINEAR + OTHER), file="wide.sql"), EVALUATOR),
        strict=True,
    )
)
RANDOM = np.random.default_rng(11)
RECORDS = [
    (None if n % 17 == 0 else int(price), int(quantity), "nes"[n % 3])
    for n, (price, quantity) in enumerate(
        zip(RANDOM.integers(0, 100_001, 300), RANDOM.integers(1, 21, 300), strict=True)
    )
]
CELLS = {
    "price": np.array([100_001 if price is None else price for price, _, _ in RECORDS]),
    "quantity": np.array([quantity - 1 for _, quantity, _ in RECORDS]),
    "region": np.array(["nes".index(region) for _, _, region in RECORDS]),
}
VARIANCE = 1e6
"""Weights of what is measured are about 100: the noise of a count is some ten records."""


def data_vector(rows: Rows) -> np.ndarray:
    """Return, for every vertex, the sum over records of the products of their weights."""
    weights = np.ones((1, len(RECORDS)))
    for name, part in zip(rows.scope, rows.parts, strict=True):
        own = part.functions[:, CELLS[name]].toarray()
        weights = (weights[:, None, :] * own[None, :, :]).reshape(-1, len(RECORDS))
    return weights.sum(axis=1)


@pytest.fixture(scope="module", params=["waterfilling"])
def estimate(request):
    """Return the estimate of a release without noise, with the errors of one with noise."""
    rows = [rows for query in QUERIES.values() for rows in query.aggregates]
    selected = mechanism(request.param).select(Collective([rows], [Fraction(1)]))
    values = tuple(block.matrix @ data_vector(block) for block in selected.blocks)
    return Estimate(DOMAIN, selected.blocks, values, VARIANCE)


@pytest.fixture(scope="module")
def raw():
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("CREATE TABLE orders (price BIGINT, quantity BIGINT, region VARCHAR)")
    connection.executemany("INSERT INTO orders VALUES (?, ?, ?)", RECORDS)
    return connection


def test_what_is_measured_has_few_vertices(estimate):
    assert max(block.size for block in estimate.blocks) < 1000


@pytest.mark.parametrize("sql", LINEAR + OTHER)
def test_without_noise_answers_are_those_of_duckdb(sql, estimate, raw):
    ours = result_of(QUERIES[sql], estimate, DESK)
    theirs = raw.execute(sql).fetchall()
    assert same_rows([_rounded(row) for row in ours.rows], [_rounded(row) for row in theirs])


def _rounded(row):
    """Round to seven digits: a variance is a difference of sums a million times as large."""
    return tuple(float(f"{v:.7g}") if isinstance(v, float) else v for v in row)


SOME = {
    "price": np.array([0, 1, 70, 20_000, 49_999, 50_000, 50_001, 60_000, 90_000, 99_999, 100_001]),
    "quantity": np.arange(20),
    "region": np.arange(3),
}
"""Values that functions are told apart by: all that are measured are polynomials of few pieces."""


def at_some(rows):
    """Return rows as functions of some values."""
    functions, own = np.ones((1, 1)), dict(zip(rows.scope, rows.parts, strict=True))
    for name, some in SOME.items():
        each = own[name].functions[:, some].toarray() if name in own else np.ones((1, len(some)))
        functions = np.kron(functions, each)
    return rows.matrix @ functions


@pytest.fixture(scope="module")
def inverse(estimate):
    measured = np.vstack([at_some(block) for block in estimate.blocks])
    return np.linalg.pinv(measured, rcond=1e-10)


@pytest.mark.parametrize("sql", LINEAR)
def test_the_errors_of_linear_columns_are_those_of_linear_algebra(sql, estimate, inverse):
    query = QUERIES[sql]
    result = result_of(query, estimate, DESK)
    pieces = [np.vstack([at_some(rows) for rows in p.rows]) for p in query.blocks[0].pieces]
    match sql.split(" AS v")[0].rpartition("SELECT ")[2].replace("region, ", ""):
        case "SUM(price) - 500 * COUNT(*)":
            asked = pieces[0] - 500 * pieces[1]
        case "2 * SUM(quantity) - COUNT(price)":
            asked = 2 * pieces[0] - pieces[1]
        case _:
            (asked,) = pieces
    known = np.sqrt(VARIANCE * ((asked @ inverse) ** 2).sum(axis=1))
    np.testing.assert_allclose(result.rmse["v"], known, rtol=1e-6)


@pytest.mark.parametrize("sql", OTHER)
def test_other_columns_have_errors_too(sql, estimate):
    result = result_of(QUERIES[sql], estimate, DESK)
    for name, kind in result.columns:
        if kind != "VARCHAR":
            assert all(error > 0 for error in result.rmse[name])


def test_values_of_a_column_that_was_only_summed_are_named_in_a_refusal():
    (asked, sums) = bind_all(
        split(
            "SELECT COUNT(*) FROM orders WHERE price = 7; SELECT SUM(price) FROM orders",
            file="a.sql",
        ),
        EVALUATOR,
    )
    blocks = [Rows(r.scope, r.parts, 1.0) for r in sums.aggregates]
    estimate = Estimate(DOMAIN, tuple(blocks), tuple(np.zeros(b.count) for b in blocks), 1.0)
    with pytest.raises(NotCoveredError, match=r"sums over the values 0, 1, 2, 3, 4, \.\.\. of 'p"):
        estimate.answers(asked.aggregates[0])
    with pytest.raises(NotCoveredError, match="'region' is not part of what the release measured"):
        estimate.rmse(QUERIES[LINEAR[0]].aggregates[0])
