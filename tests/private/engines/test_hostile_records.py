"""One record changes nothing but the noise: not whether a release works, nor a word it says.

Every kind of source is made with and without a hostile record.  The noise source is swapped as a
whole for one that answers zero to everything, so all that is printed, written and returned must be
the same, byte for byte, but for times and hashes of times.  Each record is measured by itself; then
every command runs on a table that holds all of them.
"""

import os
import re
import shlex
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pytest
from click.testing import CliRunner

from sqlmadp.cli import main
from sqlmadp.files.schema import read_schema
from sqlmadp.private import Ledger, measure, noise
from sqlmadp.private.engines import Source, open_engine
from sqlmadp.private.engines.catalogue import catalogue_problems
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows

SCHEMA = """\
table = "people"
[columns.age]
type = "integer"
min = 0
max = 9
outside = "clamp"
[columns.word]
type = "category"
values = ["a", "b"]
nullable = true
[columns.size]
type = "real"
min = 0
max = 1
outside = "clamp"
[columns.rate]
type = "real"
min = 0
max = 1
[columns.day]
type = "date"
min = 2020-01-01
max = 2020-01-09
outside = "clamp"
[columns.flag]
type = "boolean"
[unit]
column = "person"
max_records = 2
key = "visit"
"""
DAYS = """\
table = "people"
[columns.day]
type = "date"
min = 2020-01-01
max = 2020-01-09
outside = "clamp"
"""
SCOPES = ((), ("age", "word"), ("rate", "size"), ("day",), ("flag",))
PLAN = """\
schema = "people.toml"
source = "{source}"
epsilon = "1/2"
mechanism = "identity"
[ledger]
path = "people.ledger"
budget = "1"
[analysts.ana]
queries = "ana.sql"
"""
STATEMENTS = """\
SELECT age, word, COUNT(*) AS n FROM people GROUP BY age, word;
SELECT flag, COUNT(*) AS n, SUM(size) AS s FROM (
    SELECT flag, FLOOR(size * 2) AS size FROM people WHERE rate < 0.5 AND day > DATE '2020-01-03'
) GROUP BY flag;
"""
COMMANDS = (
    "check plan.toml",
    "schema check people.toml --source '{source}'",
    "schema draft '{source}' people",
    "release --dry-run plan.toml",
    "release plan.toml",
    "release plan.toml --json",
    "query plan.toml 'SELECT COUNT(*) FROM people WHERE age < 3'",
    "ledger plan.toml",
    "ledger verify plan.toml",
)
NAMES = ("age", "word", "size", "rate", "day", "flag", "person", "visit", "note")
PLAIN = [
    (1, "'a'", 0.5, "0.25", "'2020-01-02'", "true", "'p1'", 1, "'x'"),
    (2, "'b'", 0.25, "0.5", "'2020-01-05'", "false", "'p2'", 2, "'y'"),
    (3, "NULL", 1, "0.75", "'2020-01-09'", "true", "'p1'", 3, "NULL"),
]

# Columns of a hostile record that are not like those of the first plain one.
LONG = "repeat('x', 5000000)"
TEXT = {
    "invalid UTF-8": dict.fromkeys(("word", "person", "note"), "'Jos#'"),  # '#' becomes a byte.
    "quotes": dict.fromkeys(("word", "person", "note"), "'it''s \"a\", \\ ; -- `$1` %s {}'"),
    "a very long field": dict.fromkeys(("word", "person", "note"), LONG),
    "line ends": dict.fromkeys(("word", "person", "note"), "concat('a', chr(10), chr(13))"),
    "NUL bytes": dict.fromkeys(("word", "person", "note"), "concat('a', chr(0))"),
}
NUMBERS = {
    "NaN": {"size": "'NaN'"},
    "infinity": {"size": "'Infinity'"},
    "minus infinity": {"size": "'-Infinity'"},
    "huge numbers": {
        "age": "99999999999999999999999999999999999999",
        "size": "'1.7976931348623157e308'",
        "rate": "'999999999999999999.99999999999999999999'",
        "visit": "9223372036854775807",
    },
    "negative numbers": {
        "age": "-99999999999999999999999999999999999999",
        "size": "'-5e-324'",
        "rate": "'-999999999999999999.99999999999999999999'",
        "visit": "-9223372036854775808",
    },
    "tiny numbers": {"size": "'5e-324'", "rate": "'0.00000000000000000001'"},
}
NOTHING = {"nothing but NULL": dict.fromkeys(NAMES, "NULL")}
TYPED = TEXT | NUMBERS | NOTHING
DUCKDB = TYPED | {
    "the last date": {"day": "'5881580-07-10'"},
    "the first date": {"day": "'5877642-06-25 (BC)'"},
    "an infinite date": {"day": "'infinity'"},
}
POSTGRES = {name: record for name, record in TYPED.items() if name != "NUL bytes"} | {
    "the last date": {"day": "'5874897-12-31'"},
    "the first date": {"day": "'4713-01-01 BC'"},
    "an infinite date": {"day": "'-infinity'"},
    "a number of 100,000 digits": {"rate": "('1' || repeat('0', 100000))::numeric"},
    "a number that is none": {"rate": "'NaN'", "age": "'NaN'"},
    # About half of the smallest floating-point number, where a cast rounds to 0 or fails.
    "tiny numbers": {"rate": "'2.47032822920623271e-324'", "size": "'5e-324'"},
    "tiny negative numbers": {"rate": "'-2.47032822920623271e-324'", "size": "'-5e-324'"},
}
LINE = b"1,a,0.5,0.25,2020-01-02,true,p1,1,"
CSV = {
    "invalid UTF-8": LINE + b"Jos\xe9",
    "invalid UTF-8 everywhere": b"\xff,\xfe,\xe9,\xc0\x80,\xed\xa0\x80,\xf0\x9f,\xe9,\xe9,\xe9",
    "half a character at the end": LINE + b"\xf0\x9f",
    "another encoding": (LINE + b"x").decode().encode("utf-16"),
    "NaN": b"nan,a,NaN,nan,nan,nan,p1,nan,x",
    "infinity": b"inf,a,Infinity,inf,infinity,inf,p1,inf,x",
    "minus infinity": b"-inf,a,-Infinity,-inf,-infinity,-inf,p1,-inf,x",
    "huge numbers": b"1e400,a,1e400,1e400,1e400,1e400,p1,1e400,x",
    "tiny numbers": b"1e-400,a,2.47032822920623271e-324,-1e-400,1e-400,1e-400,p1,1e-400,x",
    "very many digits": b"9" * 5000 + b",a," + b"9" * 5000 + b",1,2020-01-02,true,p1,1,x",
    "the last date": b"1,a,0.5,0.25,5881580-07-10,true,p1,1,x",
    "a date out of range": b"1,a,0.5,0.25,999999999-99-99,true,p1,1,x",
    "quotes": b'1,a,0.5,0.25,2020-01-02,true,p1,1,x"y"z',
    "an open quote": LINE + b'"x',
    "an open quote in front": b'"' + LINE + b"x",
    "a quoted line end": LINE + b'"x\ny"',
    "line ends": LINE + b"x\ry\r\nz",
    "NUL bytes": b"\x00," * 8 + b"\x00",
    "a very long field": LINE + b"x" * 5_000_000,
    "fewer fields": b"1,a",
    "one field more": LINE + b"x,y",
    "very many fields": LINE + b"x" + b",y" * 5000,
    "an empty line": b"",
    "the header again": ",".join(NAMES).encode(),
}
FOLDERS = {
    "invalid UTF-8": b"Jos\xe9",
    "invalid UTF-8 as writers write it": b"Jos%E9",
    "a star": b"a*",
    "a question mark": b"a?",
    "a bracket": b"a[b",
    "quotes": b'it\'s "a"',
    "a backslash": b"\\",
    "an equals sign": b"a=b",
    "a line end": b"a\nb",
    "a percent sign": b"%",
    "a NUL byte as writers write it": b"a%00",
    "a very long field": b"x" * 200,
    "nothing": b"",
    "nothing but NULL": b"__HIVE_DEFAULT_PARTITION__",
}
"""Values in the names of folders, where a writer puts those of a column."""


MOMENTS = {
    "infinity": "'infinity'",
    "minus infinity": "'-infinity'",
    "the last timestamp": "make_timestamp(9223372036854775806)",
    "the first timestamp": "make_timestamp(-9223372022400000000)",
}
"""Timestamps that are the day of no calendar, or nearly none."""

NOBODY = ()
"""No hostile record: the table that all others are compared with."""


def rows(hostile):
    """Return the rows of a table as SQL, with a row for each hostile record."""
    records = [dict(zip(NAMES, plain, strict=True)) for plain in PLAIN]
    records += [records[0] | record for record in hostile]
    return ["(" + ", ".join(str(record[name]) for name in NAMES) + ")" for record in records]


def duckdb_table(hostile, *statements, database=":memory:"):
    with duckdb.connect(str(database)) as connection:
        connection.execute(
            "CREATE TABLE people (age DECIMAL(38, 0), word VARCHAR, size DOUBLE, "
            "rate DECIMAL(38, 20), day DATE, flag BOOLEAN, person VARCHAR, visit BIGINT, "
            "note VARCHAR)"
        )
        connection.execute(f"INSERT INTO people VALUES {', '.join(rows(hostile))}")
        for statement in statements:
            connection.execute(statement)


def write_csv(folder, hostile):
    lines = [",".join(NAMES), "1,a,0.5,0.25,2020-01-02,true,p1,1,x", "2,b,0.2,0.5,,,p2,2,y"]
    header, *records = (line.encode() for line in lines)
    content = b"\n".join([header, *records, *hostile, *records]) + b"\n"
    (folder / "people.csv").write_bytes(content)
    return "people.csv"


def write_parquet(folder, hostile):
    path = folder / "people.parquet"
    duckdb_table(hostile, f"COPY people TO '{path}' (FORMAT parquet, COMPRESSION uncompressed)")
    path.write_bytes(path.read_bytes().replace(b"Jos#", b"Jos\xe9"))
    return "people.parquet"


def write_database(folder, hostile):
    duckdb_table(hostile, database=folder / "people.duckdb")
    return "people.duckdb"


def write_lake(folder, hostile):
    """Write a folder that is partitioned by ``word``."""
    for value in (b"a", b"b", *hostile):
        place = os.fsencode(folder) + b"/lake/word=" + value
        os.makedirs(place)
        part = folder / "part.parquet"
        duckdb_table(NOBODY, f"COPY (SELECT * EXCLUDE word FROM people) TO '{part}'")
        os.rename(part, place + b"/part-0.parquet")
    return "lake"


@pytest.fixture(scope="module")
def server_table(database, server):
    """Return a function that fills a table of a database that takes any bytes for text."""
    import psycopg  # noqa: PLC0415

    name = "sqlmadp_hostile"
    url = re.sub(r"/\w+$", f"/{name}", server)
    try:
        database.execute(f"DROP DATABASE IF EXISTS {name}")
        database.execute(
            f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' TEMPLATE template0 "
            "LC_COLLATE 'C' LC_CTYPE 'C'"
        )
    except psycopg.errors.InsufficientPrivilege as denied:
        pytest.skip(str(denied))

    def write(folder, hostile):
        values = ", ".join(rows(hostile)).replace("Jos#", "Jos\udce9")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP TABLE IF EXISTS people")
            connection.execute(
                "CREATE TABLE people (age numeric(38, 0), word text, size double precision, "
                "rate numeric, day date, flag boolean, person text, visit bigint, note text)"
            )
            connection.execute(
                f"INSERT INTO people VALUES {values}".encode(errors="surrogateescape")
            )
        return f"{url}#people"

    yield write
    database.execute(f"DROP DATABASE {name}")


@pytest.fixture
def spark_table(session):
    """Return a function that lays a table of Spark's catalogue over a Parquet file."""

    def write(folder, hostile):
        write_parquet(folder, hostile)
        session.sql("DROP TABLE IF EXISTS people")
        session.sql(f"CREATE TABLE people USING parquet LOCATION '{folder}/people.parquet'")
        return "spark://#people"

    return write


@pytest.fixture
def spark_lake(session):
    """Return a function that writes a partitioned folder for Spark to read."""
    return lambda folder, hostile: f"spark://#./{write_lake(folder, hostile)}"


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Return a function that makes a source in a folder of its own, and works in that."""
    monkeypatch.setattr(noise, "add_discrete_laplace", lambda exact, _: np.zeros_like(exact))

    def run(write, hostile):
        folder = tmp_path / ("with" if hostile else "without")
        folder.mkdir()
        monkeypatch.chdir(folder)
        monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
        return write(folder, hostile)

    return run


@pytest.fixture
def measured(made, capfd, tmp_path):
    """Return a function that measures a source, and all that comes of it."""

    def run(write, hostile, schema=SCHEMA, scopes=SCOPES):
        (tmp_path / "people.toml").write_text(schema)
        domain = read_schema(tmp_path / "people.toml")
        source = Source(location=made(write, hostile), folder=Path.cwd())
        blocks = [block_of(domain, scope) for scope in scopes]
        engine = open_engine(source, table=domain.table)
        found = [engine.location, engine.columns, catalogue_problems(engine, domain)]
        engine.close()
        with Ledger.open("people.ledger", budget=Fraction(1)) as ledger:
            answers = measure(
                blocks,
                source=source,
                domain=domain,
                ledger=ledger,
                release="all",
                epsilon=Fraction(1),
                analysts=[],
                mechanism="identity",
                metadata={},
            )
        return masked([*found, answers.encode(), *capfd.readouterr(), *written()])

    return run


def block_of(domain, scope):
    names = tuple(sorted(scope))
    return Rows(names, tuple(Partition.finest(domain.column(n).size) for n in names), 1)


@pytest.fixture
def commanded(made):
    """Return a function that runs every command on a source, and all that comes of it."""

    def run(write, hostile):
        source = made(write, hostile)
        Path("people.toml").write_text(SCHEMA)
        Path("plan.toml").write_text(PLAN.format(source=source))
        Path("ana.sql").write_text(STATEMENTS)
        found = []
        for command in COMMANDS:
            result = CliRunner().invoke(main, shlex.split(command.format(source=source)))
            assert result.exit_code == 0, (command, result.output)
            found += [command, result.stdout, result.stderr]
        with Ledger.read("people.ledger") as ledger:
            found += [ledger.find(charge.release).encode() for charge in ledger.charges]
        return masked([*found, *written()])

    return run


def written():
    """Return the names of all files here, and what the notes of the ledger say."""
    notes = [path.read_text() for path in Path().rglob("*.ledger-head")]
    return [sorted(path.name for path in Path().iterdir()), *notes]


def masked(found):
    """Return the findings without times, the hashes made of them, and this folder."""
    text = repr(found).replace(str(Path.cwd()), "<folder>")
    text = re.sub(r"\d{4}-\d\d-\d\d[T ](at )?[\d:.+]+", "<time>", text)
    return re.sub(r"\b[0-9a-f]{64}\b", "<hash>", text)


KINDS = {
    "a CSV file": (write_csv, CSV),
    "a Parquet file": (write_parquet, DUCKDB),
    "a DuckDB file": (write_database, {n: r for n, r in DUCKDB.items() if n != "invalid UTF-8"}),
    "a folder": (write_lake, FOLDERS),
    "PostgreSQL": ("server_table", POSTGRES),
    "Spark": ("spark_table", DUCKDB),
    "a folder read by Spark": ("spark_lake", FOLDERS),
}
REFUSED = {("NUL bytes", "PostgreSQL"), ("invalid UTF-8", "a DuckDB file")}
"""Records that a source does not store, as two tests below try."""
RECORDS = {
    f"{name} in {kind}": (write, record)
    for kind, (write, records) in KINDS.items()
    for name, record in records.items()
}


@pytest.fixture
def write(request):
    """Return the writer of a source; that of a service is a fixture, so as to skip without it."""
    given = request.param
    return request.getfixturevalue(given) if isinstance(given, str) else given


@pytest.mark.parametrize(("write", "record"), RECORDS.values(), ids=RECORDS, indirect=["write"])
def test_one_hostile_record_changes_nothing_but_the_noise(measured, write, record):
    assert measured(write, [record]) == measured(write, NOBODY)


@pytest.mark.parametrize(
    ("write", "records"),
    [(write, [*records.values()]) for write, records in KINDS.values()],
    ids=KINDS,
    indirect=["write"],
)
def test_no_command_says_anything_else_of_a_table_of_hostile_records(commanded, write, records):
    assert commanded(write, records) == commanded(write, NOBODY)


@pytest.mark.parametrize("kind", ["parquet", "duckdb"])
@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
@pytest.mark.parametrize("stored", ["TIMESTAMP", "TIMESTAMP WITH TIME ZONE"])
def test_a_hostile_timestamp_changes_nothing_but_the_noise(measured, kind, moment, stored):
    def write(folder, hostile):
        path = folder / f"people.{kind}"
        with duckdb.connect(str(path) if kind == "duckdb" else ":memory:") as connection:
            connection.execute(f"CREATE TABLE people (day {stored})")
            connection.execute("INSERT INTO people VALUES ('2020-01-02 23:59:59')")
            for each in hostile:
                connection.execute(f"INSERT INTO people VALUES ({each})")
            if kind == "parquet":
                connection.execute(f"COPY people TO '{path}'")
        return path.name

    options = {"schema": DAYS, "scopes": [("day",)]}
    assert measured(write, [moment], **options) == measured(write, NOBODY, **options)


def test_duckdb_refuses_text_that_is_not_utf_8(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"word\nJos\xe9\n")
    with (
        duckdb.connect(str(tmp_path / "people.duckdb")) as connection,
        pytest.raises(duckdb.Error, match=r"(?i)utf-?8|unicode"),
    ):
        connection.execute(f"CREATE TABLE people AS FROM read_csv('{tmp_path}/t.csv')")


def test_postgresql_refuses_nul_bytes(server_table, tmp_path):
    import psycopg  # noqa: PLC0415

    with pytest.raises(psycopg.Error):
        server_table(tmp_path, [TEXT["NUL bytes"]])


def test_the_comparison_sees_what_a_record_changes_without_the_swap(measured, monkeypatch):
    monkeypatch.setattr(noise, "add_discrete_laplace", lambda exact, _: exact)
    assert measured(write_parquet, [{"age": 7}]) != measured(write_parquet, NOBODY)
