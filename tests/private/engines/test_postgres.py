"""PostgreSQL: read only, nothing of its credentials shown, nothing charged when it fails."""

import importlib
import os
import threading
import time
from datetime import date
from decimal import Decimal
from fractions import Fraction

import pytest

from sqlmadp.errors import LedgerError, SourceError
from sqlmadp.files.drafts import allowed_values
from sqlmadp.private import Ledger, measure
from sqlmadp.private.data_vector import read_counts
from sqlmadp.private.engines import Source, open_engine
from sqlmadp.private.engines.catalogue import catalogue_problems
from sqlmadp.private.ledger_binding import note_of
from sqlmadp.private.measure import READ_FAILED
from sqlmadp.sql.constraints import Allowed
from sqlmadp.table.domain import Column, Domain
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows

SECRET = "secret-7310"
OWN_SERVER = pytest.mark.skipif(
    "SQLMADP_TEST_POSTGRES" in os.environ, reason="needs the server that tests start themselves"
)
AGES = Domain(table="people", columns=(Column(name="age", type="integer", minimum=0, maximum=3),))


@pytest.fixture
def people(database, server):
    """Return the location of a table of three people."""
    database.execute("DROP TABLE IF EXISTS people CASCADE")
    database.execute("CREATE TABLE people (age integer, sex text)")
    database.execute("INSERT INTO people VALUES (1, 'f'), (2, 'm'), (2, 'f')")
    return f"{server}#sqlmadp_test.people"


@pytest.fixture
def release(tmp_path, block_of, monkeypatch):
    """Return a function that measures the ages, charged to a ledger in the test's folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def run(location, ledger="people.ledger", name="ages"):
        with Ledger.open(tmp_path / ledger, budget=Fraction(1)) as opened:
            return measure(
                [block_of(AGES, "age")],
                source=Source(location=location, folder=tmp_path),
                domain=AGES,
                ledger=opened,
                release=name,
                epsilon=Fraction(1, 3),
                analysts=[],
                mechanism="identity",
                metadata={},
            )

    return run


def spent(folder):
    with Ledger.read(folder / "people.ledger") as ledger:
        return ledger.spent


def counted(counts_of, location, column):
    marginal = Rows((column.name,), (Partition.finest(column.size),))
    (counts,) = counts_of(location, Domain(table="t", columns=(column,)), [marginal])
    return {column.describe(cell): int(n) for cell, n in enumerate(counts) if n}


def test_a_release_is_measured_and_charged(people, release, tmp_path):
    assert release(people).epsilon == Fraction(1, 3)
    assert spent(tmp_path) == Fraction(1, 3)


@OWN_SERVER
def test_no_credential_is_shown_or_stored(people, release, opened, tmp_path):
    assert SECRET in people
    engine = opened(people)
    release(people)
    held = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(held) >= 2
    source = Source(location=people, folder=tmp_path)
    for text in (engine.location, repr(engine.identity), repr(source)):
        assert SECRET not in text
        assert "curator" not in text
    assert not any(SECRET.encode() in each for each in held)


@pytest.mark.parametrize(
    "location",
    [
        "postgresql://curator:secret-7310@127.0.0.1:1/postgres",
        "postgresql://127.0.0.1:1/postgres?user=curator&password=secret-7310",
        "postgresql://curator:secret-7310@127.0.0.1:1/postgres?sslmode=nonsense",
        "postgresql://curator:secret-7310@127.0.0.1:1:1/postgres?x",
        "postgresql://curator:secret-7310#7310@127.0.0.1:1/postgres",
        "mysql://curator:secret-7310@127.0.0.1:1/postgres?password=secret-7310",
        "sc://127.0.0.1:1/;token=secret-7310/x",
    ],
)
def test_a_source_that_cannot_be_reached_says_so_without_its_credentials(location, tmp_path):
    pytest.importorskip("psycopg")
    source = Source(location=location, folder=tmp_path)
    assert "7310" not in source.shown
    if location.startswith("postgresql"):
        with pytest.raises(SourceError, match="command can be run again") as caught:
            open_engine(source, table="people")
        assert "7310" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None


@OWN_SERVER
def test_another_spelling_of_the_server_is_the_same_table(people, server, opened, database):
    port = database.info.port
    spellings = [
        people,
        server.replace("127.0.0.1", "localhost") + "#SQLMADP_TEST.People",
        f"postgresql://127.0.0.1:{port}/postgres?user=curator#sqlmadp_test.people",
        f"postgres://curator@127.0.0.1:{port}/postgres#sqlmadp_test.people",
    ]
    assert len({opened(spelling).identity for spelling in spellings}) == 1
    database.execute("CREATE TABLE IF NOT EXISTS others (age integer)")
    assert opened(f"{server}#sqlmadp_test.others").identity != opened(people).identity


@OWN_SERVER
def test_a_second_ledger_for_the_same_table_is_refused(people, release, opened, tmp_path):
    release(people)
    assert note_of(opened(people).identity.table).is_relative_to(tmp_path / "state")
    with pytest.raises(LedgerError, match="charged to another ledger"):
        release(people.replace("127.0.0.1", "localhost"), ledger="second.ledger")


@OWN_SERVER
@pytest.mark.parametrize(("first", "second"), [("visits", "early"), ("early", "visits")])
def test_a_table_and_its_partition_are_charged_to_one_ledger(
    first, second, database, server, release
):
    database.execute("DROP TABLE IF EXISTS visits, early, late CASCADE")
    database.execute("CREATE TABLE visits (age integer) PARTITION BY RANGE (age)")
    database.execute("CREATE TABLE early PARTITION OF visits FOR VALUES FROM (0) TO (9)")
    database.execute("CREATE TABLE late PARTITION OF visits FOR VALUES FROM (9) TO (99)")
    release(f"{server}#sqlmadp_test.{first}")
    with pytest.raises(LedgerError, match="charged to another ledger"):
        release(f"{server}#sqlmadp_test.{second}", ledger="second.ledger")
    release(f"{server}#sqlmadp_test.{second}", name="others")
    if first == "early":
        return
    database.execute("ALTER TABLE visits DETACH PARTITION late")
    release(f"{server}#sqlmadp_test.late", ledger="third.ledger")


def test_the_transaction_reads_one_state_and_writes_nothing(people, opened, database):
    psycopg = pytest.importorskip("psycopg")
    connection = opened(people).connection
    settings = ("transaction_isolation", "transaction_read_only", "statement_timeout")
    shown = [connection.execute(f"SHOW {name}").fetchone()[0] for name in settings]
    assert shown == ["repeatable read", "on", "1h"]
    before = connection.execute("SELECT count(*) FROM sqlmadp_test.people").fetchone()
    database.execute("INSERT INTO people VALUES (3, 'f')")
    assert connection.execute("SELECT count(*) FROM sqlmadp_test.people").fetchone() == before
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        connection.execute("DELETE FROM sqlmadp_test.people")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE VIEW seen AS SELECT * FROM people", "a view is refused"),
        ("CREATE MATERIALIZED VIEW seen AS SELECT * FROM people", "a view is refused"),
        ("SELECT 1", "has no table 'sqlmadp_test.seen'"),
    ],
)
def test_only_a_table_will_do(people, server, database, opened, statement, message):
    database.execute(statement)
    with pytest.raises(SourceError, match=message):
        opened(f"{server}#sqlmadp_test.seen")


@OWN_SERVER
def test_row_level_security_is_refused_rather_than_followed(people, server, database, opened):
    database.execute(
        "DROP ROLE IF EXISTS sqlmadp_test_reader; CREATE ROLE sqlmadp_test_reader LOGIN"
    )
    database.execute("GRANT USAGE ON SCHEMA sqlmadp_test TO sqlmadp_test_reader")
    reader = people.replace("curator", "sqlmadp_test_reader")
    try:
        with pytest.raises(SourceError, match="this role does not see it"):
            opened(reader)
        database.execute("GRANT SELECT ON people TO sqlmadp_test_reader")
        assert opened(reader).columns
        database.execute("ALTER TABLE people ENABLE ROW LEVEL SECURITY")
        with pytest.raises(SourceError, match="row-level security"):
            opened(reader)
    finally:
        database.execute("DROP OWNED BY sqlmadp_test_reader; DROP ROLE sqlmadp_test_reader")


def test_types_are_known_through_domains_and_enums(server, database, opened):
    database.execute(
        "DROP TABLE IF EXISTS t; DROP DOMAIN IF EXISTS price, paid; DROP TYPE IF EXISTS mood"
    )
    database.execute("CREATE DOMAIN price AS numeric(8, 2); CREATE DOMAIN paid AS price")
    database.execute("CREATE TYPE mood AS ENUM ('good', 'bad')")
    database.execute(
        "CREATE TABLE t (a paid, b mood, c char(3), d uuid, e numeric(9), f timestamp, g int[], "
        "h real, i time)"
    )
    kinds = {c.name: c.kind for c in opened(f"{server}#sqlmadp_test.t").columns}
    assert list(kinds.values()) == [
        *("real", "text", "text", "text", "wide integer", "timestamp", "other", "real", "other")
    ]
    size = Domain(
        table="t",
        columns=(Column(name="i", type="date", minimum=date(1, 1, 1), maximum=date(2, 1, 1)),),
    )
    (problem,) = catalogue_problems(opened(f"{server}#sqlmadp_test.t"), size)
    assert "stored as time without time zone" in problem.message


@pytest.mark.parametrize("stored", ["timestamp", "timestamptz"])
def test_a_timestamp_is_read_as_its_day(server, database, opened, stored):
    database.execute("DROP TABLE IF EXISTS t")
    database.execute(f"CREATE TABLE t (day {stored})")
    database.execute(
        "INSERT INTO t VALUES ('2020-01-01 23:59:59.9+00'), ('2020-01-02 00:00:00+00'), (NULL), "
        "('infinity'), ('-infinity'), ('294276-12-31 00:00:00+00')"
    )
    first, last = date(2020, 1, 1), date(2020, 1, 3)
    days = Column(name="day", type="date", minimum=first, maximum=last)
    engine = opened(f"{server}#sqlmadp_test.t")
    domain = Domain(table="t", columns=(days,))
    assert catalogue_problems(engine, domain) == ()
    (counts,) = read_counts(engine, domain, [Rows(("day",), (Partition.finest(4),), 1)])
    assert counts.tolist() == [1, 1, 0, 4]


def test_constraints_are_read_from_the_catalogue(server, database, opened):
    database.execute("DROP TABLE IF EXISTS t, wards; DROP TYPE IF EXISTS mood")
    database.execute("CREATE TYPE mood AS ENUM ('good', 'bad')")
    database.execute("CREATE TABLE wards (ward text PRIMARY KEY)")
    database.execute(
        "CREATE TABLE t (a mood NOT NULL, b text CHECK (b IN ('x', 'it''s')), c boolean, "
        "d integer NOT NULL CHECK (d BETWEEN -3 AND 7), e date CHECK (e >= '2020-01-01'), "
        "f text NOT NULL REFERENCES wards (ward), g numeric CHECK (g > 0.5 AND g < 9))"
    )
    catalogue = opened(f"{server}#sqlmadp_test.t").columns
    assert [c.name for c in catalogue if c.constraints.references == "sqlmadp_test.wards"] == ["f"]
    assert {c.name: allowed_values(c) for c in catalogue} == {
        "a": Allowed(null=False, values=("good", "bad")),
        "b": Allowed(null=True, values=("x", "it's")),
        "c": Allowed(null=True),
        "d": Allowed(null=False, low=-3, high=7),
        "e": Allowed(null=True, low=date(2020, 1, 1)),
        "f": Allowed(null=False),
        "g": Allowed(null=True, low=0.5, high=9),
    }


def test_numbers_that_no_floating_point_number_can_hold_raise_nothing(server, database, counts_of):
    database.execute("DROP TABLE IF EXISTS t; CREATE TABLE t (size numeric, whole numeric(5, 0))")
    for value in ("1e400", "-1e400", "1e-400", "-1e-400", "NaN", "Infinity", "-Infinity", "0.5"):
        whole = value if value == "NaN" else "3"
        database.execute("INSERT INTO t VALUES (%s, %s)", [Decimal(value), Decimal(whole)])
    here = f"{server}#sqlmadp_test.t"
    size = Column(name="size", type="real", minimum=0, maximum=1)
    assert counted(counts_of, here, size) == {"0.0": 2, "between 0.0 and 1.0": 1, "NULL": 5}
    clamp = Column(name="size", type="real", minimum=0, maximum=1, outside="clamp")
    assert counted(counts_of, here, clamp) == {
        "0.0": 4,
        "between 0.0 and 1.0": 1,
        "1.0": 2,
        "NULL": 1,
    }
    whole = Column(name="whole", type="integer", minimum=0, maximum=9, outside="clamp")
    assert counted(counts_of, here, whole) == {"3": 7, "NULL": 1}


def test_infinite_days_are_clamped(server, database, counts_of):
    database.execute("DROP TABLE IF EXISTS t; CREATE TABLE t (day date)")
    database.execute("INSERT INTO t VALUES ('infinity'), ('-infinity'), ('4713-01-01 BC'), (NULL)")
    first, last = date(2020, 1, 1), date(2020, 1, 3)
    day = Column(name="day", type="date", minimum=first, maximum=last, outside="clamp")
    assert counted(counts_of, f"{server}#sqlmadp_test.t", day) == {
        str(first): 2,
        str(last): 1,
        "NULL": 1,
    }


def test_backslashes_are_letters_whatever_the_server_says(server, database, counts_of):
    database.execute("ALTER ROLE CURRENT_USER SET standard_conforming_strings = off")
    try:
        database.execute("DROP TABLE IF EXISTS t; CREATE TABLE t (word text)")
        database.execute("INSERT INTO t VALUES (%s), (%s)", ["\\", "a\\'b"])
        word = Column(name="word", type="category", values=("\\", "a\\'b"))
        assert counted(counts_of, f"{server}#sqlmadp_test.t", word) == {"\\": 1, "a\\'b": 1}
    finally:
        database.execute("ALTER ROLE CURRENT_USER RESET standard_conforming_strings")


KILL = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
    "WHERE application_name = 'sqlmadp' AND state = 'active' AND query LIKE '%people%'"
)


def test_a_session_that_is_killed_while_it_counts_charges_nothing(
    people, server, release, database, tmp_path
):
    failed = []

    def attempt():
        try:
            release(people)
        except SourceError as error:
            failed.append(error)

    thread = threading.Thread(target=attempt)
    with pytest.importorskip("psycopg").connect(server) as other:
        other.execute("LOCK TABLE sqlmadp_test.people IN ACCESS EXCLUSIVE MODE")  # So it waits.
        thread.start()
        until = time.monotonic() + 30
        while not database.execute(KILL).fetchone()[0] and time.monotonic() < until:
            time.sleep(0.05)
        thread.join(timeout=30)
    (error,) = failed
    assert str(error) == READ_FAILED
    assert "the same command can be run again" in READ_FAILED
    assert error.__cause__ is None
    assert error.__context__ is None
    assert spent(tmp_path) == 0
    assert release(people).epsilon == Fraction(1, 3)  # The same command, run again.


def test_a_statement_that_takes_too_long_charges_nothing(people, release, tmp_path, monkeypatch):
    postgres = importlib.import_module("sqlmadp.private.engines.postgres")
    right = postgres.PostgresTable.counts

    def slow(self, select):
        self.connection.execute("SELECT set_config('statement_timeout', '50ms', true)")
        self.connection.execute("SELECT pg_sleep(5)")
        return right(self, select)

    monkeypatch.setattr(postgres.PostgresTable, "counts", slow)
    with pytest.raises(SourceError, match="nothing was spent and nothing is shown"):
        release(people)
    assert spent(tmp_path) == 0
