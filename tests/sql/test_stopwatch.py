"""The stopwatch: what takes too long is ended, and what cannot be watched is not begun."""

import subprocess
import sys

import duckdb
import pytest

from sqlmadp.sql.sandbox import TooSlowError, interrupted

WITHOUT_THREADS = """
import os, resource, duckdb
from sqlmadp.errors import OperationalError
from sqlmadp.sql.sandbox import interrupted

connection = duckdb.connect(config={"threads": 1})
if os.getuid() == 0:  # The limit does not hold for root.
    os.setuid(65534)
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
try:
    with interrupted(connection, 1.0):
        print("begun")
except OperationalError as error:
    print(error)
"""


def test_what_takes_too_long_is_ended():
    connection = duckdb.connect(config={"threads": 1})
    with pytest.raises(TooSlowError), interrupted(connection, 0.05):
        connection.execute("SELECT sum(hash(range)) FROM range(1000000000000)")


def test_where_no_thread_can_be_started_the_message_says_so():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_THREADS], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("this machine starts no more threads")
    assert done.stderr == ""
