"""sqlglot's grammar of DuckDB, made to lose nothing.

sqlglot reads SQL in order to write it in another dialect, so its trees say what was meant rather
than what was written.  Here a tree is written back for DuckDB alone, which must read the same in
both texts.  So every function stays a call by its own name, types keep their spelling, and

    IS NOT NULL, NULLS LAST, +x, @x, INTERVAL 3 DAY      stay as they are written
    every operator inside another one                    is written in parentheses

Every node knows its place in the text: ``start`` and ``end`` of its ``meta``.
"""

from __future__ import annotations

import logging
import threading
from typing import Any, ClassVar, Final, cast

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.generators.duckdb import DuckDBGenerator
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokenizer_core import Token, TokenType

Node = exp.Expr

# What sqlglot warns of is refused here; a program that collects its messages still gets them.
logging.getLogger("sqlglot").addHandler(logging.NullHandler())


class Prefix(exp.Unary):
    """``+x`` or ``@x``, whose operator is ``sign``."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "sign": True}


class Lookup(exp.Expression, exp.Condition):
    """A value that a record looks up in a public table, or EXISTS: never written by analysts.

    ``(SELECT this FROM source AS alias WHERE where)``
    """

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "source": True,
        "alias": True,
        "where": True,
        "exists": False,
    }


_NESTED = (
    *(exp.Binary, exp.Unary, exp.Between, exp.In, exp.Escape, exp.AtTimeZone, exp.Interval),
    exp.StartsWith,
)
_AROUND = (*_NESTED, exp.Bracket, exp.Cast, exp.Collate)
_BARE = (exp.Paren, exp.Dot, exp.PropertyEQ)
_UNITS = {
    f"{unit}{ending}": unit
    for unit in (
        *("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "WEEK", "QUARTER", "DECADE"),
        *("CENTURY", "MILLENNIUM"),
    )
    for ending in ("", "S")
} | {
    "CENTURIES": "CENTURY",
    "MILLENNIA": "MILLENNIUM",
    **dict.fromkeys(("MILLISECOND", "MILLISECONDS"), "MILLISECONDS"),
    **dict.fromkeys(("MICROSECOND", "MICROSECONDS"), "MICROSECONDS"),
}
"""Words for units of time, and what DuckDB makes of them in EXTRACT."""
_TRIMS = {"LEADING": "ltrim", "TRAILING": "rtrim", "BOTH": "trim"}


class _Parser(DuckDBParser):
    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        "CAST": lambda self: self._parse_cast(True),
        "TRY_CAST": lambda self: self._parse_cast(False, safe=True),
        "IFNULL": lambda self: self._call("coalesce", *self._parse_function_args()),
        "EXTRACT": lambda self: self._parse_date_part(),
        "SUBSTRING": lambda self: self._parse_keyword_call("substring", "FROM", "FOR"),
        "OVERLAY": lambda self: self._parse_keyword_call("overlay", "PLACING", "FROM", "FOR"),
        "POSITION": lambda self: self._parse_place(),
        "TRIM": lambda self: self._parse_trimmed(),
    }
    NO_PAREN_FUNCTIONS: ClassVar[dict[TokenType, Any]] = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        "CASE": lambda self: self._parse_case(),
        "MAP": lambda self: self._parse_map(),
        "ANY": lambda self: self.expression(exp.Any(this=self._parse_bitwise())),
        "@": lambda self: self.expression(Prefix(this=self._parse_unary(), sign="@")),
    }
    UNARY_PARSERS: ClassVar[dict[TokenType, Any]] = {
        **{token: DuckDBParser.UNARY_PARSERS[token] for token in (TokenType.NOT, TokenType.DASH)},
        # In DuckDB ~ binds less than arithmetic: ~a * 2 is ~(a * 2).
        TokenType.TILDE: lambda self: self.expression(exp.BitwiseNot(this=self._parse_term())),
        TokenType.PLUS: lambda self: self.expression(Prefix(this=self._parse_unary(), sign="+")),
    }
    EXPONENT: ClassVar[dict[TokenType, Any]] = {
        TokenType.CARET: lambda **operands: exp.Pow(**operands, sign="^"),
        TokenType.DSTAR: lambda **operands: exp.Pow(**operands, sign="**"),
    }
    PRIMARY_PARSERS: ClassVar[dict[TokenType, Any]] = {
        **DuckDBParser.PRIMARY_PARSERS,
        TokenType.NUMBER: lambda self, token: self._number(token),
    }
    TYPE_CONVERTERS: ClassVar[dict[Any, Any]] = {}

    # Places in the text.

    def expression(self, instance: Any, token: Token | None = None, comments: Any = None) -> Any:
        """Give a new node its place: from where its first operand starts."""
        if token:
            instance.update_positions(token)
        else:
            first = instance.args.get("this")
            if isinstance(first, exp.Expr) and "start" in first.meta and self._prev:
                instance.meta.setdefault("start", first.meta["start"])
                instance.meta.setdefault("end", self._prev.end)
        return instance

    def _placed(self, found: Any, start: Token | None) -> Any:
        if isinstance(found, exp.Expr) and start and self._prev and self._prev.end >= start.start:
            found.meta["start"], found.meta["end"] = start.start, self._prev.end
        return found

    def _parse_unary(self) -> Any:
        start = self._curr
        return self._placed(super()._parse_unary(), start)

    def _parse_table(self, *args: Any, **options: Any) -> Any:
        start = self._curr
        return self._placed(super()._parse_table(*args, **options), start)

    def _parse_join(self, *args: Any, **options: Any) -> Any:
        start = self._curr
        return self._placed(super()._parse_join(*args, **options), start)

    def _parse_select(self, *args: Any, **options: Any) -> Any:
        start = self._curr
        return self._placed(super()._parse_select(*args, **options), start)

    # What stays as it is written.

    def _number(self, token: Token) -> Any:
        written = self.sql[token.start : token.end + 1]
        return exp.Literal(this=written or token.text, is_string=False).update_positions(token)

    def _parse_primary(self) -> Any:
        if self._curr.token_type == TokenType.DOT and self._next.token_type == TokenType.NUMBER:
            start = self._curr
            self._advance(2)
            number = exp.Literal(this=f".{self._prev.text}", is_string=False)
            return self._placed(number, start)
        return super()._parse_primary()

    def _parse_types(self, *args: Any, **options: Any) -> Any:
        begin = self._index
        found = super()._parse_types(*args, **options)
        if isinstance(found, exp.DataType):
            found.set("spelled", self.sql[self._tokens[begin].start : self._prev.end + 1])
        return found

    def _parse_type(self, *args: Any, **options: Any) -> Any:
        plain = self._curr.token_type in self.TYPE_TOKENS - {TokenType.INTERVAL}
        if plain and self._next.token_type == TokenType.STRING:
            kind = self._parse_types(allow_identifiers=False)
            made = self.expression(exp.Cast(this=self._parse_primary(), to=kind))
            return self._parse_column_ops(made)  # DATE '...'::VARCHAR casts the date.
        return super()._parse_type(*args, **options)

    def _parse_in(self, this: Any, alias: bool = False) -> Any:
        if self._curr and self._curr.token_type == TokenType.L_BRACKET:
            return self._call("contains", self._parse_bitwise(), this)
        return super()._parse_in(this, alias)

    def _parse_is(self, this: Any) -> Any:
        found = super()._parse_is(this)
        if isinstance(found, exp.Not) and isinstance(found.this, exp.Is):
            found = found.this
            found.set("negate", True)
        return found

    def _parse_bracket(self, this: Any = None) -> Any:
        found = super()._parse_bracket(this)
        if isinstance(this, exp.Column) and isinstance(found, exp.Array):
            found.set("named", True)  # ARRAY[...]
        return found

    def _negate_range(self, this: Any = None) -> Any:
        if isinstance(this, exp.Is):  # x NOT NULL
            this.set("negate", True)
            return this
        return super()._negate_range(this)

    def _parse_cte(self) -> Any:
        found: Any = super()._parse_cte()
        values = found.this.find(exp.Values) if found is not None else None
        if values is not None and values.alias == "_values":
            values.set("alias", None)  # AS (VALUES ...), which sqlglot makes a SELECT of.
            found.set("this", values.pop())
        return found

    def _parse_ordered(self, parse_method: Any = None) -> Any:
        this = parse_method() if parse_method else self._parse_disjunction()
        if not this:
            return None
        if isinstance(this, exp.Column) and not this.table and this.name.upper() == "ALL":
            this = exp.var("ALL")
        ascending = self._match(TokenType.ASC)
        descending = self._match(TokenType.DESC)
        first = self._match_text_seq("NULLS", "FIRST")
        last = self._match_text_seq("NULLS", "LAST")
        return self.expression(
            exp.Ordered(
                this=this,
                desc=True if descending else False if ascending else None,
                nulls_first=True if first else False if last else None,
            )
        )

    def _parse_interval(
        self, require_interval: bool = True, parse_function_unit: bool = True
    ) -> Any:
        index = self._index
        if not self._match(TokenType.INTERVAL):
            return None
        if self._curr and self._curr.token_type in (TokenType.STRING, TokenType.NUMBER):
            this = self._parse_primary()
        elif self._curr and self._curr.token_type == TokenType.L_PAREN:
            this = self._parse_paren()
        else:
            this = self._parse_column()
        unit = self._curr.text.upper() if self._curr else ""
        if this is None or (unit not in _UNITS and not this.is_string):
            self._retreat(index)
            return None
        if unit in _UNITS:
            self._advance()
        return self.expression(
            exp.Interval(this=this, unit=exp.var(unit) if unit in _UNITS else None)
        )

    def _parse_cube_or_rollup(self, with_prefix: bool = False) -> Any:
        for token, kind in ((TokenType.CUBE, exp.Cube), (TokenType.ROLLUP, exp.Rollup)):
            if not with_prefix and self._match(token):
                parts = self._parse_wrapped_csv(self._parse_disjunction)
                return self.expression(kind(expressions=parts))
        return None

    def _parse_grouping_set(self) -> Any:
        return (
            self._parse_grouping_sets() or self._parse_cube_or_rollup() or self._parse_disjunction()
        )

    # Calls with words between their arguments, which DuckDB reads as calls with commas.

    def _call(self, name: str, *arguments: Any) -> Any:
        given = [argument for argument in arguments if argument is not None]
        return self.expression(exp.Anonymous(this=name, expressions=given))

    def _parse_date_part(self) -> Any:
        unit: Any = self._parse_var_or_string()
        if unit is None or not (self._match(TokenType.FROM) or self._match(TokenType.COMMA)):
            self.raise_error("Expected a unit and FROM in EXTRACT")
        name = unit.name if unit.is_string else _UNITS.get(unit.name.upper(), unit.name)
        return self._call("date_part", exp.Literal.string(name), self._parse_disjunction())

    def _parse_keyword_call(self, name: str, *words: str) -> Any:
        arguments: list[Any] = list(self._parse_function_args())
        for word in words:
            if self._match_text_seq(word):
                if (name, word, len(arguments)) == ("substring", "FOR", 1):
                    arguments.append(exp.Literal.number(1))  # From its start.
                arguments.append(self._parse_bitwise())
        return self._call(name, *arguments)

    def _parse_place(self) -> Any:
        needle = self._parse_bitwise()
        if self._match(TokenType.IN):
            return self._call("position", self._parse_bitwise(), needle)
        self._match(TokenType.COMMA)
        return self._call("position", needle, *self._parse_function_args())

    def _parse_trimmed(self) -> Any:
        side = self._prev.text.upper() if self._match_texts(tuple(_TRIMS)) else "BOTH"
        first = None if self._curr.token_type == TokenType.FROM else self._parse_bitwise()
        if self._match(TokenType.FROM):
            return self._call(_TRIMS[side], self._parse_bitwise(), first)
        rest = self._parse_function_args() if self._match(TokenType.COMMA) else []
        return self._call(_TRIMS[side], first, *rest)


class _Generator(DuckDBGenerator):
    TRANSFORMS: ClassVar[dict[Any, Any]] = {
        **DuckDBGenerator.TRANSFORMS,
        Prefix: lambda self, node: f"{node.args['sign']} {self.sql(node, 'this')}",
        Lookup: lambda self, node: self.lookup_sql(node),
        exp.Pow: lambda self, node: self.binary(node, node.args["sign"]),
        exp.StartsWith: lambda self, node: self.binary(node, "^@"),
        exp.Array: lambda self, node: (
            f"{'ARRAY' if node.args.get('named') else ''}[{self.expressions(node, flat=True)}]"
        ),
    }
    top: Node | None = None

    def sql(self, expression: Any, key: str | None = None, comment: bool = True) -> str:
        found = super().sql(expression, key, comment)
        if (
            key is None
            and isinstance(expression, _NESTED)
            and isinstance(expression.parent, _AROUND)
            and expression is not self.top
            and not isinstance(expression, _BARE)
            and not isinstance(expression.parent, _BARE)
        ):
            return f"({found})"
        return found

    def binary(self, expression: exp.Binary, op: str) -> str:
        return f"{self.sql(expression, 'this')} {op} {self.sql(expression, 'expression')}"

    def connector_sql(self, expression: Any, op: str, stack: Any = None) -> str:
        parts = expression.flatten(unnest=False)
        return f" {op} ".join(
            f"({self.sql(part)})" if isinstance(part, exp.Connector) else self.sql(part)
            for part in parts
        )

    def and_sql(self, expression: exp.And, stack: Any = None) -> str:
        return self.connector_sql(expression, "AND")

    def or_sql(self, expression: exp.Or, stack: Any = None) -> str:
        return self.connector_sql(expression, "OR")

    def is_sql(self, expression: exp.Is) -> str:
        return self.binary(expression, "IS NOT" if expression.args.get("negate") else "IS")

    def datatype_sql(self, expression: exp.DataType) -> str:
        return cast(str, expression.args.get("spelled")) or super().datatype_sql(expression)

    def ordered_sql(self, expression: exp.Ordered) -> str:
        desc, first = expression.args.get("desc"), expression.args.get("nulls_first")
        way = "" if desc is None else " DESC" if desc else " ASC"
        nulls = "" if first is None else " NULLS FIRST" if first else " NULLS LAST"
        return f"{self.sql(expression, 'this')}{way}{nulls}"

    def interval_sql(self, expression: exp.Interval) -> str:
        unit, this = expression.args.get("unit"), self.sql(expression, "this")
        this = this if isinstance(expression.this, exp.Literal) else f"({this})"
        return f"INTERVAL {this}" + (f" {unit.name}" if unit else "")

    def withingroup_sql(self, expression: exp.WithinGroup) -> str:
        order = self.sql(expression, "expression").strip()
        return f"{self.sql(expression, 'this')} WITHIN GROUP ({order})"

    def escape_sql(self, expression: exp.Escape) -> str:
        text = self.sql(expression, "this").strip()
        inner = expression.this
        if isinstance(inner, _NESTED):  # LIKE and its ESCAPE are one operator.
            text = text.removeprefix("(").removesuffix(")")
        return f"{text} ESCAPE {self.sql(expression, 'expression')}"

    def ignorenulls_sql(self, expression: exp.IgnoreNulls) -> str:
        return f"{self.sql(expression, 'this')} IGNORE NULLS"

    def respectnulls_sql(self, expression: exp.RespectNulls) -> str:
        return f"{self.sql(expression, 'this')} RESPECT NULLS"

    def anonymous_sql(self, expression: exp.Anonymous) -> str:
        arguments = ", ".join(self.sql(argument) for argument in expression.expressions)
        name = expression.this if isinstance(expression.this, str) else self.sql(expression, "this")
        if name.lower() == "position" and len(expression.expressions) == 2:
            whole, part = (self.sql(argument) for argument in expression.expressions)
            return f"position(({part}) IN ({whole}))"  # DuckDB reads no commas here.
        return f"{name}({arguments})"

    def lookup_sql(self, expression: Lookup) -> str:
        source, alias = expression.args["source"], expression.args["alias"]
        where = self.sql(expression, "where")
        inner = f"(SELECT {self.sql(expression, 'this')} FROM {source} AS {alias} WHERE {where})"
        return f"EXISTS{inner}" if expression.args.get("exists") else inner


BROKEN: Final = (
    *(SqlglotError, ValueError, TypeError, AttributeError, LookupError, NotImplementedError),
    *(AssertionError, ArithmeticError),
)
"""What sqlglot raises on text that it cannot read or write, whatever the reason."""


class Grammar(DuckDB):
    """DuckDB as it is written."""

    NORMALIZE_NOT_NULL = False

    Parser = _Parser
    Generator = _Generator


GRAMMAR = Grammar()
DUCKDB: Final = "duckdb"


def grammar_of(dialect: str) -> Dialect:
    """Return sqlglot's grammar of a dialect."""
    return GRAMMAR if dialect == DUCKDB else Dialect.get_or_raise(dialect)


def parsed(text: str, dialect: str) -> list[Any]:
    """Return the trees of the statements of a text; whatever is `BROKEN` may be raised."""
    grammar = grammar_of(dialect)
    return grammar.parser(error_level=ErrorLevel.IMMEDIATE).parse(grammar.tokenize(text), text)


_own = threading.local()  # A generator for each thread, since it remembers what it writes.


def written(node: Node) -> str:
    """Return a node as DuckDB's SQL."""
    if not hasattr(_own, "writer"):
        _own.writer = _Generator(dialect=GRAMMAR, comments=False, normalize_functions=False)
    _own.writer.top = node
    return str(_own.writer.generate(node, copy=False))
