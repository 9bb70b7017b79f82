"""Cases: strategies to be measured, each on tables that are neighbours.

Strategies are those that the mechanisms select for three analysts over six cells, and a few
by hand.  Each is measured on a table and on neighbours of it: with one record less in the
cell that moves the answers most, and with the first record of an empty cell.  Which cell moves
the answers most is found by trying every cell, on purpose not by `private.sensitivity`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.mechanism import MECHANISMS, mechanism
from sqlmadp.mechanism.collective import Collective
from sqlmadp.table.domain import Column, Domain
from sqlmadp.table.partition import Partition
from sqlmadp.table.products import Products
from sqlmadp.table.rows import Rows

Table = NDArray[np.int64]
"""How many records there are of every cell of a small domain."""
Sums = tuple[NDArray[np.int64], ...]
"""The data vector of every block."""

EPSILON = Fraction(1)
PLAIN_COUNT = "a plain count"


@dataclass(frozen=True, eq=False, kw_only=True)
class Case:
    """One strategy and two tables; the claim is that their samples are epsilon-close."""

    name: str
    domain: Domain
    blocks: tuple[Rows, ...]
    sums: tuple[Sums, Sums]
    """By table."""
    epsilon: Fraction = EPSILON
    statistic: str = ""
    """The one statistic that is looked at, if not all are."""

    @classmethod
    def of(
        cls, name: str, domain: Domain, blocks: Sequence[Rows], tables: tuple[Table, Table]
    ) -> Case:
        """Return a case of two tables, given by their records in every cell."""
        weights = [vertex_weights(domain, block) for block in blocks]
        sums = tuple(tuple(own @ table for own in weights) for table in tables)
        return cls(name=name, domain=domain, blocks=tuple(blocks), sums=(sums[0], sums[1]))

    def exact(self, table: int) -> NDArray[np.float64]:
        """Return the exact answers in lowest terms, as they are measured, block after block."""
        answers = []
        for block, sums in zip(self.blocks, self.sums[table], strict=True):
            matrix = block.matrix.toarray().astype(np.int64)
            lowest = 1 if isinstance(block, Products) else int(np.gcd.reduce(matrix.ravel()))
            answers.append(matrix // lowest @ sums)
        return np.concatenate(answers).astype(np.float64)


def vertex_weights(domain: Domain, block: Rows) -> NDArray[np.int64]:
    """Return the whole weights of every cell of the table: one row per vertex of the block."""
    own = dict(zip(block.scope, block.parts, strict=True))
    weights = np.ones((1, 1), dtype=np.int64)
    for column in sorted(domain.columns, key=lambda column: column.name):
        factor = np.ones((1, column.size), dtype=np.int64)
        if column.name in own:
            factor = own[column.name].numerators.toarray()
        weights = np.kron(weights, factor)
    return weights


def effects(domain: Domain, blocks: Sequence[Rows]) -> NDArray[np.float64]:
    """Return by how much one record of every cell moves the answers to rows, in L1 norm."""
    total = np.zeros(len(_table()))
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
    yield uneven_ramps()
    yield products()
    yield ramps()
    for name in MECHANISMS:
        yield from _selected(name)


def plain_count() -> Case:
    """Return the count of all records, eleven against ten."""
    tables = np.array([11, 0, 0, 0, 0, 0]), np.array([10, 0, 0, 0, 0, 0])
    return Case.of(PLAIN_COUNT, small_domain(), [Rows((), (), 1)], tables)


def empty_cell() -> Case:
    """Return the histogram, with one record in a cell against none."""
    tables = np.array([0, 0, 4, 0, 2, 0]), np.array([1, 0, 4, 0, 2, 0])
    name = "a histogram: an empty cell against one record"
    return Case.of(name, small_domain(), [_block(["age"])], tables)


def lattice() -> Case:
    """Return the same, looking only at whether every output is possible on both tables."""
    name = "the lattice of outputs, an empty cell against one record"
    return replace(empty_cell(), name=name, statistic="lattice")


def uneven_blocks() -> Case:
    """Return overlapping blocks by hand, where some cells move the answers by 6 and some by 1."""
    age = _block(["age"], [[1, 2, 0], [0, -1, 1]])
    both = _block(["age", "sex"], [[1, 0, 2, 2, 0, 0], [0, 0, -1, 1, 0, 0]])
    return _most_sensitive("two uneven blocks", (age, both))


def uneven_ramps() -> Case:
    """Return blocks of one scope with a vertex in common: what one lacks there, the other has."""
    ramp = Partition(np.array([0, 0, 1]), np.array([0, 5, 0]), np.array([1, 0]), 5)
    alone = Partition.finest(3)
    more, less = sparse.csr_array(np.diag([4, 4, 6])), sparse.csr_array(np.diag([3, 3, 1]))
    blocks = (Rows(("age",), (ramp,), 0, more), Rows(("age",), (alone,), 0, less))
    return _most_sensitive("uneven ramps that even out", blocks)


def products() -> Case:
    """Return products of rows of two columns, kept as factors, where cells differ too."""
    age, sex = _block(["age"], [[1, 1, 0], [0, 0, 1]]), _block(["sex"], [[1, 0], [1, 2]])
    heights = np.array([[1, 0], [3, 1]])
    block = Products(
        ("age", "sex"), (*age.parts, *sex.parts), 0, None, (age.matrix, sex.matrix), heights
    )
    return _most_sensitive("products of two columns", (block,))


def ramps() -> Case:
    """Return sums beside counts: a ramp in long steps, and a parabola with rows of both signs."""
    ramp = Partition(np.zeros(3, np.int64), np.array([0, 60, 100]), np.array([1]), 100)
    curve = Partition(np.zeros(3, np.int64), np.array([0, 1, 2]), np.array([2]), 2)
    signed = sparse.csr_array(np.array([[2, -4, 0], [0, 2, 6]]))
    blocks = (
        Rows(("age", "sex"), (ramp, Partition.finest(2)), 3),
        Rows(("age",), (curve,), 0, signed),
    )
    return _most_sensitive("ramps and a parabola", blocks)


def _selected(name: str) -> Iterator[Case]:
    """Yield what a mechanism selects: the most sensitive cell, and the first record of one."""
    domain = small_domain()
    workloads = [
        [_block(["age"]), _reduced(["age"], [[1, 1, 1], [0, 1, 2]])],  # A sum beside its counts.
        [_block([], [[1]]), _block(["sex"])],
        [_reduced(["age"], [[1, 1, 0]]), _reduced(["age", "sex"], [[1, 0, 1, 0, 0, 0]])],
    ]
    shares = [Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)]
    sizes = {column.name: column.size for column in domain.columns}
    blocks = mechanism(name).select(Collective(workloads, shares, columns=sizes)).blocks
    yield _most_sensitive(f"{name}: the most sensitive cell", blocks)
    empty = _table()
    tables = _with_record(empty, int(np.argmin(empty))), empty
    yield Case.of(f"{name}: an empty cell against one record", domain, blocks, tables)


def _most_sensitive(name: str, blocks: Sequence[Rows]) -> Case:
    table, cell = _table(), int(np.argmax(effects(small_domain(), blocks)))
    return Case.of(name, small_domain(), blocks, (_with_record(table, cell), table))


def small_domain() -> Domain:
    """Return a domain of six cells."""
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


def _finest(scope: Sequence[str]) -> tuple[Partition, ...]:
    return tuple(Partition.finest(small_domain().column(name).size) for name in scope)


def _block(scope: Sequence[str], rows: Sequence[Sequence[int]] | None = None) -> Rows:
    """Return rows over all cells of a scope; every cell alone if none are given."""
    if rows is None:
        return Rows(tuple(scope), _finest(scope), 1)
    matrix = sparse.csr_array(np.array(rows, dtype=np.int64))
    return Rows(tuple(scope), _finest(scope), 0, matrix)


def _reduced(scope: Sequence[str], rows: Sequence[Sequence[int]]) -> Rows:
    """Return the same over the fewest vertices, as queries come."""
    return Rows.reduced(tuple(scope), _finest(scope), sparse.csr_array(np.array(rows, float)))
