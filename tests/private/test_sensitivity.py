"""Sensitivity agrees with trying every cell of the table."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from sqlmadp.errors import StrategyError
from sqlmadp.private import sensitivity
from sqlmadp.private.sensitivity import l1_sensitivity
from sqlmadp.schema.domain import Column, Domain, Unit
from sqlmadp.schema.marginal import Block, Marginal, Partition

SIZES = {"a": 3, "b": 2, "c": 4}


def domain_of(**protected):
    columns = (
        Column(name=name, type="integer", minimum=0, maximum=size - 1)
        for name, size in SIZES.items()
    )
    return Domain(table="t", columns=tuple(columns), **protected)


DOMAIN = domain_of()


ANY_SCOPE = st.sets(st.sampled_from("abc"))


@st.composite
def blocks(draw, scopes=ANY_SCOPE):
    scope = tuple(sorted(draw(scopes)))
    partitions = tuple(
        Partition.of(np.array(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))))
        for n in (SIZES[name] for name in scope)
    )
    marginal = Marginal(scope, partitions)
    entries = st.lists(st.integers(-5, 5), min_size=marginal.size, max_size=marginal.size)
    rows = np.array(draw(st.lists(entries, min_size=1, max_size=3)), dtype=np.int64)
    return Block(marginal, sparse.csr_array(rows))


def brute_force(blocks):
    """Return the largest change of all answers when one record is added, over all cells."""
    largest = 0
    for cell in itertools.product(*(range(size) for size in SIZES.values())):
        at = dict(zip(SIZES, cell, strict=True))
        change = 0
        for block in blocks:
            place = 0
            for name, partition in zip(
                block.marginal.scope, block.marginal.partitions, strict=True
            ):
                place = place * partition.size + partition.labels[at[name]]
            change += int(np.abs(block.matrix.toarray()[:, place]).sum())
        largest = max(largest, change)
    return largest


def made_uniform(block):
    """Return the block with one more row that gives every column the same sum."""
    dense = block.matrix.toarray()
    sums = np.abs(dense).sum(axis=0)
    return Block(block.marginal, sparse.csr_array(np.vstack([dense, sums.max() + 1 - sums])))


@given(st.lists(blocks(), min_size=1, max_size=4))
@settings(deadline=None)
def test_sensitivity_is_never_below_the_largest_effect_of_a_record(blocks):
    assert l1_sensitivity(blocks, DOMAIN) >= brute_force(blocks)


@given(st.lists(blocks(), min_size=1, max_size=4))
@settings(deadline=None)
def test_sensitivity_is_exact_when_every_column_has_the_same_sum(blocks):
    uniform = [made_uniform(block) for block in blocks]
    assert l1_sensitivity(uniform, DOMAIN) == brute_force(uniform)


@given(st.lists(blocks(st.just({"a", "c"})) | blocks(st.just({"c"})), min_size=1, max_size=4))
@settings(deadline=None)
def test_sensitivity_is_exact_inside_one_scope_whatever_the_partitions(blocks):
    assert l1_sensitivity(blocks, DOMAIN) == brute_force(blocks)


@given(blocks(st.just({"a"})), blocks(st.just({"b", "c"})))
@settings(deadline=None)
def test_sensitivity_is_exact_for_scopes_that_do_not_overlap(first, second):
    assert l1_sensitivity([first, second], DOMAIN) == brute_force([first, second])


def test_slack_of_one_block_is_filled_by_another_over_the_same_column(block_of):
    low = block_of(DOMAIN, "c", rows=[[2, 2, 0, 0]])
    high = block_of(DOMAIN, "c", rows=[[0, 0, 2, 2]])
    assert l1_sensitivity([low, high], DOMAIN) == 2


def test_slack_is_followed_through_a_larger_scope(block_of):
    # [3, 0, 0] over a alone, 3 minus that over a and b: 3 everywhere.
    small = block_of(DOMAIN, "a", rows=[[3, 0, 0]])
    large = block_of(DOMAIN, "a", "b", rows=[[0, 0, -3, 3, 3, 3]])
    assert l1_sensitivity([small, large], DOMAIN) == 3


def unit_of(records):
    return Unit(column="person", max_records=records)


def test_sensitivity_grows_with_the_records_of_a_unit(block_of):
    assert l1_sensitivity([block_of(DOMAIN, "a", weight=7)], domain_of(unit=unit_of(3))) == 21


def test_sensitivity_doubles_where_neighbours_have_one_unit_replaced(block_of):
    blocks = [block_of(DOMAIN, "a", weight=7)]
    assert l1_sensitivity(blocks, domain_of(neighbours="replace")) == 14
    assert l1_sensitivity(blocks, domain_of(unit=unit_of(3), neighbours="replace")) == 42


def test_a_unit_without_records_is_refused(block_of):
    with pytest.raises(StrategyError, match="at least one"):
        l1_sensitivity([block_of(DOMAIN, "a")], domain_of(unit=unit_of(0)))


def test_too_many_cells_to_refine_are_refused(block_of, monkeypatch):
    monkeypatch.setattr(sensitivity, "MAX_CELLS", 5)
    with pytest.raises(StrategyError, match="would need 6 cells"):
        l1_sensitivity([block_of(DOMAIN, "a", "b", rows=[[1, 0, 0, 0, 0, 0]])], DOMAIN)


def test_numbers_that_could_overflow_are_refused(block_of):
    entry = 2**31 - 1
    many = [block_of(DOMAIN, "a", "b", "c", rows=[[entry] + [0] * 23]) for _ in range(2**10)]
    doubled = [Block(block.marginal, block.matrix * 2**18) for block in many]
    with pytest.raises(StrategyError, match="too large"):
        l1_sensitivity(doubled, DOMAIN)
