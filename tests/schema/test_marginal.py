"""Partitions, marginals and the maps between their cells, against brute force."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from sqlmadp.schema.marginal import (
    TOTAL,
    Marginal,
    Partition,
    cell_map,
    expand,
    row_major_strides,
)

SIZES = {"a": 4, "b": 3, "c": 2}
"""The columns of a small domain, in its order, and their numbers of cells."""


def partitions(size):
    labels = st.lists(st.integers(-3, 3), min_size=size, max_size=size)
    return labels.map(lambda labels: Partition.of(np.array(labels, dtype=np.int64)))


def pairs_told_apart(partition):
    labels = partition.labels
    return {(i, j) for i, j in product(range(len(labels)), repeat=2) if labels[i] != labels[j]}


@st.composite
def two_marginals(draw):
    """A marginal and one that is as fine or finer, over the same columns or more."""
    wide = [name for name in SIZES if draw(st.booleans())]
    narrow = [name for name in wide if draw(st.booleans())]
    coarse = {name: draw(partitions(SIZES[name])) for name in narrow}
    fine = {
        name: coarse[name].refine(draw(partitions(SIZES[name])))
        if name in coarse
        else draw(partitions(SIZES[name]))
        for name in wide
    }
    return (
        Marginal(tuple(narrow), tuple(coarse.values())),
        Marginal(tuple(wide), tuple(fine.values())),
    )


def cell_numbers(marginal):
    """The marginal's cell of every cell of the whole small domain, in its row-major order."""
    groups = dict(zip(marginal.scope, marginal.partitions, strict=True))
    numbers = []
    for cells in product(*(range(size) for size in SIZES.values())):
        number = 0
        for name, cell in zip(SIZES, cells, strict=True):
            if name in groups:
                number = number * groups[name].size + int(groups[name].labels[cell])
        numbers.append(number)
    return np.array(numbers)


@given(st.lists(st.integers(-5, 5), max_size=12))
def test_a_partition_keeps_equal_labels_together_and_numbers_groups_by_first_cell(labels):
    partition = Partition.of(np.array(labels, dtype=np.int64))
    seen = list(dict.fromkeys(labels))
    assert partition.labels.tolist() == [seen.index(label) for label in labels]
    assert partition.size == len(seen)


@given(partitions(5), st.permutations(range(7)))
def test_partitions_are_equal_whatever_their_groups_were_called(partition, names):
    renamed = Partition.of(np.array(names, dtype=np.int64)[partition.labels])
    assert renamed == partition
    assert hash(renamed) == hash(partition)


@given(partitions(4), partitions(4))
def test_partitions_are_equal_just_when_they_tell_the_same_cells_apart(one, other):
    assert (one == other) == (pairs_told_apart(one) == pairs_told_apart(other))


@given(partitions(6), partitions(6))
def test_a_refinement_tells_apart_what_either_does_and_nothing_else(one, other):
    refined = one.refine(other)
    assert pairs_told_apart(refined) == pairs_told_apart(one) | pairs_told_apart(other)
    assert refined == other.refine(one)


@given(partitions(6), partitions(6))
def test_coarsening_leads_every_cell_back_to_its_group(one, other):
    finer = one.refine(other)
    np.testing.assert_array_equal(one.coarsen(finer)[finer.labels], one.labels)


@given(partitions(5))
def test_the_finest_partition_refines_every_other(partition):
    finest = Partition.finest(5)
    assert finest.size == 5
    assert partition.refine(finest) == finest
    np.testing.assert_array_equal(partition.coarsen(finest), partition.labels)


@given(two_marginals())
def test_every_cell_of_the_finer_marginal_is_led_to_the_one_it_lies_in(marginals):
    old, new = marginals
    np.testing.assert_array_equal(cell_map(old, new)[cell_numbers(new)], cell_numbers(old))


@given(two_marginals(), st.data())
def test_expanded_rows_are_the_same_functions_of_the_whole_table(marginals, data):
    old, new = marginals
    numbers = st.lists(st.integers(-9, 9), min_size=old.size, max_size=old.size)
    rows = np.array(data.draw(st.lists(numbers, min_size=1, max_size=3)), dtype=np.int64)
    expanded = expand(sparse.csr_array(rows), old, new)
    assert expanded.dtype == np.int64
    np.testing.assert_array_equal(
        expanded.toarray()[:, cell_numbers(new)], rows[:, cell_numbers(old)]
    )


def test_a_scope_has_one_spelling():
    pair = (Partition.finest(2), Partition.finest(3))
    assert Marginal(("age", "sex"), pair).shape == (2, 3)
    for scope in (("sex", "age"), ("age", "age")):
        with pytest.raises(ValueError, match="alphabetically"):
            Marginal(scope, pair)


def test_the_marginal_of_no_column_is_one_cell():
    assert TOTAL.size == 1
    assert TOTAL.shape == ()
    by_age = Marginal(("age",), (Partition.finest(3),))
    np.testing.assert_array_equal(cell_map(TOTAL, by_age), [0, 0, 0])
    np.testing.assert_array_equal(cell_map(TOTAL, TOTAL), [0])


@given(st.lists(st.integers(1, 4), max_size=4))
def test_strides_number_cells_in_row_major_order(shape):
    strides = row_major_strides(shape)
    cells = product(*(range(size) for size in shape))
    numbers = [sum(c * s for c, s in zip(cell, strides, strict=True)) for cell in cells]
    assert numbers == list(range(len(numbers)))
