"""Kronecker blocks at the boundary: what is true of the matrix they stand for is true of them."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from sqlmadp.errors import StrategyError
from sqlmadp.private.blocks import MAX_ANSWER, checked_blocks, exact_answers
from sqlmadp.private.measurement import Measurement
from sqlmadp.private.sensitivity import column_sums, l1_sensitivity
from sqlmadp.table.domain import Column, Domain
from sqlmadp.table.partition import Partition
from sqlmadp.table.products import Products
from sqlmadp.table.rows import Rows

SIZES = {"a": 3, "b": 2}
DOMAIN = Domain(
    table="t",
    columns=tuple(
        Column(name=name, type="integer", minimum=0, maximum=size - 1, complete=True)
        for name, size in SIZES.items()
    ),
)
PARTS = tuple(Partition.finest(size) for size in SIZES.values())


def products(factors, heights=None, dtype=np.int64):
    matrices = [sparse.csr_array(np.array(factor, dtype=dtype)) for factor in factors]
    if heights is None:
        heights = np.ones(tuple(matrix.shape[0] for matrix in matrices), dtype=np.int64)
    return Products(tuple(SIZES), PARTS, 0, None, tuple(matrices), np.array(heights))


@st.composite
def kronecker_blocks(draw):
    factors = []
    for size in SIZES.values():
        row = st.lists(st.integers(-4, 9), min_size=size, max_size=size).filter(any)
        factors.append(draw(st.lists(row, min_size=1, max_size=3)))
    count = [len(factor) for factor in factors]
    heights = np.array(
        draw(st.lists(st.integers(0, 5), min_size=count[0] * count[1], max_size=9).filter(any))
    )[: count[0] * count[1]]
    if not heights.any():
        heights[0] = 1
    return products(factors, heights.reshape(count))


@settings(deadline=None)
@given(kronecker_blocks(), st.lists(st.integers(0, 2**63 - 1), min_size=6, max_size=6))
def test_answers_and_sensitivity_are_those_of_the_matrix(block, counts):
    (checked,) = checked_blocks([block], DOMAIN)
    assert isinstance(checked, Products)
    dense = block.matrix.toarray()
    assert len(dense) == checked.count
    exact = dense.astype(object) @ np.array(counts, dtype=object)
    held = [max(-MAX_ANSWER, min(MAX_ANSWER, int(answer))) for answer in exact]
    assert exact_answers(checked, np.array(counts, dtype=np.int64)).tolist() == held
    assert column_sums(checked).tolist() == np.abs(dense).sum(axis=0).tolist()
    written = Rows(tuple(SIZES), PARTS, 0, sparse.csr_array(block.matrix))
    (plain,) = checked_blocks([written], DOMAIN)
    assert l1_sensitivity([checked], DOMAIN) == l1_sensitivity([plain], DOMAIN)


UNIT = [np.eye(3, dtype=np.int64), np.eye(2, dtype=np.int64)]


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (products(UNIT[:1]), "one factor per column"),
        (products(UNIT, dtype=np.float64), "64-bit integers"),
        (products(UNIT[::-1]), "columns"),
        (products(UNIT, np.ones((3, 2))), "one height per row"),
        (products(UNIT, np.ones((2, 3), dtype=np.int64)), "one height per row"),
        (products(UNIT, [[1, 1], [1, -1], [1, 1]]), "below 0"),
        (products(UNIT, np.zeros((3, 2), dtype=np.int64)), "nothing but zeros"),
        (products([0 * UNIT[0], UNIT[1]]), "nothing but zeros"),
        (products([2**20 * UNIT[0], 2**11 * UNIT[1]]), "2\\^31 or more"),
        (products([2**20 * UNIT[0], UNIT[1]], np.full((3, 2), 2**11)), "2\\^31 or more"),
    ],
)
def test_a_kronecker_block_that_must_not_be_measured_is_refused(block, message):
    with pytest.raises(StrategyError, match=message):
        checked_blocks([block], DOMAIN)


def wide_products(sizes, factors, heights):
    """Return a block over columns of these sizes, and their domain."""
    columns = [
        Column(name=name, type="integer", minimum=0, maximum=size - 1, complete=True)
        for name, size in zip("ab", sizes, strict=True)
    ]
    matrices = tuple(sparse.csr_array(np.array(factor, dtype=np.int64)) for factor in factors)
    parts = tuple(Partition.finest(size) for size in sizes)
    block = Products(("a", "b"), parts, 0, None, matrices, np.array(heights))
    return [block], Domain(table="t", columns=tuple(columns))


def test_a_block_with_more_rows_than_can_be_counted_is_refused():
    sizes = 3, 2**13
    for rows, refused in ((2**13, False), (2**13 + 1, True)):
        factors = np.ones((rows, 3)), np.ones((1, 2**13))
        block = wide_products(sizes, factors, np.ones((rows, 1), dtype=np.int64))
        if refused:
            with pytest.raises(StrategyError, match="too many rows"):
                checked_blocks(*block)
        else:
            checked_blocks(*block)


ONES = np.ones((1, 2**8))


def test_a_block_with_a_row_that_adds_up_to_too_much_is_refused():
    sizes = 2**8, 2**8
    checked_blocks(*wide_products(sizes, (ONES, ONES), [[2**30 - 1]]))
    with pytest.raises(StrategyError, match="adds up to"):
        checked_blocks(*wide_products(sizes, (ONES, ONES), [[2**30]]))
    # A large height on a row of small entries is no large row.
    one = np.eye(1, 2**8)
    checked_blocks(*wide_products(sizes, (np.vstack([one, ONES]), one), [[2**30], [1]]))


@pytest.mark.parametrize(("large", "refused"), [(2**15 - 1, False), (2**15, True)])
def test_sums_of_factor_rows_are_bounded_where_nothing_is_measured_too(large, refused):
    factor = np.vstack([ONES, large * ONES])
    block = wide_products((2**8, 2**8), (factor, factor), [[1, 0], [0, 0]])
    if not refused:
        checked_blocks(*block)
        return
    with pytest.raises(StrategyError, match="adds up to"):
        checked_blocks(*block)


@settings(deadline=None)
@given(kronecker_blocks())
def test_entries_are_bounded_as_if_they_were_written_out(block):
    largest = int(abs(block.matrix.toarray()).max())
    factors = [factor.toarray() for factor in block.factors]
    most = (2**31 - 1) // largest
    checked_blocks([products(factors, block.heights * most)], DOMAIN)
    with pytest.raises(StrategyError, match="2\\^31 or more"):
        checked_blocks([products(factors, block.heights * (most + 1))], DOMAIN)


def test_a_checked_block_no_longer_follows_the_one_it_was_made_of():
    block = products(UNIT)
    (checked,) = checked_blocks([block], DOMAIN)
    block.heights[0, 0] = 9
    block.factors[0].data[0] = 9
    assert checked.matrix.toarray().tolist() == np.eye(6).tolist()


def test_a_measurement_stores_the_factors_and_reads_back_as_it_was():
    block = products([[[1, 2, 0], [0, 0, 3]], UNIT[1]], [[1, 0], [4, 5]])
    values = (np.array([7, -8, 9]),)
    stored = Measurement(
        release="r",
        blocks=(block,),
        values=values,
        grains=(Fraction(1),),
        scales=(3.0,),
        epsilon=1,
        sensitivity=3,
        metadata={},
    ).encode()
    assert b"row_starts" in stored
    again = Measurement.decode(stored)
    assert again.encode() == stored
    (read,) = again.blocks
    assert isinstance(read, Products)
    assert read.matrix.toarray().tolist() == block.matrix.toarray().tolist()
