"""Schemas, tables, statements and whole plans made at random, none of them for the code's sake.

Names have spaces, quotes, capitals, keywords and letters beyond ASCII; columns are nullable,
constant or have one value; tables may be empty.  Every record lies in the declared domain, so that
DuckDB's rows on the table itself are what a release without noise returns.  A statement that is to
be compared asks for groups with ``HAVING COUNT(*) > 0`` and for sums with ``COALESCE``, since
whether a group is empty cannot be seen through noise.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path

import duckdb

TABLES = ["people", "Loans 2025", 'odd "quoted"', "order", "Übersicht", "t", "GROUP", "a.b"]
NAMES = [
    *("a", "b", "k", "n", "x y", "Home District", "select", "Größe", 'in "quotes"', "count"),
    *("UPPER", "mixedCase", "1st", "naïve", "table", "end", "it's", "per%cent", "semi;colon", "年"),
    *("__hidden", "value", "date", "sum", "from", "dot.ted", "tab\tbed"),
]
TEXTS = [
    "m",
    "f",
    "Other",
    "it's",
    'say "hi"',
    "",
    " ",
    "Zoë",
    "NULL",
    "null",
    "0",
    "x;y",
    "--",
    "%",
]
CASTS = ["TINYINT", "UTINYINT", "SMALLINT", "INTEGER", "UINTEGER", "DOUBLE", "VARCHAR"]
CASTS += ["DECIMAL(4, 1)", "BOOLEAN", "HUGEINT", "FLOAT"]
MECHANISMS = ["independent", "identity", "utilitarian", "weighted_utilitarian"]
MECHANISMS += ["waterfilling", "waterfilling", "pareto", "ratchet"]
FIRST = date(2024, 2, 27)


def quote(name: str) -> str:
    """Return a name as SQL reads it, whatever it is."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """Return a value as SQL text."""
    return "'" + value.replace("'", "''") + "'"


def toml(value: object) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
        return f'"{escaped}"'
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return str(value)


@dataclass(frozen=True)
class Column:
    """A declared column, and the values that records have in it."""

    name: str
    kind: str
    values: list
    nullable: bool

    @property
    def sql(self) -> str:
        return quote(self.name)

    @property
    def type(self) -> str:
        types = {"integer": "BIGINT", "boolean": "BOOLEAN", "date": "DATE", "real": "DOUBLE"}
        if self.kind == "category":
            return "BIGINT" if isinstance(self.values[0], int) else "VARCHAR"
        return types[self.kind]

    @property
    def number(self) -> bool:
        return self.type == "BIGINT"

    def literal(self, value: object) -> str:
        if isinstance(value, str):
            return text(value)
        return f"DATE '{value}'" if isinstance(value, date) else str(value)

    def declaration(self) -> str:
        lines = [f"[columns.{toml(self.name)}]", f'type = "{self.kind}"']
        if self.kind == "category":
            lines.append(f"values = {toml(self.values)}")
        elif self.kind != "boolean":
            lines += [f"min = {toml(self.values[0])}", f"max = {toml(self.values[-1])}"]
        if self.nullable:
            lines.append("nullable = true")
        return "\n".join(lines)


@dataclass(frozen=True)
class Lookup:
    """A public table: some rows match values of ``key``, and some do not."""

    name: str
    key: Column
    rows: list[tuple]

    @property
    def sql(self) -> str:
        return quote(self.name)

    def declaration(self) -> str:
        columns = '["code", "label", "worth"]'
        return f"[public.{toml(self.name)}]\ncolumns = {columns}\nrows = {toml(self._lists())}"

    def _lists(self) -> list:
        return [list(row) for row in self.rows]


@dataclass
class Statement:
    """A statement, what DuckDB is asked in its place, and how the rows are compared."""

    sql: str
    reference: str = ""
    compared: bool = True
    ordered: bool = False
    kind: str = ""

    def __post_init__(self) -> None:
        self.reference = self.reference or self.sql


@dataclass
class World:
    """A table with its declaration, its records and the statements about it."""

    random: random.Random
    table: str
    columns: list[Column]
    lookups: list[Lookup]
    records: list[tuple] = field(default_factory=list)

    @classmethod
    def made(cls, seed: int) -> World:
        """Return the table of a seed."""
        choose = random.Random(seed)
        names = choose.sample(NAMES, choose.choice([1, 2, 2, 3, 3, 4, 5]))
        names = [
            n for i, n in enumerate(names) if n.casefold() not in {m.casefold() for m in names[:i]}
        ]
        names = [name for name in names if not name.startswith("__") and "\t" not in name]
        columns = [_column(choose, name) for name in names or ["a"]]
        world = cls(choose, choose.choice(TABLES), columns, [])
        keys = [c for c in columns if c.kind == "category" and c.values]
        if keys and choose.random() < 0.7:
            world.lookups.append(_lookup(choose, choose.choice(keys)))
        for _ in range(choose.choice([0, 1, 2, 10, 40, 40, 150])):
            world.records.append(tuple(_value(choose, column) for column in columns))
        return world

    # Files and the reference.

    def schema(self) -> str:
        """Return the schema file."""
        parts = [f"table = {toml(self.table)}"]
        parts += [column.declaration() for column in self.columns]
        return "\n".join([*parts, *(lookup.declaration() for lookup in self.lookups)]) + "\n"

    def connection(self) -> duckdb.DuckDBPyConnection:
        """Return DuckDB with the table and the public tables."""
        connection = duckdb.connect()
        connection.execute("SET threads = 1")
        listed = ", ".join(f"{c.sql} {c.type}" for c in self.columns)
        connection.execute(f"CREATE TABLE {quote(self.table)} ({listed})")
        marks = ", ".join("?" for _ in self.columns)
        if self.records:
            connection.executemany(
                f"INSERT INTO {quote(self.table)} VALUES ({marks})", self.records
            )
        for lookup in self.lookups:
            kind = lookup.key.type
            connection.execute(
                f"CREATE TABLE {lookup.sql} (code {kind}, label VARCHAR, worth BIGINT)"
            )
            connection.executemany(f"INSERT INTO {lookup.sql} VALUES (?, ?, ?)", lookup.rows)
        return connection

    def write_table(self, path: Path) -> None:
        """Write the private table as Parquet."""
        self.connection().execute(f"COPY {quote(self.table)} TO {text(str(path))} (FORMAT parquet)")

    # Expressions.

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, *options):
        return self.random.choice(options)

    def predicate(self, depth: int = 1) -> str:
        """Return a condition on records."""
        if depth and self.chance(0.4):
            one, two = self.predicate(depth - 1), self.predicate(depth - 1)
            return self.pick(f"NOT ({one})", f"({one}) AND ({two})", f"({one}) OR ({two})")
        column = self.random.choice(self.columns)
        value = column.literal(self.random.choice(column.values or [True]))
        if column.kind == "boolean":
            return self.pick(column.sql, f"NOT {column.sql}", f"{column.sql} IS NULL")
        forms = [
            "{c} = {v}",
            "{c} <> {v}",
            "{c} <= {v}",
            "{c} > {v}",
            "{c} IS NULL",
            "{c} IN ({v})",
        ]
        forms += ["{c} IS DISTINCT FROM {v}", "{c} BETWEEN {v} AND {v}", "TRUE", "{c} NOT IN ({v})"]
        return self.random.choice(forms).format(c=column.sql, v=value)

    def impossible(self) -> str:
        """Return a condition that no declared value meets."""
        column = self.random.choice(self.columns)
        forms = ["FALSE", "1 = 2", "NULL", "{c} <> {c}", "{c} IS NULL AND {c} IS NOT NULL"]
        if column.kind in ("integer", "real"):
            forms += ["{c} > 1000000", "{c} BETWEEN 5 AND -5"]
        return self.random.choice(forms).format(c=column.sql)

    def where(self, probability: float = 0.5) -> str:
        return f" WHERE {self.predicate()}" if self.chance(probability) else ""

    def keys(self) -> list[Column]:
        return [c for c in self.columns if c.kind != "real"]

    def key(self) -> str:
        """Return a group key."""
        grouped = self.keys()
        if not grouped or self.chance(0.1):
            return self.pick("'all'", "1 + 1", "NULL", "TRUE")
        column = self.random.choice(grouped)
        forms = ["{c}"] * 4 + ["{c} IS NULL", "coalesce({c}, {v})"]
        forms += ["{c} // 2", "{c} % 3", "-{c}"] if column.number else []
        forms += ["upper({c})", "{c} || 'x'", "length({c})"] if column.type == "VARCHAR" else []
        forms += ["month({c})", "date_trunc('month', {c})"] if column.kind == "date" else []
        value = column.literal(self.random.choice(column.values or [True]))
        return self.random.choice(forms).format(c=column.sql, v=value)

    def count(self) -> str:
        """Return an aggregate that is a whole number and never NULL."""
        numbers = [c for c in self.columns if c.number]
        column = self.random.choice(self.columns)
        forms = ["COUNT(*)", "COUNT(*)", f"COUNT({column.sql})"]
        forms += [f"COUNT(*) FILTER (WHERE {self.predicate(0)})"]
        forms += [f"COALESCE(COUNT_IF({self.predicate(0)}), 0)"]
        if numbers:
            forms += [f"COALESCE(SUM({self.random.choice(numbers).sql}), 0)"] * 2
        return self.random.choice(forms)

    def aggregate(self) -> str:
        """Return any aggregate."""
        numbers = [c.sql for c in self.columns if c.number]
        if not numbers or self.chance(0.5):
            return self.count()
        one, two = self.random.choice(numbers), self.random.choice(numbers)
        name = self.pick("AVG", "VAR_POP", "STDDEV_SAMP", "MEDIAN", "AVG")
        return self.pick(
            f"{name}({one})",
            f"QUANTILE_DISC({one}, {self.pick('0.5', '0.25', '1')})",
            f"{name}({one}) FILTER (WHERE {self.predicate(0)})",
            f"COVAR_POP({one}, {two})",
            f"REGR_COUNT({one}, {two})",
        )

    def source(self) -> str:
        """Return a FROM clause over records."""
        table = quote(self.table)
        return self.pick(
            *[table] * 4,
            f"{table} AS r",
            f"(SELECT * FROM {table}{self.where()}) AS inside",
            f"(SELECT * FROM {table} ORDER BY 1)",
        )

    def counted(self, *, where: float = 0.4) -> str:
        """Return a SELECT of groups ``k`` and their whole number ``n``."""
        table, key = quote(self.table), self.key()
        return (
            f"SELECT {key} AS k, {self.count()} AS n FROM {table}{self.where(where)} "
            f"GROUP BY {key} HAVING COUNT(*) > 0"
        )

    # Statements.

    def statement(self) -> Statement:
        """Return one statement."""
        form = self.random.choice(FORMS)
        made = getattr(self, f"_{form}")()
        made.kind = form
        return made

    def _total(self) -> Statement:
        aggregates = ", ".join(self.aggregate() for _ in range(self.random.randint(1, 3)))
        return Statement(f"SELECT {aggregates} FROM {self.source()}{self.where()}")

    def _groups(self) -> Statement:
        keys = list(dict.fromkeys(self.key() for _ in range(self.random.randint(1, 2))))
        names = [f"g{n}" for n in range(len(keys))]
        items = [f"{key} AS {name}" for key, name in zip(keys, names, strict=True)]
        items += [f"{self.aggregate()} AS a{n}" for n in range(self.random.randint(1, 3))]
        by = self.pick(", ".join(names), ", ".join(names), "ALL", f"ROLLUP ({', '.join(names)})")
        sql = f"SELECT {', '.join(items)} FROM {self.source()}{self.where()} GROUP BY {by}"
        if by == "ALL":  # Without a key that is no constant there is one row in any case.
            return Statement(sql + " HAVING COUNT(*) > 0")
        sql += " HAVING COUNT(*) > 0"
        if "ROLLUP" not in by and self.chance(0.4):
            orders = (f"{name} {self.pick('DESC', 'NULLS FIRST')}" for name in names)
            sql += f" ORDER BY {', '.join(orders)}"
            return Statement(sql + self.pick("", " LIMIT 2", " LIMIT 3 OFFSET 1"), ordered=True)
        return Statement(sql)

    def _every_group(self) -> Statement:
        """Return all groups that the domain allows: more than DuckDB has."""
        key = self.key()
        table = quote(self.table)
        return Statement(
            f"SELECT {key} AS k, {self.count()} AS n FROM {table} GROUP BY {key}", compared=False
        )

    def _nothing(self) -> Statement:
        """Return a statement whose condition nothing meets."""
        numbers = [c.sql for c in self.columns if c.number] or ["1"]
        one = self.random.choice(numbers)
        items = self.random.sample(
            ["COUNT(*)", f"SUM({one})", f"AVG({one})", f"COUNT_IF({one} > 0)", f"MEDIAN({one})"], 2
        )
        sql = f"SELECT {', '.join(items)} FROM {quote(self.table)} WHERE {self.impossible()}"
        table, constant = quote(self.table), self.pick("'all'", "7")
        grouped = sql.replace("SELECT ", f"SELECT {constant} AS c, ", 1)
        single = sql.replace(f", {items[1]}", "", 1)
        return self.pick(
            Statement(sql),
            Statement(f"{grouped} GROUP BY ALL"),
            Statement(f"{grouped} GROUP BY c"),
            Statement(f"SELECT ({single}) AS inner_one"),
            Statement(f"SELECT COUNT(*) FILTER (WHERE {self.impossible()}) AS n FROM {table}"),
        )

    def _constant_key(self) -> Statement:
        constant = self.pick("'all'", "1 + 1", "NULL", "DATE '2024-01-01'", "[1, 2]")
        sql = f"SELECT {constant} AS c, {self.count()} AS n FROM {quote(self.table)}{self.where()}"
        return Statement(sql + self.pick(" GROUP BY c HAVING COUNT(*) > 0", " GROUP BY ALL"))

    def _joined_answers(self) -> Statement:
        """Return answers joined with a public table, in every direction."""
        if not self.lookups:
            return self._groups()
        lookup = self.lookups[0]
        inner = (
            f"SELECT {lookup.key.sql} AS k, {self.count()} AS n FROM {quote(self.table)}"
            f"{self.where(0.3)} GROUP BY 1 HAVING COUNT(*) > 0"
        )
        side = self.pick("", "LEFT ", "RIGHT ", "FULL ", "RIGHT ", "FULL ")
        sides = [f"({inner}) z", f"{lookup.sql} p"]
        if self.chance(0.3):
            sides.reverse()
        table = f"{sides[0]} {side}JOIN {sides[1]} ON z.k = p.code"
        if self.chance(0.1):
            table = f"{sides[0]} CROSS JOIN {sides[1]}"
        return Statement(
            self.pick(
                f"SELECT p.label, SUM(n) AS s, COUNT(*) AS c FROM {table} GROUP BY p.label",
                f"SELECT z.k, p.label, n FROM {table}",
                f"SELECT n + worth AS more FROM {table}",
                f"SELECT label, n, SUM(n) OVER (PARTITION BY label) AS w FROM {table}",
                f"SELECT p.label, COUNT(z.k) AS c, MAX(n) AS m FROM {table} GROUP BY p.label",
                f"SELECT COUNT(*) AS c, SUM(n * worth) AS s FROM {table}",
                f"SELECT coalesce(n, 0) AS n, worth FROM {table} WHERE worth IS NOT NULL",
            )
        )

    def _joined_records(self) -> Statement:
        """Return groups of records by a column of a public table."""
        if not self.lookups:
            return self._total()
        lookup = self.lookups[0]
        side = self.pick("", "LEFT ")
        table = f"{quote(self.table)} AS r {side}JOIN {lookup.sql} p ON r.{lookup.key.sql} = p.code"
        return Statement(
            f"SELECT p.label AS l, COUNT(*) AS n, COALESCE(SUM(p.worth), 0) AS s FROM {table} "
            "GROUP BY l HAVING COUNT(*) > 0"
        )

    def _set_operation(self) -> Statement:
        operator = self.pick("UNION ALL", "UNION", "EXCEPT", "INTERSECT", "EXCEPT ALL")
        one, two = (
            f"SELECT CAST({self.count()} AS BIGINT) AS n FROM {quote(self.table)}{self.where()}"
            for _ in range(2)
        )
        if self.chance(0.3):
            return Statement(f"SELECT SUM(n) AS s FROM ({one} {operator} {two})")
        return Statement(
            f"{one} {operator} {two}" + self.pick("", " ORDER BY n", " ORDER BY 1 LIMIT 1")
        )

    def _window(self) -> Statement:
        over = self.pick(
            "SUM(n) OVER (ORDER BY k)",
            "n - LAG(n) OVER (ORDER BY k)",
            "RANK() OVER (ORDER BY n DESC)",
            "n / NULLIF(SUM(n) OVER (), 0)",
            "COUNT(*) OVER ()",
            "FIRST_VALUE(n) OVER (ORDER BY k)",
            "NTILE(2) OVER (ORDER BY k)",
            "SUM(n) OVER (ORDER BY k ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
        )
        return Statement(f"SELECT k, n, {over} AS w FROM ({self.counted()}) AS z")

    def _cast(self) -> Statement:
        """Return answers cast to types that may be too small for them."""
        kind = self.random.choice(CASTS)
        form = self.pick(
            "SELECT {cast}({agg} AS {kind}) AS c FROM {table}{where}",
            "SELECT k, {cast}(n AS {kind}) AS c FROM ({counted}) AS z",
            "SELECT k, {cast}(n * 100 - 7 AS {kind}) AS c FROM ({counted}) AS z ORDER BY k",
        )
        parts = {
            "agg": self.count(),
            "kind": kind,
            "table": quote(self.table),
            "where": self.where(),
            "counted": self.counted(),
        }
        return Statement(form.format(cast="CAST", **parts), form.format(cast="TRY_CAST", **parts))

    def _nested(self) -> Statement:
        inner, other, table = self.counted(), self.counted(), quote(self.table)
        return Statement(
            self.pick(
                f"SELECT COUNT(*) AS c, SUM(n) AS s, AVG(n) AS m FROM ({inner}) AS z",
                f"WITH z AS ({inner}) SELECT n, COUNT(*) AS c FROM z GROUP BY n",
                f"SELECT (SELECT SUM(n) FROM ({inner}) AS i) AS s, COUNT(*) AS c FROM {table}",
                f"SELECT DISTINCT n FROM ({inner}) AS z",
                f"SELECT * FROM ({inner}) AS z WHERE n > (SELECT AVG(n) FROM ({other}) AS y)",
                f"SELECT CASE WHEN n > 3 THEN 'many' ELSE 'few' END AS much, COUNT(*) AS c "
                f"FROM ({inner}) AS z GROUP BY much",
                f"SELECT k, n FROM ({inner}) AS z QUALIFY ROW_NUMBER() OVER (ORDER BY n, k) = 1",
                f"SELECT x.n, y.n FROM ({inner}) AS x CROSS JOIN ({other}) AS y",
            )
        )

    def _unmeasured(self) -> Statement:
        """Return a statement for which nothing is measured."""
        return Statement(
            f"SELECT DISTINCT {self.key()} AS k FROM {quote(self.table)}", compared=False
        )

    def _failing(self) -> Statement:
        """Return a statement that some answers make fail, or that is refused."""
        table = quote(self.table)
        column = self.random.choice(self.columns).sql
        sql = self.pick(
            f"SELECT sqrt({self.count()}) AS r FROM {table}",
            f"SELECT ln({self.count()} + 1) AS r FROM {table}",
            f"SELECT {self.count()} * 9223372036854775807 AS r FROM {table}",
            f"SELECT repeat('x', {self.count()}) AS r FROM {table}",
            f"SELECT MAX({column}) FROM {table}",
            f"SELECT * FROM {table}",
            f"SELECT COUNT(DISTINCT {column}) FROM {table}",
            f"SELECT COUNT(*) FROM {table} WHERE no_such_column = 1",
            f"SELEC COUNT(*) FROM {table}",
            "SELECT COUNT(*) FROM nowhere",
            f"SELECT CAST({column} AS DATE) AS d, COUNT(*) FROM {table} GROUP BY d",
            f"SELECT factorial({self.count()}::INTEGER) AS f FROM {table}",
            f"SELECT chr({self.count()}::INTEGER) AS f FROM {table}",
            f"SELECT COUNT(*)::VARCHAR::DATE AS d FROM {table}",
            f"SELECT DATE '2024-01-01' + CAST({self.count()} AS INTEGER) AS d FROM {table}",
        )
        return Statement(sql, compared=False)


FORMS = [
    *("total", "total", "groups", "groups", "groups", "every_group", "nothing", "nothing"),
    *("constant_key", "joined_answers", "joined_answers", "joined_records", "set_operation"),
    *("window", "window", "cast", "nested", "nested", "unmeasured", "failing"),
]


def _column(choose: random.Random, name: str) -> Column:
    nullable = choose.random() < 0.3
    kind = choose.choice(["integer", "integer", "category", "category", "boolean", "date", "real"])
    if kind == "integer":
        low = choose.choice([0, -3, 1, 100])
        values: list = list(range(low, low + choose.choice([1, 2, 5, 12])))
    elif kind == "category":
        pool: list = choose.choice([TEXTS, TEXTS, [3, 1, 2, -4, 0, 10]])
        values = choose.sample(pool, choose.choice([1, 2, 3, 5]))
    elif kind == "date":
        values = [FIRST + timedelta(days) for days in range(choose.choice([1, 3, 8]))]
    elif kind == "boolean":
        values = [True, False]
    else:
        values = [0.0, 2.5, 10.0]
    return Column(name, kind, values, nullable)


def _lookup(choose: random.Random, key: Column) -> Lookup:
    codes = [value for value in key.values if choose.random() < 0.8]
    others: list = [77, 78] if key.type == "BIGINT" else ["other", "more"]
    codes += others[: choose.randint(0, 2)]
    rows = [(code, choose.choice(["one", "two", "it's"]), choose.randint(-2, 5)) for code in codes]
    return Lookup(
        choose.choice(["lookup", "Look Up", "values"]), key, rows or [(others[0], "one", 1)]
    )


def _value(choose: random.Random, column: Column) -> object:
    if column.nullable and choose.random() < 0.2:
        return None
    return choose.choice(column.values)
