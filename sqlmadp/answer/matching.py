"""Matching rows: which rows of two runs of one statement, over other answers, belong together.

Rows of a tracked query end with the number of their group.  Any other row is known by the columns
that no answer changes (FREE: see ``sql.linear``), or, where all runs have the same rows in the
same order, by its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlmadp.sql.bound import BoundQuery
from sqlmadp.sql.linear import Kind

Key = tuple[Any, ...]


def aligned(
    query: BoundQuery, rows: Sequence[tuple[Any, ...]], keys: Sequence[Key]
) -> list[tuple[Any, ...]] | None:
    """Return the rows of another run in the order of ``keys``; None unless they belong together.

    The order of a join's rows may change from run to run where nothing tells them apart.
    """
    found = dict(zip(row_keys(query, rows) or (), rows, strict=False))
    return [found[key] for key in keys] if found.keys() == set(keys) else None


def row_keys(query: BoundQuery, rows: Sequence[tuple[Any, ...]]) -> tuple[Key, ...] | None:
    """Return what tells each row from all others; None if nothing does."""
    if query.tracked:
        return tuple((row[-1],) for row in rows)
    free = [place for place, kind in enumerate(query.kinds) if kind == Kind.FREE]
    keys = tuple(tuple(repr(row[place]) for place in free) for row in rows)
    if len(set(keys)) == len(keys):
        return keys
    if query.fixed and query.untouched in (query.outer, query.lenient):
        return tuple((place, *key) for place, key in enumerate(keys))
    return None
