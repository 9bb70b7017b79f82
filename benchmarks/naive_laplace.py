"""The plain Laplace mechanism, one statement at a time: the error that sharing has to beat.

An analyst's share of epsilon is split evenly over their statements, a statement's part over its
aggregates and grouping sets, and each answer gets Laplace noise of its own.  Worked out from the
SQL and the declared bounds alone, for columns of the outer SELECT that are a COUNT or a SUM.
"""

import itertools
import math
import tomllib
from collections.abc import Iterator
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp

SUMS = {
    exp.Avg: ("sum", "count"),
    exp.Variance: ("square", "sum", "count"),
    exp.VariancePop: ("square", "sum", "count"),
    exp.Stddev: ("square", "sum", "count"),
    exp.StddevPop: ("square", "sum", "count"),
    exp.StddevSamp: ("square", "sum", "count"),
    exp.Sum: ("sum",),
    exp.Count: ("count",),
    exp.CountIf: ("count",),
}
"""The sums over records that an aggregate of one argument is worked out from."""
WIDEST = 1000
"""Evaluate an expression at the ends of a column's range only if it has more values than this."""


def naive_variances(sql: str, statements: int, share: float, schema: str) -> dict[str, float]:
    """Return the naive variance of every row of each column that is a COUNT or a SUM.

    Empty for a statement with a subquery or a WITH clause.
    """
    tree = sqlglot.parse_one(sql, read="duckdb")
    if not isinstance(tree, exp.Select) or tree.find(exp.Subquery, exp.With):
        return {}
    parts = len(set(_sums(tree))) * _grouping_sets(tree) * statements
    found = {}
    for projection in tree.expressions:
        aggregate = projection.unalias()
        if isinstance(aggregate, exp.Filter):
            aggregate = aggregate.this
        if isinstance(aggregate, exp.Sum):
            sensitivity = _largest(aggregate.this, tomllib.loads(schema)["columns"])
        elif isinstance(aggregate, exp.Count | exp.CountIf):
            sensitivity = 1.0
        else:
            continue
        found[projection.alias_or_name] = 2 * (sensitivity * parts / share) ** 2
    return found


def factors(
    sql: str, rmse: dict[str, list[float]], statements: int, share: float, schema: str
) -> list[float]:
    """Return each answer's variance over the naive one, for the columns where both are known."""
    naive = naive_variances(sql, statements, share, schema)
    return [
        error**2 / naive[column]
        for column, errors in rmse.items()
        if column in naive
        for error in errors
        if error is not None
    ]


def _sums(tree: exp.Expression) -> Iterator[str]:
    """Yield the sums over records that a statement needs, each as often as it is needed."""
    for node in tree.find_all(exp.AggFunc):
        if isinstance(node.parent, exp.Window) or node.find(exp.Window):
            continue  # A total of answers, not of records.
        if any(isinstance(inner, exp.AggFunc) for inner in node.this.find_all(exp.AggFunc)):
            continue
        condition = node.parent.expression.sql() if isinstance(node.parent, exp.Filter) else ""
        arguments = [part.sql() for part in (node.this, node.args.get("expression")) if part]
        if isinstance(node, exp.Corr):
            kinds: tuple[str, ...] = ("count", "product")
            for argument in arguments:
                yield from (f"{kind} {argument} {condition}" for kind in ("sum", "square"))
        else:
            kinds = SUMS.get(type(node), ("histogram",))
        yield from (f"{kind} {arguments} {condition}" for kind in kinds)


def _grouping_sets(tree: exp.Select) -> int:
    group = tree.args.get("group")
    count = 1
    for part in group.expressions if group else ():
        size = len(part.expressions)
        if isinstance(part, exp.Rollup):
            count *= size + 1
        elif isinstance(part, exp.Cube):
            count *= 2**size
        elif isinstance(part, exp.GroupingSets):
            count *= size
    return count


def _largest(expression: exp.Expression, columns: dict[str, Any]) -> float:
    """Return the largest absolute value of an expression over the declared values."""
    names = sorted({column.name for column in expression.find_all(exp.Column)})
    rows = list(itertools.product(*(_values(columns[name]) for name in names)))
    values = ", ".join(f"({', '.join(map(repr, row))})" for row in rows)
    table = f"(VALUES {values}) AS v({', '.join(names)})"
    asked = f"SELECT max(abs({expression.sql('duckdb')})) FROM {table}"
    [[largest]] = duckdb.sql(asked).fetchall()
    return float(largest)


def _values(column: dict[str, Any]) -> list[Any]:
    if column["type"] == "category":
        return list(column["values"])
    if column["type"] == "boolean":
        return [True, False]
    low, high = column["min"], column["max"]
    if isinstance(low, int) and high - low <= WIDEST:
        return list(range(low, high + 1))
    return [low, high, *([0] if low < 0 < high else [])]


def summary(values: list[float]) -> dict[str, float]:
    """Return the number above 1, the worst and the geometric mean of statements' factors."""
    return {
        "statements": len(values),
        "above_1": sum(value > 1 + 1e-9 for value in values),
        "worst": max(values),
        "geometric_mean": math.exp(math.fsum(map(math.log, values)) / len(values)),
    }
