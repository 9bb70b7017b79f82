"""Cases: strategies to be measured, each on tables that are neighbours.

Strategies are those that the mechanisms select for three analysts over six cells, and a few
by hand.  Each is measured on a table and on neighbours of it: with one record less in the
cell that moves the answers most, and with the first record of an empty cell.  Which cell moves
the answers most is found by trying every cell, on purpose not by `private.sensitivity`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.mechanism.catalogue import MECHANISMS
from sqlmadp.schema.domain import Column, Domain
from sqlmadp.schema.kronecker import KroneckerBlock
from sqlmadp.schema.marginal import TOTAL, Block, Marginal, Partition
from sqlmadp.table.old_blocks import as_rows
from sqlmadp.table.partition import Partition as Vertices
from sqlmadp.table.rows import Rows
from sqlmadp.workload.workload import Workload

Table = NDArray[np.int64]
"""How many records there are of every cell of a small domain."""

EPSILON = Fraction(1)
PLAIN_COUNT = "a plain count"


@dataclass(frozen=True, eq=False, kw_only=True)
class Case:
    """One strategy and two tables; the claim is that their samples are epsilon-close."""

    name: str
    domain: Domain
    blocks: tuple[Rows | Block, ...]
    tables: tuple[Table, Table]
    epsilon: Fraction = EPSILON
    statistic: str = ""
    """The one statistic that is looked at, if not all are."""

    def counts(self, table: int) -> list[NDArray[np.int64]]:
        """Return the data vector of every block."""
        return [vertex_weights(self.domain, block) @ self.tables[table] for block in self.blocks]

    def exact(self, table: int) -> NDArray[np.float64]:
        """Return the exact answers in lowest terms, as they are measured, block after block."""
        answers = []
        for block, sums in zip(self.blocks, self.counts(table), strict=True):
            matrix = block.matrix.toarray()
            lowest = 1 if isinstance(block, KroneckerBlock) else int(np.gcd.reduce(matrix.ravel()))
            answers.append(matrix // lowest @ sums)
        return np.concatenate(answers).astype(np.float64)


def everything(domain: Domain) -> Marginal:
    """Return the marginal of all columns; small domains only."""
    columns = sorted(domain.columns, key=lambda column: column.name)
    return Marginal(
        tuple(column.name for column in columns),
        tuple(Partition.finest(column.size) for column in columns),
    )


def vertex_weights(domain: Domain, block: Rows | Block) -> NDArray[np.int64]:
    """Return the whole weights of every cell of the table: one row per vertex of the block."""
    rows = as_rows(block)
    own = dict(zip(rows.scope, rows.parts, strict=True))
    weights = np.ones((1, 1), dtype=np.int64)
    for column in sorted(domain.columns, key=lambda column: column.name):
        factor = np.ones((1, column.size), dtype=np.int64)
        if column.name in own:
            factor = own[column.name].numerators.toarray()
        weights = np.kron(weights, factor)
    return weights


def effects(domain: Domain, blocks: Sequence[Rows | Block]) -> NDArray[np.float64]:
    """Return by how much one record of every cell moves the answers to rows, in L1 norm."""
    total = np.zeros(everything(domain).size)
    for block in blocks:
        weights = vertex_weights(domain, block)
        total += abs(block.matrix.toarray() @ weights).sum(axis=0) / weights.sum(axis=0)
    return total


def cases() -> Iterator[Case]:
    """Yield every case of the audit; the plain count, which shows its power, first."""
    yield plain_count()
    yield empty_cell()
    yield lattice()
    yield uneven_blocks()
    yield products()
    yield ramps()
    for mechanism in MECHANISMS:
        yield from _selected(mechanism)


def plain_count() -> Case:
    """Return the count of all records, eleven against ten."""
    block = Block(TOTAL, sparse.csr_array(np.array([[1]])))
    tables = np.array([11, 0, 0, 0, 0, 0]), np.array([10, 0, 0, 0, 0, 0])
    return Case(name=PLAIN_COUNT, domain=_domain(), blocks=(block,), tables=tables)


def empty_cell() -> Case:
    """Return the histogram, with one record in a cell against none."""
    return Case(
        name="a histogram: an empty cell against one record",
        domain=_domain(),
        blocks=(_identity("age"),),
        tables=(np.array([0, 0, 4, 0, 2, 0]), np.array([1, 0, 4, 0, 2, 0])),
    )


def lattice() -> Case:
    """Return the same, looking only at whether every output is possible on both tables."""
    name = "the lattice of outputs, an empty cell against one record"
    return replace(empty_cell(), name=name, statistic="lattice")


def uneven_blocks() -> Case:
    """Return overlapping blocks by hand, where some cells move the answers by 6 and some by 1."""
    age = _block(["age"], [[1, 2, 0], [0, -1, 1]])
    both = _block(["age", "sex"], [[1, 0, 2, 2, 0, 0], [0, 0, -1, 1, 0, 0]])
    return _most_sensitive("two uneven blocks", _domain(), (age, both))


def products() -> Case:
    """Return products of rows of two columns, kept as factors, where cells differ too."""
    age, sex = _block(["age"], [[1, 1, 0], [0, 0, 1]]), _block(["sex"], [[1, 0], [1, 2]])
    block = KroneckerBlock(
        everything(_domain()), [age.matrix, sex.matrix], np.array([[1, 0], [3, 1]])
    )
    return _most_sensitive("products of two columns", _domain(), (block,))


def ramps() -> Case:
    """Return sums beside counts: a ramp in long steps, and a parabola with rows of both signs."""
    ramp = Vertices(np.zeros(3, np.int64), np.array([0, 60, 100]), np.array([1]), 100)
    curve = Vertices(np.zeros(3, np.int64), np.array([0, 1, 2]), np.array([2]), 2)
    signed = sparse.csr_array(np.array([[2, -4, 0], [0, 2, 6]]))
    blocks = (
        Rows(("age", "sex"), (ramp, Vertices.finest(2)), 3),
        Rows(("age",), (curve,), 0, signed),
    )
    return _most_sensitive("ramps and a parabola", _domain(), blocks)


def _selected(mechanism: str) -> Iterator[Case]:
    """Yield what a mechanism selects: the most sensitive cell, and the first record of one."""
    domain = _domain()
    workloads = [
        Workload.of([_identity("age")]),
        Workload.of([_block([], [[1]]), _identity("sex")]),
        Workload.of([_block(["age"], [[1, 1, 0]]), _block(["age", "sex"], [[1, 0, 1, 0, 0, 0]])]),
    ]
    shares = [Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)]
    columns = [(column.name, column.size) for column in domain.columns]
    strategy = MECHANISMS[mechanism](columns, None).select(workloads, shares)
    yield _most_sensitive(f"{mechanism}: the most sensitive cell", domain, strategy.blocks)
    empty = _table()
    cell = int(np.argmin(empty))
    yield Case(
        name=f"{mechanism}: an empty cell against one record",
        domain=domain,
        blocks=strategy.blocks,
        tables=(_with_record(empty, cell), empty),
    )


def _most_sensitive(name: str, domain: Domain, blocks: tuple[Rows | Block, ...]) -> Case:
    cell = int(np.argmax(effects(domain, blocks)))
    table = _table()
    tables = (_with_record(table, cell), table)
    return Case(name=name, domain=domain, blocks=blocks, tables=tables)


def _domain() -> Domain:
    return Domain(
        table="people",
        columns=(
            Column(name="age", type="integer", minimum=0, maximum=2, complete=True),
            Column(name="sex", type="category", values=("f", "m"), complete=True),
        ),
    )


def _table() -> Table:
    return np.array([5, 0, 3, 2, 7, 1])


def _with_record(table: Table, cell: int) -> Table:
    more = table.copy()
    more[cell] += 1
    return more


def _block(scope: Sequence[str], rows: Sequence[Sequence[int]]) -> Block:
    domain = _domain()
    partitions = tuple(Partition.finest(domain.column(name).size) for name in scope)
    matrix = sparse.csr_array(np.array(rows, dtype=np.int64))
    return Block(Marginal(tuple(scope), partitions), matrix)


def _identity(*scope: str) -> Block:
    domain = _domain()
    size = math.prod(domain.column(name).size for name in scope)
    return _block(list(scope), np.eye(size, dtype=np.int64).tolist())
