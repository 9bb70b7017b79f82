"""Hints: statements that a refusal offers instead, whole and quoted, so that they can be run.

Every statement here is made of the schema's own names, and must itself be accepted.
"""

from __future__ import annotations

import math
import re
from functools import cache

import duckdb

from sqlmadp.sql.locked import quote
from sqlmadp.table.domain import Column, Domain

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
BINS = 10
"""About so many bins are offered for a real column."""


@cache
def _keywords() -> frozenset[str]:
    """Return the words that DuckDB does not take for a name everywhere."""
    with duckdb.connect(":memory:") as connection:
        rows = connection.execute(
            "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category <> 'unreserved'"
        ).fetchall()
    return frozenset(str(row[0]).casefold() for row in rows)


def shown_name(name: str) -> str:
    """Return a name as SQL needs it: in quotes unless it is a plain word."""
    plain = _PLAIN.fullmatch(name) and name.casefold() not in _keywords()
    return name if plain else quote(name)


def counts(domain: Domain, column: str | None = None) -> str:
    """Return the counts of a column's values, or of the first one that can be grouped by."""
    table = shown_name(domain.table)
    keys = [each.name for each in domain.columns if each.type != "real"]
    if column is None and not keys:
        return f"SELECT COUNT(*) FROM {table}"
    key = shown_name(keys[0] if column is None else domain.column(column).name)
    return f"SELECT {key}, COUNT(*) FROM {table} GROUP BY {key}"


def running_counts(domain: Domain) -> str:
    """Return a window over answers."""
    found = [column for column in domain.columns if column.type != "real"]
    if not found:
        return f"SELECT SUM(COUNT(*)) OVER () FROM {shown_name(domain.table)}"
    key = shown_name(found[0].name)
    return (
        f"SELECT {key}, SUM(COUNT(*)) OVER (ORDER BY {key}) FROM {shown_name(domain.table)} "
        f"GROUP BY {key}"
    )


def bins(domain: Domain, column: str) -> str:
    """Return the counts of a real column in bins."""
    found = domain.column(column)
    width, name = _width(found), shown_name(found.name)
    return (
        f"SELECT FLOOR({name} / {width}) * {width} AS bin, COUNT(*) "
        f"FROM {shown_name(domain.table)} GROUP BY bin"
    )


def quantile(domain: Domain, value: str, fraction: str) -> str:
    """Return a quantile of an expression as it was written."""
    return f"SELECT QUANTILE_DISC({value}, {fraction}) FROM {shown_name(domain.table)}"


def join(domain: Domain, kind: str = "JOIN", public: str | None = None) -> str | None:
    """Return a join with a public table that shares a column; None if there is none."""
    for table in domain.public:
        if public is not None and table.name.casefold() != public.casefold():
            continue
        shared = [name for name, _ in table.columns if name in domain]
        if shared and domain.column(shared[0]).type != "real":
            return (
                f"SELECT COUNT(*) FROM {shown_name(domain.table)} {kind} {shown_name(table.name)} "
                f"USING ({shown_name(shared[0])})"
            )
    return None


def _width(column: Column) -> str:
    """Return a round width that makes about `BINS` bins."""
    low, high = column.edges[0], column.edges[-1]
    span = high / BINS - low / BINS
    if not 0 < span < math.inf:
        return "1"
    exponent = math.floor(math.log10(span))
    return f"{10.0**exponent:.15g}" if 10.0**exponent > 0 else "1"
