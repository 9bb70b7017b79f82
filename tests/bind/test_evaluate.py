from datetime import date

import numpy as np
import pytest

from sqlmadp.bind.evaluate import FALSE, NULL, TRUE, EvaluationError, Evaluator
from sqlmadp.bind.predicate import conjuncts, pieces, truth
from sqlmadp.sql.statements import RefusedError, Statement
from sqlmadp.sql.tree import Node
from sqlmadp.table.domain import Column, Domain

DOMAIN = Domain(
    table="t",
    columns=(
        Column(name="n", type="integer", minimum=-1, maximum=2, nullable=True),
        Column(name="s", type="category", values=("b", "a'\"é"), nullable=True),
        Column(
            name="d",
            type="date",
            minimum=date(2020, 2, 28),
            maximum=date(2020, 3, 1),
            complete=True,
        ),
        Column(name="big", type="integer", minimum=0, maximum=10**9),
        Column(name="wide", type="integer", minimum=0, maximum=10**6),
    ),
)


@pytest.fixture(scope="module")
def evaluator() -> Evaluator:
    return Evaluator(DOMAIN)


def predicate(evaluator: Evaluator, sql: str) -> Node:
    statement = Statement("a.sql", "q1", f"SELECT 1 FROM t WHERE {sql}")
    (reading,) = evaluator.sandbox.read([statement])
    return reading.tree.args["where"].this


def by_cell(evaluator: Evaluator, sql: str) -> list[int]:
    factor = truth(predicate(evaluator, sql), evaluator)
    (partition,) = factor.partitions
    return factor.values[partition.pieces].tolist()


def test_a_predicate_is_true_false_or_null_on_every_cell(evaluator):
    assert by_cell(evaluator, "n > 0") == [FALSE, FALSE, TRUE, TRUE, NULL]
    assert by_cell(evaluator, "s = 'a''\"é'") == [FALSE, TRUE, NULL]
    assert by_cell(evaluator, "month(d) = 2") == [TRUE, TRUE, FALSE]


def test_division_by_zero_is_an_error_on_a_declared_value_unless_tried(evaluator):
    with pytest.raises(EvaluationError, match="Division by zero"):
        by_cell(evaluator, "1 // n = 1")
    assert by_cell(evaluator, "TRY(1 // n) = 1") == [FALSE, NULL, TRUE, FALSE, NULL]


@pytest.mark.parametrize("sql", ["n > 0 AND s = 'b'", "n > 0 OR s = 'b'", "NOT (n > 0 OR s = 'b')"])
def test_kleene_logic_agrees_with_duckdb_on_the_product(evaluator, sql):
    node = predicate(evaluator, sql)
    split, whole = truth(node, evaluator), evaluator.truth(node)
    assert len(list(pieces([node]))) == 2
    assert split.columns == whole.columns[: len(split.columns)] == ("n", "s")
    np.testing.assert_array_equal(split.values, whole.values)


def test_a_negated_or_is_a_conjunction(evaluator):
    node = predicate(evaluator, "NOT (n > 0 OR NOT (s = 'b' AND d < '2020-03-01'))")
    assert len(list(conjuncts(node))) == 3


def test_an_error_on_a_declared_value_is_an_evaluation_error(evaluator):
    with pytest.raises(EvaluationError, match="Could not convert string 'b'"):
        evaluator.truth(predicate(evaluator, "CAST(s AS INTEGER) = 1"))


def test_columns_with_too_many_cells_are_not_evaluated(evaluator):
    with pytest.raises(RefusedError, match="must be looked at"):
        evaluator.truth(predicate(evaluator, "big = 3"))
    with pytest.raises(RefusedError, match="cells together"):
        evaluator.truth(predicate(evaluator, "wide = n + length(s)"))


def test_duckdb_decides_which_keys_are_equal_and_the_first_cell_stands_for_them(evaluator):
    key = evaluator.key(predicate(evaluator, "abs(n)"))
    assert key.texts.tolist() == ["1", "0", "2", None]
    assert key.factor.values[key.factor.partitions[0].pieces].tolist() == [0, 1, 0, 2, 3]
    assert key.type == "BIGINT"
