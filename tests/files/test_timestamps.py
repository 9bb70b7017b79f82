"""Timestamp columns: declared with a step of time, and read as the start of it."""

import json
from datetime import datetime

import duckdb
import pytest
from click.testing import CliRunner

from sqlmadp.cli import main
from sqlmadp.errors import SchemaError
from sqlmadp.files.schema import read_schema

SCHEMA = """\
table = "visits"
[columns.arrived]
type = "timestamp"
every = "hour"
min = 2024-02-28
max = 2024-03-02
[columns.ward]
type = "category"
values = ["a", "b"]
"""
PLAN = """\
schema = "visits.toml"
source = "{source}"
epsilon = "1000000000"
[ledger]
path = "{source}.ledger"
budget = "1000000000"
[analysts.ana]
queries = "ana.sql"
"""
STATEMENTS = {
    "hours": "SELECT hour(arrived) AS h, COUNT(*) AS n FROM visits GROUP BY h HAVING n > 0",
    "days": "SELECT arrived::DATE AS d, ward, COUNT(*) AS n FROM visits GROUP BY ALL HAVING n > 0",
    "night": "SELECT COUNT(*) FROM visits WHERE extract(hour FROM arrived) NOT BETWEEN 6 AND 21",
    "later": "SELECT COUNT(*) FROM visits WHERE arrived >= TIMESTAMP '2024-02-29 12:00:00'",
    "wait": "SELECT AVG(date_diff('hour', arrived, TIMESTAMP '2024-04-01')) FROM visits",
    "unknown": "SELECT COUNT(*) FROM visits WHERE arrived IS NULL",
}
RECORDS = """\
SELECT CASE WHEN i % 50 = 0 THEN NULL WHEN i % 51 = 0 THEN TIMESTAMP '1999-01-01' ELSE
    TIMESTAMP '2024-02-28' + to_seconds((i * 7919) % 345600) END AS arrived,
    CASE i % 3 WHEN 0 THEN 'a' WHEN 1 THEN 'b' END AS ward
FROM range(500) t(i)
"""


def shown(rows):
    """Return rows in order, without those of a NULL group, as JSON has them."""
    texts = ([json.loads(json.dumps(value, default=str)) for value in row] for row in rows)
    return sorted(
        [round(v, 3) if isinstance(v, float) else v for v in row]
        for row in texts
        if None not in row
    )


def read(tmp_path, text):
    (tmp_path / "visits.toml").write_text(text)
    return read_schema(tmp_path / "visits.toml").column("arrived")


def test_a_cell_is_a_step_of_time_and_a_last_date_is_all_of_its_day(tmp_path):
    column = read(tmp_path, SCHEMA)
    assert (column.declared, column.sql_type) == (4 * 24, "TIMESTAMP")
    assert column.value(0) == datetime(2024, 2, 28)
    assert column.value(column.declared - 1) == datetime(2024, 3, 2, 23)
    assert column.value(column.declared) is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('every = "hour"\n', "", "every is missing"),
        ('"hour"', '"week"', 'write "hour", "minute" or "second"'),
        ("2024-02-28", "2024-02-28T00:30:00", "a moment at which hours begin"),
        ("2024-02-28", "2024-02-28T00:00:00Z", "a date or a moment"),
        ("max = 2024-03-02", "max = 2023-03-02", "above max"),
        ('"hour"', '"second"', None),
        ('"hour"\nmin = 2024-02-28', '"second"\nmin = 2023-02-28', "at most 16777216 values"),
    ],
)
def test_what_is_wrong_with_a_timestamp_column_is_said(tmp_path, old, new, message):
    if message is None:
        assert read(tmp_path, SCHEMA.replace(old, new)).declared == 4 * 86_400
        return
    with pytest.raises(SchemaError) as caught:
        read(tmp_path, SCHEMA.replace(old, new))
    assert message in str(caught.value)


@pytest.mark.parametrize("source", ["visits.parquet", "visits.csv", "visits.duckdb"])
def test_rows_are_those_of_duckdb_where_the_rest_of_an_hour_does_not_matter(tmp_path, source):
    path = tmp_path / source
    if source.endswith(".duckdb"):
        with duckdb.connect(str(path)) as connection:
            connection.execute(f"CREATE TABLE visits AS {RECORDS}")
    else:
        duckdb.execute(f"COPY ({RECORDS}) TO '{path}'")
    (tmp_path / "visits.toml").write_text(SCHEMA)
    (tmp_path / "plan.toml").write_text(PLAN.format(source=source))
    asked = "".join(f"-- name: {name}\n{sql};\n" for name, sql in STATEMENTS.items())
    (tmp_path / "ana.sql").write_text(asked)
    done = CliRunner().invoke(main, ["release", str(tmp_path / "plan.toml"), "--json", "-q"])
    assert done.exit_code == 0, done.output
    released = json.loads(done.stdout)["analysts"]["ana"]
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE raw AS {RECORDS}")
    # What is undeclared is read as NULL; groups of NULL are not shown.
    connection.execute(
        "CREATE VIEW visits AS SELECT nullif(arrived, '1999-01-01') AS arrived, ward FROM raw"
    )
    for name, sql in STATEMENTS.items():
        expected = connection.execute(sql).fetchall()
        assert shown(released[name]["rows"]) == shown(expected), name
