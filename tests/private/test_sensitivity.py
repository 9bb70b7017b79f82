"""No record moves the answers further than the sensitivity says, and some move them that far."""

from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linprog
from vertex_cases import random_layouts, random_partition, weights

from sqlmadp.errors import StrategyError
from sqlmadp.mechanism import MECHANISMS, mechanism
from sqlmadp.mechanism.collective import Collective
from sqlmadp.private.blocks import checked_blocks, coarseness, exact_answers, grain
from sqlmadp.private.measure import calibrate
from sqlmadp.private.sensitivity import joint_vertices, l1_sensitivity
from sqlmadp.table.domain import Column, Domain, Unit
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows

SIZES = {"a": 3, "b": 2, "c": 4}


def domain_of(**protected):
    columns = (
        Column(name=name, type="integer", minimum=0, maximum=size - 1, complete=True)
        for name, size in SIZES.items()
    )
    return Domain(table="t", columns=tuple(columns), **protected)


DOMAIN = domain_of()
CELLS = [dict(zip(SIZES, cells, strict=True)) for cells in np.ndindex(*SIZES.values())]


def random_strategy(random):
    """Return blocks of ramps and parabolas, plain or with rows of any sign."""
    blocks = []
    for layout in random_layouts(random, DOMAIN, count=random.randint(1, 3)):
        if random.random() < 0.3:
            blocks.append(layout.times(random.choice([1, 6, 2**20])))
            continue
        factor = random.choice([1, 12])
        rows = [[random.randint(-9, 9) * factor for _ in range(layout.size)] for _ in range(3)]
        if any(map(any, rows)):
            matrix = sparse.csr_array(np.array(rows, dtype=np.int64))
            blocks.append(Rows(layout.scope, layout.parts, 0, matrix))
    return blocks


def checked(blocks):
    try:
        return checked_blocks(blocks, DOMAIN)
    except StrategyError:  # Steps that are too long together.
        return ()


def effect(blocks, cells):
    """Return how far one record moves the answers to the rows, exactly and in L1 norm."""
    total = Fraction(0)
    for block in blocks:
        own = weights(block, cells)
        moved = np.abs(block.matrix.toarray().astype(object) @ own).sum()
        total += Fraction(int(moved), int(own.sum()))
    return total


@pytest.mark.parametrize("number", range(150))
def test_no_record_moves_the_answers_further_than_the_sensitivity(number):
    blocks = checked(random_strategy(Random(number)))
    assert all(effect(blocks, cells) <= l1_sensitivity(blocks, DOMAIN) for cells in CELLS)


@pytest.mark.parametrize("number", range(150))
def test_the_privacy_loss_of_neighbouring_tables_is_at_most_epsilon(number):
    random = Random(number)
    blocks = checked(random_strategy(random))
    if not blocks:
        return
    epsilon = Fraction(random.randint(1, 9), 7)
    strategy = calibrate(blocks, domain=DOMAIN, epsilon=epsilon)
    table = random.choices(CELLS, k=random.choice([0, 1, 5]))
    largest = Fraction(0)
    for more in CELLS:
        loss = Fraction(0)
        for block, scale in zip(blocks, strategy.scales, strict=True):
            before, after = (_sums(block, records) for records in (table, [*table, more]))
            change = exact_answers(block, after).astype(object) - exact_answers(block, before)
            loss += Fraction(int(np.abs(change).sum())) / Fraction(scale)
        largest = max(largest, loss)
    assert largest <= epsilon


def _sums(block, records):
    total = np.zeros(block.size, dtype=object)
    for cells in records:
        total += weights(block, cells)
    return (total // coarseness(block)).astype(np.int64)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=5), st.randoms())
@settings(deadline=None)
def test_sensitivity_is_exact_where_columns_are_uniform(amounts, random):
    layouts = random_layouts(random, DOMAIN, count=len(amounts))
    blocks = [layout.times(weight) for layout, weight in zip(layouts, amounts, strict=True)]
    assert l1_sensitivity(blocks, DOMAIN) == sum(amounts)
    assert all(effect(blocks, cells) == sum(amounts) for cells in CELLS)


def test_a_block_in_long_steps_has_as_much_more_noise_as_it_has_units():
    ramp = Partition(np.zeros(4, np.int64), np.array([0, 1, 2, 1000]), np.array([1]), 1000)
    blocks = [Rows(("c",), (ramp,), 6), Rows(("a",), (Partition.finest(3),), 2)]
    strategy = calibrate(blocks, domain=DOMAIN, epsilon=Fraction(1, 4))
    assert strategy.sensitivity == 8
    assert strategy.scales == pytest.approx([8 * 4 * 1000 / 6, 8 * 4 / 2], rel=1e-12)
    assert [grain(block) for block in strategy.blocks] == [Fraction(6, 1000), 2]


def test_very_long_steps_are_rounded_down_and_paid_for():
    parabola = Partition(np.zeros(4, np.int64), np.array([0, 1, 2, 2**20]), np.array([2]), 2**20)
    (block,) = checked_blocks([Rows(("c",), (parabola,), 5)], DOMAIN)
    assert (coarseness(block), grain(block)) == (2**8, Fraction(5, 2**32))
    strategy = calibrate([block], domain=DOMAIN, epsilon=Fraction(1))
    assert strategy.scales[0] == pytest.approx(2**32 + 3, rel=1e-15)
    table = [{"c": 1}] * 3
    for more in range(4):
        change = np.abs(_sums(block, [*table, {"c": more}]) - _sums(block, table)).sum()
        assert change <= strategy.scales[0]


def unit_of(records):
    return Unit(column="person", max_records=records)


def test_sensitivity_grows_with_the_records_of_a_unit():
    blocks = [Rows(("a",), (Partition.finest(3),), 7)]
    assert l1_sensitivity(blocks, domain_of(unit=unit_of(3))) == 21
    assert l1_sensitivity(blocks, domain_of(neighbours="replace")) == 14
    assert l1_sensitivity(blocks, domain_of(unit=unit_of(3), neighbours="replace")) == 42


def test_a_unit_without_records_is_refused():
    with pytest.raises(StrategyError, match="at least one"):
        l1_sensitivity([Rows((), (), 1)], domain_of(unit=unit_of(0)))


def test_uneven_blocks_whose_ramps_even_out_are_no_more_sensitive():
    """Two analysts sum one column over different values: the vertex of NULL is poured once."""
    shorter = Partition(np.array([0, 0, 1, 2]), np.array([0, 7, 0, 0]), np.array([1, 0, 0]), 7)
    longer = Partition(np.array([0, 0, 0, 1]), np.array([0, 3, 10, 0]), np.array([2, 0]), 10)
    more, less = np.diag([5, 5, 5, 9]), np.diag([4, 4, 4, 0])
    blocks = [
        Rows(("c",), (shorter,), 0, sparse.csr_array(more)),
        Rows(("c",), (longer,), 0, sparse.csr_array(less)),
    ]
    assert l1_sensitivity(checked_blocks(blocks, DOMAIN), DOMAIN) == 9
    assert all(effect(blocks, cells) == 9 for cells in CELLS)


def test_ramps_of_equal_steps_share_their_vertices_though_their_units_differ():
    one = Partition(np.zeros(4, np.int64), np.array([0, 1, 2, 3]), np.array([1]), 3)
    two = Partition(np.zeros(4, np.int64), np.array([0, 2, 4, 6]), np.array([1]), 6)
    blocks = [
        Rows(("c",), (one,), 0, sparse.csr_array(np.diag([5, 3]))),
        Rows(("c",), (two,), 0, sparse.csr_array(np.diag([1, 3]))),
    ]
    assert l1_sensitivity(checked_blocks(blocks, DOMAIN), DOMAIN) == 6
    other = Partition(np.zeros(4, np.int64), np.array([0, 3, 4, 6]), np.array([1]), 6)
    blocks[1] = Rows(("c",), (other,), 0, sparse.csr_array(np.diag([1, 3])))
    assert l1_sensitivity(checked_blocks(blocks, DOMAIN), DOMAIN) == 8  # Not 6 1/6: a bound.


@pytest.mark.parametrize("number", range(100))
def test_weights_on_joint_vertices_add_up_to_those_of_every_partition(number):
    """What the bound rests on: one set of weights, not negative, behind all partitions."""
    random = Random(number)
    parts = [random_partition(random, 6, most_pieces=2) for _ in range(random.randint(1, 3))]
    if random.random() < 0.5:
        first = parts[0]
        parts.append(Partition(first.pieces, first.steps * 2, first.degrees, first.unit * 2))
    found = joint_vertices(list(dict.fromkeys(parts)))
    for cell in range(6):
        # Joint vertices of the cell's piece, and a linear program for weights on them.
        rows = [np.equal.outer(np.arange(part.size), found[part]) for part in found]
        wanted = [part.functions[:, [cell]].toarray().reshape(-1) for part in found]
        solved = linprog(
            np.zeros(len(next(iter(found.values())))),
            A_eq=np.vstack(rows).astype(float),
            b_eq=np.concatenate(wanted),
        )
        assert solved.status == 0


def two_sums_of_one_column():
    """Return analysts who sum one column with NULL, all of it or what is above some value."""
    cells, known = np.arange(12), np.arange(12) < 11
    values = np.where(known, cells, 0).astype(float)
    by_group = np.kron(np.eye(2), np.vstack([known, values]))
    above = np.vstack([known & (cells > 4), values * (cells > 4), values**2])
    parts = {"v": Partition.finest(12), "g": Partition.finest(2)}
    return [
        [Rows.reduced(("g", "v"), (parts["g"], parts["v"]), sparse.csr_array(by_group))],
        [Rows.reduced(("v",), (parts["v"],), sparse.csr_array(above.astype(float)))],
        [Rows.reduced(("v",), (parts["v"],), sparse.csr_array(np.vstack([known, values])))],
    ]


@pytest.mark.parametrize("name", MECHANISMS)
def test_what_a_mechanism_selects_is_as_sensitive_as_it_reckons_with(name):
    columns = {"g": 2, "v": 12}
    domain = Domain(
        table="t",
        columns=tuple(
            Column(name=each, type="integer", minimum=1, maximum=size, complete=True)
            for each, size in columns.items()
        ),
    )
    shares = [Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)]
    joint = mechanism(name).select(Collective(two_sums_of_one_column(), shares, columns=columns))
    blocks = checked_blocks(joint.blocks, domain)
    assert l1_sensitivity(blocks, domain) == joint.total
