"""Joins of records with a public table: every column of it becomes a lookup."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from sqlmadp.sql.records import Field, Lookup, Public, Records, looked_up
from sqlmadp.sql.resolved import private
from sqlmadp.sql.statements import Span
from sqlmadp.sql.syntax import (
    AND,
    NOT,
    Node,
    column,
    compare,
    conjunction,
    integer,
    lookup,
    operator,
    span,
)

if TYPE_CHECKING:
    from sqlmadp.sql.expressions import ExpressionChecker

_HINT = "Join a public table: people JOIN states USING (state)."


def join_public(
    checker: ExpressionChecker, table: Node, left: object, right: object, occurrence: int
) -> Records | None:
    """Return the records of a join with a public table; None if it has mistakes."""
    at = (table["query_location"], table["query_location_length"])
    place = at if at[1] else None
    records, public = (left, right) if isinstance(left, Records) else (right, left)
    if not isinstance(records, Records) or not isinstance(public, Public):
        what = "each other" if isinstance(public, Records) else "answers"
        checker.refuse(
            "join",
            f"records of the private table cannot be joined with {what}",
            f"{_HINT} Two private blocks are joined as sub-selects with GROUP BY.",
            place,
        )
        return None
    kind = table["join_type"]
    swapped = public is left
    allowed = ("INNER",) if swapped else ("INNER", "LEFT", "SEMI", "ANTI")
    if kind not in allowed or table["ref_type"] not in ("REGULAR", "CROSS"):
        shown = kind if table["ref_type"] == "REGULAR" else table["ref_type"]
        checker.refuse(
            "join",
            f"records cannot be joined with a public table by {shown} JOIN in this order",
            "Write the private table first: people [LEFT] JOIN states USING (state).",
            place,
        )
        return None
    return _joined(checker, table, records, public, occurrence=occurrence, place=place)


def _joined(
    checker: ExpressionChecker,
    table: Node,
    records: Records,
    public: Public,
    *,
    occurrence: int,
    place: Span | None,
) -> Records | None:
    source, alias = public.source(occurrence)
    condition = _condition(checker, table, records, public, alias)
    if condition is None:
        return None
    using = {str(name).casefold() for name in table["using_columns"]}
    kind = table["join_type"]
    matched = lookup(integer(1), source, condition, "EXISTS")
    where = records.where
    if kind in ("INNER", "SEMI"):
        where = (*where, matched)
    elif kind == "ANTI":
        where = (*where, operator(NOT, matched))
    if kind in ("SEMI", "ANTI"):
        return replace(records, where=where)
    found = tuple(
        replace(known, merged=known.name.casefold() in using)
        for known in looked_up(public, source, alias, condition)
    )
    return Records(
        (*records.fields, *found), where, (*records.lookups, Lookup(source, condition, place))
    )


def _condition(
    checker: ExpressionChecker, table: Node, records: Records, public: Public, alias: str
) -> Node | None:
    columns = tuple(
        Field(public.alias, name, column(alias, f"__p{place}"))
        for place, name in enumerate(public.names)
    )
    terms: list[Node] = []
    for name in table["using_columns"]:
        own, other = records.find([name]), Records(columns).find([name])
        if own is None or other is None:
            checker.refuse("unknown-column", f"USING names {name!r}, which is not on both sides")
            return None
        terms.append(compare("COMPARE_EQUAL", own, other))
    if table["condition"] is not None:
        before = len(checker.problems)
        checker.records = Records((*records.fields, *columns))
        checker.aliases = set()
        checker.check_expression(table["condition"], "records")
        if len(checker.problems) > before:
            return None
        terms.append(private(table["condition"], checker.records))
    if not terms:
        checker.refuse(
            "join",
            f"every record would meet every row of {public.table.name!r}",
            f"Say in the join which row belongs to a record. {_HINT}",
            span(table["condition"]) if table["condition"] else None,
        )
        return None
    return reduce(lambda a, b: conjunction(AND, a, b), terms)
