"""The same table, schema and scopes give the same counts on every engine."""

import numpy as np
import pytest
from engine_cases import EngineCase, load_postgres, load_spark

ON_POSTGRESQL, ON_SPARK = 40, 12


@pytest.mark.parametrize("number", range(ON_POSTGRESQL))
def test_postgresql_counts_what_duckdb_and_python_count(
    number, database, server, counts_of, tmp_path
):
    case = EngineCase.number(number)
    case.write_duckdb(tmp_path / "t.duckdb")
    load_postgres(database, case)
    for location in ("t.duckdb", "t.parquet", f"{server}#sqlmadp_test.t"):
        assert_counts(case, counts_of(location, case.domain, case.marginals))


@pytest.mark.parametrize("number", range(ON_POSTGRESQL, ON_POSTGRESQL + ON_SPARK))
def test_spark_counts_what_duckdb_and_python_count(number, session, counts_of, tmp_path):
    case = EngineCase.number(number)
    case.write_duckdb(tmp_path / "t.duckdb")
    load_spark(session, case, tmp_path / "t.parquet")
    for location in ("t.duckdb", "spark://#t"):
        assert_counts(case, counts_of(location, case.domain, case.marginals))


def test_the_cases_have_records_to_count_and_records_to_drop():
    cases = [EngineCase.number(number) for number in range(ON_POSTGRESQL + ON_SPARK)]
    counted = [max(int(counts.sum()) for counts in case.expected) for case in cases]
    assert sum(0 < n < len(case.records) for n, case in zip(counted, cases, strict=True)) > 15


def assert_counts(case, counts):
    for counted, expected in zip(counts, case.expected, strict=True):
        np.testing.assert_array_equal(counted, expected, err_msg=repr(case))
