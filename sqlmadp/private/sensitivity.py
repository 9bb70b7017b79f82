"""Sensitivity: how far one privacy unit can move the exact answers of all blocks together.

A record's weights on the vertices of a block are not negative and sum to 1, whatever its values
are.  So it moves the answers of the block's matrix M by a convex combination of columns of M and,
since the L1 norm is convex, by no more than the same combination of the columns' sums of absolute
values, signed entries and ramps included.  With f_b(record) that combination,

    sensitivity  =  records  *  max over records of  sum_b f_b(record)

for as many records as are in one of two neighbouring tables only: those of a unit, or of two
where neighbours have one unit replaced by another.

Where all columns of a block have one sum, f_b is that number.  Of the other blocks, those with
longer pieces, or whose sums are rounded, count with their largest column.  What is left are
functions of cells, too many to try them all.  Each f_b depends on its scope's columns only, so it
is split into one part per set T of columns, by inclusion and exclusion from cell 0:

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

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sqlmadp.errors import StrategyError
from sqlmadp.private.blocks import MAX_CELLS, coarseness
from sqlmadp.schema.domain import Domain
from sqlmadp.schema.marginal import Marginal, Partition, cell_map
from sqlmadp.table.products import Products, along_each
from sqlmadp.table.rows import Rows

Table = NDArray[np.int64]
Parts = dict[tuple[str, ...], Table]


def l1_sensitivity(blocks: Sequence[Rows], domain: Domain) -> int:
    """Return how far one unit can move the answers of all ``blocks``, in L1 norm."""
    records = domain.records_between_neighbours
    if not isinstance(records, int) or records < 1:
        raise StrategyError("a privacy unit owns a whole number of records, at least one")
    apart, separate = 0, 0
    varying: list[tuple[Marginal, Table]] = []
    for block in blocks:
        sums = column_sums(block)
        largest = int(sums.max(initial=0))
        separate += largest
        uniform = bool((sums == sums[0]).all())
        flat = all(part.is_flat for part in block.parts) and coarseness(block) == 1
        if uniform or not flat:
            apart += largest
        else:
            labels = tuple(Partition(part.pieces) for part in block.parts)
            varying.append((Marginal(block.scope, labels), sums))
    return min(apart + _largest_sum(varying), separate) * records


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


def _largest_sum(functions: Sequence[tuple[Marginal, Table]]) -> int:
    """Return an upper bound on the largest value of a sum of functions of different scopes."""
    columns = max((len(marginal.scope) for marginal, _ in functions), default=0)
    # A part is a sum of at most 2^columns values of each f, and at most 2^columns are added.
    if sum(int(sums.max()) for _, sums in functions) * 4**columns >= 2**62:
        raise StrategyError("the strategy's numbers are too large to work out its sensitivity")
    finest = _refinements([marginal for marginal, _ in functions])
    total: Parts = {}
    for marginal, sums in functions:
        for scope, part in _split(_refined(marginal, sums, finest), marginal.scope).items():
            total[scope] = total[scope] + part if scope in total else part
    constant = int(total.pop((), np.zeros((), dtype=np.int64)))
    varying = {scope: part for scope, part in total.items() if part.any()}
    return constant + sum(_maxima(varying))


def _refinements(marginals: Sequence[Marginal]) -> dict[str, Partition]:
    finest: dict[str, Partition] = {}
    for marginal in marginals:
        for name, partition in zip(marginal.scope, marginal.partitions, strict=True):
            finest[name] = finest[name].refine(partition) if name in finest else partition
    return finest


def _refined(marginal: Marginal, sums: Table, finest: Mapping[str, Partition]) -> Table:
    fine = Marginal(marginal.scope, tuple(finest[name] for name in marginal.scope))
    if fine.size > MAX_CELLS:
        raise StrategyError(
            f"the sensitivity over {marginal.scope} would need {fine.size} cells; "
            "give every column of its blocks the same sum, or use smaller scopes"
        )
    return sums[cell_map(marginal, fine)].reshape(fine.shape)


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
