"""The table that generated statements run on: its domain, records, and DuckDB to compare with.

Records have NULLs and values that the domain does not declare; ``as_declared`` says what they are
read as.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from datetime import date, timedelta
from itertools import pairwise

import duckdb

from sqlmadp.sql.sandbox import MACROS
from sqlmadp.table.domain import Column, Domain, PublicTable

FIRST_DAY, LAST_DAY = date(2020, 1, 29), date(2020, 2, 4)

DOMAIN = Domain(
    table="people",
    columns=(
        Column(name="age", type="integer", minimum=-1, maximum=4, outside="clamp", nullable=True),
        Column(name="level", type="category", values=(5, 1, 2), nullable=True),
        Column(name="sex", type="category", values=("m", "f", "Other"), nullable=True),
        Column(name="day", type="date", minimum=FIRST_DAY, maximum=LAST_DAY, nullable=True),
        Column(name="income", type="real", minimum=0.0, maximum=100.0, nullable=True),
        Column(name="member", type="boolean", nullable=True),
    ),
    public=(
        PublicTable(
            name="levels",
            columns=(("level", "BIGINT"), ("title", "VARCHAR"), ("pay", "DOUBLE")),
            rows=((1, "low", 1.5), (5, "high", 20.0), (7, "none", None)),
        ),
        PublicTable(
            name="sexes",
            columns=(("code", "VARCHAR"), ("label", "VARCHAR")),
            rows=(("m", "male"), ("f", "female")),
        ),
    ),
)

INCOMES = [0, 5, 10, 10.5, 20, 25, 50, 50.5, 75, 99.5, 100]
"""The incomes at which the generator's expressions change."""

Record = tuple[object, ...]


def table(seed: int, size: int | None = None) -> list[Record]:
    """Return records with NULLs and with values that the domain does not declare."""
    rng = random.Random(seed)
    return [
        (
            rng.choice([-1, 0, 1, 2, 3, 4, 4, 2, 9, -7, None]),
            rng.choice([5, 1, 2, None, 1, 2, 3]),
            rng.choice(["m", "f", "Other", None, "f", "m", "x", "M"]),
            rng.choice(
                [None, *(FIRST_DAY + timedelta(n) for n in (0, 1, 2, 3, 4, 5, 6, 2, 3, 40))]
            ),
            rng.choice(
                [None, 0.0, 10.0, 10.5, 99.5, 100.0, 25.0, 50.0, rng.uniform(0, 100), 101.0]
            ),
            rng.choice([True, False, None]),
        )
        for _ in range(rng.randint(0, 60) if size is None else size)
    ]


def as_declared(records: list[Record]) -> list[Record]:
    """Return the records as the declaration reads them: undeclared values are NULL, or clamped."""
    return [
        (
            None if age is None else max(-1, min(4, age)),
            level if level in (5, 1, 2) else None,
            sex if sex in ("m", "f", "Other") else None,
            None if day is None or day > LAST_DAY else day,
            None if income is None or income > 100 else income,
            member,
        )
        for age, level, sex, day, income, member in records
    ]


def reference_connection(records: list[Record]) -> duckdb.DuckDBPyConnection:
    """Return DuckDB with the records and the public tables."""
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    for macro in MACROS:
        connection.execute(macro)
    columns = ", ".join(f"{c.name} {c.sql_type}" for c in DOMAIN.columns)
    connection.execute(f"CREATE TABLE people ({columns})")
    if records:
        connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?)", records)
    for public in DOMAIN.public:
        listed = ", ".join(f"{name} {kind}" for name, kind in public.columns)
        connection.execute(f"CREATE TABLE {public.name} ({listed})")
        marks = ", ".join("?" for _ in public.columns)
        connection.executemany(f"INSERT INTO {public.name} VALUES ({marks})", list(public.rows))
    return connection


def possible_connection(records: list[Record]) -> duckdb.DuckDBPyConnection:
    """Return the same with every cell of the domain beside the records, which are ``recorded``.

    The cells say where a SUM has a value that some record could have, without any help from the
    code under test.
    """
    connection = reference_connection(records)
    connection.execute("ALTER TABLE people ADD COLUMN recorded BOOLEAN DEFAULT TRUE")
    days = [FIRST_DAY + timedelta(n) for n in range((LAST_DAY - FIRST_DAY).days + 1)]
    inner = [income for a, b in pairwise(INCOMES) for income in (a, (a + b) / 2)]
    values = [range(-1, 5), (5, 1, 2), ("m", "f", "Other"), days, [*inner, 100.0], (True, False)]
    cells = " CROSS JOIN ".join(
        f"(SELECT unnest(?::{column.sql_type}[]) AS {column.name})" for column in DOMAIN.columns
    )
    given = [[*each, None] for each in values]
    connection.execute(f"INSERT INTO people SELECT *, FALSE FROM {cells}", given)
    return connection


WITHIN = 10
"""Standard errors between two numbers that are taken to be equal.  Laplace noise of the smallest
scale leaves them once in a million times."""


def same(ours: object, theirs: object, error: float = 0.0) -> bool:
    """Return whether two values are equal, numbers with a fraction to nine digits.

    ``error``: the standard error that the release states.  Even at epsilon 10^9 a sum of squares
    has noise, and may be all that is left of a variance.
    """
    if isinstance(ours, float) and isinstance(theirs, float):
        if math.isnan(ours) or math.isnan(theirs):
            return math.isnan(ours) and math.isnan(theirs)
        return math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=max(1e-9, WITHIN * error))
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return ours == theirs


def same_rows(
    ours: list[tuple],
    theirs: list[tuple],
    *,
    ordered: bool = False,
    errors: Sequence[float] | None = None,
) -> bool:
    """Return whether two results hold the same rows, in the same order if that is asked.

    ``errors``: the largest standard error of every column.
    """
    if len(ours) != len(theirs):
        return False

    def alike(row: tuple, other: tuple) -> bool:
        return all(map(same, row, other, errors or (0.0,) * len(row)))

    if ordered:
        return all(map(alike, ours, theirs))
    rest = list(theirs)
    for row in ours:
        match = next((o for o in rest if alike(row, o)), None)
        if match is None:
            return False
        rest.remove(match)
    return True
