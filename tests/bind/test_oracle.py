"""The oracle: without noise, every accepted statement returns what DuckDB returns.

A statement is bound, its blocks are applied to the exact counts of a raw table, and the
outer SELECT runs over the answers.  The rows must be DuckDB's own on the raw table, but for
groups that have no record.
"""

import functools
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import numpy as np
import people_table
import pytest
import statement_generator as generator
from everyday_sql import CONDITIONS, STATEMENTS
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sqlmadp.answer.rows import Desk
from sqlmadp.bind.bind import BoundQuery, bind, bind_all, cuts
from sqlmadp.bind.evaluate import Evaluator
from sqlmadp.sql.statements import split
from sqlmadp.table.domain import Column, Domain
from sqlmadp.table.joint import realised
from sqlmadp.table.rows import Rows

records = st.tuples(
    st.none() | st.integers(-1, 4),
    st.sampled_from([5, 1, 2, None]),
    st.sampled_from(["m", "f", "Other", None]),
    st.none() | st.integers(0, 6).map(lambda days: people_table.FIRST_DAY + timedelta(days)),
    st.none() | st.sampled_from([0.0, 10.0, 10.5, 99.5, 100.0]) | st.floats(0, 100),
    st.sampled_from([True, False, None]),
)
tables = st.lists(records, max_size=40)

DOMAIN = people_table.DOMAIN
# WHERE takes what is no BOOLEAN too.
PREDICATES = [*generator.PREDICATES, "age", "NULL"]
atoms = st.sampled_from(PREDICATES)
predicates = st.recursive(
    atoms,
    lambda inner: st.one_of(
        inner.map(lambda p: f"NOT ({p})"),
        st.lists(inner, min_size=2, max_size=3).map(lambda ps: " AND ".join(f"({p})" for p in ps)),
        st.lists(inner, min_size=2, max_size=3).map(lambda ps: " OR ".join(f"({p})" for p in ps)),
    ),
    max_leaves=5,
)
KEYS = [*generator.KEYS, "'x'"]
keys = st.lists(st.sampled_from(KEYS), unique=True, max_size=3)
counts = st.lists(
    st.one_of(
        st.just("COUNT(*)"),
        st.sampled_from(["COUNT(sex)", "COUNT(income)", "COUNT()", "COUNT(age + level)"]),
        predicates.map(lambda p: f"COUNT(*) FILTER (WHERE {p})"),
        predicates.map(lambda p: f"COUNT(level) FILTER ({p})"),
    ),
    min_size=1,
    max_size=3,
)


def cell_of(column: Column, value: object) -> int:
    """Return the cell of a declared value, without any help from the code under test."""
    if value is None:
        return column.declared
    if column.type == "real":
        edges = list(column.edges)
        if value in edges:
            return 2 * edges.index(value)
        return 2 * sum(edge < value for edge in edges) - 1
    declared = [column.value(cell) for cell in range(column.declared)]
    return declared.index(value)


def data_vector(records: list[tuple], rows: Rows, domain: Domain) -> np.ndarray:
    """Return, for every vertex, the sum over records of the products of their weights."""
    vector = np.zeros(rows.size)
    names = [column.name for column in domain.columns]
    functions = [part.functions.toarray() for part in rows.parts]
    for record in records:
        weights = np.ones(1)
        for name, function in zip(rows.scope, functions, strict=True):
            cell = cell_of(domain.column(name), record[names.index(name)])
            weights = np.kron(weights, function[:, cell])
        vector += weights
    return vector


class Exact:
    """Answers from the counts themselves, as a release without noise would."""

    noise_variance = 0.0

    def __init__(self, rows: list[tuple], domain: Domain) -> None:
        self._rows, self._domain = rows, domain

    def answers(self, rows: Rows) -> np.ndarray:
        rows = realised(rows)
        return rows.matrix @ data_vector(self._rows, rows, self._domain)


DESK = Desk()


def answer(query: BoundQuery, rows: list[tuple], domain: Domain) -> list[tuple]:
    """Return the rows of a bound query, as a release without noise would."""
    return DESK.rows(query, Exact(rows, domain))


def duckdb_rows(sql: str, rows: list[tuple]) -> tuple[list[tuple], list[tuple]]:
    """Return DuckDB's own result columns and rows on the raw table."""
    result = people_table.reference_connection(rows).execute(sql)
    return [(name, str(kind)) for name, kind, *_ in result.description], result.fetchall()


@functools.cache
def evaluator(*, nullable: bool = True) -> Evaluator:
    """Return an evaluator whose domain has the cuts of everything that is generated here."""
    expressions = [*PREDICATES, *KEYS, *generator.NUMBERS]
    sql = ";".join(f"SELECT COUNT(*) FROM people WHERE ({e}) IS NULL" for e in expressions)
    columns = tuple(replace(column, nullable=nullable) for column in DOMAIN.columns)
    domain = replace(DOMAIN, columns=columns)
    return Evaluator(domain.with_cuts(cuts(split(sql, file="oracle.sql"), domain)))


def bind_one(sql: str, *, nullable: bool = True) -> tuple[BoundQuery, Domain]:
    (statement,) = split(sql, file="oracle.sql")
    chosen = evaluator(nullable=nullable)
    return bind(statement, chosen), chosen.domain


def statement_of(where: str | None, group: list[str], counted: list[str]) -> str:
    sql = f"SELECT {', '.join([*group, *counted])} FROM people"
    sql += f" WHERE {where}" if where else ""
    return sql + (f" GROUP BY {', '.join(group)}" if group else "")


oracle = settings(
    max_examples=75, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)


@oracle
@given(tables, st.none() | predicates, keys, counts)
def test_every_group_has_the_counts_of_duckdb_and_the_others_have_none(rows, where, group, counted):
    sql = statement_of(where, group, counted)
    query, domain = bind_one(sql)
    ours = answer(query, rows, domain)
    columns, theirs = duckdb_rows(sql, rows)
    assert list(query.columns) == columns
    extra = Counter(ours) - Counter(theirs)
    assert not Counter(theirs) - Counter(ours)
    assert all(set(row[len(group) :]) == {0} for row in extra)
    assert all(count == 1 for count in Counter(row[: len(group)] for row in ours).values())


@oracle
@given(tables, st.none() | predicates, keys, counts)
def test_a_column_that_is_not_nullable_hides_groups_of_null_and_changes_no_other(
    rows, where, group, counted
):
    sql = statement_of(where, group, counted)
    query, domain = bind_one(sql, nullable=False)
    ours, theirs = Counter(answer(query, rows, domain)), Counter(duckdb_rows(sql, rows)[1])
    assert all(set(row[len(group) :]) == {0} for row in ours - theirs)
    assert all(None in row[: len(group)] for row in theirs - ours)
    bare = [place for place, key in enumerate(group) if key in domain]
    assert all(row[place] is not None for row in ours for place in bare)


def test_null_is_a_group_where_declared_values_make_it():
    records = [(1, None, None, None, None, None), (None,) * 6, (None, 2, None, None, None, None)]
    for key, expected in {
        "level": [(5, 0), (1, 0), (2, 1)],
        "nullif(level, 1)": [(5, 0), (None, 2), (2, 1)],
        "coalesce(level, 0)": [(5, 0), (1, 0), (2, 1), (0, 2)],
        "level IS NULL": [(False, 1), (True, 2)],
    }.items():
        sql = f"SELECT {key} AS k, COUNT(*) FROM people GROUP BY k"
        query, domain = bind_one(sql, nullable=False)
        assert answer(query, records, domain) == expected


@oracle
@given(tables, st.none() | predicates, keys.filter(len), counts)
def test_having_and_order_by_give_exactly_the_rows_of_duckdb(rows, where, group, counted):
    order = ", ".join(f"{place + 1} DESC NULLS FIRST" for place in range(len(group)))
    sql = f"{statement_of(where, group, counted)} HAVING COUNT(*) > 0 ORDER BY {order} LIMIT 7"
    query, domain = bind_one(sql)
    assert answer(query, rows, domain) == duckdb_rows(sql, rows)[1]


@settings(max_examples=250, deadline=None, print_blob=True)
@given(st.integers(0, 2**32), st.integers(0, 2**32))
@example(7044622, 7044622)  # A SUM that is NULL for any table beside one that is 0.
def test_a_generated_statement_returns_the_rows_of_duckdb(seed, data):
    made = generator.Generator(seed).make()
    (statement,) = split(made.sql, file="oracle.sql")
    query = bind(statement, evaluator())
    records = people_table.as_declared(people_table.table(data))
    raw = people_table.possible_connection(records)
    assert [(name, str(kind)) for name, kind, *_ in raw.sql(made.sql).description] == [
        (name, kind) for name, kind in query.columns
    ]
    ours = answer(query, records, evaluator().domain)
    theirs = raw.execute(made.reference).fetchall()
    assert people_table.same_rows(ours, theirs, ordered=made.ordered), (ours, theirs)


EVERYDAY = [*(f"SELECT COUNT(*) FROM people WHERE {each}" for each in CONDITIONS), *STATEMENTS]
MANY = people_table.as_declared(people_table.table(5, size=400))  # No group is empty.


@pytest.fixture(scope="module")
def everyday():
    statements = split(";\n".join(EVERYDAY), file="everyday.sql")
    domain = DOMAIN.with_cuts(cuts(statements, DOMAIN))
    bound = bind_all(statements, Evaluator(domain))
    return dict(zip(EVERYDAY, bound, strict=True)), domain, people_table.reference_connection(MANY)


@pytest.mark.parametrize("sql", EVERYDAY)
def test_an_everyday_spelling_returns_the_rows_of_duckdb(everyday, sql):
    queries, domain, raw = everyday
    theirs = raw.sql(sql)
    described = [(name, str(kind)) for name, kind, *_ in theirs.description]
    assert list(queries[sql].columns) == described
    assert people_table.same_rows(answer(queries[sql], MANY, domain), theirs.fetchall())


@oracle
@given(st.none() | predicates, keys, counts)
def test_no_partition_of_counts_can_be_made_coarser(where, group, counted):
    query, _ = bind_one(statement_of(where, group, counted))
    for rows in query.aggregates:
        dense = rows.matrix.toarray().reshape(rows.count, *rows.shape)
        for axis in range(1, dense.ndim):
            slices = {part.tobytes() for part in np.moveaxis(dense, axis, 0)}
            assert len(slices) == dense.shape[axis] > 1
