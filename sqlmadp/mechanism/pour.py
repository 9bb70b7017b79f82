"""Pouring: rows that point the same way become one bucket, measured once with all their weight.

A bucket is a direction: a row in lowest terms.  It has one name whatever vertices it is written
over, so rows meet though their owners' partitions differ, unless these have ramps.  Which bucket a
row goes to depends on its owner's strategy alone.  So with d_r the directions, s_i the shares and
a_ir the weights,

    X(C) = sum_r (sum over i in C of s_i a_ir)^2 d_r d_r^T

grows with the collective C while the sensitivity, the sum of the shares, does not depend on who
shares a bucket: whoever joins takes nothing from anybody.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache, reduce

import numpy as np
from scipy import sparse

from sqlmadp.strategy.integers import Strategy
from sqlmadp.table.partition import Partition, common
from sqlmadp.table.products import Products
from sqlmadp.table.rows import Rows, Scope
from sqlmadp.table.runs import Integers

PLAIN_VERTICES = 512
"""Blocks that measure more vertices than this, each alone and all alike, have buckets of their own:
meeting other partitions' rows there would make the vertices differ, and large matrices of them."""

NAMED_CELLS = 2**22
"""Look for parallel rows of other partitions over at most this many cells."""


@dataclass(eq=False)
class _Buckets:
    """The buckets over one layout: the height of every vertex, and of every other direction."""

    scope: Scope
    parts: tuple[Partition, ...]
    plain: int = 0
    """The height of every vertex alone, in blocks that keep to themselves."""
    own: Integers | None = None
    across: dict[bytes, tuple[int, sparse.csr_array]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return math.prod(part.size for part in self.parts)

    def add(self, block: Rows, factor: int) -> None:
        """Pour a block's rows, multiplied by a factor."""
        if block.plain and block.size > PLAIN_VERTICES:
            self.plain += int(block.weight) * factor
            return
        if self.own is None:
            self.own = np.zeros(self.size, dtype=np.int64)
        if block.plain:
            self.own += int(block.weight) * factor
            return
        matrix = block.matrix
        lengths = np.diff(matrix.indptr)
        single = matrix[lengths == 1]
        np.add.at(self.own, single.indices, single.data.astype(np.int64) * factor)
        for number in np.flatnonzero(lengths > 1):
            row = matrix[[number]]
            height = int(np.gcd.reduce(np.abs(row.data)))
            sign = 1 if row.data[0] > 0 else -1  # A row and its negative are the same question.
            lowest = row.data.astype(np.int64) // (height * sign)
            direction = sparse.csr_array((lowest, row.indices, row.indptr), shape=row.shape)
            key = row.indices.astype(np.int64).tobytes() + lowest.tobytes()
            before = self.across[key][0] if key in self.across else 0
            self.across[key] = before + height * factor, direction

    def rows(self) -> list[Rows]:
        """Return the buckets as blocks of integers."""
        found = []
        if self.plain:
            found.append(Rows(self.scope, self.parts, self.plain))
        if self.own is not None and (self.own.any() or self.across):
            rows = [height * row for height, row in self.across.values()]
            none = sparse.csr_array((0, self.size), dtype=np.int64)
            across = sparse.csr_array(sparse.vstack(rows)) if rows else none
            found.append(Rows.of_weights(self.scope, self.parts, self.own, across))
        return found


def pour(strategies: Sequence[Strategy], factors: Sequence[int]) -> list[Rows]:
    """Return everyone's rows, each multiplied by its owner's factor, poured into buckets."""
    layouts: dict[object, _Buckets] = {}
    grids: dict[object, list[tuple[Products, int]]] = {}
    factored = {b.scope for s in strategies for b in s.blocks if isinstance(b, Products)}
    for strategy, factor in zip(strategies, factors, strict=True):
        for block in strategy.blocks:
            grid = as_grid(block) if block.scope in factored else None
            if grid is not None:
                flat = all(part.is_flat for part in block.parts)
                key = block.scope if flat else block.layout
                grids.setdefault(key, []).append((grid, factor))
                continue
            if block.layout not in layouts:
                layouts[block.layout] = _Buckets(block.scope, block.parts)
            layouts[block.layout].add(block, factor)
    scopes: dict[Scope, list[_Buckets]] = {}
    for buckets in layouts.values():
        scopes.setdefault(buckets.scope, []).append(buckets)
    for several in scopes.values():
        # Rows that meet have other divisors, and those along ramps must stay short.
        meeting = [each for each in several if all(part.is_flat for part in each.parts)]
        if len(meeting) > 1:
            _meet(meeting)
    poured = [rows for several in scopes.values() for each in several for rows in each.rows()]
    return [*(pour_products(own) for own in grids.values()), *poured]


def as_grid(block: Rows) -> Products | None:
    """Return products, or every vertex alone, as a grid; None for other rows."""
    if isinstance(block, Products):
        return block
    if not block.plain:
        return None
    factors = tuple(sparse.eye_array(size, format="csr", dtype=np.int64) for size in block.shape)
    heights = np.full(block.shape, int(block.weight), dtype=np.int64)
    return Products(block.scope, block.parts, 0, None, factors, heights)


def pour_products(grids: Sequence[tuple[Products, int]]) -> Products:
    """Add up parallel rows of grids of one scope, each multiplied by its owner's factor.

    Products are parallel just when their functions are, column by column.  Over dictionaries of
    every column's directions each grid is a table of heights, and the tables add up.
    """
    blocks, factors = [grid for grid, _ in grids], [factor for _, factor in grids]
    first = blocks[0]
    parts = [
        common(sorted({b.parts[axis] for b in blocks}, key=lambda p: p.key))
        for axis in range(len(first.scope))
    ]
    lifted = [block.over(first.scope, parts) for block in blocks]
    directions: list[sparse.csr_array] = []
    places: list[list[Integers]] = [[] for _ in blocks]
    multiples: list[list[Integers]] = [[] for _ in blocks]
    for axis in range(len(parts)):
        names: dict[bytes, int] = {}
        rows: list[Integers] = []
        for number, block in enumerate(lifted):
            dense = np.rint(block.factors[axis].toarray()).astype(np.int64)
            heights = np.gcd.reduce(np.abs(dense), axis=1)
            lowest = dense // heights[:, None]
            own = [names.setdefault(row.tobytes(), len(names)) for row in lowest]
            first_places = np.unique(own, return_index=True)[1]
            rows += [lowest[place] for place in first_places if own[place] >= len(rows)]
            places[number].append(np.array(own))
            multiples[number].append(heights)
        directions.append(sparse.csr_array(np.array(rows)))
    table = np.zeros([d.shape[0] for d in directions], dtype=np.int64)
    for block, factor, at, times in zip(lifted, factors, places, multiples, strict=True):
        poured = block.heights * reduce(np.multiply.outer, times) * factor
        np.add.at(table, np.ix_(*at), poured)
    return Products(first.scope, tuple(parts), 0, None, tuple(directions), table)


def _meet(several: Sequence[_Buckets]) -> None:
    """Add up rows of one scope that are the same function, written over other vertices."""
    vertices: dict[Hashable, tuple[Integers, int]] = {}
    rows: dict[Hashable, tuple[_Buckets, bytes]] = {}
    for each in several:
        if each.own is None:
            continue
        for vertex in np.flatnonzero(each.own).tolist():
            home, place = vertices.setdefault(_vertex_name(each, vertex), (each.own, vertex))
            if home is not each.own:
                home[place] += each.own[vertex]
                each.own[vertex] = 0
    for each in several:
        for key, (height, row) in list(each.across.items()):
            name = _row_name(each, row)
            if name in vertices:
                home, place = vertices[name]
                home[place] += height
                del each.across[key]
                continue
            other, there = rows.setdefault(name, (each, key))
            if other is not each:
                known, direction = other.across[there]
                other.across[there] = known + height, direction
                del each.across[key]


def _vertex_name(buckets: _Buckets, vertex: int) -> Hashable:
    """Return a name of a vertex's function of the values, equal just for equal functions."""
    shape = tuple(part.size for part in buckets.parts)
    places = np.unravel_index(vertex, shape) if shape else ()
    factors = [
        function_names(part)[int(place)] for part, place in zip(buckets.parts, places, strict=True)
    ]
    return _product_name(factors)


def _row_name(buckets: _Buckets, row: sparse.csr_array) -> Hashable:
    """Return a name of a row's function of the values, equal just for equal functions."""
    shape = tuple(part.size for part in buckets.parts)
    tensor = row.toarray().reshape(shape)
    top = np.unravel_index(int(np.argmax(np.abs(tensor))), shape)
    slices = [tensor[(*top[:a], slice(None), *top[a + 1 :])] for a in range(tensor.ndim)]
    peak = int(tensor[top])
    if _is_product(tensor, slices, peak):
        factors = [
            _name(own @ part.numerators, part.denominator)
            for own, part in zip(slices, buckets.parts, strict=True)
        ]
        return _product_name(factors, Fraction(1, peak ** (tensor.ndim - 1)))
    if math.prod(len(part.pieces) for part in buckets.parts) > NAMED_CELLS:
        keys = tuple(part.key for part in buckets.parts)
        return "vertices", keys, row.indices.tobytes(), row.data.tobytes()
    cells = tensor
    for axis, part in enumerate(buckets.parts):
        moved = np.moveaxis(cells, axis, -1)
        lifted = (moved.reshape(-1, moved.shape[-1]) @ part.numerators).reshape(
            *moved.shape[:-1], -1
        )
        cells = np.moveaxis(lifted, -1, axis)
    units = math.prod(part.denominator for part in buckets.parts)
    return "cells", _name(np.ascontiguousarray(cells).reshape(-1), units)


def _is_product(tensor: Integers, slices: Sequence[Integers], peak: int) -> bool:
    """Return whether a tensor is the outer product of its slices through one entry."""
    if tensor.ndim == 1:
        return True
    product = np.ones((), dtype=object)
    for own in slices:
        product = np.multiply.outer(product, own.astype(object))
    return bool((product == tensor.astype(object) * peak ** (tensor.ndim - 1)).all())


Name = tuple[bytes, Fraction]
"""A digest of a function in lowest terms, and the multiple of it."""


def _product_name(factors: Sequence[Name], times: Fraction = Fraction(1)) -> Hashable:
    return tuple(name for name, _ in factors), math.prod((h for _, h in factors), start=times)


def _name(values: Integers, units: int) -> Name:
    """Return the name of a function, given whole numbers at its values in parts of ``units``."""
    height = int(np.gcd.reduce(np.abs(values))) or 1
    places = np.flatnonzero(values)
    text = places.astype(np.int64).tobytes() + (values[places] // height).tobytes()
    return hashlib.sha256(text).digest(), Fraction(height, units)


@lru_cache(maxsize=512)
def function_names(part: Partition) -> list[Name]:
    """Return a name of every vertex's function."""
    numerators = part.numerators
    dense = np.zeros(len(part.pieces), dtype=np.int64)
    found = []
    for vertex in range(part.size):
        row = slice(numerators.indptr[vertex], numerators.indptr[vertex + 1])
        dense[numerators.indices[row]] = numerators.data[row]
        found.append(_name(dense, part.denominator))
        dense[numerators.indices[row]] = 0
    return found
