"""Dialects: a statement that is not written for DuckDB, translated into DuckDB's SQL or refused.

sqlglot reads some thirty dialects, but what it writes for DuckDB does not always mean the same:
PostgreSQL divides integers without a rest, T-SQL compares text without regard to case.  So there
are two kinds of dialects:

    verified      DuckDB itself, and PostgreSQL: what is accepted was compared with a real server
    translated    all others: only what means the same in all of them is accepted (``COMMON``)

A verified dialect accepts more (see ``postgres``); both refuse the rest with what to write.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Final, Literal

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, ParseError, UnsupportedError

from sqlmadp.errors import SqlError
from sqlmadp.sql.grammar import BROKEN, GRAMMAR, Node
from sqlmadp.sql.limits import Limits, advice
from sqlmadp.sql.postgres import FUNCTIONS as POSTGRES_FUNCTIONS
from sqlmadp.sql.postgres import Types, carried, kind_of
from sqlmadp.sql.statements import Span, Statement
from sqlmadp.sql.tree import span

DUCKDB: Final = "duckdb"
POSTGRES: Final = "postgres"
VERIFIED: Final = (DUCKDB, POSTGRES)
"""The dialects whose meaning was compared with the real thing."""

_TRIED = ("postgres", "bigquery", "tsql", "snowflake", "mysql", "spark", "sqlite")
_LONGEST_TRIED = 10_000
"""Look for another dialect that reads a statement only below this many characters."""

_QUERIES = (
    *(exp.Select, exp.Subquery, exp.Union, exp.Except, exp.Intersect, exp.With, exp.CTE),
    *(exp.From, exp.Join, exp.Table, exp.TableAlias, exp.Where, exp.Group, exp.Having, exp.Order),
    *(exp.Ordered, exp.Limit, exp.Fetch, exp.LimitOptions, exp.Offset, exp.Distinct, exp.Alias),
    *(exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple, exp.Qualify, exp.Identifier, exp.Var),
    *(exp.Window, exp.WindowSpec, exp.Filter, exp.Exists, exp.Paren, exp.Star, exp.Column),
)
_SCALARS = (
    *(exp.Literal, exp.Boolean, exp.Null, exp.Neg, exp.Not, exp.And, exp.Or, exp.Is, exp.In),
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.Case, exp.If),
    *(exp.Coalesce, exp.Nullif, exp.Add, exp.Sub, exp.Mul, exp.Count, exp.CountIf, exp.Sum),
    *(exp.RowNumber, exp.Rank, exp.DenseRank, exp.Lag, exp.Lead),
    *(exp.Div, exp.IntDiv, exp.Cast, exp.DataType, exp.DataTypeParam, exp.Placeholder),
    exp.Parameter,
)
COMMON: Final = frozenset((*_QUERIES, *_SCALARS))
"""What means the same in every dialect, or is translated where the dialect defines it."""

_DATES = (exp.DType.DATE,)
_ORDERED = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between)


def kind_of_dialect(dialect: str) -> Literal["verified", "translated"]:
    """Return how far a dialect can be relied on."""
    return "verified" if dialect in VERIFIED else "translated"


def dialect_names() -> tuple[str, ...]:
    """Return every dialect that a statement may be written in."""
    return tuple(sorted(name for name in Dialect.classes if name and name != GRAMMAR_NAME))


GRAMMAR_NAME: Final = type(GRAMMAR).__name__.lower()


def unknown_dialect(name: str) -> str | None:
    """Return why a name is no dialect; None if it is one."""
    if name in dialect_names():
        return None
    near = difflib.get_close_matches(name.lower(), dialect_names(), n=1)
    listed = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(dialect_names())}."
    return f"there is no dialect {name!r}. {listed}"


def grammar_of(dialect: str) -> Dialect:
    """Return sqlglot's grammar of a dialect."""
    return GRAMMAR if dialect == DUCKDB else Dialect.get_or_raise(dialect)


def translated(statement: Statement, limits: Limits, types: Mapping[str, str]) -> str:
    """Return a statement in DuckDB's SQL, or an SqlError with every mistake.

    ``types`` are the DuckDB types of the declared columns, by their names in lower case.
    """
    if statement.dialect == DUCKDB:
        return statement.text
    if (reason := unknown_dialect(statement.dialect)) is not None:
        raise statement.refuse("dialect", reason, span=(0, 1))
    tree = _parsed(statement, limits)
    known = Types(types, _names_of_answers(tree))
    problems = [
        statement.problem("dialect", reason, hint=_hint(node), span=span(node))
        for node in tree.walk()
        if (reason := _reason(node, statement.dialect, known)) is not None
    ]
    if problems:
        raise SqlError(problems)
    if statement.dialect == POSTGRES:
        tree = carried(tree, known)
    tree = tree.transform(lambda node: _common(node, known))
    try:
        return tree.sql(dialect=DUCKDB, unsupported_level=ErrorLevel.RAISE, comments=False)
    except UnsupportedError as error:
        message = str(error).splitlines()[0]
        raise statement.refuse("dialect", f"it cannot be translated: {message}") from None
    except BROKEN:
        raise statement.refuse("dialect", "it cannot be translated") from None


def accepting(text: str) -> str | None:
    """Return a dialect that reads a text which DuckDB does not; None if none does."""
    if len(text) > _LONGEST_TRIED or not _begins_a_query(text):
        return None
    for name in _TRIED:
        try:
            tree = (
                grammar_of(name)
                .parser(error_level=ErrorLevel.IMMEDIATE)
                .parse(grammar_of(name).tokenize(text), text)
            )
        except (*BROKEN, RecursionError):
            continue
        if len(tree) == 1 and isinstance(tree[0], exp.Query) and tree[0].find(exp.From):
            return name
    return None


# Reading.


def _parsed(statement: Statement, limits: Limits) -> Node:
    grammar = grammar_of(statement.dialect)
    if not _begins_a_query(statement.text):
        raise not_a_select(statement)
    try:
        tokens = grammar.tokenize(statement.text)
        if len(tokens) > limits.parts:
            raise statement.refuse(
                "too-large",
                f"the statement has more than {limits.parts:,} parts",
                hint=advice("parts"),
                span=(0, 1),
            )
        parsed = grammar.parser(error_level=ErrorLevel.IMMEDIATE).parse(tokens, statement.text)
    except ParseError as error:
        raise _syntax_error(statement, error) from None
    except BROKEN:
        message = f"it cannot be read as {statement.dialect}"
        raise statement.refuse("syntax", message, hint="Write it for DuckDB.") from None
    if len(parsed) != 1 or not isinstance(parsed[0], exp.Query):
        raise not_a_select(statement)
    return parsed[0]


def _begins_a_query(text: str) -> bool:
    """Return whether a text begins as a query does; sqlglot takes all else for commands."""
    return re.match(r"[\s(]*(SELECT|WITH|FROM)\b", text, re.IGNORECASE) is not None


def not_a_select(statement: Statement) -> SqlError:
    """Return the refusal of anything but a SELECT."""
    return statement.refuse(
        "not-a-select",
        "only SELECT statements are answered",
        hint="Ask for counts: a SELECT with COUNT(*).",
    )


def _syntax_error(statement: Statement, error: ParseError) -> SqlError:
    """Put sqlglot's message into our words."""
    start, length = place_of_error(statement, error)
    found = statement.text[start : start + length]
    where = f'at or near "{found}"' if found.strip() else "at the end"
    return statement.refuse(
        "syntax",
        f"syntax error {where}, read as {statement.dialect}",
        hint="Write it for that dialect, or say '-- dialect: duckdb' at the top of the file.",
        span=(start, length),
    )


def place_of_error(statement: Statement, error: ParseError) -> Span:
    """Return where sqlglot stopped reading a statement."""
    details = error.errors[0] if error.errors else {}
    line, end = int(details.get("line") or 1), int(details.get("col") or 1)
    length = len(str(details.get("highlight") or "x"))
    start = sum(len(one) + 1 for one in statement.text.split("\n")[: line - 1]) + end - length
    return max(start, 0), length


def _names_of_answers(tree: Node) -> frozenset[str]:
    """Return the names that the statement itself gives to columns: their types are not known."""
    return frozenset(alias.alias.casefold() for alias in tree.find_all(exp.Alias))


# What is accepted.


def _reason(node: Node, dialect: str, types: Types) -> str | None:
    """Return why a node is not accepted in a dialect; None if it is."""
    if isinstance(node, exp.Div) and node.args.get("typed"):
        kinds = {kind_of(node.this, types), kind_of(node.expression, types)}
        if None in kinds:
            return (
                f"whether this division has a rest in {dialect} depends on types that are not known"
            )
    if isinstance(node, _ORDERED) and "text" in _kinds_below(node, types):
        return f"the order of texts in {dialect} depends on the database's collation"
    if dialect == POSTGRES:
        rule = POSTGRES_FUNCTIONS.get(type(node))
        if rule is not None:
            return rule(node, types)
    if type(node) not in COMMON:
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(node).__name__).upper()
        if isinstance(node, exp.Anonymous):
            name = str(node.this).upper()
        return f"{name} does not mean the same in {dialect} and DuckDB, or is not known to"
    if isinstance(node, exp.Cast) and not (
        isinstance(node.this, exp.Literal) and node.this.is_string and node.to.this in _DATES
    ):
        return f"casts round and cut differently in {dialect} and DuckDB"
    if isinstance(node, exp.Sum) and isinstance(node.parent, exp.Div):
        return f"the type of a sum that is divided is not the same in {dialect} and DuckDB"
    return None


def _kinds_below(node: Node, types: Types) -> set[str | None]:
    return {kind_of(part, types) for part in node.iter_expressions()}


def _hint(node: Node) -> str:
    if isinstance(node, _ORDERED):
        return "List the values, as in x IN ('a', 'b'), or write the statement for DuckDB."
    if isinstance(node, (exp.Div, exp.Sum)):
        return "Multiply by 1.0 first, as in 1.0 * a / b, or ask for AVG."
    if isinstance(node, exp.Cast):
        return "Compare with a value of the column's own type, or write the statement for DuckDB."
    return "Write it with CASE and comparisons, or the statement for DuckDB."


def _common(node: Node, types: Types) -> Node:
    """Return a node as DuckDB means it."""
    if isinstance(node, exp.Div) and node.args.get("typed"):
        kinds = {kind_of(node.this, types), kind_of(node.expression, types)}
        if kinds == {"integer"}:
            return exp.IntDiv(this=_grouped(node.this), expression=_grouped(node.expression))
        return exp.Div(this=_grouped(node.this), expression=_grouped(node.expression))
    return node


def _grouped(node: Node) -> Node:
    return exp.Paren(this=node.copy()) if isinstance(node, exp.Binary) else node.copy()
