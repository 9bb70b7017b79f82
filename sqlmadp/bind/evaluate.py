"""Evaluation: what expressions are worth on declared values, worked out by DuckDB.

Every column has a small table of its cells in the sandbox, a number and a value each; an expression
runs over the product of its columns' tables, whose cells are numbered row by row.  Only AND, OR and
NOT are ever worked out elsewhere (see ``predicate``); all else that SQL means is left to DuckDB.

An error there concerns declared values, which are public, so it may be reported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction

import duckdb
import numpy as np
from numpy.typing import NDArray

from sqlmadp.bind.groups import Factor, Integers, TooManyCellsError
from sqlmadp.bind.products import Terms, terms_of
from sqlmadp.sql.limits import DEFAULT, Limits
from sqlmadp.sql.sandbox import Sandbox, TooSlowError, explain
from sqlmadp.sql.tree import Node, column_names, quote, text
from sqlmadp.table.domain import Column, Domain
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import row_major_strides

FALSE, NULL, TRUE = 0, 1, 2
"""Truth values, ordered so that AND is the minimum and OR the maximum."""

_BATCH = 50
_CONSTANTS = 500
_TRIAL, _ALONE = 0.2, 0.6
"""The parts of the allowed time for evaluating many predicates at once, and one by itself."""

NO_NUMBERS = ("DATE", "TIMESTAMP")
"""Types whose values are not summed."""

CONFIRMED_CELLS = 1 << 12
"""Confirm products of columns on at most this many cells, and look at all cells otherwise."""

Texts = NDArray[np.object_]


class SlowExpressionError(Exception):
    """DuckDB takes too long to evaluate an expression on the declared values."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        self.node = node


class EvaluationError(Exception):
    """DuckDB cannot evaluate an expression on some declared value."""

    def __init__(self, node: Node, message: str) -> None:
        super().__init__(message)
        self.node, self.message = node, message


class ManyValuesError(EvaluationError):
    """A key has more values than there may be groups; a condition may leave fewer of them."""

    def __init__(self, node: Node, count: int) -> None:
        super().__init__(node, f"it has {count:,} values")
        self.count = count


_WRONG = (EvaluationError, SlowExpressionError, TooManyCellsError)


@dataclass(frozen=True, eq=False)
class KeyValues:
    """A group key over declared values: which cells agree, and what they agree on."""

    factor: Factor
    """The number of the key's value; values are numbered by their first cell.  Where the value is
    NULL because a column that is not nullable is, it is the complement, ~number, of NULL's."""
    texts: Texts
    """Every value as text that DuckDB casts back exactly; None for NULL."""
    type: str
    """The DuckDB type of the key."""


@dataclass(frozen=True, eq=False)
class Argument:
    """What an aggregate is applied to, over declared values; NULL is no value."""

    factor: Factor
    """The number of the value on every cell, or -1 for NULL; values ascend, as DuckDB orders."""
    cells: Integers
    """The first cell of every value."""
    numbers: NDArray[np.float64]
    """Every value as DOUBLE; a date or timestamp in microseconds; NaN for what is no number."""
    type: str
    """The DuckDB type of the values."""
    sql: str
    """The SELECT of cells and values that all of this comes from."""
    texts: Texts = field(default_factory=lambda: np.zeros(0, dtype=object))
    """Every value as text that DuckDB casts back exactly, once ``with_texts`` has added them."""


def binned(argument: Argument, bins: int) -> Argument:
    """Return an argument with neighbouring values merged into ``bins``, named by the middle."""
    count = len(argument.numbers)
    width = -(-count // bins)
    middles = np.minimum(np.arange(0, count, width) + (width - 1) // 2, count - 1)
    values = argument.factor.values
    return replace(
        argument,
        factor=argument.factor.map(np.where(values < 0, values, values // width)).reduce(),
        cells=argument.cells[middles],
        numbers=argument.numbers[middles],
    )


class Evaluator:
    """Evaluates resolved expressions over the cells of a domain, and remembers the results."""

    def __init__(self, domain: Domain, limits: Limits = DEFAULT) -> None:
        self.domain, self.limits = domain, limits
        self.sandbox = Sandbox(domain, limits)
        self._cells = CellTables(domain, limits, self.sandbox)
        self._truths: dict[str, Factor] = {}
        self._keys: dict[str, KeyValues] = {}
        self._arguments: dict[str, Argument] = {}
        self._terms: dict[str, Terms | None] = {}
        self._found: dict[str, list[float]] = {}
        self._constants: dict[str, tuple[float | None, str]] = {}

    def prepare(self, predicates: Iterable[Node]) -> None:
        """Evaluate many predicates at once, which is faster than one by one."""
        by_columns: dict[frozenset[str], list[Node]] = {}
        for node in predicates:
            by_columns.setdefault(column_names(node), []).append(node)
        for together in by_columns.values():
            for start in range(0, len(together), _BATCH):
                # Whatever is wrong with one of them is said when it is asked for by itself.
                with suppress(*_WRONG):
                    self._evaluate_truths(together[start : start + _BATCH], part=_TRIAL)

    def truth(self, node: Node) -> Factor:
        """Return whether a predicate is FALSE, NULL or TRUE on every cell of its columns."""
        self._evaluate_truths([node])
        return self._truths[text(node)]

    def _evaluate_truths(self, nodes: Iterable[Node], part: float = _ALONE) -> None:
        """Evaluate predicates of the same columns within a ``part`` of the time that is allowed."""
        by_key = {text(node): node for node in nodes}
        missing = {key: node for key, node in by_key.items() if key not in self._truths}
        if not missing:
            return
        first = next(iter(missing.values()))
        columns = self._cells.columns(first)
        source, number = self._cells.product(columns)
        # CAST is what WHERE does to a predicate that is not a BOOLEAN.
        truths = [
            f"COALESCE(2 * CAST(CAST(({text(node)}) AS BOOLEAN) AS TINYINT), 1) AS truth{place}"
            for place, node in enumerate(missing.values())
        ]
        sql = f"SELECT {number} AS cell, {', '.join(truths)} FROM {source}"
        fetched = self._fetch(first, sql, part)
        for place, key in enumerate(missing):
            factor = scatter(columns, fetched["cell"], fetched[f"truth{place}"])
            self._truths[key] = factor.reduce()

    def key(self, node: Node) -> KeyValues:
        """Return the values of a group key on every cell of its columns."""
        key = text(node)
        if key not in self._keys:
            self._keys[key] = self._evaluate_key(node)
        return self._keys[key]

    def argument(self, node: Node) -> Argument:
        """Return the values that an aggregate is applied to, on every cell of their columns."""
        key = text(node)
        if key not in self._arguments:
            self._arguments[key] = self._evaluate_argument(node)
        return self._arguments[key]

    def terms(self, node: Node) -> Terms | None:
        """Return an expression as a sum of products of single columns; None if it is none.

        DuckDB has the last word: on the cells where the functions are smallest and largest, and
        where they are NULL, the products must be what DuckDB makes of the whole expression.
        """
        key = text(node)
        if key not in self._terms:
            found = self._product_terms(node)
            if found is not None and len(found.present) > 1 and not self._confirmed(node, found):
                found = None
            self._terms[key] = found
        return self._terms[key]

    def _product_terms(self, node: Node) -> Terms | None:
        whole = len(column_names(node)) == 1
        try:
            return terms_of(node, lambda part: self._numbers(part, dates=not whole))
        except _WRONG:
            return None  # A part fails where the whole does not.

    def _numbers(self, node: Node, *, dates: bool) -> NDArray[np.float64]:
        """Return the value of an expression of one column on every cell; NaN where it is NULL.

        With ``dates``, a date is a number of days.
        """
        columns = self._cells.columns(node)
        source, number = self._cells.product(columns)
        sql = text(node)
        kind = self._type(node, f"SELECT ({sql}) AS value, 0 AS cell FROM {source}", 0)
        value = f"({sql})"
        if dates and kind == "DATE":
            value = f"(({sql}) - DATE '1970-01-01')"
        elif kind in NO_NUMBERS:
            raise EvaluationError(node, "its values are no numbers")
        fetched = self._fetch(
            node,
            f"SELECT {number} AS cell, TRY_CAST({value} AS DOUBLE) AS value, "
            f"({sql}) IS NULL AS missing FROM {source}",
        )
        missing = np.asarray(fetched["missing"], dtype=bool)
        values = np.ma.filled(np.ma.asarray(fetched["value"], dtype=np.float64), np.nan)
        if not np.isfinite(values[~missing]).all():
            raise EvaluationError(node, "its values are no finite numbers")
        found = np.empty(len(values))
        found[np.asarray(fetched["cell"], dtype=np.int64)] = np.where(missing, np.nan, values)
        return found

    def _confirmed(self, node: Node, terms: Terms) -> bool:
        columns = [c for c in self.domain.columns if c.name in terms.present]
        cells = {}
        for column in columns:
            used = [t for t in (*terms.terms, *terms.presence) if column.name in t.functions]
            vectors = [term.functions[column.name] for term in used]
            there = np.flatnonzero(terms.present[column.name] > 0)
            if not len(there):
                return False
            ends = [there[end(v[there])] for v in vectors for end in (np.argmin, np.argmax)]
            missing = np.flatnonzero(terms.present[column.name] == 0)[:1]
            cells[column.name] = np.unique([*ends, *missing]).astype(np.int64)
        if math.prod(map(len, cells.values())) > CONFIRMED_CELLS:
            return False
        source, number = self._cells.product(columns, cells)
        ours = terms.at(cells).transpose(
            [list(terms.present).index(column.name) for column in columns]
        )
        sql = f"SELECT {number} AS cell, TRY_CAST(({text(node)}) AS DOUBLE) AS value FROM {source}"
        try:
            fetched = self._fetch(node, sql)
        except EvaluationError:
            return False  # A date, or an error that concerns every cell.
        order = np.argsort(np.asarray(fetched["cell"]))
        theirs = np.ma.filled(np.ma.asarray(fetched["value"], dtype=np.float64), np.nan)[order]
        # NULL adds nothing to a sum, as 0 does.
        pair = np.nan_to_num(ours.reshape(-1)), np.nan_to_num(theirs)
        return bool(np.allclose(*pair, rtol=1e-9, atol=1e-9))

    def _evaluate_argument(self, node: Node) -> Argument:
        columns = self._cells.columns(node)
        source, number = self._cells.product(columns)
        sql = text(node)
        values = f"SELECT {number} AS cell, ({sql}) AS value FROM {source}"
        kind = self._type(node, values)
        as_number = (
            "epoch_us(CAST(value AS TIMESTAMP))"
            if kind in NO_NUMBERS
            else "TRY_CAST(value AS DOUBLE)"
        )
        fetched = self._fetch(
            node,
            "SELECT cell, CASE WHEN value IS NULL THEN -1 ELSE CAST(DENSE_RANK() OVER "
            "(ORDER BY value NULLS LAST) - 1 AS INTEGER) END AS rank, "
            f"CAST({as_number} AS DOUBLE) AS number FROM ({values})",
        )
        factor = scatter(columns, fetched["cell"], fetched["rank"])
        numbers = np.full(factor.values.size, np.nan)
        numbers[np.asarray(fetched["cell"])] = np.ma.filled(fetched["number"], np.nan)
        del fetched  # Each array may be of millions of cells.
        ranks = factor.values.reshape(-1)
        first = np.zeros(int(ranks.max(initial=-1)) + 1, dtype=np.int64)
        there = np.flatnonzero(ranks >= 0)[::-1]
        first[ranks[there]] = there
        return Argument(factor.reduce(), first, numbers[first], kind, values)

    def with_texts(self, argument: Argument, node: Node) -> Argument:
        """Return the values of ``node``, or those that are left of them, with their texts."""
        fetched = self._fetch(
            node,
            f"SELECT wanted, CAST(value AS VARCHAR) AS text FROM ({argument.sql}) "
            "JOIN (SELECT unnest(?::BIGINT[]) AS wanted) ON cell = wanted",
            parameters=[argument.cells.tolist()],
        )
        texts = np.full(len(argument.cells), None, dtype=object)
        places = np.argsort(argument.cells)
        order = np.searchsorted(argument.cells, fetched["wanted"], sorter=places)
        texts[places[order]] = _plain(fetched["text"])
        return replace(argument, texts=texts)

    def _type(self, node: Node, sql: str, place: int = 1) -> str:
        try:
            return self.sandbox.types(sql)[place]
        except duckdb.Error as error:
            raise EvaluationError(node, explain(error)[0]) from None

    def prepare_constants(self, nodes: Iterable[Node]) -> None:
        """Evaluate many constant expressions at once, which is faster than one by one."""
        by_text = {text(node): node for node in nodes}
        missing = [node for sql, node in by_text.items() if sql not in self._constants]
        for start in range(0, len(missing), _CONSTANTS):
            # Whichever of them fails says so when it is asked for by itself.
            with suppress(EvaluationError):
                self._evaluate_constants(missing[start : start + _CONSTANTS])

    def constant(self, node: Node) -> tuple[float | None, str]:
        """Return a constant expression as DOUBLE, and its type."""
        if text(node) not in self._constants:
            self._evaluate_constants([node])
        return self._constants[text(node)]

    def _evaluate_constants(self, nodes: Sequence[Node]) -> None:
        listed = ", ".join(f"CAST(({text(n)}) AS DOUBLE), typeof({text(n)})" for n in nodes)
        try:
            (row,) = self.sandbox.execute(f"SELECT {listed}").fetchall()
        except duckdb.Error as error:
            raise EvaluationError(nodes[0], explain(error)[0]) from None
        pairs = zip(row[::2], row[1::2], strict=True)
        self._constants.update(zip(map(text, nodes), pairs, strict=True))

    def along(self, name: str, node: Node, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return an expression of one real column at given values of it, as DOUBLE."""
        sql = text(node)
        try:
            rows = self.sandbox.execute(
                f"SELECT CAST(({sql}) AS DOUBLE) "
                f"FROM (SELECT unnest(?::DOUBLE[]) AS {quote(name)})",
                [values.tolist()],
            ).fetchall()
        except duckdb.Error as error:
            raise EvaluationError(node, explain(error)[0]) from None
        return np.array([np.nan if value is None else value for (value,) in rows])

    def remembered(self, node: Node, work: Callable[[], list[float]]) -> list[float]:
        """Return the result of ``work`` on an expression, which runs once."""
        key = text(node)
        if key not in self._found:
            self._found[key] = work()
        return self._found[key]

    def constants(self, node: Node) -> tuple[list[Fraction | float | None], bool]:
        """Return a constant expression, or a constant list of them, exactly as it is written."""
        sql = text(node)
        try:
            kind = self.sandbox.types(f"SELECT ({sql})")[0]
            listed = kind.endswith("]")
            source = f"unnest({sql})" if listed else f"({sql})"
            exact = kind.startswith(("DECIMAL", "INTEGER", "BIGINT", "HUGEINT"))
            rows = self.sandbox.execute(f"SELECT CAST({source} AS VARCHAR)").fetchall()
        except duckdb.Error as error:
            raise EvaluationError(node, explain(error)[0]) from None
        return [
            None if value is None else Fraction(value) if exact else float(value)
            for (value,) in rows
        ], listed

    def _evaluate_key(self, node: Node) -> KeyValues:
        columns = self._cells.columns(node)
        source, number = self._cells.product(columns)
        sql = text(node)
        values = f"SELECT {number} AS cell, ({sql}) AS value FROM {source}"
        self._require_few_values(node, columns, values)
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
        found = scatter(columns, cells, codes.reshape(-1))
        null = np.array([text is None for text in texts], dtype=bool)[found.values]
        factor = found.map(np.where(null & _undeclared(columns), ~found.values, found.values))
        return KeyValues(factor.reduce(), texts, self._type(node, values))

    def _require_few_values(self, node: Node, columns: Sequence[Column], values: str) -> None:
        """Refuse a key of more values than there may be groups, before all of them are held."""
        most = self.limits.groups
        if math.prod(column.size for column in columns) > most:
            counted = f"SELECT COUNT(DISTINCT value) AS count FROM ({values})"
            count = int(self._fetch(node, counted)["count"][0])
            if count > most:
                raise ManyValuesError(node, count)

    def _fetch(
        self, node: Node, sql: str, part: float = _ALONE, parameters: Sequence[object] = ()
    ) -> dict[str, NDArray[np.generic]]:
        try:
            fetched: dict[str, NDArray[np.generic]] = self.sandbox.fetch(
                sql, part * self.limits.seconds, parameters
            )
        except TooSlowError:
            raise SlowExpressionError(node) from None
        except duckdb.Error as error:
            raise EvaluationError(node, explain(error)[0]) from None
        return fetched


def _undeclared(columns: Sequence[Column]) -> NDArray[np.bool_]:
    """Return whether a column that is not nullable is NULL, on every cell of some columns."""
    undeclared = np.zeros([column.size for column in columns], dtype=bool)
    for axis, column in enumerate(columns):
        if column.null_cell is not None and not column.nullable:
            undeclared[(slice(None),) * axis + (column.null_cell,)] = True
    return undeclared


def _plain(texts: NDArray[np.generic]) -> Texts:
    """Return texts with None for NULL."""
    plain = np.array(np.ma.getdata(texts), dtype=object)
    plain[np.ma.getmaskarray(texts)] = None
    return plain


class CellTables:
    """The tables of a domain's cells, each made at its first use."""

    def __init__(self, domain: Domain, limits: Limits, sandbox: Sandbox) -> None:
        self._domain, self._limits, self._sandbox = domain, limits, sandbox
        self._made: set[str] = set()

    def columns(self, node: Node) -> list[Column]:
        """Return the columns of an expression, unless they have too many cells together."""
        names = column_names(node)
        columns = [column for column in self._domain.columns if column.name in names]
        cells = math.prod(column.size for column in columns)
        if cells > self._limits.predicate_cells:
            together = [column.name for column in columns]
            raise TooManyCellsError(together, cells, self._limits.predicate_cells)
        return columns

    def product(
        self, columns: list[Column], cells: Mapping[str, NDArray[np.int64]] | None = None
    ) -> tuple[str, str]:
        """Return a FROM clause over the product of columns, and the number of its cells.

        With ``cells``, over those of every column only.
        """
        if not columns:
            return "(SELECT 1)", "0::BIGINT"
        tables = [self._cell_table(column) for column in columns]
        source = ", ".join(tables)
        if cells is not None:
            source = ", ".join(
                f"(FROM {table} WHERE __cell IN ({', '.join(map(str, cells[c.name]))})) AS {table}"
                for table, c in zip(tables, columns, strict=True)
            )
        strides = row_major_strides([column.size for column in columns])
        terms = [f"{t}.__cell * {stride}" for t, stride in zip(tables, strides, strict=True)]
        return source, " + ".join(terms)

    def _cell_table(self, column: Column) -> str:
        """Return the name of the table of a column's cells, which is made at first use."""
        table = f"__cells_{self._domain.columns.index(column)}"
        if table not in self._made:
            value, parameters = _value_sql(column)
            # What can be counted out is not stored, so that wide columns take no memory.
            made = "TABLE" if parameters else "VIEW"
            self._sandbox.execute(
                f"CREATE {made} {table} AS SELECT range AS __cell, "
                f"CASE WHEN range < {column.declared} THEN CAST({value} AS {column.sql_type}) END "
                f"AS {quote(column.name)} FROM range({column.size})",
                parameters,
            ).fetchall()
            self._made.add(table)
        return table


def scatter(
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


def _value_sql(column: Column) -> tuple[str, list[object]]:
    """Return the SQL of a cell's value, given its number as ``range``."""
    match column.type:
        case "boolean":
            return "range = 1", []
        case "integer":
            return f"range + ({column.ordinal_bounds[0]})", []
        case "decimal":
            step = f"CAST(range + ({column.ordinal_bounds[0]}) AS DOUBLE)"
            return f"{step} / {10**column.decimals}", []
        case "timestamp":
            seconds = f"(range + ({column.ordinal_bounds[0]})) * {column.every}"
            return f"make_timestamp({seconds} * 1000000)", []
        case "date":
            return f"DATE '{column.minimum}' + CAST(range AS INTEGER)", []
        case _:
            values = [column.value(cell) for cell in range(column.declared)]
            return f"(?::{column.sql_type}[])[range + 1]", [values]
