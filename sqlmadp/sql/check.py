"""Checking expressions: names against the domain, all else against the allow-list.

Every node of sqlglot's tree must be of a listed class, with no argument that is not known here, and
every function must be listed by name.  A listed function depends on its arguments alone: not on the
clock, the session, the settings or chance.  Whatever is not listed is refused.

Every mistake is collected with its place, why it is one, and a way out.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from sqlglot import exp

from sqlmadp.errors import Problem
from sqlmadp.sql import hints
from sqlmadp.sql.aggregates import PRIVATE, QUANTILES, arguments, canonical, is_count_star
from sqlmadp.sql.grammar import Prefix
from sqlmadp.sql.limits import MOST_PROBLEMS
from sqlmadp.sql.names import Records
from sqlmadp.sql.statements import Statement
from sqlmadp.sql.tree import Call, Lookup, Node, Span, call_of, children, parts_of, span
from sqlmadp.table.domain import Domain


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_OPERANDS = frozenset({"this", "expression"})
EXPRESSIONS: Final[dict[type[exp.Expr], frozenset[str]]] = {
    exp.Column: _words("this table"),
    exp.Literal: _words("this is_string"),
    exp.ByteString: _words("this"),
    exp.RawString: _words("this"),
    exp.Boolean: _words("this"),
    exp.Null: frozenset(),
    exp.Not: _words("this"),
    exp.Neg: _words("this"),
    exp.BitwiseNot: _words("this"),
    Prefix: _words("this sign"),
    **dict.fromkeys((exp.And, exp.Or), _OPERANDS),
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), _OPERANDS),
    **dict.fromkeys((exp.NullSafeEQ, exp.NullSafeNEQ), _OPERANDS),
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.IntDiv, exp.Mod), _OPERANDS),
    exp.DPipe: _OPERANDS | {"safe"},
    exp.Div: _OPERANDS | {"typed", "safe"},
    exp.Pow: _OPERANDS | {"sign"},
    **dict.fromkeys((exp.BitwiseAnd, exp.BitwiseOr), _OPERANDS),
    **dict.fromkeys((exp.BitwiseLeftShift, exp.BitwiseRightShift), _OPERANDS),
    **dict.fromkeys((exp.Like, exp.ILike), _OPERANDS | {"negate"}),
    **dict.fromkeys((exp.Glob, exp.SimilarTo, exp.StartsWith), _OPERANDS),
    **dict.fromkeys((exp.RegexpLike, exp.RegexpFullMatch), _OPERANDS),
    exp.Escape: _OPERANDS,
    exp.Is: _OPERANDS | {"negate"},
    exp.In: _words("this expressions"),
    exp.Between: _words("this low high"),
    exp.Case: _words("this ifs default"),
    exp.If: _words("this true"),
    exp.Cast: _words("this to"),
    exp.TryCast: _words("this to safe"),
    exp.Interval: _words("this unit"),
    exp.Bracket: _words("this expressions offset safe returns_list_for_maps"),
    exp.Slice: _OPERANDS | {"step"},
    exp.Array: _words("expressions bracket_notation named"),
    exp.Anonymous: _words("this expressions"),
    exp.Filter: _OPERANDS,
    exp.WithinGroup: _OPERANDS,
    Lookup: _words("this source alias where exists"),
}
"""Every expression that may occur over records, with its arguments."""

AROUND: Final[dict[type[exp.Expr], frozenset[str]]] = {
    exp.Star: _words("except_ replace"),
    exp.Subquery: _words("this"),
    exp.Exists: _words("this"),
    exp.Any: _words("this"),
    exp.All: _words("this"),
    exp.In: _words("this expressions query"),
    exp.IgnoreNulls: _words("this"),
    exp.RespectNulls: _words("this"),
    exp.Window: _words("this partition_by order spec over"),
}
"""What may occur over answers besides."""

QUERIES: Final[dict[type[exp.Expr], frozenset[str]]] = {
    exp.Select: _words(
        "with_ expressions distinct from_ joins where group having qualify order limit offset"
    ),
    **dict.fromkeys(
        (exp.Union, exp.Except, exp.Intersect),
        _words("with_ this expression distinct by_name order limit offset"),
    ),
    exp.Subquery: _words("this alias with_ order limit offset joins"),
    exp.With: _words("expressions"),
    exp.CTE: _words("this alias materialized"),
    exp.Table: _words("this alias joins"),
    exp.Values: _words("expressions alias"),
    exp.Join: _words("this on side kind using method"),
    exp.Group: _words("expressions all"),
    exp.Limit: _words("expression limit_options"),
    exp.Fetch: _words("direction count limit_options"),
    exp.LimitOptions: _words("percent"),
    exp.Offset: _words("expression"),
    exp.Distinct: _words("on expressions"),
}
"""Every part of a query around its expressions, with its arguments."""


def has_only_known_arguments(node: Node, known: dict[type[exp.Expr], frozenset[str]]) -> bool:
    """Return whether a node is of a known class, with no argument that is not understood here."""
    names = known.get(type(node))
    return names is not None and all(
        name in names for name, value in node.args.items() if value not in (None, False, [], "")
    )


TYPES: Final = frozenset({"double precision", "character varying"}) | _words(
    """
    bool boolean logical tinyint int1 smallint int2 short integer int int4 signed bigint int8
    long hugeint int128 utinyint uint8 usmallint uint16 uinteger uint32 ubigint uint64 uhugeint
    uint128 decimal numeric dec float float4 real double float8 varchar char bpchar text string
    date time timestamp datetime timestamp_s timestamp_ms timestamp_us timestamp_ns interval
    """
)
"""The types that may be cast to.  TIMESTAMPTZ is not: it follows the session's time zone."""

FUNCTIONS: Final = _words(
    """
    abs acos acosh add ascii asin asinh atan atan2 atanh base64 bin bit_count bit_length cbrt
    ceil ceiling century char_length character_length chr concat concat_ws contains cos cosh cot
    damerau_levenshtein date_add date_diff date_part date_sub date_trunc datediff datepart datesub
    datetrunc day dayname dayofmonth dayofweek dayofyear days_in_month decade degrees divide
    editdist3 ends_with epoch epoch_ms epoch_ns epoch_us era even exp factorial fdiv floor fmod
    format gamma gcd greatest greatest_common_divisor hamming hex hour if ilike_escape instr
    isfinite isinf isnan isodow isoyear jaccard jaro_similarity jaro_winkler_similarity julian
    last_day lcase lcm least least_common_multiple left left_grapheme len length length_grapheme
    levenshtein lgamma like_escape list_contains list_has list_value ln log log10 log2 lower lpad
    ltrim make_date make_time make_timestamp md5 microsecond millennium millisecond minute mod
    month monthname multiply nextafter nfc_normalize not_ilike_escape not_like_escape nullif
    octet_length ord overlay pi position pow power prefix printf quarter radians regexp_escape
    regexp_extract regexp_full_match regexp_matches regexp_replace repeat replace reverse right
    right_grapheme round round_even roundbankers rpad rtrim second sha1 sha256 sign signbit sin
    sinh split_part sqrt starts_with strftime strip_accents strlen strpos strptime substr substring
    substring_grapheme subtract suffix tan tanh time_bucket to_base to_binary to_centuries to_days
    to_decades to_hex to_hours to_microseconds to_millennia to_milliseconds to_minutes to_months
    to_quarters to_seconds to_weeks to_years translate trim trunc try_strptime typeof ucase unicode
    upper week weekday weekofyear width_bucket xor year yearweek
    """
)
"""The scalar functions that may be used."""

SPECIAL: Final = _words("coalesce try")
"""What reads like a function and is none to DuckDB."""

OUTER_AGGREGATES: Final = PRIVATE | _words(
    """
    min max arg_min arg_max min_by max_by argmin argmax first last any_value arbitrary bool_and
    bool_or bit_and bit_or bit_xor product geomean geometric_mean skewness kurtosis entropy mad
    string_agg group_concat listagg list array_agg histogram sum_no_overflow
    """
)
"""The aggregates over answers that may be used."""

WINDOWS: Final = OUTER_AGGREGATES | _words(
    """
    row_number rank dense_rank rank_dense percent_rank cume_dist ntile lead lag first_value
    last_value nth_value fill
    """
)
"""The window functions over answers that may be used."""

CLOCK_AND_SESSION: Final = _words(
    """
    current_date current_time current_timestamp localtime localtimestamp current_user user
    session_user current_role current_catalog current_schema
    """
)
"""Words that read like columns but ask for the clock or the session."""

GROUPINGS = frozenset({"grouping", "grouping_id"})

_CLASSES: dict[type[exp.Expr], tuple[str, str, str]] = {
    exp.Lambda: ("lambda", "lambda functions are not supported", ""),
    exp.Collate: (
        "collation",
        "collations are not supported",
        "Compare both sides in lower case, with lower().",
    ),
    exp.Dot: ("function", "functions are named without a schema", ""),
    exp.PositionalColumn: (
        "positional-reference",
        "columns are not known by number",
        "Name the column.",
    ),
    exp.AtTimeZone: ("function", "the function timezone is not supported", ""),
    exp.Struct: ("function", "the function struct_pack is not supported", ""),
    exp.Tuple: ("function", "the function row is not supported", ""),
}

_SINGLE = frozenset(
    {"min", "max", "arg_min", "arg_max", "argmin", "argmax", "min_by", "max_by", "first", "last"}
    | {"any_value", "arbitrary", "bool_and", "bool_or"}
)
"""Aggregates that one record can decide."""

_ELSEWHERE = {
    "date_format": "strftime(day, '%Y-%m')",
    "to_char": "strftime(day, '%Y-%m')",
    "isnull": "x IS NULL, or coalesce(x, ...)",
    "nvl": "coalesce(x, ...)",
    "iif": "if(condition, x, y), or CASE",
    "charindex": "instr(text, part)",
    "dateadd": "day + INTERVAL 1 MONTH",
    "datefromparts": "make_date(year, month, day)",
    "all": "x IN (1, 2), or x NOT IN (1, 2)",
}
"""Functions of other dialects, and what they are called here."""

Functions = dict[str, tuple[str, str]]
"""Type and stability of every function that DuckDB knows."""

Over = Literal["records", "block", "answers"]
"""What an expression runs over: single records, the groups of a private block, or answers."""


class ExpressionChecker:
    """Collects the mistakes in the expressions of one statement."""

    def __init__(self, statement: Statement, domain: Domain, functions: Functions) -> None:
        self.problems: list[Problem] = []
        self.statement, self.domain, self._functions = statement, domain, functions
        self.records: Records | None = None
        """The columns that names refer to, where they are known."""
        self.aliases: set[str] = set()
        """The names that the SELECT gives to its result columns."""

    def refuse(self, code: str, message: str, hint: str = "", at: Span | None = None) -> None:
        """Note a mistake."""
        self.problems.append(self.statement.problem(code, message, hint=hint, span=at))

    def refuse_rows(self, at: Span | None) -> None:
        """Note that records themselves are asked for."""
        hint = f"Count records instead: {hints.counts(self.domain)}."
        self.refuse("rows", "this would return rows of individuals", hint, at)

    def refuse_window(self, at: Span | None) -> None:
        """Note a window over records."""
        hint = f"Windows run over answers: {hints.running_counts(self.domain)}."
        message = "a window function here would look at single records"
        self.refuse("window", message, hint, at)

    def is_any_aggregate(self, node: Node) -> bool:
        """Return whether DuckDB knows a call as an aggregate, answered here or not."""
        call = call_of(node)
        if call is None:
            return False
        return call.name in PRIVATE or self._functions.get(call.name, ("",))[0] == "aggregate"

    # Expressions.

    def check_expression(self, node: Node | None, over: Over) -> None:
        """Note every mistake in an expression."""
        if node is None or len(self.problems) >= MOST_PROBLEMS:
            return
        starred = isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
        if isinstance(node, exp.Alias) or (starred and over == "answers"):
            node, starred = node.this, False
        if isinstance(node, exp.Query) and over != "records":
            return  # It is looked at by itself.
        known = has_only_known_arguments(node, EXPRESSIONS) or (
            over != "records" and has_only_known_arguments(node, AROUND)
        )
        call = call_of(node)
        if starred or not known:
            self._refuse_node(node, over)
            return
        if isinstance(node, exp.Column):
            self._check_column(node)
        elif isinstance(node, (exp.Cast, exp.TryCast)):
            self._check_type(node.args["to"], span(node))
        elif isinstance(node, exp.Star):
            self._check_star(node, over)
            return
        elif isinstance(node, exp.Window):
            self._check_window(node, over)
            return
        elif call is not None:
            if not self._check_call(call, over):
                return
            if over == "block" and call.name in PRIVATE:
                over = "records"  # Neither FILTER nor an argument may hold another aggregate.
            self._check_parts(call, over)
            return
        for child in children(node):
            self.check_expression(child, over)

    def _check_parts(self, call: Call, over: Over) -> None:
        """Check the arguments of a call, its FILTER and its order."""
        orders = (order.this for order in call.orders)
        for part in (*call.arguments, call.where, *orders):
            if not (isinstance(part, exp.Star) and is_count_star(call)):
                self.check_expression(part, over)

    def _check_star(self, node: exp.Star, over: Over) -> None:
        if over == "block":
            self.refuse_rows(span(node))
        for replaced in node.args.get("replace") or ():
            self.check_expression(replaced, over)

    def _check_window(self, node: exp.Window, over: Over) -> None:
        call = call_of(node.this)
        if call is None or call.name not in WINDOWS:
            name = call.name if call else "?"
            self.refuse("function", f"the window function {name} is not supported", "", span(node))
            return
        for child in children(node):
            self.check_expression(child, over)

    def _refuse_node(self, node: Node, over: Over) -> None:
        if isinstance(node, exp.Star) or isinstance(node.this, exp.Star):
            self.refuse_rows(span(node))
        elif isinstance(node, (exp.Query, exp.Exists, exp.Any, exp.All, exp.In)):
            self._refuse_subquery(node)
        elif isinstance(node, exp.Window):
            self.refuse_window(span(node))
        else:
            name = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__).upper()
            unknown = ("construct", f"this construct is not supported ({name})", "")
            self.refuse(*_CLASSES.get(type(node), unknown), span(node))

    def _refuse_subquery(self, node: Node) -> None:
        """Refuse a condition on records that depends on answers, with the way to do it."""
        source = node.find(exp.Table)
        name = source.name if source is not None else ""
        query = node if isinstance(node, exp.Query) else node.find(exp.Query)
        at = span(query) or span(node)
        if query is None:
            hint = "List the values: x IN (1, 2), or x NOT IN (1, 2)."
            self.refuse("construct", "ANY and ALL of a list are not supported", hint, at)
            return
        if any(name.casefold() == public.name.casefold() for public in self.domain.public):
            self.refuse(
                "private-subquery",
                f"a condition on records cannot hold a subquery, not even of the public {name!r}",
                "Join it, by SEMI JOIN for IN and EXISTS, or by ANTI JOIN for NOT IN and NOT EXISTS"
                + (f": {known}." if (known := hints.join(self.domain, "SEMI JOIN", name)) else "."),
                at,
            )
            return
        self.refuse(
            "private-subquery",
            "a condition on records cannot depend on the answer of another query: what is counted "
            "must be known before anything is measured",
            "Do it in two steps: ask the inner SELECT by itself first, then write its answer into "
            "this statement as a number. (Over answers, in HAVING or an outer SELECT, subqueries "
            "are fine; values of a public table are joined.)",
            at,
        )

    # Names and types.

    def _check_column(self, node: exp.Column) -> None:
        if self.records is None:
            return  # DuckDB knows the names of answers, and says so if one is not there.
        *qualifier, name = parts_of(node)
        qualifiers = self.records.qualifiers
        if len(qualifier) == 1 and qualifier[0].casefold() not in map(str.casefold, qualifiers):
            listed = ", ".join(sorted(map(hints.shown_name, qualifiers)))
            hint = hints.nearest(qualifier[0], qualifiers) or f"Tables of this FROM: {listed}."
            self.refuse("unknown-table", f"there is no table {qualifier[0]!r}", hint, span(node))
        elif self._is_known(parts_of(node), self.records):
            return
        elif name.casefold() in CLOCK_AND_SESSION:
            self.refuse_nondeterministic(name, span(node))
        else:
            unit = self.domain.unit
            if unit is not None and name.casefold() == unit.column.casefold():
                message = f"column {name!r} cannot be queried"
                hint = "It identifies whom this schema protects."
            else:
                message = f"the schema does not declare a column {name!r}"
                hint = self._column_hint(name, span(node), self.records.names)
            self.refuse("unknown-column", message, hint, span(node))

    def _is_known(self, names: list[str], records: Records) -> bool:
        is_alias = len(names) == 1 and names[0].casefold() in self.aliases
        return is_alias or records.find(names) is not None

    def _column_hint(self, name: str, at: Span | None, known: list[str]) -> str:
        text = self.statement.text
        compared = at and re.search(r"(=|<>|!=|\bIN\s*\(|,)\s*$", text[: at[0]], re.IGNORECASE)
        if at and compared and text[at[0] : at[0] + 1] == '"':
            quoted = name.replace("'", "''")
            return f"Double quotes name a column; text is written '{quoted}'."
        near = hints.nearest(name, known)
        return near or f"Declared: {', '.join(map(hints.shown_name, known))}."

    def _check_type(self, node: exp.DataType, at: Span | None) -> None:
        spelled = str(node.args.get("spelled", ""))
        name, _, sizes = spelled.partition("(")
        if name.strip().casefold() not in TYPES or re.search(r"[^\d ,)]", sizes):
            self.refuse(
                "type",
                f"casting to {name or 'this type'} is not supported",
                "Cast to a number, VARCHAR, BOOLEAN, DATE, TIMESTAMP, TIME or INTERVAL.",
                at,
            )

    # Functions.

    def _check_call(self, call: Call, over: Over) -> bool:
        """Return whether the function may be used, after recording why not."""
        name, at = call.name, span(call.node)
        before = len(self.problems)
        if name == "columns":
            self.refuse_rows(at)
        elif name in GROUPINGS and over == "records":
            self.refuse("construct", "this construct is not supported (GROUPING)", "", at)
        elif name in GROUPINGS or (over == "answers" and name in OUTER_AGGREGATES):
            pass
        elif name in PRIVATE:
            self._check_aggregate(call, over)
        elif name not in FUNCTIONS | SPECIAL:
            self._refuse_function(call)
        elif call.distinct or call.where is not None or call.orders:
            self.refuse("function", f"{name} is not an aggregate", "", at)
        if call.named or (call.nulls and over != "answers"):
            self.refuse("function", f"named arguments of {name} are not supported", "", at)
        return len(self.problems) == before

    def _check_aggregate(self, call: Call, over: Over) -> None:
        name, at = call.name, span(call.node)
        shown = "COUNT(*)" if is_count_star(call) else name.upper()
        within = canonical(name) in QUANTILES | {"mode"}
        around = call.node.find_ancestor(exp.Anonymous)
        if over == "records" and around is not None and around.name.lower() in PRIVATE:
            self.refuse(
                "misplaced-aggregate",
                f"{shown} is inside another aggregate",
                f"Over groups it is a window: {hints.running_counts(self.domain)}.",
                at,
            )
        elif over == "records":
            self.refuse(
                "misplaced-aggregate",
                f"{shown} is not allowed in WHERE, GROUP BY or FILTER",
                "Conditions on counts belong in HAVING.",
                at,
            )
        elif call.distinct:
            self.refuse(
                "count-distinct",
                f"{shown} of DISTINCT values is not supported: one record can change it "
                "or not, depending on all others",
                "Count the records of every value instead, as in "
                f"{hints.counts(self.domain, self._own_column(call))}: every value that the domain "
                "allows is returned.",
                at,
            )
        elif call.orders and not within:
            self.refuse("function", f"the order of records does not change {name}", "", at)
        elif not is_count_star(call) and any(isinstance(a, exp.Star) for a in call.arguments):
            self.refuse("count-star", "only COUNT(*) takes a star", "Write COUNT(*).", at)
        elif len(call.arguments) not in arguments(call):
            takes = " or ".join(map(str, arguments(call)))
            message = f"{name.upper()} takes {takes} arguments, and {len(call.arguments)} are given"
            self.refuse("function", message, self._usage(name), at)
        elif len(call.orders) > 1:
            self.refuse("function", f"{name} is ordered by one value", "", at)

    def _refuse_function(self, call: Call) -> None:
        name, at = call.name, span(call.node)
        kind, stability = self._functions.get(name, ("", ""))
        if name in _SINGLE:
            self.refuse(
                "min-max",
                f"{self._source(name, at)} depends on a single record, so no noise can hide it",
                self._instead(call),
                at,
            )
        elif kind == "aggregate":
            self.refuse(
                "aggregate",
                f"{self._source(name, at)} is not supported",
                "Values and their counts hold the answer, as in "
                f"{hints.counts(self.domain, self._own_column(call))}.",
                at,
            )
        elif kind in ("scalar", "macro") and stability not in ("", "CONSISTENT"):
            self.refuse_nondeterministic(name, at)
        elif kind == "window":
            self.refuse_window(at)
        elif kind in ("table", "table_macro"):
            self.refuse("table-function", f"{name} is a table function", "", at)
        elif kind:
            self.refuse("function", f"the function {name} is not supported", "", at)
        else:
            known = _ELSEWHERE.get(name)
            hint = (
                f"In DuckDB it is {known}." if known else hints.nearest(name, FUNCTIONS | PRIVATE)
            )
            self.refuse("unknown-function", f"there is no function {name!r}", hint, at)

    def _own_column(self, call: Call) -> str | None:
        """Return the declared column that is a call's first argument; None if it is none."""
        first = call.arguments[0] if call.arguments else None
        if self.records is None or not isinstance(first, exp.Column):
            return None
        meant = self.records.find(parts_of(first))
        return meant.name if isinstance(meant, exp.Column) and meant.name in self.domain else None

    def _instead(self, call: Call) -> str:
        """Return the hint for an aggregate that a single record decides."""
        own = self._own_column(call)
        if own is not None and self.domain.column(own).type == "real":
            return f"Bin it and look at the last bins: {hints.bins(self.domain, own)}."
        if own is not None and call.name in ("min", "max"):
            which, fraction = ("low", "0.01") if call.name == "min" else ("high", "0.99")
            return f"Ask for a {which} quantile: {hints.quantile(self.domain, own, fraction)}."
        return f"Ask for counts instead: {hints.counts(self.domain, own)}."

    def _usage(self, name: str) -> str:
        """Return a hint on the arguments of an aggregate; empty where its message says enough."""
        numbers = [c.name for c in self.domain.columns if c.type in ("integer", "decimal")]
        if canonical(name) not in QUANTILES or not numbers:
            return ""
        return f"Write it so: {hints.quantile(self.domain, numbers[0], '0.5')}."

    def _source(self, name: str, at: Span | None) -> str:
        """Return a function call as the analyst wrote it, or its name if that is long."""
        start, length = at or (0, 0)
        text = self.statement.text[start : start + length]
        return text if 0 < len(text) <= 40 and "\n" not in text else name.upper()

    def refuse_nondeterministic(self, name: str, at: Span | None) -> None:
        """Note that a function or word depends on more than its arguments."""
        self.refuse(
            "nondeterministic",
            f"{name} does not give the same value every time",
            "Write the value itself, for example DATE '2024-01-31'.",
            at,
        )
