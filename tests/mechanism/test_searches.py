"""What is searched for side by side is all that mechanisms then select."""

from fractions import Fraction

import pytest
from small_tables import SIZES, histogram, total

from sqlmadp.mechanism.bounds import bounds
from sqlmadp.mechanism.catalogue import MECHANISMS
from sqlmadp.mechanism.fairness import outcome
from sqlmadp.mechanism.searches import searches, weighted_searches
from sqlmadp.strategy import select as selection
from sqlmadp.strategy.parallel import select_all
from sqlmadp.workload.workload import Workload

ASKING = [
    Workload.of([histogram("a")]),
    Workload.of([histogram("a", "c")]),
    Workload.of([total()]),
    Workload.of([histogram("a")]),
]
SHARES = [Fraction(1, 4)] * 4


@pytest.mark.parametrize(
    "name", ["independent", "identity", "utilitarian", "weighted_utilitarian", "waterfilling"]
)
def test_after_the_searches_a_mechanism_finds_every_strategy(name, monkeypatch):
    monkeypatch.setattr(selection, "_known", {})
    select_all(searches([name], ASKING), None)
    select_all(weighted_searches([name], ASKING, SHARES, None), None)

    def refuse(*_):
        raise AssertionError("a search by itself")

    monkeypatch.setattr(selection, "_search", refuse)
    outcome(MECHANISMS[name](list(SIZES.items()), None), ASKING, SHARES, Fraction(1))
    bounds(ASKING, Fraction(1))


def test_analysts_who_ask_the_same_are_left_out_once():
    assert len(searches(["utilitarian"], ASKING)) == len(ASKING) + 1 + 3
    assert len(weighted_searches(["weighted_utilitarian"], ASKING, SHARES, None)) == 1 + 3


def test_nobodys_own_strategy_is_selected_where_none_is_needed():
    assert len(searches(["identity"], ASKING)) == 1
    assert len(searches(["identity", "waterfilling"], ASKING)) == 5
