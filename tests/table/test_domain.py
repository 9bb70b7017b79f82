"""Columns number their cells so that every declared value is in exactly one of them."""

import math
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlmadp.table.domain import Column, Domain

reals = st.floats(allow_nan=False, allow_infinity=False)
few_reals = st.lists(st.integers(-20, 20).map(lambda n: n / 4), max_size=8)


@st.composite
def finite_columns(draw):
    kind = draw(st.sampled_from(["category", "boolean", "integer", "date"]))
    given = {"name": "c", "type": kind, "complete": draw(st.booleans())}
    if kind == "category":
        items = draw(st.sampled_from([st.text(max_size=3), st.integers()]))
        given["values"] = tuple(draw(st.lists(items, min_size=1, max_size=20, unique=True)))
    elif kind == "integer":
        low = draw(st.integers(-(2**63), 2**62))
        given |= {"minimum": low, "maximum": low + draw(st.integers(0, 50))}
    elif kind == "date":
        low = draw(st.integers(1, date.max.toordinal() - 50))
        high = low + draw(st.integers(0, 50))
        given |= {"minimum": date.fromordinal(low), "maximum": date.fromordinal(high)}
    return Column(**given)


@st.composite
def real_columns(draw, bounds=reals, cuts=few_reals):
    low, high = sorted(draw(st.tuples(bounds, bounds)))
    column = Column(name="c", type="real", minimum=low, maximum=high, nullable=draw(st.booleans()))
    return column.with_cuts(draw(cuts))


@given(finite_columns())
def test_every_cell_of_a_finite_column_has_a_value_of_its_own(column):
    values = [column.value(cell) for cell in range(column.size)]
    assert len(set(values)) == column.size == column.declared + (not column.complete)
    assert (values[-1] is None) == (not column.complete)
    assert None not in values[: column.declared]


@given(finite_columns())
def test_values_come_in_declared_order(column):
    values = [column.value(cell) for cell in range(column.declared)]
    if column.type == "category":
        assert values == list(column.values)
    elif column.type == "boolean":
        assert values == [False, True]
    else:
        assert (values[0], values[-1]) == (column.minimum, column.maximum)
        assert values == sorted(values)


def brute_cell(column, value):
    """The cell of ``value``, by looking at every edge and every gap between two edges."""
    edges = column.edges
    cells = [2 * i for i, edge in enumerate(edges) if value == edge]
    cells += [2 * i + 1 for i in range(len(edges) - 1) if edges[i] < value < edges[i + 1]]
    (cell,) = cells
    return cell


@given(real_columns(bounds=st.integers(-20, 20).map(lambda n: n / 4)), st.data())
def test_a_real_number_is_in_the_cell_that_brute_force_finds(column, data):
    value = data.draw(st.floats(column.minimum, column.maximum))
    assert column.cell_of_real(value) == brute_cell(column, value)


@given(real_columns(cuts=st.lists(reals, max_size=6)))
def test_the_value_of_a_real_cell_is_inside_it_unless_no_number_is(column):
    for cell in range(column.declared):
        value = column.value(cell)
        if (
            cell % 2
            and math.nextafter(column.edges[cell // 2], math.inf) == column.edges[cell // 2 + 1]
        ):
            assert value == column.edges[cell // 2]
        else:
            assert column.cell_of_real(value) == cell


@given(real_columns(), st.lists(reals | st.sampled_from([math.nan, math.inf, -0.0]), max_size=6))
def test_cuts_only_ever_refine_and_only_within_the_bounds(column, cuts):
    finer = column.with_cuts(cuts)
    assert set(column.edges) <= set(finer.edges)
    inside = {cut for cut in cuts if column.minimum < cut < column.maximum}
    assert set(finer.cuts) == set(column.cuts) | inside
    assert set(finer.edges) == set(column.edges) | inside
    assert finer.edges == tuple(sorted(set(finer.edges)))
    assert (finer.edges[0], finer.edges[-1]) == (column.minimum, column.maximum)


def test_a_real_column_without_cuts_is_its_two_ends_and_what_is_between():
    column = Column(name="c", type="real", minimum=0.0, maximum=1.0, nullable=True)
    assert [column.value(cell) for cell in range(column.size)] == [0.0, 0.5, 1.0, None]
    assert column.null_cell == 3


def test_cells_are_described_for_a_person():
    real = Column(name="c", type="real", minimum=0, maximum=2, nullable=True).with_cuts([0.5])
    assert [real.describe(cell) for cell in range(real.size)] == [
        "0.0",
        "between 0.0 and 0.5",
        "0.5",
        "between 0.5 and 2.0",
        "2.0",
        "NULL",
    ]
    days = Column(name="d", type="date", minimum=date(2020, 2, 28), maximum=date(2020, 3, 1))
    assert [days.describe(cell) for cell in range(days.size)] == [
        "2020-02-28",
        "2020-02-29",
        "2020-03-01",
        "NULL",
    ]


def test_statements_see_the_type_that_the_values_have():
    assert Column(name="c", type="category", values=("a",)).sql_type == "VARCHAR"
    assert Column(name="c", type="category", values=(1,)).sql_type == "BIGINT"
    assert Column(name="c", type="boolean").sql_type == "BOOLEAN"
    assert Column(name="c", type="integer", minimum=0, maximum=1).sql_type == "BIGINT"
    assert Column(name="c", type="date", minimum=date.min, maximum=date.max).sql_type == "DATE"
    assert Column(name="c", type="real", minimum=0, maximum=1).sql_type == "DOUBLE"


def test_a_column_is_found_by_its_name_in_any_case():
    age = Column(name="Age", type="integer", minimum=0, maximum=9)
    domain = Domain(table="t", columns=(age,))
    assert domain.column("aGE") is age
    assert "AGE" in domain
    assert "height" not in domain
    with pytest.raises(KeyError):
        domain.column("height")


def test_the_number_of_cells_is_exact_at_any_size():
    wide = tuple(
        Column(name=f"c{i}", type="integer", minimum=0, maximum=9, nullable=True) for i in range(30)
    )
    assert Domain(table="t", columns=wide).cells == 11**30


def test_a_domain_takes_cuts_by_column():
    columns = tuple(Column(name=name, type="real", minimum=0.0, maximum=1.0) for name in ("a", "b"))
    domain = Domain(table="t", columns=columns).with_cuts({"b": [0.25], "a": []})
    assert [column.edges for column in domain.columns] == [(0.0, 1.0), (0.0, 0.25, 1.0)]
