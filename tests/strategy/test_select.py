"""What one analyst would measure: integers, uniform columns, certified error, no regrets."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize_scalar
from small_tables import (
    block,
    finest,
    histogram,
    query_blocks,
    total,
    variances,
    written_out,
)

from sqlmadp.errors import NotSupportedError
from sqlmadp.schema.marginal import Block
from sqlmadp.strategy import layout
from sqlmadp.strategy import select as selection
from sqlmadp.strategy.integer import IntegerBlock, S
from sqlmadp.strategy.select import select
from sqlmadp.workload.workload import Workload

several_scopes = st.lists(query_blocks(), min_size=1, max_size=3).map(Workload.of)


@pytest.fixture(autouse=True)
def forgetful():
    """Let every test select anew."""
    selection._known.clear()


def one_column(rows):
    rows = np.asarray(rows, dtype=float)
    return Workload.of([block(finest("cell", sizes={"cell": rows.shape[1]}), rows)])


def error(strategy, queries):
    """``||A||_1^2 ||W A^+||_F^2``, the expected error up to 2 / epsilon^2."""
    return np.abs(strategy).sum(axis=0).max() ** 2 * variances(strategy, queries).sum()


@settings(deadline=None, max_examples=40)
@given(several_scopes)
def test_every_cell_of_the_table_sums_to_exactly_s_and_every_entry_is_an_integer(workload):
    strategy = select(workload)
    assert all(part.matrix.dtype == np.int64 for part in strategy.blocks)
    assert all(part.marginal.size == part.matrix.shape[1] for part in strategy.blocks)
    sums = np.abs(written_out(strategy.blocks)).sum(axis=0)
    assert set(sums.tolist()) == {S}


@settings(deadline=None, max_examples=40)
@given(several_scopes)
def test_the_certified_error_is_that_of_the_integer_blocks(workload):
    strategy = select(workload)
    expected = error(written_out(strategy.blocks).astype(float), written_out(workload.blocks))
    assert strategy.error == pytest.approx(expected, rel=1e-7)


@settings(deadline=None, max_examples=30)
@given(several_scopes)
def test_every_row_stands_on_the_fewest_columns(workload):
    for part in select(workload).blocks:
        table = part.matrix.toarray().reshape(-1, *part.marginal.shape)
        for axis in range(1, table.ndim):
            varies = (table != table.take([0], axis=axis)).any(axis=tuple(range(1, table.ndim)))
            assert varies.all()


def prefix(n):
    return np.tri(n)


def ranges(n):
    return np.array([np.eye(n)[i : j + 1].sum(axis=0) for i in range(n) for j in range(i, n)])


def hierarchy(n):
    widths = [2**k for k in range(int(np.log2(n)) + 1)]
    return np.vstack([np.kron(np.eye(n // width), np.ones((1, width))) for width in widths])


def total_and_identity(gram):
    """The least error of ``[a I; b 1]`` with a + b = 1, in closed form."""
    n, trace, pooled = len(gram), np.trace(gram), gram.sum()

    def error_at(b):
        a = 1 - b
        return (trace - b**2 * pooled / (a**2 + n * b**2)) / a**2

    starts = np.linspace(0, 0.999, 1000)
    near = starts[np.argmin([error_at(b) for b in starts])]
    bounds = (max(0, near - 1e-3), min(0.9999, near + 1e-3))
    return min(error_at(0), minimize_scalar(error_at, bounds=bounds, method="bounded").fun)


def itself(rows):
    """The error of the distinct queries, scaled to sums of at most 1, slack on single cells."""
    distinct = np.unique(rows[rows.any(axis=1)], axis=0)
    scaled = distinct / np.abs(distinct).sum(axis=0).max()
    slack = np.diag(1 - np.abs(scaled).sum(axis=0))
    return error(np.vstack([scaled, slack[slack.any(axis=1)]]), rows)


def assert_no_worse_than_the_plain_templates(rows, *, workload_itself=True):
    found = select(one_column(rows)).error
    gram = rows.T @ rows
    # Rounding to integers costs about one part in S.
    assert found <= np.trace(gram) * (1 + 1e-9)
    assert found <= total_and_identity(gram) * (1 + 1e-6)
    if workload_itself:
        assert found <= itself(rows) * (1 + 1e-3)


@pytest.mark.parametrize(
    "rows",
    [
        prefix(12),
        ranges(8),
        hierarchy(16),
        np.eye(9),
        np.ones((1, 7)),
        np.vstack([np.eye(6), np.ones((1, 6))]),
        np.vstack([np.eye(6)] + [np.ones((1, 6))] * 40),
        np.array([[1.0, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1]]),
        np.kron(np.eye(3), np.array([[1.0, 1, 0], [0, 1, 1], [1, 0, 1]])),
        # Only the total and the identity have weights as far apart as this needs.
        np.vstack([np.eye(6), 3000 * np.ones((1, 6))]),
        # Only the workload itself has rows with signs.
        np.array([[1.0, -1, 0, 0], [0, 0, 1, -1]]),
    ],
)
def test_no_worse_than_identity_or_total_and_identity_or_the_workload(rows):
    assert_no_worse_than_the_plain_templates(rows)


@settings(deadline=None, max_examples=40)
@given(
    st.integers(2, 7).flatmap(
        lambda n: st.lists(
            st.lists(st.integers(0, 1), min_size=n, max_size=n), min_size=1, max_size=6
        )
    )
)
def test_random_predicates_are_no_worse_than_the_plain_templates(rows):
    rows = np.array(rows, dtype=float)
    if rows.any():
        # The workload itself is a template while it has at most two queries a group.
        groups = len(np.unique(rows.T, axis=0))
        assert_no_worse_than_the_plain_templates(rows, workload_itself=len(rows) <= 2 * groups)


def test_several_scopes_are_no_worse_than_all_cells_or_than_blocks_split_evenly():
    asked = [histogram("a", "b"), histogram("b", "c"), histogram("a", "c"), total()]
    queries = written_out(asked)
    found = select(Workload.of(asked)).error
    assert found <= np.trace(queries.T @ queries)
    split = written_out([histogram("a", "b"), histogram("b", "c"), histogram("a", "c")]) / 3
    assert found <= error(split, queries)


def test_a_total_is_measured_alone_and_a_histogram_cell_by_cell():
    only = select(Workload.of([total()])).blocks
    assert [part.matrix.toarray().tolist() for part in only] == [[[S]]]
    [cells] = select(Workload.of([histogram("a")])).blocks
    np.testing.assert_array_equal(cells.matrix.toarray(), S * np.eye(5))


def test_cells_that_nobody_asked_about_get_rows_of_their_own_while_that_is_cheap():
    strategy = written_out(select(one_column([[1, 1, 0, 0, 0]])).blocks, {"cell": 5})
    expected = S * np.array([[1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]])
    np.testing.assert_array_equal(strategy, expected)
    wide = np.zeros((1, 1000))
    wide[0, :2] = 1
    rows = written_out(select(one_column(wide)).blocks, {"cell": 1000})
    np.testing.assert_array_equal(rows, S * np.vstack([wide, 1 - wide]))


def test_a_workload_that_asks_nothing_still_has_a_strategy():
    for asked in ([[0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]):
        strategy = select(one_column(asked))
        assert strategy.error == 0
        assert [part.matrix.toarray().tolist() for part in strategy.blocks] == [[[S]]]


def test_a_large_scope_needs_no_dense_matrices():
    sizes = {"age": 100, "race": 7, "sex": 2, "state": 51}
    cells = histogram("age", "race", "sex", sizes=sizes)
    everything = finest("age", "race", "sex", "state", sizes=sizes)
    identity = Block(everything, sparse.eye_array(everything.size, format="csr"))
    wide = Workload.of([cells, total(), identity])
    strategy = select(wide)
    assert max(part.marginal.size for part in strategy.blocks) == 71_400
    assert strategy.error <= 71_400 + 1_400 * 51 + 71_400


def test_scopes_that_no_single_query_holds_are_refused_when_too_large():
    sizes = {"a": 110, "b": 110, "c": 110}
    blocks = []
    for names in (("a", "b"), ("b", "c")):
        marginal = finest(*names, sizes=sizes)
        pairs = sparse.eye_array(marginal.size) + 2 * sparse.eye_array(marginal.size, k=1)
        blocks.append(Block(marginal, sparse.csr_array(pairs)))
    with pytest.raises(NotSupportedError, match="the queries over a, b, c tell apart more than"):
        select(Workload.of(blocks))


def test_beside_another_block_the_unasked_cells_keep_one_row_that_helps_with_the_total():
    [scope] = Workload.of([block(finest("a"), [[1, 0, 0, 0, 0]])]).scopes
    own = IntegerBlock(scope, np.array([3, 3]), np.zeros((0, 2), dtype=np.int64))
    assert own.expanded(alone=False).matrix.toarray().tolist() == [[3, 0], [0, 3]]
    np.testing.assert_array_equal(own.expanded(alone=True).matrix.toarray(), 3 * np.eye(5))


def bits(strategy):
    return [
        (part.marginal.scope, part.matrix.indptr.tobytes(), part.matrix.data.tobytes())
        for part in strategy.blocks
    ] + [strategy.error.hex()]


MIXED = [
    histogram("a"),
    block(finest("a", "c"), np.random.default_rng(3).random((6, 10))),
    block(finest("a", "c"), np.random.default_rng(4).integers(0, 2, (6, 10))),
    block(finest("b"), [[1, 1, 0]]),
    total(),
]


def test_selection_is_the_same_bit_for_bit_in_whatever_order_queries_come():
    reference = bits(select(Workload.of(MIXED)))
    for order in ([4, 3, 2, 1, 0], [1, 0, 4, 2, 3]):
        selection._known.clear()
        shuffled = [Block(MIXED[i].marginal, MIXED[i].matrix[::-1]) for i in order]
        assert bits(select(Workload.of(shuffled))) == reference


PROGRAM = """
import hashlib, numpy as np, sys
sys.path.insert(0, sys.argv[1])
from small_tables import histogram, total, block, finest
from sqlmadp.strategy.select import select
from sqlmadp.workload.workload import Workload
asked = [histogram("a"), total(), block(finest("a", "c"), np.tri(10))]
digest = hashlib.sha256()
for part in select(Workload.of(asked)).blocks:
    digest.update(part.matrix.toarray().tobytes())
print(digest.hexdigest())
"""


def test_selection_is_the_same_in_every_process_whatever_its_threads_and_hash_seed():
    tests = os.path.dirname(sys.modules["small_tables"].__file__)
    found = set()
    for threads, seed in (("1", "0"), ("2", "1")):
        environment = os.environ | {"OPENBLAS_NUM_THREADS": threads, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", PROGRAM, tests]
        found.add(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)
    assert len(found) == 1


def test_the_same_workload_is_searched_once_in_a_process(monkeypatch):
    first = select(Workload.of([histogram("a")]))
    monkeypatch.setattr(selection, "_search", None)
    assert select(Workload.of([histogram("a")])) is first


def test_a_merged_scope_that_no_query_is_left_for_has_no_block(monkeypatch):
    pairs = [("a", "b"), ("a", "c"), ("b", "c")]
    monkeypatch.setattr(layout, "_merged", lambda asked: pairs)
    asked = Workload.of([histogram("a", "b"), histogram("a", "c"), histogram("b"), histogram("c")])
    merged = layout.layouts(asked)[-1]
    assert [scope.marginal.scope for scope in merged.scopes] == pairs[:2]
