"""The oracle: without noise, every accepted statement returns what DuckDB returns.

A statement is bound, its blocks are applied to the exact counts of a raw table, and the
outer SELECT runs over the answers.  The rows must be DuckDB's own on the raw table, but for
groups that have no record.
"""

import functools
from collections import Counter
from datetime import date, timedelta

import duckdb
import numpy as np
import statement_generator as generator
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlmadp.answer.rows import Desk
from sqlmadp.schema.domain import Column, Domain
from sqlmadp.schema.marginal import Block, Marginal, row_major_strides
from sqlmadp.sql.bind import BoundQuery, bind, cuts
from sqlmadp.sql.evaluate import Evaluator
from sqlmadp.sql.statements import split

FIRST_DAY = date(2020, 1, 29)

DOMAIN = Domain(
    table="people",
    columns=(
        Column(name="age", type="integer", minimum=-1, maximum=4),
        Column(name="level", type="category", values=(5, 1, 2), nullable=True),
        Column(name="sex", type="category", values=("m", "f", "Other"), nullable=True),
        Column(name="day", type="date", minimum=FIRST_DAY, maximum=date(2020, 3, 2)),
        Column(name="income", type="real", minimum=0.0, maximum=100.0, nullable=True),
        Column(name="member", type="boolean", nullable=True),
    ),
)

records = st.tuples(
    st.integers(-1, 4),
    st.sampled_from([5, 1, 2, None]),
    st.sampled_from(["m", "f", "Other", None]),
    st.integers(0, 33).map(lambda days: FIRST_DAY + timedelta(days)),
    st.none() | st.sampled_from([0.0, 10.0, 10.5, 99.5, 100.0]) | st.floats(0, 100),
    st.sampled_from([True, False, None]),
)
tables = st.lists(records, max_size=40)

ATOMS = {
    "age": [
        "age < 3",
        "age <> 2",
        "age BETWEEN 0 AND 2",
        "age NOT BETWEEN 1 AND 2",
        "age IN (1, 3)",
        "age NOT IN (1, NULL)",
        "age % 2 = 1",
        "age // 2 = 1",
        "age / 2 > 0.6",
        "-age >= 0",
        "CAST(age AS VARCHAR) LIKE '_1'",
        "10 / age > 3",
        "age",
        "nullif(age, 2) IS NULL",
    ],
    "level": [
        "level = 5",
        "level IS NULL",
        "level > 1 AND level < 5",
        "level IN (1, 2) OR level IS NULL",
        "level IS DISTINCT FROM 2",
        "CASE level WHEN 1 THEN TRUE WHEN 2 THEN FALSE END",
        "greatest(level, 2) = 2",
    ],
    "sex": [
        "sex = 'm'",
        "sex != 'f'",
        "sex LIKE '_'",
        "sex ILIKE 'OT%'",
        "sex NOT LIKE '%t%' ESCAPE '!'",
        "upper(sex) IN ('M', 'OTHER')",
        "sex IS NOT NULL",
        "coalesce(sex, 'f') = 'f'",
        "length(sex) > 1",
        "sex || 'x' = 'mx'",
        "sex[1] = 'O'",
        "TRY_CAST(sex AS INTEGER) IS NULL",
    ],
    "day": [
        "day >= DATE '2020-02-10'",
        "day < '2020-02-03'",
        "day BETWEEN '2020-01-30' AND '2020-02-20'",
        "extract(month FROM day) = 2",
        "date_trunc('month', day) = DATE '2020-02-01'",
        "day + INTERVAL 3 DAY > TIMESTAMP '2020-03-01 00:00:00'",
        "dayofweek(day) IN (0, 6)",
        "strftime(day, '%d') = '29'",
        "day - DATE '2020-02-01' > 3",
    ],
    "income": [
        "income < 10",
        "income >= 10.5",
        "income = 10",
        "income <> '99.5'",
        "income BETWEEN 5 AND 10 * 2",
        "income NOT IN (0, 10.5)",
        "income IS NULL",
        "income IS NOT DISTINCT FROM 100",
        "50 > income",
        "income > -3 AND income < 1e9",
        "CASE WHEN income < 10 THEN 'low' WHEN income < 50 THEN 'mid' END <> 'low'",
        "income < NULL",
    ],
    "member": [
        "member",
        "member IS TRUE",
        "member = FALSE",
        "member IS NOT TRUE",
        "member::INTEGER + 1 = 2",
        "if(member, 1, 0) = 1",
    ],
    "several": [
        "age > level",
        "length(sex) <= age",
        "member = (age > 1)",
        "CASE WHEN member THEN age ELSE level END > 1",
        "age + level = 3",
        "concat(sex, age) LIKE '%1'",
        "CASE WHEN income > 10 THEN age > 1 ELSE member END",
        "day + CAST(age AS INTEGER) > DATE '2020-02-15'",
        "(income < 10) = member",
        "level IN (age, 1)",
        "TRUE",
        "NULL",
        "1 = 2",
    ],
}
atoms = st.sampled_from(sorted(atom for group in ATOMS.values() for atom in group))
predicates = st.recursive(
    atoms,
    lambda inner: st.one_of(
        inner.map(lambda p: f"NOT ({p})"),
        st.lists(inner, min_size=2, max_size=3).map(lambda ps: " AND ".join(f"({p})" for p in ps)),
        st.lists(inner, min_size=2, max_size=3).map(lambda ps: " OR ".join(f"({p})" for p in ps)),
    ),
    max_leaves=5,
)
KEYS = [
    "age",
    "sex",
    "level",
    "member",
    "age // 2",
    "upper(sex)",
    "month(day)",
    "date_trunc('month', day)",
    "age + level",
    "age / 2",
    "sex = 'm'",
    "CASE WHEN income < 10 THEN 'low' WHEN income >= 50.5 THEN 'high' END",
    "income IS NULL",
    "member AND age > 1",
    "coalesce(level, age)",
    "'x'",
    "round(age / 3, 2)",
]
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


def data_vector(rows: list[tuple], marginal: Marginal, domain: Domain) -> np.ndarray:
    """Return the records in every cell of a marginal."""
    vector = np.zeros(marginal.size)
    names = [column.name for column in domain.columns]
    for row in rows:
        cell = 0
        strides = row_major_strides(marginal.shape)
        for name, partition, stride in zip(
            marginal.scope, marginal.partitions, strides, strict=True
        ):
            value = row[names.index(name)]
            cell += int(partition.labels[cell_of(domain.column(name), value)]) * stride
        vector[cell] += 1
    return vector


CONNECTION = duckdb.connect(":memory:", config={"threads": 1})


def load(table: str, columns: list[str], casts: list[str], rows: list[tuple]) -> None:
    CONNECTION.execute(f"CREATE OR REPLACE TABLE {table} ({', '.join(columns)})")
    if rows:
        values = ", ".join([f"({', '.join(casts)})"] * len(rows))
        CONNECTION.execute(
            f"INSERT INTO {table} VALUES {values}", [value for row in rows for value in row]
        )


class Exact:
    """Answers from the counts themselves, as a release without noise would."""

    noise_variance = 0.0

    def __init__(self, rows: list[tuple], domain: Domain) -> None:
        self._rows, self._domain = rows, domain

    def answers(self, block: Block) -> np.ndarray:
        return block.matrix @ data_vector(self._rows, block.marginal, self._domain)


DESK = Desk()


def answer(query: BoundQuery, rows: list[tuple], domain: Domain) -> list[tuple]:
    """Return the rows of a bound query, as a release without noise would."""
    return DESK.rows(query, Exact(rows, domain))


def duckdb_rows(sql: str, rows: list[tuple]) -> tuple[list[tuple], list[tuple]]:
    """Return DuckDB's own result columns and rows on the raw table."""
    columns = [f"{column.name} {column.sql_type}" for column in DOMAIN.columns]
    load("people", columns, ["?"] * len(columns), rows)
    result = CONNECTION.execute(sql)
    return [(name, str(kind)) for name, kind, *_ in result.description], result.fetchall()


@functools.cache
def evaluator() -> Evaluator:
    """Return an evaluator whose domain has the cuts of everything that is generated here."""
    atoms = [atom for group in ATOMS.values() for atom in group]
    sql = ";".join(f"SELECT COUNT(*) FROM people WHERE ({p}) IS NULL" for p in [*atoms, *KEYS])
    return Evaluator(DOMAIN.with_cuts(cuts(split(sql, file="oracle.sql"), DOMAIN)))


def bind_one(sql: str) -> tuple[BoundQuery, Domain]:
    (statement,) = split(sql, file="oracle.sql")
    return bind(statement, evaluator()), evaluator().domain


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
@given(tables, st.none() | predicates, keys.filter(len), counts)
def test_having_and_order_by_give_exactly_the_rows_of_duckdb(rows, where, group, counted):
    order = ", ".join(f"{place + 1} DESC NULLS FIRST" for place in range(len(group)))
    sql = f"{statement_of(where, group, counted)} HAVING COUNT(*) > 0 ORDER BY {order} LIMIT 7"
    query, domain = bind_one(sql)
    assert answer(query, rows, domain) == duckdb_rows(sql, rows)[1]


@functools.cache
def generated_evaluator() -> Evaluator:
    """Return an evaluator whose domain has the cuts of everything that is generated."""
    sql = ";".join(
        f"SELECT COUNT(*) FROM people WHERE ({expression}) IS NULL"
        for expression in [*generator.PREDICATES, *generator.KEYS, *generator.NUMBERS]
    )
    domain = generator.DOMAIN
    return Evaluator(domain.with_cuts(cuts(split(sql, file="oracle.sql"), domain)))


@settings(max_examples=250, deadline=None, print_blob=True)
@given(st.integers(0, 2**32), st.integers(0, 2**32))
def test_a_generated_statement_returns_the_rows_of_duckdb(seed, data):
    made = generator.Generator(seed).make()
    (statement,) = split(made.sql, file="oracle.sql")
    query = bind(statement, generated_evaluator())
    records = generator.inside(generator.table(data))
    raw = generator.reference_connection(records)
    assert [(name, str(kind)) for name, kind, *_ in raw.sql(made.sql).description] == [
        (name, kind) for name, kind in query.columns
    ]
    ours = answer(query, records, generated_evaluator().domain)
    theirs = raw.execute(made.reference).fetchall()
    assert generator.same_rows(ours, theirs), (ours, theirs)


@oracle
@given(st.none() | predicates, keys, counts)
def test_no_partition_of_a_block_can_be_made_coarser(where, group, counted):
    query, _ = bind_one(statement_of(where, group, counted))
    for block in query.aggregates:
        dense = block.matrix.toarray().reshape(block.rows, *block.marginal.shape)
        for axis in range(1, dense.ndim):
            slices = {part.tobytes() for part in np.moveaxis(dense, axis, 0)}
            assert len(slices) == dense.shape[axis] > 1
