"""Which scopes are counted together, and how large the engine's answer can get.

A scope that is part of another one is not counted by itself, nor are small scopes if the columns
of several have few cells: one scope of all these columns is counted, and added up.  That saves an
engine most of its time where there are many scopes.  But every row of the answer has all columns in
use, so with many columns fewer scopes are counted together.

Guarantee  Every scope is part of the scope that is counted for it.  Nothing here depends on a
           record.
Requires   Scopes of the domain.
Numerics   Exact integers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from sqlmadp.private.counting import used_columns
from sqlmadp.schema.domain import Domain

Scope = tuple[str, ...]

FEW_CELLS = 2**18
"""Scopes are counted together as long as their columns have at most so many cells.  With DuckDB
that halves the time of many scopes, and costs a few small ones up to as much again."""
FEWER = 64
"""By what that is divided, once or more, where the answer of the engine would be too large."""
MOST_BYTES = 2**27
"""Bytes of an answer up to which small scopes are counted together in any case; beyond that, while
it takes no more than twice as many as if they were not."""
BYTES_A_NUMBER = 9
"""What a number of the answer takes, and whether it is NULL."""
LATEST = 256
"""So many scopes that are counted together already are tried for the next one."""


def counted_together(domain: Domain, scopes: Iterable[Scope]) -> dict[Scope, Scope]:
    """Return, for every scope, the scope that is counted and that it is part of."""
    scopes, few = list(scopes), FEW_CELLS
    apart = _together(domain, scopes, 0)
    most = max(MOST_BYTES, 2 * _bytes(domain, set(apart.values())))
    while few > 1:
        counted = _together(domain, scopes, few)
        if _bytes(domain, set(counted.values())) <= most:
            return counted
        few //= FEWER
    return apart


def answer_bytes(domain: Domain, scopes: Iterable[Scope]) -> int:
    """Return how many bytes the counts of some scopes take at most when an engine returns them."""
    return _bytes(domain, set(counted_together(domain, scopes).values()))


def _bytes(domain: Domain, counted: set[Scope]) -> int:
    """Return the same for scopes that are counted by themselves: every row has all columns."""
    rows = sum(math.prod(domain.column(name).size for name in scope) for scope in counted)
    columns = len(used_columns(domain, list(counted)))
    return rows * (1 + columns * (1 if len(counted) == 1 else 2)) * BYTES_A_NUMBER


def _together(domain: Domain, scopes: Iterable[Scope], few: int) -> dict[Scope, Scope]:
    """Return the same, if scopes of at most ``few`` cells are counted together."""
    sizes = {column.name: column.size for column in domain.columns}

    def cells(names: Iterable[str]) -> int:
        return math.prod(sizes[name] for name in names)

    together: list[frozenset[str]] = []
    place: dict[Scope, int] = {}
    for scope in sorted(scopes, key=lambda scope: (-cells(scope), scope)):
        for number in range(max(len(together) - LATEST, 0), len(together)):
            both = together[number].union(scope)
            if both == together[number] or cells(both) <= few:
                together[number], place[scope] = both, number
                break
        else:
            together.append(frozenset(scope))
            place[scope] = len(together) - 1
    return {scope: tuple(sorted(together[number])) for scope, number in place.items()}
