"""What is public, and what it costs to import it."""

import json
import subprocess
import sys

import pytest

import sqlmadp

HEAVY = ["scipy", "duckdb", "opendp", "numpy", "sqlglot", "rich", "sqlalchemy", "pandas"]


def test_the_public_names_are_these():
    assert sorted(sqlmadp.__all__) == sorted(
        [
            *("apilevel", "threadsafety", "paramstyle", "connect", "Connection", "Cursor"),
            *("Plan", "compare"),
            *("Warning", "Error", "InterfaceError", "DatabaseError", "DataError"),
            *("OperationalError", "IntegrityError", "InternalError", "ProgrammingError"),
            "NotSupportedError",
            *("STRING", "BINARY", "NUMBER", "DATETIME", "ROWID"),
            *("Date", "Time", "Timestamp", "Binary"),
            *("DateFromTicks", "TimeFromTicks", "TimestampFromTicks"),
        ]
    )


def test_every_public_name_is_there():
    for name in sqlmadp.__all__:
        assert getattr(sqlmadp, name) is not None
        assert name in dir(sqlmadp)


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'gone'"):
        _ = sqlmadp.gone


@pytest.mark.parametrize("statement", ["import sqlmadp", "import sqlmadp; sqlmadp.Plan"])
def test_importing_is_cheap(statement):
    code = f"import json, sys; {statement}; print(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert not set(HEAVY) & set(json.loads(done.stdout))


def test_checking_a_plan_loads_no_optimizer(tmp_path):
    code = (
        "import sys, sqlmadp.files.starter as s, sqlmadp.release.check as c; from pathlib import "
        f"Path; s.write_starter(Path({str(tmp_path)!r})); "
        f"assert not c.check_plan(Path({str(tmp_path / 'plan.toml')!r})).problems; "
        "assert 'scipy.optimize' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_exceptions_form_the_tree_of_pep_249():
    assert sqlmadp.Warning.__bases__ == (Exception,)
    assert sqlmadp.Error.__bases__ == (Exception,)
    assert sqlmadp.InterfaceError.__bases__ == (sqlmadp.Error,)
    assert sqlmadp.DatabaseError.__bases__ == (sqlmadp.Error,)
    for name in (
        "DataError",
        "OperationalError",
        "IntegrityError",
        "InternalError",
        "ProgrammingError",
        "NotSupportedError",
    ):
        assert getattr(sqlmadp, name).__bases__ == (sqlmadp.DatabaseError,)
