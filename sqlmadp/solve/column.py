"""The basis of one column's functions: the constant, a coarse basis, and the fine residual.

All functions of a column that are in use are known over the vertices of one common partition, the
finest.  One partition in use, the *main* one with m vertices, has the fine residual: the finest
itself, or else one that is much larger than all others together, such as the ranges of a quantile
beside sums.  Every function f has an *interpolant* I f, the function of the main partition with
the same coefficients at its vertices, and a *remainder* f - I f.  The inner product is

    <f, g>  =  (I f) . (I g) / m  +  (f - I f) . (g - I g) / K,

over the m vertices of the main partition and the K vertices of the finest.  So the constant has
length 1, and a column outside a scope drops out of every formula; and the functions of the
main partition's vertices are orthogonal and of equal length.

The coarse basis spans the interpolants of all other partitions' functions, coarse partitions before
fine ones, and then their remainders.  What only the main partition tells apart, the *fine
residual*, is orthogonal to all of them.  It is never written out: it is usable where every
strategy is a multiple of the identity on it.  Exceptional vertices, which some strategy treats
unlike all others, belong to the coarse basis one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import sparse
from scipy.linalg import qr

from sqlmadp.table.partition import Partition, common, sampled
from sqlmadp.table.rows import Exceptions
from sqlmadp.table.runs import Floats, Integers

NEGLIGIBLE = 1e-9
"""Take a coordinate to be zero below this part of a function's length: it is rounding, and would
be taken for a measured direction of its own."""

MANY_EXCEPTIONS = 2
"""Write out all functions of a column if more than one vertex in this many is exceptional."""

KEPT_COLUMNS = 256
"""Keep the bases of this many columns: commands solve for the same ones many times over."""


class Column:
    """The basis of the functions that a set of partitions of one column spans."""

    def __init__(self, parts: Iterable[Partition], exceptions: Exceptions = ()) -> None:
        """``exceptions``: vertices of the main partition that a strategy treats unlike others."""
        distinct = sorted(set(parts), key=lambda part: (part.size, part.key))
        self._known = frozenset(distinct)
        some = _at_some_values(distinct)
        self._sampled = some is not None
        self.finest = common(distinct) if some is None else some
        self.main = main_partition(distinct) if some is None else some
        few = len(exceptions) * MANY_EXCEPTIONS <= self.main.size
        whole = few and self.main in distinct
        if not whole:
            self.main = self.finest
        self.count = self.main.size
        """The number of vertices of the main partition."""
        coarse = [part for part in distinct if not (whole and part == self.main)]
        basis = np.ones((1, self.count))
        for part in coarse:  # Level by level: nested partitions share the first vectors.
            basis = _extended(basis, part.over(self.main).toarray())
        if whole and exceptions:
            alone = np.zeros((len(exceptions), self.count))
            alone[np.arange(len(exceptions)), list(exceptions)] = 1
            basis = _extended(basis, alone)
        self.interpolants = basis
        """The basis over the vertices of the main partition."""
        self._remainders = np.zeros((0, self.finest.size))
        for part in coarse if self.main != self.finest else []:
            self._remainders = _extended(self._remainders, self._remainder(part).toarray())
        self.dimensions = len(basis) + len(self._remainders)
        """How many functions the coarse basis has, remainders included."""
        self.fine = self.count - len(basis) if whole else 0
        """Dimensions of the fine residual; 0 if it is written out."""
        self._coordinates: dict[Partition, Coordinates] = {}
        self._missed: dict[Partition, sparse.csr_array | None] = {}

    def _remainder(self, part: Partition) -> sparse.csr_array:
        """Return functions less their interpolants, over the finest vertices."""
        interpolants = part.over(self.main) @ self.main.over(self.finest)
        return sparse.csr_array(part.over(self.finest) - interpolants)

    def missed(self, part: Partition) -> sparse.csr_array | None:
        """Return the part of a partition's functions outside the known ones; None if it vanishes.

        A combination of functions is known if nothing is left of it here.
        """
        if part not in self._missed:
            known = part in self._known or (not self._sampled and self.main.refines(part))
            self._missed[part] = None if known else self._left_of(part)
        return self._missed[part]

    def _left_of(self, part: Partition) -> sparse.csr_array | None:
        parts = []
        if self._sampled:
            left = part.over(self.main).toarray()
            along = left @ self.interpolants.T / self.count
            parts.append(sparse.csr_array(left - along @ self.interpolants))
        elif not self.finest.refines(part):
            parts.append(self.finest.missed_of(part))
        if self.main != self.finest:
            left = self._remainder(part).toarray()
            along = left @ self._remainders.T / self.finest.size
            parts.append(sparse.csr_array(left - along @ self._remainders))
        found = sparse.csr_array(sparse.hstack(parts)) if parts else sparse.csr_array((0, 0))
        found.data[np.abs(found.data) < NEGLIGIBLE] = 0
        found.eliminate_zeros()
        return found if found.nnz else None

    def coordinates(self, part: Partition) -> Coordinates:
        """Return where the functions of a partition lie."""
        if part not in self._coordinates:
            self._coordinates[part] = self._worked_out(part)
        return self._coordinates[part]

    def _worked_out(self, part: Partition) -> Coordinates:
        if part == self.main:
            lift, coarse = None, self.interpolants.T / self.count
            lengths = np.full(self.count, 1 / self.count)
        else:
            lift = part.over(self.main)
            coarse = np.asarray(lift @ self.interpolants.T) / self.count
            lengths = np.asarray((lift**2).sum(axis=1)).reshape(-1) / self.count
        fine = np.maximum(lengths - (coarse**2).sum(axis=1), 0.0)
        if len(self._remainders):
            remainder = self._remainder(part)
            along = np.asarray(remainder @ self._remainders.T) / self.finest.size
            coarse = np.hstack([coarse, along])
            lengths = (
                lengths + np.asarray((remainder**2).sum(axis=1)).reshape(-1) / self.finest.size
            )
        fine[fine < NEGLIGIBLE * lengths] = 0
        small = NEGLIGIBLE * np.sqrt(lengths)[:, None]
        used = np.flatnonzero((np.abs(coarse) > small).any(axis=0))
        return Coordinates(coarse[:, used], used, fine, lift)

    def fine_part(self, tensor: Floats, axis: int, part: Partition) -> Floats:
        """Return functions of a partition, along one axis, in the fine residual.

        It is written as coefficients of all main vertices that are orthogonal to the basis.
        """
        moved, lift = np.moveaxis(tensor, axis, -1), self.coordinates(part).lift
        if lift is not None:
            moved = (moved.reshape(-1, moved.shape[-1]) @ lift).reshape(*moved.shape[:-1], -1)
        return np.moveaxis(self._projected(moved), -1, axis) / math.sqrt(self.count)

    def from_fine(self, tensor: Floats, axis: int, part: Partition) -> Floats:
        """Return the functions of a partition applied to the fine residual: the transpose."""
        moved, lift = self._projected(np.moveaxis(tensor, axis, -1)), self.coordinates(part).lift
        if lift is not None:
            moved = (moved.reshape(-1, moved.shape[-1]) @ lift.T).reshape(*moved.shape[:-1], -1)
        return np.moveaxis(moved, -1, axis) / math.sqrt(self.count)

    def _projected(self, rows: Floats) -> Floats:
        basis = self.interpolants
        return np.asarray(rows - (rows @ basis.T / self.count) @ basis)


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The functions of one partition of a column in its basis."""

    coarse: Floats
    """Their coordinates in the basis vectors that they use: one row per vertex."""
    used: Integers
    """The numbers of these basis vectors."""
    fine: Floats
    """The squared length of every vertex's part in the fine residual."""
    lift: sparse.csr_array | None
    """Their interpolants, over the main partition's vertices; None for the main one itself."""

    @property
    def holds_fine(self) -> bool:
        """Whether a function has a part in the fine residual."""
        return bool(self.fine.any())


def main_partition(parts: Sequence[Partition]) -> Partition:
    """Return the partition with the fine residual; the finest common one if none of these has it.

    One is worth it if it is larger than what the others add to the basis: at most two functions for
    each of theirs.
    """
    finest = common(sorted(parts, key=lambda part: (part.size, part.key)))
    largest = max(parts, key=lambda part: (part.size, part.key))
    others = sum(part.size for part in parts if part != largest)
    return finest if finest in parts or 2 * others > largest.size else largest


def _at_some_values(parts: Sequence[Partition]) -> Partition | None:
    """Return a few values as vertices, where they tell as much as the finest partition does.

    Functions that are curved along a wide column have no common vertices but its values.  Unless
    one partition tells everything apart there is no fine residual, and any values will do at which
    functions that differ do so.
    """
    if len(parts) < 2 or not any(part.is_curved for part in parts):
        return None
    *others, last = parts
    return None if all(last.refines(part) for part in others) else sampled(parts)


@lru_cache(maxsize=KEPT_COLUMNS)
def column_of(parts: frozenset[Partition], exceptions: Exceptions = ()) -> Column:
    """Return the basis of a column; equal ones are worked out once."""
    return Column(parts, exceptions)


def _extended(basis: Floats, functions: Floats) -> Floats:
    """Return an orthonormal basis of the span of both, its first vectors kept."""
    count = basis.shape[1]
    left = functions
    for _ in range(2):  # Once more, for what rounding left.
        left = left - (left @ basis.T / count) @ basis
    q, r, _ = qr(left.T, mode="economic", pivoting=True)
    # Functions of length about 1 under the inner product are as long as sqrt(count) here.
    least = NEGLIGIBLE * math.sqrt(count) * max(1.0, float(np.abs(functions).max()))
    rank = int((np.abs(np.diag(r)) > least).sum())
    new = q[:, :rank].T
    new = new - (new @ basis.T / count) @ basis  # What was short is orthogonal again.
    return np.vstack([basis, new * math.sqrt(count)])
