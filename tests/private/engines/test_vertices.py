"""Sums of products of steps are those of plain Python on every engine, grouped either way."""

from random import Random

import numpy as np
import pytest
from engine_cases import EngineCase, load_postgres, load_spark
from vertex_cases import random_layouts, vertex_sums

from sqlmadp.private.engines import scope_batches

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
