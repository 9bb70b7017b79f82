"""Crossing: how many rows joins without a condition make of answers, told before they do.

Five blocks of a hundred groups each, one beside the other in FROM, make ten thousand million rows.
A join with a condition, or under a WHERE, is taken to have as many rows as its larger side; should
it have more, the limit of time over answers ends it.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlmadp.sql.syntax import Node


def crossed_rows(tree: Node, sizes: Mapping[str, int]) -> int:
    """Return the most rows that any FROM clause of a query makes, given the ``sizes`` of tables."""
    return max(_query(tree, sizes))


def _query(node: Node, sizes: Mapping[str, int]) -> tuple[int, int]:
    """Return the rows of a query, and the most rows that anything inside it makes."""
    known, most = dict(sizes), 0
    for entry in node["cte_map"]["map"]:
        known[entry["key"].casefold()], inside = _query(entry["value"]["query_node"], known)
        most = max(most, inside)
    if node["type"] != "SELECT_NODE":
        parts = [_query(child, known) for child in node["children"]]
        return sum(rows for rows, _ in parts), max([most, *(inside for _, inside in parts)])
    rows, inside = _from(node["from_table"], known, crossed=node["where_clause"] is None)
    return rows, max(most, inside, rows)


def _from(table: Node, sizes: Mapping[str, int], *, crossed: bool) -> tuple[int, int]:
    match table["type"]:
        case "BASE_TABLE":
            return sizes.get(table["table_name"].casefold(), 1), 0
        case "SUBQUERY":
            return _query(table["subquery"]["node"], sizes)
        case "EXPRESSION_LIST":
            return len(table["values"]), 0
        case "JOIN":
            left, within_left = _from(table["left"], sizes, crossed=crossed)
            right, within_right = _from(table["right"], sizes, crossed=crossed)
            free = crossed and table["condition"] is None and not table["using_columns"]
            plain = table["ref_type"] in ("REGULAR", "CROSS")
            rows = left * right if free and plain else max(left, right)
            return rows, max(within_left, within_right)
        case _:
            return 1, 0
