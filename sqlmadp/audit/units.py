"""Units: tables in which people own many records, counted through an engine.

The other cases begin with counts.  These begin with records: two tables are written, with and
without all records of one person (or with another's in their place), and both are counted by
`private.data_vector`, which must let in no more of them than the schema says.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import numpy as np
from scipy import sparse

from sqlmadp.audit.cases import Case, Table, everything
from sqlmadp.private.data_vector import read_counts
from sqlmadp.private.engines import Source, open_engine
from sqlmadp.schema.domain import Column, Domain, Neighbours, Unit
from sqlmadp.schema.marginal import Block

OWNED = 60
"""Records of the person who is looked for; at most `MOST` of them may be counted."""
MOST = 3

Record = tuple[int | None, int, int, str]
"""Whose it is, the visit's number, age and sex."""


def unit_cases() -> Iterator[Case]:
    """Yield tables with and without a person of many records."""
    others = [record for person in range(1, 7) for record in _visits(person, 8 * person)]
    in_one_cell: list[Record] = [(0, visit, 1, "f") for visit in range(OWNED)]
    elsewhere: list[Record] = [(0, visit, 2, "m") for visit in range(OWNED)]
    nobody = _visits(None, OWNED)
    yield _case("a person of 60 records in all cells", [others + _visits(0, OWNED), others])
    yield _case("a person of 60 records in one cell", [others + in_one_cell, others])
    yield _case(
        "a person of 60 records replaced by another",
        [others + in_one_cell, others + elsewhere],
        neighbours="replace",
    )
    yield _case("60 records of nobody, one of them more", [others + nobody[1:], others + nobody])


def _visits(person: int | None, owned: int) -> list[Record]:
    return [(person, visit, visit % 3, "fm"[visit % 2]) for visit in range(owned)]


def _case(
    name: str, tables: Sequence[Sequence[Record]], *, neighbours: Neighbours = "add_remove"
) -> Case:
    domain = Domain(
        table="visits",
        columns=(
            Column(name="age", type="integer", minimum=0, maximum=2, complete=True),
            Column(name="sex", type="category", values=("f", "m"), complete=True),
        ),
        unit=Unit(column="person", max_records=MOST, key=("visit",), nulls="own"),
        neighbours=neighbours,
    )
    identity = sparse.csr_array(np.eye(everything(domain).size, dtype=np.int64))
    return Case(
        name=name,
        domain=domain,
        blocks=(Block(everything(domain), identity),),
        tables=(_counts(domain, tables[0]), _counts(domain, tables[1])),
    )


def _counts(domain: Domain, records: Sequence[Record]) -> Table:
    """Write a table, and count it as a release would."""
    with tempfile.TemporaryDirectory() as folder:
        with duckdb.connect(str(Path(folder) / "visits.duckdb")) as connection:
            connection.execute(
                "CREATE TABLE visits (person INTEGER, visit INTEGER, age INTEGER, sex VARCHAR)"
            )
            columns = [list(column) for column in zip(*records, strict=True)]
            connection.execute(
                "INSERT INTO visits SELECT unnest(?), unnest(?), unnest(?), unnest(?)", columns
            )
        source = Source(location="visits.duckdb", folder=Path(folder))
        engine = open_engine(source, table=domain.table)
        try:
            (counts,) = read_counts(engine, domain, [everything(domain)])
        finally:
            engine.close()
    return counts
