"""Which scopes are counted together, and how large the engine's answer can get.

A scope that is part of another one is not counted by itself, nor are small scopes if the columns
of several have few cells: one scope of all these columns is counted, and added up.  That saves an
engine most of its time where there are many scopes.  But every row of the answer has all columns in
use, so with many columns fewer scopes are counted together.

Guarantee  Every scope is part of the scope that is counted for it.  Nothing here depends on a
           record.
Requires   Scopes as sorted keys.
Numerics   Exact integers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from sqlmadp.private.keys import FEW_CELLS, Key, Keys, Layout, keys_of, moments_of
from sqlmadp.schema.domain import Domain

FEWER = 64
"""By what that is divided, once or more, where the answer of the engine would be too large."""
MOST_BYTES = 2**27
"""Bytes of an answer up to which small scopes are counted together in any case; beyond that, while
it takes no more than twice as many as if they were not."""
BYTES_A_NUMBER = 9
"""What a number of the answer takes, and whether it is NULL."""
BYTES_A_MOMENT = 48
"""What a moment takes: it comes as text, of at most 39 digits."""
LATEST = 256
"""So many scopes that are counted together already are tried for the next one."""


def counted_together(scopes: Iterable[Keys]) -> dict[Keys, Keys]:
    """Return, for every scope, the scope that is counted and that it is part of."""
    scopes, few = list(scopes), FEW_CELLS
    apart = _together(scopes, 0)
    most = max(MOST_BYTES, 2 * _bytes(set(apart.values())))
    while few > 1:
        counted = _together(scopes, few)
        if _bytes(set(counted.values())) <= most:
            return counted
        few //= FEWER
    return apart


def answer_bytes(domain: Domain, layouts: Iterable[Layout]) -> int:
    """Return how many bytes the sums of some blocks take at most when an engine returns them."""
    scopes = [keys_of(layout, domain) for layout in layouts]
    moments = {moment for keys in scopes for moment in moments_of(keys)[1:]}
    return _bytes(set(counted_together(scopes).values()), len(moments))


def _bytes(counted: set[Keys], moments: int = 0) -> int:
    """Return the same for scopes that are counted by themselves: every row has all columns."""
    rows = sum(_cells(scope) for scope in counted)
    keys = len({key for scope in counted for key in scope})
    numbers = 1 + keys * (1 if len(counted) == 1 else 2)
    return rows * (numbers * BYTES_A_NUMBER + moments * BYTES_A_MOMENT)


def _cells(keys: Iterable[Key]) -> int:
    return math.prod(key.size for key in keys)


def _together(scopes: Sequence[Keys], few: int) -> dict[Keys, Keys]:
    """Return the same, if scopes of at most ``few`` cells are counted together."""
    keys = sorted({key for scope in scopes for key in scope}, key=lambda key: key.name)
    number = {key: place for place, key in enumerate(keys)}  # Numbers are compared faster.
    together: list[frozenset[int]] = []
    place: dict[Keys, int] = {}
    numbered = [(-_cells(scope), [number[key] for key in scope], scope) for scope in scopes]
    for _, own, scope in sorted(numbered, key=lambda each: each[:2]):
        for last in range(max(len(together) - LATEST, 0), len(together)):
            both = together[last].union(own)
            if both == together[last] or math.prod(keys[n].size for n in both) <= few:
                together[last], place[scope] = both, last
                break
        else:
            together.append(frozenset(own))
            place[scope] = len(together) - 1
    return {scope: tuple(keys[n] for n in sorted(together[at])) for scope, at in place.items()}
