"""Hints: the codes of refusals, statements offered instead, and notes on likely slips.

A code stays the same when a message is put better, so programs may rely on it: it is ``error.code``
in Python and ``code`` in ``sqlmadp check --json``.  The table in docs/sql.md is made from the list.

A statement that is offered instead is whole and quoted, so that it can be run.  It is made of the
schema's own names, and must itself be accepted.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

import duckdb
from sqlglot import exp

from sqlmadp.sql.limits import BINS, LISTED
from sqlmadp.sql.tree import Node, Span, constant, quote, span, walk
from sqlmadp.table.domain import Column, Domain

CODES: Final = {
    # The file.
    "unreadable-file": "a file of statements cannot be read",
    "no-statement": "a file holds no statement",
    "nothing-asked": "an analyst has handed in nothing yet",
    "nothing-counted": "no statement of an analyst counts anything",
    "bad-name": "a name that no statement can have",
    "duplicate-name": "two statements of one analyst have the same name",
    "bad-weight": "a weight that is no number above 0",
    # What can be read at all.
    "syntax": "DuckDB cannot parse it, or the form of the query is not supported",
    "not-a-select": "something else than a SELECT",
    "parameter": "a parameter without a value, or a value that SQL does not have",
    "duckdb": "DuckDB itself refuses the statement, with DuckDB's reason",
    "construct": "a construct that is not on the allow-list",
    "unfaithful": "a construct that DuckDB would read differently once it is taken apart",
    "dialect": "no dialect, or a construct of one that does not mean the same in DuckDB",
    "pivot": "PIVOT",
    "recursive-cte": "a recursive CTE",
    "lambda": "a lambda function",
    "collation": "a collation",
    "positional-reference": "a column by its number, #1",
    "sample": "sampling, which is not the same every time",
    # Names.
    "unknown-table": "a table that is not declared",
    "unknown-column": "a column that is not there",
    "unknown-function": "a function that DuckDB does not have",
    "ambiguous-name": "a name that can be read in two ways",
    "no-table": "the private table is not read at all",
    # What is asked of records.
    "rows": "rows of individuals",
    "window": "a window over single records",
    "limit-records": "LIMIT over single records",
    "private-subquery": "a condition on records that depends on another answer",
    "min-max": "an aggregate that a single record decides",
    "count-distinct": "DISTINCT inside an aggregate",
    "aggregate": "another aggregate that is not answered",
    "misplaced-aggregate": "an aggregate inside a condition on records",
    "count-star": "a star in an aggregate other than COUNT(*)",
    "not-grouped": "a column that is neither grouped by nor counted",
    "grouping": "GROUPING() of something that is not a group key",
    "key-type": "groups by a nested type",
    "quantile": "a quantile that is no constant between 0 and 1",
    "sum-type": "a sum or mean of what is no number",
    "real-column": "a real column that is neither compared with constants nor binned",
    "not-cut": "a constant at which the release did not cut a real column",
    "join": "a join that could count a record twice, or joins records with records",
    "table-function": "a table function, which could read files",
    "nondeterministic": "a function of the clock, the session or chance",
    "function": "a function, or a form of it, that is not on the allow-list",
    "type": "a cast to a type that is not on the allow-list",
    "evaluation": "an expression that fails on a declared value",
    # What runs over answers.
    "outer": "the SQL around the private blocks cannot run over answers",
    "type-changed": "a result column that would have another type over answers",
    "limit": "LIMIT or OFFSET that is no constant",
    "not-covered": "the release does not measure what is asked",
    "fails-on-answers": "the rows cannot be made from every answer, such as a negative one",
    # Limits.
    "too-many-statements": "more statements in a file than the limit",
    "too-long": "a statement with more characters than the limit",
    "too-deep": "more expressions inside each other than the limit",
    "too-large": "more parts than the limit, once aliases are replaced",
    "in-list": "a longer list of values or terms than the limit",
    "too-many-cells": "an expression or aggregate of more cells than the limit",
    "too-many-groups": "more groups than the limit",
    "too-many-entries": "more numbers in all queries of a plan than the limit",
    "scope-too-large": "statements over the same columns that together tell more cells apart than "
    "the limits allow",
    "scopes-too-large": "statements over different columns that together take more coordinates "
    "than can be worked with",
    "not-selectable": "what to measure cannot be selected; of all statements this one tells most "
    "values apart",
    "too-many-cuts": "more bins of a real column than the limit",
    "too-long-text": "an expression that could make very long text",
    "slow-pattern": "a pattern or comparison of text that could take very long",
    "too-slow": "an expression that takes longer than the limit",
    # Notes.
    "read-as": "a note: how a statement in another dialect was read",
    "undeclared-value": "accepted with a note: a value that the schema does not declare",
    "quantile-resolution": "accepted with a note: a quantile that merges neighbouring values",
}
"""Code and meaning of every kind of refusal, and of what is noted."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CLAUSES = (
    *("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "BETWEEN", "JOIN", "USING"),
    "UNION",
)


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


def nearest(name: str, known: Iterable[str], shown: Callable[[str], str] = shown_name) -> str:
    """Return advice that names the known word nearest to ``name``; empty if none is near."""
    by_fold = {candidate.casefold(): candidate for candidate in known}
    close = difflib.get_close_matches(name.casefold(), by_fold, n=1)
    return f"Did you mean {shown(by_fold[close[0]])}?" if close else ""


def counts(domain: Domain, column: str | None = None) -> str:
    """Return the counts of a column's values, or of the first one that can be grouped by."""
    table = shown_name(domain.table)
    if column is not None and column in domain and domain.column(column).type == "real":
        return bins(domain, column)
    keys = [each.name for each in domain.columns if each.type != "real"]
    if column is not None and column in domain:
        keys = [domain.column(column).name]
    if not keys:
        return f"SELECT COUNT(*) FROM {table}"
    return f"SELECT {shown_name(keys[0])}, COUNT(*) FROM {table} GROUP BY {shown_name(keys[0])}"


def pivoted(domain: Domain, text: str) -> str:
    """Return the advice to write one column per value of what a PIVOT turns into columns."""
    found = [column for column in domain.columns if column.values]
    if not found:
        return f"Count by group: {counts(domain)}."
    names = {quote(column.name): column for column in found} | {c.name: c for c in found}
    turned = re.search(rf"\b(?:ON|FOR)\s+({'|'.join(map(re.escape, names))})", text, re.IGNORECASE)
    by_fold = {name.casefold(): column for name, column in names.items()}
    column = found[0] if turned is None else by_fold[turned[1].casefold()]
    listed = ", ".join(
        f"COUNT(*) FILTER (WHERE {shown_name(column.name)} = {_constant(value)}) "
        f"AS {shown_name(str(value))}"
        for value in column.values[:LISTED]
    )
    return f"Write one column per value: SELECT {listed} FROM {shown_name(domain.table)}."


def _constant(value: object) -> str:
    return _literal(value) if isinstance(value, str) else str(value)


def of_syntax(text: str, at: Span, domain: Domain) -> str:
    """Return advice on a syntax error: names that lack quotes, a misspelt word, half a join."""
    names = [domain.table, *(column.name for column in domain.columns)]
    names += [table.name for table in domain.public]
    unquoted = [
        quote(name)
        for name in names
        if not name.isidentifier()
        and name.casefold() in text.casefold().replace(quote(name).casefold(), "")
    ]
    if unquoted:
        return f"Such names are written in double quotes: {', '.join(unquoted)}."
    known = {*_CLAUSES, *map(str.upper, names)}
    start, length = at
    for word in (text[start : start + length], *re.findall(r"\w+", text[:start])[-1:]):
        close = difflib.get_close_matches(word.upper(), _CLAUSES, n=1, cutoff=0.7)
        if close and word.upper() not in known:
            return f"Did you mean {close[0]}?"
    joined, words = join(domain), set(re.findall(r"\w+", text.upper()))
    if joined and "JOIN" in words and not words & {"ON", "USING"}:
        return f"Say which row belongs to a record: {joined}."
    return ""


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


def quantile(domain: Domain, column: str, fraction: str) -> str:
    """Return a quantile of a column."""
    return f"SELECT QUANTILE_DISC({shown_name(column)}, {fraction}) FROM {shown_name(domain.table)}"


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


# Undeclared values: WHERE ward = 'cardiology', where the schema says 'Cardiology'.  No record that
# is counted has such a value, so the comparison is most likely a slip.  It means something to
# DuckDB, so it is accepted and noted.  A note depends on the schema and the statement alone.

COMPARED = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, exp.In)
"""Comparisons that ask for a value itself."""


@dataclass(frozen=True)
class Undeclared:
    """A value that a statement compares a column with, and the schema does not declare."""

    message: str
    hint: str
    span: Span | None


def undeclared_values(nodes: Iterable[Node], domain: Domain) -> Iterator[Undeclared]:
    """Yield every constant of resolved expressions that no declared value beside it equals."""
    columns = {column.name: column for column in domain.columns}
    for node in nodes:
        for part in walk(node):
            for name, value in _compared(part):
                text = constant(value)
                if not _is_declared(columns[name], value):
                    shown = repr(text) if value.is_string else text
                    yield Undeclared(
                        f"the schema declares no value {shown} of {name!r}, so none is counted",
                        _declared(columns[name], text),
                        span(value),
                    )


def _compared(node: Node) -> Iterator[tuple[str, Node]]:
    """Yield the column and each of the constants that it is compared with."""
    if isinstance(node, exp.Case) and node.this is not None:
        sides = [node.this, *(branch.this for branch in node.args["ifs"])]
    elif isinstance(node, COMPARED):
        sides = [node.this, *(node.expressions if isinstance(node, exp.In) else [node.expression])]
    else:
        return
    columns = [side for side in sides if isinstance(side, exp.Column)]
    if len(columns) == 1 and not columns[0].table:  # A public column has a qualifier.
        yield from ((columns[0].name, side) for side in sides if constant(side))


def _is_declared(column: Column, value: Node) -> bool:
    """Return whether a constant is a declared value, or of a kind that is not looked into."""
    text = constant(value)
    if column.sql_type == "VARCHAR" and value.is_string:
        return text in column.values
    if column.sql_type == "BIGINT" and text.removeprefix("-").isdigit() and not value.is_string:
        low, high = column.ordinal_bounds if not column.values else (0, 0)
        return int(text) in column.values if column.values else low <= int(text) <= high
    return True


def _literal(value: str) -> str:
    escaped = value.replace("'", "''")
    return f"'{escaped}'"


def _declared(column: Column, text: str) -> str:
    if not column.values:
        return f"It declares {column.minimum} to {column.maximum}."
    listed = ", ".join(repr(value) for value in column.values[:LISTED])
    more = ", ..." if len(column.values) > LISTED else ""
    return nearest(text, map(str, column.values), _literal) or f"It declares {listed}{more}."
