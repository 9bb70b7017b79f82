"""The allow-list: which parts of SQL an analyst's statement may be made of.

Every node of sqlglot's tree must be of a listed class, with no argument that is not known here, and
every function must be listed by name.  Whatever is not listed is refused; the rest of this module
only finds good words for it.

A listed function depends on its arguments alone: not on the clock, the session, the
settings or chance.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from sqlmadp.sql.aggregates import PRIVATE
from sqlmadp.sql.grammar import Lookup, Node, Prefix


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
