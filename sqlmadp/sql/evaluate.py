"""Evaluation: what expressions are worth on declared values, worked out by DuckDB.

For every column the sandbox holds a small table of its cells: a number and a value.  An
expression of one column runs over that table; an expression of several columns runs over
the product of their tables.  Only AND, OR and NOT are ever worked out elsewhere (see
``predicate``); all else that SQL means is left to DuckDB.

An error there concerns declared values, which are public, so it may be reported.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

import duckdb
import numpy as np
from numpy.typing import NDArray

from sqlmadp.schema.domain import Column, Domain
from sqlmadp.schema.marginal import Partition, row_major_strides
from sqlmadp.sql.factor import MAX_CELLS, Factor, TooManyCellsError
from sqlmadp.sql.sandbox import Sandbox, UnfaithfulError, explain, quote, storable
from sqlmadp.sql.syntax import Node, column_names, fingerprint, select, unaliased

FALSE, NULL, TRUE = 0, 1, 2
"""Truth values, ordered so that AND is the minimum and OR the maximum."""

_BATCH = 50

Texts = NDArray[np.object_]


class EvaluationError(Exception):
    """DuckDB cannot evaluate an expression on some declared value."""

    def __init__(self, node: Node, message: str) -> None:
        super().__init__(message)
        self.node, self.message = node, message


@dataclass(frozen=True, eq=False)
class KeyValues:
    """A group key over declared values: which cells agree, and what they agree on."""

    factor: Factor
    """The number of the key's value; values are numbered by their first declared cell."""
    texts: Texts
    """Every value as text that DuckDB casts back exactly; None for NULL."""
    type: str
    """The DuckDB type of the key."""


class Evaluator:
    """Evaluates resolved expressions over the cells of a domain, and remembers the results."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.sandbox = Sandbox(domain)
        self._cells: set[str] = set()
        self._truths: dict[str, Factor] = {}
        self._keys: dict[str, KeyValues] = {}

    def prepare(self, predicates: Iterable[Node], others: Iterable[Node] = ()) -> None:
        """Print and evaluate many expressions at once, which is faster than one by one."""
        predicates = list(predicates)
        nodes = [*predicates, *others]
        self.sandbox.print_ahead(select([unaliased(node)]) for node in nodes)
        by_columns: dict[frozenset[str], list[Node]] = {}
        for node in predicates:
            by_columns.setdefault(column_names(node), []).append(node)
        for together in by_columns.values():
            for start in range(0, len(together), _BATCH):
                # Whatever is wrong with one of them is said when it is asked for by itself.
                with suppress(EvaluationError, TooManyCellsError, UnfaithfulError):
                    self._evaluate_truths(together[start : start + _BATCH])

    def truth(self, node: Node) -> Factor:
        """Return whether a predicate is FALSE, NULL or TRUE on every cell of its columns."""
        self._evaluate_truths([node])
        return self._truths[fingerprint(unaliased(node))]

    def _evaluate_truths(self, nodes: Iterable[Node]) -> None:
        """Evaluate predicates of the same columns."""
        by_key = {fingerprint(unaliased(node)): node for node in nodes}
        missing = {key: node for key, node in by_key.items() if key not in self._truths}
        if not missing:
            return
        first = next(iter(missing.values()))
        columns = self._columns(first)
        source, number = self._product(columns)
        # CAST is what WHERE does to a predicate that is not a BOOLEAN.
        truths = [
            f"COALESCE(2 * CAST(CAST(({self.sandbox.print_expression(node)}) AS BOOLEAN) "
            f"AS TINYINT), 1) AS truth{place}"
            for place, node in enumerate(missing.values())
        ]
        fetched = self._fetch(first, f"SELECT {number} AS cell, {', '.join(truths)} FROM {source}")
        for place, key in enumerate(missing):
            factor = _scatter(columns, fetched["cell"], fetched[f"truth{place}"])
            self._truths[key] = factor.reduce()

    def key(self, node: Node) -> KeyValues:
        """Return the values of a group key on every cell of its columns."""
        key = fingerprint(unaliased(node))
        if key not in self._keys:
            self._keys[key] = self._evaluate_key(node)
        return self._keys[key]

    def constant(self, node: Node) -> tuple[float | None, str]:
        """Return a constant expression as DOUBLE, and its type."""
        text = self.sandbox.print_expression(node)
        try:
            ((value, kind),) = self.sandbox.execute(
                f"SELECT CAST(({text}) AS DOUBLE), typeof({text})"
            ).fetchall()
        except duckdb.Error as error:
            raise EvaluationError(node, explain(error)[0]) from None
        return value, kind

    def _evaluate_key(self, node: Node) -> KeyValues:
        columns = self._columns(node)
        source, number = self._product(columns)
        text = self.sandbox.print_expression(node)
        values = f"SELECT {number} AS cell, ({text}) AS value FROM {source}"
        # DuckDB decides which values are equal; the first cell stands for all equal ones.
        fetched = self._fetch(
            node,
            "SELECT cell, first, CASE WHEN cell = first THEN CAST(value AS VARCHAR) END AS text "
            "FROM (SELECT cell, value, MIN(cell) OVER (PARTITION BY value) AS first "
            f"FROM ({values}))",
        )
        cells, first = fetched["cell"], fetched["first"]
        numbered, codes = np.unique(first, return_inverse=True)
        chosen = cells == first
        by_cell = dict(zip(cells[chosen].tolist(), _plain(fetched["text"])[chosen], strict=True))
        texts = np.array([by_cell[cell] for cell in numbered.tolist()] + [None], dtype=object)[:-1]
        kind = self.sandbox.execute(f"DESCRIBE {values}").fetchall()[1][1]
        factor = _scatter(columns, cells, codes.reshape(-1)).reduce()
        return KeyValues(factor, texts, storable(str(kind)))

    def _columns(self, node: Node) -> list[Column]:
        names = column_names(node)
        columns = [column for column in self.domain.columns if column.name in names]
        cells = math.prod(column.size for column in columns)
        if cells > MAX_CELLS:
            raise TooManyCellsError([column.name for column in columns], cells)
        return columns

    def _product(self, columns: list[Column]) -> tuple[str, str]:
        """Return a FROM clause over the product of columns, and the number of its cells."""
        if not columns:
            return "(SELECT 1)", "0::BIGINT"
        tables = [self._cell_table(column) for column in columns]
        strides = row_major_strides([column.size for column in columns])
        terms = [f"{t}.__cell * {stride}" for t, stride in zip(tables, strides, strict=True)]
        return ", ".join(tables), " + ".join(terms)

    def _cell_table(self, column: Column) -> str:
        """Return the name of the table of a column's cells, which is made at first use."""
        table = f"__cells_{self.domain.columns.index(column)}"
        if table not in self._cells:
            value, parameters = _value_sql(column)
            self.sandbox.execute(
                f"CREATE TABLE {table} AS SELECT range AS __cell, "
                f"CASE WHEN range < {column.declared} THEN CAST({value} AS {column.sql_type}) END "
                f"AS {quote(column.name)} FROM range({column.size})",
                parameters,
            ).fetchall()
            self._cells.add(table)
        return table

    def _fetch(self, node: Node, sql: str) -> dict[str, NDArray[np.generic]]:
        try:
            fetched: dict[str, NDArray[np.generic]] = self.sandbox.execute(sql).fetchnumpy()
        except duckdb.Error as error:
            raise EvaluationError(node, explain(error)[0]) from None
        return fetched


def _value_sql(column: Column) -> tuple[str, list[object]]:
    """Return the SQL of a cell's value, given its number as ``range``."""
    match column.type:
        case "boolean":
            return "range = 1", []
        case "integer":
            return f"range + ({column.ordinal_bounds[0]})", []
        case "date":
            return f"DATE '{column.minimum}' + CAST(range AS INTEGER)", []
        case _:
            values = [column.value(cell) for cell in range(column.declared)]
            return f"(?::{column.sql_type}[])[range + 1]", [values]


def _scatter(
    columns: list[Column], cells: NDArray[np.generic], values: NDArray[np.generic]
) -> Factor:
    """Return values that came in any order as a factor."""
    shape = tuple(column.size for column in columns)
    placed = np.empty(math.prod(shape), dtype=np.int64)
    placed[np.asarray(cells, dtype=np.int64)] = values
    return Factor(
        tuple(column.name for column in columns),
        tuple(Partition.finest(size) for size in shape),
        placed.reshape(shape),
    )


def _plain(texts: NDArray[np.generic]) -> Texts:
    """Return texts with None for NULL."""
    plain = np.array(np.ma.getdata(texts), dtype=object)
    plain[np.ma.getmaskarray(texts)] = None
    return plain
