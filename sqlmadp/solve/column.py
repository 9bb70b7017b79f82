"""The basis of one column's functions: the constant, a coarse basis, and the fine residual.

All functions of a column that are in use are known over the vertices of one common partition, the
finest; K is their number.  One partition in use, the *main* one, has the fine residual: the finest
itself, or else a flat one that is much larger than all others together, such as the ranges of a
quantile beside sums.  The inner product is ``<f, g> = sum_v mu_v f_v g_v``: every piece of the
main partition weighs the same, 1/m for m pieces, and its vertices share that evenly.  So the
constant has length 1, and a column outside a scope drops out of every formula; and functions of
the main partition are orthogonal and of equal length.  Coefficients are multiplied by
``sqrt(K mu_v)`` here, so that products are plain ones, divided by K.

With P the projection onto the functions of the main partition, the coarse basis spans every
function g of the other ones in two parts, P g and g - P g, coarse partitions before fine ones.
What only the main partition tells apart, the *fine residual*, is orthogonal to all of them.  It
is never written out: it is usable where every strategy is a multiple of the identity on it.
Exceptional vertices, which some strategy treats unlike all others, belong to the coarse basis
one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import sparse
from scipy.linalg import qr

from sqlmadp.table.partition import Floats, Integers, Partition, common
from sqlmadp.table.rows import Exceptions

NEGLIGIBLE = 1e-9
"""Take a coordinate to be zero below this, relative to functions of length about 1."""

MANY_EXCEPTIONS = 2
"""Write out all functions of a column if more than one vertex in this many is exceptional."""

KEPT_COLUMNS = 256
"""Keep the bases of this many columns: commands solve for the same ones many times over."""


class Column:
    """The basis of the functions that a set of partitions of one column spans."""

    def __init__(self, parts: Iterable[Partition], exceptions: Exceptions = ()) -> None:
        """``exceptions``: vertices of the main partition that a strategy treats unlike others."""
        distinct = sorted(set(parts), key=lambda part: (part.size, part.key))
        self.finest = common(distinct)
        self.main = main_partition(distinct)
        few = len(exceptions) * MANY_EXCEPTIONS <= self.main.size
        whole = few and self.main in distinct
        if not whole:
            self.main = self.finest
        self.count = self.main.size
        """The number of vertices of the main partition."""
        self._known = frozenset(distinct)
        self._scale, self._main = self._weighed()
        coarse = [self._over(part) for part in distinct if not (whole and part == self.main)]
        inside = np.asarray(self._scale)[None, :]
        for functions in coarse:  # Level by level: nested partitions share the first vectors.
            inside = _extended(inside, self._projected_onto_main(functions))
        if whole and exceptions:
            alone = np.zeros((len(exceptions), self.count))
            alone[np.arange(len(exceptions)), list(exceptions)] = 1
            inside = _extended(inside, alone if self._main is None else alone @ self._main)
        basis = inside
        if self._main is not None:
            for functions in coarse:
                outside = functions - self._projected_onto_main(functions)
                basis = _extended(basis, outside)
        self.basis = basis
        """Over the vertices of the finest partition; first those of the main one's functions."""
        self.main_basis = inside if self._main is None else self._onto_main(inside)
        """The same over the vertices of the main partition, for functions of that one alone."""
        self.fine = self.count - len(inside) if whole else 0
        """Dimensions of the fine residual; 0 if it is written out."""
        self._coordinates: dict[Partition, Coordinates] = {}
        self._missed: dict[Partition, sparse.csr_array | None] = {}

    def _weighed(self) -> tuple[Floats, sparse.csr_array | None]:
        """Return what coefficients are multiplied by, and the main partition's functions.

        None if these are the vertices themselves.
        """
        ones = np.ones(self.finest.size)
        if self.main == self.finest:
            return ones, None
        functions = self.main.over(self.finest)
        pieces = np.asarray(functions.sum(axis=1)).reshape(-1)
        scale = np.sqrt(functions.T @ (self.finest.size / (self.count * pieces)))
        return scale, sparse.csr_array(functions * scale[None, :])

    def _over(self, part: Partition) -> Floats:
        """Return the functions of a partition over the finest vertices."""
        return np.asarray(part.over(self.finest).todense()) * self._scale

    def _onto_main(self, functions: Floats) -> Floats:
        """Return the projections of functions over the vertices of the main partition."""
        assert self._main is not None
        return np.asarray(functions @ self._main.T) * (self.count / self.finest.size)

    def _projected_onto_main(self, functions: Floats) -> Floats:
        if self._main is None:
            return functions
        return np.asarray(self._onto_main(functions) @ self._main)

    def missed(self, part: Partition) -> sparse.csr_array | None:
        """Return what of a partition's functions lies outside of all that is known; None if none.

        A combination of functions is known if nothing is left of it here.
        """
        if part not in self._missed:
            self._missed[part] = None if self._covers(part) else self._left_of(part)
        return self._missed[part]

    def _covers(self, part: Partition) -> bool:
        return part in self._known or part == self.main or self.main.refines(part)

    def _left_of(self, part: Partition) -> sparse.csr_array | None:
        parts = []
        if not self.finest.refines(part):
            parts.append(self.finest.missed_of(part))
        if self._main is not None:
            functions = self._over(part)
            along = functions @ self.basis.T / self.finest.size
            left = functions - self._projected_onto_main(functions)
            own = len(self.main_basis)
            parts.append(sparse.csr_array(left - along[:, own:] @ self.basis[own:]))
        if not parts:
            return None
        found = sparse.csr_array(sparse.hstack(parts))
        found.data[np.abs(found.data) < NEGLIGIBLE] = 0
        found.eliminate_zeros()
        return found if found.nnz else None

    def coordinates(self, part: Partition) -> Coordinates:
        """Return where the functions of a partition lie."""
        if part not in self._coordinates:
            self._coordinates[part] = self._worked_out(part)
        return self._coordinates[part]

    def _worked_out(self, part: Partition) -> Coordinates:
        size, own = self.finest.size, len(self.main_basis)
        if part == self.finest and self._main is None:
            lift, coarse = None, self.basis.T / size
            lengths = projected = np.full(size, 1 / size)
        else:
            over = sparse.csr_array(part.over(self.finest) * self._scale[None, :])
            coarse = np.asarray(over @ self.basis.T) / size
            lengths = np.asarray((over**2).sum(axis=1)).reshape(-1) / size
            if self._main is None:
                lift, projected = over, lengths
            else:
                lift = sparse.csr_array(over @ self._main.T) * (self.count / size)
                projected = np.asarray((lift**2).sum(axis=1)).reshape(-1) / self.count
        used = np.flatnonzero(np.abs(coarse).max(axis=0) > NEGLIGIBLE / size)
        fine = np.maximum(projected - (coarse[:, :own] ** 2).sum(axis=1), 0.0)
        fine[fine < NEGLIGIBLE * lengths] = 0
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
        return np.asarray(rows - (rows @ self.main_basis.T / self.count) @ self.main_basis)


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
    """The functions projected onto the main partition's; None for the finest one itself."""

    @property
    def holds_fine(self) -> bool:
        """Whether a function has a part in the fine residual."""
        return bool(self.fine.any())


def main_partition(parts: Sequence[Partition]) -> Partition:
    """Return the partition with the fine residual; the finest common one if none of these has it.

    A flat one is worth it if what it adds to the basis, two functions for each of the others at
    most, is less than itself.
    """
    finest = common(sorted(parts, key=lambda part: (part.size, part.key)))
    largest = max(parts, key=lambda part: (part.is_flat, part.size, part.key))
    others = sum(part.size for part in parts if part != largest)
    if finest in parts or not largest.is_flat or 2 * others > largest.size:
        return finest
    return largest


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
    rank = int((np.abs(np.diag(r)) > NEGLIGIBLE * max(1.0, float(np.abs(functions).max()))).sum())
    return np.vstack([basis, q[:, :rank].T * math.sqrt(count)])
