"""Generated schemas, tables and scopes, to be counted on every engine and in plain Python.

Values are drawn from pools of what engines are known to differ in: text that only a collation
takes for equal, blanks at the end, escapes, NaN, infinity and negative zero, numbers next to a
cut, decimals that lie between two floating-point numbers, days before 1582.
"""

import hashlib
import json
import math
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from functools import cached_property
from random import Random

import duckdb
import numpy as np

from sqlmadp.table.domain import Column, Domain, Unit
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows

WORDS = ["a", "A", "b", "B", "ä", "Ä", "a ", " a", "it's", "\\", "\\n", "a\nb", "%", '"', "", "`"]
WORDS += ["é", "e\u0301", "ß", "ss", "I", "ı", "😀", "null", "NaN", "?", "$1", "--", "a\tb"]
ALIKE = ["a", "A", "b", "B", "ä", "Ä", "é", "É", "e\u0301", "ss", "SS", "ß", "I", "i", "ı"]
SHORT = [word for word in WORDS if len(word.encode()) <= 4 and word != "\\n"]
INTEGERS = [0, 1, -1, 2, 3, 7, 100, -100, 32767, -32768]
LARGE = [2**31, -(2**31), 2**53, 2**53 + 1, 2**62, -(2**63), 2**63 - 1]
HUGE = [2**63, 10**25, -(10**25), 10**30 - 1]
REALS = [0.0, -0.0, 0.1, 0.2, 0.3, 0.1 + 0.2, 0.5, 1.0, 1.5, -1.0, 7.0, 1e300, -1e300, 5e-324]
REALS += [math.nextafter(0.1, 1), math.nextafter(0.1, 0), math.nan, math.inf, -math.inf, 2.0**53]
DECIMALS = ["0", "0.1", "0.10000000000000000001", "0.3", "0.30000000000000000004", "0.5", "-1"]
DECIMALS += ["0.29999999999999998890", "1.5", "7", "123456789.123456789", "-0.00000000000000000001"]
FIRST = date(2020, 2, 27)
DAYS = [FIRST + timedelta(days) for days in range(-2, 8)]
DAYS += [date(1582, 10, 4), date(1582, 10, 10), date(1500, 3, 1), date(1, 1, 1), date(9999, 12, 31)]

# How a value is stored: in DuckDB and its Parquet files, in PostgreSQL, in Spark's tables.
STORED = {
    "words": ("VARCHAR", "text", "STRING"),
    "limited words": ("VARCHAR", "varchar(20)", "STRING"),
    "padded words": ("VARCHAR", "char(4)", "CHAR(4)"),
    "words of any case": (
        "VARCHAR COLLATE NOCASE",
        "text COLLATE {any_case}",
        "STRING COLLATE UNICODE_CI",
    ),
    "small": ("SMALLINT", "smallint", "SMALLINT"),
    "integer": ("BIGINT", "bigint", "BIGINT"),
    "huge": ("DECIMAL(31, 0)", "numeric(31, 0)", "DECIMAL(31, 0)"),
    "flag": ("BOOLEAN", "boolean", "BOOLEAN"),
    "day": ("DATE", "date", "DATE"),
    "double": ("DOUBLE", "double precision", "DOUBLE"),
    "float": ("FLOAT", "real", "FLOAT"),
    "decimal": ("DECIMAL(38, 20)", "numeric", "DECIMAL(38, 20)"),
    "short decimal": ("DECIMAL(12, 3)", "numeric(12, 3)", "DECIMAL(12, 3)"),
}
POOLS = {
    "words": WORDS,
    "limited words": WORDS,
    "padded words": SHORT,
    "words of any case": ALIKE,
    "small": INTEGERS,
    "integer": INTEGERS + LARGE,
    "huge": INTEGERS + LARGE + HUGE,
    "flag": [False, True],
    "day": DAYS,
    "double": REALS,
    "float": [float(np.float32(each)) for each in REALS if not 1e38 < abs(each) < math.inf],
    "decimal": [Decimal(each) for each in DECIMALS],
    "short decimal": [Decimal(each) for each in ("0", "0.1", "0.3", "0.5", "1.5", "-1", "7")],
}
TYPES = {
    **dict.fromkeys(["words", "limited words", "padded words", "words of any case"], "category"),
    **dict.fromkeys(["small", "integer", "huge"], "integer"),
    **dict.fromkeys(["double", "float", "decimal", "short decimal"], "real"),
    "flag": "boolean",
    "day": "date",
}


@dataclass(frozen=True)
class Stored:
    """One column of a generated table."""

    name: str
    storage: str

    def value(self, value):
        """Return a value as it is meant: blanks that pad are no part of it."""
        return value.rstrip(" ") if self.storage == "padded words" and value else value


@dataclass(frozen=True)
class EngineCase:
    """One table with its schema, and the marginals to count."""

    stored: tuple[Stored, ...]
    records: list[tuple]
    domain: Domain
    marginals: list[Rows]

    @classmethod
    def number(cls, number):
        """Return the case of that number, always the same."""
        return _Maker(Random(number)).case()

    @cached_property
    def expected(self):
        """Return the counts of every marginal, counted in plain Python."""
        kept = self._kept()
        return [self._count(marginal, kept) for marginal in self.marginals]

    def create(self, engine, table):
        """Return the CREATE TABLE of one engine: 0 DuckDB, 1 PostgreSQL, 2 Spark."""
        quote = "`" if engine == 2 else '"'
        columns = ", ".join(
            f"{quote}{each.name}{quote} {STORED[each.storage][engine]}" for each in self.stored
        )
        return f"CREATE TABLE {table} ({columns})"

    def write_duckdb(self, path):
        """Write the table to a DuckDB file, and to a Parquet file beside it."""
        with duckdb.connect(str(path)) as connection:
            connection.execute(self.create(0, "t"))
            marks = ", ".join("?" for _ in self.stored)
            if self.records:
                connection.executemany(f"INSERT INTO t VALUES ({marks})", self._records())
            connection.execute(f"COPY t TO '{path.with_suffix('.parquet')}'")

    def _records(self):
        return [
            tuple(each.value(value) for each, value in zip(self.stored, record, strict=True))
            for record in self.records
        ]

    def _kept(self):
        """Return the cells of the records that are counted."""
        names = [each.name.casefold() for each in self.stored]
        kept = []
        for record in self._records():
            by_name = dict(zip(names, record, strict=True))
            values = [by_name[column.name.casefold()] for column in self.domain.columns]
            cells = [cell_of(c, v) for c, v in zip(self.domain.columns, values, strict=True)]
            if None not in cells:
                kept.append((by_name, cells))
        return kept if self.domain.unit is None else self._first_of_units(kept)

    def _first_of_units(self, kept):
        unit = self.domain.unit
        declared = {column.name.casefold() for column in self.domain.columns}
        plain = [e.name.casefold() for e in self.stored if TYPES[e.storage] != "real"]
        others = [n for n in plain if n not in declared and n != unit.column.casefold()]
        key = [name.casefold() for name in unit.key] or others or plain

        def order(entry):
            by_name, _ = entry
            text = "".join(f"{text_of(by_name[n])}|" for n in (unit.column.casefold(), *key))
            values = [sortable(by_name[c.name.casefold()], c.type) for c in self.domain.columns]
            return hashlib.md5(text.encode()).hexdigest(), values

        counted, owned = [], {}
        for entry in sorted(kept, key=order):
            owner = entry[0][unit.column.casefold()]
            if owner is None:
                counted += [entry] if unit.nulls == "own" else []
                continue
            owned[owner] = owned.get(owner, 0) + 1
            counted += [entry] if owned[owner] <= unit.max_records else []
        return counted

    def _count(self, marginal, kept):
        counts = np.zeros(marginal.size, dtype=np.int64)
        names = [column.name for column in self.domain.columns]
        for _, cells in kept:
            place = 0
            for name, partition in zip(marginal.scope, marginal.parts, strict=True):
                place = place * partition.size + partition.pieces[cells[names.index(name)]]
            counts[place] += 1
        return counts

    def __repr__(self):
        columns = {each.name: each.storage for each in self.stored}
        return f"{json.dumps(columns)} {self.domain!r} {len(self.records)} records"


def load_postgres(connection, case):
    """Fill a table of the server, its text compared regardless of case where that is asked for."""
    import psycopg  # noqa: PLC0415

    try:
        connection.execute(
            "CREATE COLLATION IF NOT EXISTS any_case "
            "(provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
        )
        collation = "any_case"
    except psycopg.Error:  # A server without ICU.
        collation = '"default"'
    connection.execute("DROP TABLE IF EXISTS t")
    connection.execute(case.create(1, "t").format(any_case=collation))
    marks = ", ".join("%s" for _ in case.stored)
    with connection.cursor() as cursor:
        cursor.executemany(f"INSERT INTO t VALUES ({marks})", case.records)


def load_spark(session, case, parquet):
    """Lay a table of Spark's catalogue over a Parquet file."""
    session.sql("DROP TABLE IF EXISTS t")
    session.sql(f"{case.create(2, 't')} USING parquet LOCATION '{parquet}'")


def cell_of(column, value):
    """Return the cell of one value by the words of the design, or None if it breaks a promise."""
    if value is None:
        return column.null_cell
    if column.type in {"category", "boolean"}:
        values = list(column.values) or [False, True]
        return values.index(value) if value in values else column.null_cell
    value = float(value) if column.type in {"real", "decimal"} else value
    low, high = column.minimum, column.maximum
    if value != value or (column.outside == "null" and not low <= value <= high):
        return column.null_cell
    value = min(max(value, low), high)
    if column.type == "real":
        return column.cell_of_real(value)
    if column.type == "decimal":
        unit = 10**column.decimals
        return math.floor(value * unit + 0.5) - round(low * unit)
    return value - low if column.type == "integer" else (value - low).days


def text_of(value):
    """Return the text of a value that is the same in every engine."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def sortable(value, kind):
    """Return a key that sorts NULL first, text by its bytes, reals as floating-point numbers."""
    if value is None:
        return (0, 0)
    if kind == "real":
        return (1, float(value))
    return (1, value.encode() if isinstance(value, str) else value)


class _Maker:
    def __init__(self, random):
        self.random = random

    def case(self):
        kinds = self.random.sample(list(STORED), self.random.randint(1, 4))
        stored = [Stored(f"{'Cc'[n % 2]}{n}", kind) for n, kind in enumerate(kinds)]
        columns = tuple(self.column(each) for each in stored)
        unit, further = self.unit()
        domain = Domain(table="t", columns=columns, unit=unit)
        everything = (*stored, *further)
        size = self.random.choice([0, 1, 40, 120])
        # A few values of each column, so that records agree in some; most of them declared.
        few = {each.name: self.some(POOLS[each.storage], 6) for each in everything}
        for each, column in zip(stored, columns, strict=True):
            few[each.name] += 8 * self.some(self.declared(each, column), 4)
        records = [tuple(self.value(few[each.name]) for each in everything) for _ in range(size)]
        return EngineCase(everything, records, domain, [*self.marginals(domain)])

    def some(self, pool, most):
        return self.random.sample(pool, min(len(pool), self.random.randint(2, most)))

    def declared(self, stored, column):
        """Return values as they are stored that lie in the domain."""
        near = range(-3, 12) if column.type == "integer" else ()
        pool = [*POOLS[stored.storage], *near]
        return [v for v in pool if cell_of(column, stored.value(v)) not in (None, column.null_cell)]

    def value(self, pool):
        return None if self.random.random() < 0.05 else self.random.choice(pool)

    def column(self, stored):
        pool, kind = POOLS[stored.storage], TYPES[stored.storage]
        complete = self.random.random() < 0.4
        nullable = not complete and self.random.random() < 0.5
        shared = {"name": stored.name, "nullable": nullable, "complete": complete}
        ordered = {**shared, "outside": self.random.choice(["null", "clamp"])}
        match kind:
            case "category":
                values = {stored.value(word) for word in self.some(pool, 9)}
                return Column(type=kind, values=tuple(sorted(values)), **shared)
            case "boolean":
                return Column(type=kind, **shared)
            case "real" if self.random.random() < 0.4:
                decimals = self.random.randint(0, 2)
                low = self.random.randint(-20, 5) / 10**decimals
                high = low + self.random.randint(0, 30) / 10**decimals
                ends = {"minimum": round(low, decimals), "maximum": round(high, decimals)}
                return Column(type="decimal", decimals=decimals, **ends, **ordered)
            case "real":
                ends = self.some([float(v) for v in pool if math.isfinite(v)], 6)
                low, *cuts, high = sorted({0.0, 1.0, *ends})
                return Column(type=kind, minimum=low, maximum=high, cuts=tuple(cuts), **ordered)
            case "integer" if self.random.random() < 0.3 and stored.storage != "huge":
                values = tuple(self.some([v for v in pool if abs(v) < 2**63], 6))
                return Column(type="category", values=values, **shared)
            case "integer":
                low = self.random.randint(-3, 3)
                return Column(type=kind, minimum=low, maximum=low + 8, **ordered)
            case "date":
                low = FIRST + timedelta(self.random.randint(-1, 1))
                return Column(type=kind, minimum=low, maximum=low + timedelta(5), **ordered)

    def unit(self):
        if self.random.random() < 0.4:
            return None, ()
        storage = self.random.choice(["small", "words", "huge", "day", "words of any case", "flag"])
        whose, key = (
            Stored("Whose", storage),
            Stored("visit", self.random.choice(["integer", "words"])),
        )
        unit = Unit(
            column="whose",
            max_records=self.random.randint(1, 4),
            nulls=self.random.choice(["drop", "own"]),
            key=self.random.choice([(), ("visit",)]),
        )
        return unit, (whose, key) if unit.key or self.random.random() < 0.7 else (whose,)

    def marginals(self, domain):
        names = [column.name for column in domain.columns]
        for _ in range(self.random.randint(1, 5)):
            scope = sorted(self.random.sample(names, self.random.randint(0, min(3, len(names)))))
            yield Rows(
                tuple(scope),
                tuple(self.partition(domain.column(name).size) for name in scope),
            )

    def partition(self, size):
        if self.random.random() < 0.7:
            return Partition.finest(size)
        return Partition.flat(np.array([self.random.randint(0, 2) for _ in range(size)]))
