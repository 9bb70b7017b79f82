"""Variances of rows of few vertices, without their parts in fine residuals being written out.

A row that counts one of ten thousand groups lies in the fine residual of its column with all ten
thousand coefficients, though it has one vertex.  With P = I - Q the projection onto the fine
residual, Q that onto the written-out basis, and t a function of the columns F by coordinate,

    |(P_1 x ... x P_f) t|^2 = sum over subsets S of F of  (-1)^|S|  |(x_{c in S} Q_c) t|^2,

and every term has few coefficients: those of the row itself, in columns outside S, and those of the
basis, in columns inside.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from scipy import sparse

from sqlmadp.solve.residual import Residuals
from sqlmadp.table.rows import Rows, Scope
from sqlmadp.table.runs import Floats, Integers

Half = Callable[[Scope, Integers, Floats], tuple[Floats, Floats]]
"""Rows of a space over independent noises, and the squares of what was not measured of them."""


@dataclass(frozen=True, eq=False)
class Squares:
    """By row: its variance, its square, and the square of its part that was not measured."""

    variances: Floats
    lengths: Floats
    outside: Floats


def width(spaces: Residuals, rows: Rows) -> int:
    """Return how many numbers one vertex takes at most."""
    return math.prod(spaces.known(column).dimensions for column in rows.scope)


def squares(spaces: Residuals, parts: Sequence[Rows], half: Half) -> Squares:
    """Return the squares of sums of functions, one function per row of each part.

    The parts are over partitions whose functions are known (`Residuals.resolved`).
    """
    found = np.zeros((3, parts[0].count))
    parts = [rows for rows in parts if rows.entries]
    sets = [set(spaces.fine_sets(rows)) for rows in parts]
    for fine in sorted(set().union(*sets)):
        inside = [
            _lifted(spaces, rows, fine)
            for rows, own in zip(parts, sets, strict=True)
            if fine in own
        ]
        for count in range(len(fine) + 1):
            for along in itertools.combinations(fine, count):
                found += (-1) ** count * _term(spaces, inside, fine, along, half)
    return Squares(*found)


def _lifted(spaces: Residuals, rows: Rows, fine: Scope) -> Rows:
    """Return rows over the main partitions of some columns: their interpolants."""
    parts, factors = list(rows.parts), []
    for axis, (column, part) in enumerate(zip(rows.scope, rows.parts, strict=True)):
        lift = spaces.columns[column].coordinates(part).lift if column in fine else None
        if lift is not None:
            parts[axis] = spaces.columns[column].main
        factors.append(sparse.eye_array(part.size) if lift is None else lift)
    lifting = sparse.csr_array(reduce(sparse.kron, factors, sparse.eye_array(1)))
    return Rows(rows.scope, tuple(parts), 0, sparse.csr_array(rows.matrix @ lifting))


def _term(
    spaces: Residuals, parts: Sequence[Rows], fine: Scope, along_basis: Scope, half: Half
) -> Floats:
    """Return one term of the sum over subsets: variances, squares and unmeasured squares."""
    places = [spaces.place(rows, fine) for rows in parts]
    scattered = [_scattered(spaces, rows, fine, along_basis) for rows in parts]
    keys, inverse = np.unique(np.concatenate([keys for keys, _ in scattered]), return_inverse=True)
    numbers = np.split(inverse.reshape(-1), np.cumsum([len(keys) for keys, _ in scattered])[:-1])
    used = np.unique(np.concatenate([place[place >= 0] for place in places]))
    copies = scattered[0][1].shape[1]
    total = np.zeros((len(keys), copies, len(used)))
    missed = np.zeros(len(keys))
    for place, own, (_, values) in zip(places, numbers, scattered, strict=True):
        gather = sparse.csr_array(
            (np.ones(len(own)), (own, np.arange(len(own)))), shape=(len(keys), len(own))
        )
        summed = np.asarray(gather @ values.reshape(len(own), -1)).reshape(len(keys), copies, -1)
        known = place >= 0
        missed += (summed[:, :, ~known] ** 2).sum(axis=(1, 2))
        total[:, :, np.searchsorted(used, place[known])] += summed[:, :, known]
    noise, outside = half(fine, used, total.reshape(len(keys) * copies, len(used)))
    rows = keys // math.prod(spaces.columns[c].count for c in fine if c not in along_basis)
    sums = (noise**2).sum(axis=1), (total**2).sum(axis=2).reshape(-1), outside
    each = [own.reshape(len(keys), copies).sum(axis=1) for own in sums]
    count = parts[0].count
    return np.array(
        [
            np.bincount(rows, own, minlength=count)
            for own in (each[0], each[1] + missed, each[2] + missed)
        ]
    )


def _scattered(
    spaces: Residuals, rows: Rows, fine: Scope, along_basis: Scope
) -> tuple[Integers, Floats]:
    """Return every entry of the rows: where it lies, and its coordinates there.

    Where it lies is its row and its vertices in the fine columns; coordinates have one axis for
    those columns that are taken along the basis, and one for the coarse ones.
    """
    entries = sparse.coo_array(rows.matrix)
    keys, vertices = (each.astype(np.int64) for each in entries.coords)
    values = entries.data.astype(np.float64)
    along, coarse = np.ones((len(keys), 1)), np.ones((len(keys), 1))
    at = np.unravel_index(vertices, rows.shape) if rows.shape else ()
    for column, part, vertex in zip(rows.scope, rows.parts, at, strict=True):
        known = spaces.columns[column]
        if column not in fine:
            coarse = _outer(coarse, known.coordinates(part).coarse[vertex])
        elif column in along_basis:
            along = _outer(along, known.interpolants.T[vertex] / known.count)
        else:
            keys = keys * known.count + vertex
            values = values / math.sqrt(known.count)
    return keys, values[:, None, None] * along[:, :, None] * coarse[:, None, :]


def _outer(one: Floats, two: Floats) -> Floats:
    return np.asarray((one[:, :, None] * two[:, None, :]).reshape(len(one), -1))
