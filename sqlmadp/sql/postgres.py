"""PostgreSQL: what of it is carried over to DuckDB, each with the condition that makes it the same.

Every line here was compared with a real server, over NULLs and edge values (see
``tests/sql/test_postgres.py``).  What is not listed is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from sqlglot import exp

from sqlmadp.sql.grammar import Node

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


def kind_of(node: Node | None, types: Types) -> Kind | None:  # noqa: PLR0912 - one case a class.
    """Return the kind of value that an expression has in PostgreSQL; None if it is not known."""
    match node:
        case exp.Column():
            return types.of(node.name)
        case exp.Literal():
            return None if node.is_string else "decimal" if "." in node.this else "integer"
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
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod():
            return _arithmetic(node, kind_of(node.this, types), kind_of(node.expression, types))
        case exp.Coalesce():
            return _common([kind_of(part, types) for part in (node.this, *node.expressions)])
        case exp.Nullif():
            return kind_of(node.this, types)
        case exp.Case():
            values = [branch.args["true"] for branch in node.args["ifs"]]
            values += [node.args["default"]] if node.args.get("default") else []
            return _common([kind_of(v, types) for v in values if not isinstance(v, exp.Null)])
    return None


def _arithmetic(node: Node, left: Kind | None, right: Kind | None) -> Kind | None:
    if left == right == "date" and isinstance(node, exp.Sub):
        return "integer"
    if left == "date" and right == "integer":
        return "date"
    if {left, right} <= {"date", "timestamp", "interval"} and "interval" in (left, right):
        return "timestamp"
    return _common([left, right]) if {left, right} <= _NUMBERS else None


def _common(kinds: list[Kind | None]) -> Kind | None:
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


FUNCTIONS: Final[dict[type[exp.Expr], Callable[[Node, Types], str | None]]] = {
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


def carried(tree: Node, types: Types) -> Node:
    """Return a checked tree as DuckDB means it."""

    def change(node: Node) -> Node:
        if isinstance(node, (exp.TimestampTrunc, exp.DateTrunc)):
            # A timestamp in postgres, a date in DuckDB.
            unit = exp.Literal.string(node.args["unit"].name.lower())
            made = exp.Anonymous(this="date_trunc", expressions=[unit, node.this.copy()])
            return exp.Cast(this=made, to=exp.DataType.build("TIMESTAMP"))
        return node

    return tree.transform(change)
