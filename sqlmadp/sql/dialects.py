"""Dialects: a statement that is not written for DuckDB, translated into DuckDB's SQL or refused.

sqlglot reads some thirty dialects, but what it writes for DuckDB does not always mean the same:
PostgreSQL divides integers without a rest, T-SQL compares text without regard to case.  So there
are two kinds of dialects:

    verified      DuckDB itself, and PostgreSQL: what is accepted was compared with a real server
    translated    all others: only what means the same in all of them is accepted (``RULES``)

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
from sqlmadp.sql.limits import TRIED_CHARACTERS
from sqlmadp.sql.statements import Statement
from sqlmadp.sql.tree import Span, span
from sqlmadp.table.domain import Domain

POSTGRES: Final = "postgres"
VERIFIED: Final = (DUCKDB, POSTGRES)
"""The dialects whose meaning was compared with the real thing."""

_TRIED = ("postgres", "bigquery", "tsql", "snowflake", "mysql", "spark", "sqlite")
_ALIKE = (
    *(exp.Select, exp.Subquery, exp.Union, exp.Except, exp.Intersect, exp.With, exp.CTE),
    *(exp.From, exp.Join, exp.Table, exp.TableAlias, exp.Where, exp.Group, exp.Having, exp.Order),
    *(exp.Ordered, exp.Limit, exp.Fetch, exp.LimitOptions, exp.Offset, exp.Distinct, exp.Alias),
    *(exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple, exp.Qualify, exp.Identifier, exp.Var),
    *(exp.Window, exp.WindowSpec, exp.Filter, exp.Exists, exp.Paren, exp.Star, exp.Column),
    *(exp.Literal, exp.Boolean, exp.Null, exp.Neg, exp.Not, exp.And, exp.Or, exp.Is, exp.In),
    *(exp.EQ, exp.NEQ, exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Count, exp.CountIf),
    *(exp.Sum, exp.RowNumber, exp.Rank, exp.DenseRank, exp.Lag, exp.Lead, exp.IntDiv),
    *(exp.DataType, exp.DataTypeParam, exp.Placeholder, exp.Parameter),
)
"""What means the same in every dialect, whatever it is applied to."""


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
    known = Types(statement.dialect, types, _names_of_answers(tree))
    problems = [
        statement.problem("dialect", reason, hint=_hint(node), span=span(node))
        for node in tree.walk(prune=lambda node: _reason(node, known) is not None)
        if (reason := _reason(node, known)) is not None
    ]
    if problems:
        raise SqlError(problems)
    for node in reversed(list(tree.walk())):  # From the inside out, since divisions nest.
        node.replace(_as_duckdb(node, known))
    try:
        return tree.sql(dialect=DUCKDB, unsupported_level=ErrorLevel.RAISE, comments=False)
    except UnsupportedError as error:
        message = str(error).splitlines()[0]
        raise statement.refuse("dialect", f"it cannot be translated: {message}") from None
    except BROKEN:
        raise statement.refuse("dialect", "it cannot be translated") from None


def other_readings(text: str) -> Iterator[tuple[str, str]]:
    """Yield the dialects that read a text which DuckDB does not, each with what it reads."""
    if len(text) > TRIED_CHARACTERS or not _begins_a_query(text):
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


# Kinds of values.

Kind = Literal[
    "integer", "decimal", "double", "number", "text", "boolean", "date", "timestamp", "interval"
]
"""A *number* is an integer in some databases and none in others, such as a sum of integers."""

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
    exp.DType.DECIMAL: "decimal",
    **dict.fromkeys((exp.DType.TEXT, exp.DType.VARCHAR), "text"),
    exp.DType.BOOLEAN: "boolean",
    exp.DType.DATE: "date",
    exp.DType.TIMESTAMP: "timestamp",
}
_MADE: dict[type[exp.Expr], Kind] = {
    **dict.fromkeys((exp.Boolean, exp.Predicate, exp.Not, exp.Connector, exp.Is), "boolean"),
    **dict.fromkeys((exp.Count, exp.Length, exp.CountIf), "integer"),
    **dict.fromkeys((exp.Extract, exp.Year, exp.Month, exp.Day), "number"),
    **dict.fromkeys((exp.Upper, exp.Lower, exp.Trim, exp.DPipe, exp.Concat), "text"),
    **dict.fromkeys((exp.TimestampTrunc, exp.DateTrunc), "timestamp"),
    exp.Interval: "interval",
    exp.TsOrDsToDate: "date",
}
"""The kind of what an expression makes, whatever it is made of."""

_NUMBERS = frozenset({"integer", "decimal", "double", "number"})
_FRACTIONS = frozenset({"decimal", "double"})
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod)


@dataclass(frozen=True)
class Types:
    """The kinds of values of expressions, as far as they are known."""

    dialect: str
    columns: Mapping[str, str]
    """The DuckDB type of every declared column, by its name in lower case."""
    answers: frozenset[str]
    """Names that the statement itself gives, whose types are not known."""

    def kind(self, node: Node | None) -> Kind | None:
        """Return the kind of value that an expression has in the dialect; None if not known."""
        match node:
            case exp.Column():
                name = node.name.casefold()
                return None if name in self.answers else _KINDS.get(self.columns.get(name, ""))
            case exp.Literal():
                whole = not node.is_string and node.this.isdigit() and int(node.this) < 2**63
                return "integer" if whole else None if node.is_string else "decimal"
            case exp.Paren() | exp.Neg() | exp.Abs() | exp.Filter() | exp.Nullif() | exp.Window():
                return self.kind(node.this)
            case exp.Cast():
                return _CASTS.get(node.to.this)
            case exp.Sum():
                return "number" if self.kind(node.this) == "integer" else self.kind(node.this)
            case exp.Avg():
                return "double" if self.kind(node.this) == "double" else "decimal"
            case exp.Extract() if self.dialect == POSTGRES:
                return "decimal"
            case exp.Coalesce():
                return _together([self.kind(part) for part in (node.this, *node.expressions)])
            case exp.Case():
                values = [branch.args["true"] for branch in node.args["ifs"]]
                values += [node.args["default"]] if node.args.get("default") else []
                return _together([self.kind(v) for v in values if not isinstance(v, exp.Null)])
        if isinstance(node, _ARITHMETIC):
            return _calculated(node, *self.sides(node))
        return next((kind for made, kind in _MADE.items() if isinstance(node, made)), None)

    def sides(self, node: Node) -> tuple[Kind | None, Kind | None]:
        """Return the kinds of both operands."""
        return self.kind(node.this), self.kind(node.expression)


def _calculated(node: Node, left: Kind | None, right: Kind | None) -> Kind | None:
    if left == right == "date" and isinstance(node, exp.Sub):
        return "integer"
    if left == "date" and right == "integer":
        return "date"
    if {left, right} <= {"date", "timestamp", "interval"} and "interval" in (left, right):
        return "timestamp"
    return _together([left, right]) if {left, right} <= _NUMBERS else None


def _together(kinds: list[Kind | None]) -> Kind | None:
    """Return the kind that values of several kinds have together."""
    found = set(kinds)
    if len(found) == 1:
        return found.pop()
    order: tuple[Kind, ...] = ("double", "decimal", "number")
    return next(kind for kind in order if kind in found) if found <= _NUMBERS else None


# What is accepted, and when.  A rule returns why a node is not, or nothing.

Rule = Callable[[Node, Types], str | None]


def _reason(node: Node, types: Types) -> str | None:
    """Return why a node is not accepted in a dialect; None if it is."""
    rule = RULES.get(type(node))
    if types.dialect == POSTGRES:
        rule = POSTGRES_FUNCTIONS.get(type(node), rule)
    if rule is not None:
        return rule(node, types)
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(node).__name__).upper()
    if isinstance(node, exp.Anonymous):
        name = str(node.this).upper()
    return f"{name} does not mean the same in {types.dialect} and DuckDB, or is not known to"


def _hint(node: Node) -> str:
    found = (hint for classes, hint in _HINTS.items() if isinstance(node, classes))
    return next(found, "Write it with CASE and comparisons, or the statement for DuckDB.")


_ORDERED = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between)
_HINTS: dict[tuple[type[exp.Expr], ...], str] = {
    _ORDERED: "List the values, as in x IN ('a', 'b'), or write the statement for DuckDB.",
    (exp.Div,): "Multiply by 1.0 first, as in 1.0 * a / b.",
    (exp.Avg,): "Multiply by 1.0 inside it, as in AVG(1.0 * a).",
    (exp.Cast,): "Compare with a value of the column's own type, or write it for DuckDB.",
}


def _always(node: Node, types: Types) -> str | None:
    return None


def _of(*kinds: str) -> Rule:
    """Accept a function of an expression of one of the given kinds."""

    def rule(node: Node, types: Types) -> str | None:
        if types.kind(node.this) in kinds:
            return None
        listed = " or ".join(kinds)
        return f"{node.key.upper()} is translated from {types.dialect} for {listed} values only"

    return rule


def _division(node: Node, types: Types) -> str | None:
    kinds = set(types.sides(node))
    if not node.args.get("typed") or kinds == {"integer"} or kinds & _FRACTIONS:
        return None
    return f"whether {types.dialect} drops the rest of this division depends on unknown types"


def _order(node: Node, types: Types) -> str | None:
    if "text" in {types.kind(part) for part in node.iter_expressions()}:
        return f"the order of texts in {types.dialect} depends on the database's collation"
    return None


def _date_constant(node: Node, types: Types) -> str | None:
    text = isinstance(node.this, exp.Literal) and node.this.is_string
    if text and node.args["to"].this == exp.DType.DATE:
        return None
    return f"casts round and cut differently in {types.dialect} and DuckDB"


def _numbers(node: Node, types: Types) -> str | None:
    if set(types.sides(node)) <= {*_NUMBERS, None}:
        return None
    return f"arithmetic of anything but numbers is not the same in {types.dialect} and DuckDB"


def _part_of_date(*parts: str) -> Rule:
    """Accept EXTRACT of some parts of a date."""

    def rule(node: Node, types: Types) -> str | None:
        if node.name.upper() in parts and types.kind(node.expression) == "date":
            return None
        return f"EXTRACT is translated from {types.dialect} for dates and {', '.join(parts)} only"

    return rule


RULES: Final[dict[type[exp.Expr], Rule]] = {
    **dict.fromkeys(_ALIKE, _always),
    **dict.fromkeys(_ORDERED, _order),
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul), _numbers),
    **dict.fromkeys((exp.Year, exp.Month, exp.Day, exp.TsOrDsToDate), _of("date")),
    exp.Extract: _part_of_date("YEAR", "MONTH", "DAY"),
    exp.Avg: _of(*sorted(_FRACTIONS)),
    exp.Cast: _date_constant,
    exp.Div: _division,
}
"""What means the same in every dialect, or is translated where the dialect defines it."""


# PostgreSQL: what is carried over to DuckDB besides, each with the condition that makes it the
# same.  Every line was compared with a real server, over NULLs and edge values
# (`tests/sql/test_postgres.py`).

_UNITS = frozenset({"YEAR", "QUARTER", "MONTH", "WEEK", "DAY"})
_SAME_CASTS: dict[Kind | None, tuple[Kind, ...]] = {
    "integer": ("integer", "decimal", "double", "text"),
    "boolean": ("integer", "text"),
    "date": ("text", "timestamp", "date"),
    "text": ("text",),
    "double": ("double",),
    "decimal": ("double",),
    "number": ("double",),
}


def _like(node: Node, types: Types) -> str | None:
    pattern = node.expression
    if isinstance(pattern, exp.Literal) and "\\" not in pattern.this:
        return None
    return "a pattern with a backslash, or that is no constant, does not mean the same in DuckDB"


def _cast(node: Node, types: Types) -> str | None:
    to, kind = node.args["to"], types.kind(node.this)
    target = _CASTS.get(to.this)
    if to.expressions:
        return "casts to a type with a size round and cut differently in postgres and DuckDB"
    if isinstance(node.this, exp.Literal) and node.this.is_string:
        return None if target in ("date", "timestamp") else "text is converted differently"
    if kind == "boolean" and to.this in (exp.DType.BIGINT, exp.DType.SMALLINT):
        return "postgres casts a boolean to INTEGER alone"
    if target is not None and target in _SAME_CASTS.get(kind, ()):
        return None
    return "this cast rounds, cuts or spells values differently in postgres and DuckDB"


def _truncated(node: Node, types: Types) -> str | None:
    unit = node.args.get("unit")
    if unit is not None and unit.name.upper() in _UNITS and types.kind(node.this) == "date":
        return None
    return f"DATE_TRUNC is translated from postgres for dates and {', '.join(sorted(_UNITS))} only"


def _interval(node: Node, types: Types) -> str | None:
    unit = node.args.get("unit")
    constant = isinstance(node.this, exp.Literal) and node.this.this.removeprefix("-").isdigit()
    known = unit is not None and unit.name.upper().removesuffix("S") in _UNITS - {"QUARTER"}
    return None if constant and known else "only intervals such as INTERVAL '3 days' are translated"


def _calculation(node: Node, types: Types) -> str | None:
    left, right = types.sides(node)
    days = left == "date" and (right == "integer" or (right == left and isinstance(node, exp.Sub)))
    times = left in ("date", "timestamp") and right == "interval"
    if days or times or {left, right} <= _NUMBERS:
        return None
    return "arithmetic is translated from postgres for numbers and dates of known types only"


def _modulo(node: Node, types: Types) -> str | None:
    whole = set(types.sides(node)) == {"integer"}
    return None if whole else "a remainder is translated for integers only"


def _concatenation(node: Node, types: Types) -> str | None:
    parts = [node.this, node.expression] if isinstance(node, exp.DPipe) else node.expressions
    if all(types.kind(part) in ("text", "integer") or part.is_string for part in parts):
        return None
    return "only text and integers are joined the same way in postgres and DuckDB"


def _substring(node: Node, types: Types) -> str | None:
    start, length = node.args.get("start"), node.args.get("length")
    plain = all(
        part is None or (isinstance(part, exp.Literal) and part.this.isdigit() and part.this != "0")
        for part in (start, length)
    )
    if plain and start is not None and types.kind(node.this) == "text":
        return None
    return "SUBSTRING is translated from postgres for text and constants above 0 only"


def _quantile(node: Node, types: Types) -> str | None:
    first, *more = node.expression.expressions
    known = isinstance(node.this, (exp.PercentileCont, exp.PercentileDisc))
    if known and not more and not first.args.get("desc"):
        return None
    return "WITHIN GROUP is translated for PERCENTILE_CONT and PERCENTILE_DISC, ascending"


def _trim(node: Node, types: Types) -> str | None:
    if node.args.get("position") in (None, "BOTH") and node.args.get("expression") is None:
        return _of("text")(node, types)
    return "only TRIM(text) is translated from postgres"


POSTGRES_FUNCTIONS: Final[dict[type[exp.Expr], Rule]] = {
    **dict.fromkeys((exp.Upper, exp.Lower, exp.Length, exp.Reverse), _of("text")),
    **dict.fromkeys((exp.Abs, exp.Avg), _of("integer", "decimal", "double")),
    **dict.fromkeys((exp.Ceil, exp.Floor), _of("decimal", "double")),
    exp.Sign: _of("double"),
    exp.Trim: _trim,
    **dict.fromkeys((exp.Like, exp.ILike), _like),
    exp.Substring: _substring,
    exp.Extract: _part_of_date(
        *("YEAR", "MONTH", "DAY", "QUARTER", "DOW", "ISODOW", "DOY", "WEEK", "ISOYEAR")
    ),
    **dict.fromkeys((exp.TimestampTrunc, exp.DateTrunc), _truncated),
    exp.Interval: _interval,
    exp.Cast: _cast,
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul), _calculation),
    exp.Mod: _modulo,
    **dict.fromkeys((exp.DPipe, exp.Concat), _concatenation),
    **dict.fromkeys((exp.NullSafeEQ, exp.NullSafeNEQ), _always),
    **dict.fromkeys((exp.Stddev, exp.StddevPop, exp.StddevSamp), _of("integer", "double")),
    **dict.fromkeys((exp.Variance, exp.VariancePop), _of("integer", "double")),
    **dict.fromkeys((exp.PercentileCont, exp.PercentileDisc), _always),
    exp.WithinGroup: _quantile,
}


# What is written differently for DuckDB.


def _as_duckdb(node: Node, types: Types) -> Node:
    """Return a node as DuckDB means it."""
    if isinstance(node, (exp.TimestampTrunc, exp.DateTrunc)):
        # A timestamp in postgres, a date in DuckDB.
        unit = exp.Literal.string(node.args["unit"].name.lower())
        made = exp.Anonymous(this="date_trunc", expressions=[unit, node.this.copy()])
        return exp.Cast(this=made, to=exp.DataType.build("TIMESTAMP"))
    if isinstance(node, exp.WithinGroup):
        name = "quantile_cont" if isinstance(node.this, exp.PercentileCont) else "quantile_disc"
        value, fraction = node.expression.expressions[0].this, node.this.this
        return exp.Anonymous(this=name, expressions=[value.copy(), fraction.copy()])
    if isinstance(node, exp.Div) and node.args.get("typed"):
        kind = exp.IntDiv if set(types.sides(node)) == {"integer"} else exp.Div
        return kind(this=_grouped(node.this), expression=_grouped(node.expression))
    return node


def _grouped(node: Node) -> Node:
    return exp.Paren(this=node.copy()) if isinstance(node, exp.Binary) else node.copy()
