"""Servers for the tests of engines, and ways to count a table on each."""

from pathlib import Path

import pytest
from services import REQUIRED, MissingServiceError, postgres, spark, spark_cluster

from sqlmadp.private.data_vector import read_counts
from sqlmadp.private.engines import Source, open_engine


def service(start):
    try:
        with start() as started:
            yield started
    except MissingServiceError as missing:
        if start.__name__.partition("_")[0] in REQUIRED:
            pytest.fail(str(missing))
        pytest.skip(str(missing))


def pytest_collection_modifyitems(items):
    """Mark what runs on Spark, by its name or the fixtures that start it."""
    own = [item for item in items if item.path.parent == Path(__file__).parent]
    for item in own:
        if "spark" in item.nodeid.lower() or {"session", "cluster"} & set(item.fixturenames):
            item.add_marker("spark")


@pytest.fixture(scope="session")
def server():
    """Return the URL of a PostgreSQL server."""
    yield from service(postgres)


@pytest.fixture(scope="session")
def session():
    """Return a Spark session, the one of all tests."""
    yield from service(spark)


@pytest.fixture
def cluster():
    """Return the URL of a Spark master that runs beside this process."""
    yield from service(spark_cluster)


@pytest.fixture(scope="session")
def database(server):
    """Return a connection to the server with a schema of its own, ``sqlmadp_test``."""
    import psycopg  # noqa: PLC0415

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS sqlmadp_test CASCADE; CREATE SCHEMA sqlmadp_test")
        connection.execute("SET search_path = sqlmadp_test")
        connection.prepare_threshold = None  # Tables change their types between tests.
        yield connection
        connection.execute("DROP SCHEMA sqlmadp_test CASCADE")


@pytest.fixture
def counts_of(tmp_path):
    """Return a function that counts marginals of a source."""

    def count(location, domain, marginals, folder=tmp_path):
        engine = open_engine(Source(location=location, folder=folder), table=domain.table)
        try:
            return read_counts(engine, domain, marginals)
        finally:
            engine.close()

    return count
