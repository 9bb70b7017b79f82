"""Products: a sum of products of single columns is the value that DuckDB gives every cell."""

import numpy as np
import pytest

from sqlmadp.schema.domain import Column, Domain
from sqlmadp.sql.bind import bind
from sqlmadp.sql.evaluate import Evaluator
from sqlmadp.sql.statements import Statement

DOMAIN = Domain(
    table="sales",
    columns=(
        Column(name="price", type="integer", minimum=-2, maximum=4),
        Column(name="quantity", type="integer", minimum=0, maximum=3, nullable=True),
        Column(name="month", type="integer", minimum=1, maximum=3),
        Column(name="shop", type="category", values=("a", "b")),
    ),
)


@pytest.fixture(scope="module")
def evaluator():
    return Evaluator(DOMAIN)


def piece(sql: str, evaluator: Evaluator):
    query = bind(Statement("a.sql", "q1", sql), evaluator)
    return next(p for p in query.blocks[0].pieces if p.kind == "sum")


@pytest.mark.parametrize(
    ("value", "terms"),
    [
        ("price * quantity", 1),
        ("price * quantity - 2 * month", 2),
        ("(price + 1) * (quantity - month)", 2),
        ("-(price + quantity) / 4", 2),
        ("price", 1),
        ("CASE WHEN shop = 'a' THEN 1 ELSE 0 END * price", 1),
        ("3 + price * month * quantity", 2),
    ],
)
def test_terms_add_up_to_the_value_of_every_cell(evaluator, value, terms):
    found = piece(f"SELECT SUM({value}) FROM sales", evaluator)
    assert len(found.terms) == terms
    names = sorted({name for term in found.terms for name in term.functions})
    whole = np.zeros([DOMAIN.column(name).size for name in names])
    for term in found.terms:
        part = np.array(term.coefficient)
        for name in names:
            part = np.multiply.outer(part, term.functions[name])
        whole += part
    (block,) = found.blocks
    labels = [
        dict(zip(block.marginal.scope, block.marginal.partitions, strict=True))[name].labels
        if name in block.marginal.scope
        else np.zeros(DOMAIN.column(name).size, dtype=int)
        for name in names
    ]
    cells = block.matrix.toarray().reshape([p.size for p in block.marginal.partitions])
    at = [labels[names.index(name)] for name in block.marginal.scope]
    np.testing.assert_allclose(
        cells[np.ix_(*at)].reshape(whole.shape) if at else np.full(whole.shape, cells), whole
    )


@pytest.mark.parametrize(
    "value", ["price // quantity", "greatest(price, quantity)", "price % month"]
)
def test_what_mixes_columns_otherwise_has_no_terms(evaluator, value):
    assert piece(f"SELECT SUM({value}) FROM sales WHERE quantity > 0", evaluator).terms is None


def test_correlations_and_filters_come_as_terms_too(evaluator):
    query = bind(
        Statement(
            "a.sql",
            "q1",
            "SELECT month, CORR(price, quantity), AVG(price) FILTER (WHERE shop = 'a') FROM sales "
            "GROUP BY month",
        ),
        evaluator,
    )
    pieces = [p for p in query.blocks[0].pieces if p.kind == "sum"]
    assert all(p.terms is not None and len(p.terms) == 1 for p in pieces)
    assert all(len(p.groups) == 1 and p.groups[0].size == 3 for p in pieces)
    assert {mask.columns for p in pieces for mask in p.masks} >= {("shop",)}
