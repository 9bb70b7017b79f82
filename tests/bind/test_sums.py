"""Sums over groups as rows over vertices: the same functions as over all cells together."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import parse_one

from sqlmadp.bind.blocks import COUNT, Values, histogram_rows, sum_rows, value_rows
from sqlmadp.bind.evaluate import Evaluator
from sqlmadp.bind.groups import OUT, Factor, form_groups, tied
from sqlmadp.bind.products import Term
from sqlmadp.sql.limits import DEFAULT
from sqlmadp.table.domain import Column, Domain
from sqlmadp.table.joint import realised
from sqlmadp.table.partition import Partition

SIZES = {"a": 7, "b": 5, "c": 6}
CELLS = math.prod(SIZES.values())


def over_cells(scope, lifts, matrix):
    lift = np.ones((1, 1))
    for column, size in SIZES.items():
        lift = np.kron(lift, lifts[column] if column in scope else np.ones((1, size)))
    return matrix.toarray() @ lift


def of_rows(rows):
    rows = realised(rows)
    lifts = {n: p.functions.toarray() for n, p in zip(rows.scope, rows.parts, strict=True)}
    return over_cells(rows.scope, lifts, rows.matrix)


def by_brute_force(groups, masks, added):
    """Return the contribution of every cell to every group, cell by cell."""
    found = np.zeros((groups.size, *SIZES.values()))
    tables = tied(groups, masks)
    for cell in np.ndindex(*SIZES.values()):
        at = dict(zip(SIZES, cell, strict=True))
        numbers = [
            table.values[
                tuple(
                    part.pieces[at[name]]
                    for name, part in zip(table.columns, table.partitions, strict=True)
                )
            ]
            for table in tables
        ]
        if OUT not in numbers and groups.size:
            found[(groups.rank[sum(numbers)], *cell)] = added[cell]
    return found.reshape(groups.size, CELLS)


@st.composite
def asked(draw):
    """Return groups, masks and terms over three columns, drawn at random."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))

    def factor(names, most):
        shape = tuple(SIZES[name] for name in names)
        values = random.integers(0, most, shape)
        if random.random() < 0.5:
            values = np.minimum(np.indices(shape).sum(axis=0) // 2, most - 1)
        return Factor(names, tuple(Partition.finest(n) for n in shape), values).reduce()

    scopes = [("a",), ("b",), ("c",), ("a", "b"), ("b", "c")]
    keys = [factor(scopes[random.integers(len(scopes))], 3) for _ in range(random.integers(0, 3))]
    masks = [factor(scopes[random.integers(len(scopes))], 2) for _ in range(random.integers(0, 2))]
    where = [factor(scopes[random.integers(len(scopes))], 2) for _ in range(random.integers(0, 2))]
    groups = form_groups(where, keys, grouped=bool(keys), limits=DEFAULT)
    terms = []
    for _ in range(random.integers(1, 3)):
        names = [name for name in SIZES if random.random() < 0.5]
        terms.append(Term(float(random.integers(-3, 4)), {n: _function(random, n) for n in names}))
    return groups, masks, terms


def _function(random, name):
    values = np.arange(SIZES[name], dtype=np.float64)
    return [values, values**2, values > 2, 3 - 2 * values, np.abs(values - 2)][
        random.integers(5)
    ] * 1.0


@settings(deadline=None, max_examples=150)
@given(asked())
def test_sums_of_products_are_those_over_all_cells(drawn):
    groups, masks, terms = drawn
    whole = sum(
        term.coefficient
        * np.multiply.outer(
            np.multiply.outer(*(term.functions.get(n, np.ones(SIZES[n])) for n in "ab")),
            term.functions.get("c", np.ones(SIZES["c"])),
        )
        for term in terms
    )
    expected = by_brute_force(groups, masks, whole)
    np.testing.assert_allclose(of_rows(sum_rows(groups, masks, terms, SIZES)), expected, atol=1e-9)
    weights, codes = np.unique(whole, return_inverse=True)
    cells = tuple(Partition.finest(n) for n in SIZES.values())
    values = Values(Factor(tuple(SIZES), cells, codes.reshape(whole.shape)).reduce(), weights)
    np.testing.assert_allclose(of_rows(value_rows(groups, masks, values)), expected, atol=1e-9)
    histogram = of_rows(histogram_rows(groups, masks, values))
    summed = histogram.reshape(groups.size, len(weights), CELLS).transpose(0, 2, 1) @ weights
    np.testing.assert_allclose(summed, expected, atol=1e-9)


@settings(deadline=None, max_examples=50)
@given(asked())
def test_counts_are_those_over_all_cells(drawn):
    groups, masks, _ = drawn
    expected = by_brute_force(groups, masks, np.ones(tuple(SIZES.values())))
    np.testing.assert_allclose(of_rows(sum_rows(groups, masks, COUNT, SIZES)), expected, atol=1e-12)


def test_a_product_of_wide_columns_is_never_enumerated():
    price = Column(name="price", type="integer", minimum=0, maximum=100_000, complete=True)
    quantity = Column(name="quantity", type="integer", minimum=1, maximum=5_000, complete=True)
    domain = Domain(table="people", columns=(price, quantity))
    terms = Evaluator(domain).terms(parse_one("price * quantity"))
    groups = form_groups([], [], grouped=False, limits=DEFAULT)
    rows = sum_rows(groups, [], terms.terms, {"price": 100_001, "quantity": 5_000})
    assert rows.shape == (2, 2)
    assert sorted(rows.matrix.toarray()[0]) == pytest.approx([0, 0, 1e5, 5e8])
