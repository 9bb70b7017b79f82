"""Measure: in the right order, once, and with nothing to be seen but noise."""

import json
import threading
import traceback
from dataclasses import replace
from fractions import Fraction

import duckdb
import numpy as np
import pytest
from scipy import stats

from sqlmadp.errors import (
    BudgetExceededError,
    InterfaceError,
    LedgerError,
    SourceError,
    StrategyError,
)
from sqlmadp.private import Ledger, measure
from sqlmadp.private.engines import Source
from sqlmadp.private.measure import READ_FAILED
from sqlmadp.table.domain import Column, Domain, Unit

HUGE = Fraction(10**9)


def p_value_of_scale(noise, scale):
    """Return the two-sided p-value of a Laplace scale, by the sum of absolute values.

    Absolute values in units of the scale are exponential, so their sum is a Gamma variable.
    At 30,000 draws a threshold of 1e-12 misses a scale wrong by a tenth less than once in
    1e27 runs; a Kolmogorov-Smirnov test would usually miss it (p about 1e-8).
    """
    total = stats.gamma(len(noise))
    statistic = np.abs(noise).sum() / scale
    return 2 * min(total.cdf(statistic), total.sf(statistic))


@pytest.fixture
def rich_ledger(tmp_path):
    with Ledger.open(tmp_path / "rich.ledger", budget=HUGE) as ledger:
        yield ledger


@pytest.fixture
def nowhere(tmp_path):
    return Source(location="missing.parquet", folder=tmp_path)


def test_a_huge_epsilon_gives_exact_answers(measure_people, rich_ledger, people, block_of):
    blocks = [
        block_of(people, "age", weight=65536),
        block_of(people, rows=[[1], [-3]]),
        block_of(people, "age", "sex"),
    ]
    measured = measure_people(blocks, ledger=rich_ledger, epsilon=HUGE)
    assert [values.tolist() for values in measured.values] == [
        [1, 2, 3, 4],
        [10, -30],
        [0, 1, 2, 0, 0, 3, 0, 4],
    ]
    assert [answers.tolist() for answers in measured.answers] == [
        [65536, 2 * 65536, 3 * 65536, 4 * 65536],
        [10, -30],
        [0, 1, 2, 0, 0, 3, 0, 4],
    ]
    assert measured.sensitivity == 65536 + 4 + 1


def test_a_measurement_says_what_it_is(measure_people, ledger):
    measured = measure_people()
    assert measured.epsilon == Fraction(1, 3)
    assert measured.sensitivity == 1
    assert 3 < measured.scale < 3.0000001
    assert list(measured.metadata["shares"].items()) == [("bob", "2/3"), ("alice", "1/3")]
    assert ledger.left == Fraction(2, 3)
    assert ledger.charges[0].analysts == ("alice", "bob")


def test_a_completed_release_returns_the_same_bytes_free_and_unread(
    measure_people, ledger, nowhere, people, block_of
):
    first = measure_people()
    # Neither the table nor the strategy is looked at again.
    again = measure_people([block_of(people, "sex")], source=nowhere)
    assert again.encode() == first.encode()
    assert ledger.spent == Fraction(1, 3)


def test_a_full_ledger_refuses_before_anything_is_read(measure_people, nowhere):
    with pytest.raises(BudgetExceededError):
        measure_people(source=nowhere, epsilon=Fraction(10001, 10000))


def test_a_strategy_is_refused_before_anything_is_read(measure_people, nowhere, people, block_of):
    zero = block_of(people, rows=[[0]])
    with pytest.raises(StrategyError):
        measure_people([zero], source=nowhere)


def test_what_cannot_be_stored_is_refused_before_anything_is_read(measure_people, nowhere):
    with pytest.raises(TypeError):
        measure_people(source=nowhere, metadata={"object": object()})


@pytest.mark.parametrize("epsilon", [1, 0.5, "1", Fraction(0), Fraction(-1)])
def test_epsilon_is_a_positive_fraction(measure_people, epsilon):
    with pytest.raises(InterfaceError, match="positive Fraction"):
        measure_people(epsilon=epsilon)


def test_a_missing_source_spends_nothing(measure_people, nowhere, ledger):
    with pytest.raises(SourceError, match=r"missing\.parquet"):
        measure_people(source=nowhere)
    assert ledger.spent == 0


def test_a_commit_that_fails_shows_nothing_and_charges_nothing(measure_people, ledger):
    pages = ledger._connection.execute("PRAGMA page_count").fetchone()[0]
    ledger._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(LedgerError, match="nothing is shown") as caught:
        measure_people(metadata={"padding": "x" * 50_000})
    assert caught.value.__cause__ is None
    assert ledger.charges == ()


def test_a_failed_read_gives_the_fixed_message_and_no_trace_of_its_cause(
    measure_people, people_source, ledger
):
    path = people_source.folder / people_source.location
    healthy = path.read_bytes()
    footer = int.from_bytes(healthy[-8:-4], "little") + 8
    # The catalogue, in the footer, is left whole; the records are not.
    path.write_bytes(b"PAR1" + b"\xff" * (len(healthy) - footer - 4) + healthy[-footer:])
    with pytest.raises(SourceError, match="could not be read; nothing was spent") as caught:
        measure_people()
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "duckdb" not in "".join(traceback.format_exception(caught.value)).lower()
    assert ledger.spent == 0


def test_the_ledger_contains_no_exact_count(measure_people, ledger, people, block_of, tmp_path):
    ones = [block_of(people, rows=[[1]]) for _ in range(40)]
    measured = measure_people(ones)
    stored = json.loads(ledger._connection.execute("SELECT measurement FROM charges").fetchone()[0])
    values = [block["values"][0] for block in stored["blocks"]]
    assert values == [int(value[0]) for value in measured.values]
    assert len(set(values)) > 10  # Noise of scale 120: hardly any two alike, whatever the count.


def test_threads_racing_for_the_last_budget_get_it_once(tmp_path, people, people_source, block_of):
    path = tmp_path / "race.ledger"
    outcomes = []

    def run(number):
        with Ledger.open(path, budget=Fraction(1)) as ledger:
            try:
                measured = measure(
                    [block_of(people, "age")],
                    source=people_source,
                    domain=people,
                    ledger=ledger,
                    release=f"r{number}",
                    epsilon=Fraction(2, 3),
                    analysts=[],
                    mechanism="identity",
                    metadata={},
                )
                outcomes.append(measured.release)
            except BudgetExceededError:
                outcomes.append(None)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 4
    assert sum(outcome is not None for outcome in outcomes) == 1
    with Ledger.read(path) as ledger:
        assert ledger.spent == Fraction(2, 3)


@pytest.mark.statistical
def test_the_noise_of_a_measurement_has_the_scale_that_it_states(measure_people, people, block_of):
    # 30,000 rows of weight 1, so the noise scale is 90,000 and all but continuous.
    block = block_of(people, rows=np.ones((30_000, 1)))
    measured = measure_people([block])
    noise = measured.values[0] - 10
    assert measured.sensitivity == 30_000
    assert stats.kstest(noise, stats.laplace(scale=measured.scale).cdf).pvalue > 1e-12
    assert p_value_of_scale(noise, measured.scale) > 1e-12
    assert p_value_of_scale(noise, measured.scale * 0.9) < 1e-12
    assert p_value_of_scale(noise, measured.scale * 1.1) < 1e-12


@pytest.mark.statistical
def test_a_unit_of_three_records_has_three_times_the_noise(measure_people, people):
    domain = replace(people, unit=Unit(column="sex", max_records=3))
    measured = measure_people(domain=domain)
    assert measured.sensitivity == 3
    assert 9 < measured.scale < 9.0000001


@pytest.mark.statistical
def test_neighbours_with_one_record_replaced_have_twice_the_noise(measure_people, people):
    measured = measure_people(domain=replace(people, neighbours="replace"))
    assert measured.sensitivity == 2
    assert 6 < measured.scale < 6.0000001


def test_a_table_that_is_not_the_declared_one_is_refused_unread(measure_people, people, ledger):
    wrong = Domain(
        table="people",
        columns=(*people.columns, Column(name="height", type="real", minimum=0, maximum=3)),
    )
    with pytest.raises(SourceError, match="no column 'height'"):
        measure_people(domain=wrong)
    assert ledger.spent == 0


def test_a_read_that_runs_out_of_memory_charges_nothing_and_says_nothing(
    tmp_path, rich_ledger, block_of
):
    visits = Domain(
        table="visits",
        columns=(Column(name="age", type="integer", minimum=0, maximum=99, complete=True),),
        unit=Unit(column="person", max_records=3),
    )
    duckdb.execute(
        "COPY (SELECT range AS person, range % 100 AS age FROM range(100_000)) "
        f"TO '{tmp_path / 'visits.parquet'}'"
    )

    def released(memory):
        return measure(
            [block_of(visits, "age")],
            source=Source(location="visits.parquet", folder=tmp_path, memory=memory),
            domain=visits,
            ledger=rich_ledger,
            release="r",
            epsilon=HUGE,
            analysts=["ann"],
            mechanism="identity",
            metadata={},
        )

    with pytest.raises(SourceError) as caught:
        released(4)
    assert str(caught.value) == READ_FAILED
    assert caught.value.__context__ is None
    assert rich_ledger.spent == 0
    assert released(256).values[0].tolist() == [1000] * 100
