"""The audit passes what is sound, and catches every planted bug."""

import math
import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from click.testing import CliRunner
from sqlglot import exp

from sqlmadp.audit import report
from sqlmadp.audit.cases import (
    Case,
    cases,
    effects,
    empty_cell,
    lattice,
    plain_count,
    products,
    ramps,
    uneven_blocks,
)
from sqlmadp.audit.leaks import CANARY, repeated_noise, telling_messages
from sqlmadp.audit.report import Audited, Report, audit_case
from sqlmadp.cli import main
from sqlmadp.private import data_vector, measure, noise, sensitivity
from sqlmadp.private.blocks import checked_blocks, divisor
from sqlmadp.private.engines.duckdb import DuckDbTable
from sqlmadp.private.sensitivity import l1_sensitivity
from sqlmadp.table.rows import Rows

SURE = 1 - 1e-9
"""So sure that no run of these tests will ever see a bound fail by chance."""

pytestmark = pytest.mark.slow

CASES = {case.name: case for case in cases()}
boundary = sys.modules[measure.__module__]


def case_of(mechanism):
    return CASES[f"{mechanism}: the most sensitive cell"]


@pytest.mark.statistical
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_is_sound_passes(case):
    audited = audit_case(case, 2_000, confidence=SURE)
    assert audited.holds
    assert audited.measurements == 2_000


@pytest.mark.statistical
def test_nearly_all_of_epsilon_is_seen_on_a_plain_count():
    audited = audit_case(plain_count(), 20_000, confidence=0.999)
    assert 0.8 < audited.bound.epsilon <= 1


def test_the_cases_have_neighbours_and_the_most_sensitive_cell_among_them():
    for case in CASES.values():
        for block, first, second in zip(case.blocks, *case.sums, strict=True):
            assert abs(first - second).sum() == block.units
        if "most sensitive" in case.name:
            blocks = checked_blocks(case.blocks, case.domain)
            most = effects(case.domain, case.blocks).max()
            assert most == pytest.approx(l1_sensitivity(blocks, case.domain), rel=1e-12)
            assert moved(case) == pytest.approx(most, rel=1e-12)


def moved(case):
    """Return by how much the answers to the rows differ between the two tables."""
    total = 0
    for block, first, second in zip(case.blocks, *case.sums, strict=True):
        total += abs(block.matrix @ (first - second)).sum() / block.units
    return total


@pytest.mark.statistical
def test_noise_of_eight_tenths_of_its_scale_is_caught(monkeypatch):
    right = noise.noise_scale
    monkeypatch.setattr(noise, "noise_scale", lambda *a: 0.8 * right(*a))
    assert not audit_case(plain_count(), 20_000, confidence=SURE).holds
    assert not audit_case(case_of("identity"), 10_000, confidence=SURE).holds


@pytest.mark.statistical
def test_sensitivity_in_the_wrong_norm_is_caught(monkeypatch):
    def euclidean(blocks, domain):
        squares = [Rows(b.scope, b.parts, 0, b.matrix * b.matrix) for b in blocks]
        return math.isqrt(l1_sensitivity(squares, domain))

    monkeypatch.setattr(sensitivity, "l1_sensitivity", euclidean)
    assert not audit_case(case_of("waterfilling"), 12_000, confidence=SURE).holds


@pytest.mark.statistical
def test_sensitivity_of_one_block_only_is_caught(monkeypatch):
    monkeypatch.setattr(
        sensitivity, "l1_sensitivity", lambda blocks, domain: l1_sensitivity(blocks[:1], domain)
    )
    assert not audit_case(case_of("independent"), 6_000, confidence=SURE).holds
    assert not audit_case(uneven_blocks(), 12_000, confidence=SURE).holds


@pytest.mark.statistical
def test_products_whose_heights_are_forgotten_are_caught(monkeypatch):
    right = sensitivity.column_sums

    def forgetful(block):
        flat = (block.heights > 0).astype(np.int64)
        return right(replace(block, heights=flat))

    monkeypatch.setattr(sensitivity, "column_sums", forgetful)
    assert not audit_case(products(), 12_000, confidence=SURE).holds


@pytest.mark.statistical
def test_ramps_whose_steps_are_forgotten_are_caught(monkeypatch):
    monkeypatch.setattr(boundary, "grain", lambda block: Fraction(divisor(block)))
    assert not audit_case(ramps(), 20_000, confidence=SURE).holds


@pytest.mark.statistical
def test_one_noise_scale_for_blocks_of_different_units_is_caught(monkeypatch):
    right = boundary.calibrate

    def alike(*arguments, **options):
        strategy = right(*arguments, **options)
        return replace(strategy, scales=(min(strategy.scales),) * len(strategy.scales))

    monkeypatch.setattr("sqlmadp.audit.report.calibrate", alike)
    assert not audit_case(ramps(), 20_000, confidence=SURE).holds


@pytest.mark.statistical
def test_a_record_replaced_under_noise_for_one_added_is_caught():
    case = empty_cell()
    before, after = np.array([5, 1, 3, 2, 7, 1]), np.array([6, 1, 3, 1, 7, 1])
    replaced = Case.of(case.name, case.domain, case.blocks, (before, after))
    assert not audit_case(replaced, 20_000, confidence=SURE).holds


@pytest.mark.statistical
def test_a_group_that_is_dropped_when_empty_is_caught(monkeypatch):
    right = boundary.exact_answers

    def dropping(block, counts):
        answers = right(block, counts)
        return answers[answers != 0]

    monkeypatch.setattr(boundary, "exact_answers", dropping)
    audited = audit_case(empty_cell(), 4_000, confidence=SURE)
    assert not audited.holds
    assert audited.bound.event.startswith("width")


def test_a_seed_reused_in_every_measurement_is_caught(monkeypatch):
    def reused(values, scale):
        draws = np.random.default_rng(7).laplace(scale=scale, size=len(values))
        return values + np.rint(draws).astype(np.int64)

    assert repeated_noise() == ""
    monkeypatch.setattr(noise, "add_discrete_laplace", reused)
    assert "the noise of another" in repeated_noise()


def test_a_random_state_that_processes_inherit_is_caught(monkeypatch):
    state = np.random.default_rng(7)

    def inherited(values, scale):
        return values + np.rint(state.laplace(scale=scale, size=len(values))).astype(np.int64)

    monkeypatch.setattr(noise, "add_discrete_laplace", inherited)
    assert "the noise of another" in repeated_noise()


def test_an_exception_that_names_a_value_is_caught(monkeypatch):
    def casting(table, column, sql_type):
        return exp.cast(exp.column(column.name, quoted=True), sql_type)

    def uncaught(engine, domain, strategy):
        counts = data_vector.read_counts(engine, domain, strategy.blocks)
        return boundary.noisy_answers(strategy, counts)

    assert telling_messages() == []
    monkeypatch.setattr(DuckDbTable, "typed", casting)
    failing = telling_messages()
    assert any("changes what is said" in each for each in failing)
    assert not any(CANARY in each for each in failing)  # The fixed message still held.
    monkeypatch.setattr(boundary, "_noisy_answers_or_none", uncaught)
    assert any("names a value" in each for each in telling_messages())


@pytest.mark.statistical
def test_floating_point_noise_is_caught_by_its_lattice(monkeypatch):
    state = np.random.default_rng(7)

    def naive(values, scale):
        return values + state.laplace(scale=scale, size=len(values))

    assert audit_case(lattice(), 4_000, confidence=SURE).holds
    monkeypatch.setattr(noise, "add_discrete_laplace", naive)
    audited = audit_case(lattice(), 100_000, confidence=0.999)
    assert audited.bound.event.startswith("lattice")
    assert audited.bound.epsilon > 5


def report_of(bound, **changes):
    plain = Audited("a plain count", Fraction(1), replace(BOUND, epsilon=bound), 10)
    return replace(Report((plain,), 0.999, "", ()), **changes)


BOUND = audit_case(plain_count(), 2_000, confidence=SURE).bound


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (report_of(0.79), "make more measurements"),
        (report_of(1.01), "at least 1.010, but 1 is claimed"),
        (report_of(0.9, repeated="same noise"), "same noise"),
        (report_of(0.9, messages=("a value",)), "a value"),
    ],
)
def test_a_report_says_what_is_wrong(made, problem):
    assert len(made.problems) == 1
    assert problem in made.problems[0]
    assert report_of(0.9).problems == []


def test_the_command_fails_when_it_is_too_weak_to_see_anything(monkeypatch):
    monkeypatch.setattr(report, "audit", lambda *_, **__: report_of(0.79))
    result = CliRunner().invoke(main, ["audit"])
    assert result.exit_code == 1
    assert "less than 0.8" in result.stderr


@pytest.mark.statistical
def test_the_command_says_what_it_measured(monkeypatch):
    monkeypatch.setattr(report, "cases", lambda: [plain_count(), lattice()])
    monkeypatch.setattr(report, "counted_cases", list)
    result = CliRunner().invoke(main, ["audit", "--measurements", "2000"])
    assert "2 cases, 2,000 measurements of either table in each" in result.stdout
    assert "power: 0." in result.stdout
    assert "noise: never the same twice" in result.stdout
    assert "messages: none depends on a record" in result.stdout
    assert report.MEASUREMENTS == 200_000
