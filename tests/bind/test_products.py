"""Products: a sum of products of single columns is the value that DuckDB gives every cell."""

import math
from dataclasses import replace
from datetime import date

import numpy as np
import pytest

from sqlmadp.bind import evaluate
from sqlmadp.bind.bind import bind
from sqlmadp.bind.evaluate import Evaluator
from sqlmadp.bind.products import null_parts
from sqlmadp.sql.statements import Statement
from sqlmadp.sql.tree import text
from sqlmadp.table.domain import Column, Domain

DOMAIN = Domain(
    table="sales",
    columns=(
        Column(name="price", type="integer", minimum=-2, maximum=4),
        Column(name="quantity", type="integer", minimum=0, maximum=3, nullable=True),
        Column(name="month", type="integer", minimum=1, maximum=3),
        Column(name="shop", type="category", values=("a", "b")),
        Column(name="sent", type="date", minimum=date(2024, 1, 30), maximum=date(2024, 2, 3)),
        Column(name="got", type="date", minimum=date(2024, 2, 1), maximum=date(2024, 2, 4)),
    ),
)


@pytest.fixture(scope="module")
def evaluator():
    return Evaluator(DOMAIN)


def expression(sql: str, evaluator: Evaluator):
    statement = Statement("a.sql", "q1", f"SELECT 1 FROM sales WHERE {sql}")
    (reading,) = evaluator.sandbox.read([statement])
    return reading.tree.args["where"].this


def every_cell(names):
    return {name: np.arange(DOMAIN.column(name).size) for name in names}


def by_duckdb(node, names, evaluator):
    """Return DuckDB's values on all cells of some columns; NaN for NULL."""
    found = evaluator.argument(node)
    values = np.append(found.numbers, np.nan)[found.factor.values]
    parts = dict(zip(found.factor.columns, found.factor.partitions, strict=True))
    for axis, name in enumerate(found.factor.columns):
        values = values.take(parts[name].pieces, axis=axis)
    own = [found.factor.columns.index(name) for name in names if name in parts]
    shape = [DOMAIN.column(name).size if name in parts else 1 for name in names]
    whole = [DOMAIN.column(name).size for name in names]
    return np.broadcast_to(values.transpose(own).reshape(shape), whole)


PRODUCTS = [
    ("CASE WHEN shop = 'a' THEN 1 ELSE 0 END * price", 1),
    ("price * quantity", 1),
    ("price * quantity - 2 * month", 2),
    ("(price + 1) * (quantity - month)", 4),
    ("-(price + quantity) / 4", 2),
    ("CAST(price AS DOUBLE) * quantity", 1),
    ("3 + price * month * quantity", 2),
    ("CASE WHEN shop = 'a' THEN price END", 1),
    ("CASE WHEN shop = 'a' AND month > 1 THEN price * quantity END", 1),
    ("CASE WHEN shop = 'a' THEN price - month ELSE NULL END", 2),
]
PRODUCTS += [
    ("got - sent", 2),
    ("date_diff('day', sent, got) * price", 2),
    ("CASE WHEN got > DATE '2024-02-02' AND shop = 'a' THEN got - sent + 1 END", 3),
]
CHOICES = [
    ("CASE WHEN shop = 'a' THEN price * quantity ELSE 0 END", 1),
    ("CASE WHEN quantity > 1 THEN price ELSE 0 END", 1),
    ("CASE WHEN shop = 'a' THEN price ELSE month END", 2),
    ("if(shop = 'a', price, 2 * month)", 2),
    ("CASE month WHEN 1 THEN price WHEN 2 THEN 3 WHEN 3 THEN quantity END", 3),
    ("CASE month WHEN 1 THEN price WHEN 2 THEN quantity ELSE 7 END", 3),
    ("CASE WHEN shop = 'a' AND month > 1 THEN price ELSE quantity END", 3),
    ("CASE WHEN shop = 'a' THEN price WHEN month > 1 THEN quantity END", 3),
    ("price + CASE WHEN shop = 'a' THEN quantity ELSE 0 END", 3),
    ("quantity * CASE WHEN shop = 'a' THEN month ELSE price END - 1", 4),
]


@pytest.mark.parametrize(("value", "terms"), [*PRODUCTS, *CHOICES])
def test_terms_add_up_to_the_value_of_every_cell(evaluator, value, terms):
    node = expression(value, evaluator)
    found = evaluator.terms(node)
    assert len(found.terms) <= terms
    names = list(found.present)
    ours, theirs = found.at(every_cell(names)), by_duckdb(node, names, evaluator)
    np.testing.assert_allclose(ours, theirs, atol=1e-12)
    low, high = found.bounds
    assert low <= np.nanmin(theirs)
    assert high >= np.nanmax(theirs)


@pytest.mark.parametrize(("value", "terms"), PRODUCTS)
def test_what_is_counted_is_not_null_and_one_part_is_null_where_the_whole_is(
    evaluator, value, terms
):
    node = expression(value, evaluator)
    found = evaluator.terms(node)
    names = list(found.present)
    missing = np.isnan(by_duckdb(node, names, evaluator))
    np.testing.assert_array_equal(np.isnan(found.at(every_cell(names))), missing)
    parts = [by_duckdb(part, names, evaluator) for part in null_parts(node)]
    np.testing.assert_array_equal(np.any(np.isnan(parts), axis=0), missing)


@pytest.mark.parametrize(("value", "terms"), CHOICES)
def test_a_case_of_several_branches_is_null_as_a_whole_only(evaluator, value, terms):
    node = expression(value, evaluator)
    assert [text(part) for part in null_parts(node)] == [text(node)]


def test_bounds_are_tight_where_every_column_occurs_once(evaluator):
    assert evaluator.terms(expression("price * quantity", evaluator)).bounds == (-6, 12)
    assert evaluator.terms(expression("2 * price - month", evaluator)).bounds == (-7, 7)


def test_an_expression_that_is_always_null_has_no_bounds(evaluator):
    query = bind(Statement("a.sql", "q1", "SELECT SUM(price + NULL::INT) FROM sales"), evaluator)
    found = next(p for p in query.blocks[0].pieces if p.kind == "sum")
    assert all(math.isnan(bound) for bound in found.bounds)
    assert all(rows.matrix.nnz == 0 for rows in found.rows)


@pytest.mark.parametrize(
    "value",
    [
        "price // (quantity + 1)",
        "greatest(price, quantity)",
        "price % month",
        "CASE WHEN price > month THEN price END",
    ],
)
def test_what_mixes_columns_otherwise_is_summed_as_duckdb_does_on_every_cell(evaluator, value):
    node = expression(value, evaluator)
    assert evaluator.terms(node) is None
    query = bind(Statement("a.sql", "q1", f"SELECT SUM({value}) FROM sales"), evaluator)
    found = next(p for p in query.blocks[0].pieces if p.kind == "sum")
    (rows,) = found.rows
    lift = np.ones((1, 1))
    for part in rows.parts:
        lift = np.kron(lift, part.functions.toarray())
    theirs = np.nan_to_num(by_duckdb(node, rows.scope, evaluator)).reshape(-1)
    np.testing.assert_allclose((rows.matrix @ lift)[0], theirs, atol=1e-9)


def test_a_product_that_duckdb_does_not_confirm_is_looked_at_on_every_cell(monkeypatch):
    fresh = Evaluator(DOMAIN)
    node = expression("price * quantity", fresh)
    right = fresh.terms(node)
    (term,) = right.terms
    wrong = replace(right, terms=(replace(term, coefficient=1.01),))
    monkeypatch.setattr(evaluate, "terms_of", lambda *_: wrong)
    assert fresh.terms(node) is right  # It is remembered.
    assert Evaluator(DOMAIN).terms(node) is None


def test_conditions_of_sums_and_correlations_are_told_apart_by_group(evaluator):
    sql = (
        "SELECT month, CORR(price, quantity), AVG(price) FILTER (WHERE shop = 'a') FROM sales "
        "GROUP BY month"
    )
    query = bind(Statement("a.sql", "q1", sql), evaluator)
    pieces = [p for p in query.blocks[0].pieces if p.kind == "sum"]
    assert all(p.rows[0].count == 3 and "month" in p.rows[0].scope for p in pieces)
    assert any("shop" in p.rows[0].scope for p in pieces)
    assert all(size <= 9 for p in pieces for size in p.rows[0].shape)


def test_a_difference_under_a_condition_on_both_columns_has_few_vertices():
    bounds = {"minimum": date(2024, 1, 1), "maximum": date(2024, 12, 31)}
    columns = (
        Column(name="sent", type="date", **bounds),
        Column(name="got", type="date", **bounds),
    )
    wide = Evaluator(Domain(table="sales", columns=columns))
    for where in ("got >= sent", "TRUE"):
        sql = f"SELECT AVG(got - sent) FROM sales WHERE {where}"
        query = bind(Statement("a.sql", "q1", sql), wide)
        assert all(r.size <= 366 for piece in query.blocks[0].pieces for r in piece.rows)
