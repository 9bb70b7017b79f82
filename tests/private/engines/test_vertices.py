"""Sums of products of steps are those of plain Python on every engine, grouped either way."""

import math
from random import Random

import duckdb
import numpy as np
import pytest
from engine_cases import EngineCase, load_postgres, load_spark
from vertex_cases import random_layouts, vertex_sums

from sqlmadp.private.blocks import MAX_UNITS
from sqlmadp.private.data_vector import read_sums
from sqlmadp.private.engines import Source, open_engine, scope_batches
from sqlmadp.table.domain import Column, Domain
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows

ON_POSTGRESQL, ON_SPARK = 30, 8


@pytest.fixture(params=["pieces", "values"])
def grouped_by(request, monkeypatch):
    """Group small scopes too by pieces wherever that is possible, or by values as they come."""
    if request.param == "pieces":
        monkeypatch.setattr(scope_batches, "FEW_CELLS", -1)
        monkeypatch.setattr(scope_batches, "WIDE", 0)
        monkeypatch.setattr(scope_batches, "COARSER", 1)
    return request.param


def assert_sums(number, case, counts_of, locations):
    layouts = random_layouts(Random(number), case.domain)
    names = [column.name for column in case.domain.columns]
    records = [dict(zip(names, cells, strict=True)) for _, cells in case._kept()]
    for location in locations:
        found = counts_of(location, case.domain, layouts)
        for sums, layout in zip(found, layouts, strict=True):
            np.testing.assert_array_equal(sums, vertex_sums(layout, records), err_msg=repr(case))


@pytest.mark.usefixtures("grouped_by")
@pytest.mark.parametrize("number", range(ON_POSTGRESQL))
def test_duckdb_and_postgresql_add_up_what_python_does(
    number, database, server, counts_of, tmp_path
):
    case = EngineCase.number(number)
    case.write_duckdb(tmp_path / "t.duckdb")
    load_postgres(database, case)
    locations = ["t.duckdb", "t.parquet", f"{server}#sqlmadp_test.t"]
    assert_sums(number, case, counts_of, locations)


@pytest.mark.usefixtures("grouped_by")
@pytest.mark.parametrize("number", range(ON_POSTGRESQL, ON_POSTGRESQL + ON_SPARK))
def test_spark_adds_up_what_python_does(number, session, counts_of, tmp_path):
    case = EngineCase.number(number)
    case.write_duckdb(tmp_path / "t.duckdb")
    load_spark(session, case, tmp_path / "t.parquet")
    assert_sums(number, case, counts_of, ["t.duckdb", "spark://#t"])


LONG = 2**20
"""Values of each of two columns whose products of steps come close to 2^62, or 2^84."""


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("place", ["duckdb", "postgresql", "spark"])
def test_sums_beyond_64_bits_are_exact_on_every_engine(place, degree, request, tmp_path):
    columns = [
        Column(name=name, type="integer", minimum=0, maximum=LONG - 1, complete=True)
        for name in ("a", "b")
    ]
    cells = np.arange(LONG, dtype=np.int64)
    step = 1023 if degree == 1 else 1
    unit = step * LONG + 1  # No power of 2: a rounded sum would show.
    ramp = Partition(np.zeros(LONG, np.int64), cells * step, np.array([degree]), unit)
    layout = Rows(("a", "b"), (ramp, ramp), 1)
    assert layout.units < MAX_UNITS
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT ({LONG - 1} - range % 3)::BIGINT AS a, {LONG - 1}::BIGINT AS b "
            f"FROM range(1000)) TO '{tmp_path / 't.parquet'}'"
        )
    location = "t.parquet"
    select = f"SELECT {LONG - 1} - n % 3 AS a, {LONG - 1} AS b FROM"
    if place == "postgresql":
        database, server = (request.getfixturevalue(each) for each in ("database", "server"))
        database.execute("DROP TABLE IF EXISTS t")
        database.execute(f"CREATE TABLE t AS {select} generate_series(0, 999) AS s(n)")
        location = f"{server}#sqlmadp_test.t"
    elif place == "spark":
        session = request.getfixturevalue("session")
        session.sql("DROP TABLE IF EXISTS t")
        session.sql(
            f"CREATE TABLE t USING parquet LOCATION '{tmp_path / 'spark'}' AS {select} "
            "(SELECT id AS n FROM range(1000))"
        )
        location = "spark://#t"
    engine = open_engine(Source(location=location, folder=tmp_path), table="t")
    domain = Domain(table="t", columns=tuple(columns))
    assert all(key.part is not None for key in scope_batches.keys_of(layout, domain))
    (found,) = read_sums(engine, domain, [layout])
    engine.close()

    def weights(steps):
        return [
            math.comb(degree, k) * steps**k * (unit - steps) ** (degree - k)
            for k in range(degree + 1)
        ]

    second = weights((LONG - 1) * step)
    wanted = [
        sum(weights((LONG - 1 - n % 3) * step)[j] for n in range(1000)) * weight
        for j in range(degree + 1)
        for weight in second
    ]
    assert max(wanted) > 2 ** (64 if degree == 1 else 88)
    assert (found.vertices.tolist(), found.sums.tolist()) == ([*range((degree + 1) ** 2)], wanted)
