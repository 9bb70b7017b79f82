"""Statements made at random, with what they must return.

Every statement is made twice: as an analyst writes it, and as the reference that DuckDB runs on the
raw table.  The two differ only where sqlmadp's meaning is declared to differ:

    SUM and COUNT_IF of no record     0 if the domain has a cell there, else NULL as in DuckDB
    APPROX_QUANTILE                   the interpolated quantile, rounded; DuckDB's is a sketch
    MODE among equally frequent       the smallest value; in DuckDB the one that came first

So that a reference can tell where the domain has a cell, its table ``people`` holds every cell
beside the records, which alone are ``recorded`` (``people_table.possible_connection``).
"""

# ruff: noqa: RUF005 -- SQL reads better in one line.

from __future__ import annotations

import random
from dataclasses import dataclass, field

PREDICATES = [
    "age < 3",
    "age <> 2",
    "age BETWEEN 0 AND 2",
    "age IN (1, 3)",
    "age NOT IN (1, NULL)",
    "age % 2 = 1",
    "age / 2 > 0.6",
    "10 / age > 3",
    "nullif(age, 2) IS NULL",
    "level = 5",
    "level IS NULL",
    "level IS DISTINCT FROM 2",
    "CASE level WHEN 1 THEN TRUE WHEN 2 THEN FALSE END",
    "greatest(level, 2) = 2",
    "sex = 'm'",
    "sex LIKE '_'",
    "sex ILIKE 'OT%'",
    "upper(sex) IN ('M', 'OTHER')",
    "regexp_matches(sex, '^[a-z]$')",
    "coalesce(sex, 'f') = 'f'",
    "day >= DATE '2020-02-01'",
    "day BETWEEN '2020-01-30' AND '2020-02-02'",
    "extract(month FROM day) = 2",
    "date_trunc('month', day) = DATE '2020-02-01'",
    "day + INTERVAL 3 DAY > TIMESTAMP '2020-02-05 00:00:00'",
    "dayofweek(day) IN (0, 6)",
    "income < 10",
    "income >= 10.5",
    "income = 10",
    "income BETWEEN 5 AND 10 * 2",
    "income IS NULL",
    "50 > income",
    "floor(income / 25) = 1",
    "income * 2 + 1 <= 41",
    "CASE WHEN income < 10 THEN 'low' WHEN income < 50 THEN 'mid' END <> 'low'",
    "member",
    "member IS NOT TRUE",
    "age > level",
    "length(sex) <= age",
    "CASE WHEN member THEN age ELSE level END > 1",
    "concat(sex, age) LIKE '%1'",
    "(income < 10) = member",
    "TRUE",
    "1 = 2",
    "age NOT BETWEEN 1 AND 2",
    "age // 2 = 1",
    "-age >= 0",
    "CAST(age AS VARCHAR) LIKE '_1'",
    "level > 1 AND level < 5",
    "level IN (1, 2) OR level IS NULL",
    "sex != 'f'",
    "sex NOT LIKE '%t%' ESCAPE '!'",
    "sex IS NOT NULL",
    "length(sex) > 1",
    "sex || 'x' = 'mx'",
    "sex[1] = 'O'",
    "TRY_CAST(sex AS INTEGER) IS NULL",
    "day >= DATE '2020-02-10'",
    "day < '2020-02-03'",
    "day BETWEEN '2020-01-30' AND '2020-02-20'",
    "day + INTERVAL 3 DAY > TIMESTAMP '2020-03-01 00:00:00'",
    "strftime(day, '%d') = '29'",
    "day - DATE '2020-02-01' > 3",
    "income <> '99.5'",
    "income NOT IN (0, 10.5)",
    "income IS NOT DISTINCT FROM 100",
    "income > -3 AND income < 1e9",
    "income < NULL",
    "member IS TRUE",
    "member = FALSE",
    "member::INTEGER + 1 = 2",
    "if(member, 1, 0) = 1",
    "member = (age > 1)",
    "age + level = 3",
    "CASE WHEN income > 10 THEN age > 1 ELSE member END",
    "day + CAST(age AS INTEGER) > DATE '2020-02-15'",
    "level IN (age, 1)",
]
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
    "sex = 'm'",
    "CASE WHEN income < 10 THEN 'low' WHEN income >= 50.5 THEN 'high' END",
    "floor(income / 25)",
    "member AND age > 1",
    "coalesce(level, age)",
    "age / 2",
    "income IS NULL",
    "round(age / 3, 2)",
    "width_bucket(income, 0, 100, 4)",
]
NUMBERS = ["age", "level", "age * 2 - 1", "level + age", "length(sex)", "age / 2", "age * 1.5"]
NUMBERS += ["CASE WHEN income > 10 THEN 1 ELSE 0 END", "dayofmonth(day)", "abs(age)"]
ORDERED = ["age", "level", "sex", "day", "age * 2", "level + age", "age / 2"]
FLOATING = ["AVG", "VAR", "STDDEV", "CORR", "COVAR", "REGR", "CONT", "age / 2", "MEDIAN"]
RECORDED = " FILTER (WHERE recorded)"
FRACTIONS = ["0.5", "0.25", "0.9", "0", "1", "0.1", "0.333"]


@dataclass
class Made:
    """One statement, its reference, and the constructs that it is made of."""

    sql: str
    reference: str
    constructs: set[str] = field(default_factory=set)
    ordered: bool = False
    """Whether the order of the rows is part of what must agree."""


class Generator:
    """Makes statements from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.constructs: set[str] = set()

    def used(self, construct: str) -> None:
        self.constructs.add(construct)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def predicate(self, depth: int = 2) -> str:
        if depth == 0 or self.chance(0.45):
            return self.random.choice(PREDICATES)
        kind = self.random.choice(["NOT", "AND", "OR"])
        if kind == "NOT":
            return f"NOT ({self.predicate(depth - 1)})"
        parts = [self.predicate(depth - 1) for _ in range(self.random.randint(2, 3))]
        return f" {kind} ".join(f"({part})" for part in parts)

    # Aggregates: a pair of texts, ours and the reference's.

    def aggregate(self) -> tuple[str, str]:
        kind = self.random.choice(
            ["COUNT(*)", "COUNT(*)", "COUNT", "COUNT_IF", "SUM", "SUM", "AVG", "VAR", "STDDEV"]
            + ["QUANTILE_CONT", "QUANTILE_DISC", "PERCENTILE", "MEDIAN", "MODE", "PAIR"]
            + ["APPROX_QUANTILE", "QUANTILE list"]
        )
        self.used(kind)
        condition = None
        if self.chance(0.3):
            self.used("FILTER")
            condition = self.predicate(1)
        return self.filtered(kind, condition)

    def filtered(self, kind: str, condition: str | None = None) -> tuple[str, str]:
        """Return an aggregate, and the reference: over records, and 0 over cells without one."""
        ours, reference = self.call(kind)
        every = f" FILTER (WHERE {condition})" if condition else ""
        recorded = f" FILTER (WHERE recorded AND ({condition}))" if condition else RECORDED
        if kind == "APPROX_QUANTILE":
            return f"{ours}{every}", f"CAST({reference}{recorded} AS BIGINT)"
        if kind in ("SUM", "COUNT_IF"):
            counted = "*" if kind == "COUNT_IF" else reference[len("SUM(") : -1]
            zero = f"CASE WHEN COUNT({counted}){every} > 0 THEN 0 END"
            return f"{ours}{every}", f"COALESCE({reference}{recorded}, {zero})"
        return f"{ours}{every}", f"{reference}{recorded}"

    def call(self, kind: str) -> tuple[str, str]:
        choose = self.random.choice
        fraction = choose(FRACTIONS)
        match kind:
            case "COUNT(*)":
                text = "COUNT(*)"
            case "COUNT":
                text = f"COUNT({choose([*NUMBERS, 'sex', 'income'])})"
            case "COUNT_IF":
                text = f"COUNT_IF({self.predicate(1)})"
            case "SUM" | "AVG":
                text = f"{kind}({choose(NUMBERS)})"
            case "VAR":
                text = f"{choose(['VAR_POP', 'VAR_SAMP', 'VARIANCE'])}({choose(NUMBERS)})"
            case "STDDEV":
                text = f"{choose(['STDDEV', 'STDDEV_POP', 'STDDEV_SAMP'])}({choose(NUMBERS)})"
            case "QUANTILE_CONT":
                text = f"QUANTILE_CONT({choose(['age', 'level', 'day', 'age / 2'])}, {fraction})"
            case "QUANTILE_DISC":
                text = f"QUANTILE_DISC({choose(ORDERED)}, {fraction})"
            case "PERCENTILE":
                name = choose(["PERCENTILE_CONT", "PERCENTILE_DISC"])
                order = choose(["age", "level DESC", "age / 2", "age DESC"])
                text = f"{name}({fraction}) WITHIN GROUP (ORDER BY {order})"
            case "MEDIAN":
                text = f"MEDIAN({choose(ORDERED)})"
            case "QUANTILE list":
                name = choose(["QUANTILE_CONT", "QUANTILE_DISC"])
                text = f"{name}(age, [{fraction}, {choose(FRACTIONS)}])"
            case "MODE":
                value = choose(ORDERED)
                return f"MODE({value})", f"MODE({value} ORDER BY {value})"
            case "APPROX_QUANTILE":
                return f"APPROX_QUANTILE(age, {fraction})", f"QUANTILE_CONT(age, {fraction})"
            case _:
                name = choose(
                    ["COVAR_POP", "COVAR_SAMP", "CORR", "REGR_SLOPE", "REGR_COUNT"]
                    + ["REGR_INTERCEPT", "REGR_R2", "REGR_AVGX", "REGR_AVGY"]
                )
                text = f"{name}({choose(NUMBERS)}, {choose(NUMBERS)})"
        return text, text

    # FROM.

    def source(self) -> tuple[str, list[str]]:
        """Return a FROM clause over records, and further keys that it offers."""
        kind = self.random.choice(
            ["table"] * 4 + ["alias", "sub-select", "CTE", "join", "left join"]
        )
        if kind != "table":
            self.used(f"FROM {kind}")
        match kind:
            case "alias":
                return "people AS p", ["p.age", "p.sex"]
            case "sub-select":
                inner = f"SELECT *, age + 1 AS older FROM people WHERE {self.predicate(1)}"
                return f"({inner}) AS t", ["older", "t.sex", "older % 2"]
            case "CTE":
                return "chosen", ["twice"]
            case "join":
                if self.chance(0.5):
                    return "people JOIN levels USING (level)", ["title", "pay"]
                return "people JOIN sexes AS s ON people.sex = s.code", ["label", "s.label"]
            case "left join":
                join = "people p LEFT JOIN levels l ON p.level = l.level AND l.pay > 2"
                return join, ["title", "l.pay > 3"]
            case _:
                return "people", []

    # Private blocks.

    def block(self, *, items: int = 3, aliased: bool = True) -> tuple[str, str, int, int]:
        """Return a SELECT and its reference, with the number of keys and aggregates."""
        source, further = self.source()
        count = self.random.choice([0, 1, 1, 1, 2, 2])
        # In a join, a name may belong to both tables: those keys are left to their own source.
        own = KEYS if "JOIN" not in source else [k for k in KEYS if "level" not in k]
        keys = self.random.sample([*own, *further, *further], count)
        keys = list(dict.fromkeys(keys))
        aggregates = [self.aggregate() for _ in range(self.random.randint(1, items))]
        if "JOIN" in source:
            plain = ("COUNT(*)", f"COUNT(*){RECORDED}")
            aggregates = [a for a in aggregates if "level" not in a[0]] or [plain]
        names = [f" AS k{n}" for n in range(len(keys))]
        ours = [f"{key}{name}" for key, name in zip(keys, names, strict=True)]
        reference = list(ours)
        for number, (mine, theirs) in enumerate(aggregates):
            ours.append(f"{mine} AS a{number}")
            reference.append(f"{theirs} AS a{number}")
        tail = f" FROM {source}"
        if self.chance(0.5):
            where = self.predicate()
            if "JOIN" not in source or "level" not in where:
                tail += f" WHERE {where}"
        tail += self.group_by(keys)
        having = " HAVING COUNT(*){} > 0" if keys else ""
        prefix = "SELECT "
        if "chosen" in source:
            prefix = "WITH chosen AS (SELECT *, age * 2 AS twice FROM people WHERE age > 0) SELECT "
        return (
            f"{prefix}{', '.join(ours)}{tail}{having.format('')}",
            f"{prefix}{', '.join(reference)}{tail}{having.format(RECORDED)}",
            len(keys),
            len(aggregates),
        )

    def group_by(self, keys: list[str]) -> str:
        if not keys:
            return ""
        listed = ", ".join(keys)
        form = self.random.choice(["plain"] * 5 + ["ordinal", "ALL", "ROLLUP", "CUBE", "SETS"])
        if form.isupper() and len({key.rpartition(".")[2] for key in keys}) < len(keys):
            form = "plain"  # One key in two spellings, which grouping sets refuse.
        if form != "plain":
            self.used(f"GROUP BY {form}")
        match form:
            case "ordinal":
                return " GROUP BY " + ", ".join(str(n + 1) for n in range(len(keys)))
            case "ALL":
                return " GROUP BY ALL"
            case "ROLLUP" | "CUBE":
                return f" GROUP BY {form} ({listed})"
            case "SETS":
                sets = ", ".join(f"({key})" for key in keys)
                return f" GROUP BY GROUPING SETS (({listed}), {sets}, ())"
            case _:
                return f" GROUP BY {listed}"

    # Whole statements.

    def make(self) -> Made:
        """Return one statement."""
        self.constructs = set()
        form = self.random.choice(
            ["block"] * 6
            + ["order", "order", "having", "arithmetic", "window", "union"]
            + ["outer", "cte", "join blocks", "scalar subquery", "distinct", "qualify"]
        )
        if form != "block":
            self.used(form)
        sql, reference, ordered = getattr(self, "_" + form.replace(" ", "_"))()
        return Made(sql, reference, set(self.constructs), ordered)

    def _block(self) -> tuple[str, str, bool]:
        ours, reference, _, _ = self.block()
        return ours, reference, False

    def _order(self) -> tuple[str, str, bool]:
        """Return a block in a total order, so that its rows must come in DuckDB's own order."""
        ours, reference, keys, aggregates = self.block()
        if not keys or "ROLLUP" in ours or "CUBE" in ours or "SETS" in ours:
            return ours, reference, False  # Rows of two grouping sets may tie.
        order = [f"{n + 1} {self.random.choice(['', 'DESC', 'NULLS FIRST'])}" for n in range(keys)]
        if self.chance(0.3) and ours.count("COUNT") and aggregates:
            order.insert(0, "COUNT(*){} DESC")
        tail = f" ORDER BY {', '.join(order)}" + self.random.choice(
            [" LIMIT 5", "", " LIMIT 3 OFFSET 1"]
        )
        return ours + tail.format(""), reference + tail.format(RECORDED), True

    def _having(self) -> tuple[str, str, bool]:
        ours, reference, keys, _ = self.block(items=2)
        tail = f" AND COUNT(*){{}} > {self.random.randint(1, 4)}" if keys else ""
        return ours + tail.format(""), reference + tail.format(RECORDED), False

    def _arithmetic(self) -> tuple[str, str, bool]:
        key = self.random.choice(KEYS)
        (a, ra), (b, rb) = self.number(), self.number()
        shape = self.random.choice(
            ["{a} + {b}", "{a} - 2 * {b}", "round(100.0 * {a} / nullif({b}, 0), 1)"]
            + ["CASE WHEN {a} > {b} THEN 'more' ELSE 'less' END", "coalesce({a}, {b}) * 2"]
        )
        tail = f" FROM people GROUP BY {key} HAVING COUNT(*)"
        return (
            f"SELECT {key} AS k, {shape.format(a=a, b=b)} AS v{tail} > 0",
            f"SELECT {key} AS k, {shape.format(a=ra, b=rb)} AS v{tail}{RECORDED} > 0",
            False,
        )

    def number(self) -> tuple[str, str]:
        kind = self.random.choice(["COUNT(*)", "COUNT", "SUM", "COUNT_IF"])
        self.used(kind)
        return self.filtered(kind)

    def _window(self) -> tuple[str, str, bool]:
        key = self.random.choice([k for k in KEYS if "member" not in k])
        (a, ra) = self.number()
        over = self.random.choice(
            ["SUM({a}) OVER (ORDER BY {k})", "{a} - LAG({a}) OVER (ORDER BY {k})"]
            + ["RANK() OVER (ORDER BY {a})", "SUM({a}) OVER ()"]
            + ["ROW_NUMBER() OVER (ORDER BY {a} DESC, {k})", "MAX({a}) OVER (PARTITION BY {k})"]
        )
        tail = f" FROM people WHERE {self.predicate(1)} GROUP BY {key} HAVING COUNT(*)"
        return (
            f"SELECT {key} AS k, {over.format(a=a, k=key)} AS w{tail} > 0",
            f"SELECT {key} AS k, {over.format(a=ra, k=key)} AS w{tail}{RECORDED} > 0",
            False,
        )

    def _union(self) -> tuple[str, str, bool]:
        ours, reference = [], []
        operator = self.random.choice(["UNION ALL", "UNION", "EXCEPT", "INTERSECT"])
        self.used(operator)
        for _ in range(2):
            (a, ra), where = self.number(), self.predicate(1)
            ours.append(f"SELECT CAST({a} AS BIGINT) AS n FROM people WHERE {where}")
            reference.append(f"SELECT CAST({ra} AS BIGINT) AS n FROM people WHERE {where}")
        return f" {operator} ".join(ours), f" {operator} ".join(reference), False

    def _outer(self) -> tuple[str, str, bool]:
        ours, reference, _, _ = self.block(items=2)
        if "WITH" in ours:
            return ours, reference, False
        shape = self.random.choice(
            ["SELECT COUNT(*), COUNT(a0) FROM ({b}) AS t", "SELECT * FROM ({b})"]
            + ["SELECT t.a0, COUNT(*) AS c FROM ({b}) t GROUP BY t.a0"]
            + ["SELECT * FROM ({b}) WHERE a0 IS NOT NULL"]
        )
        if "GROUP BY t.a0" in shape and any(name in ours for name in FLOATING):
            shape = "SELECT * FROM ({b})"  # The last digit of DuckDB's own floats may differ.
        return shape.format(b=ours), shape.format(b=reference), False

    def _cte(self) -> tuple[str, str, bool]:
        key = self.random.choice(["age", "sex", "level"])
        (a, ra), (b, rb) = self.number(), self.number()
        shape = (
            "WITH one AS (SELECT {k} AS k, {a} AS x FROM people GROUP BY {k} "
            "HAVING COUNT(*){r} > 0), "
            "two AS (SELECT {k} AS k, {b} AS y FROM people WHERE {w} GROUP BY {k} "
            "HAVING COUNT(*){r} > 0) SELECT one.k, x, y, x + y FROM one LEFT JOIN two USING (k)"
        )
        where = self.predicate(1)
        return (
            shape.format(k=key, a=a, b=b, w=where, r=""),
            shape.format(k=key, a=ra, b=rb, w=where, r=RECORDED),
            False,
        )

    def _join_blocks(self) -> tuple[str, str, bool]:
        (a, ra), (b, rb) = self.number(), self.number()
        shape = (
            "SELECT l.age, x, y FROM (SELECT age, {a} AS x FROM people GROUP BY age "
            "HAVING COUNT(*){r} > 0) l JOIN (SELECT age, {b} AS y FROM people GROUP BY age "
            "HAVING COUNT(*){r} > 0) r ON l.age = r.age AND x <= y"
        )
        return shape.format(a=a, b=b, r=""), shape.format(a=ra, b=rb, r=RECORDED), False

    def _scalar_subquery(self) -> tuple[str, str, bool]:
        key = self.random.choice(KEYS)
        (a, ra), (b, rb) = self.number(), self.number()
        shape = (
            "SELECT {k} AS k, {a} * 1.0 / nullif((SELECT {b} FROM people), 0) AS share FROM people "
            "GROUP BY {k} HAVING COUNT(*){r} > 0 "
            "AND COUNT(*){r} >= (SELECT COUNT(*){r} FROM people) / 20"
        )
        return (
            shape.format(k=key, a=a, b=b, r=""),
            shape.format(k=key, a=ra, b=rb, r=RECORDED),
            False,
        )

    def _distinct(self) -> tuple[str, str, bool]:
        keys = self.random.sample(KEYS, 2)
        (a, ra) = self.number()
        having = "HAVING COUNT(*){r} > 0"
        shape = "SELECT DISTINCT {k} AS k, {a} AS n FROM people GROUP BY {k}, {o} " + having
        return (
            shape.format(k=keys[0], o=keys[1], a=a, r=""),
            shape.format(k=keys[0], o=keys[1], a=ra, r=RECORDED),
            False,
        )

    def _qualify(self) -> tuple[str, str, bool]:
        key = self.random.choice(KEYS)
        (a, ra) = self.number()
        shape = (
            "SELECT {k} AS k, {a} AS n FROM people GROUP BY {k} HAVING COUNT(*){r} > 0 "
            "QUALIFY RANK() OVER (ORDER BY {a} DESC) <= 2"
        )
        return shape.format(k=key, a=a, r=""), shape.format(k=key, a=ra, r=RECORDED), False
