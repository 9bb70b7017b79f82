"""The audit of records: a person of many, or of a large income, is seen no better than others."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from sqlmadp.audit import counted, report
from sqlmadp.audit.report import audit_case
from sqlmadp.private import data_vector, measure
from sqlmadp.private.engines import counting
from sqlmadp.table.domain import Domain

SURE = 1 - 1e-9
boundary = sys.modules[measure.__module__]
pytestmark = pytest.mark.slow

CASES = {case.name: case for case in counted.counted_cases()}


def difference(case):
    """Return by how much the data vectors of the first block differ."""
    return abs(case.sums[0][0] - case.sums[1][0]).sum()


def broken(name):
    """Return a case, counted anew."""
    return next(case for case in counted.counted_cases() if case.name == name)


@pytest.mark.statistical
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_record_and_a_person_of_many_are_hidden(case):
    assert audit_case(case, 4_000, confidence=SURE).holds


def test_the_neighbours_differ_by_as_many_records_as_the_schema_lets_in():
    moved = [difference(case) for case in CASES.values() if "income" not in case.name]
    assert moved == [counted.MOST, counted.MOST, 2 * counted.MOST, 1]


def test_the_audit_has_the_cases_of_records(monkeypatch):
    audited = []
    monkeypatch.setattr(report, "cases", lambda: ())
    monkeypatch.setattr(report, "_samples", lambda every, *_: audited.extend(every) or {})
    with pytest.raises(KeyError):
        report.audit(2_000)
    assert {case.name for case in audited} >= set(CASES)


@pytest.mark.statistical
@pytest.mark.parametrize("name", [name for name in CASES if "person" in name])
def test_a_unit_whose_records_are_not_limited_is_caught(monkeypatch, name):
    right = counting.counting_select
    monkeypatch.setattr(
        counting,
        "counting_select",
        lambda engine, domain, *rest: right(engine, replace(domain, unit=None), *rest),
    )
    assert not audit_case(broken(name), 12_000, confidence=SURE).holds


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
    moved = [difference(case) for case in counted.counted_cases() if "income" not in case.name]
    assert np.max(moved) > 2 * counted.MOST


def test_an_income_adds_as_much_as_any_other_record():
    incomes = [case for case in CASES.values() if "income" in case.name]
    assert len(incomes) == 5
    for case in incomes:
        for block, with_it, without in zip(case.blocks, *case.sums, strict=True):
            assert (with_it >= without).all()
            assert (with_it - without).sum() == block.units


@pytest.mark.statistical
def test_a_forgotten_second_ramp_is_caught(monkeypatch):
    right = data_vector._bernstein

    def forgetful(degree, highest, unit):
        rows = right(degree, highest, unit)
        return np.where(rows > 0, rows, 0)  # At the first vertex u, and no longer u - s.

    monkeypatch.setattr(data_vector, "_bernstein", forgetful)
    assert not audit_case(broken("sums: the highest income"), 40_000, confidence=SURE).holds


@pytest.mark.statistical
def test_steps_beyond_the_unit_are_caught(monkeypatch):
    right = counting._by_runs
    monkeypatch.setattr(counting, "_by_runs", lambda *arguments: right(*arguments) * 2)
    assert not audit_case(broken("sums: the highest income"), 40_000, confidence=SURE).holds


@pytest.mark.statistical
@pytest.mark.parametrize("number", [0, 1])
def test_the_scale_of_counts_on_one_block_of_sums_is_caught(monkeypatch, number):
    right = boundary.calibrate

    def careless(*arguments, **options):
        strategy = right(*arguments, **options)
        scales = list(strategy.scales)
        scales[number] /= counted.HIGHEST
        return replace(strategy, scales=tuple(scales))

    monkeypatch.setattr("sqlmadp.audit.report.calibrate", careless)
    case = CASES["sums: an income in between"]
    assert not audit_case(case, 20_000, confidence=SURE).holds


@pytest.mark.statistical
def test_one_block_of_sums_without_the_others_in_its_scale_is_caught(monkeypatch):
    right = boundary.calibrate

    def alone(blocks, **options):
        scales = (right([block], **options).scales[0] for block in blocks)
        return replace(right(blocks, **options), scales=tuple(scales))

    monkeypatch.setattr("sqlmadp.audit.report.calibrate", alone)
    assert not audit_case(CASES["sums: the highest income"], 40_000, confidence=SURE).holds
