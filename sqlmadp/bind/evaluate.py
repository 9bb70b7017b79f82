"""Evaluation: what expressions are worth on declared values, worked out by DuckDB.

Every column has a small table of its cells in the sandbox, a number and a value each; an expression
runs over the product of its columns' tables, whose cells are numbered row by row.  Only AND, OR and
NOT are ever worked out elsewhere (see ``predicate``); all else that SQL means is left to DuckDB.

An error there concerns declared values, which are public, so it may be reported.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeVar

import duckdb
import numpy as np
from numpy.typing import NDArray

from sqlmadp.bind.groups import Factor, Integers, too_many_cells, too_many_groups
from sqlmadp.bind.products import Terms, terms_of
from sqlmadp.sql.limits import DEFAULT, Limits, advice
from sqlmadp.sql.sandbox import Sandbox, TooSlowError, explain
from sqlmadp.sql.statements import RefusedError
from sqlmadp.sql.tree import Node, column_names, quote, text
from sqlmadp.table.domain import Column, Domain
from sqlmadp.table.rows import row_major_strides

FALSE, NULL, TRUE = 0, 1, 2
"""Truth values, ordered so that AND is the minimum and OR the maximum."""

_CONSTANTS = 500
"""Evaluate at most this many constants in one SELECT."""

NO_NUMBERS = ("DATE", "TIMESTAMP")
"""Types whose values are not summed."""

CONFIRMED_CELLS = 1 << 12
"""Confirm products of columns on at most this many cells, and look at all cells otherwise."""

KEPT_NUMBERS = 2**23
"""Remember functions of values up to this many numbers, 64 MB: two of a column of two million
values take eight million."""

Texts = NDArray[np.object_]
Floats = NDArray[np.float64]
Kept = TypeVar("Kept", "Argument", "Terms | None")


class EvaluationError(RefusedError):
    """An expression fails on some declared value; where a condition holds, it may not."""


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

    columns: tuple[str, ...]
    ranks: NDArray[np.int32]
    """The number of the value on every cell, or -1 for NULL; values ascend, as DuckDB orders.  None
    are kept once there are texts."""
    cells: Integers
    """The first cell of every value, numbered row by row."""
    numbers: Floats
    """Every value as DOUBLE; a date or timestamp in microseconds; NaN for what is no number."""
    type: str
    """The DuckDB type of the values."""
    sql: str
    """The SELECT of cells and values that all of this comes from."""
    texts: Texts = field(default_factory=lambda: np.zeros(0, dtype=object))
    """Every value as text that DuckDB casts back exactly, once ``with_texts`` has added them."""

    @cached_property
    def factor(self) -> Factor:
        """The ranks as a factor."""
        return Factor.of(self.columns, self.ranks)

    def binned(self, bins: int) -> Argument:
        """Return neighbouring values merged into ``bins``, each named by the middle one."""
        count = len(self.numbers)
        width = -(-count // bins)
        middles = np.minimum(np.arange(0, count, width) + (width - 1) // 2, count - 1)
        ranks = np.where(self.ranks < 0, self.ranks, self.ranks // width)
        cells, numbers = self.cells[middles], self.numbers[middles]
        return replace(self, ranks=ranks, cells=cells, numbers=numbers)


class Evaluator:
    """Evaluates resolved expressions over the cells of a domain, and remembers the results."""

    def __init__(self, domain: Domain, limits: Limits = DEFAULT) -> None:
        self.domain, self.limits = domain, limits
        self.sandbox = Sandbox(domain, limits)
        self.steps: dict[str, list[float]] = {}
        """Where step functions of real columns step, by their text (see ``predicate``)."""
        self._tables: set[str] = set()
        self._truths: dict[str, Factor] = {}
        self._keys: dict[str, KeyValues] = {}
        self._arguments: dict[str, Argument] = {}
        self._terms: dict[str, Terms | None] = {}

    def truth(self, node: Node) -> Factor:
        """Return whether a predicate is FALSE, NULL or TRUE on every cell of its columns."""
        key = text(node)
        if key not in self._truths:
            columns, values = self._by_cell(node)
            # CAST is what WHERE does to a predicate that is not a BOOLEAN.
            truth = "COALESCE(2 * CAST(CAST(value AS BOOLEAN) AS TINYINT), 1)"
            fetched = self._fetch(node, f"SELECT cell, {truth} AS truth FROM ({values})")
            self._truths[key] = _factor(columns, _placed(fetched, "truth", np.int8))
        return self._truths[key]

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
            self._keep(self._arguments, key, self._evaluate_argument(node))
        return self._arguments[key]

    def terms(self, node: Node) -> Terms | None:
        """Return an expression as a sum of products of single columns; None if it is none.

        DuckDB has the last word: on the cells where the functions are smallest and largest, and
        where they are NULL, the products must be what DuckDB makes of the whole expression.
        """
        key = text(node)
        if key not in self._terms:
            whole = len(column_names(node)) == 1
            try:
                found = terms_of(node, lambda part: self._numbers(part, dates=not whole))
            except RefusedError:
                found = None  # A part fails where the whole does not.
            if found is not None and len(found.present) > 1 and not self._confirmed(node, found):
                found = None
            self._keep(self._terms, key, found)
        return self._terms[key]

    def _keep(self, known: dict[str, Kept], key: str, found: Kept) -> None:
        """Remember what was evaluated last, as far as there is room for wide columns."""
        known[key] = found
        while len(known) > 1 and sum(map(_numbers_of, known.values())) > KEPT_NUMBERS:
            del known[next(iter(known))]

    def _numbers(self, node: Node, *, dates: bool) -> Floats:
        """Return the value of an expression of one column on every cell; NaN where it is NULL.

        With ``dates``, a date is a number of days.
        """
        _, values = self._by_cell(node)
        kind = self._type(node, values)
        if kind in NO_NUMBERS and not (dates and kind == "DATE"):
            raise EvaluationError("evaluation", "its values are no numbers", node=node)
        value = "value - DATE '1970-01-01'" if kind == "DATE" else "value"
        fetched = self._fetch(
            node,
            f"SELECT cell, TRY_CAST({value} AS DOUBLE) AS number, value IS NULL AS missing "
            f"FROM ({values})",
        )
        missing, numbers = _placed(fetched, "missing", np.bool_), _placed(fetched, "number")
        if not np.isfinite(numbers[~missing]).all():
            raise EvaluationError("evaluation", "its values are no finite numbers", node=node)
        return np.where(missing, np.nan, numbers)

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
        ours = terms.at(cells).transpose([list(terms.present).index(c.name) for c in columns])
        values = self._product(node, columns, cells)
        try:
            fetched = self._fetch(
                node, f"SELECT TRY_CAST(value AS DOUBLE) AS number FROM ({values}) ORDER BY cell"
            )
        except EvaluationError:
            return False  # A date, or an error that concerns every cell.
        theirs = np.ma.filled(np.ma.asarray(fetched["number"], dtype=np.float64), np.nan)
        # NULL adds nothing to a sum, as 0 does.
        pair = np.nan_to_num(ours.reshape(-1)), np.nan_to_num(theirs)
        return bool(np.allclose(*pair, rtol=1e-9, atol=1e-9))

    def _evaluate_argument(self, node: Node) -> Argument:
        columns, values = self._by_cell(node)
        kind = self._type(node, values)
        number = (
            "epoch_us(CAST(value AS TIMESTAMP))"
            if kind in NO_NUMBERS
            else "TRY_CAST(value AS DOUBLE)"
        )
        fetched = self._fetch(
            node,
            "SELECT cell, CASE WHEN value IS NULL THEN -1 ELSE CAST(DENSE_RANK() OVER "
            "(ORDER BY value NULLS LAST) - 1 AS INTEGER) END AS rank, "
            f"CAST({number} AS DOUBLE) AS number FROM ({values})",
        )
        ranks, numbers = _placed(fetched, "rank", np.int32), _placed(fetched, "number")
        del fetched  # Each array may be of millions of cells.
        first = np.zeros(int(ranks.max(initial=-1)) + 2, dtype=np.int64)
        first[ranks[::-1]] = np.arange(len(ranks))[::-1]
        first = first[:-1]  # That of NULL.
        names, ranks = tuple(c.name for c in columns), ranks.reshape([c.size for c in columns])
        return Argument(names, ranks, first, numbers[first], kind, values)

    def _evaluate_key(self, node: Node) -> KeyValues:
        columns, values = self._by_cell(node)
        if math.prod(column.size for column in columns) > self.limits.groups:
            # Before all of them are held.
            counted = f"SELECT COUNT(DISTINCT value) AS count FROM ({values})"
            count = int(self._fetch(node, counted)["count"][0])
            if count > self.limits.groups:
                many = too_many_groups(count, self.limits)
                raise EvaluationError(many.code, many.message, hint=many.hint)
        # DuckDB decides which values are equal; the first cell stands for all equal ones.
        fetched = self._fetch(
            node,
            f"SELECT cell, first FROM ({values}) AS each "
            f"JOIN (SELECT value, MIN(cell) AS first FROM ({values}) GROUP BY value) AS alike "
            "ON each.value IS NOT DISTINCT FROM alike.value",
        )
        placed = _placed(fetched, "first", np.int32)
        del fetched  # Each array may be of millions of cells.
        first = np.unique(placed)
        codes = np.searchsorted(first, placed).astype(np.int32)
        texts = self._texts(node, values, first)
        null = np.array([text is None for text in texts], dtype=bool)[codes]
        hidden = null & _undeclared(columns).reshape(-1)
        factor = _factor(columns, np.where(hidden, ~codes, codes))
        return KeyValues(factor, texts, self._type(node, values))

    def with_texts(self, argument: Argument, node: Node) -> Argument:
        """Return the values of ``node``, or those that are left of them, with texts for ranks."""
        texts = self._texts(node, argument.sql, argument.cells)
        return replace(argument, ranks=np.zeros(0, dtype=np.int32), texts=texts)

    def _texts(self, node: Node, values: str, cells: Integers) -> Texts:
        """Return the values on some cells as texts; None for NULL."""
        fetched = self._fetch(
            node,
            f"SELECT CAST(value AS VARCHAR) AS text FROM ({values}) "
            "JOIN (SELECT unnest(?::BIGINT[]) AS wanted) ON cell = wanted ORDER BY wanted",
            [cells.tolist()],
        )
        found = np.array(np.ma.getdata(fetched["text"]), dtype=object)
        found[np.ma.getmaskarray(fetched["text"])] = None
        texts = np.full(len(cells), None, dtype=object)
        texts[np.argsort(cells)] = found
        return texts

    # Constants, and values that are no cells.

    def doubles(self, nodes: Sequence[Node]) -> list[tuple[float | None, str]]:
        """Return constant expressions as DOUBLE, and their types."""
        found: list[tuple[float | None, str]] = []
        for start in range(0, len(nodes), _CONSTANTS):
            some = nodes[start : start + _CONSTANTS]
            listed = ", ".join(f"CAST(({text(n)}) AS DOUBLE), typeof({text(n)})" for n in some)
            try:
                (row,) = self._rows(some[0], f"SELECT {listed}")
            except EvaluationError:
                if len(some) == 1:
                    raise
                found += [self.doubles([node])[0] for node in some]  # The one that fails says so.
                continue
            found += zip(row[::2], row[1::2], strict=True)
        return found

    def fractions(self, node: Node) -> tuple[list[Fraction | float | None], bool]:
        """Return a constant expression, or a constant list of them, exactly as it is written."""
        sql = text(node)
        kind = self._type(node, f"SELECT ({sql})", 0)
        listed = kind.endswith("]")
        source = f"unnest({sql})" if listed else f"({sql})"
        exact = kind.startswith(("DECIMAL", "INTEGER", "BIGINT", "HUGEINT"))
        rows = self._rows(node, f"SELECT CAST({source} AS VARCHAR)")
        return [
            None if value is None else Fraction(value) if exact else float(value)
            for (value,) in rows
        ], listed

    def along(self, name: str, node: Node, values: Floats) -> Floats:
        """Return an expression of one real column at given values of it, as DOUBLE."""
        source = f"(SELECT unnest(?::DOUBLE[]) AS {quote(name)})"
        rows = self._rows(
            node, f"SELECT CAST(({text(node)}) AS DOUBLE) FROM {source}", [values.tolist()]
        )
        return np.array([np.nan if value is None else value for (value,) in rows])

    # Running SQL.

    def _rows(
        self, node: Node, sql: str, parameters: Sequence[object] = ()
    ) -> list[tuple[Any, ...]]:
        try:
            return self.sandbox.execute(sql, parameters).fetchall()
        except duckdb.Error as error:
            raise _failed(node, error) from None

    def _fetch(
        self, node: Node, sql: str, parameters: Sequence[object] = ()
    ) -> dict[str, NDArray[np.generic]]:
        try:
            fetched: dict[str, NDArray[np.generic]] = self.sandbox.fetch(
                sql, self.limits.seconds, parameters
            )
        except TooSlowError:
            raise RefusedError(
                "too-slow",
                f"this takes longer than {self.limits.seconds} s on the values that the schema "
                "declares",
                hint=f"Write it more simply, or over fewer columns at once. {advice('seconds')}",
                node=node,
            ) from None
        except duckdb.Error as error:
            raise _failed(node, error) from None
        return fetched

    def _type(self, node: Node, sql: str, place: int = 1) -> str:
        try:
            return self.sandbox.types(sql)[place]
        except duckdb.Error as error:
            raise _failed(node, error) from None

    # Tables of cells.

    def _by_cell(self, node: Node) -> tuple[list[Column], str]:
        """Return the columns of an expression, and a SELECT of its value on every cell of them."""
        names = column_names(node)
        columns = [column for column in self.domain.columns if column.name in names]
        cells = math.prod(column.size for column in columns)
        if cells > self.limits.predicate_cells:
            raise too_many_cells([column.name for column in columns], cells, self.limits)
        return columns, self._product(node, columns)

    def _product(
        self,
        node: Node,
        columns: Sequence[Column],
        cells: Mapping[str, Integers] | None = None,
    ) -> str:
        """Return a SELECT of an expression's value on the cells, or on some ``cells``, of columns.

        The cells of the product are numbered row by row.
        """
        tables = [self._cell_table(column) for column in columns]
        sources = tables
        if cells is not None:
            sources = [
                f"(FROM {table} WHERE __cell IN ({', '.join(map(str, cells[c.name]))})) AS {table}"
                for table, c in zip(tables, columns, strict=True)
            ]
        sizes = [column.size for column in columns]
        pairs = zip(tables, row_major_strides(sizes), strict=True)
        number = " + ".join(f"{table}.__cell * {stride}" for table, stride in pairs) or "0"
        kind = "INTEGER" if math.prod(sizes) < 2**31 else "BIGINT"  # Millions of them are fetched.
        return (
            f"SELECT CAST({number} AS {kind}) AS cell, ({text(node)}) AS value "
            f"FROM {', '.join(sources) or '(SELECT 1)'}"
        )

    def _cell_table(self, column: Column) -> str:
        """Return the name of the table of a column's cells, which is made at first use."""
        table = f"__cells_{self.domain.columns.index(column)}"
        if table not in self._tables:
            value, parameters = _value_sql(column)
            # What can be counted out is not stored, so that wide columns take no memory.
            made = "TABLE" if parameters else "VIEW"
            self.sandbox.execute(
                f"CREATE {made} {table} AS SELECT range AS __cell, "
                f"CASE WHEN range < {column.declared} THEN CAST({value} AS {column.sql_type}) END "
                f"AS {quote(column.name)} FROM range({column.size})",
                parameters,
            ).fetchall()
            self._tables.add(table)
        return table


def _failed(node: Node, error: duckdb.Error) -> EvaluationError:
    message, _ = explain(error)
    hint = "This happens on a value that the schema declares; TRY(...) or CASE avoids it."
    if "date field" in message:
        hint = "Dates are written as '2024-01-31'."
    elif "Could not convert string" in message:
        hint = (
            "Text is compared with text in quotes; TRY_CAST(... AS ...) gives NULL for a value "
            "that cannot be converted."
        )
    return EvaluationError("evaluation", message, hint=hint, node=node)


def _undeclared(columns: Sequence[Column]) -> NDArray[np.bool_]:
    """Return whether a column that is not nullable is NULL, on every cell of some columns."""
    undeclared = np.zeros([column.size for column in columns], dtype=bool)
    for axis, column in enumerate(columns):
        if column.null_cell is not None and not column.nullable:
            undeclared[(slice(None),) * axis + (column.null_cell,)] = True
    return undeclared


def _numbers_of(found: Argument | Terms | None) -> int:
    """Return how many numbers are held."""
    if isinstance(found, Argument):
        return found.ranks.size + len(found.numbers)
    if found is None:
        return 0
    functions = [v for term in (*found.terms, *found.presence) for v in term.functions.values()]
    return sum(map(len, [*functions, *found.present.values()]))


def _placed(
    fetched: Mapping[str, NDArray[np.generic]], name: str, kind: type[np.generic] = np.float64
) -> NDArray[Any]:
    """Return a fetched column by cell; NULL is NaN."""
    values = fetched[name]
    if np.ma.isMaskedArray(values):
        values = np.ma.filled(np.ma.asarray(values, dtype=np.float64), np.nan)
    placed = np.empty(len(values), dtype=kind)
    placed[np.asarray(fetched["cell"])] = values
    return placed


def _factor(columns: Sequence[Column], values: NDArray[np.integer]) -> Factor:
    """Return a factor of some columns from its values by cell."""
    return Factor.of([c.name for c in columns], values.reshape([c.size for c in columns]))


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
