"""Sensitivity: how far one privacy unit can move the exact answers of all blocks together.

A record's weights on the vertices of a block are not negative and sum to 1, whatever its values
are.  So it moves the answers of the block's matrix M by a convex combination of columns of M and,
since the L1 norm is convex, by no more than the same combination f_b(record) of the columns' sums
of absolute values, signed entries and ramps included:

    sensitivity  =  records  *  max over records of  sum_b f_b(record)

for as many records as are in one of two neighbouring tables only: those of a unit, or of two
where neighbours have one unit replaced by another.

Where all columns of a block have one sum, f_b is that number.  The other blocks are compared over
*joint vertices* (see `joint_vertices`): for every record there are weights on these, not negative
and with sum 1, from which its weights on the vertices of every block follow by adding up.  So the
sum over blocks is at most its largest value over joint vertices.  These are too many to try them
all.  Each f_b depends on its scope's columns only, so it is split into one part per set T of
columns, by inclusion and exclusion from joint vertex 0:

    g_T(x_T)  =  sum over U subset of T of  (-1)^(|T| - |U|) f(x_U, 0 elsewhere)
    f         =  sum over T of  g_T

The split is linear and unique, so parts of different blocks add up set by set.  If every part
but that of the empty set vanishes, the sum over blocks is constant and that part is the
sensitivity, exactly.  (Strategies are built that way.)  Otherwise the parts are gathered
into the largest sets among them and the largest values of those are added: exact when these
sets do not overlap, an upper bound always.  The sum of every block's own largest column is
another upper bound; the smaller one is returned.

No caller may supply the number: a strategy that understates it would be measured with too
little noise.

Guarantee  For neighbouring tables, the exact answers to the rows of all blocks together differ by
           at most ``l1_sensitivity(blocks, domain)`` in L1 norm.
Requires   Blocks that `checked_blocks` returned.
Numerics   Exact: 64-bit integers, with overflow excluded by limits and a bound taken in Python's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sqlmadp.errors import StrategyError
from sqlmadp.private.blocks import MAX_CELLS
from sqlmadp.table.domain import Domain
from sqlmadp.table.partition import Partition
from sqlmadp.table.products import Products, along_each
from sqlmadp.table.rows import Rows

Table = NDArray[np.int64]
Parts = dict[tuple[str, ...], Table]


def l1_sensitivity(blocks: Sequence[Rows], domain: Domain) -> int:
    """Return how far one unit can move the answers of all ``blocks``, in L1 norm."""
    records = domain.records_between_neighbours
    if not isinstance(records, int) or records < 1:
        raise StrategyError("a privacy unit owns a whole number of records, at least one")
    constant, separate = 0, 0
    varying: list[tuple[Rows, Table]] = []
    for block in blocks:
        sums = column_sums(block)
        largest = int(sums.max(initial=0))
        if (sums == largest).all():
            constant += largest
        else:
            separate += largest
            varying.append((block, sums))
    together = _largest_sum(varying)
    return (constant + (separate if together is None else min(separate, together))) * records


def column_sums(block: Rows) -> Table:
    """Return the sum of absolute values of every column of a block; of equal ones, one.

    No sum of entries reaches 2^62, as `checked_blocks` made sure.  Nor does one on the way of a
    grid of products, where a height times entries of fewer factors is bounded too.
    """
    if isinstance(block, Products):
        columns = [abs(factor).T for factor in block.factors]
        return np.asarray(along_each(block.heights[None], columns), dtype=np.int64).reshape(-1)
    if block.given is None:  # Every vertex alone.
        return np.array([block.weight], dtype=np.int64)
    sums = np.zeros(block.given.shape[1], dtype=np.int64)
    np.add.at(sums, block.given.indices, abs(block.given.data))
    return sums


def joint_vertices(parts: Sequence[Partition]) -> dict[Partition, Table] | None:
    """Return the vertex of every partition that each joint vertex of one column stands for.

    Cut the column into joint pieces, of values that are in one piece of every partition.  Along
    each, partitions whose steps are equal, in parts of their units, give every record equal
    weights and share their vertices; others are combined, every vertex of one with every vertex of
    the other, and a record's weights are multiplied.  Adding up weights over all joint vertices
    with one vertex of a partition gives the record's weight on that vertex, for all of them at
    once.  Vertices on which no value of the joint piece has a weight are left out.  None if there
    are too many.
    """
    labels = np.stack([part.pieces for part in parts])
    _, first, joint = np.unique(labels, axis=1, return_index=True, return_inverse=True)
    joint = joint.reshape(-1)
    starts: list[Table] = []
    widths: list[Table] = []
    leaders: list[Table] = []
    for number, part in enumerate(parts):
        pieces = part.pieces[first]
        low, high = np.full(len(first), part.unit), np.zeros(len(first), dtype=np.int64)
        np.minimum.at(low, joint, part.steps)
        np.maximum.at(high, joint, part.steps)
        degrees = part.degrees[pieces]
        at_end, moving = low == part.unit, (high > 0) & (low < part.unit)
        starts.append(part.first_vertices[pieces] + np.where(at_end, degrees, 0))
        widths.append(np.where(moving, degrees + 1, 1))
        leader = np.full(len(first), number)
        for other in range(number - 1, -1, -1):
            shared = (widths[other] == widths[number]) & (widths[number] > 1)
            if shared.any():
                theirs = parts[other].steps.astype(object) * part.unit
                differs = np.zeros(len(first), dtype=bool)
                np.logical_or.at(
                    differs, joint, part.steps.astype(object) * parts[other].unit != theirs
                )
                leader = np.where(shared & ~differs, leaders[other], leader)
        leaders.append(leader)
    own = [np.where(leader == n, widths[n], 1) for n, leader in enumerate(leaders)]
    if np.prod(np.array(own, dtype=np.float64), axis=0).sum() > MAX_CELLS:
        return None
    counts = np.prod(own, axis=0)
    piece = np.repeat(np.arange(len(first)), counts)
    place = np.arange(len(piece)) - np.repeat(np.cumsum(counts) - counts, counts)
    digits = np.empty((len(parts), len(piece)), dtype=np.int64)
    for number, each in enumerate(own):
        place, digits[number] = np.divmod(place, each[piece])
    columns = np.arange(len(piece))
    return {
        part: starts[n][piece] + digits[leaders[n][piece], columns] for n, part in enumerate(parts)
    }


def _largest_sum(functions: Sequence[tuple[Rows, Table]]) -> int | None:
    """Return an upper bound on the largest sum of functions of different scopes; None if none."""
    columns = max((len(block.scope) for block, _ in functions), default=0)
    # A part is a sum of at most 2^columns values of each f, and at most 2^columns are added.
    if sum(int(sums.max()) for _, sums in functions) * 4**columns >= 2**62:
        return None
    used: dict[str, dict[Partition, None]] = {}
    for block, _ in functions:
        for name, part in zip(block.scope, block.parts, strict=True):
            used.setdefault(name, {})[part] = None
    total: Parts = {}
    joint = {name: joint_vertices(list(parts)) for name, parts in used.items()}
    for block, sums in functions:
        found = [(joint[n] or {}).get(p) for n, p in zip(block.scope, block.parts, strict=True)]
        places = [each for each in found if each is not None]
        if len(places) < len(found) or math.prod(map(len, places)) > MAX_CELLS:
            return None
        table = sums.reshape(block.shape)[np.ix_(*places)]
        for scope, part_of_sum in _split(table, block.scope).items():
            total[scope] = total[scope] + part_of_sum if scope in total else part_of_sum
    constant = int(total.pop((), np.zeros((), dtype=np.int64)))
    varying = {scope: part for scope, part in total.items() if part.any()}
    return constant + sum(_maxima(varying))


def _split(table: Table, scope: tuple[str, ...]) -> Parts:
    """Return the parts g_T of a function on ``scope``, one array with |T| axes per set T."""
    parts: Parts = {(): table}
    for name in scope:
        finer: Parts = {}
        for kept, part in parts.items():
            axis = len(kept)  # Columns split before this one come first.
            anchor: Table = np.asarray(part.take(0, axis=axis))
            finer[kept] = anchor
            finer[(*kept, name)] = part - np.expand_dims(anchor, axis)
        parts = finer
    return parts


def _maxima(parts: Parts) -> list[int]:
    """Return the largest value over each largest scope of the parts gathered into it."""
    largest = [scope for scope in parts if not any(set(scope) < set(other) for other in parts)]
    gathered = {scope: parts[scope] for scope in largest}
    for scope, part in parts.items():
        if scope not in gathered:
            home = next(other for other in largest if set(scope) < set(other))
            missing = tuple(axis for axis, name in enumerate(home) if name not in scope)
            gathered[home] = gathered[home] + np.expand_dims(part, missing)
    return [int(table.max()) for table in gathered.values()]
