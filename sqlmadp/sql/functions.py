"""Checking functions: which may be called where, and what to write instead of the others."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Literal

from sqlmadp.errors import Problem
from sqlmadp.schema.domain import Domain
from sqlmadp.sql.aggregates import PRIVATE, QUANTILES, arguments, canonical
from sqlmadp.sql.allowed import FUNCTIONS, OUTER_AGGREGATES
from sqlmadp.sql.statements import Span, Statement
from sqlmadp.sql.syntax import Node, span

WINDOW = (
    "window",
    "a window function here would look at single records",
    "Windows run over answers: SUM(COUNT(*)) OVER (ORDER BY age), with GROUP BY age.",
)
"""Code, message and hint for a window over records."""

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
}
"""Functions of other dialects, and what they are called here."""

Functions = dict[str, tuple[str, str]]
"""Type and stability of every function that DuckDB knows."""

Over = Literal["records", "block", "answers"]
"""What an expression runs over: single records, the groups of a private block, or answers."""


class FunctionChecker:
    """Collects the mistakes in the function calls of one statement."""

    def __init__(self, statement: Statement, domain: Domain, functions: Functions) -> None:
        self.problems: list[Problem] = []
        self.statement, self.domain, self._functions = statement, domain, functions

    def refuse(self, code: str, message: str, hint: str = "", at: Span | None = None) -> None:
        """Note a mistake."""
        self.problems.append(self.statement.problem(code, message, hint=hint, span=at))

    def is_any_aggregate(self, name: str) -> bool:
        """Return whether DuckDB knows a function as an aggregate, answered here or not."""
        return name.lower() in PRIVATE or self._functions.get(name.lower(), ("",))[0] == "aggregate"

    def check_function(self, node: Node, over: Over) -> bool:
        """Return whether the function may be used, after recording why not."""
        name, at = node["function_name"].lower(), span(node)
        before = len(self.problems)
        if node["schema"] or node["catalog"]:
            self.refuse("function", "functions are named without a schema", "", at)
        elif over == "answers" and name in OUTER_AGGREGATES:
            pass
        elif name in PRIVATE:
            self._check_aggregate(node, name, over)
        elif name not in FUNCTIONS:
            self._refuse_function(name, at)
        elif node["distinct"] or node["filter"] or node["order_bys"]["orders"]:
            self.refuse("function", f"{name} is not an aggregate", "", at)
        if any(argument["name"] for argument in node["arguments"]) or node["export_state"]:
            self.refuse("function", f"named arguments of {name} are not supported", "", at)
        return len(self.problems) == before

    def _check_aggregate(self, node: Node, name: str, over: Over) -> None:
        at = span(node)
        within = canonical(name) in QUANTILES | {"mode"}
        if over == "records":
            self.refuse(
                "misplaced-aggregate",
                f"{_shown(name)} cannot stand in WHERE, GROUP BY, FILTER or another aggregate",
                "Conditions on counts belong into HAVING.",
                at,
            )
        elif node["distinct"]:
            self.refuse(
                "count-distinct",
                f"{_shown(name)} of DISTINCT values is not supported: one record can change it "
                "or not, depending on all others",
                "Ask for COUNT(*) with GROUP BY: every value that the domain allows is returned.",
                at,
            )
        elif node["order_bys"]["orders"] and not within:
            self.refuse("function", f"the order of records does not change {name}", "", at)
        elif any(argument["expression"]["class"] == "STAR" for argument in node["arguments"]):
            self.refuse("count-star", "only COUNT(*) takes a star", "Write COUNT(*).", at)
        elif len(node["arguments"]) not in arguments(node):
            self.refuse("function", f"{_shown(name)} does not take such arguments", "", at)
        elif len(node["order_bys"]["orders"]) > 1:
            self.refuse("function", f"{name} is ordered by one value", "", at)

    def _refuse_function(self, name: str, at: Span | None) -> None:
        kind, stability = self._functions.get(name, ("", ""))
        if name in _SINGLE:
            self.refuse(
                "min-max",
                f"{self._source(name, at)} depends on a single record, so no noise can hide it",
                self._instead(name, at),
                at,
            )
        elif kind == "aggregate":
            self.refuse(
                "aggregate",
                f"{self._source(name, at)} is not supported",
                "GROUP BY the column and ask for COUNT(*): its values and counts hold the answer.",
                at,
            )
        elif kind in ("scalar", "macro") and stability not in ("", "CONSISTENT"):
            self.refuse_nondeterministic(name, at)
        elif kind == "window":
            self.refuse(*WINDOW, at)
        elif kind in ("table", "table_macro"):
            self.refuse("table-function", f"{name} is a table function", "", at)
        elif kind:
            self.refuse("function", f"the function {name} is not supported", "", at)
        else:
            known = _ELSEWHERE.get(name)
            hint = f"In DuckDB it is {known}." if known else nearest(name, FUNCTIONS | PRIVATE)
            self.refuse("unknown-function", f"there is no function {name!r}", hint, at)

    def _instead(self, name: str, at: Span | None) -> str:
        """Return what to ask for instead of an aggregate that a single record decides."""
        call = self._source(name, at)
        value = call.partition("(")[2].removesuffix(")") or "..."
        if name in ("min", "max"):
            which, fraction = ("low", "0.01") if name == "min" else ("high", "0.99")
            return f"Ask for a {which} quantile instead: QUANTILE_CONT({value}, {fraction})."
        if name.startswith("bool"):
            return f"Count instead: COUNT_IF({value}), COUNT_IF(NOT {value})."
        return "Ask for the most frequent value, MODE(...), or for counts: COUNT(*) with GROUP BY."

    def _source(self, name: str, at: Span | None) -> str:
        """Return a function call as the analyst wrote it, or its name if that is long."""
        start, length = at or (0, 0)
        text = self.statement.text.encode()[start : start + length].decode()
        return text if 0 < len(text) <= 40 and "\n" not in text else name.upper()

    def refuse_nondeterministic(self, name: str, at: Span | None) -> None:
        """Note that a function or word depends on more than its arguments."""
        self.refuse(
            "nondeterministic",
            f"{name} does not give the same value every time",
            "Write the value itself, for example DATE '2024-01-31'.",
            at,
        )


def _shown(name: str) -> str:
    return "COUNT(*)" if name == "count_star" else name.upper()


def nearest(name: str, known: Iterable[str]) -> str:
    """Return advice that names the known word nearest to ``name``; empty if none is near."""
    by_fold = {candidate.casefold(): candidate for candidate in known}
    close = difflib.get_close_matches(name.casefold(), by_fold, n=1)
    return f"Did you mean {by_fold[close[0]]!r}?" if close else ""
