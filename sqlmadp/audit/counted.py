"""Counted: tables of records, written to a file and counted through an engine.

The other cases begin with counts.  These begin with records: two tables are written, with and
without all records of one person (or with another's in their place), and both are counted by
`private.data_vector`.

People with many records: no more of them may be let in than the schema says.  A wide column that is
summed: a record may add no more than its steps to either ramp, whatever its value, even one beyond
what is declared.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
from scipy import sparse

from sqlmadp.audit.cases import Case, Sums, small_domain
from sqlmadp.private.data_vector import read_counts
from sqlmadp.private.engines import Source, open_engine
from sqlmadp.table.domain import Column, Domain, Neighbours, Unit
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows

OWNED = 60
"""Records of the person who is looked for; at most `MOST` of them may be counted."""
MOST = 3
HIGHEST = 999_999
"""The highest income that is declared."""

Visit = tuple[int | None, int, int, str]
"""Whose it is, the visit's number, age and sex."""
Earner = tuple[int | None, str]
"""Income and sex."""


def counted_cases() -> Iterator[Case]:
    """Yield tables with and without a person of many records, or an income."""
    yield from _visits_cases()
    yield from _income_cases()


def _visits_cases() -> Iterator[Case]:
    others = [record for person in range(1, 7) for record in _visits(person, 8 * person)]
    in_one_cell: list[Visit] = [(0, visit, 1, "f") for visit in range(OWNED)]
    elsewhere: list[Visit] = [(0, visit, 2, "m") for visit in range(OWNED)]
    nobody = _visits(None, OWNED)
    yield _of_visits("a person of 60 records in all cells", [others + _visits(0, OWNED), others])
    yield _of_visits("a person of 60 records in one cell", [others + in_one_cell, others])
    yield _of_visits(
        "a person of 60 records replaced by another",
        [others + in_one_cell, others + elsewhere],
        neighbours="replace",
    )
    tables = [others + nobody[1:], others + nobody]
    yield _of_visits("60 records of nobody, one of them more", tables)


def _visits(person: int | None, owned: int) -> list[Visit]:
    return [(person, visit, visit % 3, "fm"[visit % 2]) for visit in range(owned)]


def _of_visits(
    name: str, tables: Sequence[Sequence[Visit]], *, neighbours: Neighbours = "add_remove"
) -> Case:
    domain = replace(
        small_domain(),
        table="visits",
        unit=Unit(column="person", max_records=MOST, key=("visit",), nulls="own"),
        neighbours=neighbours,
    )
    blocks = (Rows(("age", "sex"), (Partition.finest(3), Partition.finest(2)), 1),)
    types = "person INTEGER, visit INTEGER, age INTEGER, sex VARCHAR"
    first, second = (_counted(domain, blocks, types, table) for table in tables)
    return Case(name=name, domain=domain, blocks=blocks, sums=(first, second))


def _income_cases() -> Iterator[Case]:
    """Yield the sum of a wide column beside counts, with one record more."""
    others: list[Earner] = [(20_000 * n, "fm"[n % 2]) for n in range(40)]
    for name, income in (
        ("the highest income", HIGHEST),
        ("the lowest income", 0),
        ("an income in between", 700_000),
        ("an income beyond what is declared", 2_000_000_000),
        ("an income that is unknown", None),
    ):
        yield _of_incomes(f"sums: {name}", [[*others, (income, "f")], others])


def _of_incomes(name: str, tables: Sequence[Sequence[Earner]]) -> Case:
    domain = Domain(
        table="earners",
        columns=(
            Column(name="income", type="integer", minimum=0, maximum=HIGHEST, outside="clamp"),
            Column(name="sex", type="category", values=("f", "m"), complete=True),
        ),
    )
    cells = np.arange(HIGHEST + 2)
    known = cells <= HIGHEST  # The last cell is NULL's.
    pieces = np.where(known, 0, 1)
    ramp = Partition(pieces, np.where(known, cells, 0), np.array([1, 0]), HIGHEST)
    share = sparse.csr_array(np.array([[0, 2, 0], [2, 0, 2]]))
    sexes = Partition.finest(2)
    blocks = (
        Rows(("income", "sex"), (ramp, sexes), 3),
        Rows(("income",), (ramp,), 0, share),
        Rows(("sex",), (sexes,), 1),
    )
    types = "income BIGINT, sex VARCHAR"
    first, second = (_counted(domain, blocks, types, table) for table in tables)
    return Case(name=name, domain=domain, blocks=blocks, sums=(first, second))


def _counted(
    domain: Domain,
    blocks: Sequence[Rows],
    types: str,
    records: Sequence[Visit] | Sequence[Earner],
) -> Sums:
    """Write a table, and count it as a release would."""
    columns = [list(column) for column in zip(*records, strict=True)]
    values = ", ".join(["unnest(?)"] * len(columns))
    with tempfile.TemporaryDirectory() as folder:
        with duckdb.connect(str(Path(folder) / "table.duckdb")) as connection:
            connection.execute(f"CREATE TABLE {domain.table} ({types})")
            connection.execute(f"INSERT INTO {domain.table} SELECT {values}", columns)
        source = Source(location="table.duckdb", folder=Path(folder))
        engine = open_engine(source, table=domain.table)
        try:
            return tuple(read_counts(engine, domain, blocks))
        finally:
            engine.close()
