"""Tables small enough to write every query out over all their cells.

The code under test never does that; the tests compare it with what doing so gives.
"""

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st
from scipy import sparse

from sqlmadp.schema.marginal import TOTAL, Block, Marginal, Partition
from sqlmadp.workload.workload import Workload

SIZES = {"a": 5, "b": 3, "c": 2}
"""The columns of the table and their numbers of cells."""

CELLS = 30


def finest(*names, sizes=SIZES):
    """The marginal of some columns, with nothing merged."""
    return Marginal(tuple(sorted(names)), tuple(Partition.finest(sizes[n]) for n in sorted(names)))


def block(marginal, matrix, dtype=np.float64):
    return Block(marginal, sparse.csr_array(np.array(matrix, dtype=dtype)))


def histogram(*names, sizes=SIZES):
    """One row a cell of some columns."""
    marginal = finest(*names, sizes=sizes)
    return block(marginal, np.eye(marginal.size))


def total():
    """The number of records."""
    return block(TOTAL, [[1.0]])


def cell_numbers(marginal, sizes=SIZES):
    """The marginal's cell of every cell of the whole table."""
    place = dict(zip(sizes, np.indices(tuple(sizes.values())), strict=True))
    number = np.zeros(tuple(sizes.values()), dtype=np.int64)
    for name, partition in zip(marginal.scope, marginal.partitions, strict=True):
        number = number * partition.size + partition.labels[place[name]]
    return number.reshape(-1)


def written_out(blocks, sizes=SIZES):
    """The rows of some blocks over all cells of the table."""
    return np.vstack([b.matrix.toarray()[:, cell_numbers(b.marginal, sizes)] for b in blocks])


def variances(strategy, queries):
    """``diag(W (A^T A)^+ W^T)`` for dense A and W."""
    return (np.asarray(queries, float) @ np.linalg.pinv(strategy)) ** 2 @ np.ones(len(strategy))


def spans(strategy, queries):
    """Tell for each dense query whether it is in the row space of a dense strategy."""
    outside = queries - queries @ np.linalg.pinv(strategy) @ strategy
    return np.abs(outside).max(axis=1) < 1e-7 * np.maximum(np.abs(queries).max(axis=1), 1e-300)


def partitions(size, *, least=1):
    labels = st.lists(st.integers(0, size - 1), min_size=size, max_size=size)
    every = labels.map(lambda each: Partition.of(np.array(each, dtype=np.int64)))
    return st.one_of(every, st.just(Partition.finest(size))).filter(lambda p: p.size >= least)


@st.composite
def marginals(draw, sizes=SIZES):
    names = [name for name in sorted(sizes) if draw(st.booleans())]
    return Marginal(tuple(names), tuple(draw(partitions(sizes[name])) for name in names))


@st.composite
def rows_over(draw, cells):
    """A few queries over ``cells`` cells, of the kinds that people ask and some they do not."""
    whole = np.eye(cells)
    kind = draw(
        st.sampled_from(
            ["cells", "prefix", "ranges", "predicates", "signed", "real", "one", "none"]
        )
    )
    if kind == "cells":
        return whole
    if kind == "prefix":
        return np.tril(np.ones((cells, cells)))
    if kind == "one":
        return np.ones((1, cells))
    if kind == "none":
        return np.zeros((1, cells))
    if kind == "ranges":
        ends = draw(st.lists(st.tuples(*[st.integers(0, cells - 1)] * 2), min_size=1, max_size=4))
        return np.array([whole[min(e) : max(e) + 1].sum(axis=0) for e in ends])
    entries = {
        "predicates": st.integers(0, 1),
        "signed": st.integers(-2, 3),
        "real": st.sampled_from([0.0, 1.0, 0.1, 1 / 3, -7.25, 1000.0]),
    }[kind]
    row = st.lists(entries, min_size=cells, max_size=cells)
    return np.array(draw(st.lists(row, min_size=1, max_size=4)), dtype=np.float64)


@st.composite
def query_blocks(draw, sizes=SIZES):
    marginal = draw(marginals(sizes))
    return block(marginal, draw(rows_over(marginal.size)))


SHARES = st.integers(1, 5).flatmap(
    lambda count: st.lists(
        st.one_of(st.integers(1, 7), st.sampled_from([1, 997, 1000])),
        min_size=count,
        max_size=count,
    )
)
"""Whole numbers in proportion to the shares of a few analysts, from equal to very unequal."""


@st.composite
def collectives(draw, sizes=SIZES):
    """The workloads and shares of a few analysts, who take their queries from a common pool.

    So workloads come out identical, nested, overlapping or disjoint, over one scope or several,
    and many leave most of the table unasked.
    """
    parts = draw(SHARES)
    pool = draw(st.lists(query_blocks(sizes), min_size=1, max_size=4))
    pool.append(draw(st.sampled_from([total(), histogram("a", sizes=sizes), *pool])))
    picks = st.lists(st.sampled_from(pool), min_size=1, max_size=3)
    workloads = [Workload.of(draw(picks)) for _ in parts]
    return workloads, [Fraction(part, sum(parts)) for part in parts]
