"""The allow-list: which parts of SQL an analyst's statement may be made of.

Every node of the syntax tree must be of a listed class and type, with no field that is
not known here, and every function must be listed by name.  Whatever is not listed is
refused; the rest of this module only finds good words for it.

A listed function depends on its arguments alone: not on the clock, the session, the
settings or chance.
"""

from __future__ import annotations

from typing import Final

from sqlmadp.sql.aggregates import PRIVATE
from sqlmadp.sql.syntax import Node


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


EXPRESSIONS: Final = frozenset(
    {
        ("COLUMN_REF", "COLUMN_REF"),
        ("CONSTANT", "VALUE_CONSTANT"),
        ("COMPARISON", "COMPARE_EQUAL"),
        ("COMPARISON", "COMPARE_NOTEQUAL"),
        ("COMPARISON", "COMPARE_LESSTHAN"),
        ("COMPARISON", "COMPARE_GREATERTHAN"),
        ("COMPARISON", "COMPARE_LESSTHANOREQUALTO"),
        ("COMPARISON", "COMPARE_GREATERTHANOREQUALTO"),
        ("COMPARISON", "COMPARE_DISTINCT_FROM"),
        ("COMPARISON", "COMPARE_NOT_DISTINCT_FROM"),
        ("CONJUNCTION", "CONJUNCTION_AND"),
        ("CONJUNCTION", "CONJUNCTION_OR"),
        ("OPERATOR", "OPERATOR_NOT"),
        ("OPERATOR", "OPERATOR_IS_NULL"),
        ("OPERATOR", "OPERATOR_IS_NOT_NULL"),
        ("OPERATOR", "OPERATOR_COALESCE"),
        ("OPERATOR", "OPERATOR_TRY"),
        ("OPERATOR", "COMPARE_IN"),
        ("OPERATOR", "COMPARE_NOT_IN"),
        ("OPERATOR", "ARRAY_EXTRACT"),
        ("OPERATOR", "ARRAY_SLICE"),
        ("BETWEEN", "COMPARE_BETWEEN"),
        ("BETWEEN", "COMPARE_NOT_BETWEEN"),
        ("CASE", "CASE_EXPR"),
        ("CAST", "OPERATOR_CAST"),
        ("FUNCTION", "FUNCTION"),
    }
)
"""Class and type of every expression that may occur over records."""

AROUND: Final = frozenset(
    {
        ("STAR", "STAR"),
        ("OPERATOR", "GROUPING_FUNCTION"),
        ("SUBQUERY", "SUBQUERY"),
        *(("WINDOW", f"WINDOW_{name}") for name in ("AGGREGATE", "ROW_NUMBER", "RANK")),
        *(("WINDOW", f"WINDOW_{name}") for name in ("RANK_DENSE", "PERCENT_RANK", "CUME_DIST")),
        *(("WINDOW", f"WINDOW_{name}") for name in ("NTILE", "LEAD", "LAG", "FILL")),
        *(("WINDOW", f"WINDOW_{name}") for name in ("FIRST_VALUE", "LAST_VALUE", "NTH_VALUE")),
    }
)
"""What may occur over answers besides."""

_COMMON = {"class", "type", "alias", "query_location", "query_location_length"}
FIELDS: Final = {
    "COLUMN_REF": _COMMON | {"column_names"},
    "CONSTANT": _COMMON | {"literal"},
    "COMPARISON": _COMMON | {"left", "right"},
    "CONJUNCTION": _COMMON | {"children"},
    "OPERATOR": _COMMON | {"children"},
    "BETWEEN": _COMMON | {"input", "lower", "upper"},
    "CASE": _COMMON | {"case_checks", "else_expr"},
    "CAST": _COMMON | {"child", "try_cast", "type_expr"},
    "FUNCTION": _COMMON
    | {"function_name", "schema", "catalog", "qualified_name", "arguments", "filter"}
    | {"order_bys", "distinct", "is_operator", "export_state"},
    "STAR": _COMMON
    | {"relation_name", "exclude_list", "replace_list", "columns", "expr"}
    | {"qualified_exclude_list", "rename_list"},
    "SUBQUERY": _COMMON | {"subquery_type", "subquery", "child", "comparison_type"},
    "WINDOW": _COMMON
    | {"function_name", "schema", "catalog", "partitions", "orders", "start", "end", "start_expr"}
    | {"end_expr", "offset_expr", "default_expr", "ignore_nulls", "filter_expr", "distinct"}
    | {"exclude_clause", "arg_orders", "has_ignore_nulls", "arguments", "qualified_name"},
    "TYPE": _COMMON | {"catalog", "schema", "type_name", "children", "qualified_name"},
    "SELECT_NODE": {"type", "modifiers", "cte_map", "select_list", "from_table", "where_clause"}
    | {"group_expressions", "group_sets", "aggregate_handling", "having", "sample", "qualify"},
    "SET_OPERATION_NODE": {"type", "modifiers", "cte_map", "setop_type", "setop_all", "children"}
    | {"left", "right"},
    "SUBQUERY_REF": {"type", "alias", "sample", "query_location", "query_location_length"}
    | {"subquery", "column_name_alias"},
    "EXPRESSION_LIST": {"type", "alias", "sample", "query_location", "query_location_length"}
    | {"expected_names", "expected_types", "values"},
    "EMPTY": {"type", "alias", "sample", "query_location", "query_location_length"},
    "JOIN": {"type", "alias", "sample", "query_location", "query_location_length", "left", "right"}
    | {"condition", "join_type", "ref_type", "using_columns", "delim_flipped", "is_implicit"}
    | {"duplicate_eliminated_columns", "ranking_expression", "nearest_count"}
    | {"nearest_order_type", "nearest_approx"},
    "BASE_TABLE": {"type", "alias", "sample", "query_location", "query_location_length"}
    | {"schema_name", "table_name", "column_name_alias", "catalog_name", "at_clause"}
    | {"qualified_name"},
}
"""The fields of each class of node; a node with any other field is not understood."""

TYPES: Final = _words(
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
    + - * / // % ** ^ & | << >> ~ @ || ^@ ~~ !~~ ~~* !~~* ~~~ !__postfix
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
"""The scalar functions and operators that may be used."""

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


def has_only_known_fields(node: Node, kind: str) -> bool:
    """Return whether a node has exactly the fields of its kind that are understood here."""
    return kind in FIELDS and node.keys() <= FIELDS[kind]
