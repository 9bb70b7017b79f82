"""Conditions that tie columns together, ``a < b``: one joint column, from plan to late answers."""

import json

import duckdb
import pytest
from click.testing import CliRunner
from quick import quick_first

from sqlmadp.cli import main
from sqlmadp.errors import SqlError
from sqlmadp.files.plan import Plan
from sqlmadp.release.bound_plan import BoundPlan
from sqlmadp.release.release import release
from sqlmadp.table.joint import has_joint

SCHEMA = """
table = "orders"
[columns.country]
type = "category"
values = ["AT", "BE", "CH"]
[columns.promised]
type = "integer"
min = 0
max = 20
[columns.delivered]
type = "integer"
min = 0
max = 24
nullable = true
[columns.quantity]
type = "integer"
min = 0
max = 9
[columns.weight]
type = "real"
min = 0.0
max = 10.0
"""

RECORDS = """
SELECT ['AT', 'BE', 'CH'][1 + i % 3] AS country, i * 7 % 21 AS promised,
CASE WHEN i % 5 > 0 THEN i * 11 % 25 END AS delivered, i % 10 AS quantity,
(i * 13 % 100) / 10.0 AS weight
FROM range(700) AS t(i)
"""

LATE = "SELECT country, COUNT(*) AS n FROM orders WHERE promised < delivered GROUP BY country"
STATEMENTS = {
    "late": LATE,
    "both": "SELECT country, COUNT(*) FILTER (WHERE promised < delivered) AS n, COUNT(*) AS m, "
    "SUM(quantity) AS w FROM orders WHERE delivered IS NOT NULL GROUP BY country",
    "very": "SELECT COUNT(*) AS n FROM orders WHERE delivered - promised > 7",
    "by_days": "SELECT delivered - promised AS days, COUNT(*) AS n FROM orders "
    "WHERE delivered > promised GROUP BY days",
    "later": "SELECT SUM(GREATEST(promised, delivered)) AS n FROM orders",
    "none": "SELECT COUNT(*) AS n FROM orders WHERE (promised < delivered) IS NULL",
    "promises": "SELECT promised, COUNT(*) AS n FROM orders GROUP BY promised",
}
EXACT = "1000000000"


@pytest.fixture
def orders(plans):
    (plans.folder / "orders.toml").write_text(SCHEMA)
    path = plans.folder / "orders.parquet"
    duckdb.execute(f"COPY ({RECORDS}) TO '{path}' (FORMAT parquet)")

    def write(analysts, **options):
        given = {
            name: "\n".join(f"-- name: {each}\n{STATEMENTS[each]};" for each in own)
            for name, own in analysts.items()
        }
        options = {"budget": "3000000000", **options}
        return plans.write(given, schema="orders.toml", source="orders.parquet", **options)

    write.folder = plans.folder
    return write


def true_rows(folder, sql):
    connection = duckdb.connect()
    connection.execute(f"CREATE VIEW orders AS FROM '{folder / 'orders.parquet'}'")
    return sorted(connection.execute(sql).fetchall(), key=str)


def rounded(result):
    return sorted((tuple(_plain(v) for v in row) for row in result.rows), key=str)


def _plain(value):
    return round(value, 3) if isinstance(value, float) else value


def same(result, expected):
    found = [row for row in rounded(result) if any(v != 0 for v in row[1:]) or len(row) == 1]
    assert [tuple(map(_close, row)) for row in found] == [tuple(map(_close, r)) for r in expected]


def _close(value):
    return round(float(value), 2) if isinstance(value, (int, float)) else value


def test_a_tied_condition_is_few_vertices(orders):
    asked = BoundPlan.bind(Plan.open(orders({"alice": ["late"], "bob": ["very", "none"]})))
    [late] = asked.queries[0][0].aggregates
    assert has_joint(late.scope)
    assert late.shape == (4, 2)  # A country that is not declared is a fourth.
    assert all(rows.size <= 4 for query in asked.queries[1] for rows in query.aggregates)


@pytest.mark.parametrize(
    "mechanism", quick_first(1, ["waterfilling", "independent", "utilitarian", "identity"])
)
def test_answers_are_those_of_duckdb(orders, mechanism):
    few = ["late", "very", "none"]
    names = few if mechanism == "identity" else list(STATEMENTS)
    path = orders({"alice": names[:3], "bob": names[2:]}, epsilon=EXACT, mechanism=mechanism)
    if mechanism == "identity":
        schema = path.parent / "orders.toml"
        schema.write_text(schema.read_text().split("[columns.quantity]")[0])
    done = release(Plan.open(path))
    for analyst, own in (("alice", names[:3]), ("bob", names[2:])):
        for name in own:
            expected = true_rows(orders.folder, STATEMENTS[name])
            same(done.rows(analyst, name), expected)
    assert all(each.ratio <= 1 + 1e-9 for each in done.certificate.analysts.values())


def test_free_statements_are_answered_or_refused_in_declared_columns(orders):
    path = orders({"alice": ["late", "promises"]}, epsilon=EXACT)
    done = release(Plan.open(path))
    same(
        done.query("SELECT COUNT(*) AS n FROM orders WHERE delivered > promised"),
        true_rows(orders.folder, "SELECT COUNT(*) AS n FROM orders WHERE delivered > promised"),
    )
    with pytest.raises(SqlError) as refused:
        done.query("SELECT COUNT(*) AS n FROM orders WHERE delivered > promised + 1")
    told = str(refused.value)
    assert "country x delivered x promised" in told
    assert "\x1f" not in told
    assert "\x1e" not in told


def test_a_statement_that_was_measured_by_declared_columns_only_is_answered(orders):
    path = orders({"alice": ["promises"]}, epsilon=EXACT)
    table = "SELECT promised, delivered, COUNT(*) AS n FROM orders GROUP BY ALL"
    (path.parent / "alice.sql").write_text(table)
    done = release(Plan.open(path))
    sql = "SELECT COUNT(*) AS n FROM orders WHERE promised < delivered"
    same(done.query(sql), true_rows(orders.folder, sql))
    exact = done.query(sql).rmse["n"][0]
    assert 0 < exact < 1e-3


@pytest.mark.slow
def test_an_analyst_who_joins_late_gets_the_same_answers_and_nobody_is_worse_off(orders):
    def plan(*names):
        given = {"alice": ["late", "both"], "bob": ["very", "late"]}
        path = orders({name: given[name] for name in names})
        text = path.read_text().replace('epsilon = "1"\n', "")
        for name in names:
            text = text.replace(f"[analysts.{name}]", f'[analysts.{name}]\nepsilon = "{EXACT}"')
        path.write_text(text)
        return Plan.open(path)

    first = release(plan("alice"))
    second = release(plan("alice", "bob"))
    assert second.measurement.metadata["joint"]
    same(second.rows("alice", "late"), true_rows(orders.folder, LATE))
    same(second.rows("bob", "very"), true_rows(orders.folder, STATEMENTS["very"]))
    before, after = first.rows("alice", "late").rmse["n"], second.rows("alice", "late").rmse["n"]
    assert all(now <= was * (1 + 1e-9) for was, now in zip(before, after, strict=True))
    assert second.certificate.analysts["alice"].interference["bob"] <= 1 + 1e-9


def test_a_real_column_that_is_cut_later_keeps_what_was_measured(orders):
    path = orders({"alice": ["promises"]}, epsilon=EXACT)
    heavy = "SELECT COUNT(*) AS n FROM orders WHERE (weight > 5) = (promised > 7)"
    sql = f"-- name: heavy\n{heavy};\n-- name: light\n{LATE} HAVING COUNT(*) > 0"
    (path.parent / "alice.sql").write_text(sql)
    done = release(Plan.open(path))
    same(done.query(heavy), true_rows(orders.folder, heavy))
    with pytest.raises(SqlError, match="weight"):
        done.query("SELECT COUNT(*) AS n FROM orders WHERE weight > 3")


@pytest.mark.slow
def test_commands_name_declared_columns(orders, tmp_path):
    path = orders({"alice": ["late", "both"], "bob": ["very", "by_days"]}, epsilon="1")

    def run(*arguments):
        result = CliRunner().invoke(main, [str(argument) for argument in arguments])
        assert result.exit_code == 0, result.output
        return result.output

    figures = json.loads(run("plan", path, "--json", "-q"))
    told = json.dumps(figures)
    statements = figures["mechanisms"]["waterfilling"]["analysts"]["alice"]
    assert statements
    told += run("release", path, "--dry-run") + run("report", path, "--out", tmp_path / "page.html")
    told += run("release", path, "-q")
    told += run("report", path, "--out", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "country × delivered × promised" in page
    for separator in ("\x1f", "\x1e", "\\u001f", "\\u001e"):
        assert separator not in told + page
