"""The data vector: the private table as whole numbers, one per vertex of a block.

A record adds the product of its columns' weights to every vertex, in units of one over their common
denominator (see `table.partition`).  In a flat block that is 1 to one vertex: a count.  Otherwise
it is a polynomial of the record's steps, so the sums follow from moments: for a group of records
whose pieces have degrees d, with D the degree and u the unit of the partition,

    sum over records of  C(d, k) s^k (u - s)^(d - k) u^(D - d)      at vertex k of the piece

is a combination, in whole numbers, of the sums of 1, s and s^2; likewise for several columns.

One statement (see `engines.counting`) serves every block of a release in one scan of the table.  A
scope that is part of another, or of a batch (see `scope_batches`), is not counted by itself: groups
are added up here.  Only groups with records come back from the engine, and stay a list of them
until they are measured.

Guarantee  Adding or removing one record that is counted changes the vertices of every block by
           weights that are not negative and sum to the block's units.  Adding or removing
           one unit changes whether at most ``domain.records_per_unit`` records are counted, all of
           them its own.
Requires   Catalogue checked against the domain; partitions that `checked_blocks` let through.
Numerics   Exact: Python's integers, and 64-bit counts.  At the very end, sums may be divided and
           rounded down (see `blocks`), and are held below 2^62, which moves no two further apart.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sqlmadp.private.blocks import MAX_ANSWER
from sqlmadp.private.engines import Engine
from sqlmadp.private.engines.counting import Groups, Integers, Whole, count_groups
from sqlmadp.private.engines.scope_batches import Keys, Moment, batch_scopes, keys_of, moments_of
from sqlmadp.table.domain import Domain
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows

Sums = NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class VertexSums:
    """The data vector of one block: those of its vertices that have records.  Private."""

    size: int
    """The number of vertices of the block."""
    vertices: Integers
    """Numbers of vertices, each once."""
    sums: Integers | Whole

    def dense(self, coarseness: int = 1) -> Sums:
        """Return the sum at every vertex, divided by ``coarseness`` and rounded down."""
        sums = np.zeros(self.size, dtype=np.int64)
        sums[self.vertices] = np.minimum(self.sums // coarseness, MAX_ANSWER).astype(np.int64)
        return sums


def read_counts(engine: Engine, domain: Domain, blocks: Sequence[Rows]) -> list[Sums]:
    """Return the data vector of every block, vertex by vertex.  Private."""
    return [found.dense() for found in read_sums(engine, domain, blocks)]


def read_sums(engine: Engine, domain: Domain, blocks: Sequence[Rows]) -> list[VertexSums]:
    """Return the data vector of every block, for vertices with records alone.  Private."""
    keys = [keys_of(block, domain) for block in blocks]
    counted = batch_scopes(set(keys))
    scopes = sorted(set(counted.values()), key=lambda scope: [key.name for key in scope])
    moments = list(dict.fromkeys(m for own in keys for m in moments_of(own) if m))
    groups = count_groups(engine, domain, scopes, moments)
    return [
        _at_vertices(block, own, groups[counted[own]])
        for block, own in zip(blocks, keys, strict=True)
    ]


def _at_vertices(block: Rows, keys: Keys, groups: Groups) -> VertexSums:
    """Return the sums at the vertices of a block, from groups that are as fine or finer."""
    inside = np.ones(len(groups.moments[()]), dtype=bool)
    for key in keys:
        inside &= (groups.codes[key] >= 0) & (groups.codes[key] < key.size)
    moments = {moment: sums[inside] for moment, sums in groups.moments.items()}
    strides = [math.prod(block.shape[axis + 1 :]) for axis in range(len(keys))]
    steps: list[Integers | None] = []
    pieces: list[Integers] = []
    place = np.zeros(int(inside.sum()), dtype=np.int64)
    for key, part, stride in zip(keys, block.parts, strides, strict=True):
        code = groups.codes[key][inside]
        pieces.append(code if key.part is not None else part.pieces[code])
        steps.append(None if key.part is not None else part.steps[code])
        place += part.first_vertices[pieces[-1]] * stride
    if all(part.is_flat for part in block.parts):
        return _added(block.size, [place], [moments[()]])
    powers = [range(part.degree + 1) for part in block.parts]
    table = {chosen: _moment(keys, steps, moments, chosen) for chosen in itertools.product(*powers)}
    for axis, part in enumerate(block.parts):
        table = _along(table, axis, part, pieces[axis])
    places = [
        place + sum(k * own for k, own in zip(chosen, strides, strict=True)) for chosen in table
    ]
    return _added(block.size, places, list(table.values()))


def _moment(
    keys: Keys,
    steps: Sequence[Integers | None],
    moments: Mapping[Moment, Integers | Whole],
    powers: Sequence[int],
) -> Whole:
    """Return the sum, in every group, of a product of powers of the steps of all columns.

    The engine summed those of keys by pieces; in a group by values all records have the same.
    """
    chosen = list(zip(keys, steps, powers, strict=True))
    engines = tuple((key, power) for key, own, power in chosen if own is None and power)
    found: Whole = moments[engines].astype(object)
    for _, own, power in chosen:
        if own is not None and power:
            found = found * own.astype(object) ** power
    return found


def _along(
    table: Mapping[tuple[int, ...], Whole], axis: int, part: Partition, pieces: Integers
) -> dict[tuple[int, ...], Whole]:
    """Return sums at the vertices of one column in place of sums of powers of its steps."""
    degree = part.degree
    if degree == 0:
        return dict(table)
    own = part.degrees[pieces]
    coefficients = np.array([_bernstein(each, degree, part.unit) for each in range(degree + 1)])
    found: dict[tuple[int, ...], Whole] = {}
    for place, sums in table.items():
        for vertex in range(degree + 1):
            target = (*place[:axis], vertex, *place[axis + 1 :])
            term = coefficients[own, vertex, place[axis]] * sums
            found[target] = found[target] + term if target in found else term
    return found


def _bernstein(degree: int, highest: int, unit: int) -> Whole:
    """Return the powers of s in ``C(d, k) s^k (u - s)^(d - k) u^(D - d)``, one row per k."""
    rows = np.zeros((highest + 1, highest + 1), dtype=object)
    for vertex in range(degree + 1):
        for more in range(degree - vertex + 1):
            sign = -1 if more % 2 else 1
            ways = math.comb(degree, vertex) * math.comb(degree - vertex, more)
            rows[vertex, vertex + more] = sign * ways * unit ** (highest - vertex - more)
    return rows


def _added(size: int, places: Sequence[Integers], sums: Sequence[Integers | Whole]) -> VertexSums:
    """Return sums by vertex, those of one vertex added up; beyond a piece's vertices all are 0."""
    every = np.concatenate(sums)
    some = np.flatnonzero(every)
    vertices, inverse = np.unique(np.concatenate(places)[some], return_inverse=True)
    totals = np.zeros(len(vertices), dtype=every.dtype)
    np.add.at(totals, inverse.reshape(-1), every[some])
    return VertexSums(size=size, vertices=vertices, sums=totals)
