"""Reading: what sqlglot reads is what DuckDB reads, or the statement is refused."""

import sys

import pytest
from people_table import DOMAIN, reference_connection, table
from sqlglot import exp
from statement_generator import KEYS, PREDICATES, Generator

from sqlmadp.bind.bind import bind
from sqlmadp.bind.evaluate import Evaluator
from sqlmadp.errors import SqlError
from sqlmadp.sql import grammar
from sqlmadp.sql.limits import DEFAULT, Limits
from sqlmadp.sql.read import Reader, Reading
from sqlmadp.sql.sandbox import locked_connection
from sqlmadp.sql.statements import Statement
from sqlmadp.sql.tree import span, text

SILENT = [
    "age NOT BETWEEN 1 AND 2 = member",
    "member = age NOT IN (1, 2)",
    "NOT age BETWEEN 1 AND 2",
    "NOT age IN (1, 2) = member",
    "~age * 2",
    "~age + 1",
    "-age ** 2",
    "age - (level - 1)",
    "age - level - 1",
    "age / (level * 2)",
    "DATE '2020-01-01'::VARCHAR",
    "INTERVAL '2 days ago'",
    "day + INTERVAL 3 DAY",
    "date_trunc(CASE WHEN member THEN 'month' ELSE 'year' END, day)",
    "1e3+1e3",
    "1e3 + 1e3",
    "log2(8)",
    "log(2, 8)",
    "jaro_winkler_similarity(sex, 'mm', 0.9)",
    "regexp_matches(sex, 'M', 'i')",
    "regexp_replace(sex, '[a-z]', 'x', 'g')",
    "regexp_extract(sex, '([a-z])', 1, 'i')",
    "first_value(level IGNORE NULLS) OVER (ORDER BY age, day)",
    ".5",
    "+NULL",
    "+age",
    "@age",
    "sex[1]",
    "sex[1:2]",
    "sex[-1]",
    "age IN [1, 2]",
    "1_000 + 1",
    "position('t' IN sex)",
    "trim(BOTH 'm' FROM sex)",
    "substring(sex FROM 2 FOR 1)",
    "extract(dow FROM day)",
    "age IS NOT NULL IS NULL",
    "sex NOT LIKE '%t%' ESCAPE '!'",
    "sex SIMILAR TO 'm|f'",
    "sex ~ 'm'",
    "age // 2 * 2",
    "7 % 4 ** 2",
    "CAST(age AS DECIMAL(4, 1)) / 3",
    "CASE age WHEN 1 THEN 'one' END || 'x'",
    "TRY_CAST(sex AS INTEGER)",
    "coalesce(level, age) = 2",
    "ifnull(level, age) = 2",
    "sex NOT NULL",
    "sex NOTNULL = member",
    "NOT sex IS NULL",
    "extract(years FROM day)",
    "extract(MONTHS FROM day)",
    "extract(weeks FROM day)",
    "extract(millisecond FROM day::TIMESTAMP)",
    "extract(centuries FROM day)",
    "substring(sex FOR 1)",
    "ARRAY[age, level]",
    "[age, level]",
]
"""Expressions that sqlglot has been seen to read or write differently from DuckDB."""


@pytest.fixture(scope="module")
def raw():
    return reference_connection(table(3))


@pytest.fixture(scope="module")
def reader():
    return Reader(locked_connection(), DEFAULT, DOMAIN)


def read(reader, sql: str) -> Reading | SqlError:
    (found,) = reader.read([Statement("a.sql", "q1", sql)])
    return found


@pytest.mark.parametrize("expression", SILENT)
def test_an_expression_means_the_same_after_reading_or_is_refused(reader, raw, expression):
    sql = f"SELECT {expression} AS v FROM people"
    found = read(reader, sql)
    if isinstance(found, SqlError):
        assert found.code in ("unfaithful", "construct")
        return
    ours, theirs = raw.sql(text(found.tree)), raw.sql(sql)
    assert [str(kind) for kind in ours.types] == [str(kind) for kind in theirs.types]
    assert ours.fetchall() == theirs.fetchall()


def test_few_of_them_have_to_be_refused(reader):
    refused = [e for e in SILENT if isinstance(read(reader, f"SELECT {e} FROM people"), SqlError)]
    assert refused == ["1e3+1e3"]


def test_generated_statements_lose_nothing(reader):
    generator = Generator(11)
    made = [generator.make().sql for _ in range(300)]
    made += [f"SELECT COUNT(*) FROM people WHERE {each}" for each in (*PREDICATES, *KEYS)]
    found = reader.read([Statement("a.sql", f"q{n}", sql) for n, sql in enumerate(made)])
    assert [sql for sql, each in zip(made, found, strict=True) if isinstance(each, SqlError)] == []


@pytest.mark.parametrize(
    "sql",
    [
        "WITH w(sex, x) AS (VALUES ('m', 1.5), ('f', 2.0)), n AS (SELECT sex, COUNT(*) AS n "
        "FROM people GROUP BY sex HAVING COUNT(*) > 0) SELECT sex, n * x FROM n JOIN w USING (sex)",
        "WITH n AS (SELECT sex, COUNT(*) AS n FROM people GROUP BY sex HAVING COUNT(*) > 0) "
        "SELECT n.*, n.* EXCLUDE (sex) FROM n",
    ],
    ids=["VALUES in a CTE", "the star of one relation"],
)
def test_what_runs_over_answers_is_read_as_duckdb_reads_it(reader, raw, sql):
    found = read(reader, sql)
    assert isinstance(found, Reading)
    assert sorted(map(str, raw.sql(text(found.tree)).fetchall())) == sorted(
        map(str, raw.sql(sql).fetchall())
    )
    query = bind(Statement("a.sql", "q1", sql), Evaluator(DOMAIN))
    described = raw.sql(sql).description
    assert list(query.columns) == [(name, str(kind)) for name, kind, *_ in described]


def test_a_star_of_records_is_refused_in_every_spelling():
    for star in ("*", "p.*", "p.* EXCLUDE (age)"):
        with pytest.raises(SqlError, match="rows of individuals"):
            bind(Statement("a.sql", "q1", f"SELECT {star} FROM people p"), Evaluator(DOMAIN))


@pytest.mark.parametrize("condition", ["age = ANY([1, 2])", "age <> ALL([1, 2])"])
def test_a_list_of_values_is_asked_for_by_in(condition):
    sql = f"SELECT COUNT(*) FROM people WHERE {condition}"
    with pytest.raises(SqlError) as caught:
        bind(Statement("a.sql", "q1", sql), Evaluator(DOMAIN))
    assert "x IN (1, 2)" in caught.value.problems[0].hint


def test_sqlglot_says_nothing_of_its_own(capfd):
    with pytest.raises(SqlError):
        bind(Statement("a.sql", "q1", "WITH a AS (SELECT 1 > [1]), b"), Evaluator(DOMAIN))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (exp.Sub, lambda self, node: self.binary(node, "+")),
        (exp.GT, lambda self, node: self.binary(node, ">=")),
        (exp.Literal, lambda self, node: "1"),
        (exp.Not, lambda self, node: self.sql(node, "this")),
    ],
)
def test_a_planted_mistake_in_what_is_written_is_refused_where_it_stands(
    reader, monkeypatch, kind, wrong
):
    sql = "SELECT COUNT(*) FROM people WHERE age = 1 AND NOT (level - 2 > 3)"
    assert isinstance(read(reader, sql), Reading)
    writer = grammar._Generator(dialect=grammar.GRAMMAR, comments=False, normalize_functions=False)
    writer._dispatch = {**writer._dispatch, kind: wrong}
    monkeypatch.setattr(grammar._own, "writer", writer, raising=False)
    found = read(reader, sql)
    assert isinstance(found, SqlError)
    (problem,) = found.problems
    assert problem.code == "unfaithful"
    assert problem.column >= 35


def test_every_node_knows_its_place_past_accents_and_lines(reader):
    sql = "SELECT COUNT(*)\nFROM people WHERE sex = 'é' AND nothing(age + 1) > 2"
    found = read(reader, sql)
    call = next(node for node in found.tree.find_all(exp.Anonymous) if node.this == "nothing")
    start, length = span(call)
    assert sql[start : start + length] == "nothing(age + 1)"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM people WHERE " + " OR ".join(f"age = {n}" for n in range(1000)),
        "SELECT COUNT(*) FROM people WHERE " + "(" * 95 + "age = 1" + ")" * 95,
        "SELECT COUNT(*) FROM people WHERE " + "abs(" * 95 + "age" + ")" * 95 + " = 1",
        "SELECT COUNT(*) FROM people WHERE " + "CASE WHEN member THEN " * 60 + "1" + " END" * 60,
    ],
    ids=["1,000 terms", "95 parentheses", "95 calls", "60 CASEs"],
)
def test_long_chains_and_deep_nesting_are_bound_as_ever(sql):
    before = sys.getrecursionlimit()
    bind(Statement("a.sql", "q1", sql), Evaluator(DOMAIN))
    assert sys.getrecursionlimit() == before


@pytest.mark.parametrize("count", [12, 14, 40])
def test_aliases_of_aliases_are_refused_before_they_are_replaced(count):
    aliases = ", ".join(f"a{n} + a{n} AS a{n + 1}" for n in range(count))
    sql = f"SELECT COUNT(*), age AS a0, {aliases} FROM people GROUP BY ALL"
    with pytest.raises(SqlError) as caught:
        bind(Statement("a.sql", "q1", sql), Evaluator(DOMAIN))
    assert caught.value.code == "too-large"


def test_nesting_is_bounded_before_sqlglot_parses():
    limits = Limits(nesting=10)
    sql = "SELECT COUNT(*) FROM people WHERE " + "(" * 20 + "age = 1" + ")" * 20
    with pytest.raises(SqlError, match="deeper than 10 levels"):
        bind(Statement("a.sql", "q1", sql), Evaluator(DOMAIN, limits))


@pytest.mark.parametrize("operator", ["/", "*", "%", "=", "||", "<"])
def test_an_operator_without_an_operand_is_refused(operator):
    sql = (
        f"SELECT MODE({operator} 2) AS a FROM people JOIN levels USING (level) "
        "WHERE income * 2 + NULL <= 41"
    )
    with pytest.raises(SqlError):
        bind(Statement("a.sql", "q1", sql), Evaluator(DOMAIN))


def test_what_duckdb_reads_and_sqlglot_does_not_is_refused_where_it_stands(reader):
    found = read(reader, "SELECT COUNT(*) FROM people WHERE age! = 2")
    assert isinstance(found, SqlError)
    assert found.code == "construct"
    assert found.problems[0].column >= 38
