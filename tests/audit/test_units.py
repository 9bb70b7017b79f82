"""The audit of units: many records of one person are seen no better than a few."""

from dataclasses import replace

import numpy as np
import pytest

from sqlmadp.audit import report, units
from sqlmadp.audit.report import audit_case
from sqlmadp.private import counting, data_vector
from sqlmadp.schema.domain import Domain

SURE = 1 - 1e-9
CASES = {case.name: case for case in units.unit_cases()}


@pytest.mark.statistical
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_person_of_many_records_is_hidden(case):
    assert audit_case(case, 4_000, confidence=SURE).holds


def test_the_neighbours_differ_by_as_many_records_as_the_schema_lets_in():
    moved = [abs(case.tables[0] - case.tables[1]).sum() for case in CASES.values()]
    assert moved == [units.MOST, units.MOST, 2 * units.MOST, 1]


def test_the_audit_has_the_cases_of_units(monkeypatch):
    audited = []
    monkeypatch.setattr(report, "cases", lambda: ())
    monkeypatch.setattr(report, "_samples", lambda every, *_: audited.extend(every) or {})
    with pytest.raises(KeyError):
        report.audit(2_000)
    assert {case.name for case in audited} >= set(CASES)


@pytest.mark.statistical
@pytest.mark.parametrize("name", [name for name in CASES if "person" in name])
def test_a_unit_whose_records_are_not_limited_is_caught(monkeypatch, name):
    right = data_vector.counting_select
    monkeypatch.setattr(
        data_vector,
        "counting_select",
        lambda engine, domain, *rest: right(engine, replace(domain, unit=None), *rest),
    )
    (broken,) = [case for case in units.unit_cases() if case.name == name]
    assert not audit_case(broken, 4_000, confidence=SURE).holds


@pytest.mark.statistical
def test_replaced_units_under_the_noise_of_added_ones_are_caught(monkeypatch):
    case = CASES["a person of 60 records replaced by another"]
    monkeypatch.setattr(Domain, "records_between_neighbours", Domain.records_per_unit)
    assert not audit_case(case, 10_000, confidence=SURE).holds


@pytest.mark.statistical
def test_an_order_that_other_peoples_records_change_is_caught(monkeypatch):
    # As if a record's place among all records were its key: a row number, say.
    monkeypatch.setattr(
        counting,
        "_hash",
        lambda *_: (
            counting.exp.Window(
                this=counting.exp.RowNumber(),
                order=counting.exp.Order(
                    expressions=[counting.exp.Ordered(this=counting.exp.column("person"))]
                ),
            )
            % 7
        ),
    )
    moved = [abs(c.tables[0] - c.tables[1]).sum() for c in units.unit_cases()]
    assert np.max(moved) > 2 * units.MOST
