"""A small private table, and the pieces needed to measure it."""

from fractions import Fraction

import duckdb
import numpy as np
import pytest
from scipy import sparse

from sqlmadp.private import Ledger, measure
from sqlmadp.private.engines import Source, open_engine
from sqlmadp.table.domain import Column, Domain
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows


@pytest.fixture(scope="session")
def marginal_of():
    """Return a function that makes rows of every cell of some columns of a domain."""

    def make(domain, *names):
        parts = tuple(Partition.finest(domain.column(name).size) for name in sorted(names))
        return Rows(tuple(sorted(names)), parts, 1)

    return make


@pytest.fixture(scope="session")
def block_of(marginal_of):
    """Return a function that makes a block: a given matrix, or ``weight`` times identity."""

    def make(domain, *names, rows=None, weight=1):
        marginal = marginal_of(domain, *names)
        dense = weight * np.eye(marginal.size, dtype=np.int64) if rows is None else np.array(rows)
        return Rows(marginal.scope, marginal.parts, 0, sparse.csr_array(dense.astype(np.int64)))

    return make


@pytest.fixture(scope="session")
def people():
    """Return a domain of ages 0..3 and two sexes."""
    return Domain(
        table="people",
        columns=(
            Column(name="age", type="integer", minimum=0, maximum=3, complete=True),
            Column(name="sex", type="category", values=("f", "m"), complete=True),
        ),
    )


@pytest.fixture
def people_source(tmp_path):
    """Return a table of ten people: one of age 0, two of age 1, three of 2, four of 3."""
    with duckdb.connect() as connection:
        connection.execute(
            "COPY (SELECT age, CASE WHEN age = 1 THEN 'f' ELSE 'm' END AS sex "
            "FROM range(4) ages(age), range(4) copies(copy) WHERE copy <= age) "
            f"TO '{tmp_path / 'people.parquet'}'"
        )
    return Source(location="people.parquet", folder=tmp_path)


@pytest.fixture
def opened(tmp_path):
    """Return a function that opens a source in the test's folder, closed afterwards."""
    engines = []

    def run(location, table="t"):
        engines.append(open_engine(Source(location=location, folder=tmp_path), table=table))
        return engines[-1]

    yield run
    for engine in engines:
        engine.close()


@pytest.fixture
def ledger(tmp_path):
    """Return a new ledger with budget 1."""
    with Ledger.open(tmp_path / "people.ledger", budget=Fraction(1)) as ledger:
        yield ledger


@pytest.fixture
def measure_people(people, people_source, ledger, block_of):
    """Return a function that measures the ages, with any argument replaced."""

    def run(blocks=None, **changes):
        arguments = {
            "source": people_source,
            "domain": people,
            "ledger": ledger,
            "release": "ages",
            "epsilon": Fraction(1, 3),
            "analysts": ["alice", "bob"],
            "mechanism": "identity",
            "metadata": {"shares": {"bob": "2/3", "alice": "1/3"}},
        } | changes
        return measure(blocks or [block_of(people, "age")], **arguments)

    return run
