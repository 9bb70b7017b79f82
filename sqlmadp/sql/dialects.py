"""Dialects: a statement that is not written for DuckDB, translated into DuckDB's SQL or refused.

sqlglot reads some thirty dialects, but what it writes for DuckDB does not always mean the same:
PostgreSQL divides integers without a rest, T-SQL compares text without regard to case.  So there
are two kinds of dialects:

    verified      DuckDB itself, and PostgreSQL: what is accepted was compared with a real server
    translated    all others: only what means the same in all of them is accepted (``COMMON``)

A verified dialect accepts more (`POSTGRES_FUNCTIONS`); both refuse the rest with what to write.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, ParseError, UnsupportedError

from sqlmadp.errors import SqlError
from sqlmadp.sql import hints
from sqlmadp.sql.grammar import BROKEN, DUCKDB, GRAMMAR, Node, grammar_of
from sqlmadp.sql.statements import Statement
from sqlmadp.sql.tree import Span, span
from sqlmadp.table.domain import Domain

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


def translated(statement: Statement, domain: Domain) -> str:
    """Return a statement in DuckDB's SQL, or an SqlError with every mistake."""
    if statement.dialect == DUCKDB:
        return statement.text
    if (reason := unknown_dialect(statement.dialect)) is not None:
        raise statement.refuse("dialect", reason, span=(0, 1))
    tree = _parsed(statement, domain)
    types = {column.name.casefold(): column.sql_type for column in domain.columns}
    known = Types(types, _names_of_answers(tree))
    problems = [
        statement.problem("dialect", reason, hint=_hint(node), span=span(node))
        for node in tree.walk()
        if (reason := _reason(node, statement.dialect, known)) is not None
    ]
    if problems:
        raise SqlError(problems)
    for node in reversed(list(tree.walk())):  # From the inside out, since divisions nest.
        node.replace(_as_duckdb(node, known, statement.dialect))
    try:
        return tree.sql(dialect=DUCKDB, unsupported_level=ErrorLevel.RAISE, comments=False)
    except UnsupportedError as error:
        message = str(error).splitlines()[0]
        raise statement.refuse("dialect", f"it cannot be translated: {message}") from None
    except BROKEN:
        raise statement.refuse("dialect", "it cannot be translated") from None


def other_readings(text: str) -> Iterator[tuple[str, str]]:
    """Yield the dialects that read a text which DuckDB does not, each with what it reads."""
    if len(text) > _LONGEST_TRIED or not _begins_a_query(text):
        return
    for name in _TRIED:
        try:
            grammar = grammar_of(name)
            parser = grammar.parser(error_level=ErrorLevel.IMMEDIATE)
            (tree,) = parser.parse(grammar.tokenize(text), text)
            if isinstance(tree, exp.Query) and tree.find(exp.From):
                yield name, tree.sql(dialect=DUCKDB, comments=False)
        except (*BROKEN, RecursionError):
            continue


# Reading.


def _parsed(statement: Statement, domain: Domain) -> Node:
    grammar = grammar_of(statement.dialect)
    if not _begins_a_query(statement.text):
        raise not_a_select(statement, domain)
    try:
        tokens = grammar.tokenize(statement.text)
        parsed = grammar.parser(error_level=ErrorLevel.IMMEDIATE).parse(tokens, statement.text)
    except ParseError as error:
        raise _syntax_error(statement, error) from None
    except BROKEN:
        message = f"it cannot be read as {statement.dialect}"
        raise statement.refuse("syntax", message, hint="Write it for DuckDB.") from None
    if len(parsed) != 1 or not isinstance(parsed[0], exp.Query):
        raise not_a_select(statement, domain)
    return parsed[0]


def _begins_a_query(text: str) -> bool:
    """Return whether a text begins as a query does; sqlglot takes all else for commands."""
    return re.match(r"[\s(]*(SELECT|WITH|FROM)\b", text, re.IGNORECASE) is not None


def not_a_select(statement: Statement, domain: Domain) -> SqlError:
    """Return the refusal of anything but a SELECT."""
    if re.match(r"\s*PIVOT", statement.text, re.IGNORECASE):
        hint = hints.pivoted(domain, statement.text)
        return statement.refuse("pivot", "PIVOT is not supported", hint=hint)
    return statement.refuse(
        "not-a-select",
        "only SELECT statements are answered",
        hint=f"Ask for counts: {hints.counts(domain)}.",
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
    if isinstance(node, (exp.Add, exp.Sub, exp.Mul)) and not _kinds_below(node, types) <= {
        *_NUMBERS,
        None,
    }:
        return f"arithmetic of anything but numbers is not the same in {dialect} and DuckDB"
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


def _as_duckdb(node: Node, types: Types, dialect: str) -> Node:
    """Return a node as DuckDB means it."""
    if dialect == POSTGRES and isinstance(node, (exp.TimestampTrunc, exp.DateTrunc)):
        # A timestamp in postgres, a date in DuckDB.
        unit = exp.Literal.string(node.args["unit"].name.lower())
        made = exp.Anonymous(this="date_trunc", expressions=[unit, node.this.copy()])
        return exp.Cast(this=made, to=exp.DataType.build("TIMESTAMP"))
    if isinstance(node, exp.Div) and node.args.get("typed"):
        kinds = {kind_of(node.this, types), kind_of(node.expression, types)}
        if kinds == {"integer"}:
            return exp.IntDiv(this=_grouped(node.this), expression=_grouped(node.expression))
        return exp.Div(this=_grouped(node.this), expression=_grouped(node.expression))
    return node


def _grouped(node: Node) -> Node:
    return exp.Paren(this=node.copy()) if isinstance(node, exp.Binary) else node.copy()


# PostgreSQL: what is carried over to DuckDB, each with the condition that makes it the same.  Every
# line was compared with a real server, over NULLs and edge values (`tests/sql/test_postgres.py`).

Kind = Literal["integer", "decimal", "double", "text", "boolean", "date", "timestamp", "interval"]

_KINDS: dict[str, Kind] = {
    "BIGINT": "integer",
    "DOUBLE": "double",
    "VARCHAR": "text",
    "BOOLEAN": "boolean",
    "DATE": "date",
}
_CASTS: dict[exp.DType, Kind] = {
    **dict.fromkeys((exp.DType.INT, exp.DType.BIGINT, exp.DType.SMALLINT), "integer"),
    exp.DType.DOUBLE: "double",
    **dict.fromkeys((exp.DType.DECIMAL,), "decimal"),
    **dict.fromkeys((exp.DType.TEXT, exp.DType.VARCHAR), "text"),
    exp.DType.BOOLEAN: "boolean",
    exp.DType.DATE: "date",
    exp.DType.TIMESTAMP: "timestamp",
}
_PARTS = frozenset({"YEAR", "MONTH", "DAY", "QUARTER", "DOW", "ISODOW", "DOY", "WEEK", "ISOYEAR"})
_UNITS = frozenset({"YEAR", "QUARTER", "MONTH", "WEEK", "DAY"})
_NUMBERS = frozenset({"integer", "decimal", "double"})


@dataclass(frozen=True)
class Types:
    """The types of columns, as far as they are known."""

    columns: Mapping[str, str]
    """The DuckDB type of every declared column, by its name in lower case."""
    answers: frozenset[str]
    """Names that the statement itself gives, whose types are not known."""

    def of(self, name: str) -> Kind | None:
        """Return the kind of a column; None if it is not known."""
        name = name.casefold()
        return None if name in self.answers else _KINDS.get(self.columns.get(name, ""))


def kind_of(node: Node | None, types: Types) -> Kind | None:  # noqa: PLR0912 - one case per class.
    """Return the kind of value that an expression has in PostgreSQL; None if it is not known."""
    match node:
        case exp.Column():
            return types.of(node.name)
        case exp.Literal():
            whole = not node.is_string and node.this.isdigit() and int(node.this) < 2**63
            return "integer" if whole else None if node.is_string else "decimal"
        case exp.Boolean() | exp.Predicate() | exp.Not() | exp.Connector() | exp.Is():
            return "boolean"
        case exp.Paren() | exp.Neg() | exp.Abs() | exp.Filter():
            return kind_of(node.this, types)
        case exp.Count() | exp.Length() | exp.CountIf():
            return "integer"
        case exp.Avg():
            return "double" if kind_of(node.this, types) == "double" else "decimal"
        case exp.Extract():
            return "decimal"
        case exp.Upper() | exp.Lower() | exp.Trim() | exp.DPipe() | exp.Concat():
            return "text"
        case exp.TimestampTrunc() | exp.DateTrunc():
            return "timestamp"
        case exp.Interval():
            return "interval"
        case exp.Cast():
            return _CASTS.get(node.to.this)
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.IntDiv() | exp.Mod():
            return _arithmetic(node, kind_of(node.this, types), kind_of(node.expression, types))
        case exp.Coalesce():
            return _common_kind([kind_of(part, types) for part in (node.this, *node.expressions)])
        case exp.Nullif():
            return kind_of(node.this, types)
        case exp.Case():
            values = [branch.args["true"] for branch in node.args["ifs"]]
            values += [node.args["default"]] if node.args.get("default") else []
            return _common_kind([kind_of(v, types) for v in values if not isinstance(v, exp.Null)])
    return None


def _arithmetic(node: Node, left: Kind | None, right: Kind | None) -> Kind | None:
    if left == right == "date" and isinstance(node, exp.Sub):
        return "integer"
    if left == "date" and right == "integer":
        return "date"
    if {left, right} <= {"date", "timestamp", "interval"} and "interval" in (left, right):
        return "timestamp"
    return _common_kind([left, right]) if {left, right} <= _NUMBERS else None


def _common_kind(kinds: list[Kind | None]) -> Kind | None:
    """Return the kind that values of several kinds have together."""
    found = set(kinds)
    if len(found) == 1:
        return found.pop()
    if found <= _NUMBERS:
        return "double" if "double" in found else "decimal"
    return None


# What is accepted, and when.


def _always(node: Node, types: Types) -> str | None:
    return None


def _of(*kinds: str) -> Callable[[Node, Types], str | None]:
    """Accept a function of an expression of one of the given kinds."""

    def rule(node: Node, types: Types) -> str | None:
        if kind_of(node.this, types) in kinds:
            return None
        return (
            f"{node.key.upper()} is translated from postgres for {' or '.join(kinds)} values only"
        )

    return rule


def _like(node: Node, types: Types) -> str | None:
    pattern = node.expression
    if isinstance(pattern, exp.Literal) and "\\" not in pattern.this:
        return None
    return "a pattern with a backslash, or that is no constant, does not mean the same in DuckDB"


def _cast(node: Node, types: Types) -> str | None:
    to, kind = node.args["to"], kind_of(node.this, types)
    target = _CASTS.get(to.this)
    if to.expressions:
        return "casts to a type with a size round and cut differently in postgres and DuckDB"
    if isinstance(node.this, exp.Literal) and node.this.is_string:
        return None if target in ("date", "timestamp") else "text is converted differently"
    fine = {
        "integer": ("integer", "decimal", "double", "text"),
        "boolean": ("integer", "text"),
        "date": ("text", "timestamp", "date"),
        "text": ("text",),
        "double": ("double",),
        "decimal": ("double",),
    }
    if kind == "boolean" and to.this in (exp.DType.BIGINT, exp.DType.SMALLINT):
        return "postgres casts a boolean to INTEGER alone"
    if target is not None and target in fine.get(str(kind), ()):
        return None
    return "this cast rounds, cuts or spells values differently in postgres and DuckDB"


def _extract(node: Node, types: Types) -> str | None:
    if node.name.upper() in _PARTS and kind_of(node.expression, types) == "date":
        return None
    return f"EXTRACT is translated from postgres for dates and {', '.join(sorted(_PARTS))} only"


def _truncated(node: Node, types: Types) -> str | None:
    unit = node.args.get("unit")
    if unit is not None and unit.name.upper() in _UNITS and kind_of(node.this, types) == "date":
        return None
    return f"DATE_TRUNC is translated from postgres for dates and {', '.join(sorted(_UNITS))} only"


def _interval(node: Node, types: Types) -> str | None:
    unit = node.args.get("unit")
    constant = isinstance(node.this, exp.Literal) and node.this.this.removeprefix("-").isdigit()
    known = unit is not None and unit.name.upper().removesuffix("S") in _UNITS - {"QUARTER"}
    return None if constant and known else "only intervals such as INTERVAL '3 days' are translated"


def _numbers(node: Node, types: Types) -> str | None:
    kinds = {kind_of(node.this, types), kind_of(node.expression, types)}
    if kinds <= _NUMBERS:
        return None
    return _dates(node, types)


def _dates(node: Node, types: Types) -> str | None:
    left, right = kind_of(node.this, types), kind_of(node.expression, types)
    if left in ("date", "timestamp") and right == "interval":
        return None
    if left == "date" and (right == "integer" or (right == "date" and isinstance(node, exp.Sub))):
        return None
    return "arithmetic is translated from postgres for numbers and dates of known types only"


def _modulo(node: Node, types: Types) -> str | None:
    kinds = {kind_of(node.this, types), kind_of(node.expression, types)}
    return None if kinds == {"integer"} else "a remainder is translated for integers only"


def _concatenation(node: Node, types: Types) -> str | None:
    parts = [node.this, node.expression] if isinstance(node, exp.DPipe) else node.expressions
    texts = all(
        kind_of(part, types) in ("text", "integer")
        or (isinstance(part, exp.Literal) and part.is_string)
        for part in parts
    )
    return (
        None if texts else "only text and integers are joined the same way in postgres and DuckDB"
    )


def _division(node: Node, types: Types) -> str | None:
    kinds = {kind_of(node.this, types), kind_of(node.expression, types)}
    if kinds <= _NUMBERS:
        return None
    return "whether this division has a rest in postgres depends on types that are not known"


def _substring(node: Node, types: Types) -> str | None:
    start, length = node.args.get("start"), node.args.get("length")
    plain = all(
        part is None or (isinstance(part, exp.Literal) and part.this.isdigit() and part.this != "0")
        for part in (start, length)
    )
    if plain and start is not None and kind_of(node.this, types) == "text":
        return None
    return "SUBSTRING is translated from postgres for text and constants above 0 only"


def _trim(node: Node, types: Types) -> str | None:
    if node.args.get("position") in (None, "BOTH") and node.args.get("expression") is None:
        return _of("text")(node, types)
    return "only TRIM(text) is translated from postgres"


POSTGRES_FUNCTIONS: Final[dict[type[exp.Expr], Callable[[Node, Types], str | None]]] = {
    exp.Upper: _of("text"),
    exp.Lower: _of("text"),
    exp.Length: _of("text"),
    exp.Reverse: _of("text"),
    exp.Abs: _of("integer", "decimal", "double"),
    exp.Sign: _of("double"),
    exp.Ceil: _of("decimal", "double"),
    exp.Floor: _of("decimal", "double"),
    exp.Trim: _trim,
    exp.Like: _like,
    exp.ILike: _like,
    exp.Substring: _substring,
    exp.Extract: _extract,
    exp.TimestampTrunc: _truncated,
    exp.DateTrunc: _truncated,
    exp.Interval: _interval,
    exp.Cast: _cast,
    exp.Add: _numbers,
    exp.Sub: _numbers,
    exp.Mul: _numbers,
    exp.Div: _division,
    exp.Mod: _modulo,
    exp.DPipe: _concatenation,
    exp.Concat: _concatenation,
    exp.NullSafeEQ: _always,
    exp.NullSafeNEQ: _always,
    exp.Avg: _of("integer", "decimal", "double"),
    **dict.fromkeys((exp.Stddev, exp.StddevPop, exp.StddevSamp), _of("integer", "double")),
    **dict.fromkeys((exp.Variance, exp.VariancePop), _of("integer", "double")),
    **dict.fromkeys((exp.WithinGroup, exp.PercentileCont, exp.PercentileDisc), _always),
}
