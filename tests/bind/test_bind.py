import math
from datetime import date

import numpy as np
import pytest

from sqlmadp.bind.bind import BoundQuery, bind, bind_all, cuts
from sqlmadp.bind.blocks import EXACT_VALUES, MANY_BINS
from sqlmadp.bind.evaluate import Evaluator
from sqlmadp.errors import SqlError
from sqlmadp.sql.statements import split
from sqlmadp.table.domain import Column, Domain

DOMAIN = Domain(
    table="people",
    columns=(
        Column(name="sex", type="category", values=("m", "f"), complete=True),
        Column(name="age", type="integer", minimum=0, maximum=99, complete=True),
        Column(name="race", type="category", values=tuple("abcdefg"), complete=True),
        Column(
            name="state", type="category", values=tuple(f"s{n}" for n in range(51)), complete=True
        ),
        Column(name="born", type="date", minimum=date(1900, 1, 1), maximum=date(2024, 12, 31)),
        Column(name="income", type="real", minimum=0.0, maximum=100.0),
        Column(name="points", type="integer", minimum=0, maximum=10**6, complete=True),
    ),
)


@pytest.fixture(scope="module")
def evaluator() -> Evaluator:
    return Evaluator(DOMAIN)


def bound(sql: str, evaluator: Evaluator) -> BoundQuery:
    (statement,) = split(sql, file="a.sql")
    return bind(statement, evaluator)


def codes(sql: str, evaluator: Evaluator) -> list[str]:
    with pytest.raises(SqlError) as caught:
        bind_all(split(sql, file="a.sql"), evaluator)
    return [problem.code for problem in caught.value.problems]


def test_the_total_has_the_scope_of_no_column(evaluator):
    query = bound("SELECT COUNT(*) FROM people", evaluator)
    assert query.aggregates[0].scope == ()
    assert query.aggregates[0].matrix.toarray().tolist() == [[1.0]]


def test_groups_come_in_declared_order_key_by_key(evaluator):
    query = bound("SELECT sex, race, COUNT(*) FROM people GROUP BY race, sex", evaluator)
    assert query.blocks[0].keys.columns[0][:4].tolist() == ["a", "a", "b", "b"]
    assert query.blocks[0].keys.columns[1][:4].tolist() == ["m", "f", "m", "f"]
    assert query.rows == 14


def test_a_conjunction_over_many_columns_needs_no_product_of_their_cells(evaluator):
    sql = (
        "SELECT COUNT(*) FROM people WHERE points < 500000 AND born < '2000-01-01' AND age > 3 "
        "AND state <> 's1' AND race = 'a' AND sex = 'm'"
    )
    (block,) = bound(sql, evaluator).aggregates
    assert block.shape == (2,) * 6
    assert block.matrix.nnz == 1


def test_a_large_histogram_is_a_permuted_identity(evaluator):
    query = bound("SELECT age, sex, race, state, COUNT(*) FROM people GROUP BY ALL", evaluator)
    (block,) = query.aggregates
    assert block.matrix.shape == (71_400, 71_400)
    assert block.matrix.nnz == 71_400
    assert np.all(block.matrix.sum(axis=0) == 1)


def test_equal_aggregates_are_one_block_and_bare_copies_are_known(evaluator):
    sql = "SELECT COUNT(*), count(*) + 1, COUNT_IF(age > 1), COUNT(*) AS n FROM people HAVING n > 0"
    query = bound(sql, evaluator)
    assert len(query.aggregates) == 2
    assert query.measures == (0, None, 1, 0)
    assert [kind for _, kind in query.columns] == ["BIGINT", "BIGINT", "HUGEINT", "BIGINT"]


def test_a_count_without_group_by_has_one_row_even_where_nothing_can_match(evaluator):
    query = bound("SELECT COUNT(*) FROM people WHERE age > 100 GROUP BY ALL", evaluator)
    assert query.rows == 1
    assert query.aggregates[0].matrix.nnz == 0


def test_names_are_read_in_any_case_and_with_the_tables_alias(evaluator):
    plain = bound("SELECT COUNT(*) FROM people WHERE age = 3", evaluator)
    other = bound('SELECT COUNT(*) FROM "PEOPLE" AS p WHERE P."Age" = 3', evaluator)
    assert plain.aggregates[0].fingerprint == other.aggregates[0].fingerprint


def test_an_alias_orders_before_a_column_and_groups_after_it(evaluator):
    query = bound("SELECT age AS sex, COUNT(*) FROM people GROUP BY age ORDER BY sex", evaluator)
    assert "ORDER BY 1" in query.outer
    assert codes("SELECT sex AS age, COUNT(*) FROM people GROUP BY age", evaluator) == ["duckdb"]


def test_a_name_that_can_be_read_in_two_ways_is_refused(evaluator):
    sql = "SELECT sex AS age, COUNT(*) FROM people GROUP BY sex, people.age HAVING age > '3'"
    assert codes(sql, evaluator) == ["ambiguous-name"]


def test_all_mistakes_of_all_statements_are_reported_in_order(evaluator):
    sql = """
    SELECT COUNT(*) FROM people WHERE CAST(sex AS INTEGER) = 1;
    SELECT COUNT(*) FROM people;
    SELECT nothing, MAX(age) FROM people;
    SELEC;
    """
    assert codes(sql, evaluator) == ["evaluation", "unknown-column", "min-max", "syntax"]


def test_constants_cut_real_columns_wherever_they_are_compared():
    sql = """
    SELECT COUNT(*) FROM people WHERE income < 10 AND 2 * 10 >= income;
    SELECT COUNT(*) FILTER (income IN (1, '2.5')), COUNT(income) FROM people;
    SELECT income BETWEEN 30 AND 40.5 AS k, COUNT(*) FROM people GROUP BY k HAVING COUNT(*) > 77;
    SELECT COUNT(*) FROM people WHERE sin(income) < 0.5 OR income = 67;
    SELECT COUNT(*) FROM people WHERE income < NULL OR income > -5
    """
    found = cuts(split(sql, file="a.sql"), DOMAIN)
    assert found == {"income": {10.0, 20.0, 1.0, 2.5, 30.0, 40.5, -5.0}}


def test_a_real_column_is_not_compared_where_it_was_not_cut(evaluator):
    assert codes("SELECT COUNT(*) FROM people WHERE income < 12", evaluator) == ["not-cut"]
    bound("SELECT COUNT(*) FROM people WHERE income < 1200", evaluator)


@pytest.mark.parametrize(
    "predicate",
    [
        "income < age",
        "sin(income) < 0.5",
        "income = concat('1', '')",
        "income % 10 < 3",
        "income = income",
    ],
)
def test_a_real_column_is_only_compared_with_numbers(evaluator, predicate):
    sql = f"SELECT COUNT(*) FROM people WHERE {predicate}"
    assert codes(sql, evaluator) == ["real-column"]


@pytest.mark.parametrize(
    ("expression", "places"),
    [
        ("floor(income / 25)", [25.0, 50.0, 75.0, 100.0]),
        ("2 * income + 1 <= 41", [20.0, 20.000000000000004]),
        ("-income < -30", [30.0, 30.000000000000004]),
        ("round(income, -1) = 20", [15.0, 25.0]),
        ("CAST(income AS INTEGER) > 98", [98.5, 98.50000000000001, 97.5, 97.50000000000001]),
    ],
)
def test_a_monotone_chain_cuts_a_real_column_where_duckdb_steps(expression, places):
    (statement,) = split(f"SELECT COUNT(*) FROM people WHERE ({expression}) IS NULL", file="a.sql")
    found = cuts([statement], DOMAIN)["income"]
    assert found <= {*places}
    assert len(found) >= len(places) // 2
    bind(statement, Evaluator(DOMAIN.with_cuts({"income": found})))


def test_a_conjunct_is_looked_at_only_where_those_before_it_hold(evaluator):
    guarded = "SELECT COUNT(*) FROM people WHERE age <> 0 AND 10 // age > 2"
    (block,) = bound(guarded, evaluator).aggregates
    assert block.matrix.nnz == 1
    assert codes("SELECT COUNT(*) FROM people WHERE 10 // age > 2", evaluator) == ["evaluation"]
    bound("SELECT 100 // age AS k, SUM(10 // age) FROM people WHERE age > 0 GROUP BY k", evaluator)


def test_aggregates_that_need_the_same_piece_share_it(evaluator):
    query = bound("SELECT AVG(age), SUM(age), COUNT(age), STDDEV(age) FROM people", evaluator)
    assert len(query.blocks[0].pieces) == 3


def test_a_sum_is_in_plain_units_over_the_ends_of_its_column(evaluator):
    for sql in ("SELECT SUM(age) FROM people", "SELECT AVG(age) FROM people"):
        summed = bound(sql, evaluator).blocks[0].pieces[0]
        (rows,) = summed.rows
        assert rows.shape == (2,)
        assert summed.bounds == (0, 99)
        ages = (rows.matrix @ rows.parts[0].functions).toarray()
        np.testing.assert_allclose(ages[0], np.arange(100), atol=1e-9)


def test_every_grouping_set_has_blocks_of_its_own_scope(evaluator):
    query = bound("SELECT sex, race, COUNT(*) FROM people GROUP BY ROLLUP (sex, race)", evaluator)
    assert {block.scope for block in query.aggregates} == {(), ("sex",), ("race", "sex")}
    assert query.rows == 1 + 2 + 14


def test_keys_alone_are_what_the_domain_allows_and_need_no_answer(evaluator):
    for sql in ("SELECT DISTINCT sex FROM people", "SELECT sex FROM people GROUP BY sex"):
        query = bound(sql, evaluator)
        assert query.aggregates == ()
        assert query.blocks[0].keys.columns[0].tolist() == ["m", "f"]


def test_one_key_in_two_spellings_is_refused_in_grouping_sets(evaluator):
    # DuckDB's rows of this are not those of CUBE (p.age, p.age).
    with pytest.raises(SqlError, match="two spellings"):
        bound("SELECT p.age, age, COUNT(*) FROM people AS p GROUP BY CUBE (p.age, age)", evaluator)


def test_an_ordinal_without_a_column_is_refused(evaluator):
    assert codes("SELECT sex, COUNT(*) FROM people GROUP BY 3", evaluator) == ["duckdb"]
    assert codes("SELECT sex, COUNT(*) FROM people GROUP BY 0", evaluator) == ["duckdb"]


@pytest.mark.parametrize(
    ("bucket", "wanted"),
    [
        ("width_bucket(age, 10, 20, 5)", {9: 0, 10: 1, 11: 1, 12: 2, 19: 5, 20: 6, 99: 6}),
        ("WIDTH_BUCKET(age, 20, 10, 5)", {21: 0, 20: 1, 19: 1, 18: 2, 11: 5, 10: 6, 0: 6}),
    ],
)
def test_width_bucket_is_that_of_standard_sql(evaluator, bucket, wanted):
    query = bound(f"SELECT {bucket} AS b, COUNT(*) FROM people GROUP BY b", evaluator)
    (block,) = query.aggregates
    keys = query.blocks[0].keys.columns[0]
    (partition,) = block.parts
    for age, number in wanted.items():
        row = keys.tolist().index(str(number))
        assert block.matrix.toarray()[row, partition.pieces[age]] == 1
    assert len(keys) == 7


def test_width_bucket_cuts_a_real_column():
    sql = "SELECT width_bucket(income, 0, 100, 4) AS b, COUNT(*) FROM people GROUP BY b"
    (statement,) = split(sql, file="a.sql")
    assert cuts([statement], DOMAIN)["income"] == {25.0, 50.0, 75.0, 100.0}


@pytest.mark.parametrize("values", [64, EXACT_VALUES, EXACT_VALUES + 1, 100_000])
def test_quantiles_are_exact_up_to_many_values_and_merged_beyond_with_a_note(values):
    merged = 1 if values <= EXACT_VALUES else math.ceil(values / MANY_BINS)
    column = Column(name="v", type="integer", minimum=0, maximum=values - 1, complete=True)
    query = bound("SELECT MEDIAN(v) FROM t", Evaluator(Domain(table="t", columns=(column,))))
    (piece,) = query.blocks[0].pieces
    assert piece.merged == merged
    assert [note.code for note in query.notes] == ["quantile-resolution"] * (merged > 1)
    assert bool(piece.coarser) == (values > 64)
    for rows in (*piece.rows, *piece.coarser):
        cells = rows.matrix @ rows.parts[0].functions
        assert (np.asarray(cells.sum(axis=0)) == 1).all()


def test_two_dates_of_several_years_are_compared_as_one_joint_column():
    ends = {"minimum": date(2021, 7, 1), "maximum": date(2024, 12, 31)}
    columns = (Column(name=name, type="date", **ends) for name in ("ordered", "delivered"))
    sql = "SELECT COUNT(*) FROM t WHERE delivered - ordered > 30"
    (rows,) = bound(sql, Evaluator(Domain(table="t", columns=tuple(columns)))).aggregates
    assert rows.shape == (2,)


@pytest.mark.parametrize(
    ("sql", "message", "hint"),
    [
        ("SELECT SUM(cost) FROM t", "cost has 10,000,002 values", "fewer decimals"),
        ("SELECT AVG(LN(fee + 1)) FROM t", "1,500,001 values of fee", "FLOOR(fee / 10) * 10"),
        ("SELECT COUNT(*) FROM t WHERE fee < age", "fee, age must be looked at together", "AND"),
    ],
)
def test_a_column_of_too_many_values_is_named_with_what_to_do(sql, message, hint):
    cost = Column(name="cost", type="decimal", minimum=0.0, maximum=1e5, decimals=2)
    fee = Column(name="fee", type="integer", minimum=0, maximum=1_500_000)
    age = Column(name="age", type="integer", minimum=0, maximum=99)
    with pytest.raises(SqlError) as caught:
        bound(sql, Evaluator(Domain(table="t", columns=(cost, fee, age))))
    (problem,) = caught.value.problems
    assert message in problem.message
    assert hint in problem.hint


def test_answers_that_are_joined_without_a_condition_are_refused_if_they_are_many(evaluator):
    blocks = ", ".join(f"(SELECT age, COUNT(*) FROM people GROUP BY age) b{n}" for n in range(4))
    assert codes(f"SELECT COUNT(*) FROM {blocks}", evaluator) == ["too-many-groups"]
    inner = f"SELECT (SELECT COUNT(*) FROM {blocks}) FROM people"
    assert codes(f"{inner} GROUP BY sex", evaluator) == ["too-many-groups"]
