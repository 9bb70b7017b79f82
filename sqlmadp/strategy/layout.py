"""Layouts: which blocks a strategy for several scopes may consist of.

A layout is a list of `Rows` that tell the blocks' vertices and what is asked of them.  Candidates
are one block per partition as asked, per scope, per maximal scope, scopes merged greedily, one
block of all columns, and all products of the columns' own partitions, to be weighed against each
other.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Sequence

import numpy as np
from scipy import sparse

from sqlmadp.errors import NotCoveredError
from sqlmadp.solve.column import main_partition
from sqlmadp.strategy.search import Search, UnmeasuredError
from sqlmadp.table.joint import disjoint
from sqlmadp.table.partition import Partition, common
from sqlmadp.table.rows import Rows, Scope, by_scope, merged
from sqlmadp.table.runs import Floats

MANY_SCOPES = 300
"""Give each scope its own block, and try nothing else, above this many scopes: to merge and weigh
220 of them takes 0.8 s."""

MERGED_VERTICES = 1024
"""Merge two scopes only if both together have at most this many vertices."""

SCOPE_VERTICES = 2**16
"""Merge rows over the same columns up to this many vertices.  Two functions such as LN(price) and
SQRT(price) have few vertices each, and together as many as the column has values."""

UNION_VERTICES = 512
"""Try one block over all columns up to this many vertices."""

LIFTED_VERTICES = 4096
"""Lift queries of a smaller scope only to a scope of at most this many vertices."""

MAX_COORDINATES = 2048
"""Weigh blocks against each other only while the largest residual space has at most about this many
coordinates: one step of the search takes 0.6 s there, and eight times as long for twice as many."""

MAX_PRODUCTS = 300
"""Weigh at most this many products of partitions."""


def as_asked(workload: Sequence[Rows]) -> list[Rows]:
    """Return one block per layout that is asked for."""
    found: dict[object, list[Rows]] = {}
    for rows in workload:
        found.setdefault(rows.layout, []).append(rows)
    return [_stacked(own) for own in found.values()]


def _stacked(rows: Sequence[Rows]) -> Rows:
    """Return rows over the same vertices as one."""
    if len(rows) == 1:
        return rows[0]
    first = rows[0]
    if all(each.plain for each in rows):
        square = math.fsum(float(each.weight) ** 2 for each in rows)
        return Rows(first.scope, first.parts, math.sqrt(float(f"{square:.12g}")))
    matrix = sparse.vstack([each.matrix for each in rows])
    return Rows.of(first.scope, first.parts, sparse.csr_array(matrix))


def per_scope(workload: Sequence[Rows]) -> list[Rows]:
    """Return one block per scope that is asked for; as asked if that would be too many vertices."""
    found = []
    for scope, rows in by_scope(workload).items():
        columns = zip(*(each.parts for each in rows), strict=True)
        few = math.prod(common(parts).size for parts in columns) <= SCOPE_VERTICES
        found += [merged(scope, rows)] if few else rows
    return found


def layouts(asked: Sequence[Rows]) -> list[list[Rows]]:
    """Return the choices of blocks worth trying for a workload, given one block per layout."""
    workload = per_scope(asked)
    scopes = [rows.scope for rows in workload if rows.scope] or [()]
    if len(scopes) > MANY_SCOPES or len(set(scopes)) < len(scopes):
        return [list(asked)]
    sizes = vertex_counts(workload)
    maximal = [s for s in scopes if not any(set(s) < set(t) for t in scopes)]
    choices: list[list[Scope]] = [scopes, maximal, *merges(workload)[-1:]]
    if math.prod(sizes.values()) <= UNION_VERTICES and disjoint(sizes):
        choices.append([tuple(sorted(sizes))])
    found = []
    for number, choice in enumerate(choices):
        small = all(math.prod(sizes[c] for c in scope) <= LIFTED_VERTICES for scope in choice)
        if choice not in choices[:number] and (number == 0 or small):
            found.append(assigned(workload, choice))
    if len(asked) > len(workload):
        found.append(list(asked))
    return found


def assigned(workload: Sequence[Rows], scopes: Sequence[Scope]) -> list[Rows]:
    """Return one block per scope that holds the queries of all scopes inside it."""
    parts: dict[Scope, list[Rows]] = {scope: [] for scope in scopes}
    for rows in workload:
        home = next((s for s in scopes if s == rows.scope), None)
        if home is None:
            home = next(s for s in scopes if set(rows.scope) <= set(s))
        parts[home].append(rows)
    return [
        merged(tuple(sorted({c for each in own for c in each.scope})), own)
        for own in parts.values()
        if own
    ]


def vertex_counts(workload: Sequence[Rows]) -> dict[str, int]:
    """Return the vertices of every column, as the scope that tells most apart has them."""
    sizes: dict[str, int] = {}
    for rows in workload:
        for column, part in zip(rows.scope, rows.parts, strict=True):
            sizes[column] = max(sizes.get(column, 1), part.size)
    return sizes


def merges(workload: Sequence[Rows]) -> list[list[Scope]]:
    """Return the scopes after each merger of two that lowers the error most, cell by cell.

    Blocks of error E_b at weight 1 have (sum_b E_b^(1/3))^3 at their best weights.
    """
    sizes = vertex_counts(workload)
    parts = {
        number: (frozenset(rows.scope), [(frozenset(rows.scope), rows.square_sum)])
        for number, rows in enumerate(rows for rows in workload if rows.scope)
    }

    def root(scope: frozenset[str], asked: list[tuple[frozenset[str], float]]) -> float:
        return float(np.cbrt(sum(e * math.prod(sizes[c] for c in scope - own) for own, e in asked)))

    def gain(one: int, two: int) -> float:
        (a, asked_a), (b, asked_b) = parts[one], parts[two]
        nested = a <= b or b <= a
        large = math.prod(sizes[c] for c in a | b) > MERGED_VERTICES
        if not nested and (large or not disjoint(a | b)):
            return -1.0
        return roots[one] + roots[two] - root(a | b, asked_a + asked_b)

    roots = {number: root(*part) for number, part in parts.items()}
    gains = [(-gain(i, j), i, j) for i, j in itertools.combinations(parts, 2)]
    gains = [each for each in gains if each[0] < 0]
    heapq.heapify(gains)
    found: list[list[Scope]] = []
    while gains:
        _, one, two = heapq.heappop(gains)
        if one not in parts or two not in parts:  # Merged with another one since.
            continue
        (a, asked_a), (b, asked_b) = parts.pop(one), parts.pop(two)
        last = len(roots)
        parts[last] = a | b, asked_a + asked_b
        roots[last] = root(*parts[last])
        for other in parts:
            if other != last and (more := gain(other, last)) > 0:
                heapq.heappush(gains, (-more, other, last))
        found.append(sorted({tuple(sorted(scope)) for scope, _ in parts.values()}))
    return found


def products(asked: Sequence[Rows]) -> list[Rows]:
    """Return the vertices of all products of the columns' own partitions inside maximal scopes."""
    used: dict[str, dict[int, set[Partition]]] = {}
    for rows in asked:
        for column, part in zip(rows.scope, rows.parts, strict=True):
            used.setdefault(column, {}).setdefault(part.size, set()).add(part)
    levels: dict[str, list[Partition]] = {}
    for column, sizes in used.items():
        combined = (common(sorted(same, key=lambda p: p.key)) for _, same in sorted(sizes.items()))
        levels[column] = list(dict.fromkeys(combined))
        if not all(part.is_flat for part in levels[column]):
            return []
    scopes = {rows.scope for rows in asked}
    found: dict[object, Rows] = {}
    for scope in sorted(s for s in scopes if not any(set(s) < set(t) for t in scopes)):
        for chosen in itertools.product(*([None, *levels[c]] for c in scope)):
            kept = [(c, p) for c, p in zip(scope, chosen, strict=True) if p is not None]
            if kept:
                block = Rows(tuple(c for c, _ in kept), tuple(p for _, p in kept), 1.0)
                found[block.layout] = block
            if len(found) > MAX_PRODUCTS:
                return []
    return list(found.values())


def coordinates(blocks: Sequence[Rows]) -> int:
    """Return about how many coordinates the largest residual space of plain blocks has.

    Per column, what every partition but the main one tells apart is written out: see `Column`.
    """
    used: dict[str, set[Partition]] = {}
    inside: dict[tuple[Scope, str], set[Partition]] = {}
    for block in blocks:
        for column, part in zip(block.scope, block.parts, strict=True):
            used.setdefault(column, set()).add(part)
            inside.setdefault((block.scope, column), set()).add(part)
    main = {c: main_partition(list(parts)) for c, parts in used.items()}
    finest = {c: common(sorted(parts, key=lambda part: part.key)) for c, parts in used.items()}
    sizes: dict[Scope, int] = {}
    for (scope, column), parts in inside.items():
        top = main[column]
        own = used[column] if top in parts else parts  # Its part in the other scopes' functions.
        halves = 1 if top == finest[column] else 2
        written = 1 + halves * sum(part.size - 1 for part in own if part != top)
        sizes[scope] = sizes.get(scope, 1) * min(written, finest[column].size)
    return max(sizes.values(), default=1)


def written_out(workload: Sequence[Rows]) -> int:
    """Return how many functions of one column, at most, its basis writes out: see `Column`."""
    told: dict[str, list[tuple[Partition, bool]]] = {}
    for rows in workload:
        for name, part in zip(rows.scope, rows.parts, strict=True):
            told.setdefault(name, []).append((part, rows.plain))
    most = 0
    for own in told.values():
        parts = sorted({part for part, _ in own}, key=lambda part: part.key)
        finest, main = common(parts), main_partition(parts)
        # Rows across the main vertices treat each of them in its own way.
        alike = all(plain for part, plain in own if part == main)
        others = (1 if main == finest else 2) * sum(part.size for part in parts if part != main)
        most = max(most, min(others, finest.size) if alike else finest.size)
    return most


def weighed(
    blocks: Sequence[Rows],
    workloads: Sequence[Sequence[Rows]],
    caps: Floats | None = None,
    *,
    importance: Floats | None = None,
    start: Floats | None = None,
) -> tuple[list[Rows], Floats]:
    """Return those of many blocks that are worth measuring, and their weights.

    The light ones are dropped and the rest weighed anew.
    """
    chosen, weights = list(blocks), np.ones(len(blocks)) if start is None else start
    best = chosen, weights
    for light in (0.01, 0.003, 0.0):
        try:
            search = Search(chosen, [None] * len(chosen), workloads, move=False)
            flat = search.least(
                importance=importance, caps=caps, start=search.start(weights), steps=100
            )
        except (UnmeasuredError, NotCoveredError):  # Something asked for was too light.
            break
        weights = search.split(flat)[0]
        best = chosen, weights
        heavy = weights > light * weights.max()
        chosen = [block for block, keep in zip(chosen, heavy, strict=True) if keep]
        weights = weights[heavy]
    return best


def starts(blocks: Sequence[Rows], asked: Sequence[Rows]) -> list[Floats]:
    """Return weights to start from: all alike, and little but what is asked for.

    A weight that has become small hardly ever grows again, so where a search ends depends on where
    it starts.
    """
    layouts = {rows.layout for rows in asked}
    large = np.array([1.0 if block.layout in layouts else 0.05 for block in blocks])
    return [np.ones(len(blocks)), large]
